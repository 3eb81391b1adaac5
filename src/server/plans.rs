//! Listeners and backends before each shard makes them its own: credentials that are read, keys that are not parsed yet.

use std::rc::Rc;
use std::sync::Arc;

use super::StartError;
use super::backend_tls::BackendTls;
use super::listener_tls::{Common, ListenerTls};
use crate::config::{self, Coalesce, Config, Limits, SessionLimits, Unreachable};
use crate::io::SocketOptions;
use crate::multiplex;
use crate::networks::AddressSet;
use crate::roster::Roster;
use crate::roster::waiting::Waiting;
use crate::secret::Secret;
use crate::session::{self, coalescer::Threshold};
use crate::shard::{self, BackendOptions};
use crate::tls::{BackendCredentials, Connector, Credentials};

/// A listener, as each shard builds it.
#[derive(Debug)]
pub(super) struct ListenerPlan {
    tls: Option<ListenerTls>,
    backend: u16,
    session: session::Options,
    socket: SocketOptions,
    proxies: Option<AddressSet>,
    /// Shards only read them.
    users: Arc<[shard::User]>,
    guards_servers: bool,
    multiplex: Option<multiplex::Options>,
}

/// A backend, as each shard builds it.
#[derive(Debug)]
pub(super) struct BackendPlan {
    name: Box<str>,
    tls: Option<BackendTls>,
    roster: Roster,
    options: BackendOptions,
    waiting: Arc<Waiting>,
    edge: shard::BackendEdge,
}

impl ListenerPlan {
    pub(super) fn of(
        config: &Config,
        listener: &config::Listener,
        credentials: Option<Credentials>,
        passwords: Vec<Secret>,
        common: &Common,
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
            tls,
            backend: index(listener.backend),
            session,
            socket,
            proxies: edge.trusted_proxies.as_deref().map(AddressSet::of),
            users: edge.users.iter().zip(passwords).map(user).collect(),
            guards_servers: !listener.bind.ip().is_loopback() && !edge.allow_unauthenticated,
            multiplex: listener.multiplex.map(|own| multiplex_options(&config.limits, listener, own)),
        }
    }

    /// What accepted sockets have set, and those towards servers.
    pub(super) const fn socket(&self) -> &SocketOptions {
        &self.socket
    }

    pub(super) fn build(&self) -> Result<shard::Listener, StartError> {
        let acceptor = self.tls.as_ref().map(ListenerTls::acceptor).transpose()?;
        let session = Rc::new(self.session.clone());
        let edge = shard::ListenerEdge {
            proxies: self.proxies.clone(),
            users: Arc::clone(&self.users),
            guards_servers: self.guards_servers,
        };
        Ok(shard::Listener {
            acceptor,
            backend: self.backend,
            session,
            socket: self.socket,
            edge,
            multiplex: self.multiplex.clone(),
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

fn multiplex_options(limits: &Limits, listener: &config::Listener, own: config::Multiplex) -> multiplex::Options {
    multiplex::Options {
        coalesce: threshold(listener.session.coalesce),
        send_buffer_bytes: listener.session.send_buffer,
        bytes_max: own.bytes_max,
        class_connections_max: own.connections_per_shard as usize,
        connect_timeout: limits.connect_timeout,
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
    pub(super) fn of(
        backend: &config::Backend,
        roster: &Roster,
        shards: usize,
        credentials: Option<BackendCredentials>,
    ) -> Self {
        let tls = backend.tls.as_ref().zip(credentials);
        let tls = tls.map(|(tls, credentials)| BackendTls::new(&backend.name, tls, credentials));
        let waiting = Arc::new(Waiting::new(backend.queue_max, shards));
        let (name, options) = (backend.name.clone(), backend.options.clone());
        Self { name, tls, roster: roster.clone(), options, waiting, edge: backend.edge.clone() }
    }

    pub(super) fn build(&self) -> Result<shard::Backend, StartError> {
        Ok(shard::Backend {
            name: self.name.clone(),
            roster: self.roster.clone(),
            connector: self.connector()?,
            options: self.options.clone(),
            waiting: Arc::clone(&self.waiting),
            edge: self.edge.clone(),
        })
    }

    /// The sessions that wait for a place at one of its servers.
    pub(super) const fn waiting(&self) -> &Arc<Waiting> {
        &self.waiting
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
