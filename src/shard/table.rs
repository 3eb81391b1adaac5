//! The sessions of a shard, and what of each is in flight.
//!
//! Invariant: a slot is freed only when nothing of its session is in flight, and its generation counts up on each
//! use, so a late completion can never reach another session.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use slab::Slab;

use super::backends::Target;
use super::handshakes::Handshake;
use super::listeners::Rules;
use super::socket::Socket;
use super::token::SessionId;
use super::trunks::Seat;
use crate::roster::waiting::Waiter;
use crate::roster::{Member, Place};
use crate::session::{Session, Side};
use crate::sources::SourceSlot;
use crate::time::Time;

/// A session and its place in the world.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) session: Session,
    pub(super) generation: u32,
    /// What it keeps of its listener.
    pub(super) rules: Rc<Rules>,
    /// It is only told why it is not served.
    pub(super) refused: bool,
    /// Where its source's connections are counted.
    pub(super) source: Option<SourceSlot>,
    pub(super) client: Socket,
    pub(super) client_address: Option<SocketAddr>,
    /// The proxy's that has introduced it.
    pub(super) proxy_address: Option<SocketAddr>,
    /// Who the client becomes on the server: the index of the listener's user.
    pub(super) user: Option<usize>,
    pub(super) backend: Option<Socket>,
    /// In the stead of a connection of its own, where it shares some.
    pub(super) seat: Option<Box<Seat>>,
    /// The connection to the server is to be closed when nothing of it is in flight any more.
    pub(super) hanging_up: bool,
    /// The server dialled last.
    pub(super) target: Option<Rc<Target>>,
    /// Its place there, from the dial to the end of the connection.
    pub(super) place: Option<Place>,
    /// Set while it waits for a place.
    pub(super) waiter: Option<Waiter>,
    /// The servers that could not be reached for it.
    pub(super) tried: Vec<Arc<Member>>,
    /// The server that is being dialled is not to be used any more.
    pub(super) dismissed: bool,
    /// When the attempt under way began.
    pub(super) dialled_at: Time,
    /// When a server whose queue of connections was full is tried again.
    pub(super) dial_again_at: Option<Time>,
    pub(super) server_local_port: Option<u16>,
    /// Why the last attempt to reach a server failed, or what else the log should say.
    pub(super) detail: Option<Box<str>>,
    /// Already in the list of sessions to settle at the end of the turn.
    pub(super) touched: bool,
    /// The session has said [`Output::Close`](crate::session::Output::Close).
    pub(super) closing: bool,
    pub(super) pending: bool,
    /// It was found blocked both ways, and its pending flag is up since.
    pub(super) stalled: bool,
    /// The client's.
    pub(super) handshake: Handshake,
    pub(super) backend_handshake: Handshake,
    /// Already in the list of sessions that wait for memory.
    pub(super) short: bool,
    /// When the earliest timer set for it fires.
    pub(super) timer: Option<Time>,
}

impl Entry {
    pub(super) const fn socket_mut(&mut self, side: Side) -> Option<&mut Socket> {
        match side {
            Side::Client => Some(&mut self.client),
            Side::Backend => self.backend.as_mut(),
        }
    }

    pub(super) const fn handshake_mut(&mut self, side: Side) -> &mut Handshake {
        match side {
            Side::Client => &mut self.handshake,
            Side::Backend => &mut self.backend_handshake,
        }
    }

    /// Gives the place at the server back: it could not be reached, and is not tried again.
    pub(super) fn leave_server(&mut self) {
        self.dismissed = false;
        let seat = self.seat.take().is_some();
        let shared = self.target.as_ref().filter(|_| seat).map(|target| Arc::clone(&target.member));
        self.tried.extend(self.place.take().map(|place| Arc::clone(place.member())).or(shared));
    }

    /// The server that it is at, or is being brought to.
    pub(super) fn member(&self) -> Option<&Arc<Member>> {
        let shared = self.seat.as_ref().and_then(|seat| seat.member());
        shared.or_else(|| self.place.as_ref().map(Place::member))
    }

    /// Whether an operation's final completion is still to come.
    pub(super) fn is_busy(&self) -> bool {
        self.client.is_busy() || self.backend.as_ref().is_some_and(Socket::is_busy)
    }
}

/// The session table.
#[derive(Debug)]
pub(super) struct Table {
    entries: Slab<Entry>,
    generations: Vec<u32>,
    slots_max: usize,
}

impl Table {
    pub(super) fn new(slots_max: usize) -> Self {
        Self { entries: Slab::new(), generations: Vec::new(), slots_max }
    }

    /// Whether every slot is taken.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.slots_max
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Gives `entry` a slot. The table must not be full.
    pub(super) fn insert(&mut self, mut entry: Entry) -> SessionId {
        let vacant = self.entries.vacant_entry();
        let slot = vacant.key();
        if slot == self.generations.len() {
            self.generations.push(0);
        }
        let generation = self.generations[slot];
        entry.generation = generation;
        vacant.insert(entry);
        SessionId { slot: u32::try_from(slot).expect("slots are bounded to 24 bits"), generation }
    }

    /// The session, unless its slot has passed on.
    pub(super) fn entry(&mut self, id: SessionId) -> Option<&mut Entry> {
        self.entries.get_mut(id.slot as usize).filter(|entry| entry.generation == id.generation)
    }

    /// The session in `slot`, whichever it is.
    pub(super) fn entry_in(&mut self, slot: u32) -> Option<&mut Entry> {
        self.entries.get_mut(slot as usize)
    }

    /// Frees the slot.
    pub(super) fn remove(&mut self, id: SessionId) -> Entry {
        let entry = self.entries.remove(id.slot as usize);
        let generation = &mut self.generations[id.slot as usize];
        *generation = generation.wrapping_add(1);
        entry
    }

    /// The sessions in some slots, in their order.
    pub(super) fn among(&self, slots: std::ops::Range<u32>) -> impl Iterator<Item = (SessionId, &Entry)> {
        slots.filter_map(|slot| {
            let entry = self.entries.get(slot as usize)?;
            Some((SessionId { slot, generation: entry.generation }, entry))
        })
    }

    /// Slots that have ever been used.
    pub(super) fn slots(&self) -> u32 {
        u32::try_from(self.generations.len()).expect("slots are bounded to 24 bits")
    }

    /// The slots of pending sessions, by the sessions' own word.
    pub(super) fn pending_slots(&self) -> impl Iterator<Item = u32> {
        let pending = self.entries.iter().filter(|(_, entry)| entry.session.is_pending() && !entry.closing);
        pending.map(|(slot, _)| u32::try_from(slot).expect("slots are bounded to 24 bits"))
    }

    /// Every session's name.
    pub(super) fn ids(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.entries.iter().map(|(slot, entry)| SessionId {
            slot: u32::try_from(slot).expect("slots are bounded to 24 bits"),
            generation: entry.generation,
        })
    }
}
