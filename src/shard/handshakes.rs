//! Handshakes: what comes of them is served behind the turn's data and within a budget, so that a storm of new clients
//! leaves the others their half of the core.
//!
//! Clients' handshakes and those with servers share the budget.
//!
//! Who waits is served in this order: handshakes that have begun, a server's among them, because a signature is spent on them and most end
//! with this message; then clients with a ticket that opens; then the newest. In a storm the oldest have the least
//! time left, and their clients may have given up.
//!
//! Invariants:
//! - Nothing is signed for a client that is gone or whose time is over.
//! - At most `max_handshakes` have begun and as many wait; the oldest make room. A client that has said only a part of its
//!   hello is neither of the two: it costs no more than one that is silent, and has as long.
//! - What waits lies in buffers of the pool, not in those that the kernel receives into.

use std::collections::VecDeque;
use std::time::Duration;

use super::Shard;
use super::token::SessionId;
use crate::io::{Driver, Errno, Lease};
use crate::pool::{Pool, SendBuf};
use crate::session::close::CloseReason;
use crate::session::{Side, Turn};
use crate::time::Time;
use crate::tls::{Acceptor, is_unfinished_record, looks_like_plaintext};

/// Messages served in one turn. An ECDSA handshake costs about 0.1 ms, one with RSA-2048 about 0.7 ms.
const MESSAGES_PER_TURN_MAX: usize = 16;

/// How long handshakes may take in each turn, however little data there was; else they may take as long as it did.
const TIME_PER_TURN_MIN: Duration = Duration::from_micros(200);

/// Bytes of one handshake that may wait; more stay in the socket. A chain of post-quantum certificates fits.
const WAITING_BYTES_MAX: usize = 48 * 1024;

/// How far a handshake is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The client has not said hello, or not all of it: nothing was spent on it.
    New,
    /// A signature may have been spent on it.
    Begun,
    /// Complete, or of no more interest.
    Over,
}

/// A session's handshake with one side.
#[derive(Debug)]
pub(super) struct Handshake {
    stage: Stage,
    /// What has come and was not served yet, and the end behind it.
    bytes: SendBuf,
    end: Option<Option<Errno>>,
    queued: bool,
    /// The session has been given something of it.
    served: bool,
}

impl Handshake {
    /// One of which nothing has come.
    pub(super) fn new() -> Self {
        Self { stage: Stage::New, bytes: SendBuf::default(), end: None, queued: false, served: false }
    }

    /// None: the side speaks plain text, or is not connected.
    pub(super) fn over() -> Self {
        Self { stage: Stage::Over, ..Self::new() }
    }

    /// Whether it is still going on, as far as the shard has seen.
    pub(super) fn is_going_on(&self) -> bool {
        self.stage != Stage::Over
    }

    /// Whether what comes from the side must wait for what came before it.
    pub(super) fn defers(&self) -> bool {
        self.is_going_on() || self.queued
    }

    /// Whether more bytes may wait.
    pub(super) fn has_room(&self) -> bool {
        self.bytes.len() < WAITING_BYTES_MAX
    }

    /// Drops what waits.
    pub(super) fn discard(&mut self, pool: &mut Pool) {
        pool.give(std::mem::take(&mut self.bytes));
        self.end = None;
    }
}

/// The sessions whose handshakes wait, and those that have begun. It may name sessions that are over.
#[derive(Debug)]
pub(super) struct Queue {
    max: usize,
    begun: usize,
    /// Those that have begun, in the order in which their clients were accepted: the newest begin first in a storm, and
    /// would be the first to go in the order of beginning.
    begun_order: VecDeque<(Time, SessionId)>,
    going_on: VecDeque<(SessionId, Side)>,
    resumable: VecDeque<SessionId>,
    fresh: VecDeque<SessionId>,
    /// Came since it was last served.
    arrived: Vec<SessionId>,
}

impl Queue {
    /// A queue of at most `max` handshakes that have begun and as many that wait.
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            begun: 0,
            begun_order: VecDeque::new(),
            going_on: VecDeque::new(),
            resumable: VecDeque::new(),
            fresh: VecDeque::new(),
            arrived: Vec::new(),
        }
    }

    /// Has another bound from the next turn on.
    pub(super) const fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.going_on.is_empty() && self.arrived.is_empty() && self.new_ones() == 0
    }

    fn new_ones(&self) -> usize {
        self.resumable.len() + self.fresh.len()
    }

    fn next(&mut self) -> Option<(SessionId, Side)> {
        let new = |queue: &mut Self| queue.resumable.pop_back().or_else(|| queue.fresh.pop_back());
        self.going_on.pop_front().or_else(|| new(self).map(|id| (id, Side::Client)))
    }

    /// Counts one as begun whose client was accepted at `since`. Clients come in order, and in a
    /// storm in the reverse of it, so the place is near an end, and a deque moves its shorter one.
    fn begin(&mut self, id: SessionId, since: Time) {
        self.begun += 1;
        let place = self.begun_order.partition_point(|&(other, _)| other <= since);
        self.begun_order.insert(place, (since, id));
    }

    /// Of the new ones the one that has waited longest for nothing.
    fn oldest(&mut self) -> Option<SessionId> {
        self.fresh.pop_front().or_else(|| self.resumable.pop_front())
    }
}

impl<D: Driver> Shard<D> {
    /// Keeps what a side has sent until its handshake is served. It defers.
    pub(super) fn hold_bytes(&mut self, id: SessionId, side: Side, lease: &Lease) {
        let taken = if side == Side::Client { self.introduce(id, lease) } else { 0 };
        let Some(entry) = self.table.entry(id).filter(|entry| !entry.closing) else { return };
        let bytes = &mut self.driver.bytes_mut(lease)[taken..];
        if bytes.is_empty() {
            return;
        }
        if !entry.handshake_mut(side).defers() {
            let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
            return entry.session.handle_received(side, bytes, turn);
        }
        let handshake = entry.handshake_mut(side);
        self.pool.grow(&mut handshake.bytes, bytes.len());
        handshake.bytes.append(bytes);
        // Who has said half a hello does not wait in line: the rest may never come.
        if handshake.served || side == Side::Backend || !is_unfinished_record(handshake.bytes.data()) {
            self.enqueue(id, side);
        }
    }

    /// Keeps the end of a side's socket until its handshake is served. It defers.
    pub(super) fn hold_end(&mut self, id: SessionId, side: Side, error: Option<Errno>) {
        let Some(entry) = self.table.entry(id).filter(|entry| !entry.closing) else { return };
        if side == Side::Client && entry.session.is_introducing() {
            return self.deliver_end(id, side, error);
        }
        entry.handshake_mut(side).end = Some(error);
        self.enqueue(id, side);
    }

    fn enqueue(&mut self, id: SessionId, side: Side) {
        let Some(entry) = self.table.entry(id) else { return };
        let handshake = entry.handshake_mut(side);
        if std::mem::replace(&mut handshake.queued, true) {
            return;
        }
        match handshake.stage {
            Stage::New => self.handshakes.arrived.push(id),
            Stage::Begun | Stage::Over => self.handshakes.going_on.push_back((id, side)),
        }
    }

    /// Serves those that wait, as far as the budget goes. The turn's data has been served.
    pub(super) fn serve_handshakes(&mut self) {
        if self.handshakes.is_empty() {
            return;
        }
        let started = self.driver.now();
        let until = started + started.since(self.now).max(TIME_PER_TURN_MIN);
        self.sort_arrived();
        let mut served = 0;
        while served < MESSAGES_PER_TURN_MAX && (served == 0 || self.driver.now() < until) {
            let Some((id, side)) = self.handshakes.next() else { break };
            served += usize::from(match side {
                Side::Client => self.serve_client_handshake(id),
                Side::Backend => self.serve_backend_handshake(id),
            });
        }
        self.make_room();
    }

    /// Puts those that have arrived in line. Only when they cannot all be served now is it worth asking who has a
    /// ticket that opens.
    fn sort_arrived(&mut self) {
        let waiting = self.handshakes.arrived.len() + self.handshakes.new_ones();
        for index in 0..self.handshakes.arrived.len() {
            let id = self.handshakes.arrived[index];
            let Some(entry) = self.table.entry(id) else { continue };
            let ledger = &entry.rules.ledger;
            let acceptor =
                || self.entrances.iter().find(|entrance| entrance.rules.ledger == *ledger)?.acceptor.as_ref();
            let knows = |acceptor: &Acceptor| acceptor.knows(entry.handshake.bytes.data());
            if waiting > MESSAGES_PER_TURN_MAX && acceptor().is_some_and(knows) {
                self.handshakes.resumable.push_back(id);
            } else {
                self.handshakes.fresh.push_back(id);
            }
        }
        self.handshakes.arrived.clear();
    }

    /// Gives a session what has come of its client's handshake. `false` when that took no time.
    fn serve_client_handshake(&mut self, id: SessionId) -> bool {
        let Some(entry) = self.table.entry(id).filter(|entry| !entry.closing) else { return false };
        let handshake = &mut entry.handshake;
        handshake.queued = false;
        let mut bytes = std::mem::take(&mut handshake.bytes);
        let end = handshake.end.take();
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        let late = entry.session.deadline().is_some_and(|deadline| deadline <= turn.now);
        let gone = end.is_some() && !looks_like_plaintext(bytes.data());
        let worthless = handshake.stage == Stage::New && (late || gone);
        if worthless {
            turn.tally.handshakes_abandoned.add(1);
        } else if !bytes.is_empty() {
            handshake.served = true;
            entry.session.handle_received(Side::Client, bytes.data_mut(), turn);
        }
        if let Some(error) = end {
            entry.session.handle_end(Side::Client, error, turn);
        }
        self.pool.give(bytes);
        self.begin(id);
        self.touch(id);
        !worthless
    }

    /// Gives a session what has come of its server's handshake. `false` when that took no time.
    fn serve_backend_handshake(&mut self, id: SessionId) -> bool {
        let Some(entry) = self.table.entry(id).filter(|entry| !entry.closing) else { return false };
        let handshake = &mut entry.backend_handshake;
        handshake.queued = false;
        let mut bytes = std::mem::take(&mut handshake.bytes);
        let end = handshake.end.take();
        let has_bytes = !bytes.is_empty();
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        if has_bytes {
            entry.session.handle_received(Side::Backend, bytes.data_mut(), turn);
        }
        if let Some(error) = end {
            entry.session.handle_end(Side::Backend, error, turn);
        }
        self.pool.give(bytes);
        self.touch(id);
        has_bytes
    }

    /// Counts the handshake with a server that has just been connected, if there is one.
    pub(super) fn begin_backend_handshake(&mut self, id: SessionId) {
        let Some(entry) = self.table.entry(id) else { return };
        if entry.session.is_handshaking(Side::Backend) && !entry.backend_handshake.is_going_on() {
            entry.backend_handshake.stage = Stage::Begun;
            self.handshaking += 1;
        }
    }

    /// Counts a client's handshake as begun once it is.
    fn begin(&mut self, id: SessionId) {
        let Some(entry) = self.table.entry(id) else { return };
        if entry.handshake.stage == Stage::New && entry.session.has_heard_hello() {
            entry.handshake.stage = Stage::Begun;
            self.handshakes.begin(id, entry.session.started());
        }
    }

    /// Lets the oldest go where there are too many.
    fn make_room(&mut self) {
        while self.handshakes.new_ones() > self.handshakes.max {
            let Some(id) = self.handshakes.oldest() else { break };
            self.give_way(id);
        }
        while let Some(&(_, id)) = self.handshakes.begun_order.front() {
            let stage = self.table.entry(id).map(|entry| entry.handshake.stage);
            let over = stage != Some(Stage::Begun);
            if !over && self.handshakes.begun <= self.handshakes.max {
                break;
            }
            self.handshakes.begun_order.pop_front();
            if !over {
                self.give_way(id);
            }
        }
    }

    fn give_way(&mut self, id: SessionId) {
        let Some(entry) = self.table.entry(id).filter(|entry| !entry.closing) else { return };
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        turn.tally.handshakes_displaced.add(1);
        entry.session.abandon(CloseReason::TooManyHandshakes, turn);
        self.end_handshake(id, Side::Client);
        self.touch(id);
    }

    /// Counts a handshake as over, once.
    pub(super) fn end_handshake(&mut self, id: SessionId, side: Side) {
        let Some(entry) = self.table.entry(id) else { return };
        match (std::mem::replace(&mut entry.handshake_mut(side).stage, Stage::Over), side) {
            (Stage::Over, _) => return,
            (Stage::New, _) | (Stage::Begun, Side::Backend) => {}
            (Stage::Begun, Side::Client) => self.handshakes.begun -= 1,
        }
        self.handshaking -= 1;
    }

    /// Sees a handshake end.
    pub(super) fn settle_handshake(&mut self, id: SessionId, side: Side) {
        let Some(entry) = self.table.entry(id) else { return };
        if entry.handshake_mut(side).is_going_on() && !entry.session.is_handshaking(side) {
            self.end_handshake(id, side);
        }
    }

    /// Drops what waits of a handshake, which is over.
    pub(super) fn drop_handshake(&mut self, id: SessionId, side: Side) {
        if let Some(entry) = self.table.entry(id) {
            entry.handshake_mut(side).discard(&mut self.pool);
        }
        self.end_handshake(id, side);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(slot: u32) -> SessionId {
        SessionId { slot, generation: 0 }
    }

    #[test]
    fn those_begun_come_first_in_order_then_the_resumable_then_the_newest() {
        let mut queue = Queue::new(8);
        queue.fresh.extend([1, 2, 3].map(id));
        queue.resumable.extend([4, 5].map(id));
        queue.going_on.extend([(id(6), Side::Client), (id(7), Side::Backend)]);
        let order: Vec<_> = std::iter::from_fn(|| queue.next()).map(|(id, _)| id.slot).collect();
        assert_eq!(order, [6, 7, 5, 4, 3, 2, 1]);
        assert!(queue.is_empty());
    }

    #[test]
    fn of_those_begun_the_one_accepted_first_makes_room_first_in_whatever_order_they_began() {
        let mut queue = Queue::new(8);
        for accepted in [5, 3, 4, 1, 2] {
            queue.begin(id(accepted), Time::from_nanos(u64::from(accepted)));
        }
        let order: Vec<_> = queue.begun_order.iter().map(|(_, id)| id.slot).collect();
        assert_eq!((queue.begun, order), (5, vec![1, 2, 3, 4, 5]));
    }

    #[test]
    fn the_oldest_makes_room_first_and_the_resumable_last() {
        let mut queue = Queue::new(8);
        queue.fresh.extend([1, 2].map(id));
        queue.resumable.extend([3, 4].map(id));
        let order: Vec<_> = std::iter::from_fn(|| queue.oldest()).map(|id| id.slot).collect();
        assert_eq!(order, [1, 2, 3, 4]);
    }
}
