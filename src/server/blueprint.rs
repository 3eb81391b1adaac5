//! What the shards are built from: of one configuration, with all that was read for it.

use super::listener_tls::Common;
use super::plans::{BackendPlan, ListenerPlan};
use super::rings::slots;
use crate::config::{Config, Keyring};
use crate::control;
use crate::dispatcher;
use crate::roster::Roster;
use crate::sources::SourceCounts;

/// What every shard builds itself from. Read while the threads start, and not after.
#[derive(Debug)]
pub(super) struct Blueprint {
    pub(super) listeners: Vec<ListenerPlan>,
    pub(super) backends: Vec<BackendPlan>,
    pub(super) sources: SourceCounts,
    pub(super) slots: u32,
    pub(super) memory_bytes: usize,
    pub(super) handshakes_max: usize,
    pub(super) tells_reached: bool,
}

impl Blueprint {
    pub(super) fn of(config: &Config, rosters: &[Roster], keyring: Keyring, common: &Common) -> Self {
        let listeners = config.listeners.iter().zip(keyring.listeners).zip(keyring.passwords);
        let plan =
            |((listener, credentials), passwords)| ListenerPlan::of(config, listener, credentials, passwords, common);
        let listeners = listeners.map(plan);
        let listeners = listeners.collect();
        let shards = config.runtime.cores.len();
        let backends = config.backends.iter().zip(rosters).zip(keyring.backends);
        let backends =
            backends.map(|((backend, roster), read)| BackendPlan::of(backend, roster, shards, read)).collect();
        let limits = &config.limits;
        let admissions: Vec<_> = config.listeners.iter().map(|listener| listener.admission.limits()).collect();
        Self {
            listeners,
            backends,
            sources: dispatcher::source_counts(u64::from(limits.max_connections), admissions.iter()),
            slots: slots(config),
            memory_bytes: limits.shard_memory,
            handshakes_max: limits.max_handshakes as usize,
            tells_reached: control::tells_reached(),
        }
    }
}
