//! The end of a turn for one session: what it asks for is carried out, what it wants received is armed.

use std::time::Duration;

use super::socket::{Receive, Socket};
use super::token::{self, Purpose, SessionId};
use super::{Shard, group};
use crate::events::{CloseRecord, Event};
use crate::io::{BufferGroup, Driver, Errno, Op, OpId};
use crate::pool::SendBuf;
use crate::session::{Output, Side, Turn};

/// How soon a server whose queue of connections was full is tried again.
const DIAL_AGAIN: Duration = Duration::from_millis(5);

impl<D: Driver> Shard<D> {
    pub(super) fn settle_touched(&mut self) {
        // Settling may touch again (a dial that fails at once), so the list may grow while it is worked off.
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
    }

    fn settle(&mut self, id: SessionId) {
        while let Some(output) = self.poll(id) {
            match output {
                Output::Send(side, buffer) => self.send(id, side, buffer),
                Output::ShutdownWrite(side) => self.shutdown_write(id, side),
                Output::Dial => self.dial(id),
                Output::AbandonDial => self.abandon_dial(id),
                Output::Close => self.begin_close(id),
            }
        }
        let Some(entry) = self.table.entry(id) else { return };
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
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &mut self.tally };
        self.table.entry(id)?.session.poll(turn)
    }

    fn send(&mut self, id: SessionId, side: Side, buffer: SendBuf) {
        let Some(socket) = self.table.entry(id).and_then(|entry| entry.socket_mut(side)) else {
            unreachable!("a session sends only on a side that it has");
        };
        let op = Op::Send { socket: socket.fd, buffer };
        socket.send = Some(self.driver.push(token::encode(id, Purpose::Send(side)), op));
    }

    fn shutdown_write(&mut self, id: SessionId, side: Side) {
        if let Some(socket) = self.table.entry(id).and_then(|entry| entry.socket_mut(side)) {
            self.driver.shutdown_write(socket.fd);
        }
    }

    /// Starts an attempt at the next server; when there is none left, the session tells its client.
    fn dial(&mut self, id: SessionId) {
        let Some(entry) = self.table.entry(id) else { return };
        let rotation = &mut self.backends[usize::from(self.listeners[usize::from(entry.listener)].backend)];
        let Some(server) = rotation.choose(entry.server, entry.attempts) else {
            let last = entry.detail.take().unwrap_or_default();
            let why = format!("backend '{}': {last}", rotation.name());
            let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &mut self.tally };
            entry.session.handle_unreachable(&why, turn);
            entry.detail = Some(why.into());
            return;
        };
        entry.server = Some(server);
        entry.attempts += 1;
        self.connect(id);
    }

    /// Connects to the server that was chosen.
    fn connect(&mut self, id: SessionId) {
        let Some(entry) = self.table.entry(id) else { return };
        let rotation = &self.backends[usize::from(self.listeners[usize::from(entry.listener)].backend)];
        let Some(address) = entry.server.map(|server| rotation.address(server)) else { return };
        match self.driver.open_socket(address, &self.options.socket) {
            Ok(socket) => {
                entry.backend = Some(Socket::new(socket));
                let op = Op::Connect { socket, address: address.clone() };
                entry.connect = Some(self.driver.push(token::encode(id, Purpose::Connect), op));
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
        let rotation = &self.backends[usize::from(self.listeners[usize::from(entry.listener)].backend)];
        let why = match errno {
            Errno(libc::ECANCELED) => "no answer within the connect timeout".to_owned(),
            errno => errno.to_string(),
        };
        entry.detail = entry.server.map(|server| format!("{}: {why}", rotation.address(server)).into());
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
        if let Some(op) = entry.connect {
            self.driver.push(token::NO_ONE, Op::Cancel { op });
        } else if entry.dial_again_at.take().is_some() {
            self.handle_dial_failed(id, Errno(libc::ECANCELED));
        }
    }

    /// Cancels whatever is in flight; the sockets are closed when all of it has come home.
    fn begin_close(&mut self, id: SessionId) {
        let Some(entry) = self.table.entry(id) else { return };
        entry.closing = true;
        let cancel = |driver: &mut D, op: OpId| {
            driver.push(token::NO_ONE, Op::Cancel { op });
        };
        if let Some(op) = entry.connect {
            cancel(&mut self.driver, op);
        }
        for side in Side::BOTH {
            let Some(socket) = entry.socket_mut(side) else { continue };
            if let Receive::Many(op) | Receive::Once(op) = socket.receive {
                cancel(&mut self.driver, op);
                socket.receive = Receive::Cancelled;
            }
            if let Some(op) = socket.send {
                cancel(&mut self.driver, op);
            }
        }
        entry.handshake.discard(&mut self.pool);
        self.end_handshake(id);
        self.publish_pending(id, false);
    }

    fn finish(&mut self, id: SessionId) {
        let mut entry = self.table.remove(id);
        entry.session.release(&mut self.pool);
        self.driver.close(entry.client.fd);
        if let Some(backend) = &entry.backend {
            self.driver.close(backend.fd);
        }
        self.links.load.count_ended(entry.counter);
        let (client_received_bytes, client_sent_bytes) = entry.session.bytes(Side::Client);
        let (server_received_bytes, server_sent_bytes) = entry.session.bytes(Side::Backend);
        let reason = entry.session.reason();
        let failure = reason
            .and_then(|reason| reason.failure())
            .map(|failure| failure.in_words(crate::tls::Role::Server).to_string().into());
        let record = CloseRecord {
            client: entry.client_address,
            listener: entry.listener,
            shard: self.options.id,
            server: entry.server,
            server_local_port: entry.server_local_port,
            tls: entry.session.tls_summary(),
            client_identity: entry.session.client_identity(),
            handshake: entry.session.handshake_took(),
            duration: self.now.since(entry.session.started()),
            client_received_bytes,
            client_sent_bytes,
            server_received_bytes,
            server_sent_bytes,
            reason: reason.map_or("unknown", |reason| reason.label()),
            detail: failure.or(entry.detail),
        };
        self.links.events.send(Event::Closed(Box::new(record)));
    }

    fn settle_receive(&mut self, id: SessionId, side: Side) {
        let scarce = self.scarce;
        let Some(entry) = self.table.entry(id) else { return };
        let has_room = side == Side::Backend || entry.handshake.has_room();
        let wanted = has_room && entry.session.wants_receive(side, scarce);
        let starved = scarce && !wanted && entry.session.wants_receive(side, false);
        if entry.connect.is_some() && side == Side::Backend {
            return;
        }
        let Some(socket) = entry.socket_mut(side) else { return };
        match socket.receive {
            Receive::Idle if wanted => {
                let token = token::encode(id, Purpose::Receive(side));
                socket.receive = arm(&mut self.driver, token, socket);
            }
            Receive::Many(op) if !wanted || socket.is_bulk() => {
                self.driver.push(token::NO_ONE, Op::Cancel { op });
                socket.receive = Receive::Cancelled;
            }
            Receive::Idle | Receive::Many(_) | Receive::Once(_) | Receive::Cancelled => {}
        }
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
        let handshake_is_over = entry.handshake.is_going_on() && !entry.session.is_handshaking();
        if let Some(deadline) = entry.session.deadline()
            && entry.timer.is_none_or(|timer| deadline < timer)
        {
            entry.timer = Some(deadline);
            self.timers.set(deadline, id);
        }
        let pending = entry.session.is_pending();
        self.publish_pending(id, pending);
        if handshake_is_over {
            self.end_handshake(id);
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
            self.tally.pending_transitions += 1;
        } else {
            self.pending -= 1;
        }
        self.links.pending.publish(id.slot, pending);
    }
}

fn arm<D: Driver>(driver: &mut D, token: crate::io::Token, socket: &Socket) -> Receive {
    match group(socket.is_bulk()) {
        BufferGroup::Small => Receive::Many(driver.push(token, Op::ReceiveMany { socket: socket.fd })),
        BufferGroup::Large => {
            let op = Op::ReceiveOnce { socket: socket.fd, data_waits: socket.data_waits };
            Receive::Once(driver.push(token, op))
        }
    }
}
