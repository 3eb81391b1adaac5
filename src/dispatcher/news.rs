//! What the log is told of clients that were not let in: numbers, added up and told once a second, so that a flood
//! does not flood the log.

use std::time::Duration;

use crate::events::{Event, EventSender};
use crate::time::Time;

/// How often the log is told at most.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// The clients that one listener has not let in and the log has not been told of.
#[derive(Debug, Default)]
pub(super) struct Refused {
    too_fast: News<1>,
    /// Those that are told, and those that are not.
    at_limit: News<2>,
}

impl Refused {
    /// Counts one that came faster than the listener's rates allow.
    pub(super) const fn count_too_fast(&mut self) {
        self.too_fast.untold[0] += 1;
    }

    /// Counts one that came while a limit of connections was reached: it is told so, or closed without a word.
    pub(super) const fn count_at_limit(&mut self, told: bool) {
        self.at_limit.untold[if told { 0 } else { 1 }] += 1;
    }

    /// When there is something to tell, if ever.
    pub(super) fn due_at(&self) -> Option<Time> {
        [self.too_fast.due_at(), self.at_limit.due_at()].into_iter().flatten().min()
    }

    /// Tells what is due; at the end what is left, however short the last time is ago.
    pub(super) fn tell(&mut self, listener: u16, now: Time, at_end: bool, events: &mut EventSender) {
        if let Some([clients]) = self.too_fast.take(now, at_end) {
            events.send(Event::TooFast { listener, clients });
        }
        if let Some([refused, closed]) = self.at_limit.take(now, at_end) {
            events.send(Event::LimitReached { listener, refused, closed });
        }
    }
}

/// Numbers that count up until they are told.
#[derive(Debug)]
struct News<const N: usize> {
    untold: [u64; N],
    /// When the next numbers may be told.
    tell_at: Time,
}

impl<const N: usize> Default for News<N> {
    fn default() -> Self {
        Self { untold: [0; N], tell_at: Time::default() }
    }
}

impl<const N: usize> News<N> {
    fn due_at(&self) -> Option<Time> {
        self.untold.iter().any(|&number| number > 0).then_some(self.tell_at)
    }

    fn take(&mut self, now: Time, at_end: bool) -> Option<[u64; N]> {
        if self.due_at()? > now && !at_end {
            return None;
        }
        self.tell_at = now + TELL_EVERY;
        Some(std::mem::replace(&mut self.untold, [0; N]))
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

    /// What listener 3 tells: too fast, refused and closed, in the order of its events.
    fn told(refused: &mut Refused, now: Time, at_end: bool) -> Vec<(u64, u64, u64)> {
        let (mut sender, mut receiver): (EventSender, EventReceiver) = events(8, Doorbell::new(), Fd(0));
        refused.tell(3, now, at_end, &mut sender);
        let mut told = Vec::new();
        while let Some(event) = receiver.receive() {
            if let Event::TooFast { listener: 3, clients } = event {
                told.push((clients, 0, 0));
            } else if let Event::LimitReached { listener: 3, refused, closed } = event {
                told.push((0, refused, closed));
            } else {
                panic!("{event:?}");
            }
        }
        told
    }

    #[test]
    fn the_first_is_told_at_once_and_the_others_once_a_second() {
        let mut refused = Refused::default();
        assert_eq!((refused.due_at(), told(&mut refused, at(0), false)), (None, vec![]));
        refused.count_at_limit(false);
        assert_eq!(told(&mut refused, at(0), false), [(0, 0, 1)]);
        (0..5).for_each(|_| refused.count_at_limit(true));
        refused.count_at_limit(false);
        assert_eq!((told(&mut refused, at(999), false), refused.due_at()), (vec![], Some(at(1_000))));
        assert_eq!(told(&mut refused, at(1_000), false), [(0, 5, 1)]);
        assert_eq!((refused.due_at(), told(&mut refused, at(5_000), false)), (None, vec![]));
    }

    #[test]
    fn a_flood_of_one_kind_does_not_keep_the_other_from_being_told() {
        let mut refused = Refused::default();
        refused.count_too_fast();
        assert_eq!(told(&mut refused, at(0), false), [(1, 0, 0)]);
        (0..6).for_each(|_| refused.count_too_fast());
        refused.count_at_limit(true);
        assert_eq!(told(&mut refused, at(10), false), [(0, 1, 0)]);
        assert_eq!(told(&mut refused, at(1_000), false), [(6, 0, 0)]);
    }

    #[test]
    fn at_the_end_all_is_told() {
        let mut refused = Refused::default();
        refused.count_too_fast();
        assert_eq!(told(&mut refused, at(0), false), [(1, 0, 0)]);
        refused.count_too_fast();
        assert_eq!(told(&mut refused, at(1), false), []);
        assert_eq!(told(&mut refused, at(1), true), [(1, 0, 0)]);
        assert_eq!(told(&mut refused, at(1), true), []);
    }
}
