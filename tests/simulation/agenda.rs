//! What happens when: the only clock of the simulation.

use std::collections::BTreeMap;

use ringwall::time::Time;

/// Events in the order of their time, and of their making where that is equal.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    now: Time,
    entries: BTreeMap<(Time, u64), E>,
    made: u64,
}

impl<E> Agenda<E> {
    pub(crate) const fn new(now: Time) -> Self {
        Self { now, entries: BTreeMap::new(), made: 0 }
    }

    pub(crate) const fn now(&self) -> Time {
        self.now
    }

    pub(crate) fn add(&mut self, at: Time, event: E) {
        assert!(at >= self.now, "an event in the past");
        self.made += 1;
        self.entries.insert((at, self.made), event);
    }

    /// When the next event is.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.entries.first_key_value().map(|(&(at, _), _)| at)
    }

    /// The next event whose time has come.
    pub(crate) fn take_due(&mut self) -> Option<E> {
        let entry = self.entries.first_entry()?;
        (entry.key().0 <= self.now).then(|| entry.remove())
    }

    pub(crate) fn advance_to(&mut self, time: Time) {
        assert!(time >= self.now, "time goes back");
        self.now = time;
    }
}
