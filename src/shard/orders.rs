//! What the dispatcher tells a shard, and what the shard does about it.

use std::mem;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use super::Shard;
use super::edges;
use super::handshakes::Handshake;
use super::listing::Listing;
use super::socket::Socket;
use super::table::Entry;
use super::token::SessionId;
use crate::events::Event;
use crate::io::{Driver, Fd};
use crate::pulse::Ping;
use crate::roster::{Member, Roster};
use crate::session::close::CloseReason;
use crate::session::transport::Transport;
use crate::session::{Refusal, Side, Turn};
use crate::sources::SourceSlot;
use crate::tls::{Acceptor, Connector};

/// Hand-offs taken in one turn.
const HANDOFFS_PER_TURN_MAX: usize = 64;

/// What the dispatcher tells a shard.
#[derive(Debug)]
pub enum Order {
    /// Serve this client.
    Serve(Handoff),
    /// Speak TLS in this way with the clients that follow.
    Renew(Box<Renewal>),
    /// Send the sessions that follow to these servers.
    Roster {
        /// The backend's index.
        backend: u16,
        /// All its servers from now on.
        roster: Roster,
    },
    /// Have no session stay at this server.
    Dismiss {
        /// The server, whose standing says already that it gets no new sessions.
        member: Arc<Member>,
        /// Why and how.
        dismissal: Dismissal,
    },
    /// Give a sign of life.
    Ping(Ping),
    /// A session has been pending for this long: report it if it is blocked both ways.
    Inspect {
        /// The session's slot.
        slot: u32,
        /// How long its flag has been up.
        pending: Duration,
    },
    /// Tell of some sessions.
    List(Box<Listing>),
    /// Close this session in good order, and say whether it was there.
    End {
        /// Which.
        id: SessionId,
        /// Where the answer goes.
        answer: mpsc::Sender<bool>,
    },
    /// Tell from now on, or not, when a session's server is connected; see [`Options::tells_reached`](super::Options).
    TellReached(bool),
    /// Close each session of this listener once it is owed nothing and has been quiet for this long or a little more.
    DrainListener {
        /// The listener's index.
        listener: u16,
        /// The shortest quiet time.
        quiet: Duration,
    },
    /// No client follows: close each session once it is owed nothing and has been quiet for this long or a little
    /// more, and end when all are closed.
    Drain {
        /// The shortest quiet time.
        quiet: Duration,
    },
    /// Close all that is left.
    CutOff,
    /// End at once; what is open is dropped.
    Stop,
}

/// An accepted client on its way to its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handoff {
    /// The accepted socket.
    pub client: Fd,
    /// The listener's index.
    pub listener: u16,
    /// Set when the client is only to be told why it is not served.
    pub refusal: Option<Refusal>,
    /// The dispatcher's counter that the session's end is counted in.
    pub counter: u16,
    /// Where the client's source counts its connections, if it does.
    pub source: Option<SourceSlot>,
}

/// Why sessions are not to stay at a server, which decides how they end. Those that have not reached it yet try another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dismissal {
    /// It has another role: they end at once, in good order, so that their clients connect anew and reach the right one.
    Demoted,
    /// It does not answer as it should: the same.
    Down,
    /// It is to be left alone: each ends when it is owed nothing and has been quiet for this long or a little more.
    Drained {
        /// The shortest quiet time.
        quiet: Duration,
    },
}

/// What a shard's listeners and backends speak TLS with from the next connection on. Sessions that are there keep what
/// they began with.
#[derive(Debug)]
pub struct Renewal {
    /// One for each listener, in their order; none where it is plain.
    pub acceptors: Vec<Option<Acceptor>>,
    /// One for each backend, in their order, as [`Backend::connector`](super::Backend::connector); none where it is plain.
    pub connectors: Vec<Option<Connector>>,
    /// Where the replaced ones go: to whoever waits for the change and has the time to drop them.
    pub replaced: mpsc::Sender<Replaced>,
}

/// What a shard's listeners and backends have spoken TLS with.
#[derive(Debug)]
pub struct Replaced {
    /// One for each listener.
    pub acceptors: Vec<Option<Acceptor>>,
    /// Those of all servers.
    pub connectors: Vec<Connector>,
}

impl<D: Driver> Shard<D> {
    pub(super) fn take_orders(&mut self) {
        for _ in 0..HANDOFFS_PER_TURN_MAX {
            let Some(order) = self.links.mailbox.receive() else { break };
            match order {
                Order::Serve(handoff) => self.serve(handoff),
                Order::Renew(renewal) => self.renew(*renewal),
                Order::Roster { backend, roster } => self.backends[usize::from(backend)].exchange(&roster),
                Order::Dismiss { member, dismissal } => self.dismiss(&member, dismissal),
                Order::Ping(ping) => ping.answer(),
                Order::Inspect { slot, pending } => self.inspect(slot, pending),
                Order::List(listing) => self.list(*listing),
                Order::End { id, answer } => self.end(id, &answer),
                Order::TellReached(tells) => self.options.tells_reached = tells,
                Order::DrainListener { listener, quiet } => self.drain_listener(listener, quiet),
                Order::Drain { quiet } => self.begin_drain(quiet),
                Order::CutOff => self.cut_off(),
                Order::Stop => {
                    self.cut_off += self.table.len() as u64;
                    self.stopped = true;
                }
            }
        }
    }

    fn serve(&mut self, handoff: Handoff) {
        if self.table.is_full() {
            self.driver.close(handoff.client);
            self.count_ended(handoff.counter, handoff.source);
            return;
        }
        let (_, client_address) = self.driver.socket_addresses(handoff.client);
        let listener = &self.listeners[usize::from(handoff.listener)];
        let client = match &listener.acceptor {
            Some(acceptor) => Transport::Tls(Box::new(acceptor.engine())),
            None => Transport::Plain,
        };
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        let mut session = edges::session(listener, client, handoff.refusal, client_address, turn);
        if let Some(max) = listener.session.lifetime_max {
            // Those that came together do not end together.
            let earlier = max.mul_f64(draw(&mut self.jitter) / 10.0);
            session.limit_lifetime(self.now + (max - earlier));
        }
        let handshake = if session.is_handshaking(Side::Client) { Handshake::new() } else { Handshake::over() };
        self.handshaking += u32::from(handshake.is_going_on());
        let id = self.table.insert(Entry {
            session,
            generation: 0,
            listener: handoff.listener,
            counter: handoff.counter,
            source: handoff.source,
            client: Socket::new(handoff.client),
            client_address,
            proxy_address: None,
            user: None,
            backend: None,
            connect: None,
            seat: None,
            hanging_up: false,
            target: None,
            place: None,
            waiter: None,
            tried: Vec::new(),
            dismissed: false,
            dialled_at: self.now,
            dial_again_at: None,
            server_local_port: None,
            detail: None,
            touched: false,
            closing: false,
            pending: false,
            stalled: false,
            handshake,
            backend_handshake: Handshake::over(),
            short: false,
            timer: None,
        });
        self.tally.sessions.add(1);
        self.tally.sessions_of[handoff.listener].add(1);
        if let Some(quiet) = self.draining {
            self.begin_drain_of(id, quiet, CloseReason::Drained);
        }
        self.touch(id);
    }

    /// Tells the dispatcher that a session has ended.
    pub(super) fn count_ended(&self, counter: u16, source: Option<SourceSlot>) {
        // In this order: whoever sees that the connection has ended sees its source without it.
        if let Some(source) = source {
            self.links.sources.count_ended(source);
        }
        self.links.load.count_ended(counter);
    }

    fn renew(&mut self, renewal: Renewal) {
        let Renewal { mut acceptors, connectors, replaced } = renewal;
        for (listener, acceptor) in self.listeners.iter_mut().zip(&mut acceptors) {
            mem::swap(&mut listener.acceptor, acceptor);
        }
        let backends = self.backends.iter_mut().zip(connectors);
        let connectors = backends.flat_map(|(upstream, connector)| upstream.renew(connector)).collect();
        // Whoever asked for the change may have ended.
        let _ = replaced.send(Replaced { acceptors, connectors });
    }

    fn dismiss(&mut self, member: &Arc<Member>, dismissal: Dismissal) {
        for id in self.table.ids().collect::<Vec<_>>() {
            let Some(entry) = self.table.entry(id) else { continue };
            if entry.closing || !entry.member().is_some_and(|its| Arc::ptr_eq(its, member)) {
                continue;
            }
            let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
            if entry.session.give_up_attempt(turn) {
                entry.dismissed = true;
            } else {
                match dismissal {
                    Dismissal::Demoted => drop(entry.session.close(CloseReason::ServerDemoted, turn)),
                    Dismissal::Down => drop(entry.session.close(CloseReason::ServerDown, turn)),
                    Dismissal::Drained { quiet } => self.begin_drain_of(id, quiet, CloseReason::ServerDrained),
                }
            }
            self.touch(id);
        }
    }

    fn inspect(&mut self, slot: u32, pending: Duration) {
        if let Some(entry) = self.table.entry_in(slot)
            && entry.session.is_blocked_both_ways()
        {
            self.stalled += u32::from(!std::mem::replace(&mut entry.stalled, true));
            let (client, listener) = (entry.client_address, entry.listener);
            self.links.events.send(Event::Stalled { client, listener, pending });
        }
    }

    fn end(&mut self, id: SessionId, answer: &mpsc::Sender<bool>) {
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        let entry = self.table.entry(id).filter(|entry| !entry.closing);
        let ended = entry.is_some_and(|entry| entry.session.close(CloseReason::Operator, turn));
        self.touch(id);
        // Whoever asked for it may have given up.
        let _ = answer.send(ended);
    }

    fn drain_listener(&mut self, listener: u16, quiet: Duration) {
        for id in self.table.ids().collect::<Vec<_>>() {
            if self.table.entry(id).is_some_and(|entry| entry.listener == listener) {
                self.begin_drain_of(id, quiet, CloseReason::ListenerDrained);
                self.touch(id);
            }
        }
    }

    fn begin_drain(&mut self, quiet: Duration) {
        self.draining = Some(quiet);
        self.trunks.touch_all();
        for id in self.table.ids().collect::<Vec<_>>() {
            self.begin_drain_of(id, quiet, CloseReason::Drained);
            self.touch(id);
        }
    }

    /// Spreads the ends of quiet sessions over four quiet times, so that their clients do not all come back at once.
    fn begin_drain_of(&mut self, id: SessionId, quiet: Duration, reason: CloseReason) {
        let jitter = quiet.mul_f64(draw(&mut self.jitter) * 3.0);
        let now = self.now;
        if let Some(entry) = self.table.entry(id) {
            entry.session.begin_drain(quiet + jitter, reason, now);
        }
    }

    fn cut_off(&mut self) {
        for id in self.table.ids().collect::<Vec<_>>() {
            let Some(entry) = self.table.entry(id) else { continue };
            let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
            if entry.session.close(CloseReason::CutOff, turn) {
                self.cut_off += 1;
            }
            self.touch(id);
        }
    }
}

/// Draws a number from 0 up to 1, by xorshift64 (Marsaglia, 2003): spread is all that is asked of it.
fn draw(state: &mut u64) -> f64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) as f64 / (1_u64 << 53) as f64
}
