//! How many connections each source has open: the dispatcher counts them up, shards count them down.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A source's place among the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceSlot(pub u32);

/// Open connections, one count for each source that may have some. Its clones are the same counts.
///
/// A count is written twice in a connection's life, and never while bytes flow. One that has come down to zero stays
/// there until the dispatcher counts it up again, so the dispatcher may give the slot to another source.
#[derive(Clone, Debug, Default)]
pub struct SourceCounts(Arc<[AtomicU32]>);

impl SourceCounts {
    /// `slots` counts of zero.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        Self((0..slots).map(|_| AtomicU32::new(0)).collect())
    }

    /// How many there are.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.0.len()
    }

    /// Connections that are open. Panics when there is no such slot.
    #[must_use]
    pub fn open(&self, slot: SourceSlot) -> u32 {
        self.0[slot.0 as usize].load(Ordering::Acquire)
    }

    /// Counts a connection as open; to be called by the dispatcher only. Panics when there is no such slot.
    pub fn count_opened(&self, slot: SourceSlot) {
        self.0[slot.0 as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection as ended; to be called once for each that was counted as open.
    pub fn count_ended(&self, slot: SourceSlot) {
        let before = self.0[slot.0 as usize].fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "a connection has ended twice");
    }
}
