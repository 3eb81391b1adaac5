//! When a session has waited long enough: deadlines, half-close, idling, draining.

use std::time::Duration;

use super::dial::{HandshakeEnd, HangUp};
use super::greeting::GreetingEnd;
use super::leg::{Input, Output};
use super::{CloseReason, Phase, Session, Turn};
use crate::time::Time;

/// How long a refused or finished client may go on sending into the void before its socket is closed: closing with
/// unread bytes would reset the connection and destroy what was just said.
pub(super) const LINGER: Duration = Duration::from_secs(2);

/// How long what the client still sends is carried to a backend that has ended. A real server that closes is gone;
/// only one that half-closes is still listening.
const BACKEND_ENDED_GRACE: Duration = Duration::from_secs(5);

/// How long a session whose lifetime is over goes on when it is owed something.
const LIFETIME_GRACE: Duration = Duration::from_secs(30);

/// How long a session whose lifetime is over must have been quiet, so that what a client may be about to ask is not cut.
const LIFETIME_QUIET: Duration = Duration::from_millis(100);
/// How a session is drained.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    since: Time,
    /// How long nothing must move before a session that is owed nothing is closed.
    quiet: Duration,
    reason: CloseReason,
}

impl Session {
    /// When [`Session::handle_timeout`] is to be called, if nothing happens before. It moves as bytes move.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        if self.phase == Phase::Closed {
            return None;
        }
        let age = [self.drain_deadline(), self.lifetime_deadline()];
        [self.phase_deadline, self.half_close_deadline(), self.idle_deadline()].into_iter().chain(age).flatten().min()
    }

    fn half_close_deadline(&self) -> Option<Time> {
        // A side that takes nothing more has ended as well. Its own end is not heard while receiving from it is paused,
        // and a peer that does not read could keep it paused for ever.
        let ended =
            [&self.client, &self.backend].iter().any(|leg| leg.input != Input::Open || leg.output == Output::Broken);
        let goes_on = self.phase == Phase::Relaying && !self.is_over();
        (goes_on && ended).then(|| self.last_moved + self.options.half_close_timeout)
    }

    fn idle_deadline(&self) -> Option<Time> {
        let idle_timeout = self.options.idle_timeout?;
        (self.phase == Phase::Relaying).then(|| self.last_moved + idle_timeout)
    }

    fn drain_deadline(&self) -> Option<Time> {
        let Drain { since, quiet, .. } = self.drain?;
        (self.phase == Phase::Relaying && self.is_owed_nothing()).then(|| self.last_moved.max(since) + quiet)
    }

    fn lifetime_deadline(&self) -> Option<Time> {
        let end = self.lifetime_end.filter(|_| self.phase == Phase::Relaying)?;
        let last = end + LIFETIME_GRACE;
        let quiet = self.last_moved.max(end) + LIFETIME_QUIET;
        Some(if self.is_owed_nothing() { quiet.min(last) } else { last })
    }

    /// Whether the client waits for nothing: the backend spoke last and no byte is held.
    #[must_use]
    pub fn is_owed_nothing(&self) -> bool {
        self.backend_spoke_last && !self.wants_turn() && self.client.queue.is_empty() && self.backend.queue.is_empty()
    }

    /// Acts on a deadline that has come; does nothing before that.
    pub fn handle_timeout(&mut self, turn: &mut Turn<'_>) {
        let has_come = |deadline: Option<Time>| deadline.is_some_and(|deadline| deadline <= turn.now);
        if has_come(self.phase_deadline) {
            self.phase_deadline = None;
            self.handle_phase_timeout(turn);
        } else if has_come(self.half_close_deadline()) {
            let reason = match (self.client.output, self.backend.output, self.reason) {
                (Output::Broken, ..) => CloseReason::ClientReset,
                (_, Output::Broken, Some(reason @ CloseReason::BackendTruncated)) => reason,
                (_, Output::Broken, _) => CloseReason::BackendReset,
                _ => CloseReason::HalfCloseTimeout,
            };
            self.reason = Some(reason);
            self.close(reason, turn);
        } else if has_come(self.idle_deadline()) {
            self.close(CloseReason::IdleTimeout, turn);
        } else if has_come(self.drain_deadline())
            && let Some(Drain { reason, .. }) = self.drain
        {
            self.close(reason, turn);
        } else if has_come(self.lifetime_deadline()) {
            let complete = self.is_owed_nothing();
            self.close(if complete { CloseReason::MaxLifetime } else { CloseReason::MaxLifetimeCutOff }, turn);
        }
    }

    fn handle_phase_timeout(&mut self, turn: &mut Turn<'_>) {
        match self.phase {
            Phase::Introducing => self.turn_away(CloseReason::ProxyHeaderTimeout, turn),
            Phase::Handshaking => {
                self.reason.get_or_insert(CloseReason::HandshakeTimeout);
                self.client.end_output(true, turn);
                self.linger(turn);
            }
            Phase::Connecting => self.abandon_due = true,
            Phase::Securing => self.hang_up(HangUp::Now(HandshakeEnd::Timeout), turn),
            Phase::Greeting => self.fail_greeting(GreetingEnd::Timeout, turn),
            Phase::HangingUp => self.hurry_hang_up(turn),
            // The client's time is over. What it had said is still carried to a backend that goes on.
            Phase::Relaying if self.backend.input == Input::Open => self.client.give_up(turn),
            Phase::Relaying | Phase::Refusing | Phase::Closing => {
                self.client.give_up(turn);
                self.backend.give_up(turn);
            }
            Phase::Closed => {}
        }
    }

    /// Starts the time that a client has to end its side, once nothing more goes to it.
    pub(super) fn handle_output_ended(&mut self, side: super::Side, now: Time) {
        if side == super::Side::Client {
            let backend_listens = self.phase == Phase::Relaying && self.backend.output == Output::Open;
            let grace = if backend_listens { BACKEND_ENDED_GRACE } else { LINGER };
            self.phase_deadline = Some(now + grace);
        }
    }

    /// From here on closes for `reason` as soon as nothing is owed and nothing has moved for `quiet`. A session that is
    /// owed something goes on; where the process ends, the shard cuts it off.
    pub fn begin_drain(&mut self, quiet: Duration, reason: CloseReason, now: Time) {
        self.drain = Some(Drain { since: now, quiet, reason });
    }

    /// From `end` on it closes as soon as nothing is owed and nothing has moved for a moment, and after a grace in any
    /// case.
    pub const fn limit_lifetime(&mut self, end: Time) {
        self.lifetime_end = Some(end);
    }
}
