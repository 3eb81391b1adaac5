//! One client: where it stands, where its requests go, what it has still to be sent.

use std::collections::VecDeque;

use super::departure::Departure;
use super::outbox::Outbox;
use super::reason::Reason;
use super::route::Effect;
use super::standing::{Change, Standing};
use super::vouching::{Moment, Trust};
use super::{Due, Options};
use crate::pool::SendBuf;
use crate::session::Turn;
use crate::slots::Id;
use crate::time::Time;
use crate::wire::frame::{Kind, Malformed, Request, RequestFramer};

/// Where a client's requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Nowhere yet; nothing is owed to it.
    Nowhere,
    /// Over this shared connection, as long as it is owed a reply.
    Shared(Id),
    /// Over this connection of its own.
    Own(Id),
}

/// Whether a WAIT may be said on the client's own connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offset {
    Unknown,
    /// The server has been asked to move it.
    Asked,
    Moved,
    Refused,
}

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) standing: Standing,
    pub(super) trust: Trust,
    pub(super) place: Place,
    /// The class it counts in.
    pub(super) class: Option<Id>,
    pub(super) out: Outbox,
    framer: RequestFramer,
    /// Bytes at the beginning of what it has said that belong to a request which goes on.
    scanned: usize,
    /// The complete request at the beginning of what it has said.
    next: Option<Request>,
    /// It has said what is no request; the framer is of no more use.
    malformed: Option<Malformed>,
    /// What it has said and could not be served.
    pub(super) carry: Option<SendBuf>,
    pub(super) replies_owed: u32,
    /// What its requests for changes ask for, in their order.
    pub(super) changes: VecDeque<Change>,
    pub(super) in_multi: bool,
    pub(super) watches: bool,
    pub(super) asks: bool,
    pub(super) offset: Offset,
    /// It needs a connection of its own for life.
    pub(super) is_pinned: bool,
    /// Its own connection stands, or may, where is not known here.
    stands_elsewhere: bool,
    /// It has had a reply that is too large for sharing, and needs one, too.
    pub(super) is_bulk: bool,
    /// Every byte is passed on unread.
    pub(super) is_raw: bool,
    /// What it has said waits for something other than more of it.
    pub(super) is_blocked: bool,
    /// It stands in the line of a shared connection.
    pub(super) waits: bool,
    /// It stands in the line for a connection on which it asks for a change.
    pub(super) is_asking: bool,
    /// Why it needs a connection of its own, if it does.
    pub(super) departure: Departure,
    /// Why it has the one that it has.
    pub(super) departed: Departure,
    /// The error that its next request is answered with, the last.
    pub(super) refusal: Option<(Box<str>, Reason)>,
    /// The connection on which others wait behind what it does not read.
    pub(super) stalls: Option<Id>,
    /// It says nothing more.
    pub(super) has_ended: bool,
    /// It is to be closed when it has been sent everything.
    pub(super) end: Option<Reason>,
    /// By when it must have taken its last words.
    pub(super) deadline: Option<Time>,
    /// It is received from.
    pub(super) is_received: bool,
    pub(super) is_touched: bool,
    pub(super) is_queued: bool,
}

/// What a client has said, as far as it can be cut.
#[derive(Debug)]
pub(super) enum Said {
    Request(Request),
    Incomplete,
    Malformed(Malformed),
}

impl Client {
    pub(super) fn new(options: &Options, came: Moment) -> Self {
        Self {
            standing: Standing::default(),
            trust: Trust::Unknown(came),
            place: Place::Nowhere,
            class: None,
            out: Outbox::new(options.coalesce),
            framer: RequestFramer::new(),
            scanned: 0,
            next: None,
            malformed: None,
            carry: None,
            replies_owed: 0,
            changes: VecDeque::new(),
            in_multi: false,
            watches: false,
            asks: false,
            offset: Offset::Unknown,
            is_pinned: false,
            stands_elsewhere: false,
            is_bulk: false,
            is_raw: false,
            is_blocked: false,
            waits: false,
            is_asking: false,
            departure: Departure::UNSHARED,
            departed: Departure::UNSHARED,
            refusal: None,
            stalls: None,
            has_ended: false,
            end: None,
            deadline: None,
            is_received: true,
            is_touched: false,
            is_queued: false,
        }
    }

    /// The request at the beginning of `said`.
    pub(super) fn cut(&mut self, said: &[u8]) -> Said {
        if let Some(request) = self.next {
            return Said::Request(request);
        }
        if let Some(malformed) = self.malformed {
            return Said::Malformed(malformed);
        }
        match self.framer.advance(&said[self.scanned..]) {
            Ok(Some(request)) => {
                let request = Request { end: self.scanned + request.end, ..request };
                self.scanned = 0;
                self.next = Some(request);
                Said::Request(request)
            }
            Ok(None) => {
                self.scanned = said.len();
                Said::Incomplete
            }
            Err(malformed) => {
                self.malformed = Some(malformed);
                Said::Malformed(malformed)
            }
        }
    }

    /// The request at the beginning is served.
    pub(super) const fn cut_off(&mut self) {
        self.next = None;
    }

    /// Bytes that the request which goes on has at least.
    pub(super) fn incomplete_bytes(&self) -> usize {
        self.scanned.saturating_add(usize::try_from(self.framer.missing()).unwrap_or(usize::MAX))
    }

    /// Keeps what could not be served.
    pub(super) fn keep(&mut self, bytes: &[u8], turn: &mut Turn<'_>) {
        if bytes.is_empty() {
            return;
        }
        let carry = self.carry.get_or_insert_with(|| turn.pool.take(bytes.len()));
        // At least doubled, so that a request in many pieces is not moved at each of them.
        if carry.room() < bytes.len() {
            turn.pool.grow(carry, bytes.len().max(carry.len()));
        }
        carry.append(bytes);
    }

    /// Whether its own connection stands where the client does, and nothing on it is under way.
    pub(super) const fn is_quiet(&self) -> bool {
        let is_over = self.replies_owed == 0 && !self.in_multi && !self.watches && !self.asks;
        is_over && !self.is_raw && !self.stands_elsewhere
    }

    /// The reply to a request over its own connection has come.
    pub(super) fn answered(&mut self, effect: Effect, kind: Kind, head: &[u8]) {
        match effect {
            Effect::Multi => self.in_multi |= kind == Kind::Status,
            // Without MULTI they are errors, and the keys stay watched. Of the errors of a transaction this one ends it.
            Effect::EndMulti if self.in_multi && (kind != Kind::Error || head.starts_with(b"-EXECABORT")) => {
                (self.in_multi, self.watches) = (false, false);
            }
            Effect::Watch => self.watches |= kind == Kind::Status,
            Effect::Unwatch => self.watches &= kind != Kind::Status || self.in_multi,
            Effect::EndMulti | Effect::Asking | Effect::Nothing => {}
            Effect::Auth
            | Effect::Hello
            | Effect::Select
            | Effect::SetName
            | Effect::SetInfo
            | Effect::ReadOnly
            | Effect::ReadWrite
            | Effect::Reset => self.change_answered(kind, head),
        }
        self.learn(effect, kind, head);
    }

    /// What the reply tells of the rights of a client that has not logged in: servers run nothing but these two of one that
    /// they do not let in. An error tells nothing: that of an unknown command comes before the question.
    fn learn(&mut self, effect: Effect, kind: Kind, head: &[u8]) {
        let is_open = matches!(self.trust, Trust::Unknown(_)) && !self.standing.has_login();
        if !is_open || matches!(effect, Effect::Auth | Effect::Reset) {
            return;
        }
        if head.starts_with(b"-NOAUTH") {
            self.trust = Trust::Refused;
        } else if kind != Kind::Error {
            self.trust = Trust::Given;
        }
    }

    fn change_answered(&mut self, kind: Kind, head: &[u8]) {
        let Some(change) = self.changes.pop_front() else { return };
        // In a transaction nothing is changed before its end, which tells of all its commands at once.
        let is_queued = head.starts_with(b"+QUEUED");
        let is_made = change.is_made(kind, head);
        self.stands_elsewhere |= is_queued || is_made && change == Change::Unknown;
        self.is_pinned |= self.stands_elsewhere;
        if !is_made {
            return;
        }
        match change {
            Change::Reset => (self.in_multi, self.watches, self.asks) = (false, false, false),
            Change::Login(_)
            | Change::Hello { .. }
            | Change::Database(_)
            | Change::Name(_)
            | Change::LibraryName(_)
            | Change::LibraryVersion(_)
            | Change::ReadsReplicas(_)
            | Change::Nothing
            | Change::Unknown => {}
        }
        self.standing.make(change);
    }

    /// An error of the proxy's, so many times.
    pub(super) fn say_error(&mut self, error: &str, times: u32, turn: &mut Turn<'_>) {
        for _ in 0..times {
            self.out.push(b"-ERR ", turn);
            self.out.push(error.as_bytes(), turn);
            self.out.push(b"\r\n", turn);
        }
    }

    /// It is to be closed, once it has been sent what is there.
    pub(super) fn finish(&mut self, id: Id, reason: Reason, options: &Options, due: &mut Due, turn: &mut Turn<'_>) {
        if self.end.is_none() {
            self.end = Some(reason);
            self.deadline = Some(turn.now + options.slow_client_timeout);
            due.timed.push(super::Timed::Client(id));
        }
        self.replies_owed = 0;
        if let Some(carry) = self.carry.take() {
            turn.pool.give(carry);
        }
        due.touch_client(id, self);
        due.work(id, self);
    }
}
