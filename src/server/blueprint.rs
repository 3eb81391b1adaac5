//! What the shards are built from: of one configuration, with all that was read for it.

use super::plans::Plans;
use super::rings::slots;
use crate::config::Config;
use crate::control::{self, Hold};
use crate::dispatcher;
use crate::roster::Roster;
use crate::sources::SourceCounts;

/// What every shard builds itself from. Read while the threads start, and not after.
#[derive(Debug)]
pub(super) struct Blueprint {
    pub(super) plans: Plans,
    pub(super) rosters: Vec<Roster>,
    pub(super) sources: SourceCounts,
    pub(super) slots: u32,
    pub(super) memory_bytes: usize,
    pub(super) handshakes_max: usize,
    pub(super) tells_reached: bool,
}

impl Blueprint {
    pub(super) fn of(config: &Config, plans: Plans, holds: &[Hold]) -> Self {
        let limits = &config.limits;
        Self {
            plans,
            rosters: holds.iter().map(|hold| hold.roster.clone()).collect(),
            sources: dispatcher::source_counts(u64::from(limits.max_connections)),
            slots: slots(config),
            memory_bytes: limits.shard_memory,
            handshakes_max: limits.max_handshakes as usize,
            tells_reached: control::tells_reached(),
        }
    }
}
