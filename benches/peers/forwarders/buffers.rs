//! Receive buffers that the kernel takes from by itself: few and large ones, so that those in use stay in the processor's
//! cache.

#![expect(unsafe_code, reason = "the kernel fills the buffers and reads the ring of their names")]

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

/// What receives name the buffers by.
pub(super) const GROUP: u16 = 0;

const COUNT: u16 = 64;
const BYTES: usize = 64 * 1024;

/// As many bytes as there are in the ring's entries, where the kernel wants them: on a page of their own.
#[repr(C, align(4096))]
struct Page([u8; 4096]);

const _: () = assert!(COUNT.is_power_of_two() && COUNT as usize * size_of::<BufRingEntry>() <= size_of::<Page>());

/// The buffers and the ring that lends them to the kernel.
pub(super) struct Buffers {
    ring: Box<Page>,
    memory: Box<[u8]>,
    /// Entries written so far, of which the kernel knows those up to the last [`publish`](Self::publish).
    tail: u16,
    free: usize,
}

impl Buffers {
    /// Lends all of them. They must live as long as `uring`.
    pub(super) fn register(uring: &IoUring) -> io::Result<Self> {
        let mut buffers = Self {
            ring: Box::new(Page([0; 4096])),
            memory: vec![0; usize::from(COUNT) * BYTES].into_boxed_slice(),
            tail: 0,
            free: 0,
        };
        // SAFETY: the page is aligned, is large enough for the entries, and outlives the ring by the caller's promise.
        unsafe {
            uring.submitter().register_buf_ring_with_flags(buffers.entries() as u64, COUNT, GROUP, 0)?;
        }
        (0..COUNT).for_each(|buffer| buffers.give_back(buffer));
        buffers.publish();
        Ok(buffers)
    }

    fn entries(&mut self) -> *mut BufRingEntry {
        (&raw mut *self.ring).cast()
    }

    /// How many the kernel may take.
    pub(super) const fn free(&self) -> usize {
        self.free
    }

    /// Counts a buffer as taken by the kernel.
    pub(super) const fn lend(&mut self) {
        self.free -= 1;
    }

    /// What is in a buffer that the kernel has filled.
    pub(super) fn bytes(&self, buffer: u16) -> &[u8] {
        &self.memory[usize::from(buffer) * BYTES..][..BYTES]
    }

    /// Gives the kernel a buffer back, once that is published.
    pub(super) fn give_back(&mut self, buffer: u16) {
        let memory = self.memory[usize::from(buffer) * BYTES..].as_mut_ptr();
        let index = usize::from(self.tail % COUNT);
        // SAFETY: the index is below the number of entries, and the kernel reads no entry behind the published tail.
        let entry = unsafe { &mut *self.entries().add(index) };
        entry.set_addr(memory as u64);
        entry.set_len(u32::try_from(BYTES).expect("it is small"));
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
        self.free += 1;
    }

    /// Shows the kernel what was given back.
    pub(super) fn publish(&mut self) {
        // SAFETY: the tail lies within the first entry, aligned, and is written here only.
        let tail = unsafe { &*BufRingEntry::tail(self.entries()).cast::<AtomicU16>() };
        tail.store(self.tail, Ordering::Release);
    }
}
