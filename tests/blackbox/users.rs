//! Clients that become users of a real server by their certificates, and what keeps others from it.

use rcgen::{DnType, SanType};

use crate::client::{Client, Dial, End};
use crate::ringwall::{Ringwall, Setup};
use crate::server::Server;

const PASSWORD: &str = "correct-horse-battery";

/// A server with the user "worker", whose default user needs a password unless `keys` say otherwise.
fn server(keys: &[&str]) -> Server {
    let password = format!(">{PASSWORD}");
    let user = ["--user", "worker", "on", &password, "~worker:*", "&*", "+@all"];
    Server::on_tcp_with(&[&user[..], keys].concat())
}

const CLOSED: [&str; 2] = ["--requirepass", "of-the-default-user"];

/// ringwall in front of `server`; whoever has the common name "worker" is the user of that name, with this password.
fn before(server: &Server, password: &str) -> Setup {
    let setup = Setup::before(server.address()).tls("client_auth = \"required\", client_ca = \"ca.crt\"");
    for name in ["worker", "other"] {
        setup.certificates.certify(name, |params| {
            params.distinguished_name.push(DnType::CommonName, name);
            params.subject_alt_names = vec![SanType::URI(format!("spiffe://example/{name}/1").try_into().unwrap())];
        });
    }
    let path = setup.certificates.folder().join("worker.password");
    std::fs::write(path, format!("{password}\n")).unwrap();
    setup.listener("[[listener.user]]\ncn = \"worker\"\nname = \"worker\"\npassword_file = \"worker.password\"\n")
}

fn dial(ringwall: &Ringwall, name: &str) -> Dial {
    ringwall.dial().with_certificate(&ringwall.certificates, name)
}

fn client(ringwall: &Ringwall, name: &str) -> Client {
    dial(ringwall, name).connect().unwrap()
}

#[test]
fn a_certificate_makes_a_client_its_user() {
    let server = server(&CLOSED);
    let ringwall = before(&server, PASSWORD).start();
    for _ in 0..3 {
        let mut client = client(&ringwall, "worker");
        assert_eq!(client.call(&["ACL", "WHOAMI"]), b"$6\r\nworker\r\n");
        assert_eq!(client.call(&["SET", "worker:a", "1"]), b"+OK\r\n");
        assert!(client.call(&["SET", "a", "1"]).starts_with(b"-NOPERM "));
    }
    let line = ringwall.nth_session_ended(3, "client_truncated");
    assert!(line.contains("\"user\":\"worker\""), "{line}");
}

#[test]
fn requests_that_come_with_the_handshake_are_answered_whole_and_in_order() {
    let server = server(&CLOSED);
    let ringwall = before(&server, PASSWORD).start();
    let mut client = client(&ringwall, "worker");
    let mut requests = Vec::new();
    for number in 0..10_000 {
        requests.extend(format!("ECHO {number}\r\n").into_bytes());
    }
    client.send(&requests);
    client.end_writing();
    for number in 0..10_000 {
        let number = number.to_string();
        assert_eq!(client.reply(), format!("${}\r\n{number}\r\n", number.len()).into_bytes());
    }
    assert_eq!(client.end(), End::Orderly);
}

#[test]
fn reset_makes_a_client_nobody_and_its_password_makes_it_another() {
    let server = server(&CLOSED);
    let ringwall = before(&server, PASSWORD).start();
    let mut client = client(&ringwall, "worker");
    assert_eq!(client.call(&["RESET"]), b"+RESET\r\n");
    assert_eq!(client.call(&["GET", "worker:a"]), b"-NOAUTH Authentication required.\r\n");
    assert_eq!(client.call(&["AUTH", "default", CLOSED[1]]), b"+OK\r\n");
    assert_eq!(client.call(&["ACL", "WHOAMI"]), b"$7\r\ndefault\r\n");
}

#[test]
fn no_user_is_let_at_a_server_whose_default_user_is_open() {
    for keys in [&[][..], &["--user", "default", "on", "nopass", "~*", "+get"]] {
        let server = server(keys);
        let ringwall = before(&server, PASSWORD).start();
        let mut client = client(&ringwall, "worker");
        client.send(b"RESET\r\n");
        let (told, end) = client.rest();
        let told = String::from_utf8(told).unwrap();
        assert!(told.starts_with("-ERR ringwall: the server's default user needs no password"), "{told}");
        assert_eq!((told.lines().count(), end), (1, End::Orderly));
        drop(client);
        ringwall.session_ended("server_open");
        ringwall
            .process
            .line(|line| line.contains("ERROR") && line.contains("the server's default user needs no password"));
    }
}

#[test]
fn a_client_without_a_user_is_told_so_and_named() {
    let server = server(&CLOSED);
    let ringwall = before(&server, PASSWORD).start();
    let (told, end) = client(&ringwall, "other").rest();
    assert_eq!(told, b"-NOAUTH ringwall: this listener has no user for your certificate\r\n");
    assert_eq!(end, End::Orderly);
    let line = ringwall.session_ended("no_user");
    assert!(
        line.contains("\"client_identity\":\"spiffe://example/other/1\"") && !line.contains("\"server\":"),
        "{line}"
    );
    ringwall.process.line(|line| line.contains("WARN") && line.contains("no [[listener.user]]"));
}

#[test]
fn a_password_that_the_server_does_not_take_is_told_and_shown_nowhere() {
    let server = server(&CLOSED);
    let mut ringwall = before(&server, "tr0ub4dor-and-3").sections("level = \"trace\"\n").start();
    let mut client = client(&ringwall, "worker");
    client.send(b"PING\r\n");
    let (told, end) = client.rest();
    assert_eq!(told, b"-NOAUTH ringwall: the server refuses the user that is for your certificate\r\n");
    assert_eq!(end, End::Orderly);
    drop(client);
    let line = ringwall.session_ended("user_refused");
    assert!(line.contains("\"user\":\"worker\""), "{line}");
    ringwall.terminate();
    ringwall.wait();
    assert!(!ringwall.process.lines().join("\n").contains("tr0ub4dor"));
}

#[test]
fn users_are_found_by_any_kind_of_name_and_the_first_counts() {
    let server = server(&CLOSED);
    let setup = before(&server, PASSWORD).listener(
        "[[listener.user]]\nuri = \"spiffe://example/other/*\"\nname = \"nobody\"\npassword_file = \"worker.password\"\n\
         [[listener.user]]\nuri = \"spiffe://example/worker/*\"\nname = \"worker\"\npassword_file = \"worker.password\"\n\
         [[listener.user]]\ncn = \"worker\"\nname = \"nobody\"\npassword_file = \"worker.password\"\n",
    );
    let ringwall = setup.start();
    assert_eq!(client(&ringwall, "worker").call(&["ACL", "WHOAMI"]), b"$6\r\nworker\r\n");
    let (told, _) = client(&ringwall, "other").rest();
    assert_eq!(told, b"-NOAUTH ringwall: the server refuses the user that is for your certificate\r\n");
}

#[test]
fn a_resumed_session_is_the_same_user() {
    let server = server(&CLOSED);
    let ringwall = before(&server, PASSWORD).start();
    let dial = dial(&ringwall, "worker");
    for _ in 0..2 {
        let mut client = dial.connect().unwrap();
        assert_eq!(client.call(&["ACL", "WHOAMI"]), b"$6\r\nworker\r\n");
        client.end_writing();
        client.end();
    }
    let line = ringwall.nth_session_ended(2, "client_closed");
    assert!(line.contains("\"resumed\":true") && line.contains("\"user\":\"worker\""), "{line}");
}
