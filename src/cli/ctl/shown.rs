//! Answers as tables for people.

use crate::cli::table::Table;
use crate::config::show_duration;
use crate::control::admin::api::{Backend, Changes, Check, Named, Sentinel, Server, Session, Sessions, Status};
use crate::date::date;

/// How the program stands.
pub(super) fn status(status: &Status) -> String {
    let Status { version, kernel, phase, log_level, reload_success, listeners, shards, backends, certificates, .. } =
        status;
    let reload = if *reload_success { "in use" } else { "not in use: the last reload failed" };
    let mut text =
        format!("ringwall {version} on Linux {kernel}: {phase}\nlog level: {log_level}\nfiles: {reload}\n\n");
    let heading = ["listener", "address", "backend", "mode", "state", "connections", "shared", "own"];
    let mut table = Table::new(&heading);
    for of in listeners {
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let [shared, own] = [of.shared_connections, of.own_connections].map(number);
        let [name, address, backend, mode, state] =
            [&of.name, &of.address, &of.backend, &of.mode, &of.state].map(String::clone);
        table.row([name, address, backend, mode, state, of.connections.to_string(), shared, own]);
    }
    text += &format!("{table}\n");
    let mut table = Table::new(&["shard", "connections", "pending", "handshakes", "busy"]);
    for of in shards {
        let numbers = [of.connections.to_string(), of.pending.to_string(), of.handshakes.to_string()];
        let [connections, pending, handshakes] = numbers;
        table.row([of.shard.to_string(), connections, pending, handshakes, format!("{:.0} %", of.busy * 100.0)]);
    }
    text += &format!("{table}\n");
    text += &servers(backends);
    if !certificates.is_empty() {
        let mut table = Table::new(&["listener", "certificate", "serial", "expires", "file"]);
        for of in certificates {
            let file = if of.matches_disk { "the same" } else { "another" };
            let expires = date(of.not_after_unix);
            table.row([of.listener.clone(), of.name.clone(), of.serial.clone(), expires, file.to_owned()]);
        }
        text += &format!("\n{table}");
    }
    text
}

/// The backends, their Sentinels and their servers.
fn servers(backends: &[Backend]) -> String {
    let mut table = Table::new(&["backend", "queue", "primary"]);
    for of in backends {
        let primary = of.sentinel.as_ref().map(primary).unwrap_or_default();
        table.row([of.name.clone(), of.queue.to_string(), primary]);
    }
    let mut text = format!("{table}\n");
    let mut table = Table::new(&["backend", "sentinel", "state"]);
    let asked = |of: &Backend| of.sentinel.clone().into_iter().flat_map(|sentinel| sentinel.asked);
    for (backend, of) in backends.iter().flat_map(|backend| asked(backend).map(|of| (backend.name.clone(), of))) {
        table.row([backend, of.address, of.problem.map_or(of.state.clone(), |why| format!("{}: {why}", of.state))]);
    }
    if backends.iter().any(|backend| backend.sentinel.is_some()) {
        text += &format!("{table}\n");
    }
    let mut table = Table::new(&["backend", "server", "address", "state", "role", "last check", "connections"]);
    for (backend, of) in backends.iter().flat_map(|backend| backend.servers.iter().map(move |of| (backend, of))) {
        let (role, check) = (of.role.clone().unwrap_or_default(), of.check.as_ref().map(check).unwrap_or_default());
        let place = [backend.name.clone(), of.name.clone(), of.address.clone()];
        let [backend, server, address] = place;
        table.row([backend, server, address, state(of), role, check, of.connections.to_string()]);
    }
    text + &table.to_string()
}

/// How a server stands, and why; of one that nobody checks, whether clients have failed to reach it.
fn state(of: &Server) -> String {
    match &of.failure {
        Some(failure) if of.state == "unchecked" => {
            format!("unchecked, not reached {} ago: {}", seconds(failure.age_seconds), failure.problem)
        }
        Some(_) | None => of.why.clone(),
    }
}

fn primary(of: &Sentinel) -> String {
    let problem = of.problem.as_deref();
    match (&of.primary, problem) {
        (Some(at), None) => format!("{} at {at}, epoch {}", of.primary_name, of.epoch),
        (Some(at), Some(why)) => format!("{} at {at}, epoch {}, as far as is known: {why}", of.primary_name, of.epoch),
        (None, why) => format!("{} is not known: {}", of.primary_name, why.unwrap_or("nobody has told")),
    }
}

fn check(of: &Check) -> String {
    let problem = of.problem.as_ref().map(|why| format!(": {why}"));
    format!("{} ago: {}{}", seconds(of.age_seconds), of.result, problem.unwrap_or_default())
}

/// What a reload has changed.
pub(super) fn changes(of: &Changes) -> String {
    let Changes { listeners, backends, sections } = of;
    let rows = [("listeners", listeners), ("backends", backends)];
    let rows = rows.map(|(what, Named { added, removed, changed })| (what, [added, removed, changed]));
    let none: Vec<String> = Vec::new();
    let rows = rows.into_iter().chain([("tables", [&none, &none, sections])]);
    let rows: Vec<_> = rows.filter(|(_, names)| names.iter().any(|names| !names.is_empty())).collect();
    if rows.is_empty() {
        return "nothing has changed in the configuration\n".to_owned();
    }
    let mut table = Table::new(&["what", "added", "removed", "changed"]);
    for (what, names) in rows {
        let [added, removed, changed] = names.map(|names| names.join(", "));
        table.row([what.to_owned(), added, removed, changed]);
    }
    table.to_string()
}

/// A page of sessions.
pub(super) fn sessions(page: &Sessions) -> String {
    let heading = [
        "id",
        "client",
        "identity",
        "listener",
        "server",
        "connection",
        "state",
        "age",
        "idle",
        "client rx/tx",
        "server rx/tx",
    ];
    let mut table = Table::new(&heading);
    for of in &page.sessions {
        let state = if of.pending { format!("{}, pending", of.state) } else { of.state.clone() };
        table.row([
            of.id.clone(),
            of.client.clone().unwrap_or_default(),
            of.client_identity.clone().unwrap_or_default(),
            of.listener.clone(),
            of.server.clone().unwrap_or_default(),
            connection(of),
            state,
            seconds(of.age_seconds),
            seconds(of.idle_seconds),
            format!("{}/{}", of.client_rx_bytes, of.client_tx_bytes),
            format!("{}/{}", of.server_rx_bytes, of.server_tx_bytes),
        ]);
    }
    let more = page.next.as_ref().map(|next| format!("more: --after {next}\n"));
    format!("{table}{}", more.unwrap_or_default())
}

/// Over which connection its requests go, and why over its own.
fn connection(of: &Session) -> String {
    let way = of.connection.clone().unwrap_or_default();
    of.own_for.as_ref().map_or(way.clone(), |what| format!("{way}, {what}"))
}

/// In whole seconds above ten, with a decimal below.
fn seconds(seconds: f64) -> String {
    if seconds >= 10.0 {
        show_duration(std::time::Duration::from_secs_f64(seconds.round().min(1e9)))
    } else {
        format!("{seconds:.1}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::admin::api::{Asked, Certificate, DialFailure, Listener, Shard};

    fn backends() -> Vec<Backend> {
        let check = Check {
            age_seconds: 2.46,
            took_seconds: 1.0,
            result: "failed".into(),
            problem: Some("no answer within 1s".into()),
            state: "down".into(),
            state_age_seconds: 60.0,
            checks: 30,
            checks_failed: 3,
        };
        let server = Server {
            name: "a".into(),
            address: "unix:/run/valkey.sock".into(),
            state: "drained".into(),
            why: "drained: an operator has said so".into(),
            role: Some("replica".into()),
            check: Some(check),
            failure: None,
            connections: 0,
        };
        let problem = Some("connection refused".into());
        let sentinel = Sentinel {
            primary_name: "main".into(),
            primary: None,
            epoch: 0,
            switches: 0,
            problem: Some("none of them answers".into()),
            asked: vec![Asked { address: "10.0.0.1:26379".into(), state: "trouble".into(), problem }],
        };
        vec![
            Backend { name: "cache".into(), queue: 4, sentinel: None, servers: vec![server] },
            Backend { name: "store".into(), queue: 0, sentinel: Some(sentinel), servers: Vec::new() },
        ]
    }

    #[test]
    fn a_status_is_told_in_tables() {
        let shown = status(&Status {
            version: "0.1.0".into(),
            kernel: "6.18.0".into(),
            phase: "serving".into(),
            log_level: "ringwall=info".into(),
            reload_success: false,
            changes_allowed: false,
            listeners: vec![
                Listener {
                    name: "public".into(),
                    address: "127.0.0.1:6380".into(),
                    backend: "cache".into(),
                    mode: "transparent".into(),
                    shared_connections: None,
                    own_connections: None,
                    state: "open".into(),
                    connections: 12,
                },
                Listener {
                    name: "many".into(),
                    address: "127.0.0.1:6381".into(),
                    backend: "cache".into(),
                    mode: "multiplex".into(),
                    shared_connections: Some(2),
                    own_connections: Some(0),
                    state: "open".into(),
                    connections: 900,
                },
            ],
            shards: vec![Shard { shard: 0, connections: 12, pending: 1, handshakes: 2, busy: 0.251 }],
            backends: backends(),
            certificates: vec![Certificate {
                listener: "public".into(),
                name: "localhost".into(),
                serial: "0a1b".into(),
                not_after_unix: 1_735_689_600,
                matches_disk: true,
            }],
        });
        assert_eq!(
            shown,
            "ringwall 0.1.0 on Linux 6.18.0: serving
log level: ringwall=info
files: not in use: the last reload failed

LISTENER  ADDRESS         BACKEND  MODE         STATE  CONNECTIONS  SHARED  OWN
public    127.0.0.1:6380  cache    transparent  open   12           -       -
many      127.0.0.1:6381  cache    multiplex    open   900          2       0

SHARD  CONNECTIONS  PENDING  HANDSHAKES  BUSY
0      12           1        2           25 %

BACKEND  QUEUE  PRIMARY
cache    4      -
store    0      main is not known: none of them answers

BACKEND  SENTINEL        STATE
store    10.0.0.1:26379  trouble: connection refused

BACKEND  SERVER  ADDRESS                STATE                             ROLE     LAST CHECK                             CONNECTIONS
cache    a       unix:/run/valkey.sock  drained: an operator has said so  replica  2.5s ago: failed: no answer within 1s  0

LISTENER  CERTIFICATE  SERIAL  EXPIRES     FILE
public    localhost    0a1b    2025-01-01  the same
"
        );
    }

    #[test]
    fn a_server_that_nobody_checks_is_told_with_how_it_was_not_reached() {
        let mut server = backends().remove(0).servers.remove(0);
        (server.state, server.why, server.check) = ("unchecked".into(), "unchecked: connection refused".into(), None);
        server.failure = Some(DialFailure { age_seconds: 2.46, problem: "connection refused".into() });
        assert_eq!(state(&server), "unchecked, not reached 2.5s ago: connection refused");
        (server.failure, server.why) = (None, "unchecked".into());
        assert_eq!(state(&server), "unchecked");
    }

    #[test]
    fn what_a_reload_has_changed_is_told_in_a_table_of_what_there_is() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let listeners = Named { added: names(&["c"]), removed: Vec::new(), changed: names(&["a", "b"]) };
        let of = Changes { listeners, backends: Named::default(), sections: names(&["log"]) };
        assert_eq!(
            changes(&of),
            "WHAT       ADDED  REMOVED  CHANGED
listeners  c      -        a, b
tables     -      -        log
"
        );
        assert_eq!(changes(&Changes::default()), "nothing has changed in the configuration\n");
    }

    #[test]
    fn sessions_are_told_in_a_table_with_the_way_to_the_next_page() {
        let session = Session {
            id: "0-7-3".into(),
            client: Some("127.0.0.1:50000".into()),
            client_identity: None,
            tls_version: Some("TLSv1.3".into()),
            listener: "public".into(),
            backend: "cache".into(),
            server: Some("127.0.0.1:6379".into()),
            server_local_port: Some(40_000),
            connection: None,
            own_for: None,
            state: "relaying".into(),
            pending: true,
            age_seconds: 75.2,
            idle_seconds: 0.04,
            client_rx_bytes: 100,
            client_tx_bytes: 200,
            server_rx_bytes: 30,
            server_tx_bytes: 40,
        };
        let shared = Session { connection: Some("shared".into()), pending: false, ..session.clone() };
        let own = Session { connection: Some("own".into()), own_for: Some("watch".into()), ..shared.clone() };
        let shown = sessions(&Sessions { sessions: vec![session, shared, own], next: Some("1-0".into()) });
        assert_eq!(
            shown,
            "ID     CLIENT           IDENTITY  LISTENER  SERVER          CONNECTION  STATE              AGE  IDLE  CLIENT RX/TX  SERVER RX/TX
0-7-3  127.0.0.1:50000  -         public    127.0.0.1:6379  -           relaying, pending  75s  0.0s  100/200       30/40
0-7-3  127.0.0.1:50000  -         public    127.0.0.1:6379  shared      relaying           75s  0.0s  100/200       30/40
0-7-3  127.0.0.1:50000  -         public    127.0.0.1:6379  own, watch  relaying           75s  0.0s  100/200       30/40
more: --after 1-0
"
        );
    }
}
