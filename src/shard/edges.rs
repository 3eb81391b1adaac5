//! What stands in front of a client's first byte: who may introduce a client, and what a server is told and asked about
//! it.
//!
//! All of it is per connection. A listener and a backend without such wishes pay nothing.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use super::Shard;
use super::listeners::Rules;
use super::token::SessionId;
use crate::auth_check::Demand;
use crate::io::{Driver, Lease};
use crate::networks::AddressSet;
use crate::secret::Secret;
use crate::session::close::CloseReason;
use crate::session::greeting::{Greeting, Opening};
use crate::session::transport::Transport;
use crate::session::{Refusal, Session, Side, Turn};
use crate::tls::{ClientNames, ClientRules, Summary};
use crate::wire::proxy::{self, Addresses, Tls, Tlvs};
use crate::wire::{ClientFacts, Template};

/// A listener's wishes.
#[derive(Debug, Default)]
pub struct ListenerEdge {
    /// The proxies whose word about clients is taken, where clients are to come through them alone.
    pub proxies: Option<AddressSet>,
    /// Who clients become on the server; the first that fits. Where there is any, clients that fit none are refused.
    pub users: Arc<[User]>,
    /// Whether strangers can reach it, and are not to be let at a server that lets them in.
    pub guards_servers: bool,
}

/// A user of the server, and the clients that become it.
#[derive(Debug)]
pub struct User {
    /// What their certificates say.
    pub rules: ClientRules,
    /// Its name on the server.
    pub name: Box<str>,
    /// What it authenticates with.
    pub password: Secret,
}

/// A backend's wishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendEdge {
    /// Whether its servers are told who the client is in a PROXY header.
    pub send_proxy: Option<proxy::Version>,
    /// What a connection is called, for CLIENT SETNAME.
    pub client_name: Option<Template>,
    /// What its library is called, for CLIENT SETINFO LIB-NAME.
    pub client_info: Option<Template>,
}

/// What a server must be like for a listener's clients.
fn demand(rules: &Rules) -> Option<Demand> {
    if !rules.edge.users.is_empty() {
        Some(Demand::Closed)
    } else {
        (rules.edge.guards_servers && !rules.requires_certificate).then_some(Demand::Guarded)
    }
}

impl BackendEdge {
    fn wants_certificate(&self) -> bool {
        let names = [&self.client_name, &self.client_info];
        self.send_proxy == Some(proxy::Version::V2) || names.into_iter().flatten().any(Template::names_certificate)
    }

    const fn is_bare(&self) -> bool {
        self.send_proxy.is_none() && self.client_name.is_none() && self.client_info.is_none()
    }
}

/// A session for a client that has come from `peer`.
pub(super) fn session(
    rules: &Rules,
    client: Transport,
    refusal: Option<Refusal>,
    peer: Option<SocketAddr>,
    turn: &mut Turn<'_>,
) -> Session {
    let options = Rc::clone(&rules.session);
    let Some(proxies) = &rules.edge.proxies else { return Session::new(client, options, refusal, turn) };
    let mut session = Session::behind_proxy(client, options, refusal, turn);
    match peer {
        Some(peer) if proxies.contains(peer.ip()) => {}
        Some(_) => session.turn_away(CloseReason::ProxyUntrusted, turn),
        // The kernel has no address of a peer that has reset the connection, as health checks do.
        None => session.turn_away(CloseReason::HandshakeAborted, turn),
    }
    session
}

impl<D: Driver> Shard<D> {
    /// Gives a session the header of a proxy from the front of what its client has sent, and says how many bytes that
    /// were. A plain client's handshake, which is nothing but that header, is over with it.
    pub(super) fn introduce(&mut self, id: SessionId, lease: &Lease) -> usize {
        let Some(entry) = self.table.entry(id).filter(|entry| entry.session.is_introducing()) else { return 0 };
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        let taken = entry.session.introduce(self.driver.bytes_mut(lease), turn);
        if let Some(announced) = entry.session.announced() {
            entry.proxy_address = entry.client_address.replace(announced.source);
        }
        self.settle_handshake(id, Side::Client);
        taken
    }

    /// The user that a session's client becomes, settled before its first server is dialled. `false` when the listener
    /// has users and none for this client, who is told so.
    pub(super) fn settle_user(&mut self, id: SessionId) -> bool {
        let Some(entry) = self.table.entry(id) else { return false };
        let users = &entry.rules.edge.users;
        if users.is_empty() || entry.user.is_some() {
            return true;
        }
        let names = entry.session.client_names().unwrap_or_default();
        entry.user = users.iter().position(|user| user.rules.name(&names));
        if entry.user.is_none() {
            let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
            entry.session.refuse_user(turn);
        }
        entry.user.is_some()
    }

    /// What the server that was dialled is told first.
    pub(super) fn opening(&mut self, id: SessionId) -> Opening {
        let Some(entry) = self.table.entry(id) else { return Opening::default() };
        let edge = &self.backends[entry.rules.backend].edge;
        let demand = demand(&entry.rules);
        if edge.is_bare() && demand.is_none() {
            return Opening::default();
        }
        let summary = entry.session.tls_summary(Side::Client);
        let names = if edge.wants_certificate() { entry.session.client_names() } else { None };
        let common_name = names.as_ref().and_then(|names| names.common_names.first()).map(|name| &**name);
        let server_name = summary.as_ref().and_then(|tls| tls.server_name.as_deref());

        let mut greeting = Greeting::default();
        let check = entry.target.as_ref().map(|target| &target.member.auth);
        if let (Some(demand), Some(check)) = (demand, check)
            && !check.meets(demand, self.now)
        {
            greeting.probe(demand, check.clone());
        }
        if let Some(user) = entry.user.and_then(|user| entry.rules.edge.users.get(user)) {
            greeting.authenticate(&user.name, &user.password);
        }
        let facts = ClientFacts { address: entry.client_address, common_name, server_name };
        if let Some(template) = &edge.client_info {
            greeting.describe(&[b"CLIENT", b"SETINFO", b"LIB-NAME", template.name(&facts).as_bytes()]);
        }
        if let Some(template) = &edge.client_name {
            greeting.describe(&[b"CLIENT", b"SETNAME", template.name(&facts).as_bytes()]);
        }

        let header = edge.send_proxy.map(|version| {
            let addresses = entry.session.announced().or_else(|| {
                let (own, _) = self.driver.socket_addresses(entry.client.fd);
                Some(Addresses { source: entry.client_address?, destination: own? })
            });
            header(version, addresses, summary.as_ref(), names.as_ref())
        });
        Opening { header: header.unwrap_or_default(), greeting: (!greeting.is_empty()).then_some(greeting) }
    }
}

/// The header that tells a server of a client.
fn header(
    version: proxy::Version,
    addresses: Option<Addresses>,
    summary: Option<&Summary>,
    names: Option<&ClientNames>,
) -> Vec<u8> {
    let tls = summary.map(|tls| Tls {
        version: tls.version,
        cipher: tls.cipher,
        has_certificate: names.is_some(),
        resumed: tls.resumed,
        common_name: names.and_then(|names| names.common_names.first()).map(|name| &**name),
    });
    let server_name = summary.and_then(|tls| tls.server_name.as_deref());
    let alpn = summary.and_then(|tls| tls.alpn.as_deref());
    let mut header = Vec::new();
    match version {
        proxy::Version::V1 => proxy::write_v1(&mut header, addresses),
        proxy::Version::V2 => proxy::write_v2(&mut header, addresses, &Tlvs { server_name, alpn, tls }),
    }
    header
}
