//! Which ended sessions get a line of the log: a sample of those that ended in good order, and of the others so many a
//! second, so that a scan does not fill the disk. What is left out of the others is counted, and told once a second. The
//! same goes for slow requests.

use crate::config::Log;
use crate::events::Event;
use crate::io::sys;
use crate::quota::Quota;
use crate::session::close::CloseReason;
use crate::time::Time;

/// The ends that are nobody's fault.
const ORDINARY: [CloseReason; 9] = [
    CloseReason::ClientClosed,
    CloseReason::ClientTruncated,
    CloseReason::BackendClosed,
    CloseReason::IdleTimeout,
    CloseReason::MaxLifetime,
    CloseReason::Drained,
    CloseReason::ServerDrained,
    CloseReason::ListenerDrained,
    CloseReason::Operator,
];

/// Decides about each ended session.
#[derive(Debug)]
pub(super) struct Pacing {
    /// One of so many ordinary ends has a line.
    sample: u32,
    /// Those since the last one that had.
    passed: u32,
    failures: Quota,
    slow: Quota,
}

impl Pacing {
    pub(super) fn new(log: &Log) -> Self {
        let quota = Quota::new(log.failures_per_second);
        Self { sample: log.sample, passed: 0, failures: quota.clone(), slow: quota }
    }

    /// Whether an event gets its lines.
    pub(super) fn admits(&mut self, event: &Event, now: Time) -> bool {
        match event {
            Event::Closed(record) => self.admits_end(record.reason, now),
            Event::Slow(_) => self.slow.admits(now),
            Event::SlowLeftOut { requests } => {
                self.slow.count_left_out(*requests, now);
                false
            }
            Event::Reached { .. }
            | Event::Stalled { .. }
            | Event::AcceptPaused { .. }
            | Event::AcceptResumed { .. }
            | Event::Denied { .. }
            | Event::Draining => true,
        }
    }

    /// Whether a session that ended for this reason, by its label, gets its lines.
    fn admits_end(&mut self, reason: &str, now: Time) -> bool {
        if ORDINARY.iter().any(|ordinary| ordinary.label() == reason) {
            self.passed = (self.passed + 1) % self.sample;
            return self.passed == 1 % self.sample;
        }
        self.failures.admits(now)
    }

    /// When there is something to tell, if ever.
    pub(super) fn due(&self) -> Option<Time> {
        [self.failures.due(), self.slow.due()].into_iter().flatten().min()
    }

    /// How many failures were left out, when their second is over.
    pub(super) fn take_left_out(&mut self, now: Time) -> Option<u64> {
        self.failures.take_left_out(now)
    }

    /// How many slow requests were left out, when their second is over.
    pub(super) fn take_slow_left_out(&mut self, now: Time) -> Option<u64> {
        self.slow.take_left_out(now)
    }
}

/// Waits until then; for ever when there is no such time.
pub(super) async fn until(due: Option<Time>) {
    match due {
        Some(due) => tokio::time::sleep(due.since(sys::now())).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::{LogFormat, LogLevel, LogTarget};
    use crate::events::SlowRecord;
    use crate::ledger::Ledger;

    const NOW: Time = Time::from_nanos(1_000_000_000);

    fn pacing(sample: u32, failures_per_second: u32) -> Pacing {
        let target = LogTarget::Stderr;
        let log =
            Log { target, format: LogFormat::Text, level: LogLevel::Info, sessions: true, sample, failures_per_second };
        Pacing::new(&log)
    }

    #[test]
    fn one_of_so_many_ordinary_ends_has_a_line_the_first_among_them() {
        let mut every = pacing(1, 1);
        assert!((0..5).all(|_| every.admits_end("client_closed", NOW)));
        let mut third = pacing(3, 1);
        let lines: Vec<_> = (0..7).map(|_| third.admits_end("client_closed", NOW)).collect();
        assert_eq!(lines, [true, false, false, true, false, false, true]);
    }

    #[test]
    fn failures_are_never_sampled_and_those_beyond_the_rate_are_left_out() {
        let mut pacing = pacing(1_000, 2);
        let admitted = (0..5).filter(|_| pacing.admits_end("handshake_failed", NOW)).count();
        assert_eq!((admitted, pacing.due()), (2, Some(Time::from_nanos(2_000_000_000))));
        assert_eq!(pacing.take_left_out(Time::from_nanos(2_000_000_000)), Some(3));
    }

    #[test]
    fn slow_requests_have_as_many_lines_of_their_own_and_those_that_shards_left_out_are_told_with_theirs() {
        let mut pacing = pacing(1, 2);
        let slow = Event::Slow(Box::new(SlowRecord {
            client: None,
            session: None,
            listener: Ledger::new(0, "public", 1),
            shard: 0,
            command: "get",
            took: Duration::from_millis(20),
            is_shared: true,
            in_front: 0,
        }));
        assert_eq!((0..5).filter(|_| pacing.admits(&slow, NOW)).count(), 2);
        assert!(!pacing.admits(&Event::SlowLeftOut { requests: 40 }, NOW));
        assert!(pacing.admits_end("handshake_failed", NOW));
        let due = Time::from_nanos(2_000_000_000);
        assert_eq!(
            (pacing.due(), pacing.take_left_out(due), pacing.take_slow_left_out(due)),
            (Some(due), None, Some(43))
        );
    }
}
