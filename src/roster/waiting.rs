//! Sessions that wait for a place at one of a backend's servers, on all shards together.
//!
//! Each shard has a queue of its own, in the order of arrival. Here is what the shards tell each other: how many wait, so
//! that the bound is one for all, and since when the first of each does, so that no shard serves its own for long while
//! others have waited longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::Apart;
use crate::time::Time;

/// How much longer somebody on another shard may have waited than who is served. A shard that has somebody waiting looks
/// for places more often than this, so nobody is passed by for longer; and a few sessions may pass on each shard until the
/// others have looked, so places do not lie idle meanwhile.
const PASSED_BY_MAX: Duration = Duration::from_millis(20);

/// Nobody waits.
const NOBODY: u64 = u64::MAX;

/// What the shards know of each other's queues for one backend.
#[derive(Debug)]
pub struct Waiting {
    max: AtomicU32,
    total: Apart<AtomicU32>,
    /// Since when the first of each shard waits, in nanoseconds on the monotonic clock.
    first: Box<[Apart<AtomicU64>]>,
}

/// A session's claim to wait, counted until it is dropped.
#[derive(Debug)]
pub struct Waiter(Arc<Waiting>);

impl Waiting {
    /// Nobody on `shards` shards; at most `max` on all of them.
    #[must_use]
    pub fn new(max: u32, shards: usize) -> Self {
        let first = (0..shards).map(|_| Apart(AtomicU64::new(NOBODY))).collect();
        Self { max: AtomicU32::new(max), total: Apart::default(), first }
    }

    /// Has another bound for those that come from now on.
    pub fn set_max(&self, max: u32) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// How many wait.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.total.0.load(Ordering::Relaxed)
    }

    /// Whether somebody on another shard has waited for so much longer than since `since` that it must be served before.
    /// Panics when there is no such shard.
    #[must_use]
    pub fn passes_by(&self, shard: u16, since: Time) -> bool {
        let others = self.first.iter().enumerate().filter(|&(index, _)| index != usize::from(shard));
        let longest = others.map(|(_, first)| first.0.load(Ordering::Relaxed)).min().unwrap_or(NOBODY);
        longest != NOBODY && Time::from_nanos(longest) + PASSED_BY_MAX < since
    }

    /// Says since when the first of a shard's queue waits. To be called by that shard only; panics when there is none.
    pub fn publish(&self, shard: u16, since: Option<Time>) {
        self.first[usize::from(shard)].0.store(since.map_or(NOBODY, Time::as_nanos), Ordering::Relaxed);
    }
}

impl Waiter {
    /// One more that waits; `None` when as many do as may.
    #[must_use]
    pub fn new(waiting: &Arc<Waiting>) -> Option<Self> {
        let max = waiting.max.load(Ordering::Relaxed);
        let one_more = |total: u32| (total < max).then(|| total + 1);
        let entered = waiting.total.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        entered.is_ok().then(|| Self(Arc::clone(waiting)))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.total.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn as_many_wait_as_may() {
        let waiting = Arc::new(Waiting::new(2, 3));
        let (first, second) = (Waiter::new(&waiting), Waiter::new(&waiting));
        assert!(first.is_some() && second.is_some() && Waiter::new(&waiting).is_none());
        drop(first);
        assert!(waiting.total() == 1 && Waiter::new(&waiting).is_some());
        assert!(Waiter::new(&Arc::new(Waiting::new(0, 1))).is_none());
    }

    #[test]
    fn nobody_passes_by_who_has_waited_much_longer_on_another_shard() {
        let waiting = Waiting::new(10, 3);
        assert!(!waiting.passes_by(0, at(100)));
        waiting.publish(1, Some(at(80)));
        assert!(!waiting.passes_by(0, at(100)));
        assert!(waiting.passes_by(0, at(101)));
        assert!(!waiting.passes_by(1, at(101)));
        waiting.publish(1, None);
        assert!(!waiting.passes_by(0, at(101)));
    }
}
