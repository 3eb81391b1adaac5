//! What rustls tells its callbacks and keeps from whoever drives the connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// One engine's part in it: what its own client has made the callbacks hear.
pub(super) struct Hearing {
    overheard: Arc<Overheard>,
    pub(super) heard: Heard,
}

impl Hearing {
    pub(super) fn new(overheard: Arc<Overheard>) -> Self {
        Self { overheard, heard: Heard::default() }
    }

    /// Before a call into rustls in which callbacks may run: puts back what they must know.
    pub(super) fn remind(&self) {
        self.overheard.heard().certificates_until = self.heard.certificates_until;
    }

    /// After it: takes what they have heard. It must not wait for another engine, also when it is from a second hello.
    pub(super) fn note(&mut self) {
        let mut heard = self.overheard.heard();
        self.heard.server_name = heard.server_name.take().or(self.heard.server_name.take());
        self.heard.refused = heard.refused.take().or(self.heard.refused.take());
        self.heard.certificates_until = heard.certificates_until.take();
    }
}
