//! What administrators are told of sessions: a page at a time, so that the shard's other sessions hardly notice.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use super::Shard;
use super::table::Entry;
use super::token::SessionId;
use crate::io::Driver;
use crate::ledger::Ledger;
use crate::multiplex::Way;
use crate::roster::{BackendId, Member};
use crate::session::Side;
use crate::time::Time;

/// Slots that are looked at for one order: some microseconds of work.
const SLOTS_PER_ORDER_MAX: u32 = 1_024;

/// Which sessions are meant: all that have everything that is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this listener.
    pub listener: Option<Arc<Ledger>>,
    /// Of this backend.
    pub backend: Option<BackendId>,
    /// From this address.
    pub client: Option<IpAddr>,
    /// At least as old as this.
    pub age_min: Duration,
    /// With at least so many bytes received and sent, on both sides together.
    pub bytes_min: u64,
    /// Pending, or not.
    pub pending: Option<bool>,
}

/// A question for some sessions.
#[derive(Debug)]
pub struct Listing {
    /// Which.
    pub filter: Filter,
    /// The first slot to look at.
    pub from: u32,
    /// Sessions to tell of at most.
    pub rows_max: usize,
    /// Where the answer goes.
    pub answer: mpsc::Sender<Page>,
}

/// The answer.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The sessions, in the order of their slots.
    pub rows: Vec<Row>,
    /// The slot to go on from, unless this was the last.
    pub next: Option<u32>,
}

/// What is told of a session.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name within the shard.
    pub id: SessionId,
    /// The client's address.
    pub client: Option<SocketAddr>,
    /// Who the client is, as its verified certificate says.
    pub client_identity: Option<Box<str>>,
    /// The version of TLS that the client speaks, once its handshake is complete.
    pub tls_version: Option<&'static str>,
    /// Its listener.
    pub listener: Arc<Ledger>,
    /// The name of its backend.
    pub backend: Arc<str>,
    /// Its server, once one is dialled.
    pub server: Option<Arc<Member>>,
    /// Our port towards the server.
    pub server_local_port: Option<u16>,
    /// Over which connections its requests go, where it may share some.
    pub way: Option<Way>,
    /// How far it is; see [`Session::stage`](crate::session::Session::stage).
    pub stage: &'static str,
    /// Whether it holds bytes that could not be served yet.
    pub pending: bool,
    /// Since accept.
    pub age: Duration,
    /// Since bytes last moved.
    pub idle: Duration,
    /// Bytes received from and sent to the client.
    pub client_bytes: (u64, u64),
    /// Bytes received from and sent to the server.
    pub server_bytes: (u64, u64),
}

impl<D: Driver> Shard<D> {
    /// Answers with the sessions that are meant, as far as it looks.
    pub(super) fn list(&self, listing: Listing) {
        let Listing { filter, from, rows_max, answer } = listing;
        let slots = self.table.slots();
        let end = from.saturating_add(SLOTS_PER_ORDER_MAX).min(slots);
        let mut page = Page { rows: Vec::new(), next: (end < slots).then_some(end) };
        for (id, entry) in self.table.among(from..end) {
            if !self.is_meant(entry, &filter) {
                continue;
            }
            if page.rows.len() == rows_max {
                page.next = Some(id.slot);
                break;
            }
            let way = entry.seat.as_ref().and_then(|seat| self.trunks.way_of(seat));
            page.rows.push(row(id, entry, &self.backends[entry.rules.backend].name, way, self.now));
        }
        // Whoever asked for it may have given up.
        let _ = answer.send(page);
    }

    fn is_meant(&self, entry: &Entry, filter: &Filter) -> bool {
        let Filter { listener, backend, client, age_min, bytes_min, pending } = filter;
        let session = &entry.session;
        let bytes = || Side::BOTH.map(|side| session.bytes(side)).iter().map(|(one, other)| one + other).sum::<u64>();
        listener.as_ref().is_none_or(|listener| entry.rules.ledger == *listener)
            && backend.is_none_or(|backend| self.backends[entry.rules.backend].id == backend)
            && client.is_none_or(|client| entry.client_address.is_some_and(|address| address.ip() == client))
            && pending.is_none_or(|pending| entry.pending == pending)
            && self.now.since(session.started()) >= *age_min
            && bytes() >= *bytes_min
    }
}

fn row(id: SessionId, entry: &Entry, backend: &Arc<str>, way: Option<Way>, now: Time) -> Row {
    let session = &entry.session;
    Row {
        id,
        client: entry.client_address,
        client_identity: session.client_identity(),
        tls_version: session.tls_summary(Side::Client).map(|tls| tls.version),
        listener: Arc::clone(&entry.rules.ledger),
        backend: Arc::clone(backend),
        server: entry.target.as_ref().map(|target| Arc::clone(&target.member)),
        server_local_port: entry.server_local_port,
        way,
        stage: session.stage(),
        pending: entry.pending,
        age: now.since(session.started()),
        idle: now.since(session.last_moved()),
        client_bytes: session.bytes(Side::Client),
        server_bytes: session.bytes(Side::Backend),
    }
}
