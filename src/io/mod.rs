//! Operations in, completions out: the seam between the program and the kernel.
//!
//! [`Driver`] is implemented by [`Uring`](uring::Uring) on a real ring and by the tests' simulated kernel. Whoever
//! drives it owns file descriptors as plain numbers ([`Fd`]) and names each operation by a [`Token`] of its own.
//!
//! Invariants:
//! - Memory lent to the kernel is lent by move. A [`SendBuf`] inside [`Op::Send`] belongs to the driver until its
//!   completion brings it back; a received buffer is a [`Lease`] until [`Driver::recycle`] takes it.
//! - Every pushed operation that is answered at all is answered by exactly one completion with `more == false`.
//! - This module never reads TLS or RESP, and never blocks except in [`Driver::enter`].

mod buffers;
mod in_flight;
mod ring;
pub mod sys;
pub mod unavailable;
pub mod uring;
mod watch;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{IntoRawFd, OwnedFd};
use std::path::PathBuf;

use crate::pool::SendBuf;
use crate::time::Time;

/// An open file descriptor. It is a number, not an owner: whoever closes it must know that nothing is in flight on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fd(pub i32);

impl From<OwnedFd> for Fd {
    /// Takes over the duty to close it.
    fn from(fd: OwnedFd) -> Self {
        Self(fd.into_raw_fd())
    }
}

/// The driver's user's own name for an operation, handed back unread in each of its completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

/// The driver's name for one pushed operation, unique for the life of the driver; what [`Op::Cancel`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId(pub u64);

/// A driver that can be rung from another thread's driver, see [`Op::Ring`]. Ringing one that is gone does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RingHandle(pub i32);

/// An error number of the kernel (`errno(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

/// Where a stream socket listens or connects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// TCP over IPv4 or IPv6.
    Tcp(SocketAddr),
    /// A unix stream socket at this path.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// What the kernel is asked to do.
#[derive(Debug)]
pub enum Op {
    /// Accept connections until cancelled: one [`Outcome::Accepted`] each, non-blocking and close-on-exec.
    Accept {
        /// A listening socket.
        listener: Fd,
    },
    /// Receive into small buffers until cancelled, at end of stream, on an error or when no buffer is free (which may
    /// hide an end of stream): one [`Outcome::Received`] each. It may also end after a buffer for no visible reason;
    /// [`Completion::more`] tells. Waits for data first, so that an empty buffer group does not spin.
    ReceiveMany {
        /// A connected socket.
        socket: Fd,
    },
    /// Receive once, into one large buffer.
    ReceiveOnce {
        /// A connected socket.
        socket: Fd,
        /// Whether data is known to wait already; otherwise the kernel waits for it before it takes a buffer.
        data_waits: bool,
    },
    /// Send all of the buffer's data. At most one send per socket may be in flight.
    Send {
        /// A connected socket.
        socket: Fd,
        /// What to send; it comes back in [`Outcome::Sent`], its data as it was.
        buffer: SendBuf,
    },
    /// Connect a socket made by [`Driver::open_socket`] for the same address. `EAGAIN` comes from a unix socket whose
    /// server is behind with accepting: the same connect may succeed a little later.
    Connect {
        /// The new socket.
        socket: Fd,
        /// Where to.
        address: Address,
    },
    /// Cancel one operation. The cancelled operation completes with `ECANCELED`, or as it would have; the cancel
    /// itself has no completion.
    Cancel {
        /// What [`Driver::push`] returned.
        op: OpId,
    },
    /// Wake the driver behind `ring`: it gets one [`Outcome::Rung`]. Has no completion here.
    Ring {
        /// The driver to wake.
        ring: RingHandle,
    },
    /// Add one to an eventfd, to wake a thread that has no driver. Has no completion.
    Notify {
        /// What [`sys::eventfd`] made.
        event: Fd,
    },
}

/// Whether the kernel holds a ring to the operations in use, whoever may come to control the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confinement {
    /// It does: anything else is answered with `EACCES`.
    Restricted,
    /// It answered this when it was asked to.
    Refused(Errno),
}

/// Which buffers a receive draws from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BufferGroup {
    /// Many small buffers, for [`Op::ReceiveMany`].
    Small,
    /// Few large ones, for [`Op::ReceiveOnce`].
    Large,
}

impl BufferGroup {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Small, Self::Large];

    /// Its place among both.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Small => 0,
            Self::Large => 1,
        }
    }
}

/// A filled receive buffer on loan from the driver. Its bytes are reached through [`Driver::bytes_mut`]; it must go
/// back through [`Driver::recycle`], or the driver runs out of buffers.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a lease that is dropped is a receive buffer lost"]
pub struct Lease {
    /// The group it was drawn from.
    pub group: BufferGroup,
    /// Its number in the group.
    pub id: u16,
    /// How many bytes were received into it; at least 1.
    pub len: u32,
}

/// How an operation went.
#[derive(Debug)]
pub enum Outcome {
    /// For [`Op::Accept`].
    Accepted(Result<Fd, Errno>),
    /// For [`Op::ReceiveMany`] and [`Op::ReceiveOnce`]: a buffer, `None` at end of stream, or an error (`ENOBUFS`:
    /// no buffer was free and no data is lost). What arrived before a reset is received before the error. The kernel
    /// tells of a reset once: when a send has failed of it, the receive sees an end of stream.
    Received {
        /// What came.
        result: Result<Option<Lease>, Errno>,
        /// Whether the kernel saw more data, or the end, waiting on the socket. False may also mean that it does not know.
        data_waits: bool,
    },
    /// For [`Op::Send`]: the buffer as it was pushed, and how many bytes of it were sent.
    Sent {
        /// The same buffer.
        buffer: SendBuf,
        /// Bytes sent; fewer than the data only when the connection failed or the send was cancelled midway.
        result: Result<usize, Errno>,
    },
    /// For [`Op::Connect`].
    Connected(Result<(), Errno>),
    /// Another driver rang; the token is [`Token(0)`](Token).
    Rung,
}

/// An operation's answer.
#[derive(Debug)]
pub struct Completion {
    /// The token it was pushed with.
    pub token: Token,
    /// How it went.
    pub outcome: Outcome,
    /// Whether more completions of this operation follow.
    pub more: bool,
}

/// How long [`Driver::enter`] may wait for a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// Until this time at the latest.
    Until(Time),
    /// Until something completes.
    Forever,
}

/// What a driver counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverCounts {
    /// Calls of `io_uring_enter(2)`.
    pub enters: u64,
    /// Times the kernel had more completions than the queue took; it kept them. Stays 0 when the queue is sized for the
    /// worst case.
    pub overflows: u64,
}

/// A kernel, or something that behaves like one.
///
/// The caller's duties:
/// 1. At most one receive and one send in flight per socket.
/// 2. Cancel what is in flight on a socket and see its final completions before [`Driver::close`].
/// 3. Return every lease within the turn that got it: free buffers are what makes receives go on.
/// 4. No [`Driver::shutdown_write`] while a send is in flight on the socket: the FIN would overtake it.
/// 5. Drive it from the thread that made it.
pub trait Driver {
    /// Queues an operation; it starts at the next [`Driver::enter`], or earlier. Never fails and never waits.
    fn push(&mut self, token: Token, op: Op) -> OpId;

    /// Starts what is queued and waits for at least one completion, or until `wait` is over. It may return earlier
    /// without one. Completions that are not taken yet count: with some of them and nothing queued it does nothing.
    /// An error is one of the ring itself (not of an operation) and is final.
    fn enter(&mut self, wait: Wait) -> io::Result<()>;

    /// The next completion, in the kernel's order; `None` when all that came are taken.
    fn next_completion(&mut self) -> Option<Completion>;

    /// The bytes of a leased buffer, exactly as many as were received.
    fn bytes_mut(&mut self, lease: &Lease) -> &mut [u8];

    /// Takes a leased buffer back.
    fn recycle(&mut self, lease: Lease);

    /// How many bytes one receive buffer of this group holds.
    fn buffer_bytes(&self, group: BufferGroup) -> u32;

    /// How many receive buffers this group has.
    fn buffer_count(&self, group: BufferGroup) -> u16;

    /// A handle by which other drivers can ring this one.
    fn ring_handle(&self) -> RingHandle;

    /// The time.
    fn now(&self) -> Time;

    /// Makes a socket fit to connect to `address`: non-blocking, close-on-exec, with `options` set.
    fn open_socket(&mut self, address: &Address, options: &SocketOptions) -> Result<Fd, Errno>;

    /// The address of the socket's own end, and of the peer's; `None` for what has none (unnamed unix sockets).
    fn socket_addresses(&mut self, socket: Fd) -> (Option<SocketAddr>, Option<SocketAddr>);

    /// Takes a client that has connected to `listener` and waits to be accepted, without waiting for one.
    fn accept_waiting(&mut self, listener: Fd) -> Option<Fd>;

    /// Has a listening socket refuse clients until [`Driver::open_listener`]; it stays bound. No accept may be in flight.
    fn close_listener(&mut self, listener: Fd);

    /// Has a socket listen again.
    fn open_listener(&mut self, listener: Fd, backlog: u32) -> Result<(), Errno>;

    /// Sends FIN after everything sent so far; see `shutdown(2)`, `SHUT_WR`.
    fn shutdown_write(&mut self, socket: Fd);

    /// Closes the file descriptor; with received data unread that is a reset. It may take effect with the next
    /// [`Driver::enter`] only; until then the number is not used again.
    fn close(&mut self, socket: Fd);

    /// What has been counted so far.
    fn counts(&self) -> DriverCounts;
}

/// Options of a session's sockets. Accepted sockets have those of their listener, see [`sys::tune_socket`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// `TCP_NODELAY` is always set; this is the keepalive idle time in seconds (`TCP_KEEPIDLE`), `None` for no keepalive.
    pub keepalive_seconds: Option<u32>,
    /// `TCP_USER_TIMEOUT` in milliseconds, `None` for the kernel's default.
    pub user_timeout_ms: Option<u32>,
    /// Our own address to connect from, of the family of where to; the kernel chooses the port, and without one the
    /// address, too.
    pub source: Option<IpAddr>,
}
