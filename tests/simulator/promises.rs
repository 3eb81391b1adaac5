//! What the proxy owes while it runs: checked after each turn, and whenever the world stands still.
//!
//! The world stands still when nobody is awake and nothing is on the way: only timers are left. Whatever is owed then
//! and does not wait for a timer will never come: a wake-up was missed, a receive was not armed, bytes were forgotten.

use std::time::Duration;

use ringwall::dispatcher::REFUSALS_MAX;
use ringwall::pool::LARGE_BYTES;
use ringwall::shard::Shard;

use crate::backend::Backend;
use crate::client::Client;
use crate::run::Run;
use crate::script::Leave;
use crate::simulation::SimDriver;
use crate::speech::Speaker;

/// The longest that the dispatcher waits before it tries to accept or to hand over again.
const RETRY_MAX: Duration = Duration::from_millis(100);

impl Run {
    pub(crate) fn check_shard(&self, index: usize) {
        let Some(shard) = &self.process.shards[index].body else { return };
        let session_max = 2 * LARGE_BYTES + 2 * (self.plan.session.send_buffer_bytes + LARGE_BYTES);
        let held = shard.held_bytes();
        assert!(
            held <= shard.sessions() * session_max,
            "shard {index} holds {held} bytes for {} sessions, {session_max} at most each",
            shard.sessions()
        );
    }

    pub(crate) fn check_shard_at_end(&self, index: usize, shard: &Shard<SimDriver>) {
        if self.stopped {
            return;
        }
        let driver = self.process.shards[index].driver;
        assert_eq!(shard.held_bytes(), 0, "shard {index} ends with buffers out");
        assert_eq!(self.sim.leases(driver), 0, "shard {index} ends with receive buffers out");
        assert_eq!(self.sim.in_flight(driver), 0, "shard {index} ends with operations in flight");
    }

    /// The limits of connections hold.
    pub(crate) fn check_dispatcher(&self) {
        let mut accepted = 0;
        for listener in &self.plan.listeners {
            let (here, _) = self.sim.sockets_of(&listener.address);
            accepted += here as u64;
        }
        let max = self.plan.connections_max + REFUSALS_MAX;
        assert!(accepted <= max, "{accepted} clients are held, {max} at most");
    }

    pub(crate) fn check_stillness(&self) {
        for shard in &self.process.shards {
            assert_eq!(self.sim.leases(shard.driver), 0, "a shard sleeps on receive buffers");
        }
        assert!(self.control.has_taken_all(), "the control plane sleeps, and there are events");
        if self.drained.is_some() {
            return;
        }
        self.clients.iter().for_each(|client| self.check_arrival(client));
        for (client, backend) in self.pairs() {
            if !self.has_record(client) {
                check_what_is_owed_to_the_backend(client, backend);
                check_what_is_owed_to_the_client(client, backend);
            }
        }
    }

    /// Whether the log says how the client's session ended. Without room in the log there is no telling.
    pub(crate) fn has_record(&self, client: &Client) -> bool {
        self.control.dropped() > 0 || self.control.closed.iter().any(|record| record.client == client.address)
    }

    /// Clients and the servers they talk to, as far as either has told the other its name.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&Client, &Backend)> {
        self.backends.iter().filter_map(|backend| {
            let from_heard = match backend.heard.speaker {
                Some(Speaker::Client(number)) => Some(number),
                Some(Speaker::Backend(_)) => panic!("a server hears a server"),
                None => None,
            };
            let me = Some(Speaker::Backend(backend.number));
            let from_said = self.clients.iter().find(|client| client.heard.speaker == me).map(|client| client.number);
            if let (Some(heard), Some(said)) = (from_heard, from_said) {
                assert_eq!(heard, said, "server connection {} talks with two clients", backend.number);
            }
            Some((&self.clients[usize::from(from_heard.or(from_said)?)], backend))
        })
    }

    /// A client that has connected is accepted, shakes hands, and reaches a server or is told why not.
    fn check_arrival(&self, client: &Client) {
        let retries_at = self.sim.wakes_at(self.process.dispatcher.driver);
        let is_retrying = retries_at.is_some_and(|at| at <= self.sim.now() + RETRY_MAX);
        if is_retrying || client.left.is_some() || client.end.is_some() || !client.speaks_tls() {
            return;
        }
        let name = client.number;
        assert!(client.witness.is_held() || client.witness.has_ended(), "client {name} is not accepted");
        if client.witness.unread() == 0 && !client.flees() {
            assert!(client.shook_hands, "client {name} waits for its handshake");
        }
    }
}

fn check_what_is_owed_to_the_backend(client: &Client, backend: &Backend) {
    let (from, to) = (client.number, backend.number);
    if backend.left.is_some() || backend.witness.unread() > 0 || backend.witness.was_cut() {
        return;
    }
    let owed = client.said_for_good();
    assert_eq!(backend.heard.bytes, owed, "client {from} has said more than server connection {to} has got");
    if client.has_ended() {
        assert!(backend.witness.has_ended(), "client {from} has ended, and server connection {to} does not know");
    }
}

fn check_what_is_owed_to_the_client(client: &Client, backend: &Backend) {
    let (from, to) = (backend.number, client.number);
    let gone = matches!(client.left, Some(Leave::Close | Leave::Reset)) || client.junk_said;
    if gone || client.witness.unread() > 0 || client.witness.was_cut() {
        return;
    }
    let owed = backend.said_for_good();
    assert_eq!(client.heard.bytes, owed, "server connection {from} has said more than client {to} has got");
    if let Some((leave, _)) = backend.left {
        assert!(client.witness.has_ended(), "server connection {from} has ended, and client {to} does not know");
        let orderly = leave != Leave::Reset && !backend.witness.has_cut();
        if orderly {
            assert!(client.goodbye_heard, "server connection {from} has ended in order, and client {to} sees a cut");
        }
    }
}
