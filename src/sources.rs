//! How many connections each source has open: the dispatcher counts them up, shards count them down.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// A source's place among the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceSlot(pub u32);

/// Open connections, one count for each source that may have some. Its clones are the same counts.
///
/// A count is written twice in a connection's life, and never while bytes flow. One that has come down to zero stays
/// there until the dispatcher counts it up again, so the dispatcher may give the slot to another source.
///
/// They take memory from the first connection on that is counted: where no listener limits its sources, none is.
#[derive(Clone, Debug)]
pub struct SourceCounts {
    slots: usize,
    counts: Arc<OnceLock<Box<[AtomicU32]>>>,
}

impl SourceCounts {
    /// `slots` counts of zero.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        Self { slots, counts: Arc::default() }
    }

    /// How many there are.
    #[must_use]
    pub const fn slots(&self) -> usize {
        self.slots
    }

    /// Connections that are open. Panics when there is no such slot.
    #[must_use]
    pub fn open(&self, slot: SourceSlot) -> u32 {
        self.count(slot).load(Ordering::Acquire)
    }

    fn count(&self, slot: SourceSlot) -> &AtomicU32 {
        let counts = self.counts.get_or_init(|| (0..self.slots).map(|_| AtomicU32::new(0)).collect());
        &counts[slot.0 as usize]
    }

    /// Counts a connection as open; to be called by the dispatcher only. Panics when there is no such slot.
    pub fn count_opened(&self, slot: SourceSlot) {
        self.count(slot).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection as ended; to be called once for each that was counted as open.
    pub fn count_ended(&self, slot: SourceSlot) {
        let before = self.count(slot).fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "a connection has ended twice");
    }
}
