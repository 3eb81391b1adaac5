//! What whoever dials a server has seen last: why it could not be reached, until it could.
//!
//! Shards note it, and none of them ever waits for it: what another one notes at the same moment says as much.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::time::Time;

/// The attempts to reach a server.
#[derive(Debug, Default)]
pub struct Dials {
    /// Whether there is a failure: so that a success, of which there are many, reads one flag.
    fail: AtomicBool,
    failure: Mutex<Option<(Time, Box<str>)>>,
}

impl Dials {
    /// It could not be reached: `why`, in one line without secrets.
    pub fn note_failure(&self, now: Time, why: &str) {
        if let Ok(mut failure) = self.failure.try_lock() {
            *failure = Some((now, why.into()));
            self.fail.store(true, Ordering::Relaxed);
        }
    }

    /// It could.
    pub fn note_success(&self) {
        if self.fail.load(Ordering::Relaxed)
            && let Ok(mut failure) = self.failure.try_lock()
        {
            *failure = None;
            self.fail.store(false, Ordering::Relaxed);
        }
    }

    /// When it could not be reached last, and why, if it has not been reached since.
    #[must_use]
    pub fn failure(&self) -> Option<(Time, Box<str>)> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_known_until_the_server_is_reached() {
        let dials = Dials::default();
        assert_eq!(dials.failure(), None);
        dials.note_failure(Time::from_nanos(7), "refused");
        dials.note_failure(Time::from_nanos(8), "no answer");
        assert_eq!(dials.failure(), Some((Time::from_nanos(8), "no answer".into())));
        dials.note_success();
        assert_eq!(dials.failure(), None);
        dials.note_failure(Time::from_nanos(9), "refused");
        assert_eq!(dials.failure(), Some((Time::from_nanos(9), "refused".into())));
    }
}
