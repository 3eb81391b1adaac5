//! The [`Driver`] on a real io_uring.
//!
//! It owns the queues, the receive buffers and the table of what is in flight; the memory of an operation stays in that
//! table until the kernel has answered for the last time. The first tests to read are those of
//! `tests/driver_contract`.

#![expect(unsafe_code, reason = "entries point to memory that the kernel reads and writes")]

use std::io::{self, Write};
use std::mem;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd as RingFd};
use io_uring::{cqueue, opcode, squeue};

use super::buffers::BufferRing;
use super::in_flight::{Flight, InFlight, Receive, Work};
use super::ring::Ring;
use super::sys::{self, SockAddr};
pub use super::unavailable::{Step, Unavailable};
use super::watch::{Fired, Start, Watches};
use super::{
    Address, BufferGroup, Completion, Confinement, Driver, DriverCounts, Errno, Fd, Lease, Op, OpId, Outcome,
    RingHandle, SocketOptions, Token, Wait,
};
use crate::pool::SendBuf;
use crate::time::Time;

/// `IORING_RECVSEND_POLL_FIRST`: wait for readiness before anything else, above all before taking a buffer.
const POLL_FIRST: u16 = 1 << 0;
/// `IORING_RECV_MULTISHOT`: go on receiving.
const RECEIVE_MULTISHOT: u16 = 1 << 1;

/// The whole of what a ring may be asked for.
const OPCODES: [u8; 8] = [
    opcode::AcceptMulti::CODE,
    opcode::Recv::CODE,
    opcode::PollAdd::CODE,
    opcode::Send::CODE,
    opcode::Connect::CODE,
    opcode::AsyncCancel::CODE,
    opcode::MsgRingData::CODE,
    opcode::Write::CODE,
];

/// Another ring's [`Op::Ring`]. This and [`UNANSWERED`] are below every id of the in-flight table, [`WATCH`] is above.
const RUNG: u64 = 1;
/// With a descriptor in the lower half: the poll for the end of that socket.
const WATCH: u64 = 1 << 63;
/// An operation without completion; the kernel answers only when it failed.
const UNANSWERED: OpId = OpId(2);

/// What [`Op::Notify`] writes: an eventfd adds it to its counter.
static ONE: [u8; 8] = 1_u64.to_ne_bytes();

/// How long a driver that is dropped waits for the kernel to let go of its memory. Cancelling takes microseconds; this
/// bounds the case that should not happen.
const DROP_WAIT: Duration = Duration::from_secs(1);

/// Sizes of a driver, fixed when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UringOptions {
    /// Operations queued before they are submitted; a power of two.
    pub submissions: u32,
    /// Completions the kernel can queue between two [`Driver::enter`]; a power of two. Enough is: one per buffer, two
    /// per socket with a receive, and one per socket with a send.
    pub completions: u32,
    /// Operations in flight for which memory is set aside; more are possible.
    pub in_flight: usize,
    /// Buffers for [`Op::ReceiveMany`]; a power of two, or 0 for a driver that never receives so.
    pub small_buffers: u16,
    /// Bytes of each.
    pub small_buffer_bytes: u32,
    /// Buffers for [`Op::ReceiveOnce`]; a power of two, or 0 for a driver that never receives so.
    pub large_buffers: u16,
    /// Bytes of each.
    pub large_buffer_bytes: u32,
}

impl Default for UringOptions {
    /// For a shard. Both groups together are 5 MiB: measured, a larger working set makes each receive a cache miss. A
    /// large buffer holds a value of 64 KiB together with what RESP puts around it: with 64 KiB, a few bytes of each
    /// such value would need a receive and a send of their own.
    fn default() -> Self {
        Self {
            submissions: 1024,
            completions: 8192,
            in_flight: 1024,
            small_buffers: 1024,
            small_buffer_bytes: 4 * 1024,
            large_buffers: 16,
            large_buffer_bytes: 68 * 1024,
        }
    }
}

/// A driver on an io_uring of its own. It stays on the thread that made it.
pub struct Uring {
    // Closed before the buffers are freed.
    ring: Ring,
    small: Option<BufferRing>,
    large: Option<BufferRing>,
    in_flight: InFlight,
    watches: Watches,
    /// Receives to be cancelled because they may have missed the end, unless they have ended by then.
    suspects: Vec<OpId>,
    /// Whether buffers came back since the kernel was last told.
    recycled: bool,
    confinement: Confinement,
}

/// Tries everything ringwall needs of the kernel: a ring, a buffer ring, and a multishot receive on a socket pair. Gives
/// what it could do without.
pub fn probe() -> Result<Confinement, Unavailable> {
    let options =
        UringOptions { submissions: 8, completions: 16, small_buffers: 2, large_buffers: 1, ..Default::default() };
    let mut driver = Uring::new(&options)?;
    receive_one(&mut driver).map_err(|error| Unavailable::new(Step::MultishotReceive, &error))?;
    Ok(driver.confinement)
}

fn receive_one(driver: &mut Uring) -> io::Result<()> {
    let (near, mut far) = UnixStream::pair()?;
    far.write_all(b"x")?;
    driver.push(Token(0), Op::ReceiveMany { socket: Fd(near.as_raw_fd()) });
    let deadline = driver.now() + DROP_WAIT;
    driver.enter(Wait::Until(deadline))?;
    match driver.next_completion().map(|completion| completion.outcome) {
        Some(Outcome::Received { result: Ok(Some(lease)), .. }) => {
            driver.recycle(lease);
            Ok(())
        }
        Some(Outcome::Received { result: Err(errno), .. }) => Err(errno.into()),
        _ => Err(io::Error::from_raw_os_error(libc::ETIME)),
    }
}

impl Uring {
    /// A driver for the calling thread.
    pub fn new(options: &UringOptions) -> Result<Self, Unavailable> {
        let failed = |step| move |error: io::Error| Unavailable::new(step, &error);
        let ring = Ring::new(options.submissions, options.completions).map_err(failed(Step::Ring))?;
        let group = |group, count, bytes| {
            (count > 0).then(|| register(&ring, group, count, bytes)).transpose().map_err(failed(Step::BufferRing))
        };
        let small = group(BufferGroup::Small, options.small_buffers, options.small_buffer_bytes)?;
        let large = group(BufferGroup::Large, options.large_buffers, options.large_buffer_bytes)?;
        let flags = squeue::Flags::BUFFER_SELECT | squeue::Flags::SKIP_SUCCESS;
        let confinement = ring.enable(&OPCODES, flags).map_err(failed(Step::Enable))?;
        Ok(Self {
            ring,
            small,
            large,
            in_flight: InFlight::with_capacity(options.in_flight),
            watches: Watches::with_capacity(options.in_flight),
            suspects: Vec::with_capacity(options.in_flight),
            recycled: false,
            confinement,
        })
    }

    const fn buffers(&self, group: BufferGroup) -> Option<&BufferRing> {
        match group {
            BufferGroup::Small => self.small.as_ref(),
            BufferGroup::Large => self.large.as_ref(),
        }
    }

    fn group(&mut self, group: BufferGroup) -> &mut BufferRing {
        let ring = match group {
            BufferGroup::Small => &mut self.small,
            BufferGroup::Large => &mut self.large,
        };
        ring.as_mut().expect("a buffer of a group this driver was made without")
    }

    /// Queues an operation that is answered.
    fn start(&mut self, token: Token, work: Work, entry: squeue::Entry) -> OpId {
        let op = self.in_flight.insert(Flight { token, work });
        // SAFETY: the entry points to memory inside `work` or to none (a receive writes a buffer of a registered group).
        // `work` stays in the table until the last completion, or for ever when the driver is dropped before that.
        // Moving `work` into the table does not move the heap memory that the entry points to.
        unsafe { self.ring.push(entry.user_data(op.0)) };
        op
    }

    /// Queues an operation that is not answered unless it fails, and whose failure changes nothing.
    fn start_unanswered(&mut self, entry: squeue::Entry) -> OpId {
        let entry = entry.user_data(UNANSWERED.0).flags(squeue::Flags::SKIP_SUCCESS);
        // SAFETY: such an entry points to no memory but `ONE`, which is static.
        unsafe { self.ring.push(entry) };
        UNANSWERED
    }

    fn receive(&mut self, token: Token, socket: Fd, group: BufferGroup, data_waits: bool) -> OpId {
        let receive = Receive { socket, group, many: false, cancelled: false, interrupted: false };
        self.start(token, Work::Receive(receive), receive_entry(socket, group, if data_waits { 0 } else { POLL_FIRST }))
    }

    fn receive_many(&mut self, token: Token, socket: Fd) -> OpId {
        let group = BufferGroup::Small;
        let work = Work::Receive(Receive { socket, group, many: true, cancelled: false, interrupted: false });
        let op = self.in_flight.insert(Flight { token, work });
        let start = self.watches.start(socket, op);
        let how = if start == Start::Singly { POLL_FIRST } else { POLL_FIRST | RECEIVE_MULTISHOT };
        // SAFETY: the entry points to no memory; it names a buffer group, which outlives it.
        unsafe { self.ring.push(receive_entry(socket, group, how).user_data(op.0)) };
        if start == Start::WithPoll {
            // No events asked for: the kernel always adds error, hang-up and the end of the other side's direction.
            let entry = opcode::PollAdd::new(RingFd(socket.0), 0).build().user_data(watch_id(socket));
            // SAFETY: the entry points to no memory.
            unsafe { self.ring.push(entry) };
        }
        op
    }

    fn send(&mut self, token: Token, socket: Fd, buffer: SendBuf) -> OpId {
        let data = buffer.data();
        let len = u32::try_from(data.len()).expect("a send of 4 GiB");
        let entry = opcode::Send::new(RingFd(socket.0), data.as_ptr(), len)
            .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
            .build();
        self.start(token, Work::Send(buffer), entry)
    }

    fn connect(&mut self, token: Token, socket: Fd, address: &Address) -> OpId {
        let sockaddr = Box::new(SockAddr::new(address).expect("an address that open_socket took"));
        let entry = opcode::Connect::new(RingFd(socket.0), sockaddr.as_ptr(), sockaddr.len()).build();
        self.start(token, Work::Connect(sockaddr), entry)
    }

    /// What a completion of the kernel means; `None` when it means nothing to the user.
    fn decode(&mut self, entry: &cqueue::Entry) -> Option<Completion> {
        if entry.user_data() == RUNG {
            return Some(Completion { token: Token(0), outcome: Outcome::Rung, more: false });
        }
        if let Some(socket) = watched(entry.user_data()) {
            self.end_is_near(socket);
            return None;
        }
        let op = OpId(entry.user_data());
        if op == UNANSWERED {
            return None;
        }
        let more = cqueue::more(entry.flags());
        let result = usize::try_from(entry.result()).map_err(|_| Errno(-entry.result()));
        let flight = self.in_flight.get_mut(op).expect("completions only of what is in flight");
        let token = flight.token;
        let outcome = match &mut flight.work {
            Work::Accept => Outcome::Accepted(result.map(|_| Fd(entry.result()))),
            Work::Connect(_) => Outcome::Connected(result.map(|_| ())),
            Work::Send(buffer) => {
                assert!(!more, "the kernel still reads a buffer that it reports as sent");
                Outcome::Sent { buffer: mem::take(buffer), result }
            }
            &mut Work::Receive(receive) => return self.received(op, token, receive, entry),
        };
        if !more {
            self.in_flight.remove(op);
        }
        Some(Completion { token, outcome, more })
    }

    fn received(&mut self, op: OpId, token: Token, receive: Receive, entry: &cqueue::Entry) -> Option<Completion> {
        let result = self.take_buffer(receive.group, entry);
        let data_waits = cqueue::sock_nonempty(entry.flags());
        let outcome = |result| Outcome::Received { result, data_waits };
        if cqueue::more(entry.flags()) {
            return Some(Completion { token, outcome: outcome(result), more: true });
        }
        let Receive { socket, group, .. } = receive;
        let interrupted = receive.interrupted && result == Err(Errno(libc::ECANCELED));
        let goes_on = interrupted || matches!(result, Ok(Some(_)));
        if receive.many && !receive.cancelled && goes_on && self.watches.has_fired(socket) {
            // SAFETY: the entry points to no memory; it names a buffer group, which outlives it.
            unsafe { self.ring.push(receive_entry(socket, group, POLL_FIRST).user_data(op.0)) };
            return (!interrupted).then(|| Completion { token, outcome: outcome(result), more: true });
        }
        self.in_flight.remove(op);
        if receive.many {
            self.watches.finish(socket);
        }
        Some(Completion { token, outcome: outcome(result), more: false })
    }

    fn take_buffer(&mut self, group: BufferGroup, entry: &cqueue::Entry) -> Result<Option<Lease>, Errno> {
        let id = cqueue::buffer_select(entry.flags());
        let len = u32::try_from(entry.result()).map_err(|_| Errno(-entry.result()));
        match (len, id) {
            (Ok(len), Some(id)) if len > 0 => Ok(Some(self.group(group).lend(id, len))),
            (Ok(len), None) if len > 0 => unreachable!("{len} bytes received into no buffer"),
            (Ok(_) | Err(_), id) => {
                // The kernel may have committed to a buffer before it found that there is nothing to put into it.
                if let Some(id) = id {
                    let unused = self.group(group).lend(id, 1);
                    self.recycle(unused);
                }
                len.map(|_| None)
            }
        }
    }

    /// The poll for the end of a socket has completed.
    fn end_is_near(&mut self, socket: Fd) {
        match self.watches.fire(socket) {
            Fired::Close => sys::close(socket),
            Fired::Cancel(op) => self.suspects.push(op),
            Fired::Nothing => {}
        }
    }

    /// Cancels the receives that may have missed the end of their sockets.
    fn interrupt_suspects(&mut self) {
        while let Some(op) = self.suspects.pop() {
            if let Some(Flight { work: Work::Receive(receive), .. }) = self.in_flight.get_mut(op) {
                receive.interrupted = true;
                self.start_unanswered(opcode::AsyncCancel::new(op.0).build());
            }
        }
    }

    fn cancel(&mut self, op: OpId) -> OpId {
        let Some(flight) = self.in_flight.get_mut(op) else { return UNANSWERED };
        if let Work::Receive(receive) = &mut flight.work {
            receive.cancelled = true;
        }
        self.start_unanswered(opcode::AsyncCancel::new(op.0).build())
    }

    /// Cancels everything and waits until the kernel has answered for all of it. Returns whether it has.
    fn come_to_rest(&mut self) -> bool {
        let deadline = self.now() + DROP_WAIT;
        for flight in self.in_flight.iter_mut() {
            if let Work::Receive(receive) = &mut flight.work {
                receive.cancelled = true;
            }
        }
        let everything = opcode::AsyncCancel2::new(CancelBuilder::any().all()).build();
        self.start_unanswered(everything);
        // At least once: rings and notifications that are still queued must get out.
        if self.enter(Wait::No).is_err() {
            return false;
        }
        loop {
            while let Some(completion) = self.next_completion() {
                // Nobody else will ever know the number of such a descriptor.
                if let Outcome::Accepted(Ok(socket)) = completion.outcome {
                    sys::close(socket);
                }
            }
            if self.in_flight.is_empty() && self.watches.polls() == 0 {
                return true;
            }
            if self.now() >= deadline || self.enter(Wait::Until(deadline)).is_err() {
                return false;
            }
        }
    }
}

fn receive_entry(socket: Fd, group: BufferGroup, how: u16) -> squeue::Entry {
    opcode::Recv::new(RingFd(socket.0), std::ptr::null_mut(), 0)
        .ioprio(how)
        .buf_group(BufferRing::id(group))
        .build()
        .flags(squeue::Flags::BUFFER_SELECT)
}

fn watch_id(socket: Fd) -> u64 {
    WATCH | u64::from(u32::from_ne_bytes(socket.0.to_ne_bytes()))
}

#[expect(clippy::cast_possible_truncation, reason = "the descriptor is in the lower half")]
fn watched(user_data: u64) -> Option<Fd> {
    (user_data & WATCH != 0).then(|| Fd(i32::from_ne_bytes((user_data as u32).to_ne_bytes())))
}

fn register(ring: &Ring, group: BufferGroup, count: u16, bytes: u32) -> io::Result<BufferRing> {
    let buffers = BufferRing::new(group, count, bytes)?;
    // SAFETY: the buffers are kept in the `Uring` that keeps `ring`. When it is dropped they are freed only if nothing is
    // in flight any more, and leaked otherwise.
    unsafe { buffers.register(ring.submitter()) }?;
    Ok(buffers)
}

impl Driver for Uring {
    fn push(&mut self, token: Token, op: Op) -> OpId {
        match op {
            Op::Accept { listener } => {
                let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
                let entry = opcode::AcceptMulti::new(RingFd(listener.0)).flags(flags).build();
                self.start(token, Work::Accept, entry)
            }
            Op::ReceiveMany { socket } => self.receive_many(token, socket),
            Op::ReceiveOnce { socket, data_waits } => self.receive(token, socket, BufferGroup::Large, data_waits),
            Op::Send { socket, buffer } => self.send(token, socket, buffer),
            Op::Connect { socket, address } => self.connect(token, socket, &address),
            Op::Cancel { op } => self.cancel(op),
            Op::Ring { ring } => self.start_unanswered(opcode::MsgRingData::new(RingFd(ring.0), 0, RUNG, None).build()),
            Op::Notify { event } => self.start_unanswered(opcode::Write::new(RingFd(event.0), ONE.as_ptr(), 8).build()),
        }
    }

    fn enter(&mut self, wait: Wait) -> io::Result<()> {
        if self.recycled {
            self.recycled = false;
            self.small.iter_mut().chain(&mut self.large).for_each(BufferRing::publish);
        }
        self.interrupt_suspects();
        self.ring.enter(wait)
    }

    fn next_completion(&mut self) -> Option<Completion> {
        while let Some(entry) = self.ring.next() {
            let completion = self.decode(&entry);
            if completion.is_some() {
                return completion;
            }
        }
        None
    }

    fn bytes_mut(&mut self, lease: &Lease) -> &mut [u8] {
        self.group(lease.group).bytes_mut(lease)
    }

    fn recycle(&mut self, lease: Lease) {
        self.group(lease.group).recycle(lease);
        self.recycled = true;
    }

    fn buffer_bytes(&self, group: BufferGroup) -> u32 {
        self.buffers(group).map_or(0, BufferRing::buffer_bytes)
    }

    fn buffer_count(&self, group: BufferGroup) -> u16 {
        self.buffers(group).map_or(0, BufferRing::buffer_count)
    }

    fn ring_handle(&self) -> RingHandle {
        RingHandle(self.ring.fd())
    }

    fn now(&self) -> Time {
        sys::now()
    }

    fn open_socket(&mut self, address: &Address, options: &SocketOptions) -> Result<Fd, Errno> {
        sys::open_socket(address, options).map(Fd::from)
    }

    fn socket_addresses(&mut self, socket: Fd) -> (Option<SocketAddr>, Option<SocketAddr>) {
        (sys::local_address(socket), sys::peer_address(socket))
    }

    fn accept_waiting(&mut self, listener: Fd) -> Option<Fd> {
        sys::accept(listener).map(Fd::from)
    }

    fn close_listener(&mut self, listener: Fd) {
        sys::close_listener(listener);
    }

    fn open_listener(&mut self, listener: Fd, backlog: u32) -> Result<(), Errno> {
        sys::open_listener(listener, backlog)
    }

    fn shutdown_write(&mut self, socket: Fd) {
        sys::shutdown_write(socket);
    }

    fn close(&mut self, socket: Fd) {
        if self.watches.close(socket) {
            sys::close(socket);
        } else {
            self.start_unanswered(opcode::AsyncCancel::new(watch_id(socket)).build());
        }
    }

    fn counts(&self) -> DriverCounts {
        self.ring.counts()
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if !self.come_to_rest() {
            // The kernel may still read and write this memory: it is never freed.
            self.small.iter_mut().chain(&mut self.large).for_each(BufferRing::leak);
            mem::forget(mem::replace(&mut self.in_flight, InFlight::with_capacity(0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_refuses_what_ringwall_does_not_use() {
        let path = c"/etc/hostname";
        let mut byte = [0];
        let others = [
            opcode::Nop::new().build(),
            opcode::OpenAt::new(RingFd(libc::AT_FDCWD), path.as_ptr()).build(),
            opcode::Read::new(RingFd(0), byte.as_mut_ptr(), 1).build(),
            opcode::UnlinkAt::new(RingFd(libc::AT_FDCWD), path.as_ptr()).build(),
            opcode::Socket::new(libc::AF_INET, libc::SOCK_STREAM, 0).build(),
            opcode::Close::new(RingFd(-1)).build(),
            opcode::Accept::new(RingFd(-1), std::ptr::null_mut(), std::ptr::null_mut())
                .build()
                .flags(squeue::Flags::ASYNC),
        ];
        let mut driver = Uring::new(&UringOptions { submissions: 8, completions: 16, ..Default::default() }).unwrap();
        assert_eq!(driver.confinement, Confinement::Restricted);
        for entry in others {
            // SAFETY: the path is static, the byte outlives the loop, and each entry has completed before the next.
            unsafe { driver.ring.push(entry) };
            driver.enter(Wait::Forever).unwrap();
            assert_eq!(driver.ring.next().unwrap().result(), -libc::EACCES);
        }
    }
}
