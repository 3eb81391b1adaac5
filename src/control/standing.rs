//! How the program stands: what the control plane knows and whoever asks is told.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::reload::ReloadCounts;
use crate::tls::CertificateFacts;

/// What the data plane has been told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Serving,
    Draining,
    Stopping,
}

/// A certificate that clients of a listener are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownCertificate {
    /// The listener's name.
    pub listener: Box<str>,
    /// What is to be known of it.
    pub facts: CertificateFacts,
}

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) reloads: ReloadCounts,
    /// Whether the last reload failed.
    pub(super) reload_failed: bool,
    /// Records that never became a line of the log.
    pub(super) records_dropped: u64,
    pub(super) certificates: Arc<[ShownCertificate]>,
}

/// How the program stands. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing(Arc<Mutex<State>>);

impl Standing {
    pub(super) fn new(certificates: &[ShownCertificate]) -> Self {
        Self(Arc::new(Mutex::new(State { certificates: certificates.into(), ..State::default() })))
    }

    /// As it is.
    pub(super) fn read(&self) -> State {
        self.lock().clone()
    }

    /// Changes it.
    pub(super) fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
