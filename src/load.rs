//! How much a shard has to do: written by the shard, read by the dispatcher when it places a client.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::time::Time;

/// How long what a shard has said of how busy it is holds. Far above a turn, so that only a shard that sleeps is silent for
/// so long.
const BUSY_HOLDS: Duration = Duration::from_secs(1);

/// How much a shard has to do, as it said last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Sessions whose pending flag is set.
    pub pending: u32,
    /// Sessions in their handshake.
    pub handshakes: u32,
    /// Share of the recent past not spent waiting, in thousandths.
    pub busy_permille: u32,
    /// When that was measured.
    pub measured_at: Time,
}

/// Two cache lines: neighbouring lines are fetched together, so less would still be shared between cores.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// A shard's published load. One thread writes it; a reader may see numbers of two neighbouring writes mixed, which
/// placement does not mind.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct LoadCell {
    pending: AtomicU32,
    handshakes: AtomicU32,
    busy_permille: AtomicU32,
    /// When that was measured, in nanoseconds on the monotonic clock.
    busy_measured_at: AtomicU64,
    /// Sessions that were only told why they are not served and have ended since the start. Taken from what it has handed
    /// over, they tell the dispatcher exactly how many are open.
    refusals_ended: Apart<AtomicU64>,
    /// The same over all sessions.
    ended_in_all: Apart<AtomicU64>,
}

impl LoadCell {
    /// Publishes the load; to be called by the owning shard only, once per turn.
    pub fn publish(&self, load: Load) {
        self.pending.store(load.pending, Ordering::Relaxed);
        self.handshakes.store(load.handshakes, Ordering::Relaxed);
        self.busy_permille.store(load.busy_permille, Ordering::Relaxed);
        self.busy_measured_at.store(load.measured_at.as_nanos(), Ordering::Relaxed);
    }

    /// Counts a session as ended; to be called by the owning shard only.
    pub fn count_ended(&self) {
        add_one(&self.ended_in_all);
    }

    /// As [`LoadCell::count_ended`], of a session that was only told why it is not served.
    pub fn count_refusal_ended(&self) {
        // In this order: whoever sees an end among all sees it among the refusals.
        add_one(&self.refusals_ended);
        add_one(&self.ended_in_all);
    }

    /// What was published last, or nearly so. A shard that sleeps publishes nothing, so one that has measured nothing for a
    /// second before `now` is not busy.
    #[must_use]
    pub fn read(&self, now: Time) -> Load {
        let measured_at = Time::from_nanos(self.busy_measured_at.load(Ordering::Relaxed));
        let holds = now.since(measured_at) < BUSY_HOLDS;
        Load {
            pending: self.pending.load(Ordering::Relaxed),
            handshakes: self.handshakes.load(Ordering::Relaxed),
            busy_permille: if holds { self.busy_permille.load(Ordering::Relaxed) } else { 0 },
            measured_at,
        }
    }

    /// Sessions that were only told why they are not served and have ended since the start.
    #[must_use]
    pub fn refusals_ended(&self) -> u64 {
        self.refusals_ended.0.load(Ordering::Acquire)
    }

    /// Sessions that have ended since the start, all together.
    #[must_use]
    pub fn ended_in_all(&self) -> u64 {
        self.ended_in_all.0.load(Ordering::Acquire)
    }
}

/// No read-modify-write: the calling thread is the only one that writes.
fn add_one(Apart(cell): &Apart<AtomicU64>) {
    cell.store(cell.load(Ordering::Relaxed) + 1, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_tells_what_was_published_and_counts_ends_apart() {
        let cell = LoadCell::default();
        let measured_at = Time::from_nanos(5_000_000_000);
        let load = Load { pending: 3, handshakes: 2, busy_permille: 750, measured_at };
        cell.publish(load);
        cell.count_ended();
        cell.count_ended();
        assert_eq!(cell.read(Time::from_nanos(5_100_000_000)), load);
        cell.count_refusal_ended();
        assert_eq!((cell.refusals_ended(), cell.ended_in_all()), (1, 3));
    }

    #[test]
    fn a_shard_that_has_fallen_asleep_is_not_busy_for_ever() {
        let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
        let cell = LoadCell::default();
        let load = Load { pending: 3, handshakes: 2, busy_permille: 990, measured_at: at(5_000) };
        cell.publish(load);
        assert_eq!(cell.read(at(5_999)), load);
        assert_eq!(cell.read(at(6_000)), Load { busy_permille: 0, ..load });
        // The reader's clock was read before the writer's.
        assert_eq!(cell.read(at(4_999)), load);
    }
}
