//! How a session ends: by a peer's word, by a failure, by a refusal, or by order.
//!
//! The rule of all of it: what was received before an end is delivered, an orderly end is passed on as one, and a
//! failure of the backend stays visible to the client.

use super::close::CloseReason;
use super::dial::{HandshakeEnd, HangUp};
use super::greeting::GreetingEnd;
use super::leg::{Input, Output};
use super::timing::LINGER;
use super::transport::{SealError, Transport};
use super::{Phase, Session, Side, Turn};
use crate::io::Errno;
use crate::tls::Failure;

impl Session {
    /// The keys of `side` are used up, or sealing for it failed otherwise: nothing more can be said to it, and so the
    /// other has nobody to talk to. What the backend is not told any more is a failure that the client sees as a cut.
    pub(super) fn fail_seal(&mut self, side: Side, failure: SealError, turn: &mut Turn<'_>) {
        let reason = match side {
            Side::Backend => CloseReason::BackendTlsFailed(failure),
            Side::Client if failure == Failure::KeysExhausted => CloseReason::RecordLimit,
            Side::Client => CloseReason::TlsFailed(failure),
        };
        self.reason.get_or_insert(reason);
        self.leg_mut(side).end_output(true, turn);
        self.leg_mut(side).input = Input::Ended;
        self.leg_mut(side.other()).end_output(side == Side::Client, turn);
    }

    /// The client broke TLS, or gave up with an alert. What it had said before is delivered.
    pub(super) fn fail_client(&mut self, failure: Failure, turn: &mut Turn<'_>) {
        let handshaking = self.phase == Phase::Handshaking;
        let reason = if handshaking { CloseReason::HandshakeFailed(failure) } else { CloseReason::TlsFailed(failure) };
        self.reason.get_or_insert(reason);
        self.client.end_output(false, turn);
        self.client.input = Input::Ended;
        if handshaking {
            self.linger(turn);
        } else {
            self.backend.end_output(true, turn);
        }
    }

    pub(super) fn end_client(&mut self, reason: CloseReason, input: Input, turn: &mut Turn<'_>) {
        self.client.input = input;
        self.reason.get_or_insert(reason);
        self.backend.end_output(true, turn);
    }

    /// Takes the end of `side`'s socket: FIN, or an error.
    pub fn handle_end(&mut self, side: Side, error: Option<Errno>, turn: &mut Turn<'_>) {
        self.last_moved = turn.now;
        if self.has_turn_due(side) {
            self.leg_mut(side).end_due = Some(error);
            return;
        }
        match side {
            Side::Client => self.handle_client_end(error, turn),
            Side::Backend => self.handle_backend_end(error, turn),
        }
    }

    fn handle_backend_end(&mut self, error: Option<Errno>, turn: &mut Turn<'_>) {
        let failed = error.is_some() || self.backend.has_failed();
        if self.phase == Phase::Securing {
            let end = if failed { HandshakeEnd::Lost(error) } else { HandshakeEnd::Closed };
            return self.hang_up(HangUp::Now(end), turn);
        }
        if self.phase == Phase::Greeting {
            return self.fail_greeting(if failed { GreetingEnd::Lost(error) } else { GreetingEnd::Closed }, turn);
        }
        if self.phase == Phase::HangingUp {
            return;
        }
        let said_goodbye = self.backend.input != Input::Open;
        self.backend.input = Input::Eof;
        // Redis and Valkey answer our close_notify with a bare FIN.
        let answered = self.backend.output == Output::Ended;
        let truncated = !said_goodbye && !answered && !self.backend.transport.is_plain();
        if failed || truncated {
            self.backend.break_output(turn);
        }
        if said_goodbye {
            return;
        }
        self.reason.get_or_insert(match (failed, truncated) {
            (true, _) => CloseReason::BackendReset,
            (false, true) => CloseReason::BackendTruncated,
            (false, false) => CloseReason::BackendClosed,
        });
        self.client.end_output(!failed && !truncated, turn);
    }

    /// The backend has ended in good order with close_notify; its FIN is still to come.
    pub(super) fn end_backend(&mut self, turn: &mut Turn<'_>) {
        self.backend.input = Input::Ended;
        self.reason.get_or_insert(CloseReason::BackendClosed);
        self.client.end_output(true, turn);
    }

    fn handle_client_end(&mut self, error: Option<Errno>, turn: &mut Turn<'_>) {
        let failed = error.is_some() || self.client.has_failed();
        if failed {
            self.client.break_output(turn);
        }
        let said_goodbye = self.client.input != Input::Open;
        self.client.input = Input::Eof;
        if said_goodbye {
            return;
        }
        match self.phase {
            Phase::Introducing | Phase::Handshaking => {
                self.reason.get_or_insert(CloseReason::HandshakeAborted);
                self.client.break_output(turn);
                self.backend.break_output(turn);
                self.backend.input = Input::Eof;
            }
            Phase::Connecting | Phase::Securing | Phase::Greeting | Phase::HangingUp | Phase::Relaying => {
                let reason = match (failed, self.client.transport.is_plain()) {
                    (true, _) => CloseReason::ClientReset,
                    (false, true) => CloseReason::ClientClosed,
                    (false, false) => CloseReason::ClientTruncated,
                };
                self.end_client(reason, Input::Eof, turn);
            }
            Phase::Refusing | Phase::Closing | Phase::Closed => {}
        }
    }

    /// The backend is over for this session, though connections to it may go on for others: for `reason`, and with an
    /// error where the client misses something. A greeting that it has not answered is the next server's.
    pub fn handle_backend_gone(&mut self, reason: CloseReason, error: Option<Errno>, turn: &mut Turn<'_>) {
        let is_relaying = self.phase == Phase::Relaying;
        if is_relaying {
            self.reason.get_or_insert(reason);
        }
        self.handle_end(Side::Backend, error, turn);
        if is_relaying {
            self.close(reason, turn);
        }
    }

    /// The backend owes the client more than what has just come of it.
    pub const fn expect_more(&mut self) {
        self.backend_spoke_last = false;
    }

    pub(super) fn refuse_plaintext(&mut self, turn: &mut Turn<'_>) {
        self.client.transport = Transport::Plain;
        self.refuse(
            "-ERR this port speaks TLS: connect with TLS (redis-cli --tls), or to the server's plain port\r\n",
            CloseReason::Plaintext,
            turn,
        );
    }

    /// Answers `error`, ends in good order and lingers.
    pub(super) fn refuse(&mut self, error: &str, reason: CloseReason, turn: &mut Turn<'_>) {
        self.reason.get_or_insert(reason);
        let _ = self.client.push(error.as_bytes(), turn);
        self.client.end_output(true, turn);
        self.linger(turn);
    }

    /// Ends the client's side as a failed server does, without close_notify, and lingers.
    pub(super) fn cut(&mut self, reason: CloseReason, turn: &mut Turn<'_>) {
        self.reason.get_or_insert(reason);
        self.client.end_output(false, turn);
        self.linger(turn);
    }

    /// Drops the backend, and what the client says from here on: only what is queued for the client still goes.
    pub(super) fn linger(&mut self, turn: &mut Turn<'_>) {
        self.phase = Phase::Refusing;
        self.dial_due = false;
        self.hang_up = HangUp::None;
        self.greeting = None;
        self.backend.break_output(turn);
        self.backend.input = Input::Eof;
        self.phase_deadline = Some(turn.now + LINGER);
    }

    /// Gives up on both sides at once, without a word, for `reason`.
    pub fn abandon(&mut self, reason: CloseReason, turn: &mut Turn<'_>) {
        self.reason.get_or_insert(reason);
        self.client.give_up(turn);
        self.backend.give_up(turn);
    }

    /// Ends both sides in good order, for `reason`, and closes within the linger time. `false` when the session was
    /// ending already.
    pub fn close(&mut self, reason: CloseReason, turn: &mut Turn<'_>) -> bool {
        if matches!(self.phase, Phase::Refusing | Phase::Closing | Phase::Closed) {
            return false;
        }
        self.reason.get_or_insert(reason);
        match self.phase {
            Phase::Introducing
            | Phase::Handshaking
            | Phase::Connecting
            | Phase::Securing
            | Phase::Greeting
            | Phase::HangingUp => {
                self.client.end_output(true, turn);
                self.linger(turn);
            }
            Phase::Relaying => {
                self.client.end_output(true, turn);
                self.backend.end_output(true, turn);
                self.phase = Phase::Closing;
                self.phase_deadline = Some(turn.now + LINGER);
            }
            Phase::Refusing | Phase::Closing | Phase::Closed => {}
        }
        true
    }
}
