//! What rustls tells its callbacks and keeps from whoever drives the connection.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the callbacks of one acceptor have heard during the engine's current call into rustls.
///
/// The resolver, the verifier and the ticket producer run inside such a call, so what is here belongs to the engine
/// that makes it: it puts back what it knows before the call and takes what is new after it. One thread uses it, so
/// the lock is never waited for.
#[derive(Debug, Default)]
pub(super) struct Overheard(Mutex<Heard>);

/// What there is to hear about one client.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The name that it asks for.
    pub(super) server_name: Option<Box<str>>,
    /// The last second, since 1970, at which the certificates that it has shown are all valid.
    pub(super) certificates_until: Option<u64>,
    /// Who it is, where that is known and nobody that the rules allow.
    pub(super) refused: Option<Box<str>>,
}

impl Overheard {
    pub(super) fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
