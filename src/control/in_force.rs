//! The configuration in force: what the program does, as of its start or the last reload that succeeded.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::Config;
use crate::ledger::Ledger;

/// What runs. It never changes: a reload puts another in its place.
#[derive(Clone, Debug)]
pub struct Running {
    /// What the operator wrote.
    pub config: Arc<Config>,
    /// Its listeners, in their order.
    pub listeners: Vec<RunningListener>,
    /// Listeners that are gone from the configuration and may have sessions left.
    pub left: Vec<Arc<Ledger>>,
}

/// A listener that runs.
#[derive(Clone, Debug)]
pub struct RunningListener {
    /// Where it really listens.
    pub address: SocketAddr,
    /// Who it is to the data plane, and what has come to it.
    pub ledger: Arc<Ledger>,
}

/// The configuration in force, for whoever wants to know. Clones are the same.
#[derive(Clone, Debug)]
pub struct InForce(Arc<Mutex<Arc<Running>>>);

impl InForce {
    /// What was started.
    #[must_use]
    pub fn new(running: Running) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(running))))
    }

    /// What runs at the moment.
    #[must_use]
    pub fn read(&self) -> Arc<Running> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Something else runs from here on.
    pub fn exchange(&self, running: Running) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(running);
    }
}

impl Running {
    /// Its listeners, where each really listens, and where their clients' bytes go.
    pub(super) fn shown_listeners(&self) -> String {
        let Config { listeners, backends, .. } = &*self.config;
        let shown = listeners.iter().zip(&self.listeners).map(|(listener, RunningListener { address, .. })| {
            format!("{} on {address} to {}", listener.name, backends[listener.backend].name)
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    /// The ledgers of all that bear a listener's name: its own, and those of listeners before it that may have sessions
    /// left.
    pub(super) fn ledgers_named(&self, name: &str) -> impl Iterator<Item = &Arc<Ledger>> {
        let running = self.listeners.iter().map(|listener| &listener.ledger);
        running.chain(&self.left).filter(move |ledger| ledger.name() == name)
    }
}
