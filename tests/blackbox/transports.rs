//! Clients with TLS and without, in front of servers with TLS and without: the same holds in all four combinations.

use std::net::{Ipv4Addr, TcpListener};

use rustix::process::Signal;

use crate::certificates::Certificates;
use crate::client::{Client, End};
use crate::resp::request;
use crate::ringwall::{Ringwall, Setup};
use crate::server::Server;

/// One combination, up and running.
struct Pair {
    client_tls: bool,
    server_tls: bool,
    ringwall: Ringwall,
    server: Server,
    _certificates: Certificates,
}

impl Pair {
    fn start(client_tls: bool, server_tls: bool) -> Self {
        let certificates = Certificates::new();
        let server =
            if server_tls { Server::with_tls(&certificates, &["--tls-auth-clients", "no"]) } else { Server::on_tcp() };
        let mut setup = Setup::before(server.address());
        if server_tls {
            setup = setup.backend(&format!("tls = {{ ca = {:?} }}", certificates.ca_file()));
        }
        if !client_tls {
            setup = setup.plain();
        }
        Self { client_tls, server_tls, ringwall: setup.start(), server, _certificates: certificates }
    }

    fn client(&self) -> Client {
        if self.client_tls { self.ringwall.client() } else { self.ringwall.plain_client() }
    }
}

fn all_four() -> impl Iterator<Item = Pair> {
    [(true, false), (true, true), (false, true), (false, false)].into_iter().map(|(c, s)| Pair::start(c, s))
}

#[test]
fn a_value_of_10_mib_passes_both_ways_byte_for_byte() {
    let value: Vec<u8> = (0..10 * 1024 * 1024_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    for pair in all_four() {
        let mut client = pair.client();
        assert_eq!(client.call(&[b"SET".as_slice(), b"big", &value]), b"+OK\r\n");
        let reply = client.call(&["GET", "big"]);
        assert!(reply == [b"$10485760\r\n", &value[..], b"\r\n"].concat(), "changed: {}", pair.client_tls);
        client.end_writing();
        assert_eq!(client.rest(), (Vec::new(), End::Orderly));
        drop(client);
        let line = pair.ringwall.session_ended("client_closed");
        assert_eq!(line.contains("\"tls_version\":\"TLSv1.3\""), pair.client_tls, "{line}");
        assert_eq!(line.contains("\"server_tls_version\":\"TLSv1.3\""), pair.server_tls, "{line}");
    }
}

#[test]
fn a_long_pipeline_gets_its_replies_in_order() {
    for pair in all_four() {
        let mut client = pair.client();
        let requests: Vec<u8> = (0..20_000).flat_map(|number| request(&["ECHO", &format!("{number:05}")])).collect();
        client.send(&requests);
        for number in 0..20_000 {
            assert_eq!(client.reply(), format!("$5\r\n{number:05}\r\n").as_bytes());
        }
    }
}

#[test]
fn a_subscriber_hears_what_others_publish() {
    for pair in all_four() {
        let (mut subscriber, mut publisher) = (pair.client(), pair.client());
        subscriber.send_request(&["SUBSCRIBE", "news"]);
        assert_eq!(subscriber.reply(), b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
        assert_eq!(publisher.call(&["PUBLISH", "news", "hello"]), b":1\r\n");
        assert_eq!(subscriber.reply(), b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n");
    }
}

#[test]
fn a_client_that_half_closes_still_gets_every_reply() {
    for pair in all_four() {
        let mut client = pair.client();
        client.send(&request(&["ECHO", "reply"]).repeat(50));
        client.end_writing();
        for _ in 0..50 {
            assert_eq!(client.reply(), b"$5\r\nreply\r\n");
        }
        assert_eq!(client.rest(), (Vec::new(), End::Orderly));
        drop(client);
        pair.ringwall.session_ended("client_closed");
        pair.server.wait_for_clients(0);
    }
}

#[test]
fn a_server_that_closes_in_order_is_an_orderly_end() {
    for pair in all_four() {
        let mut client = pair.client();
        assert_eq!(client.call(&["QUIT"]), b"+OK\r\n");
        assert_eq!(client.rest(), (Vec::new(), End::Orderly));
        drop(client);
        pair.ringwall.session_ended("backend_closed");
    }
}

#[test]
fn a_server_with_tls_that_is_killed_is_a_cut_and_told_apart() {
    for client_tls in [true, false] {
        let pair = Pair::start(client_tls, true);
        let mut client = pair.client();
        assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
        pair.server.process.signal(Signal::KILL);
        // Without TLS there is nothing to tell a cut from an end.
        let end = if client_tls { End::Cut } else { End::Orderly };
        assert_eq!(client.rest(), (Vec::new(), end));
        drop(client);
        pair.ringwall.session_ended("backend_truncated");
    }
}

#[test]
fn a_client_that_vanishes_leaves_nothing_behind() {
    for pair in all_four() {
        let files = pair.ringwall.process.open_files();
        for _ in 0..10 {
            let mut client = pair.client();
            client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10000000\r\n");
            client.send(&vec![b'v'; 1_000_000]);
        }
        pair.ringwall.wait_for_ended_sessions(10);
        pair.server.wait_for_clients(0);
        assert_eq!(pair.ringwall.process.open_files(), files);
        assert_eq!(pair.client().call(&["PING"]), b"+PONG\r\n");
    }
}

#[test]
fn a_drain_ends_each_connection_in_order() {
    for mut pair in all_four() {
        let mut client = pair.client();
        assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
        pair.ringwall.terminate();
        assert_eq!(client.rest(), (Vec::new(), End::Orderly));
        drop(client);
        pair.ringwall.session_ended("drained");
        assert!(pair.ringwall.wait().1.success());
    }
}

#[test]
fn a_client_without_tls_is_told_of_the_limit() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).plain().listener("max_connections = 1").start();
    let mut first = ringwall.plain_client();
    assert_eq!(first.call(&["PING"]), b"+PONG\r\n");
    let mut second = ringwall.plain_client();
    assert_eq!(second.rest(), (b"-ERR max number of clients reached\r\n".to_vec(), End::Orderly));
    drop(second);
    ringwall.session_ended("too_many_connections");
    assert_eq!(first.call(&["PING"]), b"+PONG\r\n");
}

#[test]
fn a_client_without_tls_is_told_that_no_server_can_be_reached() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let ringwall = Setup::before(address.to_string()).plain().start();
    let (refusal, end) = ringwall.plain_client().rest();
    let refusal = String::from_utf8(refusal).unwrap();
    assert!(refusal.starts_with("-ERR ringwall cannot reach the server: "), "{refusal}");
    assert_eq!(end, End::Orderly);
    ringwall.session_ended("backend_unreachable");
}
