//! Receive buffers that the kernel picks from: one provided-buffer ring per group.
//!
//! A buffer is the kernel's from [`BufferRing::recycle`] until a completion names it; then it is lent as a [`Lease`]
//! until it is recycled. What is not lent cannot be reached or recycled: trying is a fault of ours and panics.
//!
//! Invariants: `lent[id]` is 0 exactly while the kernel may write buffer `id`; at most `count` entries lie between the
//! kernel's head and our tail, because each buffer is entered once. Read `tests` below first.

#![expect(unsafe_code, reason = "memory shared with the kernel")]

use std::io;
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;

use super::{BufferGroup, Lease};

/// One place of the ring, `struct io_uring_buf`. In the first place the kernel reads `tail` as the ring's tail.
#[repr(C)]
struct Entry {
    address: u64,
    len: u32,
    id: u16,
    tail: u16,
}

const _: () = assert!(mem::size_of::<Entry>() == 16);

/// A group of equal buffers and the ring through which the kernel gets them.
pub(super) struct BufferRing {
    group: BufferGroup,
    count: u16,
    bytes: u32,
    /// Entries written so far; the kernel sees those before its own copy of it, see [`BufferRing::publish`].
    tail: u16,
    /// Bytes lent per buffer, 0 while the buffer is the kernel's.
    lent: Box<[u32]>,
    entries: Mapping,
    storage: Mapping,
}

impl BufferRing {
    /// A ring of `count` buffers of `bytes` each, all of them the kernel's once [`BufferRing::register`] has run.
    pub(super) fn new(group: BufferGroup, count: u16, bytes: u32) -> io::Result<Self> {
        assert!(count.is_power_of_two(), "{count} buffers: the kernel takes powers of two");
        assert!(bytes > 0, "buffers of 0 bytes");
        let entries = Mapping::new(usize::from(count) * mem::size_of::<Entry>())?;
        let storage = Mapping::new(usize::from(count) * bytes as usize)?;
        let lent = vec![0; usize::from(count)].into_boxed_slice();
        let mut ring = Self { group, count, bytes, tail: 0, lent, entries, storage };
        for id in 0..count {
            ring.enter(id);
        }
        ring.publish();
        Ok(ring)
    }

    /// The number by which receives name this group.
    pub(super) const fn id(group: BufferGroup) -> u16 {
        match group {
            BufferGroup::Small => 0,
            BufferGroup::Large => 1,
        }
    }

    /// Hands the ring to the kernel.
    ///
    /// # Safety
    ///
    /// From here on the kernel may write every buffer that is not lent: `self` must live until the ring behind
    /// `submitter` has no receive in flight any more, or be [leaked](BufferRing::leak).
    pub(super) unsafe fn register(&self, submitter: &Submitter<'_>) -> io::Result<()> {
        let address = self.entries.start.as_ptr() as u64;
        // SAFETY: the kernel demands `count` entries at a page-aligned address: `entries` is a mapping of that size.
        // That it stays valid is the promise of our caller.
        unsafe { submitter.register_buf_ring_with_flags(address, self.count, Self::id(self.group), 0) }
    }

    /// Marks buffer `id` as lent with `len` bytes in it, because a completion said so.
    pub(super) fn lend(&mut self, id: u16, len: u32) -> Lease {
        assert!(len > 0 && len <= self.bytes, "{len} bytes in a buffer of {}", self.bytes);
        let lent = &mut self.lent[usize::from(id)];
        assert!(*lent == 0, "buffer {id} is lent already");
        *lent = len;
        Lease { group: self.group, id, len }
    }

    /// Bytes that one buffer holds.
    pub(super) const fn buffer_bytes(&self) -> u32 {
        self.bytes
    }

    /// How many buffers there are.
    pub(super) const fn buffer_count(&self) -> u16 {
        self.count
    }

    /// The received bytes.
    pub(super) fn bytes_mut(&mut self, lease: &Lease) -> &mut [u8] {
        self.assert_lent(lease);
        // SAFETY: `assert_lent` has checked that `id` is below `count` and that `len` is at most `bytes`, so the range
        // lies inside `storage`, whose bytes are initialised (a fresh mapping is zeroed). The kernel does not write a
        // buffer that is lent, and the borrow of `self` keeps it lent and keeps other borrows away.
        unsafe { std::slice::from_raw_parts_mut(self.buffer(lease.id), lease.len as usize) }
    }

    /// Takes a buffer back; the kernel sees it after the next [`BufferRing::publish`].
    pub(super) fn recycle(&mut self, lease: Lease) {
        self.assert_lent(&lease);
        let Lease { id, .. } = lease;
        self.lent[usize::from(id)] = 0;
        self.enter(id);
    }

    /// Lets the kernel see the entries written so far.
    pub(super) fn publish(&mut self) {
        self.shared_tail().store(self.tail, Ordering::Release);
    }

    /// Gives up the memory for good, because the kernel may still write it.
    pub(super) const fn leak(&mut self) {
        self.entries.leaked = true;
        self.storage.leaked = true;
    }

    fn assert_lent(&self, lease: &Lease) {
        assert!(lease.group == self.group, "{lease:?} belongs to another group");
        let lent = self.lent.get(usize::from(lease.id)).copied().unwrap_or(0);
        assert!(lent != 0 && lent == lease.len, "{lease:?} is not lent");
    }

    /// Writes the next entry. Its `tail` is left alone: in the first place it is the ring's.
    fn enter(&mut self, id: u16) {
        let address = self.buffer(id) as u64;
        let place = usize::from(self.tail & (self.count - 1));
        // SAFETY: `place` is below `count`, so the entry lies inside `entries`. The kernel reads entries below the
        // published tail that it has not taken yet; this place is not among them, since no more than `count` buffers
        // exist and each is entered once. Fields are written one by one so that no reference covers `tail`.
        unsafe {
            let entry = self.entries.start.cast::<Entry>().as_ptr().add(place);
            (&raw mut (*entry).address).write(address);
            (&raw mut (*entry).len).write(self.bytes);
            (&raw mut (*entry).id).write(id);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    const fn buffer(&self, id: u16) -> *mut u8 {
        debug_assert!(id < self.count);
        // SAFETY: `id` is below `count`, and `storage` holds `count` buffers of `bytes`.
        unsafe { self.storage.start.as_ptr().add(id as usize * self.bytes as usize) }
    }

    const fn shared_tail(&self) -> &AtomicU16 {
        // SAFETY: the tail of the first entry lies inside `entries`, is aligned to 2, and lives as long as `self`. We
        // reach it through this atomic only; the kernel only reads it.
        unsafe { AtomicU16::from_ptr(&raw mut (*self.entries.start.cast::<Entry>().as_ptr()).tail) }
    }
}

/// Anonymous memory of whole pages, zeroed.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
    leaked: bool,
}

impl Mapping {
    fn new(len: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: mmap without MAP_FIXED at a null address takes fresh memory and touches nothing that exists.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), len, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { start, len, leaked: false })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if !self.leaked {
            // SAFETY: the range is what mmap returned, and every reference into it borrowed from the owner of `self`.
            // The kernel is done with it: that is the promise made to `BufferRing::register`.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel reads: the entry at `place` and the tail.
    fn entry(ring: &BufferRing, place: usize) -> (u64, u32, u16) {
        assert!(place < usize::from(ring.count));
        // SAFETY: the place was just checked, and no reference into `entries` exists.
        let entry = unsafe { ring.entries.start.cast::<Entry>().as_ptr().add(place).read() };
        (entry.address, entry.len, entry.id)
    }

    fn published(ring: &BufferRing) -> u16 {
        ring.shared_tail().load(Ordering::Acquire)
    }

    /// Plays the kernel: fills buffer `id` with `bytes`.
    fn fill(ring: &mut BufferRing, id: u16, bytes: &[u8]) -> Lease {
        let len = u32::try_from(bytes.len()).unwrap();
        let lease = ring.lend(id, len);
        ring.bytes_mut(&lease).copy_from_slice(bytes);
        lease
    }

    #[test]
    fn a_new_ring_offers_every_buffer_once() {
        let ring = BufferRing::new(BufferGroup::Small, 4, 512).unwrap();
        assert_eq!(published(&ring), 4);
        let start = ring.storage.start.as_ptr() as u64;
        let entries: Vec<_> = (0..4).map(|place| entry(&ring, place)).collect();
        assert_eq!(entries, [(start, 512, 0), (start + 512, 512, 1), (start + 1024, 512, 2), (start + 1536, 512, 3)]);
    }

    #[test]
    fn recycled_buffers_are_seen_only_after_publishing() {
        let mut ring = BufferRing::new(BufferGroup::Small, 2, 512).unwrap();
        let (first, second) = (ring.lend(0, 10), ring.lend(1, 512));
        ring.recycle(second);
        ring.recycle(first);
        assert_eq!(published(&ring), 2);
        ring.publish();
        assert_eq!(published(&ring), 4);
        assert_eq!((entry(&ring, 0).2, entry(&ring, 1).2), (1, 0));
    }

    #[test]
    fn the_tail_wraps_around_without_disturbing_the_first_entry() {
        let mut ring = BufferRing::new(BufferGroup::Large, 1, 64).unwrap();
        for turn in 0..70_000_u32 {
            let lease = ring.lend(0, 1 + turn % 64);
            ring.recycle(lease);
            ring.publish();
        }
        // 70,001 entries in all, modulo 65,536.
        assert_eq!(published(&ring), 4_465);
        assert_eq!(entry(&ring, 0).2, 0);
    }

    #[test]
    fn a_lease_reaches_its_own_bytes_and_no_more() {
        let mut ring = BufferRing::new(BufferGroup::Small, 2, 8).unwrap();
        let first = fill(&mut ring, 0, b"one");
        let second = fill(&mut ring, 1, b"eight by");
        assert_eq!(ring.bytes_mut(&first), b"one");
        assert_eq!(ring.bytes_mut(&second), b"eight by");
        ring.recycle(first);
        ring.recycle(second);
    }

    #[test]
    #[should_panic(expected = "is not lent")]
    fn a_buffer_cannot_be_recycled_twice() {
        let mut ring = BufferRing::new(BufferGroup::Small, 2, 8).unwrap();
        let lease = ring.lend(0, 3);
        ring.recycle(Lease { group: lease.group, id: lease.id, len: lease.len });
        ring.recycle(lease);
    }

    #[test]
    #[should_panic(expected = "is not lent")]
    fn the_kernels_buffer_cannot_be_reached() {
        let mut ring = BufferRing::new(BufferGroup::Small, 2, 8).unwrap();
        ring.bytes_mut(&Lease { group: BufferGroup::Small, id: 1, len: 8 });
    }

    #[test]
    #[should_panic(expected = "is not lent")]
    fn a_lease_cannot_claim_more_bytes_than_were_received() {
        let mut ring = BufferRing::new(BufferGroup::Small, 2, 8).unwrap();
        let lease = ring.lend(0, 3);
        ring.bytes_mut(&Lease { group: lease.group, id: lease.id, len: 8 });
    }

    #[test]
    #[should_panic(expected = "belongs to another group")]
    fn a_lease_goes_back_to_its_own_group_only() {
        let mut ring = BufferRing::new(BufferGroup::Small, 2, 8).unwrap();
        let lease = ring.lend(0, 3);
        ring.recycle(Lease { group: BufferGroup::Large, id: lease.id, len: lease.len });
    }

    #[test]
    #[should_panic(expected = "is lent already")]
    fn the_kernel_cannot_fill_a_buffer_it_does_not_have() {
        let mut ring = BufferRing::new(BufferGroup::Small, 2, 8).unwrap();
        let _first = ring.lend(0, 3);
        let _second = ring.lend(0, 3);
    }
}
