//! Buffers for outgoing bytes and the pool that recycles them.
//!
//! A session holds buffers only while it has bytes to send, so the pool's count of bytes lent is what a shard's
//! sessions hold, and the shard's memory budget is a bound on it. Buffers come in a few fixed sizes; after warm-up a
//! shard takes and gives without touching the allocator.
//!
//! Invariants: a buffer's storage is initialised from end to end, so that a slice of its room may be handed to a
//! cipher; `head <= tail <= capacity`. Read `tests` below first.

/// Bytes on their way to a socket, owned by whoever holds the value: a session, or the kernel while a send runs.
///
/// ```text
/// storage: | sent already | data        | room               |
///          0             head          tail           capacity
/// ```
#[derive(Default)]
pub struct SendBuf {
    storage: Box<[u8]>,
    head: usize,
    tail: usize,
}

impl SendBuf {
    /// A buffer of exactly `capacity` bytes, outside any pool's count.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { storage: vec![0; capacity].into_boxed_slice(), head: 0, tail: 0 }
    }

    /// The bytes not sent yet.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.storage[self.head..self.tail]
    }

    /// The bytes not sent yet, for who changes them in place.
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.head..self.tail]
    }

    /// How many bytes are not sent yet.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.tail - self.head
    }

    /// Whether nothing is left to send.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Bytes of storage.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.storage.len()
    }

    /// How many bytes can still be added.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.storage.len() - self.tail
    }

    /// The free bytes at the end; what is written there counts after [`SendBuf::fill`].
    pub fn room_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.tail..]
    }

    /// Counts the first `n` bytes of the room as data. Panics when `n` is more than the room.
    pub fn fill(&mut self, n: usize) {
        assert!(n <= self.room(), "filled {n} bytes of {} free", self.room());
        self.tail += n;
    }

    /// Appends `bytes`. Panics when they are more than the room.
    pub fn append(&mut self, bytes: &[u8]) {
        self.room_mut()[..bytes.len()].copy_from_slice(bytes);
        self.tail += bytes.len();
    }

    /// Drops the first `n` bytes of the data: they are sent. Panics when there are fewer.
    pub fn consume(&mut self, n: usize) {
        assert!(n <= self.len(), "consumed {n} bytes of {}", self.len());
        self.head += n;
    }

    fn clear(&mut self) {
        self.head = 0;
        self.tail = 0;
    }
}

impl std::fmt::Debug for SendBuf {
    /// Lengths only: a payload byte must not reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SendBuf({} of {} bytes)", self.len(), self.capacity())
    }
}

/// Capacity of the smallest class: a page, enough for the replies of a small talker.
pub const SMALL_BYTES: usize = 4 * 1024;
/// Capacity of the middle class: a large receive buffer (64 KiB) sealed into records of 16 KiB, with room for their
/// headers, tags and a few alerts or tickets.
pub const LARGE_BYTES: usize = 68 * 1024;
/// Capacity of the largest class that is kept: what the default high-water mark lets a session gather.
pub const HUGE_BYTES: usize = 272 * 1024;

const CLASSES: [usize; 3] = [SMALL_BYTES, LARGE_BYTES, HUGE_BYTES];

/// Bytes of free buffers kept per class; what comes back beyond that is freed.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A shard's stock of [`SendBuf`]s.
#[derive(Debug, Default)]
pub struct Pool {
    free: [Vec<SendBuf>; CLASSES.len()],
    lent_bytes: usize,
}

impl Pool {
    /// An empty pool: buffers are allocated on first use.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A buffer with room for at least `capacity_min` bytes. Larger than the largest class is allocated to measure
    /// and not kept.
    pub fn take(&mut self, capacity_min: usize) -> SendBuf {
        let class = CLASSES.iter().position(|&bytes| bytes >= capacity_min);
        let buffer = match class {
            Some(class) => self.free[class].pop().unwrap_or_else(|| SendBuf::with_capacity(CLASSES[class])),
            None => SendBuf::with_capacity(capacity_min),
        };
        self.lent_bytes += buffer.capacity();
        buffer
    }

    /// Takes a buffer back, whatever it still holds.
    pub fn give(&mut self, mut buffer: SendBuf) {
        self.lent_bytes -= buffer.capacity();
        if let Some(class) = CLASSES.iter().position(|&bytes| bytes == buffer.capacity())
            && self.free[class].len() < KEPT_BYTES_MAX / CLASSES[class]
        {
            buffer.clear();
            self.free[class].push(buffer);
        }
    }

    /// Exchanges `buffer` for one that holds the same data and has room for `more` bytes, unless it has that already.
    pub fn grow(&mut self, buffer: &mut SendBuf, more: usize) {
        if buffer.room() >= more {
            return;
        }
        let mut larger = self.take(buffer.len() + more);
        larger.append(buffer.data());
        self.give(std::mem::replace(buffer, larger));
    }

    /// Capacity of all buffers that are out, in bytes.
    #[must_use]
    pub const fn lent_bytes(&self) -> usize {
        self.lent_bytes
    }
}
