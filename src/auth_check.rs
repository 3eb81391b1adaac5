//! Whether a server asks whoever connects for a password: what was last seen, and for how long that is believed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::time::Time;

/// How long a server that has asked for a password is taken to go on asking. Short, because an operator may open it at
/// any time; long enough that a busy listener's connections hardly ever pay for the question.
const BELIEVED: Duration = Duration::from_secs(10);

/// What a server must be like before a listener's clients are let at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Nobody is let in who has not authenticated, unless permissions were taken from the default user: then somebody
    /// has given thought to strangers.
    Guarded,
    /// Nobody is let in at all: whoever says RESET becomes who it was before it authenticated.
    Closed,
}

/// What was last seen of one server. Clones are the same cell, which all shards share: it is read once for a connection
/// and written once in ten seconds.
///
/// ```text
/// | when it asked for a password or for permissions, in units of 2 ns: 63 bits | a password: 1 |
/// ```
#[derive(Clone, Debug, Default)]
pub struct AuthCheck(Arc<AtomicU64>);

impl AuthCheck {
    /// A server that was never asked.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes that a server has not let a stranger in: because of the password that it asks for, or else because of
    /// missing permissions.
    pub fn note(&self, now: Time, asks_for_auth: bool) {
        self.0.store(now.as_nanos() & !1 | u64::from(asks_for_auth), Ordering::Relaxed);
    }

    /// Whether the server is known well enough to be what `demand` wants, so that it need not be asked.
    #[must_use]
    pub fn meets(&self, demand: Demand, now: Time) -> bool {
        let seen = self.0.load(Ordering::Relaxed);
        let asks_for_auth = seen & 1 == 1;
        let fits = asks_for_auth || demand == Demand::Guarded;
        seen != 0 && fits && now.since(Time::from_nanos(seen & !1)) < BELIEVED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_server_that_was_never_asked_is_asked() {
        assert!(!AuthCheck::new().meets(Demand::Guarded, at(1)));
    }

    #[test]
    fn what_was_seen_is_believed_for_ten_seconds() {
        let check = AuthCheck::new();
        check.note(at(100), true);
        for demand in [Demand::Guarded, Demand::Closed] {
            assert!(check.meets(demand, at(100)) && check.meets(demand, at(109)));
            assert!(!check.meets(demand, at(110)));
        }
        assert!(check.clone().meets(Demand::Closed, at(109)));
    }

    #[test]
    fn missing_permissions_guard_a_server_and_do_not_close_it() {
        let check = AuthCheck::new();
        check.note(at(100), false);
        assert!(check.meets(Demand::Guarded, at(101)));
        assert!(!check.meets(Demand::Closed, at(101)));
    }
}
