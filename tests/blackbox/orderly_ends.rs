//! Half-close both ways, and that an orderly end stays one: nothing that was said before an end is lost.

use std::io::Read;
use std::net::Shutdown;

use crate::client::End;
use crate::resp::request;
use crate::ringwall::{Ringwall, Setup};
use crate::scripted::{Scripted, read_exactly, write};
use crate::server::Server;

#[test]
fn a_client_that_half_closes_still_gets_every_reply() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let mut client = ringwall.client();
    // No more replies than the server writes before it sees the end: it drops what it still holds then.
    client.send(&request(&["ECHO", "reply"]).repeat(50));
    client.end_writing();
    for _ in 0..50 {
        assert_eq!(client.reply(), b"$5\r\nreply\r\n");
    }
    assert_eq!(client.rest(), (Vec::new(), End::Orderly));
    drop(client);
    ringwall.session_ended("client_closed");
    server.wait_for_clients(0);
}

#[test]
fn replies_that_begin_after_a_half_close_arrive_whole() {
    let backend = Scripted::new(|mut connection| {
        let mut request = Vec::new();
        connection.read_to_end(&mut request).unwrap();
        write(&mut connection, &vec![b'r'; 20_000_000]);
        request
    });
    let ringwall = Ringwall::before(backend.address.to_string());
    let mut client = ringwall.client();
    client.send(b"question");
    client.end_writing();
    let (reply, end) = client.rest();
    assert_eq!((reply.len(), end), (20_000_000, End::Orderly));
    assert_eq!(backend.result(), b"question");
    drop(client);
    ringwall.session_ended("client_closed");
}

#[test]
fn a_client_that_ends_without_close_notify_loses_nothing_and_the_log_says_so() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let mut client = ringwall.client();
    client.send(&request(&["SET", "last", "word"]));
    client.cut_writing();
    assert_eq!(client.reply(), b"+OK\r\n");
    // The server's end of stream is orderly, and so is what the client sees.
    assert_eq!(client.rest(), (Vec::new(), End::Orderly));
    drop(client);
    ringwall.session_ended("client_truncated");
    assert_eq!(server.client().call(&["GET", "last"]), b"$4\r\nword\r\n");
}

#[test]
fn a_request_sent_together_with_the_end_is_carried_out() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    for number in 0..50 {
        let mut client = ringwall.client();
        client.send(&request(&["SADD", "set", &number.to_string()]));
        client.end_writing();
        drop(client);
    }
    ringwall.wait_for_ended_sessions(50);
    server.wait_for_clients(0);
    assert_eq!(server.client().call(&["SCARD", "set"]), b":50\r\n");
}

#[test]
fn a_backend_that_half_closes_still_gets_what_the_client_sends() {
    let backend = Scripted::new(|mut connection| {
        read_exactly(&mut connection, 5);
        write(&mut connection, b"+bye\r\n");
        connection.shutdown(Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        connection.read_to_end(&mut rest).unwrap();
        rest
    });
    let ringwall = Ringwall::before(backend.address.to_string());
    let mut client = ringwall.client();
    client.send(b"hello");
    assert_eq!(client.reply(), b"+bye\r\n");
    assert_eq!(client.end(), End::Orderly);
    client.send(b"and farewell");
    client.end_writing();
    assert_eq!(backend.result(), b"and farewell");
    drop(client);
    ringwall.session_ended("backend_closed");
}

#[test]
fn the_backends_last_words_arrive_before_its_end() {
    let backend = Scripted::new(|mut connection| {
        read_exactly(&mut connection, 5);
        write(&mut connection, &vec![b'z'; 3_000_000]);
    });
    let ringwall = Ringwall::before(backend.address.to_string());
    let mut client = ringwall.client();
    client.send(b"hello");
    let (rest, end) = client.rest();
    assert_eq!((rest.len(), end), (3_000_000, End::Orderly));
}

#[test]
fn a_half_closed_session_lasts_while_bytes_flow_and_no_longer_than_its_timeout_after() {
    let backend = Scripted::new(|mut connection| {
        let mut request = Vec::new();
        connection.read_to_end(&mut request).unwrap();
        write(&mut connection, b"+first\r\n");
        // Not closed here: only the timeout can end this session.
        connection
    });
    let ringwall =
        Setup::before(backend.address.to_string()).sections("[limits]\nhalf_close_timeout = \"300ms\"\n").start();
    let mut client = ringwall.client();
    client.send(b"question");
    client.end_writing();
    assert_eq!(client.reply(), b"+first\r\n");
    assert_eq!(client.end(), End::Orderly);
    ringwall.session_ended("half_close_timeout");
}

#[test]
fn an_idle_session_is_ended_only_where_a_timeout_says_so() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).sections("[limits]\nidle_timeout = \"1s\"\n").start();
    let mut client = ringwall.client();
    assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    assert_eq!(client.rest(), (Vec::new(), End::Orderly));
    ringwall.session_ended("idle_timeout");
    server.wait_for_clients(0);
}
