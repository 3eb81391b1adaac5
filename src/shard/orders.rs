//! What the dispatcher tells a shard, and what the shard does about it.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use super::edges;
use super::handshakes::Handshake;
use super::listeners::Entrance;
use super::listing::Listing;
use super::socket::Socket;
use super::table::Entry;
use super::token::SessionId;
use super::{Renewal, Shard};
use crate::events::Event;
use crate::io::{Driver, Fd};
use crate::ledger::Ledger;
use crate::pulse::Ping;
use crate::roster::{BackendId, Member, Roster};
use crate::session::close::CloseReason;
use crate::session::transport::Transport;
use crate::session::{Refusal, Side, Turn};
use crate::sources::SourceSlot;

/// Hand-offs taken in one turn.
const HANDOFFS_PER_TURN_MAX: usize = 64;

/// What the dispatcher tells a shard.
#[derive(Debug)]
pub enum Order {
    /// Serve this client.
    Serve(Handoff),
    /// Serve the clients that follow as this says.
    Renew(Box<Renewal>),
    /// Send the sessions that follow to these servers.
    Roster {
        /// The backend's; one that is gone is passed over.
        backend: BackendId,
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
        /// Which.
        listener: Arc<Ledger>,
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
    /// The listener's index among those that the shard was told of last.
    pub listener: u16,
    /// Set when the client is only to be told why it is not served.
    pub refusal: Option<Refusal>,
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

impl<D: Driver> Shard<D> {
    pub(super) fn take_orders(&mut self) {
        for _ in 0..HANDOFFS_PER_TURN_MAX {
            let Some(order) = self.links.mailbox.receive() else { break };
            match order {
                Order::Serve(handoff) => self.serve(handoff),
                Order::Renew(renewal) => self.renew(*renewal),
                Order::Roster { backend, roster } => self.exchange_roster(backend, &roster),
                Order::Dismiss { member, dismissal } => self.dismiss(&member, dismissal),
                Order::Ping(ping) => ping.answer(),
                Order::Inspect { slot, pending } => self.inspect(slot, pending),
                Order::List(listing) => self.list(*listing),
                Order::End { id, answer } => self.end(id, &answer),
                Order::TellReached(tells) => self.options.tells_reached = tells,
                Order::DrainListener { listener, quiet } => self.drain_listener(&listener, quiet),
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
        let Entrance { acceptor, rules } = &self.entrances[usize::from(handoff.listener)];
        let refused = handoff.refusal.is_some();
        if self.table.is_full() {
            self.driver.close(handoff.client);
            self.count_ended(&rules.ledger, refused, handoff.source);
            return;
        }
        let (_, client_address) = self.driver.socket_addresses(handoff.client);
        let client = match acceptor {
            Some(acceptor) => Transport::Tls(Box::new(acceptor.engine())),
            None => Transport::Plain,
        };
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        let mut session = edges::session(rules, client, handoff.refusal, client_address, turn);
        if let Some(max) = rules.session.lifetime_max {
            // Those that came together do not end together.
            let earlier = max.mul_f64(draw(&mut self.jitter) / 10.0);
            session.limit_lifetime(self.now + (max - earlier));
        }
        let handshake = if session.is_handshaking(Side::Client) { Handshake::new() } else { Handshake::over() };
        self.handshaking += u32::from(handshake.is_going_on());
        let id = self.table.insert(Entry {
            session,
            generation: 0,
            rules: Rc::clone(rules),
            refused,
            source: handoff.source,
            client: Socket::new(handoff.client),
            client_address,
            proxy_address: None,
            user: None,
            backend: None,
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
        rules.ledger.count_session(self.options.id);
        self.backends[rules.backend].sessions += 1;
        if let Some(quiet) = self.draining {
            self.begin_drain_of(id, quiet, CloseReason::Drained);
        }
        self.touch(id);
    }

    /// Tells the dispatcher that a session has ended.
    pub(super) fn count_ended(&self, ledger: &Ledger, refused: bool, source: Option<SourceSlot>) {
        // In this order: whoever sees that the connection has ended sees its source without it.
        if let Some(source) = source {
            self.links.sources.count_ended(source);
        }
        if refused {
            self.links.load.count_refusal_ended();
        } else {
            ledger.count_admitted_ended(self.options.id);
            self.links.load.count_ended();
        }
    }

    fn dismiss(&mut self, member: &Arc<Member>, dismissal: Dismissal) {
        for id in self.table.ids().collect::<Vec<_>>() {
            let Some(entry) = self.table.entry(id) else { continue };
            if entry.closing || !entry.member().is_some_and(|its| its.is_same_server(member)) {
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
            let (client, listener) = (entry.client_address, Arc::clone(&entry.rules.ledger));
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

    fn exchange_roster(&mut self, backend: BackendId, roster: &Roster) {
        if let Some((_, upstream)) = self.backends.iter_mut().find(|(_, upstream)| upstream.id == backend) {
            upstream.exchange(roster);
        }
    }

    fn drain_listener(&mut self, listener: &Ledger, quiet: Duration) {
        for id in self.table.ids().collect::<Vec<_>>() {
            if self.table.entry(id).is_some_and(|entry| *entry.rules.ledger == *listener) {
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
    pub(super) fn begin_drain_of(&mut self, id: SessionId, quiet: Duration, reason: CloseReason) {
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
