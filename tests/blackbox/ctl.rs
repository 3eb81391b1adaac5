//! `ringwall ctl` against a running ringwall.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use crate::client::End;
use crate::ringwall::{Ringwall, Setup, ringwall};
use crate::server::{Server, free_port};

/// Asks by the configuration file.
fn ctl(of: &Ringwall, arguments: &[&str]) -> (bool, String) {
    let config = of.folder().join("ringwall.toml").display().to_string();
    ringwall(&[&["ctl", "--config", &config], arguments].concat())
}

/// The output of what must succeed.
fn asked(of: &Ringwall, arguments: &[&str]) -> String {
    let (success, output) = ctl(of, arguments);
    assert!(success, "{arguments:?}: {output}");
    output
}

#[test]
fn the_status_and_the_sessions_are_tables_or_json() {
    let server = Server::on_unix_socket();
    let of = Setup::before(server.address()).admin("").start();
    let mut client = of.client();
    client.call(&["PING"]);
    let status = asked(&of, &["status"]);
    let mut lines = status.lines();
    assert!(lines.next().unwrap().starts_with("ringwall 0.1.0 on Linux "), "{status}");
    assert_eq!(lines.next(), Some("log level: ringwall=info"));
    assert_eq!(lines.next(), Some("files: in use"));
    let listener = status.lines().find(|line| line.starts_with("public ")).unwrap();
    let cells: Vec<_> = listener.split_whitespace().collect();
    assert_eq!(cells, ["public", &of.address.to_string(), "server", "transparent", "open", "1", "-", "-"]);
    assert!(status.contains("BACKEND  QUEUE  PRIMARY\nserver   0      -\n"), "{status}");
    let backend = status.lines().rfind(|line| line.starts_with("server ")).unwrap();
    let cells: Vec<_> = backend.split_whitespace().collect();
    assert_eq!(cells, ["server", &server.address(), &server.address(), "unchecked", "-", "-", "1"]);

    let sessions = asked(&of, &["sessions", "--listener", "public", "--min-age", "0s"]);
    let lines: Vec<_> = sessions.lines().collect();
    assert!(lines[0].starts_with("ID ") && lines[0].contains("CLIENT RX/TX"), "{sessions}");
    assert_eq!(lines.len(), 2, "{sessions}");
    assert!(lines[1].contains(&client.socket().local_addr().unwrap().to_string()), "{sessions}");
    let json = asked(&of, &["sessions", "--json"]);
    assert!(json.starts_with("{\"sessions\":[{\"id\":\""), "{json}");
    assert!(asked(&of, &["metrics"]).contains("ringwall_connections_total{listener=\"public\"} 1\n"));
}

#[test]
fn what_it_changes_is_changed_and_told_in_a_line() {
    let server = Server::on_unix_socket();
    let of = Setup::before(server.address()).on_port(free_port()).admin("allow_changes = true\n").start();
    let mut client = of.client();
    client.call(&["PING"]);
    let sessions = asked(&of, &["sessions"]);
    let id = sessions.lines().nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(asked(&of, &["close", &id]), format!("session {id} closed\n"));
    assert_eq!(client.end(), End::Orderly);
    assert!(asked(&of, &["drain", "--listener", "public"]).starts_with("listener drained"));
    assert_eq!(asked(&of, &["enable", "--listener", "public"]), "listener enabled\n");
    let target = ["--backend", "server", "--server", &server.address()];
    assert!(asked(&of, &[&["drain"][..], &target].concat()).starts_with("server drained"));
    assert_eq!(asked(&of, &[&["enable"][..], &target].concat()), "server enabled\n");
    assert_eq!(asked(&of, &["rotate-tickets"]), "ticket keys rotated\n");
    assert_eq!(asked(&of, &["log-level", "warn"]), "log level: ringwall=warn\n");
    assert_eq!(asked(&of, &["reload"]), "reloaded\nnothing has changed in the configuration\n");
    of.assert_serves();
}

#[test]
fn what_is_refused_is_told_and_fails() {
    let server = Server::on_unix_socket();
    let of = Setup::before(server.address()).admin("").start();
    let (success, output) = ctl(&of, &["reload"]);
    assert!(!success, "{output}");
    assert_eq!(
        output,
        "ringwall: changes are not allowed: admin.allow_changes = true of the configuration allows them\n"
    );
    let (success, output) = ctl(&of, &["sessions", "--backend", "none"]);
    assert_eq!((success, &*output), (false, "ringwall: no backend is called none; there are server\n"));
    let usage = "Usage: ringwall ctl drain --listener NAME\n       ringwall ctl drain --backend NAME --server NAME\n";
    let either = "the following required arguments were not provided:\n  <--listener <NAME>|--backend <NAME>>\n";
    for (arguments, why) in [
        (&["drain"][..], either),
        (&["drain", "--backend", "server"], "the following required arguments were not provided:\n  --server <NAME>\n"),
        (&["drain", "--server", "a"], "the following required arguments were not provided:\n"),
        (&["drain", "--listener", "public", "--backend", "server", "--server", "a"], "cannot be used with"),
    ] {
        let (success, output) = ctl(&of, arguments);
        assert!(!success && output.contains(why) && output.contains(usage), "{output}");
    }
}

#[test]
fn a_socket_that_is_not_there_or_not_for_us_is_told_with_what_to_do() {
    let server = Server::on_unix_socket();
    let without = Ringwall::before(server.address());
    let (success, output) = ctl(&without, &["status"]);
    assert!(!success && output.contains("has no [admin] table"), "{output}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let socket = path.display().to_string();
    let (success, output) = ringwall(&["ctl", "--socket", &socket, "status"]);
    assert!(!success && output.contains("--config FILE or --socket PATH say where"), "{output}");
    drop(UnixListener::bind(&path).unwrap());
    let (success, output) = ringwall(&["ctl", "--socket", &socket, "status"]);
    assert!(!success && output.contains("nobody listens there"), "{output}");
    // Permissions do not bind the superuser.
    if !rustix::process::geteuid().is_root() {
        fs::set_permissions(folder.path(), Permissions::from_mode(0o000)).unwrap();
        let (success, output) = ringwall(&["ctl", "--socket", &socket, "status"]);
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        assert!(!success && output.contains("admin.socket_mode"), "{output}");
    }
}
