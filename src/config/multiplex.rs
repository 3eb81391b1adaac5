//! A listener's `mode`: whether each client has a connection to a server of its own, or many share few.

use std::time::Duration;

use super::backend::Backend;
use super::error::ConfigError;
use super::limits::Limits;
use super::raw::RawListener;
use super::section::Section;
use super::session_limits::SessionLimits;
use super::{limits, size};

/// How the sessions of a listener share connections to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiplex {
    /// Most bytes of a request or reply over a shared connection.
    pub bytes_max: usize,
    /// Most shared connections of a shard to a server for clients of one user, protocol and database.
    pub connections_per_shard: u32,
    /// Most requests of one client that are under way at a time.
    pub client_requests_max: u32,
    /// Most requests that are under way on one shared connection at a time.
    pub connection_requests_max: u32,
    /// Requests that take longer have a line of the log; `None`: none has.
    pub slow_log: Option<Duration>,
}

/// A client with a pipeline of so many keeps a server busy for longer than a reply takes to come back.
const CLIENT_REQUESTS: u32 = 128;

/// So many small replies are what a server writes at once, and no more than a millisecond of its work.
const CONNECTION_REQUESTS: u32 = 1_024;

/// What a connection notes of requests under way is then a few MiB.
const REQUESTS_MAX: u32 = 65_535;

/// How a listener passes requests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Transparent,
    Multiplex,
}

impl Multiplex {
    /// The most bytes that one session may hold beside what a transparent one may: a request that is not complete, in a
    /// buffer that grows by doubling, and replies, up to where others stop waiting, passed by one receive.
    #[must_use]
    pub const fn session_memory_max(&self) -> usize {
        3 * self.bytes_max + crate::pool::LARGE_BYTES
    }

    pub(super) fn read(
        section: &Section<'_>,
        raw: &RawListener,
        backend: &Backend,
        session: &SessionLimits,
        limits: &Limits,
    ) -> Result<Option<Self>, ConfigError> {
        let modes = [("transparent", Mode::Transparent), ("multiplex", Mode::Multiplex)];
        let mode = section.choice("mode", raw.mode.as_ref(), Mode::Transparent, &modes)?;
        let bytes_max =
            section.size("multiplex_bytes_max", raw.multiplex_bytes_max.as_ref(), "1MiB", "16KiB"..="64MiB", "")?;
        let connections =
            section.count("connections_per_shard", raw.connections_per_shard.as_ref(), 1..=64)?.unwrap_or(1);
        let (client_requests_max, connection_requests_max) = requests(section, raw)?;
        let slow_log = section.duration_or_off("slow_log", raw.slow_log.as_ref(), "off", "1ms"..="1h")?;
        let Some(value) = raw.mode.as_ref().filter(|_| mode == Mode::Multiplex) else {
            let keys = [
                ("multiplex_bytes_max", &raw.multiplex_bytes_max),
                ("connections_per_shard", &raw.connections_per_shard),
                ("client_requests_max", &raw.client_requests_max),
                ("connection_requests_max", &raw.connection_requests_max),
                ("slow_log", &raw.slow_log),
            ];
            let given = keys.into_iter().find_map(|(key, value)| Some((key, value.as_ref()?)));
            let Some((key, value)) = given else { return Ok(None) };
            return Err(section.error(key, value, "is of no use without mode = \"multiplex\""));
        };
        if let Some(problem) = in_the_way(backend) {
            return Err(section.error("mode", value, &problem));
        }
        let multiplex = Self {
            bytes_max,
            connections_per_shard: connections,
            client_requests_max,
            connection_requests_max,
            slow_log,
        };
        let most = limits::session_memory_max(session.send_buffer) + multiplex.session_memory_max();
        if most > limits.shard_memory {
            let shard = size::show(limits.shard_memory);
            let problem = format!(
                "does not fit: with multiplex_bytes_max {} one session may hold {most} bytes, and limits.shard_memory \
                 is {shard}",
                size::show(bytes_max)
            );
            return Err(section.error("mode", value, &problem));
        }
        Ok(Some(multiplex))
    }
}

/// How many requests of one client may be under way, and on one connection.
fn requests(section: &Section<'_>, raw: &RawListener) -> Result<(u32, u32), ConfigError> {
    let count = |key, value| section.count(key, value, 1..=REQUESTS_MAX);
    let of_client = count("client_requests_max", raw.client_requests_max.as_ref())?;
    let of_connection = count("connection_requests_max", raw.connection_requests_max.as_ref())?;
    let most = of_connection.unwrap_or(CONNECTION_REQUESTS);
    match (&raw.client_requests_max, of_client) {
        (Some(value), Some(given)) if given > most => {
            let problem = format!("is more than connection_requests_max, which is {most}");
            Err(section.error("client_requests_max", value, &problem))
        }
        (_, given) => Ok((given.unwrap_or(CLIENT_REQUESTS.min(most)), most)),
    }
}

/// What of a backend says something of each connection, which is nobody's alone here.
fn in_the_way(backend: &Backend) -> Option<String> {
    let edge = &backend.edge;
    let keys = [
        (
            "send_proxy",
            edge.send_proxy.is_some(),
            "a connection that clients share has no one client to name: it takes",
        ),
        ("client_name", edge.client_name.is_some(), "a connection that clients share is not named after one: it takes"),
        ("client_info", edge.client_info.is_some(), "a connection that clients share is not named after one: it takes"),
    ];
    let (key, _, why) = keys.into_iter().find(|&(_, is_given, _)| is_given)?;
    Some(format!(
        "does not go with {key} of backend \"{}\": {why} mode = \"transparent\", or a backend without it",
        backend.name
    ))
}
