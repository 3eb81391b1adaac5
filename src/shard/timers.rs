//! When sessions must be looked at again.
//!
//! Deadlines move later with every byte; a timer does not follow. It fires at the deadline known when it was set, and
//! is then set again at the real one. So traffic costs no timer work at all.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::token::SessionId;
use crate::time::Time;

/// A shard's timers.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Time, u32, u32)>>,
}

impl Timers {
    /// Sets a timer. A session may have several; the useless ones are found stale when they fire.
    pub(super) fn set(&mut self, at: Time, id: SessionId) {
        self.heap.push(Reverse((at, id.slot, id.generation)));
    }

    /// When the next timer fires.
    pub(super) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes one timer that has come.
    pub(super) fn take_due(&mut self, now: Time) -> Option<(Time, SessionId)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((at, slot, generation))| (at, SessionId { slot, generation }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_of_time_and_not_early() {
        let mut timers = Timers::default();
        let id = |slot| SessionId { slot, generation: 1 };
        timers.set(Time::from_nanos(30), id(3));
        timers.set(Time::from_nanos(10), id(1));
        timers.set(Time::from_nanos(20), id(2));
        assert_eq!(timers.next(), Some(Time::from_nanos(10)));
        assert_eq!(timers.take_due(Time::from_nanos(9)), None);
        assert_eq!(timers.take_due(Time::from_nanos(20)), Some((Time::from_nanos(10), id(1))));
        assert_eq!(timers.take_due(Time::from_nanos(20)), Some((Time::from_nanos(20), id(2))));
        assert_eq!(timers.take_due(Time::from_nanos(20)), None);
    }
}
