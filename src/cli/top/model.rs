//! Two samples become rates.
//!
//! It is pure: it is told what was answered and when.

use std::collections::HashMap;

use super::counters::{Counters, Flows};
use super::sharing::Sharing;
use crate::control::admin::api::{Listener, Session, Status};
use crate::time::Time;

/// A session that holds bytes and has moved none for so long is shown as stalled; shards say so after the same time.
const STALLED_SECONDS: f64 = 5.0;

/// What was answered at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    /// When.
    pub(super) at: Time,
    pub(super) status: Status,
    pub(super) counters: Counters,
    pub(super) sessions: Vec<Session>,
    /// Whether these are all sessions that were asked for.
    pub(super) complete: bool,
}

/// Bytes of a client in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Pace {
    pub(super) received: f64,
    pub(super) sent: f64,
}

impl Pace {
    pub(super) const fn both(self) -> f64 {
        self.received + self.sent
    }
}

/// A sample, and what it says together with the one before it.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    pub(super) sample: Sample,
    /// None before the second sample, and when another process answers.
    pub(super) rates: Option<Flows>,
    /// Of each session of the sample.
    pub(super) paces: Vec<Pace>,
    /// Of each listener of the sample whose clients share connections.
    pub(super) sharing: Vec<Sharing>,
}

impl Picture {
    /// `before` is what was shown last.
    pub(super) fn of(sample: Sample, before: Option<&Self>) -> Self {
        let before = before.map(|before| &before.sample).filter(|before| sample.at > before.at);
        let rates = before.and_then(|before| {
            let seconds = sample.at.since(before.at).as_secs_f64();
            sample.counters.flows.rates(&before.counters.flows, seconds)
        });
        let before = before.filter(|_| rates.is_some());
        let (paces, sharing) = (paces(before, &sample), sharing(before, &sample));
        Self { sample, rates, paces, sharing }
    }

    /// The listeners whose clients share connections.
    pub(super) fn multiplexed(&self) -> impl Iterator<Item = &Listener> {
        multiplexed(&self.sample)
    }
}

fn multiplexed(sample: &Sample) -> impl Iterator<Item = &Listener> {
    sample.status.listeners.iter().filter(|listener| listener.shared_connections.is_some())
}

/// A listener that nobody has come to has counted nothing.
fn sharing(before: Option<&Sample>, sample: &Sample) -> Vec<Sharing> {
    let of = |listener: &Listener| {
        let before = before?;
        let counted = |sample: &Sample| sample.counters.requests.get(&listener.name).copied().unwrap_or_default();
        let seconds = sample.at.since(before.at).as_secs_f64();
        Some(Sharing::between(&counted(before), &counted(sample), seconds))
    };
    multiplexed(sample).map(|listener| of(listener).unwrap_or_default()).collect()
}

/// A session that was accepted since has moved all its bytes since. Nothing is known of one that was there and was not
/// looked at before, nor of any without a sample before.
fn paces(before: Option<&Sample>, sample: &Sample) -> Vec<Pace> {
    let Some(before) = before else { return vec![Pace::default(); sample.sessions.len()] };
    let seconds = sample.at.since(before.at).as_secs_f64();
    let known: HashMap<&str, &Session> = before.sessions.iter().map(|session| (&*session.id, session)).collect();
    let pace = |session: &Session| match known.get(&*session.id) {
        Some(then) => Pace {
            received: session.client_rx_bytes.saturating_sub(then.client_rx_bytes) as f64 / seconds,
            sent: session.client_tx_bytes.saturating_sub(then.client_tx_bytes) as f64 / seconds,
        },
        None if session.age_seconds <= seconds => {
            Pace { received: session.client_rx_bytes as f64 / seconds, sent: session.client_tx_bytes as f64 / seconds }
        }
        None => Pace::default(),
    };
    sample.sessions.iter().map(pace).collect()
}

/// Whether a session holds bytes that nobody takes.
pub(super) fn is_stalled(session: &Session) -> bool {
    session.pending && session.idle_seconds >= STALLED_SECONDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::counters::Requests;
    use crate::cli::top::examples::{sample, session};

    fn at(millis: u64, change: impl FnOnce(&mut Sample)) -> Sample {
        let mut sample = sample();
        sample.at = Time::from_nanos(millis * 1_000_000);
        change(&mut sample);
        sample
    }

    #[test]
    fn rates_are_differences_over_the_time_between() {
        let first = Picture::of(at(1_000, |_| {}), None);
        assert_eq!(first.rates, None);
        let later = at(3_000, |sample| {
            sample.counters.flows = Flows {
                connections: 1_024.0,
                handshakes: 905.0,
                handshakes_failed: 31.0,
                rejected: 4.0,
                from_clients: 2_001_000.0,
                to_clients: 40_000_000.0,
                from_servers: 40_000_002.0,
                to_servers: 2_000_000.0,
            };
        });
        let expected = Flows {
            connections: 12.0,
            handshakes: 2.5,
            handshakes_failed: 0.5,
            rejected: 0.0,
            from_clients: 500.0,
            to_clients: 5_000_000.0,
            from_servers: 1.0,
            to_servers: 0.0,
        };
        assert_eq!(Picture::of(later, Some(&first)).rates, Some(expected));
    }

    #[test]
    fn a_restarted_ringwall_has_no_rates_until_its_second_sample() {
        let first = Picture::of(at(1_000, |_| {}), None);
        let restarted = Picture::of(at(2_000, |sample| sample.counters = Counters::default()), Some(&first));
        assert_eq!(restarted.rates, None);
        assert!(restarted.paces.iter().all(|pace| *pace == Pace::default()));
        let next = Picture::of(at(3_000, |sample| sample.counters = Counters::default()), Some(&restarted));
        assert!(next.rates.is_some());
    }

    #[test]
    fn a_session_has_its_pace_since_the_sample_before_or_since_it_was_accepted() {
        let first = Picture::of(at(1_000, |sample| sample.sessions = vec![session("0-1-1", 100, 200)]), None);
        let mut new = session("0-2-1", 50, 70);
        new.age_seconds = 0.5;
        let old = session("0-3-1", 1_000, 1_000);
        let later = at(3_000, |sample| sample.sessions = vec![new, session("0-1-1", 120, 260), old]);
        let paces = Picture::of(later, Some(&first)).paces;
        let expected = [(25.0, 35.0), (10.0, 30.0), (0.0, 0.0)].map(|(received, sent)| Pace { received, sent });
        assert_eq!(paces, expected);
    }

    #[test]
    fn stalled_is_what_holds_bytes_and_has_moved_none_for_five_seconds() {
        for (pending, idle_seconds, stalled) in [(true, 5.0, true), (true, 4.9, false), (false, 60.0, false)] {
            let session = Session { pending, idle_seconds, ..session("0-1-1", 1, 1) };
            assert_eq!(is_stalled(&session), stalled);
        }
    }

    #[test]
    fn listeners_whose_clients_share_connections_have_what_came_of_their_requests_since_the_sample_before() {
        let multiplexed = |sample: &mut Sample, shared: f64| {
            sample.status.listeners[1].shared_connections = Some(1);
            let requests = Requests { shared, own: 0.0, ..Requests::default() };
            sample.counters.requests.insert("internal".to_owned(), requests);
        };
        let first = Picture::of(at(1_000, |sample| multiplexed(sample, 50.0)), None);
        assert_eq!(first.sharing, [Sharing::default()]);
        let second = Picture::of(at(3_000, |sample| multiplexed(sample, 90.0)), Some(&first));
        assert_eq!(second.sharing[0].shared_rate, Some(20.0));
        assert_eq!(second.multiplexed().map(|listener| &*listener.name).collect::<Vec<_>>(), ["internal"]);
    }
}
