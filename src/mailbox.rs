//! Where dispatcher and shard meet: hand-off, doorbell and pending flags.
//!
//! Everything here has one writer and one reader and never waits: a full ring gives the value back or drops a hint.
//! Nothing here wakes a thread by itself; it only says, exactly once per sleep, that somebody must. How the sleeper
//! is woken (a completion on its ring, an eventfd) is its owner's business.
//!
//! Invariants:
//! - A sleeper that announced its sleep and then found its rings empty is rung by the next sender. Both sides put a
//!   sequentially consistent fence between their write and their read; release and acquire alone lose wake-ups.
//! - The truth about pending sessions is in cells that only the shard writes. Hints may be lost; then a resync is due.
//!
//! Read `tests/mailbox_loom.rs` first: it states the wake-up protocol as a model. `tests/mailbox_model.rs` compares
//! the queue and the flags with plain collections.

use std::fmt;
use std::sync::Arc;

use sync::{AtomicBool, AtomicU64, Consumer, Ordering, Producer, fence};

/// The primitives underneath, exchanged for loom's in model tests.
mod sync {
    #[cfg(not(feature = "loom"))]
    pub(super) use rtrb::{Consumer, Producer};
    #[cfg(not(feature = "loom"))]
    pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

    #[cfg(not(feature = "loom"))]
    pub(super) fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
        rtrb::RingBuffer::new(capacity)
    }

    #[cfg(feature = "loom")]
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
    #[cfg(feature = "loom")]
    pub(super) use modelled::{Consumer, Producer, ring};

    /// A stand-in for `rtrb` whose two counters are loom's and have the orderings that `rtrb` gives them. The values
    /// lie in a queue that loom does not see, so it adds no ordering of its own.
    #[cfg(feature = "loom")]
    mod modelled {
        use std::collections::VecDeque;
        use std::sync::{Arc, Mutex, PoisonError};

        use loom::sync::atomic::{AtomicUsize, Ordering};

        struct Shared<T> {
            written: AtomicUsize,
            read: AtomicUsize,
            values: Mutex<VecDeque<T>>,
            capacity: usize,
        }

        pub(in super::super) struct Producer<T>(Arc<Shared<T>>);

        pub(in super::super) struct Consumer<T>(Arc<Shared<T>>);

        pub(in super::super) fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
            let shared = Arc::new(Shared {
                written: AtomicUsize::new(0),
                read: AtomicUsize::new(0),
                values: Mutex::new(VecDeque::new()),
                capacity,
            });
            (Producer(Arc::clone(&shared)), Consumer(shared))
        }

        impl<T> Producer<T> {
            pub(in super::super) fn push(&mut self, value: T) -> Result<(), rtrb::PushError<T>> {
                let written = self.0.written.load(Ordering::Relaxed);
                if written - self.0.read.load(Ordering::Acquire) == self.0.capacity {
                    return Err(rtrb::PushError::Full(value));
                }
                self.0.values.lock().unwrap_or_else(PoisonError::into_inner).push_back(value);
                self.0.written.store(written + 1, Ordering::Release);
                Ok(())
            }

            pub(in super::super) fn slots(&self) -> usize {
                let used = self.0.written.load(Ordering::Relaxed) - self.0.read.load(Ordering::Acquire);
                self.0.capacity - used
            }

            pub(in super::super) fn is_abandoned(&self) -> bool {
                Arc::strong_count(&self.0) == 1
            }

            pub(in super::super) fn push_partial_slice<'a>(&mut self, slice: &'a [T]) -> (&'a [T], &'a [T])
            where
                T: Copy,
            {
                let written = self.0.written.load(Ordering::Relaxed);
                let room = self.0.capacity - (written - self.0.read.load(Ordering::Acquire));
                let (fits, rest) = slice.split_at(room.min(slice.len()));
                self.0.values.lock().unwrap_or_else(PoisonError::into_inner).extend(fits);
                self.0.written.store(written + fits.len(), Ordering::Release);
                (fits, rest)
            }
        }

        impl<T> Consumer<T> {
            pub(in super::super) fn slots(&self) -> usize {
                self.0.written.load(Ordering::Acquire) - self.0.read.load(Ordering::Relaxed)
            }

            pub(in super::super) fn is_empty(&self) -> bool {
                self.slots() == 0
            }

            pub(in super::super) fn pop(&mut self) -> Result<T, rtrb::PopError> {
                if self.is_empty() {
                    return Err(rtrb::PopError::Empty);
                }
                let value = self.0.values.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                self.0.read.store(self.0.read.load(Ordering::Relaxed) + 1, Ordering::Release);
                value.ok_or(rtrb::PopError::Empty)
            }
        }
    }
}

/// Two cache lines: neighbouring lines are fetched together, so less would still be shared between cores.
#[derive(Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// Says whether a thread sleeps and so must be woken. Clones are the same doorbell: one sleeper, any number of ringers.
///
/// The sleeper's duties, in this order: [`going_to_sleep`](Self::going_to_sleep); look once more at everything it
/// reads; wait only if nothing is there; [`awake`](Self::awake) afterwards, waited or not.
/// The ringer's: make its value visible (a send), then ask [`needs_ring`](Self::needs_ring), then wake the sleeper.
// Sleeper and ringers all write by exchange, so that their writes have one order in which each saw the one before; it
// is what lets a model checker follow them, and costs the sleeper nothing beside the system call that follows.
#[derive(Clone, Default)]
pub struct Doorbell(Arc<Apart<AtomicBool>>);

impl Doorbell {
    /// A doorbell whose sleeper is awake.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Announces a sleep. What was sent before any ringer could see this must now be looked for once more.
    pub fn going_to_sleep(&self) {
        self.0.0.swap(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Ends the sleep. A ring that was already promised may still arrive and means nothing then.
    pub fn awake(&self) {
        self.0.0.swap(false, Ordering::Relaxed);
    }

    /// Whether the caller must wake the sleeper; at most one caller per sleep is told so.
    #[must_use = "the sleeper stays asleep unless the caller wakes it"]
    pub fn needs_ring(&self) -> bool {
        fence(Ordering::SeqCst);
        // The plain load first: the exchange would take the cache line from a sleeper that is awake and busy.
        self.0.0.load(Ordering::Relaxed) && self.0.0.swap(false, Ordering::Relaxed)
    }
}

impl fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Doorbell").field(&self.0.0).finish()
    }
}

/// The sending half of a mailbox.
pub struct Sender<T> {
    ring: Producer<T>,
    doorbell: Doorbell,
}

/// The receiving half of a mailbox.
pub struct Receiver<T> {
    ring: Consumer<T>,
    doorbell: Doorbell,
}

/// A mailbox of fixed capacity with a doorbell of its own.
#[must_use]
pub fn mailbox<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    mailbox_with(capacity, Doorbell::new())
}

/// A mailbox whose receiver sleeps on `doorbell`, which it may share with other mailboxes it reads.
#[must_use]
pub fn mailbox_with<T>(capacity: usize, doorbell: Doorbell) -> (Sender<T>, Receiver<T>) {
    let (producer, consumer) = sync::ring(capacity);
    (Sender { ring: producer, doorbell: doorbell.clone() }, Receiver { ring: consumer, doorbell })
}

impl<T> Sender<T> {
    /// Sends without waiting.
    ///
    /// # Errors
    /// Gives `value` back when the mailbox is full.
    pub fn send(&mut self, value: T) -> Result<(), T> {
        self.ring.push(value).map_err(|rtrb::PushError::Full(value)| value)
    }

    /// How many more values find room at least.
    #[must_use]
    pub fn room(&self) -> usize {
        self.ring.slots()
    }

    /// Whether the receiver is gone, so that nobody will take what is sent.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Whether the receiver must be woken for what was sent so far; see [`Doorbell::needs_ring`].
    #[must_use = "the receiver stays asleep unless the caller wakes it"]
    pub fn needs_ring(&self) -> bool {
        self.doorbell.needs_ring()
    }
}

impl<T> Receiver<T> {
    /// The oldest value not yet taken.
    pub fn receive(&mut self) -> Option<T> {
        self.ring.pop().ok()
    }

    /// Whether nothing is there to take.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Announces a sleep and says whether it may begin: `false` when something is there and must be taken first.
    #[must_use = "a receiver that sleeps in spite of `false` misses a value"]
    pub fn going_to_sleep(&self) -> bool {
        self.doorbell.going_to_sleep();
        let may_sleep = self.ring.is_empty();
        if !may_sleep {
            self.doorbell.awake();
        }
        may_sleep
    }

    /// Ends the sleep; senders need not ring until the next one.
    pub fn awake(&self) {
        self.doorbell.awake();
    }

    /// The doorbell this receiver sleeps on.
    #[must_use]
    pub const fn doorbell(&self) -> &Doorbell {
        &self.doorbell
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("doorbell", &self.doorbell).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("doorbell", &self.doorbell).finish_non_exhaustive()
    }
}

/// A change of one session's pending flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingHint {
    /// The session's slot in its shard.
    pub slot: u32,
    /// Whether the shard has received or decrypted bytes of this session and not yet served them.
    pub pending: bool,
}

/// The truth about pending flags: written by the shard, read by the dispatcher when hints were lost.
struct PendingFlags {
    words: Box<[AtomicU64]>,
    /// How many flushes have lost hints; the reader resyncs when it has changed.
    losses: AtomicU64,
}

const BITS: u32 = u64::BITS;

/// The shard's side of its pending flags.
pub struct PendingPublisher {
    flags: Arc<PendingFlags>,
    ring: Producer<PendingHint>,
    batch: Vec<PendingHint>,
    lost: bool,
}

/// The dispatcher's side of a shard's pending flags.
///
/// The reader's duties, in this order: [`take_resync`](Self::take_resync); [`drain`](Self::drain); and if a resync was
/// due, forget what it knew and [`scan`](Self::scan). Scanning before draining would let an old hint overwrite the
/// truth.
pub struct PendingReader {
    flags: Arc<PendingFlags>,
    ring: Consumer<PendingHint>,
    losses_seen: u64,
}

/// Pending flags for `slots` sessions, with a ring of `hints_max` hints. Both numbers are fixed for good.
#[must_use]
pub fn pending_flags(slots: u32, hints_max: usize) -> (PendingPublisher, PendingReader) {
    let words = (0..slots.div_ceil(BITS)).map(|_| AtomicU64::new(0)).collect();
    let flags = Arc::new(PendingFlags { words, losses: AtomicU64::new(0) });
    let (producer, consumer) = sync::ring(hints_max);
    let publisher = PendingPublisher {
        flags: Arc::clone(&flags),
        ring: producer,
        batch: Vec::with_capacity(hints_max),
        lost: false,
    };
    (publisher, PendingReader { flags, ring: consumer, losses_seen: 0 })
}

impl PendingPublisher {
    /// Sets a session's flag. Nothing happens unless this is a transition; its hint leaves with the next
    /// [`flush`](Self::flush). Panics when `slot` is beyond the number of slots.
    pub fn publish(&mut self, slot: u32, pending: bool) {
        let word = &self.flags.words[(slot / BITS) as usize];
        let bit = 1 << (slot % BITS);
        // No read-modify-write: this thread is the only one that writes.
        let before = word.load(Ordering::Relaxed);
        if (before & bit != 0) == pending {
            return;
        }
        word.store(before ^ bit, Ordering::Relaxed);
        if self.batch.len() < self.batch.capacity() {
            self.batch.push(PendingHint { slot, pending });
        } else {
            self.lost = true;
        }
    }

    /// Whether the flag of `slot` is set. Panics when `slot` is beyond the number of slots.
    #[must_use]
    pub fn is_pending(&self, slot: u32) -> bool {
        self.flags.words[(slot / BITS) as usize].load(Ordering::Relaxed) & 1 << (slot % BITS) != 0
    }

    /// Publishes the hints gathered since the last flush, all at once; those that find no room are replaced by a
    /// request to read the truth. To be called once per batch of completions. Says whether there was anything, that
    /// is, whether the dispatcher's doorbell must be asked.
    pub fn flush(&mut self) -> bool {
        if self.batch.is_empty() && !self.lost {
            return false;
        }
        let (_, dropped) = self.ring.push_partial_slice(&self.batch);
        if self.lost || !dropped.is_empty() {
            // Release: whoever sees this loss also sees the flags as they are here.
            self.flags.losses.store(self.flags.losses.load(Ordering::Relaxed) + 1, Ordering::Release);
        }
        self.batch.clear();
        self.lost = false;
        true
    }
}

impl PendingReader {
    /// Whether hints were lost since the last call, so that [`scan`](Self::scan) must follow the next drain.
    #[must_use = "the request is gone once taken"]
    pub fn take_resync(&mut self) -> bool {
        let losses = self.flags.losses.load(Ordering::Acquire);
        std::mem::replace(&mut self.losses_seen, losses) != losses
    }

    /// Takes every hint that has arrived, oldest first; those that arrive meanwhile wait for the next call.
    pub fn drain(&mut self, mut each: impl FnMut(PendingHint)) {
        for _ in 0..self.ring.slots() {
            let Ok(hint) = self.ring.pop() else { return };
            each(hint);
        }
    }

    /// Names every slot whose flag is set, in ascending order.
    pub fn scan(&self, mut each: impl FnMut(u32)) {
        for (first, word) in (0..).step_by(BITS as usize).zip(&self.flags.words) {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                each(first + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}

impl fmt::Debug for PendingPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingPublisher").field("batch", &self.batch).field("lost", &self.lost).finish_non_exhaustive()
    }
}

impl fmt::Debug for PendingReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingReader").field("losses_seen", &self.losses_seen).finish_non_exhaustive()
    }
}
