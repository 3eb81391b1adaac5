//! The connections of trunks: what a multiplexer wants of a server, carried out, and what the server answers, carried back.

use std::sync::Arc;

use super::Shard;
use super::counts::ConnectFailure;
use super::settle::{DIAL_AGAIN, arm, cancel_all};
use super::socket::{Receive, Socket};
use super::token::{self, LinePurpose};
use super::trunks::Line;
use crate::io::{Driver, Errno, Lease, Op, Outcome, SocketOptions};
use crate::multiplex::Multiplexer;
use crate::pool::SendBuf;
use crate::roster::Place;
use crate::session::Turn;
use crate::slots::Id;

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
        let (listener, member) = (content.listener, Arc::clone(&content.target.member));
        let Some(place) = Place::take(&member) else {
            return self.fail_dial(trunk, link, "it has as many connections as it may (max_connections)");
        };
        let listener = &self.listeners[usize::from(listener)];
        let source = self.backends[usize::from(listener.backend)].next_source(&member.address);
        let options = SocketOptions { source, ..listener.socket };
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
            connect: None,
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
        let op = Op::Connect { socket: line.socket.fd, address: line.place.member().address.clone() };
        line.connect = Some(self.driver.push(token::encode_line(id, LinePurpose::Connect), op));
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
        if !more {
            line.socket.receive = Receive::Idle;
        }
        let (trunk, link, closing) = (line.trunk, line.link, line.closing);
        match result {
            Ok(Some(lease)) => {
                line.socket.observe(lease.len, self.driver.buffer_bytes(lease.group), data_waits);
                self.tally.receives.add(1);
                self.filled[lease.group.index()] += 1;
                if !closing {
                    let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
                    let multiplexer = &mut self.trunks.at(trunk).multiplexer;
                    multiplexer.handle_link_received(link, self.driver.bytes_mut(&lease), turn);
                    self.trunks.touch(trunk);
                }
                self.driver.recycle(lease);
            }
            Err(Errno(libc::ENOBUFS)) => self.tally.receives_without_buffer.add(1),
            Err(Errno(libc::ECANCELED)) => {}
            Ok(None) | Err(_) if closing => {}
            Ok(None) | Err(_) => {
                let error = result.err();
                self.tell(trunk, |multiplexer, turn| multiplexer.handle_link_end(link, error, "", turn));
            }
        }
    }

    fn handle_line_sent(&mut self, id: Id, buffer: SendBuf, result: Result<usize, Errno>) {
        let line = self.trunks.lines.at_mut(id).expect("a line is there while its send is in flight");
        line.socket.send = None;
        let (trunk, link) = (line.trunk, line.link);
        self.tell(trunk, |multiplexer, turn| multiplexer.handle_link_sent(link, buffer, result, turn));
    }

    fn handle_line_connected(&mut self, id: Id, result: Result<(), Errno>) {
        let line = self.trunks.lines.at_mut(id).expect("a line is there while its connect is in flight");
        line.connect = None;
        if line.closing {
            return;
        }
        let (trunk, link) = (line.trunk, line.link);
        match result {
            Ok(()) => {
                line.is_reached = true;
                let took = self.now.since(line.dialled_at);
                self.tally.connect_micros.observe(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
                self.trunks.at(trunk).reached_lines += 1;
                self.tell(trunk, |multiplexer, turn| multiplexer.handle_connected(link, turn));
                self.seat_waiting(trunk);
            }
            Err(Errno(libc::EAGAIN)) => self.trunks.again.push((self.now + DIAL_AGAIN, id)),
            Err(errno) => {
                self.tally.connects_failed[ConnectFailure::of(errno).index()].add(1);
                self.fail_dial(trunk, link, &errno.to_string());
            }
        }
    }

    /// The line of a connection of a trunk.
    fn line_mut(&mut self, trunk: usize, link: Id) -> Option<(Id, &mut Line)> {
        let id = self.trunks.at(trunk).lines.at(link)?;
        Some((id, self.trunks.lines.at_mut(id)?))
    }

    pub(super) fn send_over_line(&mut self, trunk: usize, link: Id, buffer: SendBuf) {
        let Some(id) = self.trunks.at(trunk).lines.at(link) else { return self.pool.give(buffer) };
        let Some(line) = self.trunks.lines.at_mut(id) else { return self.pool.give(buffer) };
        let op = Op::Send { socket: line.socket.fd, buffer };
        self.tally.sends.add(1);
        line.socket.send = Some(self.driver.push(token::encode_line(id, LinePurpose::Send), op));
    }

    pub(super) fn end_line(&mut self, trunk: usize, link: Id) {
        if let Some((_, line)) = self.line_mut(trunk, link) {
            let fd = line.socket.fd;
            self.driver.shutdown_write(fd);
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
        let (is_reached, connect, dialled_at) = (line.is_reached, line.connect, line.dialled_at);
        if let Some(op) = connect {
            self.driver.push(token::NO_ONE, Op::Cancel { op });
        }
        if let Some(line) = self.trunks.lines.at_mut(id) {
            cancel_all(&mut self.driver, &mut line.socket);
        }
        let content = self.trunks.at(trunk);
        content.lines.remove(link);
        content.reached_lines -= usize::from(is_reached);
        let listener = usize::from(content.listener);
        let had_its_time = self.now.since(dialled_at) >= self.listeners[listener].session.connect_timeout;
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
            if !line.is_busy() {
                let trunk = line.trunk;
                self.driver.close(line.socket.fd);
                self.trunks.lines.remove(id);
                self.trunks.at(trunk).open_lines -= 1;
                self.trunks.touch(trunk);
            }
            return;
        }
        let socket = &mut line.socket;
        match socket.receive {
            Receive::Idle if line.is_welcome => {
                let token = token::encode_line(id, LinePurpose::Receive);
                socket.receive = arm(&mut self.driver, token, socket);
            }
            Receive::Many(op) if !line.is_welcome || socket.is_bulk() => {
                self.driver.push(token::NO_ONE, Op::Cancel { op });
                socket.receive = Receive::Cancelled;
            }
            Receive::Idle | Receive::Many(_) | Receive::Once(_) | Receive::Cancelled => {}
        }
    }
}
