//! What servers say, and what becomes of it.

use super::client::{Offset, Place};
use super::connections::Loss;
use super::link::{Answer, Role, Served};
use super::route::Effect;
use super::standing::Step;
use super::vouching::Trust;
use super::{Multiplexer, Reason, Timed};
use crate::io::Errno;
use crate::pool::SendBuf;
use crate::session::Turn;
use crate::slots::Id;
use crate::wire::frame::Kind;

impl Multiplexer {
    /// This connection is made.
    pub fn handle_connected(&mut self, id: Id, turn: &mut Turn<'_>) {
        let Some(link) = self.links.at_mut(id) else { return };
        link.is_connected = true;
        link.deadline = None;
        self.due.touch_link(id, link);
        self.wake_owner(id);
        self.wake(id, turn);
        self.work(turn);
    }

    /// Lets the client go on whose own connection this is.
    fn wake_owner(&mut self, id: Id) {
        if let Some(Role::Own(owner) | Role::Raw(owner)) = self.links.at(id).map(|link| link.role)
            && let Some(client) = self.clients.at_mut(owner)
        {
            self.due.work(owner, client);
        }
    }

    /// Takes bytes that came over this connection.
    pub fn handle_link_received(&mut self, id: Id, bytes: &[u8], turn: &mut Turn<'_>) {
        let mut at = 0;
        while let Some(link) = self.links.at_mut(id) {
            match link.serve(id, &bytes[at..], &mut self.clients, &mut self.due, &mut self.meter, turn) {
                Ok(Served::All) => break,
                Ok(Served::Until(served, answer)) => {
                    at += served;
                    self.handle_answer(id, answer, turn);
                    if let Some(link) = self.links.at_mut(id) {
                        link.head.clear();
                    }
                }
                Err(broken) => {
                    self.lose(id, Loss::Broken(broken), turn);
                    break;
                }
            }
        }
        if let Some(link) = self.links.at_mut(id) {
            if !matches!(link.role, Role::Shared(_)) || link.stalled_by.is_some() {
                self.due.touch_link(id, link);
            }
            if link.deadline.is_some() && !self.due.timed.contains(&Timed::Link(id)) {
                self.due.timed.push(Timed::Link(id));
            }
        }
        self.wake(id, turn);
        self.work(turn);
    }

    /// This connection has ended, in good order or with an error, or could not be made, which `why` tells.
    pub fn handle_link_end(&mut self, id: Id, error: Option<Errno>, why: &str, turn: &mut Turn<'_>) {
        let Some(link) = self.links.at(id) else { return };
        let loss = match (link.is_connected, error) {
            (false, _) => Loss::Unreachable(why),
            (true, None) => Loss::Ended,
            (true, Some(_)) => Loss::Failed,
        };
        self.lose(id, loss, turn);
        self.work(turn);
    }

    /// Takes back a buffer that was sent over a connection, and how much of it went. After an error, what the server
    /// has still to say is read to its end.
    pub fn handle_link_sent(&mut self, id: Id, buffer: SendBuf, sent: Result<usize, Errno>, turn: &mut Turn<'_>) {
        let Some(link) = self.links.at_mut(id) else { return turn.pool.give(buffer) };
        let Ok(sent) = sent else {
            link.out.sent(buffer, 0, turn);
            self.lose(id, Loss::Failed, turn);
            return self.work(turn);
        };
        link.out.sent(buffer, sent, turn);
        let has_room = link.out.weight() < self.options.send_buffer_bytes;
        self.due.touch_link(id, link);
        if has_room {
            self.wake_owner(id);
            self.wake(id, turn);
        }
        self.work(turn);
    }

    fn handle_answer(&mut self, id: Id, answer: Answer, turn: &mut Turn<'_>) {
        match answer {
            Answer::ToSetup(step, kind) => self.handle_setup_answer(id, step, kind, turn),
            Answer::ToOwner(client, effect, kind) => self.handle_owner_answer(id, client, effect, kind),
            Answer::NotEnded => self.abandon_transaction(id, turn),
        }
    }

    fn handle_owner_answer(&mut self, id: Id, client: Id, effect: Effect, kind: Kind) {
        let (Some(link), Some(owner)) = (self.links.at(id), self.clients.at_mut(client)) else { return };
        owner.answered(effect, kind, &link.head);
        if effect == Effect::Reset && link.head.starts_with(b"+RESET") {
            owner.trust = Trust::Unknown(self.vouching.latest());
        }
        if owner.is_blocked || owner.is_quiet() {
            self.due.work(client, owner);
        }
    }

    fn handle_setup_answer(&mut self, id: Id, step: Step, kind: Kind, turn: &mut Turn<'_>) {
        let Some(link) = self.links.at_mut(id) else { return };
        let failed = kind == Kind::Error;
        match step {
            Step::May => {}
            Step::Must if failed => {
                self.refuse(id, turn);
            }
            Step::Must => {}
            Step::LoginNeeded => self.handle_word(id, turn),
            Step::Reset if link.head.starts_with(b"+RESET") && link.owed.is_empty() => self.keep_link(id, turn),
            Step::Renew if link.head.starts_with(b"+RESET") => {}
            // A server without RESET, or one that is not allowed here: such a connection has no second life.
            Step::Reset => self.close(id, turn),
            Step::Renew => self.lose(id, Loss::Ended, turn),
            Step::MoveOffset => {
                let (Role::Own(client) | Role::Raw(client)) = link.role else { return };
                let Some(owner) = self.clients.at_mut(client) else { return };
                owner.offset = if failed { Offset::Refused } else { Offset::Moved };
            }
        }
        if self.links.at(id).is_some_and(super::link::Link::is_ready) {
            self.wake_owner(id);
        }
    }

    /// A shared connection is left in a transaction, which nothing may be said into: it is closed, and the clients of its
    /// class have connections of their own for transactions.
    fn abandon_transaction(&mut self, id: Id, turn: &mut Turn<'_>) {
        if let Some(Role::Shared(class)) = self.links.at(id).map(|link| link.role)
            && let Some(class) = self.classes.at_mut(class)
        {
            class.refuses_exec = true;
        }
        self.lose(id, Loss::InTransaction, turn);
    }

    /// The server has answered what must be said first with an error.
    pub(super) fn refuse(&mut self, id: Id, turn: &mut Turn<'_>) {
        let Some(head) = self.links.at_mut(id).map(|link| std::mem::take(&mut link.head)) else { return };
        let said = in_words(&head);
        self.lose(id, Loss::of_error(&head, &said), turn);
    }

    /// Lets clients go on that wait for this connection, in the order in which they came.
    pub(super) fn wake(&mut self, id: Id, turn: &mut Turn<'_>) {
        while let Some(link) = self.links.at_mut(id) {
            let has_room = link.replies_owed < self.options.connection_requests_max
                && link.out.weight() < self.options.send_buffer_bytes;
            if !link.is_ready() || !has_room {
                return;
            }
            let Some(first) = link.waiting.pop_front() else { return };
            let Some(client) = self.clients.at_mut(first) else { continue };
            client.waits = false;
            self.served_next = Some(first);
            self.serve_carry(first, turn);
            self.served_next = None;
            let stands_first = self.links.at(id).is_some_and(|link| link.waiting.front() == Some(&first));
            if stands_first {
                return;
            }
        }
    }

    /// Serves clients whose requests may go on, until each waits for something.
    pub(super) fn work(&mut self, turn: &mut Turn<'_>) {
        if self.due.timed.len() > self.due.timed_max {
            let mut timed = std::mem::take(&mut self.due.timed);
            timed.retain(|&timed| self.deadline_of(timed).is_some());
            self.due.timed_max = 2 * timed.len() + 16;
            self.due.timed = timed;
        }
        while let Some(id) = self.due.work.pop_front().or_else(|| self.next_asking()) {
            let Some(client) = self.clients.at_mut(id) else { continue };
            client.is_queued = false;
            if client.end.is_some() {
                self.leave(id, turn);
                continue;
            }
            self.serve_carry(id, turn);
            self.leave_own_if_idle(id, turn);
            self.end_if_done(id, turn);
        }
    }

    /// Who has waited longest to ask for a change, if one more may. Some need not any more, and the next comes at once.
    fn next_asking(&mut self) -> Option<Id> {
        let id = self.asking.front().copied().filter(|_| self.may_probe())?;
        self.asking.pop_front();
        if let Some(client) = self.clients.at_mut(id) {
            client.is_asking = false;
        }
        Some(id)
    }

    /// A client that has nothing to say needs no connection of its own that stands where it does, least of all one on which
    /// others would ask for a change.
    fn leave_own_if_idle(&mut self, id: Id, turn: &mut Turn<'_>) {
        let Some(client) = self.clients.at(id).filter(|client| client.end.is_none()) else { return };
        let Place::Own(link) = client.place else { return };
        let is_idle = client.is_quiet() && client.carry.is_none() && !client.has_ended;
        let is_probe = self.links.at(link).is_some_and(|link| link.is_probe);
        if is_idle && (is_probe || self.may_share(id, turn)) {
            self.leave_own(id, turn);
        }
    }

    /// A client that says nothing more is closed when it is owed nothing more.
    pub(super) fn end_if_done(&mut self, id: Id, turn: &mut Turn<'_>) {
        let Some(client) = self.clients.at_mut(id) else { return };
        if !client.has_ended || client.end.is_some() || client.is_blocked {
            return;
        }
        match client.place {
            Place::Nowhere => client.finish(id, Reason::ClientLeft, &self.options, &mut self.due, turn),
            Place::Shared(_) | Place::Own(_) if client.replies_owed == 0 && !client.is_raw => {
                client.finish(id, Reason::ClientLeft, &self.options, &mut self.due, turn);
            }
            Place::Shared(_) => {}
            Place::Own(link) => {
                let Some(link_content) = self.links.at_mut(link) else { return };
                link_content.ends = true;
                self.due.touch_link(link, link_content);
            }
        }
    }
}

/// The first line of an error, without its mark.
fn in_words(head: &[u8]) -> String {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let words = line.strip_prefix(b"-").unwrap_or(line);
    String::from_utf8_lossy(words).chars().filter(|c| !c.is_control()).collect()
}
