//! One client and its backend: a sans-IO state machine. Bytes in, bytes out, the time as an argument.
//!
//! It owns what is said on both sides and in what order; it knows no file descriptor, clock, thread, log or metric
//! sink. The relay parses no RESP: bytes pass 1:1. RESP is written only where the proxy itself must answer or ask.
//!
//! ```text
//!   client bytes ──► open ──► cork and seal ──► backend queue ──► backend
//!   client ◄── client queue ◄── cork and seal ◄── open ◄── backend bytes
//! ```
//!
//! What stands in front of that, where a listener or backend asks for it, is in `introduction` and [`greeting`].
//!
//! Each side has a transport, TLS or plain. On a plain side opening and sealing are nothing: bytes pass as they are.
//!
//! The caller's duties:
//! 1. After any `handle_*` call, drain [`Session::poll`] at the end of the batch, then look at
//!    [`Session::wants_receive`], [`Session::deadline`] and [`Session::is_pending`] again.
//! 2. Bring every [`Output::Send`] back through [`Session::handle_sent`], also when it failed or was cancelled.
//! 3. After [`Output::Close`], call [`Session::release`] once no send is in flight, and drop the session.
//! 4. Call [`Session::handle_timeout`] when the deadline has come, and [`Session::resume`] each turn while
//!    [`Session::wants_turn`].
//!
//! Invariants:
//! - The directions are independent: neither waits for the other.
//! - What a peer sent before it ended is delivered, whatever it did to its socket afterwards.
//! - An orderly end on one side is an orderly end on the other; a backend's failure is a cut without close_notify. Where
//!   the client speaks no TLS, TCP has one word for both: FIN, behind all that was received.
//! - All plaintext precedes the end of a side, and nothing follows it.
//!
//! Read `tests/session/examples.rs` first.

pub mod close;
pub mod coalescer;
pub mod dial;
mod ending;
pub mod greeting;
mod introduction;
mod leg;
pub mod queue;
mod timing;
mod traffic;
pub mod transport;

use std::rc::Rc;
use std::time::Duration;

use crate::io::Errno;
use crate::metrics::Tally;
use crate::pool::{Pool, SendBuf};
use crate::session::close::CloseReason;
use crate::session::coalescer::Threshold;
use crate::session::dial::{HandshakeEnd, HangUp, Stage};
use crate::session::greeting::{Greeting, GreetingEnd};
use crate::session::leg::{Input, Leg};
use crate::session::timing::Drain;
use crate::session::transport::Transport;
use crate::time::Time;
use crate::tls::{ClientNames, Summary};
use crate::wire::proxy::Addresses;

/// Which peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The one that connected to us.
    Client,
    /// The server we connected to.
    Backend,
}

impl Side {
    /// Both, in the order in which they are served.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Backend];

    /// Its place among both.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Client => 0,
            Self::Backend => 1,
        }
    }

    /// The peer across the proxy.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Backend,
            Self::Backend => Self::Client,
        }
    }
}

/// What bounds a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Receiving from one side pauses while the other side's queue holds this many bytes or more.
    pub send_buffer_bytes: usize,
    /// The coalescer's threshold.
    pub coalesce: Threshold,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
    /// How long one attempt to reach a server may take, its handshake included.
    pub connect_timeout: Duration,
    /// How long nothing may move once one side has ended.
    pub half_close_timeout: Duration,
    /// How long nothing may be said, `None` for ever.
    pub idle_timeout: Option<Duration>,
    /// How long it may go on, `None` for ever. The shard draws a time within the last tenth of it, and hands that to
    /// [`Session::limit_lifetime`].
    pub lifetime_max: Option<Duration>,
    /// Whether a client is told in RESP that no server could be reached; otherwise it sees its connection cut.
    pub tells_unreachable: bool,
}

/// What a shard lends a session for the length of one call.
#[derive(Debug)]
pub struct Turn<'a> {
    /// The time.
    pub now: Time,
    /// Where buffers come from and go back to.
    pub pool: &'a mut Pool,
    /// Where things are counted.
    pub tally: &'a Tally,
}

/// Why a session answers with an error instead of reaching a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A connection limit was reached.
    TooManyConnections,
    /// The client's source has as many connections as it may have.
    TooManyPerSource,
    /// Clients come faster than they may.
    TooFast,
}

impl Refusal {
    /// What the client is told, and why its session ends. The words for limits are the server's own, which libraries
    /// know.
    const fn answer(self) -> (&'static str, CloseReason) {
        let limit = "-ERR max number of clients reached\r\n";
        match self {
            Self::TooManyConnections => (limit, CloseReason::TooManyConnections),
            Self::TooManyPerSource => (limit, CloseReason::TooManyPerSource),
            Self::TooFast => ("-ERR max rate of new clients reached, try again later\r\n", CloseReason::ConnectionRate),
        }
    }
}

/// What a session asks its shard to do.
#[derive(Debug)]
pub enum Output {
    /// Connect to a server of the backend; answer with [`Session::handle_connected`] or
    /// [`Session::handle_unreachable`].
    Dial,
    /// The attempt has taken too long: cancel it and try another server, or give up.
    AbandonDial,
    /// The server is connected and its handshake or greeting has failed: close the connection to it, and answer with
    /// [`Session::handle_hung_up`] when nothing of it is in flight any more.
    HangUp(HandshakeEnd),
    /// Send these bytes to this side.
    Send(Side, SendBuf),
    /// Send FIN to this side.
    ShutdownWrite(Side),
    /// Close both sockets; nothing follows.
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The header of a proxy in front is awaited.
    Introducing,
    Handshaking,
    /// The backend is being dialled; what the client says meanwhile waits in the backend's queue.
    Connecting,
    /// The backend is connected and its handshake goes on; what the client says goes on waiting.
    Securing,
    /// The backend can be spoken to and is greeted; what the client says goes on waiting.
    Greeting,
    /// Handshake or greeting has failed; the connection is being given up.
    HangingUp,
    Relaying,
    /// An error is being said to the client; there is no backend, and what the client says is dropped.
    Refusing,
    /// Both sides are being ended by us; what they say is dropped.
    Closing,
    Closed,
}

/// One client and its backend.
#[derive(Debug)]
pub struct Session {
    options: Rc<Options>,
    phase: Phase,
    client: Leg,
    backend: Leg,
    refusal: Option<Refusal>,
    reason: Option<CloseReason>,
    /// [`Output::Dial`] or [`Output::AbandonDial`] is to be said.
    dial_due: bool,
    abandon_due: bool,
    hang_up: HangUp,
    /// What the last attempt to reach a server has failed at.
    failed_at: Stage,
    /// What a server is asked and told before the client's first byte, until it has answered.
    greeting: Option<Box<Greeting>>,
    /// The part of the header of a proxy in front that has come.
    header: Vec<u8>,
    /// What that header has told.
    announced: Option<Box<Addresses>>,
    /// The backend has spoken since the client last did.
    backend_spoke_last: bool,
    started: Time,
    handshake_took: Option<Duration>,
    /// When bytes last moved, in any direction.
    last_moved: Time,
    /// End of the current phase's own time: handshake, connect attempt, or lingering close.
    phase_deadline: Option<Time>,
    drain: Option<Drain>,
    /// When it is to end for its age.
    lifetime_end: Option<Time>,
}

impl Session {
    /// A session whose client has just been accepted and speaks `client`.
    #[must_use]
    pub fn new(client: Transport, options: Rc<Options>, refusal: Option<Refusal>, turn: &mut Turn<'_>) -> Self {
        let mut session = Self::in_phase(Phase::Handshaking, client, options, refusal, turn);
        if session.client.transport.is_plain() {
            session.admit(turn);
        }
        session
    }

    fn in_phase(
        phase: Phase,
        client: Transport,
        options: Rc<Options>,
        refusal: Option<Refusal>,
        turn: &Turn<'_>,
    ) -> Self {
        let threshold = options.coalesce;
        let phase_deadline = Some(turn.now + options.handshake_timeout);
        Self {
            options,
            phase,
            client: Leg::new(client, threshold),
            backend: Leg::unconnected(threshold),
            refusal,
            reason: None,
            dial_due: false,
            abandon_due: false,
            hang_up: HangUp::None,
            failed_at: Stage::Connect,
            greeting: None,
            header: Vec::new(),
            announced: None,
            backend_spoke_last: true,
            started: turn.now,
            handshake_took: None,
            last_moved: turn.now,
            phase_deadline,
            drain: None,
            lifetime_end: None,
        }
    }

    /// Whether there is a backend to send to and receive from.
    const fn is_connected(&self) -> bool {
        matches!(self.phase, Phase::Securing | Phase::Greeting | Phase::Relaying | Phase::Closing)
    }

    /// Whether nothing more goes to either side or comes from it.
    const fn is_over(&self) -> bool {
        self.client.is_over() && self.backend.is_over()
    }

    const fn leg_mut(&mut self, side: Side) -> &mut Leg {
        match side {
            Side::Client => &mut self.client,
            Side::Backend => &mut self.backend,
        }
    }

    const fn leg(&self, side: Side) -> &Leg {
        match side {
            Side::Client => &self.client,
            Side::Backend => &self.backend,
        }
    }

    fn handle_handshake_done(&mut self, turn: &mut Turn<'_>) {
        let took = turn.now.since(self.started);
        self.handshake_took = Some(took);
        turn.tally.handshakes.add(1);
        turn.tally.handshake_micros.observe(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        if let Transport::Tls(engine) = &self.client.transport
            && let Some(sort) = engine.handshake_sort()
        {
            turn.tally.handshakes_by[sort.index()].add(1);
        }
        self.admit(turn);
    }

    fn handle_backend_handshake_done(&mut self, turn: &mut Turn<'_>) {
        turn.tally.backend_handshakes.add(1);
        self.begin_greeting(turn);
    }

    /// The client can be spoken to.
    fn admit(&mut self, turn: &mut Turn<'_>) {
        match self.refusal {
            Some(refusal) => {
                let (error, reason) = refusal.answer();
                self.refuse(error, reason, turn);
            }
            None => {
                self.phase = Phase::Connecting;
                self.dial_due = true;
                self.phase_deadline = None;
            }
        }
    }

    /// Takes back a sent buffer and how much of it went. After an error the side takes nothing more, but what it has
    /// still to say is read to its end.
    pub fn handle_sent(&mut self, side: Side, buffer: SendBuf, result: Result<usize, Errno>, turn: &mut Turn<'_>) {
        let leg = self.leg_mut(side);
        let sent = result.unwrap_or(0);
        leg.sent_bytes += sent as u64;
        turn.tally.sent_bytes[side.index()].add(sent as u64);
        leg.cut_short = sent < buffer.len();
        leg.queue.sent(buffer, sent, turn.pool);
        let failed = result.is_err() || leg.output == leg::Output::Broken;
        if !failed {
            if self.phase != Phase::Closed {
                self.last_moved = turn.now;
            }
            return;
        }
        // Another server may still be told what waits for this one.
        match (self.phase, side) {
            (Phase::Securing, Side::Backend) => self.hang_up(HangUp::Now(HandshakeEnd::Lost(result.err())), turn),
            (Phase::Greeting, Side::Backend) => self.fail_greeting(GreetingEnd::Lost(result.err()), turn),
            (Phase::HangingUp, Side::Backend) => self.hurry_hang_up(turn),
            (_, Side::Client | Side::Backend) => self.leg_mut(side).break_output(turn),
        }
    }

    /// The next thing to do. Call until `None`, at the end of a batch.
    pub fn poll(&mut self, turn: &mut Turn<'_>) -> Option<Output> {
        if self.phase == Phase::Closed {
            return None;
        }
        if self.dial_due {
            self.dial_due = false;
            self.phase_deadline = Some(turn.now + self.options.connect_timeout);
            return Some(Output::Dial);
        }
        if self.abandon_due {
            self.abandon_due = false;
            return Some(Output::AbandonDial);
        }
        if let Some(output) = self.poll_hang_up() {
            return Some(output);
        }
        for side in Side::BOTH {
            if let Some(output) = self.poll_side(side, turn) {
                return Some(output);
            }
        }
        self.update_backpressure(turn);
        if self.is_over() {
            self.phase = Phase::Closed;
            return Some(Output::Close);
        }
        None
    }

    fn poll_side(&mut self, side: Side, turn: &mut Turn<'_>) -> Option<Output> {
        if side == Side::Backend && !self.is_connected() && !self.has_last_word_for_backend() {
            return None;
        }
        let leg = self.leg_mut(side);
        match leg.queue.next(&mut leg.transport, turn.pool, turn.tally) {
            Ok(Some(buffer)) => return Some(Output::Send(side, buffer)),
            Ok(None) => {}
            Err(failure) => self.fail_seal(side, failure, turn),
        }
        let leg = self.leg_mut(side);
        if leg.output == leg::Output::Closing && leg.queue.is_empty() && !leg.queue.is_holding() {
            leg.output = leg::Output::Ended;
            self.handle_output_ended(side, turn.now);
            return Some(Output::ShutdownWrite(side));
        }
        None
    }

    fn update_backpressure(&mut self, turn: &mut Turn<'_>) {
        let high = self.options.send_buffer_bytes;
        let (for_client, for_backend) = (self.client.queue.weight(), self.backend.queue.weight());
        for (side, held) in [(Side::Client, for_backend), (Side::Backend, for_client)] {
            let from = self.leg_mut(side);
            if held >= high && !from.paused {
                from.paused = true;
                turn.tally.backpressure_pauses[side.index()].add(1);
            } else if held <= high / 2 {
                from.paused = false;
            }
        }
    }

    /// Whether bytes from `side` are welcome. `scarce`: the shard is short of memory, so a session that already holds
    /// bytes for the other side takes no more.
    #[must_use]
    pub fn wants_receive(&self, side: Side, scarce: bool) -> bool {
        let (from, to) = match side {
            Side::Client => (&self.client, &self.backend),
            Side::Backend => (&self.backend, &self.client),
        };
        let connected = side == Side::Client || self.is_connected();
        let has_budget = !from.out_of_budget;
        let has_room = !from.paused && (!scarce || to.queue.is_empty());
        let may_come = self.phase != Phase::Closed && connected && from.input != Input::Eof;
        may_come && (has_budget && has_room || to.is_output_over())
    }

    /// Whether received bytes are held that could not be served yet: by the turn's budget or by back-pressure.
    #[must_use]
    pub const fn is_pending(&self) -> bool {
        self.wants_turn() || self.client.paused || self.backend.paused
    }

    /// Whether both directions are blocked by peers that do not read.
    #[must_use]
    pub const fn is_blocked_both_ways(&self) -> bool {
        self.client.paused && self.backend.paused
    }

    /// Whether the TLS handshake with `side`, or the introduction in front of it, is still going on.
    #[must_use]
    pub fn is_handshaking(&self, side: Side) -> bool {
        match side {
            Side::Client => self.is_introducing() || self.client.is_handshaking(),
            Side::Backend => self.phase == Phase::Securing,
        }
    }

    /// Whether the client was admitted only to be told why it is not served.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        self.refusal.is_some()
    }

    /// Gives all buffers back. No send may be in flight.
    pub fn release(&mut self, pool: &mut Pool) {
        for leg in [&mut self.client, &mut self.backend] {
            debug_assert!(!leg.queue.is_sending(), "released with a send in flight");
            leg.queue.discard(pool);
            if let Transport::Tls(engine) = &mut leg.transport {
                engine.release(pool);
            }
        }
    }

    /// Why the session ended, or is about to.
    #[must_use]
    pub const fn reason(&self) -> Option<CloseReason> {
        self.reason
    }

    /// When the client was accepted.
    #[must_use]
    pub const fn started(&self) -> Time {
        self.started
    }

    /// When bytes last moved, in any direction.
    #[must_use]
    pub const fn last_moved(&self) -> Time {
        self.last_moved
    }

    /// How far it is, in one word.
    #[must_use]
    pub const fn stage(&self) -> &'static str {
        match self.phase {
            Phase::Introducing | Phase::Handshaking => "handshaking",
            Phase::Connecting | Phase::Securing | Phase::Greeting | Phase::HangingUp => "connecting",
            Phase::Relaying => "relaying",
            Phase::Refusing | Phase::Closing | Phase::Closed => "closing",
        }
    }

    /// How long the handshake took, once it is complete.
    #[must_use]
    pub const fn handshake_took(&self) -> Option<Duration> {
        self.handshake_took
    }

    /// Bytes received from and sent to `side`, as on the wire.
    #[must_use]
    pub const fn bytes(&self, side: Side) -> (u64, u64) {
        let leg = self.leg(side);
        (leg.received_bytes, leg.sent_bytes)
    }

    /// Bytes held for `side`.
    #[must_use]
    pub fn held_bytes(&self, side: Side) -> usize {
        self.leg(side).queue.bytes()
    }

    /// What the handshake with `side` agreed on, once it is complete.
    #[must_use]
    pub fn tls_summary(&self, side: Side) -> Option<Summary> {
        match &self.leg(side).transport {
            Transport::Tls(engine) => engine.summary(),
            Transport::Plain => None,
        }
    }

    /// The names in the client's certificate, once that is verified.
    #[must_use]
    pub fn client_names(&self) -> Option<ClientNames> {
        match &self.client.transport {
            Transport::Tls(engine) => engine.client_names(),
            Transport::Plain => None,
        }
    }

    /// Who the client is, as its verified certificate says.
    #[must_use]
    pub fn client_identity(&self) -> Option<Box<str>> {
        match &self.client.transport {
            Transport::Tls(engine) => engine.client_identity(),
            Transport::Plain => None,
        }
    }
}
