//! The command line, and what `ringwall check` prints.

mod ctl;
mod doctor;
pub mod documents;
mod place;
mod table;
mod top;

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

pub use self::ctl::{Ctl, CtlError};
pub use self::doctor::Doctor;
pub use self::place::Place;
pub use self::top::{Top, TopError};

use crate::config::{
    Admin, Admission, Backend, BackendTls, CheckKind, Coalesce, Config, HealthCheck, Limits, Listener, ListenerEdge,
    LogFormat, LogLevel, LogTarget, Login, Multiplex, OnDemotion, Sentinel, Server, Tls, Unreachable, User, WantedRole,
    show_duration, show_size,
};
use crate::hex;
use crate::io::Address;
use crate::roster::balance::Balance;
use crate::shard::BackendEdge;
use crate::tls::{ClientAuth, ClientRules, Coverage, Policy, ServerAuth, Version};
use crate::wire::proxy;

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "ringwall", version, about)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve until SIGTERM or SIGINT, which drain; a second one ends at once
    Run(ConfigFile),
    /// Check a configuration and the files it names, print what it means, and start nothing
    Check(ConfigFile),
    /// Look at the machine, the files and the servers, and say what keeps ringwall from starting or from serving well;
    /// the exit code is 0 for nothing, 1 when it cannot start, 2 when it can and something needs attention
    Doctor(Doctor),
    /// Print the completions for a shell
    Completions {
        /// Which shell.
        shell: Shell,
    },
    /// Print the manual page
    Man,
    /// Ask a running ringwall how it stands, or have it change something
    Ctl(Ctl),
    /// Watch a running ringwall in the terminal: rates, shards, listeners, servers, sessions
    Top(Top),
}

/// The configuration to work with.
#[derive(Debug, Args)]
pub struct ConfigFile {
    /// The configuration file; config/ringwall.toml of the sources shows every key
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,

    /// Allow log.key_log of the configuration, which lets whoever reads that file read all traffic
    #[arg(long)]
    pub unsafe_key_log: bool,
}

/// What running with a configuration would do, for people to read.
#[derive(Debug)]
pub struct Plan<'a>(pub &'a Config);

impl fmt::Display for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.0;
        for listener in &config.listeners {
            let backend = &config.backends[listener.backend].name;
            writeln!(f, "listener {}", listener.name)?;
            row(f, "bind", listener.bind)?;
            row(f, "backend", backend)?;
            write_admission(f, &listener.admission)?;
            write_own_limits(f, config, listener)?;
            write_listener_edge(f, listener)?;
            match &listener.tls {
                None => row(f, "tls", "none: clients speak plain text")?,
                Some(tls) => write_tls(f, tls)?,
            }
        }
        for backend in &config.backends {
            writeln!(f, "backend {}", backend.name)?;
            for server in backend.servers() {
                let address = server.address.to_string();
                if *server.name == *address {
                    row(f, "server", address)?;
                } else {
                    row(f, "server", format_args!("{} at {address}", server.name))?;
                }
                if let Some(name) = &server.server_name {
                    row(f, "server_name", name)?;
                }
                write_server(f, &server)?;
            }
            write_sending(f, backend)?;
            write_backend_edge(f, &backend.edge)?;
            match &backend.tls {
                None => row(f, "tls", "none: servers are spoken to in plain text")?,
                Some(tls) => write_backend_tls(f, tls)?,
            }
            if let Some(check) = &backend.health_check {
                write_health_check(f, check)?;
            }
            if let Some(sentinel) = &backend.sentinel {
                write_sentinel(f, sentinel)?;
            }
        }
        writeln!(f, "runtime")?;
        row(f, "shards", config.runtime.cores.len())?;
        row(f, "cores", joined(config.runtime.cores.iter().map(usize::to_string)))?;
        row(f, "dispatcher_core", config.runtime.dispatcher_core.map_or("any".to_owned(), |core| core.to_string()))?;
        write_limits(f, &config.limits)?;
        writeln!(f, "coalesce")?;
        row(f, "bytes", shown_coalesce(config.coalesce))?;
        writeln!(f, "log")?;
        row(f, "target", shown_target(&config.log.target))?;
        row(f, "format", shown_format(config.log.format))?;
        row(f, "level", shown_level(config.log.level))?;
        row(f, "sessions", config.log.sessions)?;
        row(f, "sample", config.log.sample)?;
        row(f, "failures_per_second", config.log.failures_per_second)?;
        if let Some(file) = &config.key_log {
            row(f, "key_log", file.display())?;
        }
        if let Some(admin) = &config.admin {
            write_admin(f, admin)?;
        }
        write_needs(f, config)
    }
}

fn write_admission(f: &mut fmt::Formatter<'_>, admission: &Admission) -> fmt::Result {
    let Admission { max_connections, max_connections_per_source, connection_rates, handshake_rates, allow, deny } =
        admission;
    row(f, "max_connections", max_connections)?;
    for (key, bound) in [
        ("max_connections_per_source", max_connections_per_source),
        ("connection_rate", &connection_rates.total),
        ("connection_rate_per_source", &connection_rates.per_source),
        ("handshake_rate", &handshake_rates.total),
        ("handshake_rate_per_source", &handshake_rates.per_source),
    ] {
        if let Some(bound) = bound {
            row(f, key, bound)?;
        }
    }
    for (key, networks) in [("allow", allow), ("deny", deny)] {
        for network in networks {
            row(f, key, network)?;
        }
    }
    Ok(())
}

fn write_listener_edge(f: &mut fmt::Formatter<'_>, listener: &Listener) -> fmt::Result {
    let ListenerEdge { trusted_proxies, users, allow_unauthenticated } = &listener.edge;
    for network in trusted_proxies.iter().flatten() {
        row(f, "trusted_proxies", network)?;
    }
    for User { rules: ClientRules { common_names, dns_names, uris, keys: _ }, name, password_file } in users {
        for (key, names) in [("cn", common_names), ("dns", dns_names), ("uri", uris)] {
            for whose in names {
                row(f, "user", format_args!("{name} for {key} {whose}, password in {}", password_file.display()))?;
            }
        }
    }
    if *allow_unauthenticated {
        row(f, "allow_unauthenticated", true)?;
    }
    Ok(())
}

fn write_backend_edge(f: &mut fmt::Formatter<'_>, edge: &BackendEdge) -> fmt::Result {
    let BackendEdge { send_proxy, client_name, client_info } = edge;
    match send_proxy {
        None => {}
        Some(proxy::Version::V1) => row(f, "send_proxy", "v1")?,
        Some(proxy::Version::V2) => row(f, "send_proxy", "v2")?,
    }
    for (key, template) in [("client_name", client_name), ("client_info", client_info)] {
        if let Some(template) = template {
            row(f, key, template)?;
        }
    }
    Ok(())
}

/// What holds for this listener and not for all.
fn write_own_limits(f: &mut fmt::Formatter<'_>, config: &Config, listener: &Listener) -> fmt::Result {
    let (all, own) = (&config.limits, &listener.session);
    for (key, own, all) in [
        ("listen_backlog", listener.listen_backlog.to_string(), all.listen_backlog.to_string()),
        ("idle_timeout", or_off(own.idle_timeout), or_off(all.idle_timeout)),
        ("half_close_timeout", show_duration(own.half_close_timeout), show_duration(all.half_close_timeout)),
        ("max_lifetime", or_off(own.max_lifetime), or_off(all.max_lifetime)),
        ("tcp_user_timeout", or_off(own.tcp_user_timeout), or_off(all.tcp_user_timeout)),
        ("send_buffer", show_size(own.send_buffer), show_size(all.send_buffer)),
        ("coalesce", shown_coalesce(own.coalesce), shown_coalesce(config.coalesce)),
    ] {
        if own != all {
            row(f, key, own)?;
        }
    }
    match listener.unreachable {
        Unreachable::Error => {}
        Unreachable::Close => row(f, "unreachable", "close")?,
    }
    match &listener.multiplex {
        None => Ok(()),
        Some(Multiplex {
            bytes_max,
            connections_per_shard,
            client_requests_max,
            connection_requests_max,
            slow_log,
        }) => {
            row(f, "mode", "multiplex")?;
            row(f, "multiplex_bytes_max", show_size(*bytes_max))?;
            row(f, "connections_per_shard", connections_per_shard)?;
            row(f, "client_requests_max", client_requests_max)?;
            row(f, "connection_requests_max", connection_requests_max)?;
            row(f, "slow_log", or_off(*slow_log))
        }
    }
}

fn or_off(duration: Option<Duration>) -> String {
    duration.map_or_else(|| "off".to_owned(), show_duration)
}

/// What is said of a server beyond where it is.
fn write_server(f: &mut fmt::Formatter<'_>, server: &Server) -> fmt::Result {
    if server.weight != Server::WEIGHT {
        row(f, "weight", server.weight)?;
    }
    if server.backup {
        row(f, "backup", server.backup)?;
    }
    match server.connections_max {
        Some(max) => row(f, "max_connections", max),
        None => Ok(()),
    }
}

/// How sessions are sent to a backend's servers.
fn write_sending(f: &mut fmt::Formatter<'_>, backend: &Backend) -> fmt::Result {
    let options = &backend.options;
    row(f, "balance", shown_balance(options.balance))?;
    row(f, "retries", options.retries.map_or_else(|| "every other server".to_owned(), |retries| retries.to_string()))?;
    if backend.servers().any(|server| server.connections_max.is_some()) {
        row(f, "max_queue", backend.queue_max)?;
        row(f, "queue_timeout", show_duration(options.queue_timeout))?;
    }
    for source in &options.sources {
        row(f, "source address", source)?;
    }
    match backend.resolve_interval {
        Some(interval) => row(f, "resolve_interval", show_duration(interval)),
        None => Ok(()),
    }
}

const fn shown_balance(balance: Balance) -> &'static str {
    match balance {
        Balance::RoundRobin => "roundrobin",
        Balance::LeastConn => "leastconn",
        Balance::First => "first",
        Balance::Random => "random",
        Balance::Source => "source",
    }
}

fn write_tls(f: &mut fmt::Formatter<'_>, tls: &Tls) -> fmt::Result {
    for pair in &tls.certificates {
        row(f, "certificate", pair.certificate.display())?;
        row(f, "private key", pair.private_key.display())?;
        if let Some(file) = &pair.ocsp {
            row(f, "ocsp", file.display())?;
        }
    }
    if let Some(folder) = &tls.cert_dir {
        row(f, "cert_dir", folder.display())?;
    }
    row(f, "strict_sni", tls.policy.strict_sni)?;
    let policy = &tls.policy;
    write_policy(f, policy)?;
    if !policy.alpn.is_empty() {
        row(f, "alpn", joined(policy.alpn.iter().map(ToString::to_string)))?;
    }
    if let Some(file) = &tls.ticket_secret {
        row(f, "ticket_secret", file.display())?;
    }
    match &tls.client_auth {
        None => row(f, "client_auth", "none"),
        Some(auth) => write_client_auth(f, auth),
    }
}

fn write_policy(f: &mut fmt::Formatter<'_>, policy: &Policy) -> fmt::Result {
    let versions =
        Version::ALL.into_iter().filter(|&version| policy.speaks(version)).map(|version| version.to_string());
    row(f, "tls versions", joined(versions))?;
    for suite in &policy.cipher_suites {
        row(f, "cipher suite", suite.name())?;
    }
    row(f, "groups", joined(policy.groups.iter().map(|group| group.name().to_owned())))
}

fn write_backend_tls(f: &mut fmt::Formatter<'_>, tls: &BackendTls) -> fmt::Result {
    let (verify, ca) = match &tls.auth {
        ServerAuth::Full(ca) => ("full", Some(ca)),
        ServerAuth::Chain(ca) => ("ca", Some(ca)),
        ServerAuth::None => ("none", None),
    };
    row(f, "verify", verify)?;
    if let Some(ca) = ca {
        row(f, "ca", ca.display())?;
    }
    if let Some(pair) = &tls.identity {
        row(f, "certificate", pair.certificate.display())?;
        row(f, "private key", pair.private_key.display())?;
    }
    write_policy(f, &tls.policy)
}

fn write_health_check(f: &mut fmt::Formatter<'_>, check: &HealthCheck) -> fmt::Result {
    let HealthCheck { kind, interval, timeout, rise, fall, login, on_demotion } = check;
    let kind = match kind {
        CheckKind::Tcp => "tcp",
        CheckKind::Ping => "ping",
        CheckKind::Role(WantedRole::Primary) => "role primary",
        CheckKind::Role(WantedRole::Replica) => "role replica",
        CheckKind::Role(WantedRole::Any) => "role any",
    };
    let (interval, timeout) = (show_duration(*interval), show_duration(*timeout));
    row(f, "health_check", format_args!("{kind}, every {interval} within {timeout}, rise {rise}, fall {fall}"))?;
    write_login(f, login.as_ref())?;
    if matches!(check.kind, CheckKind::Role(_)) {
        let word = match on_demotion {
            OnDemotion::Close => "close",
            OnDemotion::Keep => "keep",
            OnDemotion::Drain => "drain",
        };
        row(f, "on_demotion", word)?;
    }
    Ok(())
}

fn write_sentinel(f: &mut fmt::Formatter<'_>, sentinel: &Sentinel) -> fmt::Result {
    row(f, "sentinel", format_args!("the primary \"{}\"", sentinel.name))?;
    for server in &sentinel.addresses {
        row(f, "sentinel address", &server.address)?;
    }
    write_login(f, sentinel.login.as_ref())?;
    match &sentinel.tls {
        None => row(f, "sentinel tls", "none: Sentinels are spoken to in plain text"),
        Some(tls) => write_backend_tls(f, tls),
    }
}

fn write_login(f: &mut fmt::Formatter<'_>, login: Option<&Login>) -> fmt::Result {
    let Some(Login { username, password_file }) = login else { return Ok(()) };
    row(f, "username", username.as_deref().unwrap_or("default"))?;
    row(f, "password_file", password_file.display())
}

fn write_client_auth(f: &mut fmt::Formatter<'_>, auth: &ClientAuth) -> fmt::Result {
    row(f, "client_auth", if auth.required { "required" } else { "optional" })?;
    row(f, "client_ca", auth.authorities.display())?;
    for file in &auth.revocation_lists {
        row(f, "client_crl", file.display())?;
    }
    if !auth.revocation_lists.is_empty() {
        row(f, "client_crl_coverage", shown_coverage(auth.coverage))?;
    }
    let ClientRules { common_names, dns_names, uris, keys } = &auth.rules;
    for (key, names) in [("allowed_cn", common_names), ("allowed_dns", dns_names), ("allowed_uri", uris)] {
        for name in names {
            row(f, key, name)?;
        }
    }
    for key in keys {
        let mut digits = String::new();
        hex::encode_onto(&mut digits, key);
        row(f, "allowed_spki", digits)?;
    }
    if auth.rules.is_empty() {
        row(f, "allowed", "every client of client_ca")?;
    }
    Ok(())
}

const fn shown_coverage(coverage: Coverage) -> &'static str {
    match coverage {
        Coverage::Chain => "chain",
        Coverage::Leaf => "leaf",
        Coverage::Available => "available",
    }
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

fn write_limits(f: &mut fmt::Formatter<'_>, limits: &Limits) -> fmt::Result {
    writeln!(f, "limits")?;
    row(f, "max_connections", limits.max_connections)?;
    row(f, "listen_backlog", limits.listen_backlog)?;
    row(f, "handshake_timeout", show_duration(limits.handshake_timeout))?;
    row(f, "connect_timeout", show_duration(limits.connect_timeout))?;
    row(f, "idle_timeout", or_off(limits.idle_timeout))?;
    row(f, "half_close_timeout", show_duration(limits.half_close_timeout))?;
    row(f, "max_lifetime", or_off(limits.max_lifetime))?;
    row(f, "shutdown_timeout", show_duration(limits.shutdown_timeout))?;
    row(f, "tcp_keepalive", or_off(limits.tcp_keepalive))?;
    row(f, "tcp_user_timeout", or_off(limits.tcp_user_timeout))?;
    row(f, "send_buffer", show_size(limits.send_buffer))?;
    row(f, "shard_memory", show_size(limits.shard_memory))
}

fn write_admin(f: &mut fmt::Formatter<'_>, admin: &Admin) -> fmt::Result {
    writeln!(f, "admin")?;
    row(f, "listen", &admin.listen)?;
    if let Address::Unix(_) = admin.listen {
        row(f, "socket_mode", format_args!("{:04o}", admin.socket_mode))?;
    }
    row(f, "allow_changes", admin.allow_changes)
}

/// What the machine has to give at most.
fn write_needs(f: &mut fmt::Formatter<'_>, config: &Config) -> fmt::Result {
    let shard = config.limits.shard_memory;
    let shards = config.runtime.cores.len();
    writeln!(f, "needs at most")?;
    row(f, "open files", config.open_files_max())?;
    row(f, "session memory", show_size(config.session_memory_max()))?;
    row(f, "shard memory", show_size(shard))?;
    row(f, "all shards", show_size(shard.saturating_mul(shards)))
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, value: impl fmt::Display) -> fmt::Result {
    writeln!(f, "  {name:<19} {value}")
}

fn shown_coalesce(coalesce: Coalesce) -> String {
    match coalesce {
        Coalesce::Off => "off".to_owned(),
        Coalesce::Bytes(bytes) => show_size(bytes),
        Coalesce::Unbounded => "unbounded".to_owned(),
    }
}

fn shown_target(target: &LogTarget) -> Cow<'_, str> {
    match target {
        LogTarget::Stderr => "stderr".into(),
        LogTarget::Journal => "journal".into(),
        LogTarget::File(path) => path.to_string_lossy(),
    }
}

const fn shown_format(format: LogFormat) -> &'static str {
    match format {
        LogFormat::Text => "text",
        LogFormat::Json => "json",
    }
}

const fn shown_level(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
