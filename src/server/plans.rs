//! Listeners and backends before each shard makes them its own: credentials that are read, keys that are not parsed yet.

use std::sync::Arc;
use std::time::Duration;

use super::StartError;
use super::backend_tls::BackendTls;
use super::listener_tls::{Common, ListenerTls};
use crate::config::{self, Coalesce, Config, Keyring, Limits, SessionLimits, Unreachable};
use crate::control::{Hold, Wanted};
use crate::io::SocketOptions;
use crate::ledger::Ledger;
use crate::multiplex;
use crate::networks::AddressSet;
use crate::roster::waiting::Waiting;
use crate::roster::{BackendId, Roster};
use crate::secret::Secret;
use crate::session::{self, coalescer::Threshold};
use crate::shard::{self, BackendOptions};
use crate::tls::{BackendCredentials, Connector, Credentials};

/// All listeners and backends of a configuration.
#[derive(Debug)]
pub(super) struct Plans {
    pub(super) listeners: Vec<ListenerPlan>,
    pub(super) backends: Vec<BackendPlan>,
}

/// A listener, as each shard builds it.
#[derive(Debug)]
pub(super) struct ListenerPlan {
    ledger: Arc<Ledger>,
    tls: Option<ListenerTls>,
    backend: u16,
    session: session::Options,
    socket: SocketOptions,
    proxies: Option<AddressSet>,
    /// Shards only read them.
    users: Arc<[shard::User]>,
    guards_servers: bool,
    multiplex: Option<multiplex::Options>,
    slow_log: Option<Duration>,
}

/// A backend, as each shard builds it.
#[derive(Debug)]
pub(super) struct BackendPlan {
    identity: Identity,
    tls: Option<BackendTls>,
    options: BackendOptions,
    edge: shard::BackendEdge,
}

/// What of a backend stays the same through reloads.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) id: BackendId,
    pub(super) name: Arc<str>,
    pub(super) waiting: Arc<Waiting>,
}

impl From<&Hold> for Identity {
    fn from(hold: &Hold) -> Self {
        Self { id: hold.id, name: Arc::clone(&hold.name), waiting: Arc::clone(&hold.waiting) }
    }
}

impl From<&Wanted> for Identity {
    fn from(wanted: &Wanted) -> Self {
        Self { id: wanted.id, name: Arc::clone(&wanted.name), waiting: Arc::clone(&wanted.waiting) }
    }
}

impl Plans {
    /// `ledgers` and `identities` are those of the listeners and backends, in their order.
    pub(super) fn of(
        config: &Config,
        keyring: Keyring,
        common: &Common,
        ledgers: &[Arc<Ledger>],
        identities: &[Identity],
    ) -> Self {
        let read = keyring.listeners.into_iter().zip(keyring.passwords);
        let listeners =
            config.listeners.iter().zip(ledgers).zip(read).map(|((listener, ledger), (read, passwords))| {
                ListenerPlan::of(config, listener, read, passwords, common, Arc::clone(ledger))
            });
        let backends = config.backends.iter().zip(identities).zip(keyring.backends);
        let backends = backends.map(|((backend, identity), read)| BackendPlan::of(backend, identity.clone(), read));
        Self { listeners: listeners.collect(), backends: backends.collect() }
    }

    /// For one shard, with these servers of the backends.
    pub(super) fn build(&self, rosters: &[Roster]) -> Result<(Vec<shard::Listener>, Vec<shard::Backend>), StartError> {
        let listeners = self.listeners.iter().map(ListenerPlan::build).collect::<Result<_, _>>()?;
        let backends = self.backends.iter().zip(rosters).map(|(plan, roster)| plan.build(roster.clone()));
        Ok((listeners, backends.collect::<Result<_, _>>()?))
    }
}

impl ListenerPlan {
    pub(super) fn of(
        config: &Config,
        listener: &config::Listener,
        credentials: Option<Credentials>,
        passwords: Vec<Secret>,
        common: &Common,
        ledger: Arc<Ledger>,
    ) -> Self {
        let tls = listener.tls.as_ref().zip(credentials);
        let tls = tls.map(|(tls, credentials)| ListenerTls::new(&listener.name, tls, credentials, common));
        let session = session_options(&config.limits, listener);
        let socket = socket_options(&config.limits, &listener.session);
        let edge = &listener.edge;
        let user = |(user, password): (&config::User, _)| shard::User {
            rules: user.rules.clone(),
            name: user.name.clone(),
            password,
        };
        Self {
            ledger,
            tls,
            backend: index(listener.backend),
            session,
            socket,
            proxies: edge.trusted_proxies.as_deref().map(AddressSet::of),
            users: edge.users.iter().zip(passwords).map(user).collect(),
            guards_servers: !listener.bind.ip().is_loopback() && !edge.allow_unauthenticated,
            multiplex: listener.multiplex.map(|own| multiplex_options(config, listener, own)),
            slow_log: listener.multiplex.and_then(|own| own.slow_log),
        }
    }

    /// What accepted sockets have set, and those towards servers.
    pub(super) const fn socket(&self) -> &SocketOptions {
        &self.socket
    }

    pub(super) fn build(&self) -> Result<shard::Listener, StartError> {
        let acceptor = self.tls.as_ref().map(ListenerTls::acceptor).transpose()?;
        let edge = shard::ListenerEdge {
            proxies: self.proxies.clone(),
            users: Arc::clone(&self.users),
            guards_servers: self.guards_servers,
        };
        Ok(shard::Listener {
            ledger: Arc::clone(&self.ledger),
            acceptor,
            backend: self.backend,
            session: self.session.clone(),
            socket: self.socket,
            edge,
            multiplex: self.multiplex.clone(),
            slow_log: self.slow_log,
        })
    }
}

fn session_options(limits: &Limits, listener: &config::Listener) -> session::Options {
    let session = &listener.session;
    session::Options {
        send_buffer_bytes: session.send_buffer,
        coalesce: threshold(session.coalesce),
        handshake_timeout: limits.handshake_timeout,
        connect_timeout: limits.connect_timeout,
        half_close_timeout: session.half_close_timeout,
        idle_timeout: session.idle_timeout,
        lifetime_max: session.max_lifetime,
        tells_unreachable: listener.unreachable == Unreachable::Error,
    }
}

const fn threshold(coalesce: Coalesce) -> Threshold {
    match coalesce {
        Coalesce::Off => Threshold::Off,
        Coalesce::Bytes(bytes) => Threshold::Bytes(bytes),
        Coalesce::Unbounded => Threshold::Unbounded,
    }
}

fn multiplex_options(config: &Config, listener: &config::Listener, own: config::Multiplex) -> multiplex::Options {
    let shards = u32::try_from(config.runtime.cores.len()).unwrap_or(u32::MAX);
    multiplex::Options {
        coalesce: threshold(listener.session.coalesce),
        send_buffer_bytes: listener.session.send_buffer,
        bytes_max: own.bytes_max,
        client_requests_max: own.client_requests_max,
        connection_requests_max: own.connection_requests_max,
        class_connections_max: own.connections_per_shard as usize,
        // For the clients of one user, and one on which newcomers are asked about or log in.
        places_kept: shards.saturating_mul(own.connections_per_shard + 1),
        connect_timeout: config.limits.connect_timeout,
        ..multiplex::Options::default()
    }
}

fn socket_options(limits: &Limits, session: &SessionLimits) -> SocketOptions {
    SocketOptions {
        source: None,
        keepalive_seconds: limits.tcp_keepalive.map(|idle| u32::try_from(idle.as_secs()).unwrap_or(u32::MAX)),
        user_timeout_ms: session.tcp_user_timeout.map(|time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX)),
    }
}

impl BackendPlan {
    fn of(backend: &config::Backend, identity: Identity, credentials: Option<BackendCredentials>) -> Self {
        let tls = backend.tls.as_ref().zip(credentials);
        let tls = tls.map(|(tls, credentials)| BackendTls::new(&backend.name, tls, Arc::new(credentials)));
        Self { identity, tls, options: backend.options.clone(), edge: backend.edge.clone() }
    }

    fn build(&self, roster: Roster) -> Result<shard::Backend, StartError> {
        Ok(shard::Backend {
            id: self.identity.id,
            // Each shard counts references of its own.
            name: (*self.identity.name).into(),
            roster,
            connector: self.connector()?,
            options: self.options.clone(),
            waiting: Arc::clone(&self.identity.waiting),
            edge: self.edge.clone(),
        })
    }

    /// What its TLS is made from, where it speaks that.
    pub(super) fn credentials(&self) -> Option<Arc<BackendCredentials>> {
        self.tls.as_ref().map(|tls| Arc::clone(tls.credentials()))
    }

    /// What makes the TLS side of connections to its servers, where there is one.
    pub(super) fn connector(&self) -> Result<Option<Connector>, StartError> {
        self.tls.as_ref().map(BackendTls::connector).transpose()
    }
}

/// The configuration bounds every list to far less than 16 bits can number.
fn index(wide: usize) -> u16 {
    u16::try_from(wide).expect("lists of the configuration have at most 1024 entries")
}
