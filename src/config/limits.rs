//! `[limits]`: bounds on time, memory and numbers, and what follows from them.

use std::time::Duration;

use toml::Spanned;

use super::error::{ConfigError, Source};
use super::machine::Machine;
use super::raw::{RawLimits, Value};
use super::section::Section;
use super::size;
use crate::dispatcher::REFUSALS_MAX;
use crate::pool::LARGE_BYTES;

/// Bounds on time, memory and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most sessions at once, over all listeners.
    pub max_connections: u32,
    /// Connections the kernel may hold per listener before they are accepted; see `listen(2)`.
    pub listen_backlog: u32,
    /// From accept to the end of the TLS handshake.
    pub handshake_timeout: Duration,
    /// To reach a server.
    pub connect_timeout: Duration,
    /// A session without a byte in either direction ends after this; `None`: never.
    pub idle_timeout: Option<Duration>,
    /// What a session has left after one side ended, extended while bytes flow.
    pub half_close_timeout: Duration,
    /// How old a session may become; `None`: as old as it likes.
    pub max_lifetime: Option<Duration>,
    /// What sessions have left after the order to stop.
    pub shutdown_timeout: Duration,
    /// Silence before the kernel probes the peer, in whole seconds; `None`: never.
    pub tcp_keepalive: Option<Duration>,
    /// How long sent bytes may stay unacknowledged; `None`: as long as the kernel tries.
    pub tcp_user_timeout: Option<Duration>,
    /// High-water mark of bytes waiting to be sent, per direction of a session.
    pub send_buffer: usize,
    /// What the sessions of one shard may hold together.
    pub shard_memory: usize,
    /// Handshakes that one shard may have begun at once, and new ones that may wait there.
    pub max_handshakes: u32,
}

/// Sessions at once where nothing is written: Valkey's and Redis' own default of `maxclients`.
const MAX_CONNECTIONS_DEFAULT: u32 = 10_000;
/// Sessions at once that may be asked for; beyond it one host runs out of memory for sockets.
pub(super) const MAX_CONNECTIONS_MAX: u32 = 1_000_000;

/// A session's slot and TLS state in bytes: twice what an idle TLS 1.3 session was measured to add to the process's
/// resident memory, since a handshake takes more.
const SESSION_STATE_BYTES: usize = 16 * 1024;

/// How the warning begins that fewer connections fit the machine than are wanted, behind its key.
const LOWERED: &str = "lowered from its default";

/// The share of the memory of its control group that a process' sessions may hold bytes in: three quarters. The rest is
/// for the state of TLS, receive buffers, and the socket buffers of the kernel, which count there, too.
const MEMORY_SHARE: (u64, u64) = (3, 4);
/// The least a shard has, as the key's own bound says.
const SHARD_MEMORY_MIN: usize = 16 * 1024 * 1024;

/// File descriptors per session: the client's and the server's.
const OPEN_FILES_PER_SESSION: u64 = 2;
/// File descriptors per shard: its ring, and what the kernel may need beside it.
const OPEN_FILES_PER_SHARD: u64 = 4;
/// File descriptors for everything else: standard streams, the dispatcher's ring, the control plane, and clients that
/// are being told that a limit is reached.
const OPEN_FILES_BASE: u64 = 64 + REFUSALS_MAX;

impl Limits {
    pub(super) fn read(
        source: &Source,
        raw: &RawLimits,
        machine: &Machine,
        listeners: usize,
        shards: usize,
        warnings: &mut Vec<String>,
    ) -> Result<Self, ConfigError> {
        let s = Section { source, name: "limits" };
        let limits = Self {
            max_connections: max_connections(&s, raw, machine, listeners, shards, warnings)?,
            listen_backlog: read_listen_backlog(&s, raw.listen_backlog.as_ref())?.unwrap_or(4_096),
            handshake_timeout: s.duration(
                "handshake_timeout",
                raw.handshake_timeout.as_ref(),
                "10s",
                "100ms"..="10m",
            )?,
            connect_timeout: s.duration("connect_timeout", raw.connect_timeout.as_ref(), "5s", "10ms"..="2m")?,
            idle_timeout: read_idle_timeout(&s, raw.idle_timeout.as_ref())?,
            half_close_timeout: read_half_close_timeout(&s, raw.half_close_timeout.as_ref())?,
            max_lifetime: read_max_lifetime(&s, raw.max_lifetime.as_ref())?,
            shutdown_timeout: s.duration("shutdown_timeout", raw.shutdown_timeout.as_ref(), "30s", "0s"..="24h")?,
            tcp_keepalive: s.duration_or_off("tcp_keepalive", raw.tcp_keepalive.as_ref(), "60s", "1s"..="9h")?,
            tcp_user_timeout: read_tcp_user_timeout(&s, raw.tcp_user_timeout.as_ref())?,
            send_buffer: read_send_buffer(&s, raw.send_buffer.as_ref())?,
            shard_memory: shard_memory(&s, raw, machine, shards, warnings)?,
            max_handshakes: s.count("max_handshakes", raw.max_handshakes.as_ref(), 16..=65_536)?.unwrap_or(1_024),
        };
        limits.check_together(&s, raw)?;
        Ok(limits)
    }

    /// Checks what no key's own bounds can say.
    fn check_together(&self, s: &Section<'_>, raw: &RawLimits) -> Result<(), ConfigError> {
        if let (Some(value), Some(keepalive)) = (&raw.tcp_keepalive, self.tcp_keepalive)
            && keepalive.subsec_nanos() != 0
        {
            return Err(s.error("tcp_keepalive", value, "is not a number of whole seconds, which the kernel wants"));
        }
        let session = session_memory_max(self.send_buffer);
        if let Some(value) = raw.shard_memory.as_ref().or(raw.send_buffer.as_ref())
            && self.shard_memory < session
        {
            let (shard, mark) = (size::show(self.shard_memory), size::show(self.send_buffer));
            let key = if raw.shard_memory.is_some() { "shard_memory" } else { "send_buffer" };
            let problem = format!(
                "does not fit: with send_buffer {mark} one session may hold {session} bytes, and shard_memory is {shard}"
            );
            return Err(s.error(key, value, &problem));
        }
        Ok(())
    }
}

/// The most bytes one session may hold: its state, a record carried over per side, and per direction the high-water
/// mark passed by one large receive.
pub(super) const fn session_memory_max(send_buffer: usize) -> usize {
    SESSION_STATE_BYTES + 2 * LARGE_BYTES + 2 * (send_buffer + LARGE_BYTES)
}

pub(super) fn read_listen_backlog(s: &Section<'_>, raw: Option<&Spanned<Value>>) -> Result<Option<u32>, ConfigError> {
    s.count("listen_backlog", raw, 1..=65_535)
}

pub(super) fn read_idle_timeout(
    s: &Section<'_>,
    raw: Option<&Spanned<Value>>,
) -> Result<Option<Duration>, ConfigError> {
    s.duration_or_off("idle_timeout", raw, "off", "1s"..="168h")
}

pub(super) fn read_half_close_timeout(s: &Section<'_>, raw: Option<&Spanned<Value>>) -> Result<Duration, ConfigError> {
    s.duration("half_close_timeout", raw, "30s", "100ms"..="1h")
}

pub(super) fn read_max_lifetime(
    s: &Section<'_>,
    raw: Option<&Spanned<Value>>,
) -> Result<Option<Duration>, ConfigError> {
    s.duration_or_off("max_lifetime", raw, "off", "1s"..="8760h")
}

pub(super) fn read_tcp_user_timeout(
    s: &Section<'_>,
    raw: Option<&Spanned<Value>>,
) -> Result<Option<Duration>, ConfigError> {
    s.duration_or_off("tcp_user_timeout", raw, "5m", "1s"..="1h")
}

pub(super) fn read_send_buffer(s: &Section<'_>, raw: Option<&Spanned<Value>>) -> Result<usize, ConfigError> {
    s.size("send_buffer", raw, "256KiB", "64KiB"..="16MiB", "")
}

/// Whether a warning says that fewer connections fit the machine.
pub(super) fn tells_fewer_connections(warning: &str) -> bool {
    warning.contains(&format!(": limits.max_connections: {LOWERED} "))
}

/// How many file descriptors a process may need at once.
pub(super) fn open_files(sessions: u32, listeners: usize, shards: usize) -> u64 {
    OPEN_FILES_PER_SESSION * u64::from(sessions) + open_files_beside_sessions(listeners, shards)
}

fn open_files_beside_sessions(listeners: usize, shards: usize) -> u64 {
    OPEN_FILES_BASE + super::wide(listeners) + OPEN_FILES_PER_SHARD * super::wide(shards)
}

/// What is written, or the default; less than that where all shards together had more than their share of the memory
/// that the process can have.
fn shard_memory(
    s: &Section<'_>,
    raw: &RawLimits,
    machine: &Machine,
    shards: usize,
    warnings: &mut Vec<String>,
) -> Result<usize, ConfigError> {
    let wanted = s.size("shard_memory", raw.shard_memory.as_ref(), "256MiB", "16MiB"..="1024GiB", "")?;
    let Some(memory_max) = machine.memory_max else { return Ok(wanted) };
    let share = memory_max / MEMORY_SHARE.1 * MEMORY_SHARE.0 / super::wide(shards.max(1));
    let fitting = usize::try_from(share).unwrap_or(usize::MAX).max(SHARD_MEMORY_MIN);
    if wanted <= fitting {
        return Ok(wanted);
    }
    let mebibytes = |bytes: u64| bytes >> 20;
    let (all, most) = (mebibytes(super::wide(wanted).saturating_mul(super::wide(shards))), mebibytes(memory_max));
    let why = format!(
        "all {shards} shards would take {all} MiB, and the control group has {most} MiB (memory.max), a quarter of which \
         TLS states and the kernel's buffers need"
    );
    let remedy = "raise the limit (MemoryMax= of the systemd unit, the container's memory)";
    if let Some(value) = &raw.shard_memory {
        let problem = format!("is more than fits: {why}: {remedy}, or write at most \"{}MiB\"", fitting >> 20);
        warnings.push(s.error("shard_memory", value, &problem).to_string());
        return Ok(wanted);
    }
    let (key, lower) = (s.key("shard_memory"), fitting >> 20 << 20);
    let problem =
        format!("{key}: lowered from its default {} to {}: {why}; {remedy}", size::show(wanted), size::show(lower));
    warnings.push(ConfigError::of_file(s.source.file(), problem).to_string());
    Ok(lower)
}

/// The number that is written, if the process can have that many files; else as many as it can have.
fn max_connections(
    s: &Section<'_>,
    raw: &RawLimits,
    machine: &Machine,
    listeners: usize,
    shards: usize,
    warnings: &mut Vec<String>,
) -> Result<u32, ConfigError> {
    let written = s.count("max_connections", raw.max_connections.as_ref(), 1..=MAX_CONNECTIONS_MAX)?;
    let files = machine.open_files_max;
    let fitting = files.saturating_sub(open_files_beside_sessions(listeners, shards)) / OPEN_FILES_PER_SESSION;
    let wanted = written.unwrap_or(MAX_CONNECTIONS_DEFAULT);
    if u64::from(wanted) <= fitting {
        return Ok(wanted);
    }
    let needed = open_files(wanted, listeners, shards);
    let remedy = "raise it (LimitNOFILE= of the systemd unit, ulimit -Hn)";
    if let (Some(value), Some(_)) = (&raw.max_connections, written) {
        let problem = format!(
            "needs {needed} open files, 2 per connection, and the hard limit RLIMIT_NOFILE is {files}: {remedy} or \
             write at most {fitting}"
        );
        return Err(s.error("max_connections", value, &problem));
    }
    let key = s.key("max_connections");
    match u32::try_from(fitting) {
        Ok(fewer) if fewer > 0 => {
            let problem = format!(
                "{key}: {LOWERED} {wanted} to {fewer}: it needs {needed} open files, 2 per connection, and the hard limit \
                 RLIMIT_NOFILE is {files}; {remedy}"
            );
            warnings.push(ConfigError::of_file(s.source.file(), problem).to_string());
            Ok(fewer)
        }
        Ok(_) | Err(_) => {
            let least = open_files(1, listeners, shards);
            let problem = format!(
                "{key}: the hard limit RLIMIT_NOFILE is {files}, and one connection needs {least} open files: {remedy}"
            );
            Err(ConfigError::of_file(s.source.file(), problem))
        }
    }
}
