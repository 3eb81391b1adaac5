//! Reaching a server: attempts one after the other, each with a deadline of its own, until one server can be spoken to.
//!
//! ```text
//!   Dial ──► connected ──► plain ──────────────┬─► greet, if at all ──► relay
//!    ▲           └───────► TLS: shake hands ───┘            │
//!    │                         └──► failed: tell the server ┴─► HangUp ──┐
//!    └──────────────────────────── next server ◄─────────────────────────┘
//! ```
//!
//! What the client says meanwhile is held back in the backend's queue, so the next server gets all of it. Only once the
//! handshake is complete and the greeting answered does a byte of it leave, and from there on no other server is tried.

use std::fmt;

use super::close::CloseReason;
use super::greeting::{GreetingEnd, Opening};
use super::leg::Input;
use super::transport::Transport;
use super::{Output, Phase, Session, Side, Turn};
use crate::io::Errno;
use crate::time::Time;
use crate::tls::{Failure, Role};

/// What an attempt to reach a server consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Connect,
    Handshake,
    Greeting,
}

/// How a handshake with a server, or the greeting behind it, ended that was not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeEnd {
    /// It failed.
    Failed(Failure),
    /// The server ended the connection.
    Closed,
    /// The connection failed.
    Lost(Option<Errno>),
    /// It was not complete within the time of the attempt.
    Timeout,
    /// The server was not to be used any more.
    Dismissed,
    /// It was complete, and the greeting ended in this way.
    Greeting(GreetingEnd),
}

impl fmt::Display for HandshakeEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failure) => failure.in_words(Role::Client).fmt(f),
            Self::Closed => f.write_str("the server ended the connection in the handshake"),
            Self::Lost(None) => f.write_str("the connection failed in the handshake"),
            Self::Lost(Some(errno)) => write!(f, "the connection failed in the handshake: {errno}"),
            Self::Dismissed => f.write_str("the server is not to be used any more"),
            Self::Timeout => {
                f.write_str("no handshake within the connect timeout: does the server speak TLS on this port?")
            }
            Self::Greeting(end) => end.fmt(f),
        }
    }
}

/// How far hanging up has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HangUp {
    /// There is nothing to hang up.
    None,
    /// When what the server is still to be told, an alert, has gone.
    WhenTold(HandshakeEnd),
    /// At once.
    Now(HandshakeEnd),
    /// [`Output::HangUp`] has been said.
    Asked,
}

impl Session {
    /// The backend is connected, `transport` is what it speaks, and `opening` what it is told first.
    pub fn handle_connected(&mut self, transport: Transport, opening: Opening, turn: &mut Turn<'_>) {
        if self.phase != Phase::Connecting {
            return;
        }
        let in_time = self.phase_deadline.is_some();
        self.abandon_due = false;
        self.backend.connect(transport);
        self.backend.queue.push_raw(&opening.header, turn.pool);
        self.greeting = opening.greeting.map(Box::new);
        match (self.backend.transport.is_plain(), in_time) {
            (true, false) if self.greeting.is_some() => {
                self.phase = Phase::Greeting;
                self.fail_greeting(GreetingEnd::Timeout, turn);
            }
            (true, _) => self.begin_greeting(turn),
            (false, true) => {
                self.phase = Phase::Securing;
                self.backend.queue_replies(turn);
            }
            (false, false) => {
                self.phase = Phase::Securing;
                self.hang_up(HangUp::Now(HandshakeEnd::Timeout), turn);
            }
        }
    }

    /// The server can be spoken to.
    pub(super) fn begin_relaying(&mut self, turn: &mut Turn<'_>) {
        self.phase = Phase::Relaying;
        self.phase_deadline = None;
        self.last_moved = turn.now;
        if let Err(failure) = self.backend.open_output(turn) {
            self.fail_seal(Side::Backend, failure, turn);
        }
    }

    /// Whether the attempt to reach a server is still wanted: it has not taken too long, and nothing else has come up.
    #[must_use]
    pub const fn is_dialling(&self) -> bool {
        matches!(self.phase, Phase::Connecting) && self.phase_deadline.is_some()
    }

    /// The attempt failed and another server is to be tried: [`Output::Dial`] comes again.
    pub fn redial(&mut self) {
        if self.phase == Phase::Connecting {
            self.failed_at = Stage::Connect;
            self.dial_again();
        }
    }

    /// The server that is being reached is not to be used any more: the attempt is given up as if its time were over, and
    /// the next server tried. `false` when there is no attempt under way.
    pub fn give_up_attempt(&mut self, turn: &mut Turn<'_>) -> bool {
        match self.phase {
            Phase::Connecting => {
                self.abandon_due |= self.phase_deadline.take().is_some();
                true
            }
            Phase::Securing => {
                self.hang_up(HangUp::Now(HandshakeEnd::Dismissed), turn);
                true
            }
            Phase::Greeting => {
                self.fail_greeting(GreetingEnd::Dismissed, turn);
                true
            }
            Phase::HangingUp => true,
            Phase::Introducing
            | Phase::Handshaking
            | Phase::Relaying
            | Phase::Refusing
            | Phase::Closing
            | Phase::Closed => false,
        }
    }

    const fn dial_again(&mut self) {
        self.dial_due = true;
        // The attempt may have been given up and have failed in the same turn.
        self.abandon_due = false;
        self.phase_deadline = None;
    }

    /// The connection to the server is to be given up, and after it the next one tried.
    pub(super) fn hang_up(&mut self, hang_up: HangUp, turn: &mut Turn<'_>) {
        let in_greeting = matches!(hang_up, HangUp::Now(HandshakeEnd::Greeting(_)));
        self.failed_at = if in_greeting { Stage::Greeting } else { Stage::Handshake };
        self.phase = Phase::HangingUp;
        self.greeting = None;
        self.hang_up = hang_up;
        if matches!(hang_up, HangUp::Now(_)) {
            self.backend.queue.discard_ready(turn.pool);
        }
    }

    /// The handshake with the server has failed, and an alert may be due to it.
    pub(super) fn fail_backend_handshake(&mut self, failure: Failure, turn: &mut Turn<'_>) {
        self.hang_up(HangUp::WhenTold(HandshakeEnd::Failed(failure)), turn);
    }

    /// Whether what the server is still to be told has not gone.
    pub(super) const fn has_last_word_for_backend(&self) -> bool {
        matches!((self.phase, self.hang_up), (Phase::HangingUp, HangUp::WhenTold(_)))
    }

    /// The time of the attempt is over, or the server takes nothing more.
    pub(super) fn hurry_hang_up(&mut self, turn: &mut Turn<'_>) {
        if let HangUp::WhenTold(end) = self.hang_up {
            self.hang_up(HangUp::Now(end), turn);
        }
    }

    pub(super) fn poll_hang_up(&mut self) -> Option<Output> {
        let end = match self.hang_up {
            HangUp::Now(end) => end,
            HangUp::WhenTold(end) if self.backend.queue.has_nothing_ready() => end,
            HangUp::WhenTold(_) | HangUp::None | HangUp::Asked => return None,
        };
        self.hang_up = HangUp::Asked;
        Some(Output::HangUp(end))
    }

    /// The connection to the server is closed, as [`Output::HangUp`] has asked: the next server is tried, or the client
    /// told, if something that it said has gone to this one. `why` is one line without secrets.
    pub fn handle_hung_up(&mut self, why: &str, turn: &mut Turn<'_>) {
        if self.phase != Phase::HangingUp {
            return;
        }
        self.phase = Phase::Connecting;
        self.hang_up = HangUp::None;
        if self.backend.queue.is_holding() {
            self.backend.disconnect(turn);
            self.dial_again();
        } else {
            self.handle_unreachable(why, turn);
        }
    }

    /// No server could be reached: says so to the client, in RESP or by a cut. `why` is one line without secrets.
    pub fn handle_unreachable(&mut self, why: &str, turn: &mut Turn<'_>) {
        if self.phase == Phase::Connecting {
            let reason = match self.failed_at {
                Stage::Connect => CloseReason::BackendUnreachable,
                Stage::Handshake => CloseReason::BackendHandshakeFailed,
                Stage::Greeting => CloseReason::BackendGreetingFailed,
            };
            self.tell_unreachable(why, reason, turn);
        }
    }

    fn tell_unreachable(&mut self, why: &str, reason: CloseReason, turn: &mut Turn<'_>) {
        if self.options.tells_unreachable {
            self.refuse(&format!("-ERR ringwall cannot reach the server: {why}\r\n"), reason, turn);
        } else {
            self.cut(reason, turn);
        }
    }

    /// Every server has as many connections as it may: the attempt begins when there is a place, or is over at `until`,
    /// when [`Output::AbandonDial`] comes.
    pub fn handle_queued(&mut self, until: Time) {
        if self.phase == Phase::Connecting {
            self.phase_deadline = Some(until);
        }
    }

    /// There is a place, and the attempt begins.
    pub fn handle_dequeued(&mut self, now: Time) {
        if self.phase == Phase::Connecting {
            self.abandon_due = false;
            self.phase_deadline = Some(now + self.options.connect_timeout);
        }
    }

    /// There was no place for the session: its client is told as by [`Session::handle_unreachable`]. `why` is one line
    /// without secrets.
    pub fn handle_no_place(&mut self, why: &str, reason: CloseReason, turn: &mut Turn<'_>) {
        if self.phase == Phase::Connecting {
            self.tell_unreachable(why, reason, turn);
        }
    }

    /// The server has broken TLS, or given up with an alert, after its handshake.
    pub(super) fn fail_backend(&mut self, failure: Failure, turn: &mut Turn<'_>) {
        if matches!(failure, Failure::AlertReceived(_)) && !self.backend.has_spoken {
            // In TLS 1.3 the server judges our certificate when our handshake is over already. What it got meanwhile it
            // has not acted on, but it is gone.
            self.backend.break_output(turn);
            return self.hang_up(HangUp::Now(HandshakeEnd::Failed(failure)), turn);
        }
        self.reason.get_or_insert(CloseReason::BackendTlsFailed(failure));
        self.backend.end_output(false, turn);
        self.backend.input = Input::Ended;
        self.client.end_output(false, turn);
    }
}
