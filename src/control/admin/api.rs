//! What is answered as JSON. `ringwall ctl` and `ringwall top` read the same types.

use serde::{Deserialize, Serialize};

use crate::config;

/// The answer of `/status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Of the program.
    pub version: String,
    /// The kernel's release.
    pub kernel: String,
    /// `serving`, `draining` or `stopping`.
    pub phase: String,
    /// What is logged, in the words of `RINGWALL_LOG`.
    pub log_level: String,
    /// Whether what was read from files last is in use.
    pub reload_success: bool,
    /// Whether administrators may change something: `admin.allow_changes`.
    pub changes_allowed: bool,
    /// Where clients connect.
    pub listeners: Vec<Listener>,
    /// The threads that serve them.
    pub shards: Vec<Shard>,
    /// Where their bytes go.
    pub backends: Vec<Backend>,
    /// What clients are shown.
    pub certificates: Vec<Certificate>,
}

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listener {
    /// Its name in the configuration.
    pub name: String,
    /// Where it really listens.
    pub address: String,
    /// Where its clients' bytes go.
    pub backend: String,
    /// `transparent` or `multiplex`.
    pub mode: String,
    /// Connections to servers that its clients share, where they do.
    pub shared_connections: Option<u64>,
    /// Connections to servers that are one client's own then, or kept for one.
    pub own_connections: Option<u64>,
    /// `open`, or `drained` when an operator has closed it.
    pub state: String,
    /// Open connections.
    pub connections: u64,
}

/// A thread that serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shard {
    /// Its number.
    pub shard: usize,
    /// Open connections of clients.
    pub connections: u64,
    /// Those that hold bytes which could not be served yet.
    pub pending: u32,
    /// Handshakes that are going on.
    pub handshakes: u32,
    /// Share of its time not spent waiting.
    pub busy: f64,
}

/// Where bytes go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Backend {
    /// Its name in the configuration.
    pub name: String,
    /// Sessions that wait for a place at one of its servers.
    pub queue: u32,
    /// Who names its server, where that is not the configuration.
    pub sentinel: Option<Sentinel>,
    /// Its servers.
    pub servers: Vec<Server>,
}

/// What a backend's Sentinels say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sentinel {
    /// What they call the primary.
    pub primary_name: String,
    /// Where it is, once one has told.
    pub primary: Option<String>,
    /// The epoch of the configuration that says so.
    pub epoch: u64,
    /// How often another server was followed than the one before.
    pub switches: u64,
    /// Why no primary is known, or what is wrong with all of them together.
    pub problem: Option<String>,
    /// Each of them; all are asked.
    pub asked: Vec<Asked>,
}

/// One Sentinel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// As the configuration writes it.
    pub address: String,
    /// `unasked`, `answers`, `unknown_name` or `trouble`.
    pub state: String,
    /// What is wrong with it.
    pub problem: Option<String>,
}

/// The last health check of a server, and how many there were.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Since it ended.
    pub age_seconds: f64,
    /// How long it took.
    pub took_seconds: f64,
    /// `answered`, `excused` or `failed`.
    pub result: String,
    /// What was wrong.
    pub problem: Option<String>,
    /// What checks have come to: `unknown`, `up`, `down` or `wrong_role`. An operator's word stands above it.
    pub state: String,
    /// Since that is so.
    pub state_age_seconds: f64,
    /// Checks so far.
    pub checks: u64,
    /// Those of them that failed.
    pub checks_failed: u64,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Its name in the configuration.
    pub name: String,
    /// Where it is.
    pub address: String,
    /// Whether it gets new sessions: `up`, `unchecked`, `down`, `wrong_role`, `drained` or `gone`. One that is unchecked
    /// gets them, and no check has found out whether it lives.
    pub state: String,
    /// The same in words, with the reason.
    pub why: String,
    /// The role that it told last, where checks ask for it: `primary`, `replica` or `sentinel`.
    pub role: Option<String>,
    /// Its last check, where there was one.
    pub check: Option<Check>,
    /// Why it could not be reached last, if it has not been reached since.
    #[serde(default)]
    pub failure: Option<DialFailure>,
    /// Connections to it that are open or being opened.
    pub connections: u32,
}

/// An attempt to reach a server that has failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DialFailure {
    /// Since then.
    pub age_seconds: f64,
    /// Why.
    pub problem: String,
}

/// What clients are shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// Of which listener.
    pub listener: String,
    /// The first of its names.
    pub name: String,
    /// In hexadecimal digits.
    pub serial: String,
    /// Seconds since 1970 after which it has expired.
    pub not_after_unix: i64,
    /// Whether its file still holds it.
    pub matches_disk: bool,
}

/// The answer of `/sessions`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sessions {
    /// A page of them.
    pub sessions: Vec<Session>,
    /// What `after` is to be for the next page, if there may be one.
    pub next: Option<String>,
}

/// One client and its server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// What `close` calls it.
    pub id: String,
    /// The client's address.
    pub client: Option<String>,
    /// Who the client is, as its verified certificate says.
    pub client_identity: Option<String>,
    /// Of the client's side.
    pub tls_version: Option<String>,
    /// Where it connected.
    pub listener: String,
    /// Where its bytes go.
    pub backend: String,
    /// To which server of it.
    pub server: Option<String>,
    /// Our port towards the server: what the server's CLIENT LIST shows.
    pub server_local_port: Option<u16>,
    /// Where its listener multiplexes: `shared`, or `own` while its requests go over a connection of its own.
    pub connection: Option<String>,
    /// The command that took it there, or what else did.
    pub own_for: Option<String>,
    /// `handshaking`, `connecting`, `relaying` or `closing`.
    pub state: String,
    /// Whether it holds bytes that could not be served yet.
    pub pending: bool,
    /// Since accept.
    pub age_seconds: f64,
    /// Since bytes last moved.
    pub idle_seconds: f64,
    /// Bytes from the client, as on the wire.
    pub client_rx_bytes: u64,
    /// Bytes to the client, as on the wire.
    pub client_tx_bytes: u64,
    /// Bytes from the server, as on the wire.
    pub server_rx_bytes: u64,
    /// Bytes to the server, as on the wire.
    pub server_tx_bytes: u64,
}

/// The answer to what changes something, and to what is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// What was done, in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<String>,
    /// Why it was not done, in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What a reload has changed in the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// The keys of the configuration that would have to change and take a restart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

/// What a reload has changed in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Of the listeners.
    pub listeners: Named,
    /// Of the backends.
    pub backends: Named,
    /// Other tables that are not as they were.
    pub sections: Vec<String>,
}

/// What has come, gone, or is another under the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Names that were not there before.
    pub added: Vec<String>,
    /// Names that are there no more.
    pub removed: Vec<String>,
    /// Names that stand for something else.
    pub changed: Vec<String>,
}

impl From<config::Changes> for Changes {
    fn from(config::Changes { listeners, backends, sections }: config::Changes) -> Self {
        let sections = sections.into_iter().map(str::to_owned).collect();
        Self { listeners: listeners.into(), backends: backends.into(), sections }
    }
}

impl From<config::Named> for Named {
    fn from(config::Named { added, removed, changed }: config::Named) -> Self {
        let [added, removed, changed] = [added, removed, changed].map(|of| of.into_iter().map(String::from).collect());
        Self { added, removed, changed }
    }
}
