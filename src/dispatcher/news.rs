//! What the log is told of clients that were not let in: numbers, added up and told once a second, so that a flood
//! does not flood the log.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::events::{Denial, Event, EventSender};
use crate::ledger::Ledger;
use crate::time::Time;

/// How often the log is told at most, of each kind.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// The clients that one listener has not let in and the log has not been told of, by why.
#[derive(Debug, Default)]
pub(super) struct Denied {
    kinds: [News; Denial::ALL.len()],
}

/// Numbers that count up until they are told.
#[derive(Clone, Copy, Debug, Default)]
struct News {
    refused: u64,
    closed: u64,
    last: Option<SocketAddr>,
    /// When the next numbers may be told.
    tell_at: Time,
}

impl Denied {
    /// Counts a client: it is told so, or closed without a word.
    pub(super) fn count(&mut self, why: Denial, told: bool, client: Option<SocketAddr>) {
        let news = &mut self.kinds[why as usize];
        *(if told { &mut news.refused } else { &mut news.closed }) += 1;
        news.last = client;
    }

    /// When there is something to tell, if ever.
    pub(super) fn due_at(&self) -> Option<Time> {
        self.kinds.iter().filter_map(News::due_at).min()
    }

    /// Tells what is due; at the end what is left, however short the last time is ago.
    pub(super) fn tell(&mut self, listener: &Arc<Ledger>, now: Time, at_end: bool, events: &mut EventSender) {
        for (why, news) in Denial::ALL.into_iter().zip(&mut self.kinds) {
            if news.due_at().is_some_and(|due| due <= now || at_end) {
                let News { refused, closed, last: client, .. } = *news;
                let listener = Arc::clone(listener);
                events.send(Event::Denied { listener, why, refused, closed, client });
                *news = News { tell_at: now + TELL_EVERY, ..News::default() };
            }
        }
    }
}

impl News {
    fn due_at(&self) -> Option<Time> {
        (self.refused + self.closed > 0).then_some(self.tell_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{EventReceiver, events};
    use crate::io::Fd;
    use crate::mailbox::Doorbell;

    const fn at(millis: u64) -> Time {
        Time::from_nanos(60_000_000_000 + millis * 1_000_000)
    }

    /// What a listener tells: why, refused and closed, in the order of its events.
    fn told(denied: &mut Denied, now: Time, at_end: bool) -> Vec<(Denial, u64, u64)> {
        let (mut sender, mut receiver): (EventSender, EventReceiver) = events(8, Doorbell::new(), Fd(0));
        denied.tell(&Ledger::new(3, "public", 1), now, at_end, &mut sender);
        let mut told = Vec::new();
        while let Some(event) = receiver.receive() {
            let Event::Denied { listener, why, refused, closed, client: None } = event else { panic!("{event:?}") };
            assert_eq!(listener.name(), "public");
            told.push((why, refused, closed));
        }
        told
    }

    #[test]
    fn the_first_is_told_at_once_and_the_others_once_a_second() {
        let mut denied = Denied::default();
        assert_eq!((denied.due_at(), told(&mut denied, at(0), false)), (None, vec![]));
        denied.count(Denial::Connections, false, None);
        assert_eq!(told(&mut denied, at(0), false), [(Denial::Connections, 0, 1)]);
        (0..5).for_each(|_| denied.count(Denial::Connections, true, None));
        denied.count(Denial::Connections, false, None);
        assert_eq!((told(&mut denied, at(999), false), denied.due_at()), (vec![], Some(at(1_000))));
        assert_eq!(told(&mut denied, at(1_000), false), [(Denial::Connections, 5, 1)]);
        assert_eq!((denied.due_at(), told(&mut denied, at(5_000), false)), (None, vec![]));
    }

    #[test]
    fn a_flood_of_one_kind_does_not_keep_the_others_from_being_told() {
        let mut denied = Denied::default();
        denied.count(Denial::Network, false, None);
        assert_eq!(told(&mut denied, at(0), false), [(Denial::Network, 0, 1)]);
        (0..6).for_each(|_| denied.count(Denial::Network, false, None));
        for why in Denial::ALL.into_iter().skip(1).rev() {
            denied.count(why, true, None);
        }
        let others = [Denial::HandshakeRate, Denial::ConnectionRate, Denial::SourceConnections, Denial::Connections];
        assert_eq!(told(&mut denied, at(10), false), others.map(|why| (why, 1, 0)));
        assert_eq!(told(&mut denied, at(1_000), false), [(Denial::Network, 0, 6)]);
    }

    #[test]
    fn the_last_client_is_named() {
        let (mut sender, mut receiver): (EventSender, EventReceiver) = events(8, Doorbell::new(), Fd(0));
        let mut denied = Denied::default();
        let client = |port| Some(SocketAddr::from(([192, 0, 2, 1], port)));
        [1, 2, 3].into_iter().for_each(|port| denied.count(Denial::Network, false, client(port)));
        denied.tell(&Ledger::new(0, "public", 1), at(0), false, &mut sender);
        let event = receiver.receive();
        assert!(matches!(event, Some(Event::Denied { client: last, closed: 3, .. }) if last == client(3)), "{event:?}");
    }

    #[test]
    fn at_the_end_all_is_told() {
        let mut denied = Denied::default();
        let once = [(Denial::HandshakeRate, 0, 1)];
        denied.count(Denial::HandshakeRate, false, None);
        assert_eq!(told(&mut denied, at(0), false), once);
        denied.count(Denial::HandshakeRate, false, None);
        assert_eq!(told(&mut denied, at(1), false), []);
        assert_eq!(told(&mut denied, at(1), true), once);
        assert_eq!(told(&mut denied, at(1), true), []);
    }
}
