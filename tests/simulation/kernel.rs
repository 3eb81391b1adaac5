//! The `Driver` of the simulated machine.
//!
//! As on a ring with deferred task work, operations start and completions come only inside `enter`. Completions of one
//! operation keep their order; those of different ones come in the order in which the kernel got to them.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::net::SocketAddr;

use ringwall::io::{
    Address, BufferGroup, Completion, Driver, DriverCounts, Errno, Fd, Lease, Op, OpId, Outcome, RingHandle,
    SocketOptions, Token, Wait,
};
use ringwall::pool::SendBuf;
use ringwall::time::Time;

use super::buffers::SimBuffers;
use super::endpoint::{Found, Waiter};
use super::files::Kind;
use super::sim::{DriverId, Sim};
use super::world::{Accepted, Sleep};

/// What Linux receives for one multishot operation before it turns to others.
const MULTISHOT_MAX: usize = 32;

/// Makes a ring's number look like a descriptor, and unlike one of a file.
const RING_BASE: i32 = 1_000_000;

struct Flight {
    token: Token,
    fd: Fd,
    work: Work,
    cancelled: bool,
}

enum Work {
    Accept,
    Receive { group: BufferGroup, many: bool },
    Send { buffer: SendBuf, sent: usize },
    Connect,
}

impl Work {
    const fn kind(&self) -> Kind {
        match self {
            Self::Accept => Kind::Accept,
            Self::Receive { .. } => Kind::Receive,
            Self::Send { .. } => Kind::Send,
            Self::Connect => Kind::Connect,
        }
    }
}

pub(crate) struct SimDriver {
    sim: Sim,
    id: DriverId,
    submissions: Vec<(OpId, Token, Op)>,
    in_flight: BTreeMap<u64, Flight>,
    /// With what its last one frees for its user.
    completions: VecDeque<(Completion, Option<(Fd, Kind)>)>,
    small: SimBuffers,
    large: SimBuffers,
    /// Leases that the user has.
    leases: usize,
    enters: u64,
}

impl SimDriver {
    pub(super) fn new(sim: Sim) -> Self {
        let mut world = sim.world();
        let (settings, id) = (world.settings.clone(), world.add_driver());
        drop(world);
        Self {
            sim,
            id,
            submissions: Vec::new(),
            in_flight: BTreeMap::new(),
            completions: VecDeque::new(),
            small: SimBuffers::new(BufferGroup::Small, settings.small_buffers, settings.small_buffer_bytes),
            large: SimBuffers::new(BufferGroup::Large, settings.large_buffers, settings.large_buffer_bytes),
            leases: 0,
            enters: 0,
        }
    }

    /// Its number, for [`Sim::is_runnable`].
    pub(crate) const fn id(&self) -> DriverId {
        self.id
    }

    fn group(&mut self, group: BufferGroup) -> &mut SimBuffers {
        match group {
            BufferGroup::Small => &mut self.small,
            BufferGroup::Large => &mut self.large,
        }
    }

    fn waiter(&self, op: OpId) -> Waiter {
        Waiter { driver: self.id, op, woken: false }
    }

    fn submit(&mut self) {
        for (op, token, what) in std::mem::take(&mut self.submissions) {
            match what {
                Op::Accept { listener } => {
                    self.sim.world().files.listener(listener).acceptor = Some(self.waiter(op));
                    self.start(op, token, listener, Work::Accept);
                    self.sim.world().notice_listener(listener);
                }
                Op::ReceiveMany { socket } => self.start_receive(op, token, socket, BufferGroup::Small, false),
                Op::ReceiveOnce { socket, data_waits } => {
                    self.start_receive(op, token, socket, BufferGroup::Large, data_waits);
                }
                Op::Send { socket, buffer } => {
                    let end = self.sim.world().connected(socket);
                    self.sim.world().endpoint(end).sender = Some(Waiter { woken: true, ..self.waiter(op) });
                    self.start(op, token, socket, Work::Send { buffer, sent: 0 });
                    self.perform(op);
                }
                Op::Connect { socket, address } => {
                    self.sim.world().files.socket(socket).connector = Some((self.id, op));
                    self.start(op, token, socket, Work::Connect);
                    self.sim.world().connect(socket, (self.id, op), address);
                }
                Op::Cancel { op } => self.start_cancel(op),
                Op::Ring { ring } => {
                    let driver = usize::try_from(ring.0 - RING_BASE).expect("broken duty: not a ring");
                    self.sim.world().ring_later(DriverId(driver));
                }
                Op::Notify { event } => *self.sim.world().files.event(event) += 1,
            }
        }
    }

    fn start(&mut self, op: OpId, token: Token, fd: Fd, work: Work) {
        self.in_flight.insert(op.0, Flight { token, fd, work, cancelled: false });
    }

    fn start_receive(&mut self, op: OpId, token: Token, socket: Fd, group: BufferGroup, data_waits: bool) {
        let end = self.sim.world().connected(socket);
        self.sim.world().endpoint(end).receiver = Some(self.waiter(op));
        self.start(op, token, socket, Work::Receive { group, many: group == BufferGroup::Small });
        // Who does not wait for data first is told at once that there is no buffer, data or not.
        if data_waits && self.group(group).is_empty() {
            return self.finish(op, received(Err(Errno(libc::ENOBUFS)), false));
        }
        self.sim.world().notice(end);
    }

    fn start_cancel(&mut self, op: OpId) {
        let Some(flight) = self.in_flight.get_mut(&op.0) else { return };
        let mut world = self.sim.world();
        if world.chance(|settings| settings.late_cancel) {
            flight.cancelled = true;
            world.wake_later(self.id, op);
        } else {
            drop(world);
            self.cancel(op);
        }
    }

    /// What was ready before the cancel may still be done before it, and may end the operation first.
    fn cancel(&mut self, op: OpId) {
        if self.sim.world().rng.chance(500) {
            self.perform(op);
        }
        let Some(flight) = self.in_flight.get_mut(&op.0) else { return };
        let cancelled = Errno(libc::ECANCELED);
        let outcome = match &mut flight.work {
            Work::Accept => Outcome::Accepted(Err(cancelled)),
            Work::Receive { .. } => received(Err(cancelled), false),
            Work::Send { buffer, sent } => Outcome::Sent {
                buffer: std::mem::take(buffer),
                result: if *sent > 0 { Ok(*sent) } else { Err(cancelled) },
            },
            Work::Connect => Outcome::Connected(Err(cancelled)),
        };
        self.finish(op, outcome);
    }

    /// Does of an operation what can be done now.
    fn perform(&mut self, op: OpId) {
        let Some(flight) = self.in_flight.get(&op.0) else { return };
        let fd = flight.fd;
        match flight.work {
            Work::Accept => self.perform_accept(op, fd),
            Work::Receive { group, many } => self.perform_receive(op, fd, group, many),
            Work::Send { .. } => self.perform_send(op, fd),
            Work::Connect => {
                let result = self.sim.world().files.socket(fd).connected.take();
                if let Some(result) = result {
                    self.finish(op, Outcome::Connected(result));
                }
            }
        }
    }

    fn perform_accept(&mut self, op: OpId, fd: Fd) {
        for _ in 0..MULTISHOT_MAX {
            let mut world = self.sim.world();
            let accepted = world.accept(fd);
            let ends = world.chance(|settings| settings.multishot_end);
            drop(world);
            match accepted {
                Accepted::Socket(socket) if !ends => self.go_on(op, Outcome::Accepted(Ok(socket))),
                Accepted::Socket(socket) => return self.finish(op, Outcome::Accepted(Ok(socket))),
                Accepted::Failed(errno) => return self.finish(op, Outcome::Accepted(Err(errno))),
                Accepted::Nothing => break,
            }
        }
        let mut world = self.sim.world();
        if let Some(acceptor) = &mut world.files.listener(fd).acceptor {
            acceptor.woken = false;
        }
        world.notice_listener(fd);
    }

    fn perform_receive(&mut self, op: OpId, fd: Fd, group: BufferGroup, many: bool) {
        let end = self.sim.world().connected(fd);
        for _ in 0..MULTISHOT_MAX {
            let (none, room) = (self.group(group).is_empty(), self.group(group).room());
            let mut world = self.sim.world();
            if !world.endpoint(end).is_readable() {
                break;
            }
            let none = none || world.chance(|settings| settings.no_buffers);
            if none {
                drop(world);
                return self.finish(op, received(Err(Errno(libc::ENOBUFS)), false));
            }
            let short = world.chance(|settings| settings.short_receive);
            let max = if short { world.rng.size(room) } else { room };
            let found = world.read(end, max);
            let ends = !many || world.chance(|settings| settings.multishot_end);
            let waits = world.endpoint(end).is_readable();
            drop(world);
            let result = match found {
                Found::Bytes(bytes) => Ok(Some(self.group(group).lend(&bytes))),
                Found::End => Ok(None),
                Found::Failed(errno) => Err(errno),
                Found::Nothing => break,
            };
            if ends || !matches!(result, Ok(Some(_))) {
                return self.finish(op, received(result, waits));
            }
            self.go_on(op, received(result, waits));
        }
        let mut world = self.sim.world();
        if let Some(receiver) = &mut world.endpoint(end).receiver {
            receiver.woken = false;
        }
        world.notice(end);
    }

    fn perform_send(&mut self, op: OpId, fd: Fd) {
        let Some(Flight { work: Work::Send { buffer, sent }, .. }) = self.in_flight.get_mut(&op.0) else { return };
        let mut world = self.sim.world();
        let end = world.connected(fd);
        let data = &buffer.data()[*sent..];
        let partial = data.len() > 1 && world.chance(|settings| settings.partial_send);
        let len = if partial { world.rng.size(data.len()) } else { data.len() };
        let result = match world.write(end, &data[..len]) {
            Ok(written) => {
                *sent += written;
                (*sent == buffer.len()).then_some(Ok(*sent))
            }
            Err(_) if *sent > 0 => Some(Ok(*sent)),
            Err(errno) => Some(Err(errno)),
        };
        let Some(result) = result else {
            if let Some(sender) = &mut world.endpoint(end).sender {
                sender.woken = false;
            }
            return world.notice(end);
        };
        let buffer = std::mem::take(buffer);
        drop(world);
        self.finish(op, Outcome::Sent { buffer, result });
    }

    fn go_on(&mut self, op: OpId, outcome: Outcome) {
        let token = self.in_flight[&op.0].token;
        self.completions.push_back((Completion { token, outcome, more: true }, None));
    }

    fn finish(&mut self, op: OpId, outcome: Outcome) {
        let flight = self.in_flight.remove(&op.0).expect("in flight");
        let (token, fd, kind) = (flight.token, flight.fd, flight.work.kind());
        let mut world = self.sim.world();
        match kind {
            Kind::Accept => world.files.listener(fd).acceptor = None,
            Kind::Connect => world.files.socket(fd).connector = None,
            Kind::Receive | Kind::Send => {
                let end = world.connected(fd);
                let end = world.endpoint(end);
                *(if kind == Kind::Receive { &mut end.receiver } else { &mut end.sender }) = None;
            }
        }
        self.completions.push_back((Completion { token, outcome, more: false }, Some((fd, kind))));
    }

    fn perform_woken(&mut self) {
        let mut world = self.sim.world();
        let state = &mut world.drivers[self.id.0];
        for _ in 0..std::mem::take(&mut state.rings) {
            let completion = Completion { token: Token(0), outcome: Outcome::Rung, more: false };
            self.completions.push_back((completion, None));
        }
        drop(world);
        let most = self.sim.world().settings.work_per_enter_max;
        for _ in 0..most {
            let Some(op) = self.sim.world().drivers[self.id.0].woken.pop_front() else { break };
            match self.in_flight.get(&op.0) {
                Some(flight) if flight.cancelled => self.cancel(op),
                Some(_) => self.perform(op),
                None => {}
            }
        }
    }

    /// Moves time until something completes, as a thread that sleeps.
    fn sleep(&mut self, wait: Wait) {
        while self.completions.is_empty() {
            let mut world = self.sim.world();
            let (next, now) = (world.next_time(), world.now());
            let until = match (wait, next) {
                (Wait::No, _) => return,
                (Wait::Until(until), _) if until <= now => return,
                (Wait::Until(until), next) => next.map_or(until, |next| next.min(until)),
                (Wait::Forever, Some(next)) => next,
                (Wait::Forever, None) => panic!("asleep for ever: nothing is going to happen"),
            };
            world.advance_to(until.max(now));
            drop(world);
            self.perform_woken();
        }
    }

    fn account(&self) {
        let mut world = self.sim.world();
        let state = &mut world.drivers[self.id.0];
        state.leases = self.leases;
        let queued = self.submissions.iter().filter(|(_, _, op)| kind_of(op).is_some()).count();
        state.in_flight = self.in_flight.len() + queued;
    }
}

impl Driver for SimDriver {
    fn push(&mut self, token: Token, op: Op) -> OpId {
        let mut world = self.sim.world();
        let id = world.next_op();
        if let Some((fd, kind)) = kind_of(&op) {
            world.files.mark(fd, kind, true);
        }
        let full = self.submissions.len() >= world.settings.submissions;
        drop(world);
        if full {
            self.submit();
        }
        self.submissions.push((id, token, op));
        self.account();
        id
    }

    fn enter(&mut self, wait: Wait) -> io::Result<()> {
        self.enters += 1;
        self.small.publish();
        self.large.publish();
        self.account();
        let (out, mut world) = (self.leases, self.sim.world());
        assert!(out == 0 || !world.settings.leases_home_each_turn, "broken duty: {out} leases at the end of a turn");
        world.run_due();
        drop(world);
        self.submit();
        self.sim.world().run_due();
        self.perform_woken();
        if self.sim.world().settings.enter_advances_time {
            self.sleep(wait);
        }
        self.account();
        let mut world = self.sim.world();
        let sleep = match wait {
            Wait::Until(time) if self.completions.is_empty() && time > world.now() => Sleep::Until(time),
            Wait::Forever if self.completions.is_empty() => Sleep::Forever,
            Wait::No | Wait::Until(_) | Wait::Forever => Sleep::Awake,
        };
        // A signal may end a wait with nothing to show for it.
        let interrupted = sleep != Sleep::Awake && world.chance(|settings| settings.interrupted_wait);
        let sleep = if interrupted { Sleep::Awake } else { sleep };
        world.drivers[self.id.0].sleep = sleep;
        if sleep == Sleep::Awake { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    fn next_completion(&mut self) -> Option<Completion> {
        let (completion, frees) = self.completions.pop_front()?;
        if let Some((fd, kind)) = frees {
            self.sim.world().files.mark(fd, kind, false);
        }
        if let Outcome::Received { result: Ok(Some(_)), .. } = completion.outcome {
            self.leases += 1;
        }
        self.account();
        Some(completion)
    }

    fn bytes_mut(&mut self, lease: &Lease) -> &mut [u8] {
        self.group(lease.group).bytes_mut(lease)
    }

    fn recycle(&mut self, lease: Lease) {
        self.group(lease.group).recycle(lease);
        self.leases -= 1;
        self.account();
    }

    fn buffer_bytes(&self, group: BufferGroup) -> u32 {
        let settings = &self.sim.world().settings;
        let bytes = match group {
            BufferGroup::Small => settings.small_buffer_bytes,
            BufferGroup::Large => settings.large_buffer_bytes,
        };
        u32::try_from(bytes).expect("buffers are small")
    }

    fn buffer_count(&self, group: BufferGroup) -> u16 {
        let settings = &self.sim.world().settings;
        match group {
            BufferGroup::Small => settings.small_buffers,
            BufferGroup::Large => settings.large_buffers,
        }
    }

    fn ring_handle(&self) -> RingHandle {
        RingHandle(RING_BASE + i32::try_from(self.id.0).expect("few drivers"))
    }

    fn now(&self) -> Time {
        self.sim.now()
    }

    fn open_socket(&mut self, _: &Address, _: &SocketOptions) -> Result<Fd, Errno> {
        self.sim.world().open_socket(None)
    }

    fn close_listener(&mut self, listener: Fd) {
        self.sim.world().close_listener(listener);
    }

    fn open_listener(&mut self, listener: Fd, _: u32) -> Result<(), Errno> {
        self.sim.world().files.listener(listener).closed = false;
        Ok(())
    }

    fn accept_waiting(&mut self, listener: Fd) -> Option<Fd> {
        match self.sim.world().accept(listener) {
            Accepted::Socket(socket) => Some(socket),
            Accepted::Nothing | Accepted::Failed(_) => None,
        }
    }

    fn socket_addresses(&mut self, socket: Fd) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let mut world = self.sim.world();
        let Some(end) = world.files.socket(socket).endpoint else { return (None, None) };
        let end = world.endpoint(end);
        (end.local, end.remote)
    }

    fn shutdown_write(&mut self, socket: Fd) {
        let mut world = self.sim.world();
        let (endpoint, busy) = (world.files.socket(socket).endpoint, world.files.socket(socket).busy);
        assert!(!busy.send, "broken duty: {socket:?} is shut with a send in flight");
        if let Some(end) = endpoint {
            world.shut(end);
        }
    }

    fn close(&mut self, socket: Fd) {
        self.sim.world().close_file(socket);
    }

    fn counts(&self) -> DriverCounts {
        DriverCounts { enters: self.enters, overflows: 0 }
    }
}

impl fmt::Debug for SimDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDriver").field("in_flight", &self.in_flight.len()).finish_non_exhaustive()
    }
}

impl Drop for SimDriver {
    fn drop(&mut self) {
        let out = self.leases;
        assert!(out == 0 || std::thread::panicking(), "broken duty: {out} leases are not home at the end");
    }
}

const fn received(result: Result<Option<Lease>, Errno>, data_waits: bool) -> Outcome {
    Outcome::Received { result, data_waits }
}

/// The file that an answered operation is about, and what it keeps busy.
const fn kind_of(op: &Op) -> Option<(Fd, Kind)> {
    match op {
        Op::Accept { listener } => Some((*listener, Kind::Accept)),
        Op::ReceiveMany { socket } | Op::ReceiveOnce { socket, .. } => Some((*socket, Kind::Receive)),
        Op::Send { socket, .. } => Some((*socket, Kind::Send)),
        Op::Connect { socket, .. } => Some((*socket, Kind::Connect)),
        Op::Cancel { .. } | Op::Ring { .. } | Op::Notify { .. } => None,
    }
}
