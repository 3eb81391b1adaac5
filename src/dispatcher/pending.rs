//! The sessions whose bytes are held, and since when: how the dispatcher spots stalls without asking anybody.

use std::collections::HashMap;
use std::time::Duration;

use crate::mailbox::PendingReader;
use crate::time::Time;

/// A session that has been pending for this long is looked at.
pub(super) const STALL: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug)]
struct Pending {
    since: Time,
    reported: bool,
}

/// The pending sessions of all shards.
#[derive(Debug, Default)]
pub(super) struct PendingList {
    sessions: HashMap<(usize, u32), Pending>,
}

impl PendingList {
    /// Takes what the shard has published since the last call.
    pub(super) fn update(&mut self, shard: usize, reader: &mut PendingReader, now: Time) {
        let resync = reader.take_resync();
        reader.drain(|hint| {
            if hint.pending {
                self.sessions.insert((shard, hint.slot), Pending { since: now, reported: false });
            } else {
                self.sessions.remove(&(shard, hint.slot));
            }
        });
        if resync {
            self.resync(shard, reader, now);
        }
    }

    /// Hints were lost: the flags themselves are the truth. What is known of a session that is still pending stays.
    fn resync(&mut self, shard: usize, reader: &PendingReader, now: Time) {
        let mut truth = HashMap::new();
        let fresh = Pending { since: now, reported: false };
        reader.scan(|slot| {
            truth.insert((shard, slot), self.sessions.get(&(shard, slot)).copied().unwrap_or(fresh));
        });
        self.sessions.retain(|&(other, _), _| other != shard);
        self.sessions.extend(truth);
    }

    /// Shard and slot of each, in no order.
    pub(super) fn sessions(&self) -> impl Iterator<Item = (usize, u32)> {
        self.sessions.keys().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Names each session that has been pending for too long, once: shard, slot, for how long.
    pub(super) fn take_stalled(&mut self, now: Time, mut each: impl FnMut(usize, u32, Duration)) {
        for (&(shard, slot), pending) in &mut self.sessions {
            let held = now.since(pending.since);
            if held >= STALL && !pending.reported {
                pending.reported = true;
                each(shard, slot, held);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::pending_flags;

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_session_pending_for_five_seconds_is_named_once() {
        let (mut publisher, mut reader) = pending_flags(64, 8);
        let mut list = PendingList::default();
        publisher.publish(7, true);
        publisher.flush();
        list.update(0, &mut reader, at(10));
        let mut named = Vec::new();
        for now in [14, 15, 16] {
            list.take_stalled(at(now), |shard, slot, held| named.push((shard, slot, held)));
        }
        assert_eq!(named, [(0, 7, Duration::from_secs(5))]);
        publisher.publish(7, false);
        publisher.flush();
        list.update(0, &mut reader, at(17));
        assert!(list.is_empty());
    }

    #[test]
    fn lost_hints_are_made_good_from_the_flags() {
        let (mut publisher, mut reader) = pending_flags(64, 2);
        let mut list = PendingList::default();
        for slot in 0..5 {
            publisher.publish(slot, true);
        }
        publisher.flush();
        list.update(0, &mut reader, at(1));
        assert_eq!(list.sessions.len(), 5);
        for slot in 0..5 {
            publisher.publish(slot, false);
        }
        publisher.flush();
        list.update(0, &mut reader, at(2));
        assert!(list.is_empty());
    }
}
