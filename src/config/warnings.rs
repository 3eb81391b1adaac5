//! What is allowed and probably not meant: keys that are good one by one, and together do not what whoever wrote them
//! expects. Each becomes one line that names file, line and key, and ends, behind a semicolon, with what to do.
//!
//! Read `tests/config_warnings.rs` first.

use std::collections::HashSet;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use ipnet::IpNet;
use toml::Spanned;

use super::backend::{Backend, QUEUE_MAX, QUEUE_TIMEOUT};
use super::error::{ConfigError, Source};
use super::health_check::HealthCheck;
use super::listener::Listener;
use super::raw::{RawBackend, RawConfig, RawListener, RawRuntime, Value};
use super::runtime::Runtime;
use super::section::Section;
use super::server::{TABLE, places};
use super::{Config, parse_duration, show_duration};
use crate::io::Address;
use crate::networks::AddressSet;
use crate::roster::Server;
use crate::roster::balance::Balance;

/// The warnings about a configuration, which `raw` is the text of.
pub(super) fn of(source: &Source, raw: &RawConfig, config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    for (raw, listener) in raw.listener.iter().zip(&config.listeners) {
        let section = Section { source, name: "listener" };
        warnings.extend(nobody_let_in(section, raw.get_ref(), listener));
        warnings.extend(rates_never_reached(section, raw.get_ref()));
        warnings.extend(more_shared_than_allowed(section, raw.get_ref(), listener, config));
    }
    for (index, (raw, backend)) in raw.backend.iter().zip(&config.backends).enumerate() {
        if config.listeners.iter().all(|listener| listener.backend != index) {
            let problem = format!("\"{}\" is used by no listener; leave it out", backend.name);
            warnings.push(source.error(raw.span(), "backend", problem));
        }
        let section = Section { source, name: "backend" };
        warnings.extend(servers(source, raw.get_ref(), backend));
        warnings.extend(nobody_waits(section, raw.get_ref(), backend));
        warnings.extend(backend.health_check.as_ref().and_then(|check| slow_checks(source, raw.get_ref(), check)));
    }
    warnings.extend(shared_cores(source, &raw.runtime, &config.runtime));
    warnings.iter().map(ToString::to_string).collect()
}

fn nobody_let_in(section: Section<'_>, raw: &RawListener, listener: &Listener) -> Option<ConfigError> {
    let (allow, deny) = (&listener.admission.allow, &listener.admission.deny);
    let (key, value) = raw.allow.as_ref().map(|value| ("allow", value)).or(raw.deny.as_ref().map(|v| ("deny", v)))?;
    let (allowed, of_ipv4) = (AddressSet::allowing(allow, deny), listener.bind.is_ipv4());
    let problem = if !allowed.has_some_of(of_ipv4) {
        let family = if of_ipv4 { "IPv4" } else { "IPv6" };
        format!(
            "lets nobody in: clients of {} have addresses of {family}, and none of those may connect; allow some of them, \
             or leave the listener out",
            listener.bind
        )
    } else if listener.bind.ip().is_loopback() && !allowed.has_some_within(&loopback(of_ipv4)) {
        format!(
            "lets nobody in: clients of {} are of this host and come from loopback, {}, of which none may connect; allow \
             that, or bind the listener to an address that other hosts reach",
            listener.bind,
            loopback(of_ipv4)
        )
    } else {
        return None;
    };
    Some(section.error(key, value, &problem))
}

/// Where the clients of a listener on loopback come from.
fn loopback(of_ipv4: bool) -> IpNet {
    let (address, prefix) =
        if of_ipv4 { (Ipv4Addr::new(127, 0, 0, 0).into(), 8) } else { (Ipv6Addr::LOCALHOST.into(), 128) };
    IpNet::new_assert(address, prefix)
}

/// Shared connections of all shards, of which a server does not take as many.
fn more_shared_than_allowed(
    section: Section<'_>,
    raw: &RawListener,
    listener: &Listener,
    config: &Config,
) -> Option<ConfigError> {
    let of_shard = listener.multiplex?.connections_per_shard;
    let shards = u32::try_from(config.runtime.cores.len()).unwrap_or(u32::MAX);
    let of_all = of_shard.saturating_mul(shards);
    let mut servers = config.backends[listener.backend].servers();
    let (server, most) = servers.find_map(|server| {
        let most = server.connections_max.filter(|most| *most < of_all)?;
        Some((server.address, most))
    })?;
    let keys = [("connections_per_shard", &raw.connections_per_shard), ("mode", &raw.mode)];
    let (key, value) = keys.into_iter().find_map(|(key, value)| Some((key, value.as_ref()?)))?;
    let problem = format!(
        "has {shards} shards open up to {of_all} connections to {server} for the clients of each user, which may have {most} \
         (max_connections): clients of shards that come late get an error; give the server more max_connections, at least \
         {of_all}, or write fewer connections_per_shard or runtime.shards"
    );
    Some(section.error(key, value, &problem))
}

/// Rates that another one keeps from being reached.
fn rates_never_reached(section: Section<'_>, raw: &RawListener) -> Vec<ConfigError> {
    let rate = |value: &Option<Spanned<Value>>| match value.as_ref().map(Spanned::get_ref) {
        Some(Value::Integer(rate)) => Some(*rate),
        Some(_) | None => None,
    };
    let pair = |one, other| rate(one).zip(rate(other));
    let mut warnings = Vec::new();
    for (key, value, other, of) in [
        ("handshake_rate", &raw.handshake_rate, "connection_rate", &raw.connection_rate),
        (
            "handshake_rate_per_source",
            &raw.handshake_rate_per_source,
            "connection_rate_per_source",
            &raw.connection_rate_per_source,
        ),
    ] {
        if let (Some(value), Some((handshakes, connections))) = (value, pair(value, of))
            && handshakes <= connections
        {
            let problem = format!(
                "is not above {other}, {connections}, which is never reached then: clients are closed without a word, and \
                 none is told; write a higher one, or leave one of the two out"
            );
            warnings.push(section.error(key, value, &problem));
        }
    }
    for (key, value, other, of) in [
        ("connection_rate_per_source", &raw.connection_rate_per_source, "connection_rate", &raw.connection_rate),
        ("handshake_rate_per_source", &raw.handshake_rate_per_source, "handshake_rate", &raw.handshake_rate),
    ] {
        if let (Some(value), Some((of_source, of_all))) = (value, pair(value, of))
            && of_source >= of_all
        {
            let problem = format!(
                "is not below {other}, {of_all}, so that one source may take all of that; write a lower one, or leave it out"
            );
            warnings.push(section.error(key, value, &problem));
        }
    }
    warnings
}

/// What is said of several servers and of no use to any.
fn servers(source: &Source, raw: &RawBackend, backend: &Backend) -> Vec<ConfigError> {
    let (section, mut warnings) = (Section { source, name: TABLE }, Vec::new());
    let Some(value) = &raw.servers else { return warnings };
    let mut seen = HashSet::new();
    let addresses = places(value, "address");
    for (entry, place) in backend.entries.iter().zip(addresses) {
        let Some(place) = place else { continue };
        if let Some(any) = entry.servers().find(|server| is_for_all(&server.address)) {
            let own = if matches!(any.address, Address::Tcp(at) if at.ip().to_canonical().is_ipv4()) {
                "127.0.0.1"
            } else {
                "[::1]"
            };
            let problem = format!(
                "is where a server listens and not where it is: to connect there is to connect to this machine; write {own}, \
                 or the server's own address"
            );
            warnings.push(section.error("address", place, &problem));
        }
        let leads_to = || entry.servers().map(|server| in_one_form(server.address));
        if let Some(twice) = leads_to().find(|address| seen.contains(address)) {
            let problem = format!(
                "leads to {twice}, where another one of them leads, too: that server is counted, checked and chosen as two; \
                 for a larger share write its weight"
            );
            warnings.push(section.error("address", place, &problem));
        }
        seen.extend(leads_to());
    }
    let mut servers = backend.servers().peekable();
    if servers.peek().is_some()
        && servers.all(|server| server.backup)
        && let Some(place) = places(value, "backup").into_iter().flatten().next()
    {
        let problem = "is said of every server, so that none has another one to stand in for; leave it out where it is \
                       not meant";
        warnings.push(section.error("backup", place, problem));
    }
    if backend.options.balance == Balance::First && backend.servers().any(|server| server.weight != Server::WEIGHT) {
        for place in places(value, "weight").into_iter().flatten() {
            let problem = "is of no use with balance = \"first\", which fills one server after the other; write another \
                           balance, or leave it out";
            warnings.push(section.error("weight", place, problem));
        }
    }
    warnings
}

fn is_for_all(address: &Address) -> bool {
    matches!(address, Address::Tcp(address) if address.ip().to_canonical().is_unspecified())
}

/// An address of IPv4 in the form of IPv6 is that address.
fn in_one_form(address: Address) -> Address {
    match address {
        Address::Tcp(SocketAddr::V6(v6)) if v6.ip().to_ipv4_mapped().is_some() => {
            Address::Tcp(SocketAddr::new(v6.ip().to_canonical(), v6.port()))
        }
        Address::Tcp(_) | Address::Unix(_) => address,
    }
}

/// What is worth a word to whoever checks a file, and normal in a program that starts: it logs the ports that it got, and
/// servers may start after it.
pub(super) fn for_check(source: &Source, raw: &RawConfig, config: &Config) -> Vec<String> {
    let section = Section { source, name: "listener" };
    let listeners = raw.listener.iter().zip(&config.listeners);
    let ports = listeners.filter_map(|(raw, listener)| any_port(section, raw.get_ref(), listener));
    ports.chain(absent_sockets(source, raw, config)).map(|warning| warning.to_string()).collect()
}

/// A port that nobody knows before the start.
fn any_port(section: Section<'_>, raw: &RawListener, listener: &Listener) -> Option<ConfigError> {
    let value = raw.bind.as_ref().filter(|_| listener.bind.port() == 0)?;
    let problem = "has port 0: the kernel chooses another port at each start, which the log and `ringwall ctl status` tell; \
                   write the port that clients connect to, such as 6380";
    Some(section.error("bind", value, problem))
}

/// Servers at unix sockets that are not there; whether they are is no matter of the file, and may change any time.
fn absent_sockets(source: &Source, raw: &RawConfig, config: &Config) -> Vec<ConfigError> {
    let (section, mut warnings) = (Section { source, name: TABLE }, Vec::new());
    for (raw, backend) in raw.backend.iter().zip(&config.backends) {
        let Some(value) = &raw.get_ref().servers else { continue };
        for (entry, place) in backend.entries.iter().zip(places(value, "address")) {
            let mut paths = entry.servers().filter_map(|server| match server.address {
                Address::Unix(path) => Some(path),
                Address::Tcp(_) => None,
            });
            if let (Some(place), Some(problem)) = (place, paths.find_map(|path| absence(&path))) {
                warnings.push(section.error("address", place, &problem));
            }
        }
    }
    warnings
}

fn absence(path: &Path) -> Option<String> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => None,
        Ok(_) => Some("is there and no socket; write the path that the server has in its unixsocket".to_owned()),
        Err(error) => Some(format!(
            "cannot be reached at the moment: {error}; start the server, or write the path that it has in its unixsocket"
        )),
    }
}

/// A queue in which nobody waits, because no server is ever full.
fn nobody_waits(section: Section<'_>, raw: &RawBackend, backend: &Backend) -> Vec<ConfigError> {
    if backend.servers().any(|server| server.connections_max.is_some()) {
        return Vec::new();
    }
    let keys = [
        ("max_queue", &raw.max_queue, backend.queue_max != QUEUE_MAX),
        ("queue_timeout", &raw.queue_timeout, Some(backend.options.queue_timeout) != parse_duration(QUEUE_TIMEOUT)),
    ];
    // One that says what holds anyway is no mistake: the reference shows both.
    let keys = keys.into_iter().filter(|(.., differs)| *differs);
    let problem = "is of no use: no server has max_connections, so that no client waits for one; give them some, or leave \
                   it out";
    keys.filter_map(|(key, value, _)| value.as_ref().map(|value| section.error(key, value, problem))).collect()
}

fn slow_checks(source: &Source, raw: &RawBackend, check: &HealthCheck) -> Option<ConfigError> {
    let value = raw.health_check.as_ref()?.get_ref().timeout.as_ref()?;
    if check.timeout <= check.interval {
        return None;
    }
    let problem = format!(
        "is longer than interval, {}: while a server hangs, it is checked once in this time and not in that; write an \
         interval that is at least as long",
        show_duration(check.interval)
    );
    Some(Section { source, name: "backend.health_check" }.error("timeout", value, &problem))
}

fn shared_cores(source: &Source, raw: &RawRuntime, runtime: &Runtime) -> Option<ConfigError> {
    let (value, shards) = (raw.shards.as_ref()?, runtime.cores.len());
    let cores = runtime.cores.iter().collect::<HashSet<_>>().len();
    let problem =
        format!("is more than the {cores} cores that shards may have, so that they share; write at most {cores}");
    (shards > cores).then(|| Section { source, name: "runtime" }.error("shards", value, &problem))
}
