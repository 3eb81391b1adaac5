//! One core's event loop: it owns a driver, a table of sessions, and everything these need. It shares nothing.
//!
//! This is the only place that knows both sessions and io. It carries bytes and completions to sessions, and what
//! sessions ask for to the driver; it parses nothing and decides nothing about bytes.
//!
//! One turn: enter the kernel once; take hand-offs; serve the batch of completions, data before handshakes; let those
//! whose budget ended go on; fire timers; settle each session that was touched, which starts at most one send per
//! side; publish once.
//!
//! Invariants:
//! - A lease is recycled in the turn it came.
//! - A slot is freed when nothing of its session is in flight; a socket is closed only then.
//! - The steady state does not allocate, lock, or make a system call of its own besides the one enter.
//!
//! Read `tests/simulator/main.rs` first: it drives this loop on a simulated kernel.

mod backends;
mod counts;
mod edges;
mod handshakes;
mod lines;
pub mod links;
mod listeners;
pub mod listing;
mod multiplexed;
mod orders;
mod queue;
mod renewal;
mod secure;
mod settle;
mod slow;
mod socket;
mod table;
mod timers;
mod token;
mod trunks;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use slab::Slab;

pub use backends::{Backend, BackendOptions};
pub use counts::ConnectFailure;
pub use edges::{BackendEdge, ListenerEdge, User};
pub use listeners::Listener;
pub use orders::{Dismissal, Handoff, Order};
pub use renewal::{Renewal, Replaced};
pub use token::SessionId;

use crate::events::Event;
use crate::io::{Completion, Driver, Errno, Lease, Op, Outcome, Wait};
use crate::load::Load;
use crate::metrics::Tally;
use crate::pool::{Pool, SendBuf};
use crate::quota::Quota;
use crate::session::transport::Transport;
use crate::session::{Side, Turn};
use crate::shard::backends::Upstream;
use crate::shard::links::Links;
use crate::shard::listeners::Entrance;
use crate::shard::table::Table;
use crate::shard::timers::Timers;
use crate::shard::token::{Owner, Purpose, SLOTS_MAX};
use crate::shard::trunks::Trunks;
use crate::time::Time;

/// Completions served in one turn; the rest waits in the completion queue. Bounds how long a send that is due waits.
const COMPLETIONS_PER_TURN_MAX: usize = 2048;

/// What a shard is made of.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The shard's number.
    pub id: u16,
    /// Sessions it can hold, refused ones included.
    pub slots_max: usize,
    /// Bytes that its sessions may hold before those that hold some take no more.
    pub memory_bytes: usize,
    /// Handshakes that may have begun at once, and new ones that may wait; beyond it the oldest make room.
    pub handshakes_max: usize,
    /// Whether the log wants to hear when a session's server is connected.
    pub tells_reached: bool,
    /// Where the jitter starts from.
    pub seed: u64,
}

/// What a shard leaves behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Sessions that it has had.
    pub sessions: u64,
    /// Sessions that were still owed something at the end.
    pub cut_off: u64,
}

/// One core's event loop.
#[derive(Debug)]
pub struct Shard<D> {
    options: Options,
    driver: D,
    links: Links,
    /// As the dispatcher numbers the listeners.
    entrances: Vec<Entrance>,
    /// Those of the listeners, and those that sessions have left.
    backends: Slab<Upstream>,
    /// The last seed that was drawn from.
    seed: u64,
    table: Table,
    trunks: Trunks,
    /// Slow requests that the log is told of.
    slow: Quota,
    pool: Pool,
    tally: Arc<Tally>,
    timers: Timers,
    now: Time,
    /// Sessions to settle at the end of the turn.
    touched: Vec<SessionId>,
    /// Sessions whose budget ended before their records did.
    resuming: Vec<SessionId>,
    handshakes: handshakes::Queue,
    /// Sessions that wait for memory.
    short: Vec<SessionId>,
    scarce: bool,
    /// Entries of all backends' queues.
    queued: usize,
    /// Sessions whose handshake is not over.
    handshaking: u32,
    pending: u32,
    stalled: u32,
    /// Receive buffers filled by the completions of this turn, small and large ones.
    filled: [u16; 2],
    draining: Option<Duration>,
    cut_off: u64,
    stopped: bool,
    jitter: u64,
}

impl<D: Driver> Shard<D> {
    /// A shard without sessions. `backends` are indexed as the listeners name them.
    #[must_use]
    pub fn new(options: Options, driver: D, links: Links, listeners: Vec<Listener>, backends: Vec<Backend>) -> Self {
        let now = driver.now();
        let (backends, keys) = renewal::first_backends(backends, options.id, options.seed);
        Self {
            options,
            driver,
            tally: Arc::clone(&links.tally),
            links,
            entrances: listeners.into_iter().map(|listener| Entrance::new(listener, &keys)).collect(),
            backends,
            seed: options.seed.wrapping_add(keys.len() as u64),
            table: Table::new(options.slots_max.min(SLOTS_MAX)),
            trunks: Trunks::new(),
            slow: Quota::new(slow::SLOW_PER_SECOND_MAX),
            pool: Pool::new(),
            timers: Timers::default(),
            now,
            touched: Vec::new(),
            resuming: Vec::new(),
            handshakes: handshakes::Queue::new(options.handshakes_max),
            short: Vec::new(),
            scarce: false,
            queued: 0,
            handshaking: 0,
            pending: 0,
            stalled: 0,
            filled: [0; 2],
            draining: None,
            cut_off: 0,
            stopped: false,
            jitter: options.seed | 1,
        }
    }

    /// Turns until the dispatcher has said that no client follows and the last session is closed.
    ///
    /// # Errors
    /// What the ring itself failed with; the sessions are lost then.
    pub fn run(mut self) -> io::Result<Report> {
        while !self.is_done() {
            self.turn()?;
        }
        Ok(self.report())
    }

    /// Whether the shard has drained, or was told to stop.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.stopped || self.draining.is_some() && self.table.is_empty() && self.trunks.is_empty()
    }

    /// What it would leave behind now.
    #[must_use]
    pub fn report(&self) -> Report {
        Report { sessions: self.tally.sessions.get(), cut_off: self.cut_off }
    }

    /// One turn of the loop.
    ///
    /// # Errors
    /// What the ring itself failed with.
    pub fn turn(&mut self) -> io::Result<()> {
        let idle_since = self.driver.now();
        let wait = self.wait();
        self.driver.enter(wait)?;
        self.links.mailbox.awake();
        self.now = self.driver.now();
        self.links.meter.record(idle_since, self.now);
        self.tally.turns.add(1);

        self.take_orders();
        self.serve_completions();
        self.serve_handshakes();
        self.serve_resuming();
        self.fire_timers();
        self.update_scarcity();
        self.settle_touched();
        // Sessions that have ended have given their places back.
        self.serve_queues();
        self.settle_touched();
        self.publish();
        Ok(())
    }

    fn wait(&self) -> Wait {
        let has_work = !self.resuming.is_empty() || !self.handshakes.is_empty();
        if has_work || !self.links.mailbox.going_to_sleep() {
            return Wait::No;
        }
        let times = [self.timers.next(), self.look_again_at(), self.trunks.deadline(), self.slow.due()];
        times.into_iter().flatten().min().map_or(Wait::Forever, Wait::Until)
    }

    fn serve_completions(&mut self) {
        for _ in 0..COMPLETIONS_PER_TURN_MAX {
            let Some(completion) = self.driver.next_completion() else { break };
            self.handle_completion(completion);
        }
    }

    fn handle_completion(&mut self, completion: Completion) {
        let (id, purpose) = match token::decode(completion.token) {
            None => return,
            Some(Owner::Session(id, purpose)) => (id, purpose),
            Some(Owner::Line(id, purpose)) => {
                return self.handle_line_completion(id, purpose, completion.outcome, completion.more);
            }
        };
        match (completion.outcome, purpose) {
            (Outcome::Received { result, data_waits }, Purpose::Receive(side)) => {
                self.handle_received(id, side, result, data_waits, completion.more);
            }
            (Outcome::Sent { buffer, result }, Purpose::Send(side)) => self.handle_sent(id, side, buffer, result),
            (Outcome::Connected(result), Purpose::Connect) => self.handle_connected(id, result),
            (outcome, purpose) => unreachable!("{purpose:?} completed as {outcome:?}"),
        }
        self.touch(id);
    }

    fn handle_received(
        &mut self,
        id: SessionId,
        side: Side,
        result: Result<Option<Lease>, Errno>,
        data_waits: bool,
        more: bool,
    ) {
        let Some(entry) = self.table.entry(id) else {
            self.tally.stale_completions.add(1);
            if let Ok(Some(lease)) = result {
                self.driver.recycle(lease);
            }
            return;
        };
        let defers = entry.handshake_mut(side).defers();
        if let Some(socket) = entry.socket_mut(side) {
            socket.received(&result, data_waits, more, &self.driver);
        }
        match result {
            Ok(Some(lease)) => {
                self.tally.receives.add(1);
                self.filled[lease.group.index()] += 1;
                if defers {
                    self.hold_bytes(id, side, &lease);
                } else {
                    self.deliver(id, side, &lease);
                }
                self.driver.recycle(lease);
            }
            Err(Errno(libc::ENOBUFS)) => self.tally.receives_without_buffer.add(1),
            Err(Errno(libc::ECANCELED)) => {}
            Ok(None) | Err(_) if defers => self.hold_end(id, side, result.err()),
            Ok(None) | Err(_) => self.deliver_end(id, side, result.err()),
        }
    }

    fn deliver(&mut self, id: SessionId, side: Side, lease: &Lease) {
        if let Some(entry) = self.table.entry(id).filter(|entry| !entry.closing) {
            let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
            entry.session.handle_received(side, self.driver.bytes_mut(lease), turn);
        }
    }

    fn deliver_end(&mut self, id: SessionId, side: Side, error: Option<Errno>) {
        if let Some(entry) = self.table.entry(id).filter(|entry| !entry.closing) {
            let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
            entry.session.handle_end(side, error, turn);
        }
    }

    fn handle_sent(&mut self, id: SessionId, side: Side, buffer: SendBuf, result: Result<usize, Errno>) {
        let entry = self.table.entry(id).expect("a slot is not reused while its send is in flight");
        if let Some(socket) = entry.socket_mut(side) {
            socket.end_outgoing();
        }
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        entry.session.handle_sent(side, buffer, result, turn);
    }

    fn handle_connected(&mut self, id: SessionId, result: Result<(), Errno>) {
        let entry = self.table.entry(id).expect("a slot is not reused while its connect is in flight");
        if let Some(socket) = &mut entry.backend {
            socket.end_outgoing();
        }
        if entry.closing {
            return;
        }
        match result {
            // It is given up although it came to be.
            Ok(()) if entry.dismissed => self.handle_dial_failed(id, Errno(libc::ECANCELED)),
            Ok(()) => {
                entry.detail = None;
                if let Some(target) = &entry.target {
                    target.member.dials().note_success();
                }
                let took = self.now.since(entry.dialled_at);
                self.tally.connect_micros.observe(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
                if let Some(backend) = &entry.backend {
                    let (own, _) = self.driver.socket_addresses(backend.fd);
                    entry.server_local_port = own.map(|address| address.port());
                }
                self.tell_reached(id);
                let opening = self.opening(id);
                let Some(entry) = self.table.entry(id) else { return };
                let transport = entry.target.as_ref().map_or(Transport::Plain, |target| target.transport());
                let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
                entry.session.handle_connected(transport, opening, turn);
                self.begin_backend_handshake(id);
            }
            Err(errno) => self.handle_dial_failed(id, errno),
        }
    }

    /// Says that a session's server is connected, where the log wants to hear it.
    fn tell_reached(&mut self, id: SessionId) {
        let Some(entry) = self.table.entry(id).filter(|_| self.options.tells_reached) else { return };
        self.links.events.send(Event::Reached {
            client: entry.client_address,
            listener: Arc::clone(&entry.rules.ledger),
            shard: self.options.id,
            server: entry.target.as_ref().map(|target| Arc::clone(&target.member)),
            server_local_port: entry.server_local_port,
        });
    }

    fn serve_resuming(&mut self) {
        for index in 0..self.resuming.len() {
            let id = self.resuming[index];
            if let Some(entry) = self.table.entry(id) {
                let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
                entry.session.resume(turn);
                self.touch(id);
            }
        }
        self.resuming.clear();
    }

    fn fire_timers(&mut self) {
        self.fire_trunks();
        self.tell_left_out();
        while let Some((at, id)) = self.timers.take_due(self.now) {
            let Some(entry) = self.table.entry(id) else { continue };
            if entry.timer == Some(at) {
                entry.timer = None;
            }
            let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
            entry.session.handle_timeout(turn);
            self.dial_again(id);
            self.touch(id);
        }
    }

    /// Beyond the memory budget, sessions that hold bytes take no more. Below it again, those that waited go on, the
    /// oldest first.
    fn update_scarcity(&mut self) {
        let lent = self.pool.lent_bytes();
        if lent > self.options.memory_bytes {
            self.scarce = true;
        } else if self.scarce && lent <= self.options.memory_bytes / 4 * 3 {
            self.scarce = false;
            let mut short = std::mem::take(&mut self.short);
            short.sort_by_key(|&id| self.table.entry(id).map(|entry| entry.session.started()));
            for id in short {
                if let Some(entry) = self.table.entry(id) {
                    entry.short = false;
                }
                self.touch(id);
            }
        }
    }

    fn touch(&mut self, id: SessionId) {
        if let Some(entry) = self.table.entry(id)
            && !entry.touched
        {
            entry.touched = true;
            self.touched.push(id);
        }
    }

    fn publish(&mut self) {
        if self.links.pending.flush() && self.links.dispatcher_doorbell.needs_ring() {
            self.driver.push(token::NO_ONE, Op::Ring { ring: self.links.dispatcher });
        }
        if let Some(event) = self.links.events.wake_due() {
            self.driver.push(token::NO_ONE, Op::Notify { event });
        }
        let busy_permille = self.links.meter.busy_permille(self.driver.now());
        let measured_at = self.links.meter.measured_at();
        self.links.load.publish(Load {
            pending: self.pending,
            handshakes: self.handshaking,
            busy_permille,
            measured_at,
        });
        self.count_turn();
    }

    /// Bytes that the shard's sessions hold.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.pool.lent_bytes()
    }

    /// Open sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.table.len()
    }

    /// The slots of the sessions that say themselves that they are pending, for a test to compare with what others
    /// believe.
    pub fn pending_sessions(&self) -> impl Iterator<Item = u32> {
        self.table.pending_slots()
    }
}
