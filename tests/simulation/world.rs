//! The simulated machine: time, connections, descriptors, servers, and who waits for what.
//!
//! Invariants: ends `2n` and `2n + 1` of the table are two ends of one connection; every change that may let a waiting
//! operation go on is followed by [`World::notice`]; a driver is told of an operation at most once until it has looked.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use ringwall::io::{Address, Errno, Fd, OpId};
use ringwall::time::Time;

use super::agenda::Agenda;
use super::endpoint::{Endpoint, Found, Segment, Settled, Waiter};
use super::files::{Busy, File, Files, Listener, Socket};
use super::rng::Rng;
use super::settings::Settings;
use super::sim::DriverId;

/// A connection attempt at a full listener is repeated after this time, as a lost SYN is.
const RETRY: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndpointId(pub(crate) usize);

impl EndpointId {
    pub(crate) const fn other(self) -> Self {
        Self(self.0 ^ 1)
    }
}

#[derive(Debug)]
enum Event {
    /// A segment is due at this end.
    Arrive(EndpointId),
    /// An operation can go on.
    Wake(DriverId, OpId),
    Ring(DriverId),
    /// A connection reaches a listener of the process under test.
    Incoming(Address, EndpointId),
    /// A connection attempt of the process under test reaches its target.
    Outgoing(Fd, (DriverId, OpId), Address),
}

/// What a server does with connection attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Accept,
    Refuse,
    /// As a unix server that is behind with accepting.
    Busy,
    /// Nothing at all: the attempt stays without answer.
    Ignore,
}

#[derive(Debug)]
struct ServerState {
    address: Address,
    answer: Answer,
    pending: VecDeque<EndpointId>,
    ignored: Vec<(Fd, (DriverId, OpId))>,
}

/// How a driver's last enter left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep {
    Awake,
    Until(Time),
    Forever,
}

#[derive(Debug)]
pub(crate) struct DriverState {
    pub(crate) woken: VecDeque<OpId>,
    pub(crate) rings: usize,
    pub(crate) sleep: Sleep,
    pub(crate) leases: usize,
    pub(crate) in_flight: usize,
}

/// What an accept finds.
#[derive(Debug)]
pub(crate) enum Accepted {
    Socket(Fd),
    Nothing,
    Failed(Errno),
}

pub(crate) struct World {
    pub(crate) settings: Settings,
    pub(crate) rng: Rng,
    pub(crate) files: Files,
    pub(crate) drivers: Vec<DriverState>,
    agenda: Agenda<Event>,
    endpoints: Vec<Endpoint>,
    servers: Vec<ServerState>,
    ops: u64,
    ports: u16,
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            rng: Rng::new(settings.seed),
            settings,
            files: Files::default(),
            drivers: Vec::new(),
            // Not zero: a time that was never set must not look like one.
            agenda: Agenda::new(Time::from_nanos(1_000_000_000)),
            endpoints: Vec::new(),
            servers: Vec::new(),
            ops: 0,
            ports: 10_000,
        }
    }

    // Time.

    pub(crate) const fn now(&self) -> Time {
        self.agenda.now()
    }

    pub(crate) fn next_time(&self) -> Option<Time> {
        self.agenda.next_time()
    }

    /// Moves time and lets happen what is due.
    pub(crate) fn advance_to(&mut self, time: Time) {
        while let Some(next) = self.agenda.next_time().filter(|&next| next <= time) {
            self.agenda.advance_to(next.max(self.now()));
            self.run_due();
        }
        self.agenda.advance_to(time);
    }

    pub(crate) fn run_due(&mut self) {
        while let Some(event) = self.agenda.take_due() {
            match event {
                Event::Arrive(id) => self.settle(id),
                Event::Wake(driver, op) => self.drivers[driver.0].woken.push_back(op),
                Event::Ring(driver) => self.drivers[driver.0].rings += 1,
                Event::Incoming(address, id) => self.incoming(&address, id),
                Event::Outgoing(fd, connector, address) => self.outgoing(fd, connector, &address),
            }
        }
    }

    /// Whether a fault of this rate happens here.
    pub(crate) fn chance(&mut self, rate: impl Fn(&Settings) -> u16) -> bool {
        let thousandths = rate(&self.settings);
        self.rng.chance(thousandths)
    }

    fn network_time(&mut self) -> Time {
        self.now() + self.rng.duration(self.settings.network_delay_max)
    }

    fn kernel_time(&mut self) -> Time {
        self.now() + self.rng.duration(self.settings.kernel_delay_max)
    }

    // Connections.

    pub(crate) fn endpoint(&mut self, id: EndpointId) -> &mut Endpoint {
        &mut self.endpoints[id.0]
    }

    /// The connection of a socket of the process under test.
    pub(crate) fn connected(&mut self, fd: Fd) -> EndpointId {
        self.files.socket(fd).endpoint.unwrap_or_else(|| panic!("broken duty: {fd:?} is not connected"))
    }

    /// Two ends; the first is the one that connects.
    pub(crate) fn pair(&mut self, target: &Address) -> EndpointId {
        let (local, remote) = match target {
            Address::Tcp(remote) => {
                self.ports += 1;
                (Some(SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1), self.ports))), Some(*remote))
            }
            Address::Unix(_) => (None, None),
        };
        self.endpoints.push(Endpoint::new(local, remote));
        self.endpoints.push(Endpoint::new(remote, local));
        EndpointId(self.endpoints.len() - 2)
    }

    fn send(&mut self, to: EndpointId, segment: Segment) {
        let at = self.network_time();
        let at = self.endpoint(to).send_here(at, segment);
        self.agenda.add(at, Event::Arrive(to));
    }

    fn settle(&mut self, id: EndpointId) {
        let (now, room) = (self.now(), self.settings.receive_bytes_max);
        if self.endpoint(id).settle(now, room) == Settled::AnswerReset {
            self.send_reset(id);
        }
        self.notice(id);
    }

    /// Wakes the operations at this end that can go on.
    pub(crate) fn notice(&mut self, id: EndpointId) {
        let at = self.kernel_time();
        let writable = self.room(id) > 0;
        let end = &mut self.endpoints[id.0];
        end.changed = true;
        let (readable, writable) = (end.is_readable(), writable || end.is_broken());
        for (ready, waiter) in [(readable, &mut end.receiver), (writable, &mut end.sender)] {
            wake(&mut self.agenda, at, waiter.as_mut().filter(|_| ready));
        }
    }

    /// How much an end can write before it has to wait.
    fn room(&self, id: EndpointId) -> usize {
        let capacity = self.settings.receive_bytes_max + self.settings.send_bytes_max;
        capacity.saturating_sub(self.endpoints[id.other().0].outstanding())
    }

    /// Writes what there is room for; 0 when there is none.
    pub(crate) fn write(&mut self, from: EndpointId, bytes: &[u8]) -> Result<usize, Errno> {
        if let Some(error) = self.endpoint(from).send_error() {
            return Err(error);
        }
        let len = self.room(from).min(bytes.len());
        let mut rest = &bytes[..len];
        while !rest.is_empty() {
            let most = self.settings.segment_bytes_max.min(rest.len());
            let short = self.chance(|settings| settings.short_segment);
            let size = if short { self.rng.size(most) } else { most };
            let (segment, after) = rest.split_at(size);
            self.send(from.other(), Segment::Data(segment.to_vec()));
            rest = after;
        }
        Ok(len)
    }

    pub(crate) fn read(&mut self, id: EndpointId, max: usize) -> Found {
        let found = self.endpoint(id).read(max);
        if matches!(found, Found::Bytes(_)) {
            self.settle(id);
            self.notice(id.other());
        }
        found
    }

    pub(crate) fn shut(&mut self, id: EndpointId) {
        let end = self.endpoint(id);
        if !end.write_shut && !end.is_reset() {
            (end.write_shut, end.fin_sent) = (true, true);
            self.send(id.other(), Segment::End);
        }
    }

    /// Closes an end: with unread data by a reset, as the kernel does.
    pub(crate) fn close_end(&mut self, id: EndpointId) {
        if self.endpoint(id).has_unread() {
            self.reset(id);
        } else {
            self.shut(id);
            self.endpoint(id).closed = true;
        }
    }

    /// Ends a connection at once.
    pub(crate) fn reset(&mut self, id: EndpointId) {
        let end = self.endpoint(id);
        (end.closed, end.write_shut) = (true, true);
        self.send_reset(id);
    }

    fn send_reset(&mut self, from: EndpointId) {
        if self.endpoint(from).reset_sent || self.endpoint(from).is_reset() {
            return;
        }
        self.endpoint(from).reset_sent = true;
        let all = self.chance(|settings| settings.reset_loses_data);
        let room = self.settings.receive_bytes_max;
        self.endpoint(from.other()).lose_transit(room, all);
        self.send(from.other(), Segment::Reset);
    }

    // Clients of the process under test.

    pub(crate) fn listen(&mut self, address: Address) -> Fd {
        let listener =
            Listener { address, pending: VecDeque::new(), acceptor: None, closed: false, busy: Busy::default() };
        self.files.open(File::Listener(listener), usize::MAX).expect("no limit was given")
    }

    /// A client connects; the client's end.
    pub(crate) fn client(&mut self, address: &Address) -> EndpointId {
        let id = self.pair(address);
        let at = self.network_time();
        self.agenda.add(at, Event::Incoming(address.clone(), id.other()));
        id
    }

    fn incoming(&mut self, address: &Address, id: EndpointId) {
        let Some(fd) = self.files.listener_at(address) else {
            return self.reset(id);
        };
        let listener = self.files.listener(fd);
        if listener.pending.len() >= self.settings.backlog {
            let again = self.now() + RETRY;
            return self.agenda.add(again, Event::Incoming(address.clone(), id));
        }
        listener.pending.push_back(id);
        self.notice_listener(fd);
    }

    pub(crate) fn notice_listener(&mut self, fd: Fd) {
        let at = self.kernel_time();
        let full = self.files.is_full(self.settings.open_files_max);
        let listener = self.files.listener(fd);
        let ready = full || !listener.pending.is_empty();
        wake(&mut self.agenda, at, listener.acceptor.as_mut().filter(|_| ready));
    }

    pub(crate) fn accept(&mut self, fd: Fd) -> Accepted {
        // As Linux does, a number is taken before a connection is looked for.
        if self.files.is_full(self.settings.open_files_max) {
            return Accepted::Failed(Errno(libc::EMFILE));
        }
        if self.files.listener(fd).pending.is_empty() {
            return Accepted::Nothing;
        }
        if self.chance(|settings| settings.accept_error) {
            let errors = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS];
            return Accepted::Failed(Errno(errors[self.rng.index(errors.len())]));
        }
        let endpoint = self.files.listener(fd).pending.pop_front();
        self.open_socket(endpoint).map_or_else(Accepted::Failed, Accepted::Socket)
    }

    /// Those that wait to be accepted are reset, and so are those that come.
    pub(crate) fn close_listener(&mut self, fd: Fd) {
        let listener = self.files.listener(fd);
        assert!(listener.acceptor.is_none(), "broken duty: an accept is in flight");
        listener.closed = true;
        for id in std::mem::take(&mut listener.pending) {
            self.reset(id);
        }
    }

    // Servers behind the process under test.

    pub(crate) fn open_socket(&mut self, endpoint: Option<EndpointId>) -> Result<Fd, Errno> {
        let socket = Socket { endpoint, connector: None, connected: None, busy: Busy::default() };
        self.files.open(File::Socket(socket), self.settings.open_files_max)
    }

    /// Says what happens to connection attempts at `address` from now on.
    pub(crate) fn serve(&mut self, address: &Address, answer: Answer) {
        let found = self.servers.iter_mut().find(|server| server.address == *address);
        let Some(server) = found else {
            let (pending, ignored) = (VecDeque::new(), Vec::new());
            return self.servers.push(ServerState { address: address.clone(), answer, pending, ignored });
        };
        server.answer = answer;
        for (fd, connector) in std::mem::take(&mut server.ignored) {
            self.connect(fd, connector, address.clone());
        }
    }

    /// A connection that the process under test made to `address`; the server's end.
    pub(crate) fn take_connection(&mut self, address: &Address) -> Option<EndpointId> {
        self.servers.iter_mut().find(|server| server.address == *address)?.pending.pop_front()
    }

    pub(crate) fn connect(&mut self, fd: Fd, connector: (DriverId, OpId), address: Address) {
        let at = self.network_time();
        self.agenda.add(at, Event::Outgoing(fd, connector, address));
    }

    fn outgoing(&mut self, fd: Fd, connector: (DriverId, OpId), address: &Address) {
        if self.files.connecting(fd, connector).is_none() {
            return;
        }
        let server = self.servers.iter().position(|server| server.address == *address);
        let answer = server.map_or(Answer::Refuse, |server| self.servers[server].answer);
        let result = match (answer, server) {
            (Answer::Accept, Some(server)) => {
                let near = self.pair(address);
                self.servers[server].pending.push_back(near.other());
                Ok(near)
            }
            (Answer::Busy, _) => Err(Errno(libc::EAGAIN)),
            (Answer::Ignore, Some(server)) => return self.servers[server].ignored.push((fd, connector)),
            (Answer::Accept | Answer::Refuse | Answer::Ignore, _) => Err(Errno(libc::ECONNREFUSED)),
        };
        let socket = self.files.socket(fd);
        socket.endpoint = result.ok();
        socket.connected = Some(result.map(|_| ()));
        self.wake_later(connector.0, connector.1);
    }

    // Drivers.

    pub(crate) fn add_driver(&mut self) -> DriverId {
        let (woken, sleep) = (VecDeque::new(), Sleep::Awake);
        self.drivers.push(DriverState { woken, rings: 0, sleep, leases: 0, in_flight: 0 });
        DriverId(self.drivers.len() - 1)
    }

    pub(crate) const fn next_op(&mut self) -> OpId {
        self.ops += 1;
        OpId(self.ops)
    }

    pub(crate) fn wake_later(&mut self, driver: DriverId, op: OpId) {
        let at = self.kernel_time();
        self.agenda.add(at, Event::Wake(driver, op));
    }

    pub(crate) fn ring_later(&mut self, driver: DriverId) {
        let at = self.kernel_time();
        self.agenda.add(at, Event::Ring(driver));
    }

    pub(crate) fn is_runnable(&self, driver: DriverId) -> bool {
        let state = &self.drivers[driver.0];
        let due = match state.sleep {
            Sleep::Awake => true,
            Sleep::Until(time) => time <= self.now(),
            Sleep::Forever => false,
        };
        due || state.rings > 0 || !state.woken.is_empty()
    }

    /// How many open sockets have `address` as their own, and how many as their peer's.
    pub(crate) fn sockets_of(&self, address: &Address) -> (usize, usize) {
        let Address::Tcp(address) = address else { return (0, 0) };
        let ends = || self.files.connections().map(|id| &self.endpoints[id.0]);
        let own = ends().filter(|end| end.local == Some(*address)).count();
        (own, ends().filter(|end| end.remote == Some(*address)).count())
    }

    pub(crate) fn close_file(&mut self, fd: Fd) {
        match self.files.close(fd) {
            File::Listener(listener) => listener.pending.into_iter().for_each(|id| self.reset(id)),
            File::Socket(socket) => socket.endpoint.into_iter().for_each(|id| self.close_end(id)),
            File::Event(_) => {}
        }
    }
}

fn wake(agenda: &mut Agenda<Event>, at: Time, waiter: Option<&mut Waiter>) {
    if let Some(waiter) = waiter.filter(|waiter| !waiter.woken) {
        waiter.woken = true;
        agenda.add(at, Event::Wake(waiter.driver, waiter.op));
    }
}
