//! What the proxy owes while it runs: checked after each turn, and whenever the world stands still.
//!
//! The world stands still when nobody is awake and nothing is on the way: only timers are left. Whatever is owed then
//! and does not wait for a timer will never come: a wake-up was missed, a receive was not armed, bytes were forgotten.

use std::collections::BTreeSet;
use std::time::Duration;

use ringwall::dispatcher::REFUSALS_MAX;
use ringwall::pool::LARGE_BYTES;
use ringwall::roster::Standing;
use ringwall::shard::{Dismissal, Shard};
use ringwall::time::Time;

use crate::backend::Backend;
use crate::client::Client;
use crate::plan::{Answer, ListenerPlan, Mishap};
use crate::run::Run;
use crate::script::{Language, Leave};
use crate::simulation::SimDriver;
use crate::speech::Speaker;

/// The longest that a shard leaves a place idle while somebody waits: until it looks, behind others that have waited longer.
const LOOK_MAX: Duration = Duration::from_millis(40);

/// The longest that the dispatcher waits before it tries to accept or to hand over again.
const RETRY_MAX: Duration = Duration::from_millis(100);

impl Run {
    /// A shard holds no more than it may, and publishes what is true.
    pub(crate) fn check_shard(&self, index: usize) {
        let Some(shard) = &self.process.shards[index].body else { return };
        let (held, sessions) = (shard.held_bytes(), shard.sessions());
        // What a session may take in between two looks at its bounds, records that are not complete, and rounding.
        let slack = 6 * LARGE_BYTES;
        let session_max = 2 * self.plan.session.send_buffer_bytes + slack;
        assert!(held <= sessions * session_max, "shard {index} holds {held} bytes for {sessions} sessions");
        let shard_max = self.plan.memory_bytes + sessions * slack;
        assert!(held <= shard_max, "shard {index} holds {held} bytes for {sessions} sessions, {shard_max} at most");
        let published = self.process.loads[index].read(Time::default()).pending as usize;
        assert_eq!(published, shard.pending_sessions().count(), "sessions of shard {index} that are pending");
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

    /// The limits of connections hold, and what the dispatcher believes of sessions is true.
    pub(crate) fn check_dispatcher(&self) {
        if !self.stopped {
            self.check_beliefs();
            self.check_limits();
        }
    }

    fn check_beliefs(&self) {
        let Some(dispatcher) = &self.process.dispatcher.body else { return };
        let shards = (0..).zip(&self.process.shards);
        let truth = shards.flat_map(|(index, shard)| {
            let slots = shard.body.iter().flat_map(Shard::pending_sessions);
            slots.map(move |slot| (index, slot))
        });
        let (believed, truth): (BTreeSet<_>, BTreeSet<_>) = (dispatcher.pending_sessions().collect(), truth.collect());
        assert_eq!(believed, truth, "sessions that the dispatcher takes to be pending, and those that are");
    }

    fn check_limits(&self) {
        for member in &self.process.members {
            let (connections, max) = (member.connections(), member.connections_max.unwrap_or(u32::MAX));
            assert!(connections <= max, "{} has {connections} connections, {max} at most", member.name);
        }
        for waiting in &self.process.waiting {
            assert!(waiting.total() <= self.plan.queue_max, "{} wait", waiting.total());
        }
        let accepted: usize = self.plan.listeners.iter().map(|listener| self.sim.sockets_of(&listener.address).0).sum();
        let max = self.plan.connections_max + REFUSALS_MAX;
        assert!(accepted as u64 <= max, "{accepted} clients are held, {max} at most");
        for (number, servers) in (0..).zip(&self.plan.backends) {
            let theirs = self.backends.iter().filter(|backend| servers.contains(&backend.server));
            let held = theirs.filter(|backend| backend.witness.is_held()).count() as u64;
            let listeners = self.plan.listeners.iter().filter(|listener| listener.backend == number);
            // All clients are of one source.
            let max_of = |listener: &ListenerPlan| {
                listener.per_source_max.map_or(u64::MAX, u64::from).min(listener.connections_max)
            };
            // One that was away has begun to count anew.
            let counts = !self.process.left_once.contains(&true);
            let listeners_max = if counts { listeners.map(max_of).sum::<u64>() } else { u64::MAX };
            let max = listeners_max.min(self.plan.connections_max);
            assert!(held <= max, "{held} clients are served by backend {number}, {max} at most");
        }
    }

    /// Nobody waits for long for a place that is free. Called after each turn of a shard.
    pub(crate) fn check_waiting(&mut self) {
        let cut = |&(_, mishap): &(_, Mishap)| matches!(mishap, Mishap::CutBackend);
        // A session does not go where it could not be served, for example because the handshake took too long.
        if self.servers_misbehave()
            || self.plan.backends_tls.contains(&true)
            || self.drained.is_some()
            || self.plan.mishaps.iter().any(cut)
        {
            return;
        }
        let members = self.process.members.iter().filter(|member| !member.backup);
        let free = |numbers: &[usize]| {
            let addresses: Vec<_> = numbers.iter().map(|&number| &self.plan.servers[number]).collect();
            members.clone().any(|member| addresses.contains(&&member.address) && member.has_room())
        };
        let waiting = self.process.waiting.iter().zip(&self.plan.backends);
        let idle = waiting.filter(|(waiting, servers)| waiting.total() > 0 && free(servers)).count() > 0;
        let now = self.sim.now();
        self.idle_since = if idle { Some(self.idle_since.unwrap_or(now)) } else { None };
        if let Some(since) = self.idle_since {
            let limit = since + LOOK_MAX + self.jumped;
            assert!(now <= limit, "somebody waits since {since:?}, and there are places");
        }
    }

    pub(crate) fn check_stillness(&self) {
        for shard in &self.process.shards {
            assert_eq!(self.sim.leases(shard.driver), 0, "a shard sleeps on receive buffers");
        }
        assert!(self.control.has_taken_all(), "the control plane sleeps, and there are events");
        // With a timer it may wait for room in the mailbox of a shard.
        if self.sim.wakes_at(self.process.dispatcher.driver).is_none() && !self.stopped {
            let silent = self.pulses.iter().find(|pulse| !pulse.has_answered(self.pings));
            assert!(silent.is_none(), "{silent:?} sleeps and has not answered ping {}", self.pings);
        }
        if self.drained.is_some() {
            return;
        }
        // Without a timer it sleeps on its doorbell, and what shards publish wakes it.
        if self.sim.wakes_at(self.process.dispatcher.driver).is_none() {
            self.check_beliefs();
        }
        self.clients.iter().for_each(|client| self.check_arrival(client));
        self.check_service();
        for (client, backend) in self.pairs() {
            // A timeout may have come before a peer's end, and nobody else can tell.
            let times_out = self.jumped > Duration::ZERO || self.plan.session.idle_timeout.is_some();
            let times_out = times_out || self.plan.session.lifetime_max.is_some();
            let late = times_out && (client.has_ended() || backend.left.is_some());
            // What comes behind the order to let no session stay is dropped.
            let late = late || self.was_dismissed(client, |_| true);
            if !late && !self.has_record(client) && !ended_by_the_proxy(client, backend) {
                check_what_is_owed_to_the_backend(client, backend);
                if !self.may_use_up_its_keys(client) {
                    check_what_is_owed_to_the_client(client, backend);
                }
            }
        }
    }

    /// Whether what is sealed for the client may end before all is said.
    pub(crate) fn may_use_up_its_keys(&self, client: &Client) -> bool {
        self.plan.record_limit.is_some() && client.script.language == Language::Tls12
    }

    /// Whether the client may have found no server: each has been out of reach, or no socket was to be had.
    pub(crate) fn may_be_unreachable(&self, client: &Client) -> bool {
        let mishaps = || self.plan.mishaps.iter().map(|&(_, mishap)| mishap);
        let hides =
            |server| mishaps().any(|m| matches!(m, Mishap::Answers(s, a) if s == server && a != Answer::Accept));
        let backend = self.plan.listeners[client.script.listener].backend;
        let servers = &self.plan.backends[backend];
        let may_fail = |&server: &usize| hides(server) || self.may_be_unwanted(backend, server);
        // With fewer retries than servers, one of them is enough.
        let fails = match self.plan.sending.retries {
            None => servers.iter().all(may_fail),
            Some(_) => servers.iter().any(may_fail),
        };
        fails || mishaps().any(|m| matches!(m, Mishap::FilesLeft(_)))
    }

    /// Whether the control plane has had, or will have, no session go to a server.
    fn may_be_unwanted(&self, backend: usize, server: usize) -> bool {
        self.plan.mishaps.iter().any(|&(_, mishap)| {
            matches!(mishap, Mishap::Roster(of, _) if of == backend)
                || matches!(mishap, Mishap::Standing(of, standing) if of == server && standing != Standing::Up)
        })
    }

    /// Whether the control plane has let no session stay at a server of the client's backend, in this way.
    pub(crate) fn was_dismissed(&self, client: &Client, how: fn(Dismissal) -> bool) -> bool {
        let servers = &self.plan.backends[self.plan.listeners[client.script.listener].backend];
        let mut mishaps = self.plan.mishaps.iter().map(|&(_, mishap)| mishap);
        mishaps.any(|mishap| matches!(mishap, Mishap::Dismiss(of, d) if servers.contains(&of) && how(d)))
    }

    /// Whether the log says how the client's session ended. Without room in the log there is no telling.
    pub(crate) fn has_record(&self, client: &Client) -> bool {
        self.control.dropped() > 0 || self.control.closed.iter().any(|(_, record)| client.is_in(record))
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

    /// Every client that has said something has a server, though not each server knows its client: it may not listen.
    fn check_service(&self) {
        let bounded = (0..self.plan.backends.len()).any(|backend| self.plan.is_bounded(backend));
        if self.servers_misbehave() || bounded {
            return;
        }
        let waits = |client: &&Client| {
            let there = client.said() > 0 && client.left.is_none() && client.end.is_none() && client.error.is_empty();
            let listens = client.witness.unread() == 0 && !client.witness.has_ended();
            // Without TLS a client speaks before it is accepted.
            let there = there && client.witness.is_held();
            there && listens && !client.junk_said && !self.has_record(client)
        };
        let clients = self.clients.iter().filter(waits).count();
        let servers = self.backends.iter().filter(|backend| backend.witness.is_held()).count();
        assert!(clients <= servers, "{clients} clients are there to be served, by {servers} connections to servers");
    }

    /// Whether somebody may rightly wait for a server.
    fn servers_misbehave(&self) -> bool {
        self.plan.mishaps.iter().any(|(_, mishap)| {
            matches!(
                mishap,
                Mishap::Answers(..)
                    | Mishap::FilesLeft(_)
                    | Mishap::Standing(..)
                    | Mishap::Roster(..)
                    | Mishap::Dismiss(..)
            )
        })
    }

    /// A client that has connected is accepted, shakes hands, and reaches a server or is told why not.
    fn check_arrival(&self, client: &Client) {
        let retries_at = self.sim.wakes_at(self.process.dispatcher.driver);
        let is_retrying = retries_at.is_some_and(|at| at <= self.sim.now() + RETRY_MAX);
        if is_retrying
            || self.has_record(client)
            || client.left.is_some()
            || client.end.is_some()
            || !client.speaks_tls()
        {
            return;
        }
        let name = client.number;
        let answered = client.witness.is_held() || client.witness.has_ended() || client.witness.was_cut();
        assert!(answered, "client {name} is not accepted");
        let listens = client.witness.unread() == 0 && !client.witness.has_ended() && !client.witness.was_cut();
        if listens && !client.flees() {
            assert!(client.shook_hands, "client {name} waits for its handshake");
        }
    }
}

/// Whether a peer has been told that it is over when nobody had ended: a timeout.
fn ended_by_the_proxy(client: &Client, backend: &Backend) -> bool {
    let backend_left_before = |at: Time| backend.left.is_some_and(|(_, left)| left < at);
    let client_told = client.end.is_some_and(|(_, told)| !backend_left_before(told));
    let backend_told = backend.end.is_some_and(|(_, told)| !backend_left_before(told));
    client_told || backend_told && !client.has_ended()
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
    if backend.left.is_some() {
        assert!(client.witness.has_ended(), "server connection {from} has ended, and client {to} does not know");
        let curt = backend.speaks_tls() && !backend.goodbye_said;
        let cut = backend.witness.has_cut() || curt || !client.speaks_tls();
        assert!(client.goodbye_heard || cut, "server connection {from} has ended in order, and client {to} sees a cut");
        // A bare FIN may be the answer to our own goodbye; what follows a goodbye counts for nothing.
        let orderly = backend.goodbye_said || backend.witness.has_shut() && (!curt || client.has_ended());
        assert!(!client.goodbye_heard || orderly, "server connection {from} was cut, and client {to} sees an end");
    }
}
