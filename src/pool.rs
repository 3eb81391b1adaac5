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
/// Capacity of the middle class: a large receive buffer (68 KiB) sealed into records of 16 KiB, with room for their
/// headers, tags and a few alerts or tickets.
pub const LARGE_BYTES: usize = 72 * 1024;
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

    /// A buffer of `capacity` bytes and no more, for one that may wait beside many others. It is allocated and not
    /// kept.
    pub fn take_exactly(&mut self, capacity: usize) -> SendBuf {
        self.lent_bytes += capacity;
        SendBuf::with_capacity(capacity)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_appended_is_the_data_and_what_is_sent_is_gone() {
        let mut buffer = SendBuf::with_capacity(10);
        buffer.append(b"hello");
        buffer.room_mut()[..3].copy_from_slice(b" wo");
        buffer.fill(3);
        assert_eq!((buffer.data(), buffer.len(), buffer.room()), (b"hello wo".as_slice(), 8, 2));
        buffer.consume(6);
        assert_eq!((buffer.data(), buffer.len(), buffer.room()), (b"wo".as_slice(), 2, 2));
    }

    #[test]
    #[should_panic(expected = "filled 11 bytes of 10 free")]
    fn more_than_the_room_cannot_be_filled() {
        SendBuf::with_capacity(10).fill(11);
    }

    #[test]
    fn buffers_come_in_three_sizes_and_to_measure_beyond() {
        let mut pool = Pool::new();
        let capacities = [1, 4_096, 4_097, 73_728, 73_729, 278_528, 278_529].map(|min| pool.take(min).capacity());
        assert_eq!(capacities, [4_096, 4_096, 73_728, 73_728, 278_528, 278_528, 278_529]);
        assert_eq!(pool.lent_bytes(), 2 * 4_096 + 2 * 73_728 + 2 * 278_528 + 278_529);
    }

    #[test]
    fn a_buffer_that_came_back_is_lent_again_empty() {
        let mut pool = Pool::new();
        let mut buffer = pool.take(100);
        buffer.append(b"secret");
        let address = buffer.data().as_ptr();
        pool.give(buffer);
        assert_eq!(pool.lent_bytes(), 0);
        let again = pool.take(100);
        assert_eq!((again.data(), again.room()), (b"".as_slice(), 4_096));
        assert_eq!(again.data().as_ptr(), address);
    }

    #[test]
    fn a_buffer_that_grows_keeps_its_data_and_the_count() {
        let mut pool = Pool::new();
        let mut buffer = pool.take(10);
        buffer.append(&[7; 4_000]);
        buffer.consume(10);
        pool.grow(&mut buffer, 96);
        assert_eq!(buffer.capacity(), 4_096);
        // The room of the ten bytes that were sent is enough for one more.
        pool.grow(&mut buffer, 97);
        assert_eq!((buffer.data(), buffer.capacity()), ([7; 3_990].as_slice(), 4_096));
        pool.grow(&mut buffer, 107);
        assert_eq!((buffer.data(), buffer.capacity()), ([7; 3_990].as_slice(), 73_728));
        assert_eq!(pool.lent_bytes(), 73_728);
    }

    #[test]
    fn no_payload_byte_appears_in_debug_output() {
        let mut buffer = SendBuf::with_capacity(10);
        buffer.append(b"secret");
        assert_eq!(format!("{buffer:?}"), "SendBuf(6 of 10 bytes)");
    }
}
