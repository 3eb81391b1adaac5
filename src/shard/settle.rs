//! The end of a turn for one session: what it asks for is carried out, what it wants received is armed.

use std::sync::Arc;
use std::time::Duration;

use super::Shard;
use super::backends::Offer;
use super::counts::ConnectFailure;
use super::socket::Socket;
use super::token::{self, Purpose, SessionId};
use crate::events::{CloseRecord, Event};
use crate::io::{Driver, Errno, SocketOptions};
use crate::pool::SendBuf;
use crate::session::dial::HandshakeEnd;
use crate::session::{Output, Side, Turn};
use crate::tls::Failure;

/// How soon a server whose queue of connections was full is tried again.
pub(super) const DIAL_AGAIN: Duration = Duration::from_millis(5);

impl<D: Driver> Shard<D> {
    pub(super) fn settle_touched(&mut self) {
        // Settling may touch again (a dial that fails at once), so the list may grow while it is worked off.
        loop {
            let mut index = 0;
            while index < self.touched.len() {
                let id = self.touched[index];
                index += 1;
                if let Some(entry) = self.table.entry(id) {
                    entry.touched = false;
                    self.settle(id);
                }
            }
            self.touched.clear();
            // What comes over shared connections is served here, and touches sessions.
            self.settle_trunks();
            if self.touched.is_empty() {
                return;
            }
        }
    }

    fn settle(&mut self, id: SessionId) {
        self.finish_hang_up(id);
        while let Some(output) = self.poll(id) {
            match output {
                Output::HangUp(end) => self.hang_up(id, end),
                Output::Send(side, buffer) => self.send(id, side, buffer),
                Output::ShutdownWrite(side) => self.shutdown_write(id, side),
                Output::Dial => self.dial(id),
                Output::AbandonDial => self.abandon_dial(id),
                Output::Close => self.begin_close(id),
            }
        }
        self.pass_to_client(id);
        let Some(entry) = self.table.entry(id) else { return };
        if !entry.session.is_dialling() {
            entry.waiter = None;
        }
        if entry.closing {
            if !entry.is_busy() {
                self.finish(id);
            }
            return;
        }
        for side in Side::BOTH {
            self.settle_receive(id, side);
        }
        self.settle_flags(id);
    }

    fn poll(&mut self, id: SessionId) -> Option<Output> {
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        self.table.entry(id)?.session.poll(turn)
    }

    fn send(&mut self, id: SessionId, side: Side, buffer: SendBuf) {
        if side == Side::Backend && self.table.entry(id).is_some_and(|entry| entry.seat.is_some()) {
            return self.send_to_trunk(id, buffer);
        }
        let Some(socket) = self.table.entry(id).and_then(|entry| entry.socket_mut(side)) else {
            unreachable!("a session sends only on a side that it has");
        };
        self.tally.sends.add(1);
        socket.send(buffer, token::encode(id, Purpose::Send(side)), &mut self.driver);
    }

    fn shutdown_write(&mut self, id: SessionId, side: Side) {
        if let Some(socket) = self.table.entry(id).and_then(|entry| entry.socket_mut(side)) {
            self.driver.shutdown_write(socket.fd);
        } else {
            self.end_seat(id);
        }
    }

    /// Starts an attempt at the next server, or has the session wait for one.
    fn dial(&mut self, id: SessionId) {
        if !self.settle_user(id) {
            return;
        }
        let Some(entry) = self.table.entry(id) else { return };
        if entry.rules.multiplex.is_some() {
            return self.join(id);
        }
        let upstream = &mut self.backends[entry.rules.backend];
        let offer = if upstream.may_be_served(self.now) {
            upstream.offer(&entry.tried, entry.client_address.map(|address| address.ip()))
        } else {
            Offer::Full
        };
        self.take_offer(id, offer);
    }

    /// Makes of an offer what the session can; when there is no server left, the session tells its client.
    pub(super) fn take_offer(&mut self, id: SessionId, offer: Offer) {
        let Some(entry) = self.table.entry(id) else { return };
        match offer {
            Offer::Place(target, place) => {
                entry.target = Some(target);
                entry.place = Some(place);
                entry.dismissed = false;
                entry.dialled_at = self.now;
                self.connect(id);
            }
            Offer::Full => self.begin_waiting(id),
            Offer::Nothing => self.tell_unreachable(id),
        }
    }

    /// Tells a session that there is no server for it.
    pub(super) fn tell_unreachable(&mut self, id: SessionId) {
        let Some(entry) = self.table.entry(id) else { return };
        let upstream = &self.backends[entry.rules.backend];
        let why = upstream.unreachable_text(entry.detail.take().as_deref());
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        entry.session.handle_unreachable(&why, turn);
        entry.detail = Some(why.into());
    }

    /// Connects to the server that was chosen.
    fn connect(&mut self, id: SessionId) {
        let Some(entry) = self.table.entry(id) else { return };
        let upstream = &mut self.backends[entry.rules.backend];
        let Some(address) = entry.target.as_ref().map(|target| &target.member.address) else { return };
        let socket = entry.rules.socket;
        let options = SocketOptions { source: upstream.next_source(address), ..socket };
        match self.driver.open_socket(address, &options) {
            Ok(socket) => {
                let socket = entry.backend.insert(Socket::new(socket));
                socket.connect(address, token::encode(id, Purpose::Connect), &mut self.driver);
            }
            Err(errno) => self.handle_dial_failed(id, errno),
        }
    }

    /// Drops the failed socket. A server whose queue of connections is full (a unix socket says so at once, a TCP one
    /// lets the client wait) is tried again shortly; after any other failure the session asks for the next server.
    pub(super) fn handle_dial_failed(&mut self, id: SessionId, errno: Errno) {
        let Some(entry) = self.table.entry(id) else { return };
        if let Some(socket) = entry.backend.take() {
            self.driver.close(socket.fd);
        }
        if errno == Errno(libc::EAGAIN) && entry.session.is_dialling() {
            let again_at = self.now + DIAL_AGAIN;
            entry.dial_again_at = Some(again_at);
            self.timers.set(again_at, id);
            return;
        }
        self.tally.connects_failed[ConnectFailure::of(errno).index()].add(u64::from(!entry.dismissed));
        let detail = entry.target.as_ref().map(|target| {
            let why = match errno {
                _ if entry.dismissed => target.member.standing_in_words(),
                Errno(libc::ECANCELED) => "no answer within the connect timeout".to_owned(),
                Errno(libc::EADDRNOTAVAIL) => {
                    format!("{errno}: every local port towards it is in use; more source_addresses give more")
                }
                errno => errno.to_string(),
            };
            if !entry.dismissed {
                target.member.dials().note_failure(self.now, &why);
            }
            format!("{}: {why}", target.member.address).into()
        });
        self.lose_attempt(id, detail);
    }

    /// An attempt to reach a server has failed: the session asks for the next one.
    pub(super) fn lose_attempt(&mut self, id: SessionId, detail: Option<Box<str>>) {
        let Some(entry) = self.table.entry(id) else { return };
        entry.detail = detail.or(entry.detail.take());
        entry.leave_server();
        entry.session.redial();
        self.touch(id);
    }

    /// Tries the same server again when its time has come.
    pub(super) fn dial_again(&mut self, id: SessionId) {
        let Some(entry) = self.table.entry(id) else { return };
        if entry.dial_again_at.is_some_and(|at| at <= self.now) && entry.session.is_dialling() {
            entry.dial_again_at = None;
            self.connect(id);
        }
    }

    fn abandon_dial(&mut self, id: SessionId) {
        let Some(entry) = self.table.entry(id) else { return };
        if let Some(socket) = entry.backend.as_mut().filter(|socket| socket.is_connecting()) {
            socket.cancel(&mut self.driver);
        } else if entry.seat.is_some() {
            self.abandon_seat(id);
        } else if entry.dial_again_at.take().is_some() {
            self.handle_dial_failed(id, Errno(libc::ECANCELED));
        } else {
            self.end_waiting(id);
        }
    }

    /// Gives a server up whose handshake or greeting has failed: cancels what is in flight on its socket, which is closed when all
    /// of it has come home.
    fn hang_up(&mut self, id: SessionId, end: HandshakeEnd) {
        let Some(entry) = self.table.entry(id) else { return };
        entry.hanging_up = true;
        self.tally.connects_failed[ConnectFailure::Tls.index()].add(1);
        let target = entry.target.as_ref();
        let name = target.and_then(|target| target.connector.as_ref()?.server_name());
        let why = match (end, name) {
            (HandshakeEnd::Greeting(end), _) => end.to_string(),
            (HandshakeEnd::Failed(Failure::ServerNameMismatch), Some(name)) => format!("TLS: {end} than {name}"),
            (_, _) => format!("TLS: {end}"),
        };
        entry.detail = target.map(|target| {
            target.member.dials().note_failure(self.now, &why);
            format!("{}: {why}", target.member.address).into()
        });
        if let Some(socket) = &mut entry.backend {
            socket.cancel(&mut self.driver);
        }
        self.leave_seat(id);
        self.finish_hang_up(id);
    }

    fn finish_hang_up(&mut self, id: SessionId) {
        let Some(entry) = self.table.entry(id) else { return };
        if !entry.hanging_up || entry.closing || entry.backend.as_ref().is_some_and(Socket::is_busy) {
            return;
        }
        entry.hanging_up = false;
        if let Some(socket) = entry.backend.take() {
            self.driver.close(socket.fd);
        }
        self.drop_handshake(id, Side::Backend);
        let Some(entry) = self.table.entry(id) else { return };
        entry.leave_server();
        let upstream = &self.backends[entry.rules.backend];
        let why = upstream.unreachable_text(entry.detail.as_deref());
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        entry.session.handle_hung_up(&why, turn);
    }

    /// Cancels whatever is in flight; the sockets are closed when all of it has come home.
    fn begin_close(&mut self, id: SessionId) {
        let Some(entry) = self.table.entry(id) else { return };
        entry.closing = true;
        for side in Side::BOTH {
            if let Some(socket) = entry.socket_mut(side) {
                socket.cancel(&mut self.driver);
            }
        }
        self.leave_seat(id);
        for side in Side::BOTH {
            self.drop_handshake(id, side);
        }
        self.publish_pending(id, false);
    }

    fn finish(&mut self, id: SessionId) {
        let mut entry = self.table.remove(id);
        entry.session.release(&mut self.pool);
        self.driver.close(entry.client.fd);
        if let Some(backend) = &entry.backend {
            self.driver.close(backend.fd);
        }
        let backend = Arc::clone(&self.backends[entry.rules.backend].name);
        self.leave_backend(entry.rules.backend);
        self.count_ended(&entry.rules.ledger, entry.refused, entry.source);
        let (client_received_bytes, client_sent_bytes) = entry.session.bytes(Side::Client);
        let (server_received_bytes, server_sent_bytes) = entry.session.bytes(Side::Backend);
        let reason = entry.session.reason();
        self.count_end(&entry.rules.ledger, reason);
        let told = reason.and_then(|reason| reason.detail()).map(Into::into);
        let user = entry.user.and_then(|user| entry.rules.edge.users.get(user)).map(|user| user.name.clone());
        let record = CloseRecord {
            client: entry.client_address,
            proxy: entry.proxy_address,
            listener: Arc::clone(&entry.rules.ledger),
            backend,
            is_multiplexed: entry.rules.multiplex.is_some(),
            shard: self.options.id,
            server: entry.target.map(|target| Arc::clone(&target.member)),
            server_local_port: entry.server_local_port,
            tls: entry.session.tls_summary(Side::Client),
            server_tls: entry.session.tls_summary(Side::Backend),
            client_identity: entry.session.client_identity(),
            user,
            handshake: entry.session.handshake_took(),
            duration: self.now.since(entry.session.started()),
            client_received_bytes,
            client_sent_bytes,
            server_received_bytes,
            server_sent_bytes,
            reason: reason.map_or("unknown", |reason| reason.label()),
            detail: told.or(entry.detail),
        };
        self.links.events.send(Event::Closed(Box::new(record)));
    }

    fn settle_receive(&mut self, id: SessionId, side: Side) {
        let scarce = self.scarce;
        let Some(entry) = self.table.entry(id) else { return };
        let has_room = entry.handshake_mut(side).has_room();
        let wanted = has_room && entry.session.wants_receive(side, scarce);
        let starved = scarce && !wanted && entry.session.wants_receive(side, false);
        let hangs_up = entry.hanging_up && side == Side::Backend;
        let Some(socket) = entry.socket_mut(side).filter(|socket| !hangs_up && !socket.is_connecting()) else { return };
        socket.receive(wanted, token::encode(id, Purpose::Receive(side)), &mut self.driver);
        if starved && !entry.short {
            entry.short = true;
            self.short.push(id);
        }
    }

    fn settle_flags(&mut self, id: SessionId) {
        let Some(entry) = self.table.entry(id) else { return };
        if entry.session.wants_turn() {
            self.resuming.push(id);
        }
        if let Some(deadline) = entry.session.deadline()
            && entry.timer.is_none_or(|timer| deadline < timer)
        {
            entry.timer = Some(deadline);
            self.timers.set(deadline, id);
        }
        let pending = entry.session.is_pending();
        self.publish_pending(id, pending);
        for side in Side::BOTH {
            self.settle_handshake(id, side);
        }
    }

    /// Publishes a session's pending flag, on transitions only.
    fn publish_pending(&mut self, id: SessionId, pending: bool) {
        let Some(entry) = self.table.entry(id) else { return };
        if entry.pending == pending {
            return;
        }
        entry.pending = pending;
        if pending {
            self.pending += 1;
            self.tally.pending_transitions.add(1);
        } else {
            self.pending -= 1;
            self.stalled -= u32::from(std::mem::take(&mut entry.stalled));
        }
        self.links.pending.publish(id.slot, pending);
    }
}
