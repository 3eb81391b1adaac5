//! Multiplexed sessions: each has a seat at a trunk in the stead of a connection to a server.
//!
//! A session notices nothing of it. It dials, and is connected as soon as the server can be reached; what it sends goes to
//! the multiplexer, and what it receives comes from there. Either may take its time: a buffer that is on its way is the
//! session's send in flight, or the multiplexer's.
//!
//! ```text
//!   session ──► to_server ──► multiplexer ──► line ──► server
//!   session ◄── to_client ◄── multiplexer ◄── line ◄── server
//! ```

use std::mem;
use std::rc::Rc;
use std::time::Duration;

use super::Shard;
use super::token::SessionId;
use super::trunks::{Seat, SeatState};
use crate::io::{Driver, Errno};
use crate::multiplex::{Output, Reason};
use crate::pool::SendBuf;
use crate::session::close::CloseReason;
use crate::session::transport::Transport;
use crate::session::{Side, Turn};
use crate::slots::Id;

/// How long connections are kept that nobody uses: clients of short life find one that is made.
const KEPT: Duration = Duration::from_secs(10);

impl<D: Driver> Shard<D> {
    /// Brings a session to a server over connections that it shares with others.
    pub(super) fn join(&mut self, id: SessionId) {
        let now = self.now;
        let Some(entry) = self.table.entry(id) else { return };
        let upstream = &mut self.backends[entry.rules.backend];
        let Some(target) = upstream.choose(&entry.tried, entry.client_address.map(|address| address.ip())) else {
            return self.tell_unreachable(id);
        };
        let Some(trunk) = self.trunks.towards(&entry.rules, &target, &mut upstream.sessions, self.options.id) else {
            return;
        };
        entry.target = Some(Rc::clone(&target));
        let came = self.trunks.at(trunk).multiplexer.moment();
        entry.seat = Some(Box::new(Seat::new(trunk, &target, came)));
        entry.dismissed = false;
        entry.dialled_at = now;
        if self.trunks.at(trunk).is_reached() {
            return self.take_seat(id);
        }
        self.trunks.at(trunk).waiting.push(id);
        self.tell(trunk, |multiplexer, turn| multiplexer.reach(turn));
    }

    /// The server is reached: those that wait are its clients.
    pub(super) fn seat_waiting(&mut self, trunk: usize) {
        for id in mem::take(&mut self.trunks.at(trunk).waiting) {
            self.take_seat(id);
        }
    }

    fn take_seat(&mut self, id: SessionId) {
        let Some(entry) = self.table.entry(id).filter(|entry| !entry.closing && entry.session.is_dialling()) else {
            return;
        };
        let Some(seat) = entry.seat.as_mut().filter(|seat| seat.state == SeatState::Waiting) else { return };
        let trunk = self.trunks.at(seat.trunk);
        let client = trunk.multiplexer.accept(seat.came);
        trunk.sessions.set(client, id);
        seat.state = SeatState::Taken(client, true);
        entry.detail = None;
        self.tell_reached(id);
        let opening = self.opening(id);
        let Some(entry) = self.table.entry(id) else { return };
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        entry.session.handle_connected(Transport::Plain, opening, turn);
        self.touch(id);
    }

    /// An attempt to reach the server of a trunk has failed. Where there is no connection to it, those that wait try the
    /// next server.
    pub(super) fn note_failure(&mut self, index: usize, why: &str) {
        let trunk = self.trunks.at(index);
        trunk.target.member.dials().note_failure(self.now, why);
        let failure: Box<str> = format!("{}: {why}", trunk.target.member.address).into();
        trunk.failure = Some(failure.clone());
        if trunk.is_reached() {
            return;
        }
        for id in mem::take(&mut trunk.waiting) {
            let waits = |seat: &Seat| seat.trunk == index && seat.state == SeatState::Waiting;
            if self.table.entry(id).is_some_and(|entry| entry.seat.as_deref().is_some_and(waits)) {
                self.lose_attempt(id, Some(failure.clone()));
            }
        }
    }

    /// Gives up waiting for the server of a trunk, because the time for it is over or it is not to be used any more.
    pub(super) fn abandon_seat(&mut self, id: SessionId) {
        let Some(entry) = self.table.entry(id) else { return };
        let Some(target) = &entry.target else { return };
        let why = if entry.dismissed {
            target.member.standing_in_words()
        } else {
            "no answer within the connect timeout".to_owned()
        };
        let detail = format!("{}: {why}", target.member.address).into();
        self.leave_seat(id);
        self.lose_attempt(id, Some(detail));
    }

    /// Takes what a session says to its server.
    pub(super) fn send_to_trunk(&mut self, id: SessionId, buffer: SendBuf) {
        let Some(seat) = self.table.entry(id).and_then(|entry| entry.seat.as_mut()) else {
            return self.pool.give(buffer);
        };
        seat.to_server = Some(buffer);
        self.pass_to_server(id);
    }

    /// Passes on what a session has said, as far as the multiplexer takes it.
    fn pass_to_server(&mut self, id: SessionId) {
        let Some(entry) = self.table.entry(id) else { return };
        let Some(seat) = &mut entry.seat else { return };
        if matches!(seat.state, SeatState::Taken(_, false) | SeatState::Waiting) {
            return;
        }
        let Some(buffer) = seat.to_server.take() else { return };
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        let SeatState::Taken(client, _) = seat.state else {
            return entry.session.handle_sent(Side::Backend, buffer, Err(Errno(libc::EPIPE)), turn);
        };
        self.trunks.at(seat.trunk).multiplexer.handle_client_received(client, buffer.data(), turn);
        self.trunks.touch(seat.trunk);
        let len = buffer.len();
        entry.session.handle_sent(Side::Backend, buffer, Ok(len), turn);
    }

    /// Passes on what the multiplexer has for a session, as far as that takes it.
    pub(super) fn pass_to_client(&mut self, id: SessionId) {
        let Some(entry) = self.table.entry(id) else { return };
        let Some(seat) = &mut entry.seat else { return };
        let Some(client) = seat.client() else { return };
        if !entry.session.wants_receive(Side::Backend, false) {
            return;
        }
        let Some(mut buffer) = seat.to_client.take() else { return };
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        entry.session.handle_received(Side::Backend, buffer.data_mut(), turn);
        let multiplexer = &mut self.trunks.at(seat.trunk).multiplexer;
        let len = buffer.len();
        multiplexer.handle_client_sent(client, buffer, Ok(len), turn);
        if multiplexer.is_owed(client) {
            entry.session.expect_more();
        }
        self.trunks.touch(seat.trunk);
        self.touch(id);
    }

    /// A session says nothing more to its server.
    pub(super) fn end_seat(&mut self, id: SessionId) {
        let Some(seat) = self.table.entry(id).and_then(|entry| entry.seat.as_ref()) else { return };
        let (trunk, Some(client)) = (seat.trunk, seat.client()) else { return };
        self.tell(trunk, |multiplexer, turn| multiplexer.handle_client_end(client, None, turn));
    }

    /// A session has no more to do with its trunk.
    pub(super) fn leave_seat(&mut self, id: SessionId) {
        let Some((trunk, client)) = self.vacate(id) else { return };
        let Some(client) = client else { return self.trunks.touch(trunk) };
        self.tell(trunk, |multiplexer, turn| {
            multiplexer.handle_client_end(client, Some(Errno(libc::ECONNRESET)), turn);
        });
    }

    /// Empties a seat: what was on its way is given back. Which it was, and the client that it was.
    fn vacate(&mut self, id: SessionId) -> Option<(usize, Option<Id>)> {
        let entry = self.table.entry(id)?;
        let seat = entry.seat.as_mut().filter(|seat| seat.state != SeatState::Left)?;
        let (trunk, client) = (seat.trunk, seat.client());
        seat.state = SeatState::Left;
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        if let Some(buffer) = seat.to_client.take() {
            turn.pool.give(buffer);
        }
        if let Some(buffer) = seat.to_server.take() {
            entry.session.handle_sent(Side::Backend, buffer, Err(Errno(libc::EPIPE)), turn);
        }
        if let Some(client) = client {
            self.trunks.at(trunk).sessions.remove(client);
        }
        Some((trunk, client))
    }

    /// The multiplexer has ended its client: so does the session, by a cut where it misses something.
    fn dismiss_client(&mut self, trunk: usize, client: Id, reason: Reason, is_cut: bool) {
        let Some(id) = self.trunks.at(trunk).sessions.at(client) else { return };
        self.vacate(id);
        let failure = self.trunks.at(trunk).failure.clone();
        let Some(entry) = self.table.entry(id) else { return };
        let failure = failure.filter(|_| reason == Reason::Unreachable);
        entry.detail = reason.detail().map(Into::into).or(failure);
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        if reason == Reason::SlowClient {
            entry.session.abandon(CloseReason::SlowClient, turn);
        } else {
            let error = is_cut.then_some(Errno(libc::ECONNRESET));
            entry.session.handle_backend_gone(reason.close_reason(), error, turn);
        }
        self.touch(id);
    }

    /// Gives the multiplexers their time.
    pub(super) fn fire_trunks(&mut self) {
        self.dial_lines_again();
        for trunk in self.trunks.due(self.now) {
            self.tell(trunk, |multiplexer, turn| multiplexer.handle_timeout(turn));
        }
    }

    /// Carries out what the multiplexers of the trunks that were touched ask for. All sessions have been settled, so that
    /// what their clients have said in this turn leaves together.
    pub(super) fn settle_trunks(&mut self) {
        while let Some(trunk) = self.trunks.next_touched() {
            while let Some(output) = {
                let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
                self.trunks.at(trunk).multiplexer.poll(turn)
            } {
                self.carry_out(trunk, output);
            }
            self.trunks.at(trunk).count_connections();
            self.settle_trunk(trunk);
        }
    }

    fn carry_out(&mut self, trunk: usize, output: Output) {
        match output {
            Output::Dial(link) => self.dial_line(trunk, link),
            Output::SendToServer(link, buffer) => self.send_over_line(trunk, link, buffer),
            Output::EndToServer(link) => self.end_line(trunk, link),
            Output::ReceiveFromServer(link, is_welcome) => self.welcome_line(trunk, link, is_welcome),
            Output::CloseLink(link) => self.close_line(trunk, link),
            Output::ReceiveFromClient(client, is_welcome) => {
                let Some(id) = self.trunks.at(trunk).sessions.at(client) else { return };
                if let Some(seat) = self.table.entry(id).and_then(|entry| entry.seat.as_mut()) {
                    seat.state = SeatState::Taken(client, is_welcome);
                }
                if is_welcome {
                    self.pass_to_server(id);
                    self.touch(id);
                }
            }
            Output::SendToClient(client, buffer) => {
                let id = self.trunks.at(trunk).sessions.at(client);
                let seat = id.and_then(|id| self.table.entry(id)).and_then(|entry| entry.seat.as_mut());
                let (Some(id), Some(seat)) = (id, seat) else { return self.pool.give(buffer) };
                seat.to_client = Some(buffer);
                self.pass_to_client(id);
            }
            Output::CloseClient(client, reason) => self.dismiss_client(trunk, client, reason, false),
            Output::CutClient(client, reason) => self.dismiss_client(trunk, client, reason, true),
            Output::TellSlow(slow) => self.tell_slow(trunk, slow),
        }
    }

    /// Ends the connections of a trunk that nobody has used for a while, and drops it when they are closed. While a session
    /// waits for the server, there is an attempt to reach it, whatever became of the one before.
    fn settle_trunk(&mut self, index: usize) {
        let now = self.now;
        let drains = self.draining.is_some();
        let trunk = self.trunks.at(index);
        trunk.apart.set(trunk.multiplexer.own_links());
        if !self.trunks.at(index).waiting.is_empty() && self.trunks.at(index).multiplexer.links() == 0 {
            self.tell(index, |multiplexer, turn| multiplexer.reach(turn));
        }
        let trunk = self.trunks.at(index);
        let own = if trunk.is_unused() {
            let until = *trunk.unused_since.get_or_insert(now) + KEPT;
            if (drains || until <= now) && trunk.multiplexer.links() > 0 {
                self.tell(index, |multiplexer, turn| multiplexer.close_all(turn));
            }
            Some(until)
        } else {
            trunk.unused_since = None;
            None
        };
        let trunk = self.trunks.at(index);
        trunk.deadline = [trunk.multiplexer.deadline(), own.filter(|&until| until > now)].into_iter().flatten().min();
        if let Some(backend) = self.trunks.remove_unnamed(index) {
            self.leave_backend(backend);
        }
    }
}
