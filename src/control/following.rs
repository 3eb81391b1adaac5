//! What follows a reload in the control plane: checks, look-ups, the log, and a takeover that is under way.

use std::mem;
use std::sync::Arc;

use tracing::{error, info};

use super::admin::NextDoor;
use super::pacing::Pacing;
use super::reload::Reloaded;
use super::resolve::Resolving;
use super::{Plane, Supervisor};

impl Supervisor<'_, '_> {
    /// Has checks, look-ups and the log follow what was read.
    pub(super) fn follow(&mut self, reloaded: &mut Reloaded) {
        let Plane { in_force, logging, machine, orders, rosters, .. } = self.plane;
        let (config, changes) = (Arc::clone(&in_force.read().config), reloaded.changes.clone().unwrap_or_default());
        let mut followed = Ok(());
        if let Some(checks) = reloaded.checks.take() {
            followed = self.health.follow(checks);
        }
        if !changes.backends.is_empty() {
            followed = followed.and_then(|()| {
                self.resolving = Resolving::start(&config, machine, rosters)?;
                Ok(())
            });
        }
        if let Err(error) = followed {
            error!(target: "ringwall::control", %error, "servers are checked and looked up as before: no thread for it");
        }
        if changes.sections.contains(&"log") {
            if reloaded.log.is_some() {
                info!(target: "ringwall::control", to = %config.log.target, "the log goes on elsewhere");
            }
            logging.exchange(config.log.format, reloaded.log.take());
            self.pacing = Pacing::new(&config.log);
            if let Some(tells_reached) = logging.follow(&config.log) {
                (orders.tell_reached)(tells_reached);
            }
        }
        if let NextDoor::Other(socket) = mem::take(&mut reloaded.admin) {
            if let Some(Err(error)) = self.admin.as_mut().map(|door| door.exchange(socket)) {
                error!(target: "ringwall::control", %error, "administrators are answered where they were");
            }
            if self.takeovers.call_off() {
                self.tell_takeover_failed("the admin socket has changed, and it has that of before; order it again");
            }
        }
        if !changes.listeners.is_empty() && self.takeovers.call_off() {
            self.tell_takeover_failed("listeners have changed, and it has those of before; order it again");
        }
    }
}
