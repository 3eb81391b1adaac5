//! One connection to a server: what is owed by it, to whom, in which order.
//!
//! Replies come in the order of the requests, so a queue of who asked is all that tells whose a reply is. Nothing of a
//! request is kept: it is never said a second time.

use std::collections::VecDeque;

use super::client::Client;
use super::departure::Departure;
use super::meter::{Answered, Meter};
use super::outbox::Outbox;
use super::patience::Patience;
use super::route::{Command, Effect};
use super::standing::{Script, Step};
use super::vouching::Moment;
use super::{Due, Options};
use crate::session::Turn;
use crate::slots::{Id, Slots};
use crate::time::Time;
use crate::wire::frame::{Kind, Malformed, Reply, ReplyFramer};

/// Bytes kept of the beginning of a reply that is looked at.
const HEAD_BYTES_MAX: usize = 128;

/// Whom a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Nobody; it is as a fresh one.
    Idle,
    /// Nobody; it is becoming as a fresh one.
    Resetting,
    /// Whoever waits to hear whether the server lets it in.
    Asking,
    /// The clients of a class.
    Shared(Id),
    /// One client.
    Own(Id),
    /// One client, of which every byte is passed on unread.
    Raw(Id),
}

/// Whose the next reply is, or the next replies are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    Client(Id, Effect, Command),
    Setup(Step),
}

/// Replies that are owed for what was said in one piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owed {
    pub(super) to: To,
    pub(super) replies: u16,
    /// Replies that were owed in front of them when it was said.
    pub(super) in_front: u16,
    /// When it was said.
    pub(super) since: Time,
}

// There is one for each request that is under way.
const _: () = assert!(size_of::<Owed>() <= 24);

/// A connection to a server.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) role: Role,
    pub(super) is_connected: bool,
    /// It is one of the few on which the server is asked to change where a client stands.
    pub(super) is_probe: bool,
    /// It was made for somebody else, and may have gone stale since.
    pub(super) was_idle: bool,
    /// Since when the server has decided whether whoever does not log in is let in here: when it was made, or last reset.
    pub(super) decided: Moment,
    pub(super) out: Outbox,
    pub(super) framer: ReplyFramer,
    pub(super) owed: VecDeque<Owed>,
    /// Replies in all that are owed.
    pub(super) replies_owed: u32,
    /// Requests that have been said since something was last sent.
    pub(super) unsent: u32,
    /// Answers to what was said on behalf of its clients that are still owed.
    pub(super) setup_owed: u32,
    /// The beginning of the reply that is being received, where it is looked at.
    pub(super) head: Vec<u8>,
    /// So many bytes of the reply that is being received have been passed on.
    pub(super) passed_bytes: usize,
    /// Clients that wait for it, in the order in which they came.
    pub(super) waiting: VecDeque<Id>,
    /// The client that does not read what this connection has for it, so that nothing more is received.
    pub(super) stalled_by: Option<Id>,
    /// How long such clients may go on not reading.
    pub(super) patience: Patience,
    /// Most bytes of a reply, or of replies not yet sent to one client, that others behind it have to put up with.
    bytes_max: usize,
    /// When its attempt to connect, or the patience with a client, is over.
    pub(super) deadline: Option<Time>,
    /// Is to be told that nothing more comes.
    pub(super) ends: bool,
    pub(super) has_ended: bool,
    /// It is received from.
    pub(super) is_received: bool,
    pub(super) is_touched: bool,
}

/// What a server must not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// What it said is no reply.
    Malformed(Malformed),
    /// A reply without a request.
    Unasked,
    /// A push, which nobody on this connection has subscribed to.
    Push,
}

impl Broken {
    /// What it did, to complete a sentence.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Malformed(_) => "the server's reply is not RESP",
            Self::Unasked => "the server replied to nothing",
            Self::Push => "the server sent an unexpected push",
        }
    }
}

/// A reply to something that must be known of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    ToSetup(Step, Kind),
    ToOwner(Id, Effect, Kind),
    /// The end of a shared transaction was refused, and the connection may still be in it.
    NotEnded,
}

/// Replies in a row that are owed to the same peer, and the beginning of one more.
struct Run {
    /// Of all of it.
    bytes: usize,
    /// Those that are complete.
    replies: u16,
    /// What the last of them is.
    kind: Kind,
    /// Bytes of the one that goes on.
    open: usize,
    /// What comes behind it is not for anybody.
    broken: Option<Broken>,
}

/// How far bytes from the server have been served.
#[derive(Debug)]
pub(super) enum Served {
    All,
    /// As far as this; the answer is in front of the rest, its beginning in [`Link::head`].
    Until(usize, Answer),
}

impl Link {
    pub(super) fn new(role: Role, options: &Options, decided: Moment, deadline: Time) -> Self {
        Self {
            role,
            is_connected: false,
            is_probe: false,
            was_idle: false,
            decided,
            out: Outbox::new(options.coalesce),
            framer: ReplyFramer::new(),
            owed: VecDeque::new(),
            replies_owed: 0,
            unsent: 0,
            setup_owed: 0,
            head: Vec::new(),
            passed_bytes: 0,
            waiting: VecDeque::new(),
            stalled_by: None,
            patience: Patience::new(options.slow_client_timeout),
            bytes_max: options.bytes_max,
            deadline: Some(deadline),
            ends: false,
            has_ended: false,
            is_received: false,
            is_touched: false,
        }
    }

    /// Whether clients' requests may be said to it.
    pub(super) const fn is_ready(&self) -> bool {
        self.is_connected && self.setup_owed == 0
    }

    /// Says something on behalf of its clients.
    pub(super) fn say(&mut self, script: &Script, turn: &mut Turn<'_>) {
        for &step in &script.steps {
            self.owe(To::Setup(step), 1, turn.now);
            self.setup_owed += 1;
        }
        if !script.bytes.is_empty() {
            self.out.push(&script.bytes, turn);
        }
    }

    /// So many replies, the next behind all that are owed, are somebody's.
    pub(super) fn owe(&mut self, to: To, replies: u32, since: Time) {
        let in_front = u16::try_from(self.replies_owed).unwrap_or(u16::MAX);
        self.replies_owed += replies;
        let mut left = replies;
        // What was said in a row for the same is owed as one.
        if let Some(last) =
            self.owed.back_mut().filter(|last| last.to == to && last.since == since && !is_transaction(to))
            && let Some(together) = u16::try_from(left).ok().and_then(|left| last.replies.checked_add(left))
        {
            last.replies = together;
            left = 0;
        }
        while left > 0 {
            let replies = u16::try_from(left).unwrap_or(u16::MAX);
            left -= u32::from(replies);
            self.owed.push_back(Owed { to, replies, in_front, since });
        }
    }

    /// Passes replies on to whom they are owed, up to one that must be known of.
    pub(super) fn serve(
        &mut self,
        id: Id,
        bytes: &[u8],
        clients: &mut Slots<Client>,
        due: &mut Due,
        meter: &mut Meter,
        turn: &mut Turn<'_>,
    ) -> Result<Served, Broken> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            if let (Role::Raw(owner), 0) = (self.role, self.setup_owed) {
                pass(owner, rest, clients, due, turn);
                return Ok(Served::All);
            }
            let front = *self.owed.front().ok_or(Broken::Unasked)?;
            let is_shared = matches!(self.role, Role::Shared(_));
            // Where answers are looked at, that is done one by one.
            let is_seen = !is_shared || self.setup_owed > 0 || is_end(front);
            let most = if is_seen { 1 } else { front.replies - u16::from(is_transaction(front.to)) };
            let run = self.cut(rest, most);
            let piece = &rest[..run.bytes];
            at += run.bytes;
            if run.replies > 0 {
                self.passed_bytes = 0;
            }
            if let To::Client(client, ..) = front.to
                && !piece.is_empty()
            {
                self.passed_bytes += run.open;
                let weight = pass(client, piece, clients, due, turn);
                if is_shared {
                    self.watch(id, client, weight, run.open > 0, clients, turn);
                }
            }
            if is_seen {
                let room = HEAD_BYTES_MAX.saturating_sub(self.head.len());
                self.head.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            let answer = if run.replies > 0 { self.complete(front, &run, clients, meter, turn.now) } else { None };
            match (run.broken, answer) {
                (Some(broken), _) => return Err(broken),
                (None, Some(answer)) => return Ok(Served::Until(at, answer)),
                (None, None) if run.open > 0 => return Ok(Served::All),
                (None, None) => self.head.clear(),
            }
        }
        Ok(Served::All)
    }

    /// Cuts the next replies off, at most so many.
    fn cut(&mut self, bytes: &[u8], replies_max: u16) -> Run {
        let mut run = Run { bytes: 0, replies: 0, kind: Kind::Value, open: 0, broken: None };
        while run.replies < replies_max && run.bytes < bytes.len() {
            let rest = &bytes[run.bytes..];
            match self.framer.advance(rest) {
                Err(malformed) => run.broken = Some(Broken::Malformed(malformed)),
                Ok(Some(Reply { kind: Kind::Push, .. })) => run.broken = Some(Broken::Push),
                Ok(None) if self.framer.kind() == Some(Kind::Push) => run.broken = Some(Broken::Push),
                Ok(None) => (run.open, run.bytes) = (rest.len(), bytes.len()),
                Ok(Some(reply)) => {
                    run.bytes += reply.end;
                    run.replies += 1;
                    run.kind = reply.kind;
                    continue;
                }
            }
            break;
        }
        run
    }

    /// Keeps one client's large replies from becoming everybody's: who has had one, or has not read what it has, gets a
    /// connection of its own, and while one does not read what it has, nothing more is received.
    fn watch(
        &mut self,
        own_id: Id,
        id: Id,
        weight: usize,
        goes_on: bool,
        clients: &mut Slots<Client>,
        turn: &Turn<'_>,
    ) {
        let is_bulk = goes_on && self.passed_bytes > self.bytes_max;
        let is_slow = weight > self.bytes_max && self.stalled_by.is_none();
        if !is_bulk && !is_slow {
            return;
        }
        let Some(client) = clients.at_mut(id) else { return };
        client.is_bulk = true;
        client.departure = Departure::TOO_LARGE;
        if is_slow {
            client.stalls = Some(own_id);
            self.stalled_by = Some(id);
            self.deadline = Some(self.patience.begin(turn.now));
        }
    }

    /// The replies in front are complete.
    fn complete(
        &mut self,
        front: Owed,
        run: &Run,
        clients: &mut Slots<Client>,
        meter: &mut Meter,
        now: Time,
    ) -> Option<Answer> {
        self.replies_owed -= u32::from(run.replies);
        if front.replies == run.replies {
            self.owed.pop_front();
        } else if let Some(front) = self.owed.front_mut() {
            front.replies -= run.replies;
        }
        match front.to {
            To::Client(id, effect, command) => {
                let client = clients.at_mut(id);
                let is_shared = matches!(self.role, Role::Shared(_));
                let in_multi = client.as_ref().is_some_and(|client| client.in_multi);
                let replies = run.replies;
                meter.answered(Answered { client: id, command, owed: &front, replies, is_shared, in_multi }, now);
                let client = client.filter(|client| client.end.is_none());
                let is_there = client.map(|client| client.replies_owed -= u32::from(replies)).is_some();
                match self.role {
                    Role::Shared(_) if is_end(front) && !tells_end(run.kind, &self.head) => Some(Answer::NotEnded),
                    Role::Own(_) if is_there => Some(Answer::ToOwner(id, effect, run.kind)),
                    Role::Shared(_) | Role::Own(_) | Role::Raw(_) | Role::Idle | Role::Resetting | Role::Asking => None,
                }
            }
            To::Setup(step) => {
                self.setup_owed -= u32::from(run.replies);
                Some(Answer::ToSetup(step, run.kind))
            }
        }
    }
}

/// Whether it is a transaction which was said as a whole. The last of its replies is that to its EXEC.
const fn is_transaction(to: To) -> bool {
    matches!(to, To::Client(_, Effect::EndMulti, _))
}

/// Whether the next reply is that to the EXEC of such a transaction.
const fn is_end(front: Owed) -> bool {
    is_transaction(front.to) && front.replies == 1
}

/// Whether the reply to an EXEC says that its connection is in no transaction. Old servers refuse an EXEC that the user may
/// not say and stay in it, and whatever follows would be queued.
pub(super) fn tells_end(kind: Kind, head: &[u8]) -> bool {
    kind != Kind::Error || head.starts_with(b"-EXECABORT") || head.starts_with(b"-ERR EXEC without MULTI")
}

/// Gives a client a piece of what is owed to it, if it is still there. How much it has then still to be sent.
fn pass(id: Id, piece: &[u8], clients: &mut Slots<Client>, due: &mut Due, turn: &mut Turn<'_>) -> usize {
    let Some(client) = clients.at_mut(id).filter(|client| client.end.is_none()) else { return 0 };
    client.out.push(piece, turn);
    due.touch_client(id, client);
    if client.is_blocked || client.has_ended {
        due.work(id, client);
    }
    client.out.weight()
}
