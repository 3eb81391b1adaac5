//! Many clients over few connections: a sans-IO state machine. Bytes in, bytes out, the time as an argument.
//!
//! Requests that neither read nor change the state of their connection go over connections that all clients of a class
//! share: same user, same protocol, same database. What many clients say in one turn leaves as one write, and the server
//! reads, runs and answers it in one batch. Whatever else a client says gets a connection of its own, for as long as
//! the connection's state matters.
//!
//! ```text
//!   client ──► cut into requests ──► route ──┬──► shared connection of its class ──► server
//!                                            └──► connection of its own ───────────►
//!   client ◄── whose is the next reply? ◄── cut into replies ◄───────────────────────
//! ```
//!
//! The caller's duties are those of a [`Session`](crate::session::Session)'s caller: after any `handle_*` drain
//! [`Multiplexer::poll`] at the end of the batch, bring every buffer of a send back, receive what is said to be welcome,
//! and call [`Multiplexer::handle_timeout`] when [`Multiplexer::deadline`] has come. Names of clients and connections
//! that are gone may be used: nothing happens.
//!
//! Invariants:
//! - A client gets the replies to its own requests, in their order, and nothing else.
//! - No request is said twice, whatever happens to the connection it was said on.
//! - No command runs with the rights of a user that its client has not proven to be, to a server; nor with those of
//!   whoever does not log in, unless the server has let in one that came no earlier.
//! - On a shared connection nothing of one client's state is left between two requests.
//! - Switching waits until nothing is owed over the connection that is left.
//! - A reply that answers nothing, that is not RESP, or an unexpected push ends the connection, and every client that
//!   had something under way on it: from there on nobody can tell whose a reply is.
//!
//! Read `tests/multiplex/examples.rs` first.

mod client;
mod commands;
mod connections;
mod departure;
mod family;
mod link;
mod meter;
mod outbox;
mod patience;
mod reason;
mod replies;
mod requests;
pub mod route;
mod standing;
mod vouching;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

pub use self::departure::Departure;
pub use self::family::Family;
pub use self::link::Broken;
pub use self::meter::SlowRequest;
pub use self::reason::Reason;
pub use self::vouching::Moment;
pub use crate::slots::Id;

use self::client::{Client, Place};
use self::link::{Link, Role};
use self::meter::Meter;
use self::standing::ClassKey;
use self::vouching::Vouching;
use crate::io::Errno;
use crate::metrics::{DEPARTURES_MAX, Sharing};
use crate::pool::SendBuf;
use crate::session::Turn;
use crate::session::coalescer::Threshold;
use crate::slots::Slots;
use crate::time::Time;

const _: () = assert!(Departure::COUNT <= DEPARTURES_MAX, "metrics has room for every departure");

/// What bounds a multiplexer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The coalescer's threshold, of either side.
    pub coalesce: Threshold,
    /// No more of a client's requests are served while so many bytes wait to be sent to it, or to the server.
    pub send_buffer_bytes: usize,
    /// Most bytes of a request, or of a reply, over a shared connection; a client with larger ones gets its own.
    pub bytes_max: usize,
    /// Most requests of one client that are under way at a time.
    pub client_requests_max: u32,
    /// Most requests that are under way on one shared connection at a time.
    pub connection_requests_max: u32,
    /// Most shared connections of a class.
    pub class_connections_max: usize,
    /// Most classes; clients of another one have connections of their own.
    pub classes_max: usize,
    /// Most connections at a time on which the server is asked to change where clients stand (AUTH, HELLO, SELECT...): when
    /// thousands connect at once, they take turns.
    pub probes_max: usize,
    /// Places at a server that may have only so many connections which those of clients' own leave for shared ones.
    pub places_kept: u32,
    /// Most connections that are kept for whoever needs one next.
    pub idle_connections_max: usize,
    /// How long an attempt to connect may take.
    pub connect_timeout: Duration,
    /// How long others wait for clients that do not read what they have asked for: for one, or for all of them within ten
    /// times as long.
    pub slow_client_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            coalesce: Threshold::Bytes(64 * 1024),
            send_buffer_bytes: 256 * 1024,
            bytes_max: 1024 * 1024,
            client_requests_max: 128,
            connection_requests_max: 1_024,
            class_connections_max: 1,
            classes_max: 16,
            probes_max: 8,
            places_kept: 2,
            idle_connections_max: 8,
            connect_timeout: Duration::from_secs(5),
            slow_client_timeout: Duration::from_secs(1),
        }
    }
}

/// What a multiplexer asks its shard to do.
#[derive(Debug)]
pub enum Output {
    /// Connect to the server; answer with [`Multiplexer::handle_connected`] or [`Multiplexer::handle_link_end`].
    Dial(Id),
    /// Send these bytes over this connection.
    SendToServer(Id, SendBuf),
    /// Send FIN over this connection.
    EndToServer(Id),
    /// Bytes from this connection are welcome, or not any more. At first they are not.
    ReceiveFromServer(Id, bool),
    /// Bytes from this client are welcome, or not any more. At first they are.
    ReceiveFromClient(Id, bool),
    /// Close this connection, or give up the attempt to make it.
    CloseLink(Id),
    /// Send these bytes to this client.
    SendToClient(Id, SendBuf),
    /// Close this client in good order: it has been sent everything.
    CloseClient(Id, Reason),
    /// Cut this client off: it misses something.
    CutClient(Id, Reason),
    /// Tell of this request.
    TellSlow(SlowRequest),
}

/// Over which connections a client's requests go at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Over those that it shares with others.
    Shared,
    /// Over one of its own, which it has for this.
    Own(Departure),
}

/// What must be looked at before the turn is over.
#[derive(Debug, Default)]
struct Due {
    clients: Vec<Id>,
    links: Vec<Id>,
    /// Clients whose requests may go on.
    work: VecDeque<Id>,
    /// What has a deadline, or had one.
    timed: Vec<Timed>,
    /// When so many are there, those whose deadline is no more are dropped.
    timed_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timed {
    Link(Id),
    Client(Id),
}

impl Due {
    fn touch_client(&mut self, id: Id, client: &mut Client) {
        if !std::mem::replace(&mut client.is_touched, true) {
            self.clients.push(id);
        }
    }

    fn touch_link(&mut self, id: Id, link: &mut Link) {
        if !std::mem::replace(&mut link.is_touched, true) {
            self.links.push(id);
        }
    }

    fn work(&mut self, id: Id, client: &mut Client) {
        if !std::mem::replace(&mut client.is_queued, true) {
            self.work.push_back(id);
        }
    }
}

/// Clients that may share connections.
#[derive(Debug)]
struct Class {
    key: ClassKey,
    links: Vec<Id>,
    clients: usize,
    /// The server has wanted a login on the latest connection, and the class has none.
    is_closed: bool,
    /// The server has refused the end of a transaction: none is shared.
    refuses_exec: bool,
}

/// Clients and connections to one server.
#[derive(Debug)]
pub struct Multiplexer {
    options: Options,
    meter: Meter,
    clients: Slots<Client>,
    links: Slots<Link>,
    classes: Slots<Class>,
    class_ids: Vec<Id>,
    idle: Vec<Id>,
    /// Connections on which the server is asked to change where a client stands, or that are reset after that.
    probes: usize,
    /// The server has no room for more of these than so many.
    probes_fit: usize,
    /// Clients that wait for one of these, in the order in which they came. Some may be gone.
    asking: VecDeque<Id>,
    vouching: Vouching,
    due: Due,
    /// Connections to make and to close.
    orders: VecDeque<Output>,
    /// The client that has come to the head of a line.
    served_next: Option<Id>,
}

impl Multiplexer {
    /// One without clients and connections, which counts its requests here, where nobody else counts meanwhile.
    #[must_use]
    pub fn new(options: Options, counts: Arc<Sharing>) -> Self {
        Self {
            options,
            meter: Meter::new(counts),
            clients: Slots::new(),
            links: Slots::new(),
            classes: Slots::new(),
            class_ids: Vec::new(),
            idle: Vec::new(),
            probes: 0,
            probes_fit: usize::MAX,
            asking: VecDeque::new(),
            vouching: Vouching::default(),
            due: Due::default(),
            orders: VecDeque::new(),
            served_next: None,
        }
    }

    /// Requests that take longer from here on are told, or none.
    pub const fn tell_slower_than(&mut self, slow_from: Option<Duration>) {
        self.meter.slow_from = slow_from;
    }

    /// Makes a connection for whoever needs one first, unless there is one or an attempt to make it: how that ends tells
    /// whether the server can be reached.
    pub fn reach(&mut self, turn: &Turn<'_>) {
        if self.links.is_empty() {
            let id = self.dial(Role::Idle, turn);
            self.idle.push(id);
        }
    }

    /// Closes all connections. No client may be there.
    pub fn close_all(&mut self, turn: &mut Turn<'_>) {
        debug_assert!(self.clients.is_empty(), "clients would lose their connections without a word");
        for id in self.links.ids().collect::<Vec<_>>() {
            self.close(id, turn);
        }
    }

    /// A client that has come at this moment can be spoken to.
    pub fn accept(&mut self, came: Moment) -> Id {
        self.clients.insert(Client::new(&self.options, came))
    }

    /// Takes bytes that a client has said.
    pub fn handle_client_received(&mut self, id: Id, bytes: &[u8], turn: &mut Turn<'_>) {
        let Some(client) = self.clients.at_mut(id) else { return };
        if client.end.is_some() || client.has_ended {
            return;
        }
        if client.carry.is_some() {
            client.keep(bytes, turn);
            self.serve_carry(id, turn);
        } else {
            let served = self.serve(id, bytes, turn);
            if let Some(client) = self.clients.at_mut(id).filter(|client| client.end.is_none()) {
                client.keep(&bytes[served..], turn);
            }
        }
        self.work(turn);
    }

    /// A client has ended in good order, or failed.
    pub fn handle_client_end(&mut self, id: Id, error: Option<Errno>, turn: &mut Turn<'_>) {
        let Some(client) = self.clients.at_mut(id) else { return };
        client.has_ended = true;
        self.due.touch_client(id, client);
        if error.is_some() {
            self.cut(id, Reason::ClientLeft, turn);
        } else {
            self.end_if_done(id, turn);
        }
        self.work(turn);
    }

    /// Takes back a buffer that was sent to a client, and how much of it went.
    pub fn handle_client_sent(&mut self, id: Id, buffer: SendBuf, sent: Result<usize, Errno>, turn: &mut Turn<'_>) {
        let Some(client) = self.clients.at_mut(id) else { return turn.pool.give(buffer) };
        let Ok(sent) = sent else {
            client.out.sent(buffer, 0, turn);
            self.cut(id, Reason::ClientLeft, turn);
            return self.work(turn);
        };
        client.out.sent(buffer, sent, turn);
        let weight = client.out.weight();
        self.due.touch_client(id, client);
        if let Place::Own(link_id) = client.place
            && let Some(link) = self.links.at_mut(link_id)
        {
            self.due.touch_link(link_id, link);
        }
        if client.is_blocked && weight < self.options.send_buffer_bytes {
            self.due.work(id, client);
        }
        if weight <= self.options.bytes_max / 2
            && let Some(link) = client.stalls.take()
        {
            self.go_on(link, turn);
        }
        self.work(turn);
    }

    fn wants_client(&self, id: Id) -> bool {
        self.clients.at(id).is_some_and(|client| !client.has_ended && (client.end.is_some() || !client.is_blocked))
    }

    fn wants_link(&self, id: Id) -> bool {
        let Some(link) = self.links.at(id).filter(|link| link.is_connected) else { return false };
        match link.role {
            Role::Own(client) | Role::Raw(client) => {
                self.clients.at(client).is_none_or(|client| client.out.weight() < self.options.send_buffer_bytes)
            }
            Role::Shared(_) | Role::Idle | Role::Resetting | Role::Asking => link.stalled_by.is_none(),
        }
    }

    /// When [`Multiplexer::handle_timeout`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.due.timed.iter().filter_map(|&timed| self.deadline_of(timed)).min()
    }

    fn deadline_of(&self, timed: Timed) -> Option<Time> {
        match timed {
            Timed::Link(id) => self.links.at(id)?.deadline,
            Timed::Client(id) => self.clients.at(id)?.deadline,
        }
    }

    /// Ends what has taken too long.
    pub fn handle_timeout(&mut self, turn: &mut Turn<'_>) {
        let timed = std::mem::take(&mut self.due.timed);
        for timed in timed {
            match self.deadline_of(timed) {
                None => {}
                Some(deadline) if deadline > turn.now => self.due.timed.push(timed),
                Some(_) => match timed {
                    Timed::Link(id) => self.end_patience(id, turn),
                    Timed::Client(id) => self.cut(id, Reason::SlowClient, turn),
                },
            }
        }
        self.work(turn);
    }

    /// Nobody holds up this connection any more.
    fn go_on(&mut self, id: Id, turn: &Turn<'_>) {
        if let Some(link) = self.links.at_mut(id) {
            link.patience.end(turn.now);
            (link.stalled_by, link.deadline) = (None, None);
            self.due.touch_link(id, link);
        }
    }

    fn end_patience(&mut self, id: Id, turn: &mut Turn<'_>) {
        let Some(link) = self.links.at_mut(id) else { return };
        link.deadline = None;
        match link.stalled_by {
            Some(client) => {
                self.cut(client, Reason::SlowClient, turn);
                self.go_on(id, turn);
            }
            None => self.lose(id, connections::Loss::Unreachable("the server did not answer in time"), turn),
        }
    }

    /// The next thing to do. Call until `None`, at the end of a batch.
    pub fn poll(&mut self, turn: &mut Turn<'_>) -> Option<Output> {
        if let Some(order) = self.orders.pop_front() {
            return Some(order);
        }
        if let Some(slow) = self.meter.next_slow() {
            return Some(Output::TellSlow(slow));
        }
        while let Some(&id) = self.due.links.last() {
            if let Some(output) = self.poll_link(id, turn) {
                return Some(output);
            }
            self.due.links.pop();
        }
        while let Some(&id) = self.due.clients.last() {
            if let Some(output) = self.poll_client(id, turn) {
                return Some(output);
            }
            self.due.clients.pop();
        }
        None
    }

    fn poll_link(&mut self, id: Id, turn: &mut Turn<'_>) -> Option<Output> {
        let is_welcome = self.wants_link(id);
        let link = self.links.at_mut(id)?;
        if std::mem::replace(&mut link.is_received, is_welcome) != is_welcome {
            return Some(Output::ReceiveFromServer(id, is_welcome));
        }
        if !link.is_connected {
            link.is_touched = false;
            return None;
        }
        if let Some(buffer) = link.out.next(turn) {
            let requests = std::mem::take(&mut link.unsent);
            if requests > 0 {
                self.meter.counts.shared_batch.observe(requests.into());
            }
            return Some(Output::SendToServer(id, buffer));
        }
        link.is_touched = false;
        let says_end = link.ends && link.out.is_empty() && !std::mem::replace(&mut link.has_ended, true);
        says_end.then_some(Output::EndToServer(id))
    }

    fn poll_client(&mut self, id: Id, turn: &mut Turn<'_>) -> Option<Output> {
        let is_welcome = self.wants_client(id);
        let client = self.clients.at_mut(id)?;
        if std::mem::replace(&mut client.is_received, is_welcome) != is_welcome {
            return Some(Output::ReceiveFromClient(id, is_welcome));
        }
        if let Some(buffer) = client.out.next(turn) {
            return Some(Output::SendToClient(id, buffer));
        }
        client.is_touched = false;
        let reason = client.end.filter(|_| client.out.is_empty())?;
        self.forget(id, turn);
        self.work(turn);
        Some(match reason {
            Reason::ReplyCut | Reason::ServerLost => Output::CutClient(id, reason),
            Reason::ClientLeft
            | Reason::Malformed(_)
            | Reason::SlowClient
            | Reason::ServerClosed
            | Reason::Unreachable
            | Reason::Refused
            | Reason::ServerBroke(_) => Output::CloseClient(id, reason),
        })
    }

    /// How many clients there are.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// How many connections there are, and attempts to make one.
    #[must_use]
    pub fn links(&self) -> usize {
        self.links.len()
    }

    /// How many of them are shared.
    #[must_use]
    pub fn shared_links(&self) -> usize {
        let classes = self.class_ids.iter().filter_map(|&id| self.classes.at(id));
        classes.map(|class| class.links.len()).sum()
    }

    /// How many of them are one client's own, for more than to ask for a change.
    #[must_use]
    pub fn own_links(&self) -> u32 {
        let others = self.shared_links() + self.idle.len() + self.probes + usize::from(self.vouching.is_asking());
        u32::try_from(self.links.len().saturating_sub(others)).unwrap_or(u32::MAX)
    }

    /// Whether this is one of these.
    #[must_use]
    pub fn is_own(&self, id: Id) -> bool {
        self.links.at(id).is_some_and(|link| matches!(link.role, Role::Own(_) | Role::Raw(_)) && !link.is_probe)
    }

    /// Over which connections a client's requests go; nothing when it has left.
    #[must_use]
    pub fn way(&self, id: Id) -> Option<Way> {
        let client = self.clients.at(id)?;
        Some(match client.place {
            Place::Nowhere | Place::Shared(_) => Way::Shared,
            Place::Own(_) => Way::Own(client.departed),
        })
    }

    /// Whether a client waits for a reply. Where every byte of it is passed on unread, nobody knows.
    #[must_use]
    pub fn is_owed(&self, id: Id) -> bool {
        self.clients.at(id).is_some_and(|client| !client.is_raw && (client.replies_owed > 0 || client.is_blocked))
    }
}
