//! Health checks of real servers: roles that change, servers that hang, load, are busy or want a password, and what that
//! means to the sessions that are there and to new ones.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;

use crate::certificates::Certificates;
use crate::client::{Client, End};
use crate::ringwall::{Ringwall, Setup};
use crate::scripted::Scripted;
use crate::server::Server;

/// Often enough for a test.
const OFTEN: &str = "interval = \"100ms\", timeout = \"200ms\"";

/// ringwall in front of `server`, with these keys of the backend's `health_check`, for clients without TLS.
fn before(server: &str, keys: &str) -> Setup {
    Setup::before(server).plain().backend(&format!("health_check = {{ {keys}, {OFTEN} }}"))
}

/// The `n`th line about a server that says this.
fn line(ringwall: &Ringwall, n: usize, what: &str) -> String {
    ringwall.process.nth_line(n, |line| line.contains("ringwall::health") && line.contains(what))
}

fn is_up(ringwall: &Ringwall, n: usize) -> String {
    line(ringwall, n, "\"server is up\"")
}

/// What a new client is told instead of being served.
fn refusal(ringwall: &Ringwall) -> String {
    let (refusal, end) = ringwall.plain_client().rest();
    assert_eq!(end, End::Orderly);
    let refusal = String::from_utf8(refusal).unwrap();
    assert!(refusal.starts_with("-ERR ringwall cannot reach the server: "), "{refusal}");
    refusal
}

fn demote(server: &Server) {
    assert_eq!(server.client().call(&["REPLICAOF", "127.0.0.1", "1"]), b"+OK\r\n");
}

fn promote(server: &Server) {
    assert_eq!(server.client().call(&["REPLICAOF", "NO", "ONE"]), b"+OK\r\n");
}

fn assert_serves(client: &mut Client) {
    assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
}

#[test]
fn no_client_stays_at_a_demoted_primary_and_none_comes_to_it() {
    let server = Server::on_tcp();
    let ringwall = before(&server.address(), "type = \"role\"").start();
    is_up(&ringwall, 1);
    let mut clients = [ringwall.plain_client(), ringwall.plain_client()];
    clients.iter_mut().for_each(assert_serves);
    demote(&server);
    for client in &mut clients {
        assert_eq!(client.end(), End::Orderly);
    }
    ringwall.nth_session_ended(2, "server_demoted");
    let demoted = line(&ringwall, 1, "\"state\":\"wrong_role\"");
    for field in ["\"role\":\"replica\"", "\"sessions\":\"close\"", "it is a replica, and the backend wants a primary"]
    {
        assert!(demoted.contains(field), "{field} in {demoted}");
    }
    assert!(refusal(&ringwall).contains("it is a replica, and the backend wants a primary"));
    promote(&server);
    is_up(&ringwall, 2);
    assert_serves(&mut ringwall.plain_client());
}

#[test]
fn a_demotion_may_leave_the_clients_that_are_there_alone() {
    let server = Server::on_tcp();
    let ringwall = before(&server.address(), "type = \"role\", on_demotion = \"keep\"").start();
    is_up(&ringwall, 1);
    let mut client = ringwall.plain_client();
    assert_serves(&mut client);
    demote(&server);
    assert!(line(&ringwall, 1, "\"state\":\"wrong_role\"").contains("\"sessions\":\"keep\""));
    refusal(&ringwall);
    assert!(client.text(&["INFO", "replication"]).contains("role:slave"));
}

#[test]
fn a_demotion_may_let_the_clients_have_their_replies_first() {
    let server = Server::on_tcp();
    let ringwall = before(&server.address(), "type = \"role\", on_demotion = \"drain\"").start();
    is_up(&ringwall, 1);
    let (mut waits, mut is_quiet) = (ringwall.plain_client(), ringwall.plain_client());
    assert_serves(&mut is_quiet);
    // A stream that nobody adds to keeps its reader waiting across the demotion, and its key stays.
    waits.call(&["XADD", "stream", "*", "a", "b"]);
    waits.send_request(&["XREAD", "BLOCK", "0", "STREAMS", "stream", "$"]);
    assert_serves(&mut is_quiet);
    demote(&server);
    assert_eq!(is_quiet.end(), End::Orderly);
    ringwall.session_ended("server_drained");
    promote(&server);
    server.client().call(&["XADD", "stream", "*", "c", "d"]);
    // Demotion has unblocked it, or the entry has: it gets its reply either way, and then its end.
    assert!(!waits.reply().is_empty());
}

#[test]
fn only_the_server_with_the_right_role_gets_sessions() {
    let primary = Server::on_tcp();
    let replica = primary.replica();
    for (role, told) in [("primary", "role:master"), ("replica", "role:slave")] {
        let ringwall =
            before(&replica.address(), &format!("type = \"role\", role = \"{role}\"")).and(primary.address()).start();
        is_up(&ringwall, 1);
        line(&ringwall, 1, "\"state\":\"wrong_role\"");
        for _ in 0..4 {
            let info = ringwall.plain_client().text(&["INFO", "replication"]);
            assert!(info.contains(told), "{info}");
        }
    }
}

#[test]
fn a_server_that_hangs_gets_no_new_sessions_and_keeps_those_it_has() {
    let server = Server::on_tcp_with(&["--enable-debug-command", "local"]);
    let ringwall = before(&server.address(), "type = \"role\", fall = 2").start();
    is_up(&ringwall, 1);
    let mut client = ringwall.plain_client();
    assert_serves(&mut client);
    let mut sleeper = server.client();
    sleeper.send_request(&["DEBUG", "SLEEP", "4"]);
    let failed = line(&ringwall, 1, "\"server's check failed: it gets sessions until more fail in a row\"");
    assert!(failed.contains("no answer within 200ms") && failed.contains("\"state\":\"up\""), "{failed}");
    assert!(line(&ringwall, 1, "\"server is down").contains("no answer within 200ms"));
    assert!(refusal(&ringwall).contains("down: no answer within 200ms"));
    assert_eq!(sleeper.reply(), b"+OK\r\n");
    is_up(&ringwall, 2);
    assert_serves(&mut client);
    assert!(!ringwall.process.lines().iter().any(|line| line.contains("server_d")), "nobody was sent away");
}

#[test]
fn a_server_that_is_busy_is_alive_and_named() {
    let server = Server::on_tcp_with(&["--busy-reply-threshold", "1"]);
    let ringwall = before(&server.address(), "type = \"role\", fall = 1, rise = 100").start();
    is_up(&ringwall, 1);
    let mut client = ringwall.plain_client();
    assert_serves(&mut client);
    let mut busy = server.client();
    busy.send_request(&["EVAL", "while true do end", "0"]);
    let named = line(&ringwall, 1, "(BUSY)");
    assert!(named.contains("\"state\":\"up\"") && named.contains("WARN"), "{named}");
    assert!(named.contains("\"server's check does not tell what it should\""), "{named}");
    for client in [&mut client, &mut ringwall.plain_client()] {
        let reply = client.text(&["PING"]);
        assert!(reply.starts_with("BUSY "), "{reply}");
    }
    assert_eq!(server.client().call(&["SCRIPT", "KILL"]), b"+OK\r\n");
    busy.reply();
    assert_serves(&mut client);
    assert_serves(&mut ringwall.plain_client());
    assert!(!ringwall.process.lines().iter().any(|line| line.contains("server is down")));
}

#[test]
fn a_server_that_loads_is_alive_and_named() {
    let server =
        Server::on_tcp_with(&["--enable-debug-command", "local", "--loading-process-events-interval-bytes", "1024"]);
    let ringwall = before(&server.address(), "type = \"ping\", fall = 100").start();
    is_up(&ringwall, 1);
    let mut client = ringwall.plain_client();
    assert_serves(&mut client);
    let mut loads = server.client();
    assert_eq!(loads.call(&["DEBUG", "POPULATE", "400", "key", "200"]), b"+OK\r\n");
    assert_eq!(loads.call(&["CONFIG", "SET", "key-load-delay", "5000"]), b"+OK\r\n");
    loads.send_request(&["DEBUG", "RELOAD"]);
    assert!(line(&ringwall, 1, "(LOADING)").contains("\"state\":\"up\""));
    assert_eq!(loads.reply(), b"+OK\r\n");
    assert_serves(&mut client);
    assert!(!ringwall.process.lines().iter().any(|line| line.contains("server is down")));
}

#[test]
fn a_server_that_is_gone_is_down_and_comes_back() {
    let mut server = Server::on_tcp();
    let ringwall = before(&server.address(), "type = \"ping\", rise = 2, fall = 2").start();
    is_up(&ringwall, 1);
    let port = server.port();
    server.process.signal(rustix::process::Signal::KILL);
    server.process.wait();
    assert!(line(&ringwall, 1, "\"server is down").contains("Connection refused"));
    assert!(refusal(&ringwall).contains("down: Connection refused"));
    let _again = Server::on_port(port);
    is_up(&ringwall, 2);
    assert_serves(&mut ringwall.plain_client());
}

#[test]
fn a_check_of_the_connection_alone_is_content_with_whoever_accepts() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let ringwall = before(&address, "type = \"tcp\", fall = 1").start();
    is_up(&ringwall, 1);
    drop(listener);
    line(&ringwall, 1, "\"server is down");
}

#[test]
fn a_wrong_password_is_named_and_never_shown_and_a_corrected_one_is_taken() {
    let server = Server::on_tcp_with(&[
        "--requirepass",
        "correct-horse",
        "--user",
        "probe",
        "on",
        ">battery-staple",
        "-@all",
        "+role",
    ]);
    let setup = before(&server.address(), "type = \"role\", username = \"probe\", password_file = \"password\"");
    let path = setup.certificates.folder().join("password");
    fs::write(&path, "hunter-two\n").unwrap();
    let ringwall = setup.sections("level = \"trace\"\n").start();
    assert!(line(&ringwall, 1, "(WRONGPASS)").contains("\"state\":\"unknown\""));
    assert!(refusal(&ringwall).contains("WRONGPASS"));
    fs::write(&path, "battery-staple\n").unwrap();
    is_up(&ringwall, 1);
    let mut client = ringwall.plain_client();
    assert_eq!(client.call(&["AUTH", "correct-horse"]), b"+OK\r\n");
    drop(client);
    ringwall.session_ended("client_closed");
    let lines = ringwall.process.lines().join("\n");
    assert!(!lines.contains("hunter-two") && !lines.contains("battery-staple"));
}

#[test]
fn a_server_that_asks_for_a_password_is_alive_where_no_role_is_wanted() {
    let server = Server::on_tcp_with(&["--requirepass", "correct-horse"]);
    let ringwall = before(&server.address(), "type = \"ping\"").start();
    assert!(is_up(&ringwall, 1).contains("NOAUTH"));
    assert_eq!(ringwall.plain_client().call(&["AUTH", "correct-horse"]), b"+OK\r\n");
    let ringwall = before(&server.address(), "type = \"role\"").start();
    line(&ringwall, 1, "(NOAUTH)");
    assert!(refusal(&ringwall).contains("write password_file"));
}

#[test]
fn where_the_user_may_not_ask_for_the_role_info_is_read() {
    let server = Server::on_tcp_with(&["--user", "default", "on", "nopass", "~*", "&*", "+@all", "-role"]);
    let ringwall = before(&server.address(), "type = \"role\"").start();
    assert!(is_up(&ringwall, 1).contains("\"role\":\"primary\""));
}

#[test]
fn servers_are_checked_in_the_way_that_sessions_reach_them() {
    let certificates = Certificates::new();
    let server = Server::with_tls(&certificates, &["--tls-auth-clients", "no"]);
    let tls = |ca: &Certificates| format!("type = \"role\", {OFTEN} }}\ntls = {{ ca = {:?}", ca.ca_file());
    let start = |keys: &str| Setup::before(server.address()).plain().backend(&format!("health_check = {{ {keys} }}"));
    let ringwall = start(&tls(&certificates)).start();
    is_up(&ringwall, 1);
    let mut client = ringwall.plain_client();
    assert_serves(&mut client);
    demote(&server);
    assert_eq!(client.end(), End::Orderly);
    let ringwall = start(&tls(&Certificates::new())).start();
    assert!(line(&ringwall, 1, "\"server is down").contains("TLS: "));
    assert!(refusal(&ringwall).contains("TLS: "));
    let at_socket = Server::on_unix_socket();
    is_up(&before(&at_socket.address(), "type = \"ping\"").start(), 1);
}

#[test]
fn what_does_not_speak_resp_is_told() {
    let web = Scripted::new(|mut connection| {
        connection.read_exact(&mut [0; 14]).unwrap();
        connection.write_all(b"HTTP/1.1 400 Bad Request\r\n").unwrap();
        connection.read_to_end(&mut Vec::new()).ok();
    });
    let ringwall = before(&web.address.to_string(), "type = \"ping\"").start();
    let down = line(&ringwall, 1, "\"server is down");
    assert!(down.contains("it does not speak RESP: a reply begins with 'H'"), "{down}");
    web.result();
}
