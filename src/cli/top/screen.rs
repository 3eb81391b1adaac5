//! What the person at the terminal looks at: the pane, the rows marked, the filter, the order, and what is being asked.

use std::cmp::Ordering;
use std::net::IpAddr;

use super::change::Change;
use super::model::{Pace, Picture, is_stalled};
use crate::control::admin::api::Session;
use crate::time::Time;

/// A part of the screen with rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pane {
    Shards,
    Listeners,
    /// Listeners whose clients share connections, where there are any.
    Multiplexed,
    Servers,
    Sessions,
}

impl Pane {
    /// All that there may be, from top to bottom.
    const ALL: [Self; 5] = [Self::Shards, Self::Listeners, Self::Multiplexed, Self::Servers, Self::Sessions];

    /// Its place in [`Self::ALL`].
    const fn index(self) -> usize {
        self as usize
    }

    /// Those that there are, from top to bottom.
    pub(super) fn shown(picture: Option<&Picture>) -> Vec<Self> {
        let is_multiplexed = picture.is_some_and(|picture| !picture.sharing.is_empty());
        Self::ALL.into_iter().filter(|&pane| pane != Self::Multiplexed || is_multiplexed).collect()
    }
}

/// What sessions are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Stalled ones first, then by bytes in a second.
    Pace,
    Age,
    Idle,
    /// Bytes since accept.
    Bytes,
    Client,
}

impl Order {
    const ALL: [Self; 5] = [Self::Pace, Self::Age, Self::Idle, Self::Bytes, Self::Client];

    /// What comes first, in words.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Pace => "stalled, then busiest first",
            Self::Age => "oldest first",
            Self::Idle => "longest idle first",
            Self::Bytes => "most bytes first",
            Self::Client => "by client",
        }
    }

    pub(super) fn next(self) -> Self {
        let place = Self::ALL.iter().position(|order| *order == self).unwrap_or(0);
        Self::ALL[(place + 1) % Self::ALL.len()]
    }

    fn compare(self, (left, left_pace): (&Session, Pace), (right, right_pace): (&Session, Pace)) -> Ordering {
        let bytes = |session: &Session| session.client_rx_bytes.saturating_add(session.client_tx_bytes);
        let order = match self {
            Self::Pace => {
                let stalled = is_stalled(right).cmp(&is_stalled(left));
                stalled.then(right_pace.both().total_cmp(&left_pace.both()))
            }
            Self::Age => right.age_seconds.total_cmp(&left.age_seconds),
            Self::Idle => right.idle_seconds.total_cmp(&left.idle_seconds),
            Self::Bytes => bytes(right).cmp(&bytes(left)),
            Self::Client => left.client.cmp(&right.client),
        };
        // So that equal ones keep their places from one sample to the next.
        order.then_with(|| left.id.cmp(&right.id))
    }
}

/// What keys mean at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Watching,
    /// A filter is being typed; this was in force before.
    Filtering(String),
    /// Whether a change is meant.
    Asking(Change),
    Help,
}

/// Whether ringwall answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// It has not been asked yet, or has answered.
    Good,
    /// It has not answered since, and why.
    Lost { since: Time, why: String },
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) good: bool,
    pub(super) text: String,
}

/// What the person looks at.
#[derive(Clone, Debug)]
pub(super) struct Screen {
    pub(super) pane: Pane,
    /// The name of the marked row of each pane.
    marked: [Option<String>; Pane::ALL.len()],
    pub(super) order: Order,
    /// A part of a client's address or of a listener's name; empty for all.
    pub(super) filter: String,
    pub(super) mode: Mode,
    /// Shown until the next key.
    pub(super) notice: Option<Notice>,
    pub(super) link: Link,
}

impl Screen {
    /// All sessions, the busiest first.
    pub(super) fn new() -> Self {
        Self {
            pane: Pane::Sessions,
            marked: [const { None }; Pane::ALL.len()],
            order: Order::Pace,
            filter: String::new(),
            mode: Mode::Watching,
            notice: None,
            link: Link::Good,
        }
    }

    /// Where the sessions to be shown are in the picture, in the order wanted.
    pub(super) fn sessions(&self, picture: &Picture) -> Vec<usize> {
        let all = &picture.sample.sessions;
        // Clients' addresses are written in one way, and a filter may be in another.
        let address = self.filter.parse::<IpAddr>();
        let filter = address.map_or_else(|_| self.filter.to_lowercase(), |address| address.to_string());
        let holds = |text: &str| text.to_lowercase().contains(&filter);
        let fits = |session: &Session| holds(session.client.as_deref().unwrap_or_default()) || holds(&session.listener);
        let mut shown: Vec<usize> = (0..all.len()).filter(|&index| fits(&all[index])).collect();
        let of = |index: usize| (&all[index], picture.paces[index]);
        shown.sort_by(|&left, &right| self.order.compare(of(left), of(right)));
        shown
    }

    /// What ringwall is asked for, so that a filter reaches sessions beyond those that are fetched: a whole address, or
    /// the whole name of a listener.
    pub(super) fn narrowing(&self, picture: Option<&Picture>) -> Option<(&'static str, String)> {
        if let Ok(address) = self.filter.parse::<IpAddr>() {
            return Some(("client", address.to_string()));
        }
        let listeners = picture.map(|picture| &*picture.sample.status.listeners).unwrap_or_default();
        let known = listeners.iter().any(|listener| listener.name == self.filter);
        // Another's name, or an address, may hold this one.
        let alone = listeners.iter().filter(|listener| listener.name.contains(&self.filter)).count() == 1;
        let no_address = self.filter.chars().any(|c| !c.is_ascii_hexdigit() && !".:[]".contains(c));
        (known && alone && no_address).then(|| ("listener", self.filter.clone()))
    }

    /// The names of a pane's rows, from top to bottom.
    fn names(&self, pane: Pane, picture: &Picture) -> Vec<String> {
        let status = &picture.sample.status;
        match pane {
            Pane::Shards => status.shards.iter().map(|shard| shard.shard.to_string()).collect(),
            Pane::Listeners => status.listeners.iter().map(|listener| listener.name.clone()).collect(),
            Pane::Multiplexed => picture.multiplexed().map(|listener| listener.name.clone()).collect(),
            Pane::Servers => {
                let servers = status.backends.iter().flat_map(|backend| {
                    backend.servers.iter().map(move |server| format!("{} {}", backend.name, server.address))
                });
                servers.collect()
            }
            Pane::Sessions => {
                let sessions = self.sessions(picture);
                sessions.into_iter().map(|index| picture.sample.sessions[index].id.clone()).collect()
            }
        }
    }

    /// The place of the marked row of a pane, if it is still there.
    pub(super) fn marked(&self, pane: Pane, picture: &Picture) -> Option<usize> {
        let name = self.marked[pane.index()].as_ref()?;
        self.names(pane, picture).iter().position(|row| row == name)
    }

    /// Marks the row so many places below the marked one, or above it; the first when none is marked.
    pub(super) fn mark(&mut self, by: isize, picture: &Picture) {
        let names = self.names(self.pane, picture);
        let place = match self.marked(self.pane, picture) {
            Some(place) => place.saturating_add_signed(by).min(names.len().saturating_sub(1)),
            None if by == isize::MAX => names.len().saturating_sub(1),
            None => 0,
        };
        self.marked[self.pane.index()] = names.into_iter().nth(place);
    }

    /// Marks nothing.
    pub(super) fn unmark(&mut self) {
        self.marked = [const { None }; Pane::ALL.len()];
    }

    /// Goes to the next pane, or to the one before.
    pub(super) fn turn(&mut self, forward: bool, picture: Option<&Picture>) {
        let shown = Pane::shown(picture);
        let by = if forward { 1 } else { shown.len() - 1 };
        let place = shown.iter().position(|&pane| pane == self.pane).unwrap_or_default();
        self.pane = shown[(place + by) % shown.len()];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::examples::{picture, sample, session};

    fn shown(screen: &Screen, picture: &Picture) -> Vec<String> {
        let sessions = screen.sessions(picture);
        sessions.into_iter().map(|index| picture.sample.sessions[index].id.clone()).collect()
    }

    #[test]
    fn sessions_are_sorted_by_what_is_wanted() {
        let mut sample = sample();
        let old = Session { age_seconds: 900.0, ..session("0-1-1", 10, 10) };
        let stalled = Session { pending: true, idle_seconds: 9.0, ..session("0-2-1", 1, 1) };
        let client = Some("10.0.0.1:1".to_owned());
        let talker = Session { client, ..session("0-3-1", 9_000, 9_000) };
        sample.sessions = vec![old, stalled, talker];
        let mut picture = Picture::of(sample, None);
        picture.paces[2] = Pace { received: 5.0, sent: 5.0 };
        let mut screen = Screen::new();
        for (order, ids) in [
            (Order::Pace, ["0-2-1", "0-3-1", "0-1-1"]),
            (Order::Age, ["0-1-1", "0-2-1", "0-3-1"]),
            (Order::Idle, ["0-2-1", "0-1-1", "0-3-1"]),
            (Order::Bytes, ["0-3-1", "0-1-1", "0-2-1"]),
            (Order::Client, ["0-3-1", "0-1-1", "0-2-1"]),
        ] {
            assert_eq!(screen.order, order);
            assert_eq!(shown(&screen, &picture), ids, "{order:?}");
            screen.order = screen.order.next();
        }
        assert_eq!(screen.order, Order::Pace);
    }

    #[test]
    fn a_mark_stays_on_its_session_wherever_that_is_sorted_to() {
        let mut sample = sample();
        sample.sessions = vec![session("0-1-1", 1, 1), session("0-2-1", 2, 2), session("0-3-1", 3, 3)];
        let mut picture = Picture::of(sample, None);
        let mut screen = Screen::new();
        assert_eq!(screen.marked(Pane::Sessions, &picture), None);
        screen.mark(1, &picture);
        screen.mark(1, &picture);
        assert_eq!(screen.marked(Pane::Sessions, &picture), Some(1));
        screen.order = Order::Bytes;
        picture.paces[1] = Pace { received: 1.0, sent: 0.0 };
        screen.order = Order::Pace;
        assert_eq!(screen.marked(Pane::Sessions, &picture), Some(0));
        picture.sample.sessions.remove(1);
        assert_eq!(screen.marked(Pane::Sessions, &picture), None);
        screen.mark(isize::MAX, &picture);
        assert_eq!(screen.marked(Pane::Sessions, &picture), Some(1));
    }

    #[test]
    fn a_filter_is_a_part_of_an_address_or_listener_and_a_whole_one_narrows_what_is_asked_for() {
        let picture = picture();
        let mut screen = Screen::new();
        for (filter, count, narrowing) in [
            ("", 3, None),
            ("10.0.3", 1, None),
            ("10.0.3.9", 1, Some(("client", "10.0.3.9"))),
            ("PUB", 2, None),
            ("public", 2, Some(("listener", "public"))),
            ("nobody", 0, None),
        ] {
            screen.filter = filter.to_owned();
            assert_eq!(screen.sessions(&picture).len(), count, "{filter}");
            let asked = screen.narrowing(Some(&picture));
            assert_eq!(asked.as_ref().map(|(name, value)| (*name, &**value)), narrowing, "{filter}");
        }
    }
}
