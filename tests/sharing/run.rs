//! One run: a shard, clients without TLS, and a server, all on one thread in an order that the seed draws.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use ringwall::events::{EventReceiver, events};
use ringwall::io::{Address, Driver as _, SocketOptions};
use ringwall::ledger::Ledger;
use ringwall::load::LoadCell;
use ringwall::mailbox::{Doorbell, Sender, mailbox, pending_flags};
use ringwall::metrics::Tally;
use ringwall::multiplex;
use ringwall::roster::BackendId;
use ringwall::roster::balance::Balance;
use ringwall::roster::waiting::Waiting;
use ringwall::session::coalescer::Threshold;
use ringwall::session::{self};
use ringwall::shard::links::{BusyMeter, Links};
use ringwall::shard::{self, BackendEdge, BackendOptions, Handoff, ListenerEdge, Order, Shard};
use ringwall::sources::SourceCounts;

use crate::server::Server;
use crate::simulation::{self, DriverId, Peer, Read, Settings, Sim, SimDriver};
use crate::talk::Rng;

/// Events after which a run is taken to go on for ever.
const STEPS_MAX: usize = 2_000_000;

/// Longer than anything takes that a run waits for, and shorter than what nobody waits for.
const SOON: Duration = Duration::from_secs(8);

struct Client {
    peer: Option<Peer>,
    to_say: Vec<u8>,
    said: usize,
    received: Vec<u8>,
}

/// The server's end of a connection that the shard has made.
struct Connection {
    peer: Option<Peer>,
    /// Its number at the server.
    number: usize,
}

pub(crate) struct Run {
    pub(crate) rng: Rng,
    pub(crate) server: Server,
    sim: Sim,
    shard: Shard<SimDriver>,
    driver: DriverId,
    ledger: Arc<Ledger>,
    /// Rung by the shard, and never looked at.
    _dispatcher: SimDriver,
    orders: Sender<Order>,
    has_orders: bool,
    events: EventReceiver,
    listens: simulation::Server,
    clients: Vec<Client>,
    connections: Vec<Connection>,
}

fn limits(rng: &mut Rng) -> (session::Options, multiplex::Options) {
    let coalesce = *rng.choose(&[Threshold::Bytes(64 * 1024), Threshold::Bytes(1_000), Threshold::Off]);
    let session = session::Options {
        send_buffer_bytes: *rng.choose(&[2_000, 20_000, 256 * 1024]),
        coalesce,
        handshake_timeout: Duration::from_secs(5),
        connect_timeout: Duration::from_secs(1),
        half_close_timeout: Duration::from_secs(5),
        idle_timeout: None,
        lifetime_max: None,
        tells_unreachable: true,
    };
    let multiplex = multiplex::Options {
        coalesce,
        send_buffer_bytes: *rng.choose(&[2_000, 20_000, 256 * 1024]),
        bytes_max: *rng.choose(&[1_000, 10_000, 1024 * 1024]),
        probes_max: 1 + rng.draw(3),
        places_kept: 2,
        client_requests_max: *rng.choose(&[1, 3, 128]),
        connection_requests_max: *rng.choose(&[1, 7, 1_024]),
        class_connections_max: *rng.choose(&[1, 3]),
        classes_max: *rng.choose(&[1, 3, 100]),
        idle_connections_max: rng.draw(4),
        connect_timeout: Duration::from_secs(1),
        // What clients are slow at is drawn; that any is too slow for others is not what is asked here.
        slow_client_timeout: Duration::from_secs(600),
    };
    (session, multiplex)
}

impl Run {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng(seed);
        let sim = Sim::new(Settings { open_files_max: 10_000, ..Settings::rough(seed) });
        let address = Address::Tcp(([127, 0, 0, 1], 6379).into());
        let listens = sim.serve(&address);
        let (session, multiplex) = limits(&mut rng);
        let (dispatcher, driver) = (sim.driver(), sim.driver());
        let (orders, mailbox) = mailbox(64);
        let (pending, _) = pending_flags(64, 64);
        let (events, receiver) = events(1024, Doorbell::new(), sim.eventfd());
        let ledger = Ledger::new(0, "shared", 1);
        let links = Links {
            mailbox,
            pending,
            load: Arc::new(LoadCell::default()),
            sources: SourceCounts::new(0),
            tally: Arc::new(Tally::default()),
            dispatcher_doorbell: Doorbell::new(),
            dispatcher: dispatcher.ring_handle(),
            events,
            meter: BusyMeter::default(),
        };
        let options = shard::Options {
            id: 0,
            slots_max: 64,
            memory_bytes: *rng.choose(&[200_000, 256 << 20]),
            handshakes_max: 64,
            tells_reached: true,
            seed,
        };
        let listener = shard::Listener {
            ledger: Arc::clone(&ledger),
            acceptor: None,
            backend: 0,
            session,
            socket: SocketOptions::default(),
            edge: ListenerEdge::default(),
            multiplex: Some(multiplex),
            slow_log: None,
        };
        let backend = shard::Backend {
            id: BackendId(0),
            name: "server".into(),
            roster: [ringwall::roster::Server::at(address)].into_iter().collect(),
            connector: None,
            options: BackendOptions {
                balance: Balance::RoundRobin,
                retries: None,
                queue_timeout: Duration::from_secs(1),
                sources: Vec::new(),
            },
            waiting: Arc::new(Waiting::new(64, 1)),
            edge: BackendEdge::default(),
        };
        let number = driver.id();
        Self {
            rng,
            server: Server::default(),
            shard: Shard::new(options, driver, links, vec![listener], vec![backend]),
            driver: number,
            ledger,
            _dispatcher: dispatcher,
            orders,
            has_orders: false,
            events: receiver,
            listens,
            sim,
            clients: Vec::new(),
            connections: Vec::new(),
        }
    }

    fn order(&mut self, order: Order) {
        assert!(self.orders.send(order).is_ok(), "there is room");
        self.has_orders = true;
    }

    /// A client comes that has this to say.
    pub(crate) fn arrive(&mut self, to_say: Vec<u8>) {
        let (client, peer) = self.sim.pair();
        self.clients.push(Client { peer: Some(peer), to_say, said: 0, received: Vec::new() });
        self.order(Order::Serve(Handoff { client, listener: 0, refusal: None, source: None }));
    }

    pub(crate) fn received(&self, client: usize) -> String {
        String::from_utf8(self.clients[client].received.clone()).unwrap()
    }

    /// Whether the client's connection is still there.
    pub(crate) fn is_whole(&self, client: usize) -> bool {
        self.clients[client].peer.is_some()
    }

    /// Lets the shard take a turn, if it is awake.
    fn turn(&mut self) -> bool {
        if !std::mem::take(&mut self.has_orders) && !self.sim.is_runnable(self.driver) {
            return false;
        }
        match self.shard.turn() {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("the shard's ring: {error}"),
        }
        while self.events.receive().is_some() {}
        true
    }

    /// A client says and reads something; whether it did.
    fn talk(&mut self, client: usize, bytes_max: usize, reads: bool) -> bool {
        let Client { peer: place, to_say, said, received } = &mut self.clients[client];
        let Some(peer) = place else { return false };
        let piece = &to_say[*said..];
        let mut moved = false;
        if !piece.is_empty()
            && let Ok(written) = peer.write(&piece[..piece.len().min(bytes_max)])
        {
            *said += written;
            moved |= written > 0;
        }
        if reads {
            match peer.read(bytes_max) {
                Read::Bytes(bytes) => received.extend_from_slice(&bytes),
                Read::Nothing => return moved,
                Read::End | Read::Failed(_) => *place = None,
            }
            moved = true;
        }
        moved
    }

    /// The server takes connections; whether there were any.
    fn accept(&mut self) -> bool {
        let mut accepted = false;
        while let Some(peer) = self.listens.accept() {
            self.connections.push(Connection { peer: Some(peer), number: self.server.connect() });
            accepted = true;
        }
        accepted
    }

    /// The server reads and answers over one connection; whether anything moved.
    fn answer(&mut self, at: usize, bytes_max: usize) -> bool {
        let Connection { peer: place, number } = &mut self.connections[at];
        let Some(peer) = place else { return false };
        let mut moved = true;
        match peer.read(bytes_max) {
            Read::Bytes(bytes) => self.server.receive(*number, &bytes),
            Read::Nothing => moved = false,
            Read::End | Read::Failed(_) => {
                self.server.connections[*number].is_open = false;
                *place = None;
                return true;
            }
        }
        let output = &mut self.server.connections[*number].output;
        let len = output.len().min(bytes_max);
        if let Ok(written) = peer.write(&output[..len]) {
            output.drain(..written);
            moved |= written > 0;
        }
        if self.server.connections[*number].closed && self.server.connections[*number].output.is_empty() {
            *place = None;
        }
        moved
    }

    /// Something fails.
    fn mishap(&mut self) {
        match self.rng.draw(4) {
            0 if !self.connections.is_empty() => {
                let at = self.rng.draw(self.connections.len());
                if let Some(peer) = self.connections[at].peer.take() {
                    self.server.connections[self.connections[at].number].is_open = false;
                    if self.rng.draw(2) == 0 { peer.reset() } else { peer.close() }
                }
            }
            1 => {
                let client = self.rng.draw(self.clients.len());
                if self.rng.draw(4) == 0
                    && let Some(peer) = self.clients[client].peer.take()
                {
                    if self.rng.draw(2) == 0 { peer.reset() } else { peer.close() }
                }
            }
            2 => match self.rng.draw(6) {
                0 => self.listens.refuse(),
                1 => self.listens.be_busy(),
                2 => self.listens.ignore(),
                _ => self.listens.listen(),
            },
            _ => self.sim.advance_by(Duration::from_millis(self.rng.draw(800) as u64)),
        }
    }

    /// One event, drawn.
    fn step(&mut self, is_lossy: bool) {
        let bytes_max = *self.rng.choose(&[1, 10, 100, 1_000, 100_000]);
        match self.rng.draw(if is_lossy { 41 } else { 40 }) {
            0..=14 => drop(self.turn()),
            15..=24 => {
                let (client, reads) = (self.rng.draw(self.clients.len()), self.rng.draw(4) > 0);
                self.talk(client, bytes_max, reads);
            }
            25..=34 => {
                self.accept();
                if !self.connections.is_empty() {
                    let at = self.rng.draw(self.connections.len());
                    self.answer(at, bytes_max);
                }
            }
            35..=36 => drop(self.server.feed()),
            37..=39 => self.pass_time(),
            _ => self.mishap(),
        }
    }

    fn pass_time(&mut self) {
        if !self.sim.is_runnable(self.driver) && self.sim.next_time().is_some_and(|next| next <= self.sim.now() + SOON)
        {
            self.sim.advance();
        }
    }

    /// Lets all say and do what they can, until nothing moves.
    fn rest(&mut self) {
        for _ in 0..STEPS_MAX {
            let mut moved = self.turn() | self.accept();
            for client in 0..self.clients.len() {
                moved |= self.talk(client, usize::MAX, true);
            }
            for at in 0..self.connections.len() {
                moved |= self.answer(at, usize::MAX);
            }
            moved |= self.server.feed();
            if moved {
                continue;
            }
            match self.sim.next_time() {
                Some(next) if next <= self.sim.now() + SOON => drop(self.sim.advance()),
                Some(_) | None => return,
            }
        }
        panic!("it never comes to rest");
    }

    /// Plays some random events, then the rest without losses.
    pub(crate) fn play(&mut self, is_lossy: bool) {
        for _ in 0..500 + self.rng.draw(2_000) {
            self.step(is_lossy);
        }
        self.listens.listen();
        self.rest();
    }

    /// The shard is told to drain: everything ends, and all that it had is back.
    pub(crate) fn drain(&mut self) {
        self.order(Order::Drain { quiet: Duration::ZERO });
        self.rest();
        // Whoever subscribed, or blocks, is owed something for ever.
        self.order(Order::CutOff);
        self.rest();
        assert!(self.shard.is_done(), "{} sessions are left", self.shard.sessions());
        assert_eq!(self.shard.held_bytes(), 0, "every buffer is home");
        if let Some(shared) = self.ledger.shared_in_all() {
            assert_eq!((shared.shared_connections, shared.own_connections), (0, 0), "every connection is uncounted");
        }
        assert_eq!(self.sim.in_flight(self.driver), 0, "every operation has ended");
        assert_eq!(self.sim.open_sockets(), 0, "every socket is closed");
        assert!(self.clients.iter().all(|client| client.peer.is_none()), "every client has seen its end");
    }
}
