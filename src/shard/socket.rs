//! One socket of a session: what is in flight on it and how it receives.
//!
//! Small talkers are armed once and served from small buffers for as long as they live. A side that fills its buffers
//! is in bulk: it asks for one large buffer at a time, which is fewer system calls per byte and stops exactly where
//! back-pressure says.

use crate::io::{Fd, OpId};

/// Consecutive small receives after which a side is no longer in bulk.
const SMALL_RECEIVES_MAX: u8 = 8;

/// A receive of fewer bytes than this did not need a large buffer.
const BULK_BYTES_MIN: u32 = 4 * 1024;

/// How a socket's receive stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receive {
    /// None is in flight.
    Idle,
    /// Armed for many small buffers.
    Many(OpId),
    /// Waiting for one large buffer.
    Once(OpId),
    /// Cancelled; its final completion is still to come, and data may come before it.
    Cancelled,
}

/// One socket of a session.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) fd: Fd,
    pub(super) receive: Receive,
    pub(super) send: Option<OpId>,
    /// The kernel saw more data on the socket when it last delivered some.
    pub(super) data_waits: bool,
    bulk: bool,
    small_receives: u8,
}

impl Socket {
    pub(super) const fn new(fd: Fd) -> Self {
        Self { fd, receive: Receive::Idle, send: None, data_waits: false, bulk: false, small_receives: 0 }
    }

    /// Whether an operation's final completion is still to come.
    pub(super) const fn is_busy(&self) -> bool {
        !matches!(self.receive, Receive::Idle) || self.send.is_some()
    }

    /// Learns from a receive of `len` bytes into a buffer of `capacity`.
    pub(super) fn observe(&mut self, len: u32, capacity: u32, data_waits: bool) {
        self.data_waits = data_waits;
        if len == capacity && data_waits {
            self.bulk = true;
            self.small_receives = 0;
        } else if len < BULK_BYTES_MIN && self.bulk {
            self.small_receives += 1;
            self.bulk = self.small_receives < SMALL_RECEIVES_MAX;
        } else {
            self.small_receives = 0;
        }
    }

    /// Whether the side is better served from large buffers.
    pub(super) const fn is_bulk(&self) -> bool {
        self.bulk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_small_buffer_with_more_behind_it_makes_a_side_bulk() {
        let mut socket = Socket::new(Fd(3));
        socket.observe(4_096, 4_096, false);
        assert!(!socket.is_bulk());
        socket.observe(4_096, 4_096, true);
        assert!(socket.is_bulk());
    }

    #[test]
    fn a_bulk_side_that_turns_small_goes_back_after_eight_small_receives() {
        let mut socket = Socket::new(Fd(3));
        socket.observe(4_096, 4_096, true);
        for _ in 0..7 {
            socket.observe(100, 65_536, false);
            assert!(socket.is_bulk());
        }
        socket.observe(100, 65_536, false);
        assert!(!socket.is_bulk());
    }
}
