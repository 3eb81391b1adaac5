//! Servers that take commands from anybody, and listeners that strangers can reach: these bind to all addresses, and are
//! reached over loopback.

use crate::client::End;
use crate::ringwall::{Setup, ringwall};
use crate::server::Server;

const ALL: &str = "0.0.0.0:0";

#[test]
fn strangers_are_not_let_at_an_open_server_and_the_remedy_is_told() {
    for server in [Server::on_unix_socket(), Server::on_tcp()] {
        let ringwall = Setup::before(server.address()).bind(ALL).start();
        let mut client = ringwall.client();
        client.send(b"FLUSHALL\r\n");
        let (told, end) = client.rest();
        let told = String::from_utf8(told).unwrap();
        assert!(told.starts_with("-DENIED ringwall: ") && told.contains("allow_unauthenticated = true"), "{told}");
        assert_eq!((told.lines().count(), end), (1, End::Orderly));
        drop(client);
        ringwall.session_ended("server_open");
        ringwall.process.line(|line| line.contains("ERROR") && line.contains("takes commands without a password"));
        assert!(!server.client().text(&["INFO", "commandstats"]).contains("cmdstat_flushall"));
    }
}

#[test]
fn an_operator_may_allow_it() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).bind(ALL).listener("allow_unauthenticated = true").start();
    ringwall.assert_serves();
    assert!(!server.client().text(&["INFO", "commandstats"]).contains("cmdstat_ping:calls=2"));
}

#[test]
fn strangers_are_let_at_a_server_that_asks_for_a_password_and_it_is_not_asked_each_time() {
    let server = Server::on_tcp_with(&["--requirepass", "secret"]);
    let mut ringwall = Setup::before(server.address()).bind(ALL).start();
    for _ in 0..5 {
        let mut client = ringwall.client();
        assert_eq!(client.call(&["GET", "a"]), b"-NOAUTH Authentication required.\r\n");
        assert_eq!(client.call(&["AUTH", "secret"]), b"+OK\r\n");
        assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    }
    ringwall.terminate();
    ringwall.wait();
    // Once in ten seconds.
    let totals = ringwall.process.line(|line| line.contains("\"totals\""));
    let greetings: u32 = totals.split("\"greetings\":").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
    assert!((1..5).contains(&greetings), "{totals}");
}

#[test]
fn a_listener_that_requires_certificates_or_is_on_loopback_asks_nothing() {
    let server = Server::on_unix_socket();
    let required = Setup::before(server.address()).bind(ALL).tls("client_auth = \"required\", client_ca = \"ca.crt\"");
    required.certificates.certify("worker", |_| {});
    let ringwall = required.start();
    let dial = ringwall.dial().with_certificate(&ringwall.certificates, "worker");
    assert_eq!(dial.connect().unwrap().call(&["GET", "a"]), b"$-1\r\n");
    let ringwall = Setup::before(server.address()).start();
    assert_eq!(ringwall.client().call(&["GET", "a"]), b"$-1\r\n");
    assert!(!server.client().text(&["INFO", "commandstats"]).contains("cmdstat_ping"));
}

#[test]
fn certificates_that_are_optional_leave_strangers_to_be_guarded_against() {
    let server = Server::on_unix_socket();
    let setup = Setup::before(server.address()).bind(ALL).tls("client_auth = \"optional\", client_ca = \"ca.crt\"");
    let ringwall = setup.start();
    let (told, _) = ringwall.client().rest();
    assert!(told.starts_with(b"-DENIED ringwall: "));
}

#[test]
fn a_server_that_becomes_closed_is_served_at_once() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).bind(ALL).start();
    assert!(ringwall.client().rest().0.starts_with(b"-DENIED ringwall: "));
    assert_eq!(server.client().call(&["CONFIG", "SET", "requirepass", "secret"]), b"+OK\r\n");
    assert_eq!(ringwall.client().call(&["AUTH", "secret"]), b"+OK\r\n");
}

#[test]
fn the_next_server_is_tried_when_one_does_not_answer_as_servers_do() {
    let server = Server::on_tcp_with(&["--requirepass", "secret"]);
    let odd = crate::scripted::Scripted::new(|mut connection| {
        crate::scripted::write(&mut connection, b"HTTP/1.1 400 Bad Request\r\n");
        std::io::Read::read_to_end(&mut connection, &mut Vec::new()).ok();
    });
    let setup = Setup::before(odd.address.to_string()).and(server.address()).bind(ALL);
    let ringwall = setup.sections("[runtime]\nshards = 1\n").start();
    assert_eq!(ringwall.client().call(&["AUTH", "secret"]), b"+OK\r\n");
    odd.result();
}

#[test]
fn a_check_says_that_servers_will_be_asked() {
    let warned = "can be reached by strangers, who need no certificate: servers are asked whether they want a password";
    for (bind, keys, warns) in
        [(ALL, "", true), (ALL, "allow_unauthenticated = true", false), ("127.0.0.1:0", "", false)]
    {
        let setup = Setup::before("127.0.0.1:1").bind(bind).listener(keys);
        let path = setup.write();
        let (valid, printed) = ringwall(&["check", "--config", path.to_str().unwrap()]);
        assert!(valid && printed.contains(warned) == warns, "{printed}");
    }
}
