//! The connections of trunks: what a multiplexer wants of a server, carried out, and what the server answers, carried back.

use std::rc::Rc;
use std::sync::Arc;

use super::Shard;
use super::counts::ConnectFailure;
use super::secure::{self, Next, Progress, Secure};
use super::settle::DIAL_AGAIN;
use super::socket::Socket;
use super::token::{self, LinePurpose};
use super::trunks::Line;
use crate::io::{Driver, Errno, Lease, Outcome, SocketOptions};
use crate::multiplex::Multiplexer;
use crate::pool::SendBuf;
use crate::roster::Place;
use crate::session::Turn;
use crate::session::transport::Transport;
use crate::slots::Id;

/// How a connection has ended.
enum End {
    Orderly,
    Failed(Errno),
    /// Before its handshake was complete; why, in one line without secrets.
    Handshake(String),
}

/// What it means that the socket of a line has ended.
fn line_end(line: &Line, error: Option<Errno>) -> End {
    match (&line.secure, error) {
        (Some(secure), None) if secure.is_handshaking() => {
            End::Handshake("TLS: the server ended the connection in the handshake".to_owned())
        }
        (Some(secure), Some(errno)) if secure.is_handshaking() => {
            End::Handshake(format!("TLS: the connection failed in the handshake: {errno}"))
        }
        // Without close_notify nobody knows whether that was all.
        (Some(_), None) => End::Failed(Errno(libc::ECONNRESET)),
        (None, None) => End::Orderly,
        (Some(_) | None, Some(errno)) => End::Failed(errno),
    }
}

impl<D: Driver> Shard<D> {
    /// Tells the multiplexer of a trunk something.
    pub(super) fn tell<T>(&mut self, trunk: usize, call: impl FnOnce(&mut Multiplexer, &mut Turn<'_>) -> T) -> T {
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        let told = call(&mut self.trunks.at(trunk).multiplexer, turn);
        self.trunks.touch(trunk);
        told
    }

    /// Begins to make a connection that the multiplexer wants.
    pub(super) fn dial_line(&mut self, trunk: usize, link: Id) {
        let content = self.trunks.at(trunk);
        let (rules, member) = (Rc::clone(&content.rules), Arc::clone(&content.target.member));
        let own = content.multiplexer.own_links();
        let kept = rules.multiplex.as_ref().map_or(0, |options| options.places_kept);
        if content.multiplexer.is_own(link) && !content.apart.may_be(own, kept) {
            let why = "the connections that it may still have are for clients that share them (max_connections)";
            return self.fail_dial(trunk, link, why);
        }
        let Some(place) = Place::take(&member) else {
            return self.fail_dial(trunk, link, "it has as many connections as it may (max_connections)");
        };
        let source = self.backends[rules.backend].next_source(&member.address);
        let options = SocketOptions { source, ..rules.socket };
        let fd = match self.driver.open_socket(&member.address, &options) {
            Ok(fd) => fd,
            Err(errno) => {
                self.tally.connects_failed[ConnectFailure::of(errno).index()].add(1);
                return self.fail_dial(trunk, link, &errno.to_string());
            }
        };
        let line = self.trunks.lines.insert(Line {
            trunk,
            link,
            socket: Socket::new(fd),
            secure: None,
            is_reached: false,
            closing: false,
            is_welcome: false,
            dialled_at: self.now,
            place,
        });
        let trunk = self.trunks.at(trunk);
        trunk.lines.set(link, line);
        trunk.open_lines += 1;
        self.connect_line(line);
    }

    fn connect_line(&mut self, id: Id) {
        let Some(line) = self.trunks.lines.at_mut(id) else { return };
        let token = token::encode_line(id, LinePurpose::Connect);
        line.socket.connect(&line.place.member().address, token, &mut self.driver);
    }

    /// Tries lines again whose server was behind with accepting, when their time has come.
    pub(super) fn dial_lines_again(&mut self) {
        while let Some(position) = self.trunks.again.iter().position(|&(at, _)| at <= self.now) {
            let (_, id) = self.trunks.again.swap_remove(position);
            if self.trunks.lines.at(id).is_some_and(|line| !line.closing) {
                self.connect_line(id);
            }
        }
    }

    /// An attempt to make a connection has failed: `why` is one line without secrets.
    fn fail_dial(&mut self, trunk: usize, link: Id, why: &str) {
        self.note_failure(trunk, why);
        self.tell(trunk, |multiplexer, turn| multiplexer.handle_link_end(link, None, why, turn));
    }

    pub(super) fn handle_line_completion(&mut self, id: Id, purpose: LinePurpose, outcome: Outcome, more: bool) {
        match (outcome, purpose) {
            (Outcome::Received { result, data_waits }, LinePurpose::Receive) => {
                self.handle_line_received(id, result, data_waits, more);
            }
            (Outcome::Sent { buffer, result }, LinePurpose::Send) => self.handle_line_sent(id, buffer, result),
            (Outcome::Connected(result), LinePurpose::Connect) => self.handle_line_connected(id, result),
            (outcome, purpose) => unreachable!("{purpose:?} completed as {outcome:?}"),
        }
        self.settle_line(id);
    }

    fn handle_line_received(&mut self, id: Id, result: Result<Option<Lease>, Errno>, data_waits: bool, more: bool) {
        let Some(line) = self.trunks.lines.at_mut(id) else {
            self.tally.stale_completions.add(1);
            if let Ok(Some(lease)) = result {
                self.driver.recycle(lease);
            }
            return;
        };
        line.socket.received(&result, data_waits, more, &self.driver);
        let (trunk, link, closing) = (line.trunk, line.link, line.closing);
        match result {
            Ok(Some(lease)) => {
                self.tally.receives.add(1);
                self.filled[lease.group.index()] += 1;
                if !closing {
                    self.deliver_over_line(id, &lease);
                }
                self.driver.recycle(lease);
            }
            Err(Errno(libc::ENOBUFS)) => self.tally.receives_without_buffer.add(1),
            Err(Errno(libc::ECANCELED)) => {}
            Ok(None) | Err(_) if closing => {}
            Ok(None) | Err(_) => {
                let end = line_end(line, result.err());
                self.end_of_line(trunk, link, end);
            }
        }
    }

    /// Gives the multiplexer what has come over a line.
    fn deliver_over_line(&mut self, id: Id, lease: &Lease) {
        let Some(line) = self.trunks.lines.at_mut(id) else { return };
        let (trunk, link) = (line.trunk, line.link);
        let bytes = self.driver.bytes_mut(lease);
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        let Some(mut secure) = line.secure.take() else {
            self.trunks.at(trunk).multiplexer.handle_link_received(link, bytes, turn);
            return self.trunks.touch(trunk);
        };
        let was_handshaking = secure.is_handshaking();
        let progress = secure.receive(bytes, &mut self.trunks.at(trunk).multiplexer, link, turn);
        if let Some(line) = self.trunks.lines.at_mut(id) {
            line.secure = Some(secure);
        }
        self.trunks.touch(trunk);
        match progress {
            Progress::GoesOn => {}
            Progress::Completed => {
                self.tally.backend_handshakes.add(1);
                self.be_reached(id);
            }
            Progress::Ended => self.end_of_line(trunk, link, End::Orderly),
            Progress::Failed(failure) if was_handshaking => {
                self.end_of_line(trunk, link, End::Handshake(secure::in_words(failure)));
            }
            Progress::Failed(_) => self.end_of_line(trunk, link, End::Failed(Errno(libc::EPROTO))),
        }
        self.send_secured(id);
    }

    /// The server has ended a connection, or it has failed.
    fn end_of_line(&mut self, trunk: usize, link: Id, end: End) {
        let error = match end {
            End::Orderly => None,
            End::Failed(errno) => Some(errno),
            End::Handshake(why) => {
                self.tally.connects_failed[ConnectFailure::Tls.index()].add(1);
                return self.fail_dial(trunk, link, &why);
            }
        };
        self.tell(trunk, |multiplexer, turn| multiplexer.handle_link_end(link, error, "", turn));
    }

    fn handle_line_sent(&mut self, id: Id, buffer: SendBuf, result: Result<usize, Errno>) {
        let line = self.trunks.lines.at_mut(id).expect("a line is there while its send is in flight");
        line.socket.end_outgoing();
        let (trunk, link) = (line.trunk, line.link);
        let Some(secure) = &mut line.secure else {
            return self.tell(trunk, |multiplexer, turn| multiplexer.handle_link_sent(link, buffer, result, turn));
        };
        match secure.sent(buffer, result, &mut self.pool) {
            Some(_) if secure.is_handshaking() => {
                let end = line_end(line, result.err());
                self.end_of_line(trunk, link, end);
            }
            Some(given) => {
                self.tell(trunk, |multiplexer, turn| multiplexer.handle_link_sent(link, given, result, turn))
            }
            None => self.send_secured(id),
        }
    }

    /// Sends what TLS has ready on a line, and gives the multiplexer back what has left.
    fn send_secured(&mut self, id: Id) {
        while let Some(line) = self.trunks.lines.at_mut(id).filter(|line| !line.closing && !line.socket.is_sending()) {
            let (trunk, link, fd) = (line.trunk, line.link, line.socket.fd);
            let Some(secure) = &mut line.secure else { return };
            let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
            match secure.next(turn) {
                Next::Send(buffer) => self.send_bytes(id, buffer),
                Next::Left(buffer) => {
                    let len = buffer.len();
                    self.tell(trunk, |multiplexer, turn| multiplexer.handle_link_sent(link, buffer, Ok(len), turn));
                }
                Next::End => self.driver.shutdown_write(fd),
                Next::Nothing => return,
                Next::Failed => return self.end_of_line(trunk, link, End::Failed(Errno(libc::EPROTO))),
            }
        }
    }

    fn send_bytes(&mut self, id: Id, buffer: SendBuf) {
        let Some(line) = self.trunks.lines.at_mut(id) else { return self.pool.give(buffer) };
        self.tally.sends.add(1);
        line.socket.send(buffer, token::encode_line(id, LinePurpose::Send), &mut self.driver);
    }

    /// The server can be spoken to over a line.
    fn be_reached(&mut self, id: Id) {
        let Some(line) = self.trunks.lines.at_mut(id) else { return };
        line.is_reached = true;
        let trunk = line.trunk;
        self.trunks.at(trunk).reached_lines += 1;
        self.trunks.touch(trunk);
        self.seat_waiting(trunk);
    }

    fn handle_line_connected(&mut self, id: Id, result: Result<(), Errno>) {
        let line = self.trunks.lines.at_mut(id).expect("a line is there while its connect is in flight");
        line.socket.end_outgoing();
        if line.closing {
            return;
        }
        let (trunk, link) = (line.trunk, line.link);
        match result {
            Ok(()) => {
                line.place.member().dials().note_success();
                let took = self.now.since(line.dialled_at);
                self.tally.connect_micros.observe(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
                match self.trunks.at(trunk).target.transport() {
                    Transport::Plain => {
                        self.tell(trunk, |multiplexer, turn| multiplexer.handle_connected(link, turn));
                        self.be_reached(id);
                    }
                    transport @ Transport::Tls(_) => self.secure_line(id, transport),
                }
            }
            Err(Errno(libc::EAGAIN)) => self.trunks.again.push((self.now + DIAL_AGAIN, id)),
            Err(errno) => {
                self.tally.connects_failed[ConnectFailure::of(errno).index()].add(1);
                self.fail_dial(trunk, link, &errno.to_string());
            }
        }
    }

    /// Shakes hands with a server that is connected.
    fn secure_line(&mut self, id: Id, transport: Transport) {
        let Some(trunk) = self.trunks.lines.at(id).map(|line| line.trunk) else { return };
        let mut secure = Secure::new(transport, self.trunks.at(trunk).rules.session.coalesce);
        secure.queue_replies(&mut self.pool);
        if let Some(line) = self.trunks.lines.at_mut(id) {
            line.secure = Some(Box::new(secure));
        }
        self.send_secured(id);
    }

    /// The line of a connection of a trunk.
    fn line_mut(&mut self, trunk: usize, link: Id) -> Option<(Id, &mut Line)> {
        let id = self.trunks.at(trunk).lines.at(link)?;
        Some((id, self.trunks.lines.at_mut(id)?))
    }

    pub(super) fn send_over_line(&mut self, trunk: usize, link: Id, buffer: SendBuf) {
        let Some(id) = self.trunks.at(trunk).lines.at(link) else { return self.pool.give(buffer) };
        let Some(secure) = self.trunks.lines.at_mut(id).and_then(|line| line.secure.as_mut()) else {
            return self.send_bytes(id, buffer);
        };
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        match secure.say(buffer, turn) {
            Ok(()) => self.send_secured(id),
            Err(_) => self.end_of_line(trunk, link, End::Failed(Errno(libc::EPROTO))),
        }
    }

    pub(super) fn end_line(&mut self, trunk: usize, link: Id) {
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        let Some(id) = self.trunks.at(trunk).lines.at(link) else { return };
        let Some(line) = self.trunks.lines.at_mut(id) else { return };
        match &mut line.secure {
            None => self.driver.shutdown_write(line.socket.fd),
            Some(secure) => {
                secure.end(turn);
                self.send_secured(id);
            }
        }
    }

    pub(super) fn welcome_line(&mut self, trunk: usize, link: Id, is_welcome: bool) {
        if let Some((id, line)) = self.line_mut(trunk, link) {
            line.is_welcome = is_welcome;
            self.settle_line(id);
        }
    }

    /// Cancels whatever is in flight on a line; its socket is closed when all of it has come home.
    pub(super) fn close_line(&mut self, trunk: usize, link: Id) {
        let Some((id, line)) = self.line_mut(trunk, link) else { return };
        line.closing = true;
        let (is_reached, dialled_at) = (line.is_reached, line.dialled_at);
        if let Some(line) = self.trunks.lines.at_mut(id) {
            line.socket.cancel(&mut self.driver);
        }
        let content = self.trunks.at(trunk);
        content.lines.remove(link);
        content.reached_lines -= usize::from(is_reached);
        let had_its_time = self.now.since(dialled_at) >= content.rules.session.connect_timeout;
        if !is_reached && had_its_time {
            self.tally.connects_failed[ConnectFailure::Timeout.index()].add(1);
            self.note_failure(trunk, "no answer within the connect timeout");
        }
        self.settle_line(id);
    }

    /// Arms what a line wants received, or closes it.
    fn settle_line(&mut self, id: Id) {
        let Some(line) = self.trunks.lines.at_mut(id) else { return };
        if line.closing {
            if !line.socket.is_busy() {
                let trunk = line.trunk;
                if let Some(secure) = &mut line.secure {
                    secure.release(&mut self.pool);
                }
                self.driver.close(line.socket.fd);
                self.trunks.lines.remove(id);
                self.trunks.at(trunk).open_lines -= 1;
                self.trunks.touch(trunk);
            }
            return;
        }
        let is_wanted = line.wants_receive();
        line.socket.receive(is_wanted, token::encode_line(id, LinePurpose::Receive), &mut self.driver);
    }
}
