//! What is allowed and probably not meant: keys that are good one by one, and together do not what whoever wrote them
//! expects. Each becomes one line that names file, line and key, and ends, behind a semicolon, with what to do.
//!
//! Read `tests/config_warnings.rs` first.

use std::collections::HashSet;

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
    let of_ipv4 = listener.bind.is_ipv4();
    if AddressSet::allowing(allow, deny).has_some_of(of_ipv4) {
        return None;
    }
    let (key, value) = raw.allow.as_ref().map(|value| ("allow", value)).or(raw.deny.as_ref().map(|v| ("deny", v)))?;
    let family = if of_ipv4 { "IPv4" } else { "IPv6" };
    let problem = format!(
        "lets nobody in: clients of {} have addresses of {family}, and none of those may connect; allow some of them, or \
         leave the listener out",
        listener.bind
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
        if let (Some(place), Some(twice)) = (place, entry.servers().find(|server| seen.contains(&server.address))) {
            let problem = format!(
                "leads to {}, where another one of them leads, too: that server is counted, checked and chosen as two; for \
                 a larger share write its weight",
                twice.address
            );
            warnings.push(section.error("address", place, &problem));
        }
        seen.extend(entry.servers().map(|server| server.address));
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
