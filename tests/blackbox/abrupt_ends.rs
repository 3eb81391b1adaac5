//! Peers that vanish at the worst moment: the other side learns it, nothing leaks, and everyone else is served.

use std::io::Write;

use crate::client::{Client, End, reset};
use crate::ringwall::Ringwall;
use crate::scripted::{Scripted, read_exactly, write};
use crate::server::Server;

/// Asserts that ringwall serves, and that it and the server have forgotten everyone else.
fn assert_clean(server: &Server, ringwall: &Ringwall, ended: usize, files_before: usize) {
    ringwall.wait_for_ended_sessions(ended);
    server.wait_for_clients(0);
    ringwall.assert_serves();
    ringwall.wait_for_ended_sessions(ended + 1);
    assert_eq!(ringwall.process.open_files(), files_before);
}

/// Resets `times` connections, each once `stage` has brought it to where it shall end.
fn reset_after(times: usize, stage: impl Fn(&Ringwall) -> Client) {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let files = ringwall.process.open_files();
    server.client().call(&[b"SET".as_slice(), b"big", &vec![b'b'; 20_000_000]]);
    for _ in 0..times {
        stage(&ringwall).reset();
    }
    assert_clean(&server, &ringwall, times, files);
}

/// Sends these bytes of a handshake on each of ten connections and resets them.
fn reset_in_handshake(pick: impl Fn(&[u8]) -> &[u8]) {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let files = ringwall.process.open_files();
    for _ in 0..10 {
        let dial = ringwall.dial();
        let mut socket = dial.socket().unwrap();
        socket.write_all(pick(&dial.client_hello())).unwrap();
        reset(&socket);
    }
    assert_clean(&server, &ringwall, 10, files);
}

#[test]
fn a_reset_before_the_first_byte_leaves_nothing_behind() {
    reset_in_handshake(|_| &[]);
}

#[test]
fn a_reset_in_the_middle_of_the_client_hello_leaves_nothing_behind() {
    reset_in_handshake(|hello| &hello[..hello.len() / 2]);
}

#[test]
fn a_reset_after_the_client_hello_leaves_nothing_behind() {
    reset_in_handshake(|hello| hello);
}

#[test]
fn a_reset_right_after_the_handshake_leaves_nothing_behind() {
    reset_after(10, Ringwall::client);
}

#[test]
fn a_reset_between_requests_leaves_nothing_behind() {
    reset_after(10, |ringwall| {
        let mut client = ringwall.client();
        assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
        client
    });
}

#[test]
fn a_reset_with_a_request_under_way_leaves_nothing_behind() {
    reset_after(10, |ringwall| {
        let mut client = ringwall.client();
        client.send_request(&["PING"]);
        client
    });
}

#[test]
fn a_reset_in_the_middle_of_a_large_request_leaves_nothing_behind() {
    reset_after(10, |ringwall| {
        let mut client = ringwall.client();
        client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10000000\r\n");
        client.send(&vec![b'v'; 5_000_000]);
        client
    });
}

#[test]
fn a_reset_in_the_middle_of_a_large_reply_leaves_nothing_behind() {
    reset_after(10, |ringwall| {
        let mut client = ringwall.client();
        client.send_request(&["GET", "big"]);
        client.bytes(1_000_000);
        client
    });
}

#[test]
fn a_reset_while_blocked_leaves_nothing_behind() {
    reset_after(10, |ringwall| {
        let mut client = ringwall.client();
        client.send_request(&["BLPOP", "nothing", "0"]);
        client
    });
}

#[test]
fn a_reset_after_a_half_close_leaves_nothing_behind() {
    reset_after(10, |ringwall| {
        let mut client = ringwall.client();
        client.send_request(&["GET", "big"]);
        client.end_writing();
        client
    });
}

#[test]
fn a_server_killed_in_mid_reply_is_a_visible_cut() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    server.client().call(&[b"SET".as_slice(), b"big", &vec![b'b'; 50_000_000]]);
    let mut client = ringwall.client();
    client.send_request(&["GET", "big"]);
    client.bytes(1_000_000);
    drop(server);
    let (rest, end) = client.rest();
    assert!(rest.len() < 49_000_000, "the reply was complete");
    // A killed process's unix socket ends in order or, with requests unread, by a reset; both must be told truly.
    assert!(end != End::TlsError, "{end:?}");
    // Another client learns what is the matter.
    assert!(ringwall.client().reply().starts_with(b"-ERR "));
}

#[test]
fn a_backend_that_resets_is_a_cut_without_close_notify() {
    let backend = Scripted::new(|mut connection| {
        read_exactly(&mut connection, 5);
        write(&mut connection, b"+half a re");
        reset(&connection);
    });
    let ringwall = Ringwall::before(backend.address.to_string());
    let mut client = ringwall.client();
    client.send(b"hello");
    let (rest, end) = client.rest();
    assert!(b"+half a re".starts_with(&rest), "{rest:?}");
    assert!(matches!(end, End::Cut | End::Reset), "{end:?}");
    ringwall.session_ended("backend_reset");
}

#[test]
fn garbage_after_the_handshake_ends_in_an_alert_and_a_reason() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let mut client = ringwall.client();
    assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    // The head of an application record, and bytes that no key opens.
    client.socket().write_all(&[23, 3, 3, 0, 32]).unwrap();
    client.socket().write_all(&[0x5a; 32]).unwrap();
    assert_eq!(client.end(), End::TlsError);
    ringwall.session_ended("tls_failed");
    server.wait_for_clients(0);
}

#[test]
fn garbage_in_place_of_a_client_hello_ends_in_an_alert_and_a_reason() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let mut socket = ringwall.dial().socket().unwrap();
    // A handshake record that holds no handshake message.
    socket.write_all(&[22, 3, 1, 0, 4, 0xff, 0xff, 0xff, 0xff]).unwrap();
    let mut answer = Vec::new();
    std::io::Read::read_to_end(&mut socket, &mut answer).unwrap();
    // An alert record (21) of level fatal (2).
    assert_eq!((answer[0], answer[5]), (21, 2), "{answer:?}");
    ringwall.session_ended("handshake_failed");
}
