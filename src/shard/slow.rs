//! Slow requests on their way to the log: so many a second, that the events of other things find room beside them.

use std::sync::Arc;

use super::Shard;
use crate::events::{Event, SlowRecord};
use crate::io::Driver;
use crate::multiplex::SlowRequest;

/// Slow requests of which the log is told in a second: an eighth of what its reader may be behind. The log has a limit of its
/// own, which an operator sets; this one keeps a server that stands still for a moment from filling the way there.
pub(super) const SLOW_PER_SECOND_MAX: u32 = 1_024;

impl<D: Driver> Shard<D> {
    /// Tells of a slow request of a trunk, or leaves it out.
    pub(super) fn tell_slow(&mut self, trunk: usize, slow: SlowRequest) {
        if !self.slow.admits(self.now) {
            return;
        }
        let trunk = self.trunks.at(trunk);
        let session = trunk.sessions.at(slow.client);
        let record = SlowRecord {
            client: session.and_then(|id| self.table.entry(id)?.client_address),
            session: session.map(|id| (id.slot, id.generation)),
            listener: Arc::clone(&trunk.rules.ledger),
            shard: self.options.id,
            command: slow.command,
            took: slow.took,
            is_shared: slow.is_shared,
            in_front: slow.in_front,
        };
        self.links.events.send(Event::Slow(Box::new(record)));
    }

    /// Tells how many were left out in the second that is over.
    pub(super) fn tell_left_out(&mut self) {
        if let Some(requests) = self.slow.take_left_out(self.now) {
            self.links.events.send(Event::SlowLeftOut { requests });
        }
    }
}
