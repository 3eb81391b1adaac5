//! A read-write lock that never asks the kernel to sleep: what the `pthread-emulation` feature puts in the place of the
//! C library's.
//!
//! It goes through its stages as a progressive lock does. A writer first claims the lock, which only one can; from then
//! on no reader comes in, so readers do not starve writers. When the readers that are in have left, the claim is the
//! lock. Who waits spins, a little longer each time, and then gives its core away at each look, because whoever it
//! waits for may have lost its own core.
//!
//! ```text
//! state:  | writer, 1 bit | readers, 31 bits |
//!          claimed or held  in, or just looking
//! writes: 0 while nobody writes, 1 while the claim is the lock
//! ```
//!
//! Invariants:
//! - All bytes zero is an unlocked lock, and every unlocked lock that nobody waits for is all zeros.
//! - While the writer's bit is set, a reader that came after it takes itself off again without having been in.
//! - `writes` changes only while nobody but the writer is in, so whoever unlocks knows by it which lock it has.
//!
//! What it must not be used for: sections that wait for something, recursion (a reader that comes in a second time waits
//! for a writer who waits for it), and threads of real-time priority, which would spin in front of the one that they
//! wait for. Writers that follow each other without a pause keep readers out.
//!
//! Read `tests/rwlock_loom.rs` first: it states what the lock promises, as a model.

use sync::{AtomicU32, Ordering, SPINS, spin_loop, yield_now};

/// The primitives underneath, exchanged for loom's in model tests.
mod sync {
    #[cfg(not(feature = "loom"))]
    pub(super) use std::hint::spin_loop;
    #[cfg(not(feature = "loom"))]
    pub(super) use std::sync::atomic::{AtomicU32, Ordering};
    #[cfg(not(feature = "loom"))]
    pub(super) use std::thread::yield_now;

    /// Looks at a held lock before the core is given away, each after twice as many pauses as the one before: 63 pauses,
    /// 2 us or so. A section of libcrypto takes a fraction of that, unless its thread has lost the core.
    #[cfg(not(feature = "loom"))]
    pub(super) const SPINS: u32 = 6;

    #[cfg(feature = "loom")]
    pub(super) use loom::sync::atomic::{AtomicU32, Ordering};
    /// In a model another look is of no use before another thread has run.
    #[cfg(feature = "loom")]
    pub(super) use loom::thread::yield_now as spin_loop;

    #[cfg(feature = "loom")]
    pub(super) const SPINS: u32 = 1;

    /// Two threads that look in turn and never let the third run are no schedule of interest: this one goes on to its
    /// end, and has no variants from here on.
    #[cfg(feature = "loom")]
    pub(super) fn yield_now() {
        loom::skip_branch();
        loom::thread::yield_now();
    }
}

/// A writer has claimed the lock, or holds it.
const WRITER: u32 = 1 << 31;

/// A lock for any number of readers or one writer, without the data.
///
/// The caller's duties: [`unlock`](Self::unlock) once for each lock taken, on the thread that took it.
#[derive(Debug, Default)]
#[repr(C)]
pub struct RwLock {
    state: AtomicU32,
    writes: AtomicU32,
}

impl RwLock {
    /// Waits until no writer holds or claims the lock, and locks it for reading.
    pub fn read(&self) {
        let mut patience = Patience::default();
        while !self.enter() {
            while self.state.load(Ordering::Relaxed) & WRITER != 0 {
                patience.wait();
            }
        }
    }

    /// Locks for reading unless a writer holds or claims the lock, and tells whether it did.
    ///
    /// One compare-and-swap, done again only when another reader came or went in between: readers do not refuse readers.
    #[must_use = "whoever has the lock must give it back"]
    pub fn try_read(&self) -> bool {
        let one_more = |state| (state & WRITER == 0).then_some(state + 1);
        self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, one_more).is_ok()
    }

    /// Waits until nobody has the lock, and locks it for writing.
    pub fn write(&self) {
        let mut patience = Patience::default();
        // What earlier holders did becomes visible by the look that finds the last of them gone, below.
        while self.state.fetch_or(WRITER, Ordering::Relaxed) & WRITER != 0 {
            while self.state.load(Ordering::Relaxed) & WRITER != 0 {
                patience.wait();
            }
        }
        while self.state.load(Ordering::Acquire) != WRITER {
            patience.wait();
        }
        self.writes.store(1, Ordering::Relaxed);
    }

    /// Locks for writing if nobody has the lock or waits for it, and tells whether it did: one compare-and-swap.
    #[must_use = "whoever has the lock must give it back"]
    pub fn try_write(&self) -> bool {
        let free = self.state.compare_exchange(0, WRITER, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if free {
            self.writes.store(1, Ordering::Relaxed);
        }
        free
    }

    /// Gives back the lock that the calling thread has, for reading or for writing.
    pub fn unlock(&self) {
        if self.writes.load(Ordering::Relaxed) == 0 {
            self.state.fetch_sub(1, Ordering::Release);
        } else {
            self.writes.store(0, Ordering::Relaxed);
            self.state.fetch_and(!WRITER, Ordering::Release);
        }
    }

    /// Counts one reader more and tells whether it is in; if not, takes it off again. An addition cannot fail as a
    /// compare-and-swap does, so readers that come together do not hold each other up.
    fn enter(&self) -> bool {
        let is_in = self.state.fetch_add(1, Ordering::Acquire) & WRITER == 0;
        if !is_in {
            self.state.fetch_sub(1, Ordering::Relaxed);
        }
        is_in
    }
}

/// How long to wait until the next look.
#[derive(Default)]
struct Patience {
    looks: u32,
}

impl Patience {
    fn wait(&mut self) {
        if self.looks == SPINS {
            yield_now();
            return;
        }
        for _ in 0..1 << self.looks {
            spin_loop();
        }
        self.looks += 1;
    }
}
