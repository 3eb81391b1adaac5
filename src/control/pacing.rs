//! Which ended sessions get a line of the log: a sample of those that ended in good order, and of the others so many a
//! second, so that a scan does not fill the disk. What is left out of the others is counted, and told once a second.

use std::time::Duration;

use tokio::time::Instant;

use crate::config::Log;
use crate::session::close::CloseReason;

/// How often the log is told at most of lines that were left out.
const SECOND: Duration = Duration::from_secs(1);

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
    failures_per_second: u32,
    second_ends: Instant,
    failures: u32,
    left_out: u64,
}

impl Pacing {
    pub(super) fn new(log: &Log, now: Instant) -> Self {
        let (sample, failures_per_second) = (log.sample, log.failures_per_second);
        Self { sample, passed: 0, failures_per_second, second_ends: now, failures: 0, left_out: 0 }
    }

    /// Whether a session that ended for this reason, by its label, gets its lines.
    pub(super) fn admits(&mut self, reason: &str, now: Instant) -> bool {
        if ORDINARY.iter().any(|ordinary| ordinary.label() == reason) {
            self.passed = (self.passed + 1) % self.sample;
            return self.passed == 1 % self.sample;
        }
        // What was left out is told first, and begins the next second.
        if now >= self.second_ends && self.left_out == 0 {
            self.second_ends = now + SECOND;
            self.failures = 0;
        }
        if self.failures < self.failures_per_second {
            self.failures += 1;
            return true;
        }
        self.left_out += 1;
        false
    }

    /// When there is something to tell, if ever.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.left_out > 0).then_some(self.second_ends)
    }

    /// How many failures were left out, when their second is over.
    pub(super) fn take_left_out(&mut self, now: Instant) -> Option<u64> {
        self.due().filter(|&due| due <= now)?;
        self.second_ends = now + SECOND;
        self.failures = 0;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Waits until then; for ever when there is no such time.
pub(super) async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{LogFormat, LogLevel, LogTarget};

    fn pacing(sample: u32, failures_per_second: u32) -> (Pacing, Instant) {
        let target = LogTarget::Stderr;
        let log =
            Log { target, format: LogFormat::Text, level: LogLevel::Info, sessions: true, sample, failures_per_second };
        let now = Instant::now();
        (Pacing::new(&log, now), now)
    }

    #[test]
    fn one_of_so_many_ordinary_ends_has_a_line_the_first_among_them() {
        let (mut every, now) = pacing(1, 1);
        assert!((0..5).all(|_| every.admits("client_closed", now)));
        let (mut third, now) = pacing(3, 1);
        let lines: Vec<_> = (0..7).map(|_| third.admits("client_closed", now)).collect();
        assert_eq!(lines, [true, false, false, true, false, false, true]);
    }

    #[test]
    fn failures_are_never_sampled_and_beyond_the_rate_counted_and_told_once_a_second() {
        let (mut pacing, start) = pacing(1_000, 2);
        let failures = |pacing: &mut Pacing, at: Instant, count: usize| {
            (0..count).filter(|_| pacing.admits("handshake_failed", at)).count()
        };
        assert_eq!(failures(&mut pacing, start, 5), 2);
        assert_eq!((pacing.due(), pacing.take_left_out(start)), (Some(start + SECOND), None));
        assert_eq!(failures(&mut pacing, start + SECOND / 2, 4), 0);
        assert_eq!(pacing.take_left_out(start + SECOND), Some(7));
        assert_eq!((pacing.due(), failures(&mut pacing, start + SECOND, 3)), (None, 2));
        assert_eq!(pacing.take_left_out(start + 2 * SECOND), Some(1));
        assert_eq!(failures(&mut pacing, start + 5 * SECOND, 2), 2);
        assert_eq!(pacing.due(), None);
    }
}
