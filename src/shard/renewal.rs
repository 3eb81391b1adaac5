//! Another configuration: the listeners and backends of a shard from the next client on.
//!
//! Sessions that are there stay and keep what they began with. Those whose listener or backend is gone are drained, and
//! their backend stays for as long as one of them may need it.

use std::mem;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use slab::Slab;

use super::backends::Upstream;
use super::listeners::Entrance;
use super::{Backend, Listener, Shard};
use crate::io::Driver;
use crate::ledger::Ledger;
use crate::session::close::CloseReason;
use crate::tls::{Acceptor, Connector};

/// What a shard is from the next client on.
#[derive(Debug)]
pub struct Renewal {
    /// All its listeners.
    pub listeners: Vec<Listener>,
    /// All its backends, as the listeners number them.
    pub backends: Vec<Backend>,
    /// As [`Options::memory_bytes`](super::Options::memory_bytes).
    pub memory_bytes: usize,
    /// As [`Options::handshakes_max`](super::Options::handshakes_max).
    pub handshakes_max: usize,
    /// How long a session must have been quiet at least to be closed when its listener or backend is gone.
    pub quiet: Duration,
    /// Where the replaced ones go: to whoever waits for the change and has the time to drop them.
    pub replaced: mpsc::Sender<Replaced>,
}

/// What a shard has spoken TLS with.
#[derive(Debug)]
pub struct Replaced {
    /// Of its listeners.
    pub acceptors: Vec<Acceptor>,
    /// Of all servers.
    pub connectors: Vec<Connector>,
}

/// What a renewal leaves out of what there was before it.
#[derive(Default)]
struct Gone {
    listeners: Vec<Arc<Ledger>>,
    /// By their keys.
    backends: Vec<usize>,
}

impl<D: Driver> Shard<D> {
    pub(super) fn renew(&mut self, renewal: Renewal) {
        let Renewal { listeners, backends, memory_bytes, handshakes_max, quiet, replaced } = renewal;
        self.options.memory_bytes = memory_bytes;
        self.handshakes.set_max(handshakes_max);
        let mut gone = Gone::default();
        let (keys, connectors) = self.renew_backends(backends, &mut gone);
        let acceptors = self.renew_listeners(listeners, &keys, &mut gone);
        self.drain_what_is_gone(&gone, quiet);
        gone.backends.iter().for_each(|&key| self.drop_if_left(key));
        // Whoever asked for the change may have ended.
        let _ = replaced.send(Replaced { acceptors, connectors });
    }

    /// Takes over the backends; their keys in their order, and the connectors that were used.
    fn renew_backends(&mut self, backends: Vec<Backend>, gone: &mut Gone) -> (Vec<usize>, Vec<Connector>) {
        let known: Vec<_> = self.backends.iter().map(|(key, upstream)| (upstream.id, key)).collect();
        let mut used = Vec::new();
        let keys = backends.into_iter().map(|backend| {
            self.seed = self.seed.wrapping_add(1);
            match known.iter().find(|(id, _)| *id == backend.id) {
                Some(&(_, key)) => {
                    used.extend(self.backends[key].renew(backend, self.seed));
                    key
                }
                None => self.backends.insert(Upstream::new(backend, self.options.id, self.seed)),
            }
        });
        let keys: Vec<_> = keys.collect();
        for (key, upstream) in self.backends.iter_mut().filter(|(key, upstream)| !upstream.gone && !keys.contains(key))
        {
            upstream.gone = true;
            gone.backends.push(key);
        }
        (keys, used)
    }

    /// Takes over the listeners; the acceptors that were used.
    fn renew_listeners(&mut self, listeners: Vec<Listener>, backends: &[usize], gone: &mut Gone) -> Vec<Acceptor> {
        let entrances = listeners.into_iter().map(|listener| Entrance::new(listener, backends)).collect();
        let before = mem::replace(&mut self.entrances, entrances);
        self.entrances.iter().for_each(|entrance| self.trunks.tell_slower_than(&entrance.rules));
        let stays = |ledger: &Ledger| self.entrances.iter().any(|entrance| *entrance.rules.ledger == *ledger);
        let left = before.iter().map(|entrance| &entrance.rules.ledger).filter(|ledger| !stays(ledger));
        gone.listeners.extend(left.cloned());
        before.into_iter().filter_map(|entrance| entrance.acceptor).collect()
    }

    /// Drains the sessions whose listener or backend is gone.
    fn drain_what_is_gone(&mut self, gone: &Gone, quiet: Duration) {
        if gone.listeners.is_empty() && gone.backends.is_empty() {
            return;
        }
        for id in self.table.ids().collect::<Vec<_>>() {
            let Some(entry) = self.table.entry(id) else { continue };
            let reason = if gone.backends.contains(&entry.rules.backend) {
                CloseReason::ServerDrained
            } else if gone.listeners.contains(&entry.rules.ledger) {
                CloseReason::ListenerDrained
            } else {
                continue;
            };
            self.begin_drain_of(id, quiet, reason);
            self.touch(id);
        }
    }

    /// Notes that a session of a backend has ended, which may be the last that a backend was kept for.
    pub(super) fn leave_backend(&mut self, key: usize) {
        self.backends[key].sessions -= 1;
        self.drop_if_left(key);
    }

    /// Drops a backend that is gone and has no session left.
    fn drop_if_left(&mut self, key: usize) {
        let upstream = &self.backends[key];
        if upstream.gone && upstream.sessions == 0 {
            self.queued -= self.backends.remove(key).queue.len();
        }
    }
}

/// The table of backends that a shard begins with, and the keys of the backends in their order.
pub(super) fn first_backends(backends: Vec<Backend>, shard: u16, seed: u64) -> (Slab<Upstream>, Vec<usize>) {
    let mut table = Slab::new();
    let upstreams = (seed..).zip(backends).map(|(seed, backend)| Upstream::new(backend, shard, seed));
    let keys = upstreams.map(|upstream| table.insert(upstream)).collect();
    (table, keys)
}
