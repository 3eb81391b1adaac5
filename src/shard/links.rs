//! A shard's ties to the rest of the program: all of them one-way, bounded and lock-free.

use std::sync::Arc;
use std::time::Duration;

use super::Order;
use crate::events::EventSender;
use crate::io::RingHandle;
use crate::load::LoadCell;
use crate::mailbox::{Doorbell, PendingPublisher, Receiver};
use crate::metrics::Tally;
use crate::sources::SourceCounts;
use crate::time::Time;

/// What connects a shard with dispatcher and control plane.
#[derive(Debug)]
pub struct Links {
    /// The dispatcher's orders.
    pub mailbox: Receiver<Order>,
    /// Pending flags to the dispatcher.
    pub pending: PendingPublisher,
    /// Load, for placement.
    pub load: Arc<LoadCell>,
    /// Open connections of each source, where a listener limits them.
    pub sources: SourceCounts,
    /// What it counts.
    pub tally: Arc<Tally>,
    /// Whether the dispatcher sleeps.
    pub dispatcher_doorbell: Doorbell,
    /// How it is woken.
    pub dispatcher: RingHandle,
    /// What the log should say.
    pub events: EventSender,
    /// How busy the shard is.
    pub meter: BusyMeter,
}

/// Measures which share of its time a loop does not spend waiting, over windows of a tenth of a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct BusyMeter {
    /// None until the loop has waited for the first time: what was before was not its time.
    window_start: Option<Time>,
    waited: Duration,
    permille: u32,
}

const WINDOW: Duration = Duration::from_millis(100);

impl BusyMeter {
    /// Counts the time from `from` to `until` as waiting.
    pub fn record(&mut self, from: Time, until: Time) {
        let _ = self.window_start.get_or_insert(from);
        self.waited += until.since(from);
    }

    /// When the last full window ended.
    #[must_use]
    pub fn measured_at(&self) -> Time {
        self.window_start.unwrap_or_default()
    }

    /// The busy share of the last full window, in thousandths.
    pub fn busy_permille(&mut self, now: Time) -> u32 {
        let Some(start) = self.window_start else { return 0 };
        let window = now.since(start);
        if window >= WINDOW {
            let busy = window.saturating_sub(self.waited).as_nanos() * 1000 / window.as_nanos();
            self.permille = u32::try_from(busy).unwrap_or(1000);
            self.window_start = Some(now);
            self.waited = Duration::ZERO;
        }
        self.permille
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_waits_a_quarter_of_the_time_is_three_quarters_busy() {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut meter = BusyMeter::default();
        meter.record(at(0), at(25));
        assert_eq!(meter.busy_permille(at(99)), 0);
        assert_eq!(meter.busy_permille(at(100)), 750);
        assert_eq!(meter.busy_permille(at(150)), 750);
        assert_eq!(meter.busy_permille(at(200)), 1000);
    }

    #[test]
    fn a_loop_that_has_only_waited_is_not_busy_however_long_the_machine_runs() {
        let at = |seconds: u64| Time::from_nanos(seconds * 1_000_000_000);
        let mut meter = BusyMeter::default();
        assert_eq!(meter.busy_permille(at(86_400)), 0);
        meter.record(at(86_400), at(86_410));
        assert_eq!(meter.busy_permille(at(86_410)), 0);
    }
}
