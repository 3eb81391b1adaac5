//! Accepts clients and hands each to a shard. One thread with its own ring; it sees neither ciphertext nor plaintext.
//!
//! It never waits for a shard: a full mailbox means another shard, and when all are full, accepting pauses until one
//! has room. Nobody who has been accepted is lost on the way.
//!
//! Invariants:
//! - An accepted socket is in exactly one place: the backlog here, a mailbox, or a shard.
//! - The dispatcher never asks a session anything; what it knows of them, shards have published.
//! - When nothing happens it sleeps without a timer.

mod admission;
mod links;
mod listeners;
mod news;
mod pending;
pub mod placement;
mod rates;
mod renewal;
mod sources;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

pub use admission::{Limits, REFUSALS_MAX, source_counts};
pub use links::{Command, Links, Port};
pub use rates::Rates;
pub use renewal::Renewal;

use crate::dispatcher::admission::{Admission, Verdict};
use crate::dispatcher::listeners::{Accepting, ListenerState};
use crate::dispatcher::pending::PendingList;
use crate::dispatcher::placement::{Candidate, Placement};
use crate::events::Event;
use crate::io::{Completion, Driver, Errno, Fd, Op, Outcome, Token, Wait};
use crate::ledger::Ledger;
use crate::shard::{Handoff, Order};
use crate::time::Time;

/// How long accepting pauses when the system has no file descriptor or memory to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How soon a full mailbox is tried again.
const RETRY: Duration = Duration::from_millis(1);

/// How often pending sessions are looked through, while there are any.
const PENDING_CHECK: Duration = Duration::from_secs(1);

/// The shortest time a session must have been quiet to be closed in a drain.
pub const DRAIN_QUIET: Duration = Duration::from_millis(100);

/// Names the receive on the wake-up socket; accepts are named by their socket.
const WAKE_TOKEN: Token = Token(u64::MAX);

/// Names what nobody waits for.
const NO_ONE: Token = Token(u64::MAX - 1);

/// Names the accept on a socket.
const fn accept_token(socket: Fd) -> Token {
    Token(socket.0.cast_unsigned() as u64)
}

/// What the dispatcher is made of.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Open connections over all listeners beyond which clients are refused.
    pub connections_max: u64,
    /// Where the draws of placement start from.
    pub seed: u64,
}

/// A listening socket.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Whose it is.
    pub ledger: Arc<Ledger>,
    /// The socket.
    pub socket: Fd,
    /// Connections that the kernel holds until they are accepted.
    pub backlog: u32,
    /// Whom it lets in.
    pub limits: Limits,
}

#[derive(Debug)]
struct ShardState {
    port: Port,
    handed: u64,
    /// Orders that found no room; they go before any other.
    unsent: VecDeque<Order>,
    ring_due: bool,
    /// When its busy share was measured, as seen last, and how many had been handed to it then.
    measured: (Time, u64),
}

impl ShardState {
    const fn new(port: Port) -> Self {
        Self { port, handed: 0, unsent: VecDeque::new(), ring_due: false, measured: (Time::from_nanos(0), 0) }
    }

    fn candidate(&mut self, now: Time) -> Candidate {
        let load = self.port.load.read(now);
        if self.measured.0 != load.measured_at {
            self.measured = (load.measured_at, self.handed);
        }
        let sessions = self.handed.saturating_sub(self.port.load.ended_in_all());
        Candidate { sessions, unmeasured: sessions.min(self.handed - self.measured.1), load }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Accepting,
    /// Listeners are being cancelled; then what waits in their queues is taken.
    Stopping {
        cut_off_at: Time,
    },
    /// The shards drain.
    Draining {
        cut_off_at: Time,
    },
    /// The last order has been given.
    CutOff,
    Ended,
}

/// Accepts clients and hands them to shards.
#[derive(Debug)]
pub struct Dispatcher<D> {
    driver: D,
    links: Links,
    listeners: Vec<ListenerState>,
    /// To be done once nothing is accepted any more on the sockets that it leaves.
    renewal: Option<Box<Renewal>>,
    shards: Vec<ShardState>,
    admission: Admission,
    placement: Placement,
    pending: PendingList,
    pending_check_at: Time,
    /// Accepted clients that found every mailbox full.
    backlog: VecDeque<Handoff>,
    candidates: Vec<Candidate>,
    wake_armed: bool,
    phase: Phase,
    now: Time,
}

impl<D: Driver> Dispatcher<D> {
    /// A dispatcher over at least one shard. The sockets listen already.
    #[must_use]
    pub fn new(options: Options, driver: D, links: Links, listeners: Vec<Listener>, ports: Vec<Port>) -> Self {
        let cells = ports.iter().map(|port| Arc::clone(&port.load)).collect();
        let limits = listeners.iter().map(|listener| (Arc::clone(&listener.ledger), listener.limits.clone())).collect();
        let listener = |Listener { ledger, socket, backlog, .. }| ListenerState::new(socket, backlog, ledger);
        let sources = links.sources.clone();
        let now = driver.now();
        Self {
            driver,
            links,
            admission: Admission::new(options.connections_max, limits, cells, sources),
            listeners: listeners.into_iter().map(listener).collect(),
            renewal: None,
            candidates: Vec::with_capacity(ports.len()),
            shards: ports.into_iter().map(ShardState::new).collect(),
            placement: Placement::new(options.seed),
            pending: PendingList::default(),
            pending_check_at: now,
            backlog: VecDeque::new(),
            wake_armed: false,
            phase: Phase::Accepting,
            now,
        }
    }

    /// Turns until told to end.
    ///
    /// # Errors
    /// What the ring itself failed with.
    pub fn run(mut self) -> io::Result<()> {
        while !self.is_done() {
            self.turn()?;
        }
        Ok(())
    }

    /// Whether the dispatcher has been told to end.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// The sessions that are taken to be pending, by shard and slot, for a test to compare with the truth.
    pub fn pending_sessions(&self) -> impl Iterator<Item = (usize, u32)> {
        self.pending.sessions()
    }

    /// One turn of the loop.
    ///
    /// # Errors
    /// What the ring itself failed with.
    pub fn turn(&mut self) -> io::Result<()> {
        self.arm();
        let wait = self.wait();
        self.driver.enter(wait)?;
        self.links.doorbell.awake();
        self.now = self.driver.now();
        while let Some(completion) = self.driver.next_completion() {
            self.handle_completion(completion);
        }
        while let Some(command) = self.links.commands.receive() {
            self.handle_command(command);
        }
        self.send_unsent();
        self.hand_over_backlog();
        self.update_pending();
        self.tell_denied();
        self.advance();
        self.ring_shards();
        Ok(())
    }

    fn arm(&mut self) {
        if !self.wake_armed {
            self.wake_armed = true;
            self.driver.push(WAKE_TOKEN, Op::ReceiveMany { socket: self.links.wake });
        }
        if !self.may_accept() {
            return;
        }
        for state in &mut self.listeners {
            let due = match state.accepting {
                Accepting::Idle => !state.ends(),
                Accepting::Paused(until) => !state.ends() && until <= self.now,
                Accepting::Armed(_) | Accepting::Cancelled | Accepting::Closed => false,
            };
            if due {
                let op = Op::Accept { listener: state.socket };
                state.accepting = Accepting::Armed(self.driver.push(accept_token(state.socket), op));
            }
        }
    }

    fn may_accept(&self) -> bool {
        self.phase == Phase::Accepting && self.backlog.is_empty()
    }

    fn wait(&mut self) -> Wait {
        if let Some(at) = self.next_time() {
            return Wait::Until(at);
        }
        self.links.doorbell.going_to_sleep();
        self.update_pending();
        self.next_time().map_or(Wait::Forever, Wait::Until)
    }

    /// When there is something to do though nothing happens.
    fn next_time(&self) -> Option<Time> {
        let retries = !self.backlog.is_empty() || self.shards.iter().any(|shard| !shard.unsent.is_empty());
        let accepts = self.listeners.iter().filter_map(|state| match state.accepting {
            Accepting::Paused(until) if self.may_accept() => Some(until),
            Accepting::Paused(_) | Accepting::Idle | Accepting::Armed(_) | Accepting::Cancelled | Accepting::Closed => {
                None
            }
        });
        let news = self.listeners.iter().filter_map(|state| state.denied.due_at());
        let cut_off = match self.phase {
            Phase::Draining { cut_off_at } => Some(cut_off_at),
            Phase::Accepting | Phase::Stopping { .. } | Phase::CutOff | Phase::Ended => None,
        };
        let pending = (!self.pending.is_empty()).then_some(self.pending_check_at);
        let retry = retries.then(|| self.now + RETRY);
        accepts.chain(news).chain(cut_off).chain(pending).chain(retry).min()
    }

    fn handle_completion(&mut self, completion: Completion) {
        match completion.outcome {
            Outcome::Accepted(result) => self.handle_accepted(completion.token, result, completion.more),
            Outcome::Received { result, .. } => {
                self.wake_armed = completion.more;
                if let Ok(Some(lease)) = result {
                    self.driver.recycle(lease);
                }
            }
            Outcome::Rung => {}
            outcome @ (Outcome::Sent { .. } | Outcome::Connected(_)) => {
                unreachable!("the dispatcher neither sends nor connects: {outcome:?}")
            }
        }
    }

    fn handle_accepted(&mut self, token: Token, result: Result<Fd, Errno>, more: bool) {
        let index = self.listeners.iter().position(|state| accept_token(state.socket) == token);
        let index = index.expect("a socket is left when nothing of it is in flight");
        let listener = u16::try_from(index).expect("listeners are numbered with 16 bits");
        let state = &mut self.listeners[index];
        if !more {
            state.accepting = Accepting::Idle;
        }
        match result {
            Ok(client) => {
                if state.told {
                    state.told = false;
                    self.links.events.send(Event::AcceptResumed { listener: Arc::clone(&state.ledger) });
                }
                self.admit(client, listener);
            }
            // The client was gone before it was accepted, or accepting was cancelled by us.
            Err(Errno(libc::ECONNABORTED | libc::ECANCELED | libc::EINTR | libc::EAGAIN)) => {}
            Err(errno) => {
                state.accepting = Accepting::Paused(self.now + ACCEPT_PAUSE);
                if !state.told {
                    state.told = true;
                    let listener = Arc::clone(&state.ledger);
                    self.links.events.send(Event::AcceptPaused { listener, errno });
                }
            }
        }
    }

    fn admit(&mut self, client: Fd, listener: u16) {
        let address =
            if self.admission.wants_address(listener) { self.driver.socket_addresses(client).1 } else { None };
        let (why, told) = match self.admission.admit(listener, address.map(|address| address.ip()), self.now) {
            Verdict::Admit(source) => {
                return self.hand_over(Handoff { client, listener, refusal: None, source });
            }
            Verdict::Refuse(why, refusal) => {
                let refusal = Some(refusal);
                self.hand_over(Handoff { client, listener, refusal, source: None });
                (why, true)
            }
            Verdict::Close(why) => {
                self.driver.close(client);
                (why, false)
            }
        };
        admission::count(&self.links.tally, why, told);
        self.listeners[usize::from(listener)].denied.count(why, told, address);
    }

    /// Tells the log who was not let in: at most once a second, and at the end what is left to tell.
    fn tell_denied(&mut self) {
        let (now, at_end) = (self.now, self.is_done());
        for ListenerState { ledger, denied, .. } in &mut self.listeners {
            denied.tell(ledger, now, at_end, &mut self.links.events);
        }
    }

    /// Hands a client to the shard that placement chooses, to any other when its mailbox is full, and keeps it when
    /// all are.
    fn hand_over(&mut self, handoff: Handoff) {
        if !self.backlog.is_empty() {
            self.backlog.push_back(handoff);
        } else if let Err(handoff) = self.try_hand_over(handoff) {
            self.backlog.push_back(handoff);
            self.pause_accepting();
        }
    }

    fn try_hand_over(&mut self, handoff: Handoff) -> Result<(), Handoff> {
        self.candidates.clear();
        self.candidates.extend(self.shards.iter_mut().map(|shard| shard.candidate(self.now)));
        let first = self.placement.choose(&self.candidates);
        let count = self.shards.len();
        for index in (first..first + count).map(|index| index % count) {
            let shard = &mut self.shards[index];
            if shard.unsent.is_empty() && shard.port.mailbox.send(Order::Serve(handoff)).is_ok() {
                shard.handed += 1;
                shard.ring_due = true;
                return Ok(());
            }
        }
        Err(handoff)
    }

    fn hand_over_backlog(&mut self) {
        while let Some(&handoff) = self.backlog.front() {
            if self.try_hand_over(handoff).is_err() {
                return;
            }
            self.backlog.pop_front();
        }
    }

    fn pause_accepting(&mut self) {
        for state in &mut self.listeners {
            state.cancel(&mut self.driver);
        }
    }

    fn handle_command(&mut self, command: Command) {
        match command {
            Command::Renew(renewal) => self.begin_renewing(renewal),
            Command::Roster { backend, roster } => {
                self.order_all(|| Order::Roster { backend, roster: roster.clone() });
            }
            Command::Dismiss { member, dismissal } => {
                self.order_all(|| Order::Dismiss { member: Arc::clone(&member), dismissal });
            }
            Command::Ping(mut pings) => {
                if let Some(own) = pings.pop() {
                    own.answer();
                }
                let asked = self.shards.iter_mut().zip(pings);
                asked.for_each(|(shard, ping)| shard.unsent.push_back(Order::Ping(ping)));
                self.send_unsent();
            }
            Command::Pass(shard, order) => {
                // An order to a shard that is not there has no answer.
                if let Some(shard) = self.shards.get_mut(usize::from(shard)) {
                    shard.unsent.push_back(order);
                }
                self.send_unsent();
            }
            Command::CloseListener { listener, done } => self.begin_closing(&listener, done),
            Command::OpenListener { listener, done } => self.open_listener(&listener, &done),
            Command::Drain { timeout } if self.phase == Phase::Accepting => {
                self.phase = Phase::Stopping { cut_off_at: self.now + timeout };
                self.pause_accepting();
            }
            Command::Drain { .. } => {}
            // Nothing comes behind the end.
            Command::Stop if self.phase == Phase::Ended => {}
            Command::Stop => {
                self.order_all(|| Order::Stop);
                self.phase = Phase::CutOff;
            }
            Command::End => self.phase = Phase::Ended,
        }
    }

    fn update_pending(&mut self) {
        let was_empty = self.pending.is_empty();
        for (index, shard) in self.shards.iter_mut().enumerate() {
            self.pending.update(index, &mut shard.port.pending, self.now);
        }
        if was_empty && !self.pending.is_empty() {
            self.pending_check_at = self.now + PENDING_CHECK;
        }
        if self.pending_check_at <= self.now {
            self.pending_check_at = self.now + PENDING_CHECK;
            let shards = &mut self.shards;
            self.pending.take_stalled(self.now, |shard, slot, pending| {
                shards[shard].unsent.push_back(Order::Inspect { slot, pending });
            });
        }
    }

    /// Takes the next step of a drain when its time has come.
    fn advance(&mut self) {
        match self.phase {
            Phase::Stopping { cut_off_at } => {
                self.finish_renewing();
                if !self.listeners.iter().any(ListenerState::is_busy) {
                    self.stop_listening();
                    self.phase = Phase::Draining { cut_off_at };
                }
            }
            Phase::Draining { cut_off_at } if cut_off_at <= self.now => {
                self.order_all(|| Order::CutOff);
                self.phase = Phase::CutOff;
            }
            Phase::Accepting => {
                self.finish_renewing();
                self.finish_closing();
            }
            Phase::Draining { .. } | Phase::CutOff | Phase::Ended => {}
        }
    }

    fn order_all(&mut self, order: impl Fn() -> Order) {
        for shard in &mut self.shards {
            shard.unsent.push_back(order());
        }
        self.send_unsent();
    }

    /// Sends what there is room for. What is for a shard that has ended is dropped.
    fn send_unsent(&mut self) {
        for shard in &mut self.shards {
            if shard.port.mailbox.is_abandoned() {
                shard.unsent.clear();
            }
            while let Some(order) = shard.unsent.pop_front() {
                match shard.port.mailbox.send(order) {
                    Ok(()) => shard.ring_due = true,
                    Err(order) => {
                        shard.unsent.push_front(order);
                        break;
                    }
                }
            }
        }
    }

    /// Wakes the shards that sleep on what they were sent, once each.
    fn ring_shards(&mut self) {
        for shard in &mut self.shards {
            if std::mem::take(&mut shard.ring_due) && shard.port.mailbox.needs_ring() {
                self.driver.push(NO_ONE, Op::Ring { ring: shard.port.ring });
            }
        }
        if let Some(event) = self.links.events.wake_due() {
            self.driver.push(NO_ONE, Op::Notify { event });
        }
    }
}
