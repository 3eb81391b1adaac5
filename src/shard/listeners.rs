//! A listener as a shard knows it: what the next client is met with, and what a session keeps of it to its end.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::ListenerEdge;
use crate::io::SocketOptions;
use crate::ledger::Ledger;
use crate::multiplex;
use crate::session;
use crate::tls::Acceptor;

/// What a shard is told of a listener.
#[derive(Debug)]
pub struct Listener {
    /// Who it is.
    pub ledger: Arc<Ledger>,
    /// Makes the TLS side of a session; without one its clients speak plain text.
    pub acceptor: Option<Acceptor>,
    /// The index of its backend among those that the shard is told of with it.
    pub backend: u16,
    /// What bounds its sessions.
    pub session: session::Options,
    /// Set on every socket towards a server.
    pub socket: SocketOptions,
    /// What stands in front of its clients' first bytes.
    pub edge: ListenerEdge,
    /// What bounds the multiplexers of its sessions, where these share connections.
    pub multiplex: Option<multiplex::Options>,
    /// There, requests that take longer are told to the log.
    pub slow_log: Option<Duration>,
}

/// A listener as its next client finds it.
#[derive(Debug)]
pub(super) struct Entrance {
    pub(super) acceptor: Option<Acceptor>,
    pub(super) rules: Rc<Rules>,
}

/// What a session keeps of its listener, whatever a reload makes of that.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) ledger: Arc<Ledger>,
    /// The key of its backend in the shard's table of them.
    pub(super) backend: usize,
    pub(super) session: Rc<session::Options>,
    pub(super) socket: SocketOptions,
    pub(super) edge: ListenerEdge,
    pub(super) multiplex: Option<multiplex::Options>,
    pub(super) slow_log: Option<Duration>,
    /// Whether its clients have shown a certificate.
    pub(super) requires_certificate: bool,
}

impl Entrance {
    /// `backends` are the keys of the backends that the listener's number means.
    pub(super) fn new(listener: Listener, backends: &[usize]) -> Self {
        let Listener { ledger, acceptor, backend, session, socket, edge, multiplex, slow_log } = listener;
        let requires_certificate = acceptor.as_ref().is_some_and(Acceptor::requires_certificate);
        let (backend, session) = (backends[usize::from(backend)], Rc::new(session));
        let rules =
            Rc::new(Rules { ledger, backend, session, socket, edge, multiplex, slow_log, requires_certificate });
        Self { acceptor, rules }
    }
}
