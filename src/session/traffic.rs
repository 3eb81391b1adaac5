//! Bytes from one side to the other: what arrives is opened, where its side speaks TLS, and said to the side across.

use super::close::CloseReason;
use super::dial::{HandshakeEnd, HangUp};
use super::greeting::GreetingEnd;
use super::leg::{Input, Leg, Output};
use super::transport::Transport;
use super::{Phase, Session, Side, Turn};
use crate::tls::{self, Failure, OpenStatus};

/// TLS records opened for one session in one go, about 0.1 ms of work at most; the rest waits for the next turn, so
/// that a flood of tiny records does not hold up the shard's other sessions.
const RECORDS_PER_TURN_MAX: usize = 256;

impl Session {
    /// Where bytes from `side` come from and where they go.
    const fn legs_from(&mut self, side: Side) -> (&mut Leg, &mut Leg) {
        match side {
            Side::Client => (&mut self.client, &mut self.backend),
            Side::Backend => (&mut self.backend, &mut self.client),
        }
    }

    /// Takes bytes received from `side`. They are decrypted in place: the buffer's content is lost.
    pub fn handle_received(&mut self, side: Side, mut bytes: &mut [u8], turn: &mut Turn<'_>) {
        if self.is_introducing() && side == Side::Client {
            let taken = self.introduce(bytes, turn);
            bytes = &mut bytes[taken..];
            if bytes.is_empty() {
                return;
            }
        }
        let leg = self.leg_mut(side);
        let first = std::mem::take(&mut leg.is_silent);
        leg.received_bytes += bytes.len() as u64;
        turn.tally.received_bytes[side.index()].add(bytes.len() as u64);
        let is_plain = leg.transport.is_plain();
        let is_deaf = matches!(self.phase, Phase::Refusing | Phase::Closing | Phase::Closed);
        if is_deaf || self.is_given_up(side) || self.leg(side).input != Input::Open {
            return;
        }
        // What can go nowhere does not keep a session alive.
        if self.leg(side.other()).output == Output::Open {
            self.last_moved = turn.now;
        }
        match side {
            Side::Backend if self.phase == Phase::Greeting && is_plain => self.hear_greeting(bytes, turn),
            _ if is_plain => self.relay(side, bytes, turn),
            Side::Client if first && tls::looks_like_plaintext(bytes) => self.refuse_plaintext(turn),
            Side::Backend if first && tls::is_plaintext_reply(bytes) => {
                self.fail_backend_handshake(Failure::PlaintextServer, turn);
            }
            Side::Client | Side::Backend => self.open(side, bytes, turn),
        }
    }

    /// Goes on with a side whose records were more than one turn's work.
    pub fn resume(&mut self, turn: &mut Turn<'_>) {
        for side in Side::BOTH {
            if self.has_turn_due(side) {
                self.open(side, &mut [], turn);
            }
            if !self.has_turn_due(side)
                && let Some(error) = self.leg_mut(side).end_due.take()
            {
                self.handle_end(side, error, turn);
            }
        }
    }

    /// Ciphertext of one side to plaintext for the other.
    fn open(&mut self, side: Side, bytes: &mut [u8], turn: &mut Turn<'_>) {
        // What answers a greeting is not the client's; it may come behind the end of the handshake in one read.
        let mut answers = (self.greeting.is_some() && side == Side::Backend).then(Vec::new);
        let (from, to) = self.legs_from(side);
        let Transport::Tls(engine) = &mut from.transport else { return };
        let (mut spoke, mut pushed) = (false, Ok(()));
        let (now, tally) = (turn.now, turn.tally);
        let opened = engine.open(bytes, RECORDS_PER_TURN_MAX, turn.pool, |pool, plaintext| {
            spoke = true;
            if let Some(answers) = &mut answers {
                answers.extend_from_slice(plaintext);
            } else if pushed.is_ok() {
                pushed = to.push(plaintext, &mut Turn { now, pool, tally });
            }
        });
        turn.tally.records_opened.add(opened.records as u64);
        if spoke {
            from.has_spoken = true;
            pushed = pushed.and_then(|()| to.end_chunk(turn));
        }
        from.queue_replies(turn);
        from.out_of_budget = opened.status == OpenStatus::Budget;
        if spoke && answers.is_none() {
            self.backend_spoke_last = side == Side::Backend;
        }
        // What comes behind the end of the handshake in one read is not part of it.
        if self.phase == Phase::Handshaking && !self.client.is_handshaking() {
            self.handle_handshake_done(turn);
        } else if self.phase == Phase::Securing && !self.backend.is_handshaking() {
            self.handle_backend_handshake_done(turn);
        }
        if let Err(failure) = pushed {
            self.fail_seal(side.other(), failure, turn);
        }
        if let Some(answers) = answers.filter(|answers| !answers.is_empty()) {
            self.hear_greeting(&answers, turn);
        }
        match side {
            Side::Client => self.handle_client_status(opened.status, turn),
            Side::Backend => self.handle_backend_status(opened.status, turn),
        }
    }

    fn handle_client_status(&mut self, status: OpenStatus, turn: &mut Turn<'_>) {
        match status {
            OpenStatus::Drained | OpenStatus::Budget => {}
            OpenStatus::Closed => self.end_client(CloseReason::ClientClosed, Input::Ended, turn),
            OpenStatus::Failed(failure) => return self.fail_client(failure, turn),
        }
        if self.phase == Phase::Handshaking && self.client.input != Input::Open {
            self.reason = Some(CloseReason::HandshakeAborted);
            self.client.end_output(true, turn);
            self.linger(turn);
        }
    }

    fn handle_backend_status(&mut self, status: OpenStatus, turn: &mut Turn<'_>) {
        let (securing, greeting) = (self.phase == Phase::Securing, self.phase == Phase::Greeting);
        match status {
            OpenStatus::Drained | OpenStatus::Budget => {}
            OpenStatus::Closed if greeting => self.fail_greeting(GreetingEnd::Closed, turn),
            OpenStatus::Closed if securing => self.hang_up(HangUp::Now(HandshakeEnd::Closed), turn),
            OpenStatus::Closed => self.end_backend(turn),
            OpenStatus::Failed(failure) if securing || greeting => self.fail_backend_handshake(failure, turn),
            OpenStatus::Failed(failure) => self.fail_backend(failure, turn),
        }
    }

    /// Plaintext of one side, as it came, to the other.
    pub(super) fn relay(&mut self, side: Side, bytes: &[u8], turn: &mut Turn<'_>) {
        self.backend_spoke_last = side == Side::Backend;
        let (from, to) = self.legs_from(side);
        from.has_spoken = true;
        let pushed = to.push(bytes, turn).and_then(|()| to.end_chunk(turn));
        if let Err(failure) = pushed {
            self.fail_seal(side.other(), failure, turn);
        }
    }

    /// Whether [`Session::resume`] has work to do.
    #[must_use]
    pub const fn wants_turn(&self) -> bool {
        self.has_turn_due(Side::Client) || self.has_turn_due(Side::Backend)
    }

    pub(super) const fn has_turn_due(&self, side: Side) -> bool {
        let leg = self.leg(side);
        let is_heard = matches!(leg.input, Input::Open) && !matches!(self.phase, Phase::Closed);
        leg.out_of_budget && is_heard && !self.is_given_up(side)
    }

    /// Whether the connection to `side` is being given up, so that nothing from it counts.
    const fn is_given_up(&self, side: Side) -> bool {
        matches!((self.phase, side), (Phase::HangingUp, Side::Backend))
    }
}
