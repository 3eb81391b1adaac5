//! `[[backend]]`: where clients' bytes go.

use std::net::IpAddr;
use std::time::Duration;

use toml::Spanned;

use super::backend_edge::read_backend_edge;
use super::backend_tls::{BackendTls, read_backend_tls};
use super::error::{ConfigError, Source};
use super::health_check::{HealthCheck, read_health_check};
use super::listener::Listener;
use super::machine::Machine;
use super::raw::{RawBackend, Value};
use super::section::{Item, Section};
use super::sentinel::{Sentinel, read_sentinel};
use super::server::{Entry, place_of, read_entries};
use super::{ENTRIES_MAX, address, check_entries};
use crate::io::Address;
use crate::roster::Server;
use crate::roster::balance::Balance;
use crate::shard::{BackendEdge, BackendOptions};

/// Where clients' bytes go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Unique among backends.
    pub name: Box<str>,
    /// How it speaks TLS to its servers; without it, they are spoken to in plain text.
    pub tls: Option<BackendTls>,
    /// What is written of its servers; at least one, unless Sentinels name it.
    pub entries: Vec<Entry>,
    /// How sessions are sent to them.
    pub options: BackendOptions,
    /// Sessions that may wait for a place, on all shards together.
    pub queue_max: u32,
    /// How often host names are looked up again; `None`: at start alone.
    pub resolve_interval: Option<Duration>,
    /// What its servers are told before clients' first bytes.
    pub edge: BackendEdge,
    /// How its servers are checked; without it, they are not.
    pub health_check: Option<HealthCheck>,
    /// Who is asked for its one server; without it, the servers are those that are written.
    pub sentinel: Option<Sentinel>,
}

/// Sessions that may wait where the file does not say, and for how long.
pub(super) const QUEUE_MAX: u32 = 1_024;
pub(super) const QUEUE_TIMEOUT: &str = "5s";

/// Most sessions that may be asked to wait: as many as a listener may have.
const QUEUE_MAX_MAX: u32 = 1_000_000;

/// Most retries that may be asked for: as many as there can be servers.
const RETRIES_MAX: u32 = 1_024;

impl Backend {
    /// Its servers, at least one, unless Sentinels name it. A host name with several addresses is as many servers, in the resolver's order.
    pub fn servers(&self) -> impl Iterator<Item = Server> {
        self.entries.iter().flat_map(Entry::servers)
    }
}

pub(super) fn read_backends(
    source: &Source,
    raw: &[Spanned<RawBackend>],
    machine: &Machine,
) -> Result<Vec<Backend>, ConfigError> {
    let section = Section { source, name: "backend" };
    check_entries(source, "backend", raw)?;
    let mut backends: Vec<Backend> = Vec::new();
    for entry in raw {
        let what = "the word that listeners use for it, such as \"valkey\"";
        let (name, value) = section.required("name", entry, entry.get_ref().name.as_ref(), what)?;
        section.check_name(name, value)?;
        if backends.iter().any(|backend| &*backend.name == name) {
            return Err(section.error("name", value, "is the name of another backend already"));
        }
        let raw = entry.get_ref();
        let tls =
            raw.tls.as_ref().map(|tls| read_backend_tls(&Section { source, name: "backend.tls" }, tls)).transpose()?;
        let sentinel = raw.sentinel.as_ref().map(|sentinel| read_sentinel(source, sentinel, machine)).transpose()?;
        let entries = match (&raw.servers, &sentinel) {
            (Some(servers), None) => read_entries(&section, servers, tls.as_ref(), machine)?,
            (None, Some(_)) => Vec::new(),
            (None, None) => {
                return Err(section.missing("servers", entry, "a list of addresses, such as [\"127.0.0.1:6379\"]"));
            }
            (Some(servers), Some(_)) => {
                let problem = "are given, and so is sentinel, which finds the server: leave one of the two out";
                return Err(section.error("servers", servers, problem));
            }
        };
        let backend = Backend {
            name: name.into(),
            entries,
            tls,
            options: read_options(&section, raw)?,
            queue_max: section.count("max_queue", raw.max_queue.as_ref(), 0..=QUEUE_MAX_MAX)?.unwrap_or(QUEUE_MAX),
            resolve_interval: section.duration_or_off(
                "resolve_interval",
                raw.resolve_interval.as_ref(),
                "off",
                "1s"..="24h",
            )?,
            edge: read_backend_edge(&section, raw)?,
            health_check: read_health_check(source, raw.health_check.as_ref(), sentinel.is_some())?,
            sentinel,
        };
        check_backend(&section, raw, &backend)?;
        backends.push(backend);
    }
    Ok(backends)
}

/// No server is a listener of the same file: clients would be sent in a circle, and a listener takes only TLS.
pub(super) fn check_servers(
    source: &Source,
    raw: &[Spanned<RawBackend>],
    backends: &[Backend],
    listeners: &[Listener],
) -> Result<(), ConfigError> {
    let section = Section { source, name: "backend" };
    for (backend, raw) in backends.iter().zip(raw) {
        for server in backend.servers() {
            let found = listeners.iter().find(|listener| address::leads_to(&server.address, listener.bind));
            let (Some(listener), Some(value)) = (found, &raw.get_ref().servers) else { continue };
            let place = place_of(&section, value, &backend.entries, &server.address)?;
            let problem = format!(
                "leads to listener \"{}\" of this file, which takes clients; write where the Valkey or Redis server is",
                listener.name
            );
            return Err(section.error("servers", place, &problem));
        }
    }
    Ok(())
}

fn read_options(section: &Section<'_>, raw: &RawBackend) -> Result<BackendOptions, ConfigError> {
    let balances = [
        ("roundrobin", Balance::RoundRobin),
        ("leastconn", Balance::LeastConn),
        ("first", Balance::First),
        ("random", Balance::Random),
        ("source", Balance::Source),
    ];
    let retries = section.count("retries", raw.retries.as_ref(), 0..=RETRIES_MAX)?;
    Ok(BackendOptions {
        balance: section.choice("balance", raw.balance.as_ref(), Balance::RoundRobin, &balances)?,
        retries: retries.map(|retries| u16::try_from(retries).expect("it is within its bounds")),
        queue_timeout: section.duration("queue_timeout", raw.queue_timeout.as_ref(), QUEUE_TIMEOUT, "10ms"..="10m")?,
        sources: read_sources(section, raw.source_addresses.as_ref())?,
    })
}

fn read_sources(section: &Section<'_>, value: Option<&Spanned<Value>>) -> Result<Vec<IpAddr>, ConfigError> {
    let what = "a list of this machine's own IP addresses, such as [\"10.0.0.5\", \"10.0.0.6\"]";
    let texts = section.distinct_texts("source_addresses", value, what)?.unwrap_or_default();
    let read = texts.iter().map(|Item { value, place }| match value.parse::<IpAddr>() {
        Ok(ip) if !ip.is_unspecified() && !ip.is_multicast() => Ok(ip),
        Ok(_) => Err(section.error("source_addresses", place, "is not the address of one machine")),
        Err(_) => Err(section.error("source_addresses", place, &format!("is not an IP address; it takes {what}"))),
    });
    read.collect()
}

/// Checks what no key's own bounds can say.
fn check_backend(section: &Section<'_>, raw: &RawBackend, backend: &Backend) -> Result<(), ConfigError> {
    let count = backend.servers().count();
    if let Some(servers) = raw.servers.as_ref().filter(|_| count > ENTRIES_MAX) {
        let problem = format!("has {count} addresses; a backend has at most {ENTRIES_MAX}");
        return Err(section.error("servers", servers, &problem));
    }
    if let Some(value) = &raw.resolve_interval
        && backend.resolve_interval.is_some()
        && !backend.entries.iter().any(Entry::is_name)
    {
        return Err(section.error(
            "resolve_interval",
            value,
            "is of no use: no server of this backend has a host name",
        ));
    }
    if let Some(value) = &raw.source_addresses {
        let serves = |server: &Server, source: &IpAddr| match &server.address {
            Address::Tcp(address) => address.is_ipv4() == source.is_ipv4(),
            Address::Unix(_) => false,
        };
        let sources = &backend.options.sources;
        let lacks = |server: &Server| !sources.iter().any(|source| serves(server, source));
        if backend.sentinel.is_none() && backend.servers().all(|server| lacks(&server)) {
            let problem = "is of no use: no server of this backend is reached over TCP from an address of its family";
            return Err(section.error("source_addresses", value, problem));
        }
    }
    Ok(())
}
