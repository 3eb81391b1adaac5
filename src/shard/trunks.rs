//! What multiplexed sessions share: for each listener that multiplexes, and each server, a [`Trunk`].
//!
//! A trunk is a [`Multiplexer`] with names: which session each of its clients is, and which line each of its connections.
//! A [`Line`] is the socket of one connection. It outlives the connection until nothing of it is in flight.
//!
//! Invariant: a trunk is there as long as a session or a line names it.

use std::rc::Rc;
use std::sync::Arc;

use slab::Slab;

use super::backends::Target;
use super::listeners::Rules;
use super::secure::Secure;
use super::socket::Socket;
use super::token::SessionId;
use crate::metrics::Sharing;
use crate::multiplex::{Moment, Multiplexer, Way};
use crate::pool::SendBuf;
use crate::roster::{Apartness, Member, Place};
use crate::slots::{Id, Slots};
use crate::time::Time;

/// Contents by the names that a multiplexer has for them.
#[derive(Debug)]
pub(super) struct Names<T>(Vec<Option<(Id, T)>>);

impl<T: Copy> Names<T> {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn set(&mut self, id: Id, content: T) {
        let slot = id.slot as usize;
        if slot >= self.0.len() {
            self.0.resize(slot + 1, None);
        }
        self.0[slot] = Some((id, content));
    }

    pub(super) fn at(&self, id: Id) -> Option<T> {
        let (name, content) = self.0.get(id.slot as usize).copied().flatten()?;
        (name == id).then_some(content)
    }

    pub(super) fn remove(&mut self, id: Id) {
        if self.at(id).is_some() {
            self.0[id.slot as usize] = None;
        }
    }
}

/// A multiplexer, its clients' sessions and its connections' lines.
#[derive(Debug)]
pub(super) struct Trunk {
    /// Those of its newest session.
    pub(super) rules: Rc<Rules>,
    pub(super) target: Rc<Target>,
    pub(super) multiplexer: Multiplexer,
    /// Its connections that are one client's own.
    pub(super) apart: Apartness,
    /// The session of each client.
    pub(super) sessions: Names<SessionId>,
    /// The line of each connection.
    pub(super) lines: Names<Id>,
    /// Lines that are open, being opened, or being closed.
    pub(super) open_lines: usize,
    /// Those of them over which the server can be spoken to.
    pub(super) reached_lines: usize,
    /// Sessions that wait until the server is reached. Some may have given up, or be gone.
    pub(super) waiting: Vec<SessionId>,
    /// How the last attempt to reach the server failed.
    pub(super) failure: Option<Box<str>>,
    /// When the multiplexer, or the trunk itself, must be looked at again.
    pub(super) deadline: Option<Time>,
    /// Since when nobody uses it.
    pub(super) unused_since: Option<Time>,
    touched: bool,
    /// What its listener's requests and connections come to on this shard.
    counts: Arc<Sharing>,
    /// Its part in that: connections that are shared, and others.
    counted: (u64, u64),
}

/// All trunks of a shard and their lines.
#[derive(Debug)]
pub(super) struct Trunks {
    trunks: Slab<Trunk>,
    pub(super) lines: Slots<Line>,
    /// Trunks to settle at the end of the turn.
    touched: Vec<usize>,
    /// Lines whose server was behind with accepting, and when to try again.
    pub(super) again: Vec<(Time, Id)>,
}

impl Trunks {
    pub(super) const fn new() -> Self {
        Self { trunks: Slab::new(), lines: Slots::new(), touched: Vec::new(), again: Vec::new() }
    }

    /// Whether no connection is open.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The trunk of a listener towards a server, made if there is none yet: one more then that keeps the backend from being
    /// dropped. None where the listener does not multiplex.
    pub(super) fn towards(
        &mut self,
        rules: &Rc<Rules>,
        target: &Rc<Target>,
        users: &mut usize,
        shard: u16,
    ) -> Option<usize> {
        let options = rules.multiplex.as_ref()?;
        // A listener that multiplexes otherwise since a reload has other trunks.
        let leads_there = |trunk: &Trunk| {
            let of = &trunk.rules;
            (&of.ledger, of.backend, of.multiplex.as_ref()) == (&rules.ledger, rules.backend, Some(options))
                && trunk.target.member.is_same_server(&target.member)
        };
        if let Some((index, trunk)) = self.trunks.iter_mut().find(|(_, trunk)| leads_there(trunk)) {
            // The newest has the newest credentials.
            trunk.target = Rc::clone(target);
            trunk.rules = Rc::clone(rules);
            return Some(index);
        }
        *users += 1;
        let counts = rules.ledger.sharing(shard);
        let mut multiplexer = Multiplexer::new(options.clone(), Arc::clone(&counts));
        multiplexer.tell_slower_than(rules.slow_log);
        Some(self.trunks.insert(Trunk {
            rules: Rc::clone(rules),
            target: Rc::clone(target),
            multiplexer,
            apart: Apartness::none(Arc::clone(&target.member)),
            counts,
            counted: (0, 0),
            sessions: Names::new(),
            lines: Names::new(),
            open_lines: 0,
            reached_lines: 0,
            waiting: Vec::new(),
            failure: None,
            deadline: None,
            unused_since: None,
            touched: false,
        }))
    }

    pub(super) fn at(&mut self, index: usize) -> &mut Trunk {
        &mut self.trunks[index]
    }

    /// Over which connections the requests of whoever sits there go.
    pub(super) fn way_of(&self, seat: &Seat) -> Option<Way> {
        self.trunks.get(seat.trunk)?.multiplexer.way(seat.client()?)
    }

    pub(super) fn touch(&mut self, index: usize) {
        if let Some(trunk) = self.trunks.get_mut(index)
            && !std::mem::replace(&mut trunk.touched, true)
        {
            self.touched.push(index);
        }
    }

    /// Has what is told of slow requests follow these rules in all trunks of their listener, whatever else has changed.
    pub(super) fn tell_slower_than(&mut self, rules: &Rules) {
        for (_, trunk) in self.trunks.iter_mut().filter(|(_, trunk)| trunk.rules.ledger == rules.ledger) {
            trunk.multiplexer.tell_slower_than(rules.slow_log);
        }
    }

    pub(super) fn touch_all(&mut self) {
        for index in self.indices() {
            self.touch(index);
        }
    }

    /// One of those that were touched.
    pub(super) fn next_touched(&mut self) -> Option<usize> {
        let index = self.touched.pop()?;
        if let Some(trunk) = self.trunks.get_mut(index) {
            trunk.touched = false;
        }
        Some(index)
    }

    /// Drops a trunk that nobody names any more; the key of its backend.
    pub(super) fn remove_unnamed(&mut self, index: usize) -> Option<usize> {
        let trunk = &self.trunks[index];
        let is_unnamed = trunk.open_lines == 0 && trunk.is_unused() && !trunk.touched;
        is_unnamed.then(|| {
            let trunk = self.trunks.remove(index);
            debug_assert_eq!(trunk.counted, (0, 0), "all its connections are closed");
            trunk.rules.backend
        })
    }

    /// When one of them must be looked at again.
    pub(super) fn deadline(&self) -> Option<Time> {
        let trunks = self.trunks.iter().filter_map(|(_, trunk)| trunk.deadline);
        trunks.chain(self.again.iter().map(|&(at, _)| at)).min()
    }

    /// Those that must be looked at by now.
    pub(super) fn due(&self, now: Time) -> Vec<usize> {
        let is_due = |trunk: &Trunk| trunk.deadline.is_some_and(|deadline| deadline <= now);
        self.trunks.iter().filter(|(_, trunk)| is_due(trunk)).map(|(index, _)| index).collect()
    }

    fn indices(&self) -> Vec<usize> {
        self.trunks.iter().map(|(index, _)| index).collect()
    }
}

impl Trunk {
    /// Whether the server can be spoken to, as far as is known.
    pub(super) const fn is_reached(&self) -> bool {
        self.reached_lines > 0
    }

    /// Counts its connections, as far as they have changed.
    pub(super) fn count_connections(&mut self) {
        let shared = self.multiplexer.shared_links() as u64;
        let own = self.multiplexer.links() as u64 - shared;
        let (shared_before, own_before) = std::mem::replace(&mut self.counted, (shared, own));
        let Sharing { shared_connections, own_connections, .. } = &*self.counts;
        shared_connections.set(shared_connections.get() + shared - shared_before);
        own_connections.set(own_connections.get() + own - own_before);
    }

    /// Whether no session uses it or waits for it.
    pub(super) fn is_unused(&self) -> bool {
        self.multiplexer.clients() == 0 && self.waiting.is_empty()
    }
}

/// The socket of one connection of a trunk.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) trunk: usize,
    /// The multiplexer's name of the connection.
    pub(super) link: Id,
    pub(super) socket: Socket,
    /// The TLS of it, where the server speaks TLS and is connected.
    pub(super) secure: Option<Box<Secure>>,
    /// The server can be spoken to.
    pub(super) is_reached: bool,
    /// It is closed as soon as nothing of it is in flight.
    pub(super) closing: bool,
    /// Bytes from the server are welcome.
    pub(super) is_welcome: bool,
    pub(super) dialled_at: Time,
    /// Its place at the server.
    pub(super) place: Place,
}

impl Line {
    /// Whether bytes from the server are to be received.
    pub(super) fn wants_receive(&self) -> bool {
        self.is_welcome || self.secure.as_ref().is_some_and(|secure| secure.is_handshaking())
    }
}

/// A session's seat at a trunk, in the stead of a connection to the server.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) trunk: usize,
    /// Counted at the server for the balance as long as the seat is there.
    target: Rc<Target>,
    /// When it was taken, by the multiplexer's count.
    pub(super) came: Moment,
    pub(super) state: SeatState,
    /// What the session has said and the multiplexer does not take yet.
    pub(super) to_server: Option<SendBuf>,
    /// What the multiplexer has for the session, which does not take it yet.
    pub(super) to_client: Option<SendBuf>,
}

/// Whether a session is a client of its trunk's multiplexer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SeatState {
    /// The server is being reached.
    Waiting,
    /// It is this one; whether what it says is welcome.
    Taken(Id, bool),
    /// It was.
    Left,
}

impl Seat {
    pub(super) fn new(trunk: usize, target: &Rc<Target>, came: Moment) -> Self {
        target.count_sharing(1);
        Self { trunk, target: Rc::clone(target), came, state: SeatState::Waiting, to_server: None, to_client: None }
    }

    pub(super) const fn client(&self) -> Option<Id> {
        match self.state {
            SeatState::Taken(client, _) => Some(client),
            SeatState::Waiting | SeatState::Left => None,
        }
    }

    /// The server, unless the session has left it.
    pub(super) fn member(&self) -> Option<&Arc<Member>> {
        (self.state != SeatState::Left).then_some(&self.target.member)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.target.count_sharing(-1);
    }
}
