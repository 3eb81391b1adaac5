//! A listener as all threads see it: who it is, and how many clients each shard has had of it.
//!
//! It outlives the listener's place in the configuration: sessions hold it to their end, so their name is right in the
//! log and their end is counted where their beginning was, whatever reloads have changed meanwhile.
//!
//! Each page has one writer, the shard whose it is, so counting is a plain load, an addition and a plain store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::metrics::{Sharing, SharingTotals};

/// A listener's number and name, and its counts.
#[derive(Debug)]
pub struct Ledger {
    number: u32,
    name: Box<str>,
    pages: Box<[Page]>,
}

/// What one shard has counted. Two cache lines: neighbouring lines are fetched together, so less would still be shared
/// between cores.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Page {
    sessions: AtomicU64,
    ended: AtomicU64,
    /// Those of the ended that were let in.
    admitted_ended: AtomicU64,
    /// There once its sessions have shared connections.
    sharing: OnceLock<Arc<Sharing>>,
}

impl Ledger {
    /// Of a listener that nobody has come to yet; `number` is no other listener's that this process has or has had.
    #[must_use]
    pub fn new(number: u32, name: &str, shards: usize) -> Arc<Self> {
        Arc::new(Self { number, name: name.into(), pages: (0..shards).map(|_| Page::default()).collect() })
    }

    /// What tells it from all others.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Its name in the configuration.
    #[must_use]
    pub const fn name(&self) -> &str {
        &self.name
    }

    /// Counts a session that a shard has taken over; to be called by that shard only. Panics when there is none.
    pub fn count_session(&self, shard: u16) {
        add_one(&self.pages[usize::from(shard)].sessions);
    }

    /// Counts the end of a session that was counted; to be called by its shard only. Panics when there is none.
    pub fn count_ended(&self, shard: u16) {
        add_one(&self.pages[usize::from(shard)].ended);
    }

    /// Counts the end of a client that was let in; to be called by its shard only. Panics when there is none.
    pub fn count_admitted_ended(&self, shard: u16) {
        add_one(&self.pages[usize::from(shard)].admitted_ended);
    }

    /// Sessions that a shard has taken over, those that were only told of a limit among them. Panics when there is none.
    #[must_use]
    pub fn sessions(&self, shard: usize) -> u64 {
        self.pages[shard].sessions.load(Ordering::Acquire)
    }

    /// Sessions that are open on a shard, or were a moment ago. Panics when there is none.
    #[must_use]
    pub fn open(&self, shard: usize) -> u64 {
        let page = &self.pages[shard];
        // In this order, so that nobody is counted as ended who was not counted before.
        let ended = page.ended.load(Ordering::Acquire);
        page.sessions.load(Ordering::Acquire).saturating_sub(ended)
    }

    /// Sessions that are open on all shards, or were a moment ago.
    #[must_use]
    pub fn open_in_all(&self) -> u64 {
        (0..self.pages.len()).map(|shard| self.open(shard)).sum()
    }

    /// Where a shard counts what its sessions share; to be called by that shard only. Panics when there is none.
    #[must_use]
    pub fn sharing(&self, shard: u16) -> Arc<Sharing> {
        Arc::clone(self.pages[usize::from(shard)].sharing.get_or_init(Arc::default))
    }

    /// What a shard has counted of that; nothing when its sessions have never shared connections. Panics when there is none.
    #[must_use]
    pub fn shared(&self, shard: usize) -> Option<SharingTotals> {
        self.pages[shard].sharing.get().map(|sharing| sharing.totals())
    }

    /// What all shards have counted of that.
    #[must_use]
    pub fn shared_in_all(&self) -> Option<SharingTotals> {
        let pages = (0..self.pages.len()).filter_map(|shard| self.shared(shard));
        pages.reduce(|mut all, of| {
            all += &of;
            all
        })
    }

    /// Clients that were let in and have ended, on all shards.
    #[must_use]
    pub fn admitted_ended(&self) -> u64 {
        self.pages.iter().map(|page| page.admitted_ended.load(Ordering::Acquire)).sum()
    }
}

/// No read-modify-write: the calling thread is the only one that writes.
fn add_one(cell: &AtomicU64) {
    cell.store(cell.load(Ordering::Relaxed) + 1, Ordering::Release);
}

impl PartialEq for Ledger {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Ledger {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_counts_on_a_page_of_its_own_and_what_is_open_is_the_difference() {
        let ledger = Ledger::new(7, "public", 2);
        (0..3).for_each(|_| ledger.count_session(0));
        ledger.count_session(1);
        ledger.count_ended(0);
        assert_eq!([ledger.sessions(0), ledger.sessions(1), ledger.open(0), ledger.open(1)], [3, 1, 2, 1]);
        assert_eq!((ledger.open_in_all(), ledger.admitted_ended()), (3, 0));
        ledger.count_admitted_ended(1);
        ledger.count_admitted_ended(0);
        assert_eq!((ledger.open_in_all(), ledger.admitted_ended()), (3, 2));
    }

    #[test]
    fn what_sessions_share_is_counted_by_shard_and_added_up_where_there_is_any() {
        let ledger = Ledger::new(7, "public", 3);
        assert_eq!(ledger.shared_in_all(), None);
        ledger.sharing(0).requests_shared.add(3);
        ledger.sharing(2).requests_shared.add(4);
        ledger.sharing(2).shared_connections.set(1);
        assert_eq!([0, 1, 2].map(|shard| ledger.shared(shard).map(|of| of.requests_shared)), [Some(3), None, Some(4)]);
        let all = ledger.shared_in_all().expect("two shards have counted");
        assert_eq!((all.requests_shared, all.shared_connections), (7, 1));
    }

    #[test]
    fn a_listener_is_told_from_others_by_its_number() {
        assert_eq!(Ledger::new(1, "a", 1), Ledger::new(1, "b", 1));
        assert_ne!(Ledger::new(1, "a", 1), Ledger::new(2, "a", 1));
    }
}
