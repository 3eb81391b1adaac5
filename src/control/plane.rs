//! What the control plane works with, and what it says of it: at the start, at the end, to the service manager.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::{error, info, warn};

use super::admin::Admin;
use super::reload::ReloadCounts;
use super::{
    Heartbeat, InForce, Logging, Notifier, Reload, Rosters, ShownCertificate, Takeover, health, kernel_release, report,
};
use crate::config::{Config, Machine, show_size};
use crate::events::EventReceiver;
use crate::mailbox::Doorbell;
use crate::metrics::Totals;

/// What the control plane works with. The data plane runs already: every listener listens.
pub struct Plane<'a> {
    /// What the data plane does.
    pub in_force: InForce,
    /// The log of this thread.
    pub logging: &'a Logging,
    /// The way to the service manager.
    pub notifier: Notifier,
    /// What shards and dispatcher tell.
    pub events: Vec<EventReceiver>,
    /// The doorbell that all of `events` share.
    pub doorbell: Doorbell,
    /// The non-blocking eventfd by which whoever rings that doorbell wakes this thread.
    pub wake: OwnedFd,
    /// What the data plane obeys.
    pub orders: Orders,
    /// The servers, and the way to have the shards follow a change.
    pub rosters: Arc<Rosters>,
    /// How the servers' host names are looked up.
    pub machine: Machine,
    /// What to find out about the servers, and how.
    pub checks: health::Plan,
    /// How to know that the data plane is alive.
    pub heartbeat: Heartbeat,
    /// How to have the data plane use what has changed in files.
    pub reload: Reload,
    /// Where administrators connect, if anywhere.
    pub admin: Option<Admin>,
    /// The certificates that clients are shown.
    pub certificates: Vec<ShownCertificate>,
    /// How to be replaced, and what this process replaces.
    pub takeover: Takeover,
    /// Sent once all threads of the data plane have ended.
    pub ended: oneshot::Receiver<Ending>,
}

/// What the data plane obeys. Neither may wait.
pub struct Orders {
    /// Accept nothing more, end each session when it is owed nothing, and all of them by this deadline.
    pub drain: Box<dyn Fn(Duration)>,
    /// End at once.
    pub stop: Box<dyn Fn()>,
    /// Tell from now on, or not, when a session's server is connected.
    pub tell_reached: Box<dyn Fn(bool)>,
}

impl fmt::Debug for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orders").finish_non_exhaustive()
    }
}

/// How the data plane ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Sessions that were cut off: by the deadline, or by the order to stop.
    pub sessions_cut_off: u64,
    /// What all shards and the dispatcher have counted.
    pub totals: Totals,
    /// Why it ended without being told to, or could not end.
    pub failure: Option<String>,
}

impl Plane<'_> {
    /// Says that the program serves, and with what.
    pub(super) fn log_start(&self) {
        let running = self.in_force.read();
        let Config { runtime, limits, warnings, .. } = &*running.config;
        for warning in warnings {
            warn!(target: "ringwall::config", "{warning}");
        }
        info!(
            target: "ringwall::control",
            version = %env!("CARGO_PKG_VERSION"),
            kernel = %kernel_release(),
            shards = runtime.cores.len(),
            listeners = %running.shown_listeners(),
            max_connections = limits.max_connections,
            session_memory_max = %show_size(running.config.session_memory_max()),
            shard_memory = %show_size(limits.shard_memory),
            "started"
        );
        self.notifier.ready(&self.status());
    }

    /// For the service manager: what this is.
    pub(super) fn status(&self) -> String {
        let running = self.in_force.read();
        let Config { listeners, runtime, .. } = &*running.config;
        format!("serving, listeners: {}, shards: {}", listeners.len(), runtime.cores.len())
    }

    /// Says how it ended.
    pub(super) fn log_end(&self, ending: &Ending, reloads: ReloadCounts) {
        report::log_totals(&ending.totals, reloads);
        let sessions_cut_off = ending.sessions_cut_off;
        match &ending.failure {
            None => info!(target: "ringwall::control", sessions_cut_off, "ended"),
            Some(failure) => error!(target: "ringwall::control", sessions_cut_off, %failure, "ended by a failure"),
        }
    }
}

impl fmt::Debug for Plane<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plane").field("in_force", &self.in_force).finish_non_exhaustive()
    }
}
