//! One socket, a session's or a line's: what is in flight on it and how it receives.
//!
//! Small talkers are armed once and served from small buffers for as long as they live. A side that fills its buffers
//! is in bulk: it asks for one large buffer at a time, which is fewer system calls per byte and stops exactly where
//! back-pressure says.

use super::token::NO_ONE;
use crate::io::{Address, Driver, Errno, Fd, Lease, Op, OpId, Token};
use crate::pool::SendBuf;

/// Consecutive small receives after which a side is no longer in bulk.
const SMALL_RECEIVES_MAX: u8 = 8;

/// A receive of fewer bytes than this did not need a large buffer.
const BULK_BYTES_MIN: u32 = 4 * 1024;

/// How a socket's receive stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receive {
    /// None is in flight.
    Idle,
    /// Armed for many small buffers.
    Many(OpId),
    /// Waiting for one large buffer.
    Once(OpId),
    /// Cancelled; its final completion is still to come, and data may come before it.
    Cancelled,
}

/// What is on its way out of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outgoing {
    Nothing,
    /// It is being connected.
    Connect(OpId),
    Send(OpId),
}

/// One socket.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) fd: Fd,
    receive: Receive,
    outgoing: Outgoing,
    /// The kernel saw more data on the socket when it last delivered some.
    data_waits: bool,
    bulk: bool,
    small_receives: u8,
}

impl Socket {
    pub(super) const fn new(fd: Fd) -> Self {
        Self {
            fd,
            receive: Receive::Idle,
            outgoing: Outgoing::Nothing,
            data_waits: false,
            bulk: false,
            small_receives: 0,
        }
    }

    /// Whether an operation's final completion is still to come.
    pub(super) const fn is_busy(&self) -> bool {
        !matches!((self.receive, self.outgoing), (Receive::Idle, Outgoing::Nothing))
    }

    /// Whether it is being connected.
    pub(super) const fn is_connecting(&self) -> bool {
        matches!(self.outgoing, Outgoing::Connect(_))
    }

    /// Whether a send is in flight.
    pub(super) const fn is_sending(&self) -> bool {
        matches!(self.outgoing, Outgoing::Send(_))
    }

    /// Connects it.
    pub(super) fn connect<D: Driver>(&mut self, address: &Address, token: Token, driver: &mut D) {
        let op = Op::Connect { socket: self.fd, address: address.clone() };
        self.outgoing = Outgoing::Connect(driver.push(token, op));
    }

    /// Sends these bytes. No send may be in flight.
    pub(super) fn send<D: Driver>(&mut self, buffer: SendBuf, token: Token, driver: &mut D) {
        debug_assert_eq!(self.outgoing, Outgoing::Nothing, "two sends would interleave");
        self.outgoing = Outgoing::Send(driver.push(token, Op::Send { socket: self.fd, buffer }));
    }

    /// The connect or the send has come home.
    pub(super) const fn end_outgoing(&mut self) {
        self.outgoing = Outgoing::Nothing;
    }

    /// Has what comes received, or not any more.
    pub(super) fn receive<D: Driver>(&mut self, is_wanted: bool, token: Token, driver: &mut D) {
        match self.receive {
            Receive::Idle if is_wanted && self.bulk => {
                let op = Op::ReceiveOnce { socket: self.fd, data_waits: self.data_waits };
                self.receive = Receive::Once(driver.push(token, op));
            }
            Receive::Idle if is_wanted => {
                self.receive = Receive::Many(driver.push(token, Op::ReceiveMany { socket: self.fd }));
            }
            Receive::Many(op) if !is_wanted || self.bulk => {
                driver.push(NO_ONE, Op::Cancel { op });
                self.receive = Receive::Cancelled;
            }
            Receive::Idle | Receive::Many(_) | Receive::Once(_) | Receive::Cancelled => {}
        }
    }

    /// Learns from what a receive has brought, and whether it brings `more`.
    pub(super) fn received<D: Driver>(
        &mut self,
        result: &Result<Option<Lease>, Errno>,
        data_waits: bool,
        more: bool,
        driver: &D,
    ) {
        if !more {
            self.receive = Receive::Idle;
        }
        if let Ok(Some(lease)) = result {
            self.observe(lease.len, driver.buffer_bytes(lease.group), data_waits);
        }
    }

    /// Cancels what is in flight.
    pub(super) fn cancel<D: Driver>(&mut self, driver: &mut D) {
        if let Receive::Many(op) | Receive::Once(op) = self.receive {
            driver.push(NO_ONE, Op::Cancel { op });
            self.receive = Receive::Cancelled;
        }
        if let Outgoing::Connect(op) | Outgoing::Send(op) = self.outgoing {
            driver.push(NO_ONE, Op::Cancel { op });
        }
    }

    /// Learns from a receive of `len` bytes into a buffer of `capacity`.
    fn observe(&mut self, len: u32, capacity: u32, data_waits: bool) {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_small_buffer_with_more_behind_it_makes_a_side_bulk() {
        let mut socket = Socket::new(Fd(3));
        socket.observe(4_096, 4_096, false);
        assert!(!socket.bulk);
        socket.observe(4_096, 4_096, true);
        assert!(socket.bulk);
    }

    #[test]
    fn a_bulk_side_that_turns_small_goes_back_after_eight_small_receives() {
        let mut socket = Socket::new(Fd(3));
        socket.observe(4_096, 4_096, true);
        for _ in 0..7 {
            socket.observe(100, 65_536, false);
            assert!(socket.bulk);
        }
        socket.observe(100, 65_536, false);
        assert!(!socket.bulk);
    }
}
