//! SIGTERM and SIGINT: what is owed is delivered, what is idle goes soon, and the rest at the deadline.

use std::net::TcpStream;

use rustix::process::Signal;

use crate::client::End;
use crate::process::now;
use crate::ringwall::{Ringwall, Setup};
use crate::server::Server;

fn with_deadline(server: &Server, timeout: &str) -> Ringwall {
    Setup::before(server.address()).sections(&format!("[limits]\nshutdown_timeout = \"{timeout}\"\n")).start()
}

fn assert_ended_well(mut ringwall: Ringwall, cut_off: u64) {
    let (last, status) = ringwall.wait();
    assert_eq!(status.code(), Some(0), "{last}");
    assert!(last.contains(&format!("\"sessions_cut_off\":{cut_off}")), "{last}");
}

#[test]
fn idle_sessions_end_in_good_order_long_before_the_deadline() {
    for signal in [Signal::TERM, Signal::INT] {
        let server = Server::on_unix_socket();
        let ringwall = with_deadline(&server, "60s");
        let mut clients: Vec<_> = (0..20).map(|_| ringwall.client()).collect();
        for client in &mut clients {
            assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
        }
        let start = now();
        ringwall.process.signal(signal);
        assert!(ringwall.told().contains("STOPPING=1"));
        for client in &mut clients {
            assert_eq!(client.rest(), (Vec::new(), End::Orderly));
        }
        drop(clients);
        ringwall.nth_session_ended(20, "drained");
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
        assert_ended_well(ringwall, 0);
    }
}

#[test]
fn a_draining_ringwall_accepts_nobody() {
    let server = Server::on_unix_socket();
    let ringwall = with_deadline(&server, "10s");
    let mut blocked = ringwall.client();
    blocked.send_request(&["BLPOP", "queue", "0"]);
    let mut direct = server.client();
    while !direct.text(&["INFO", "clients"]).contains("blocked_clients:1") {}
    ringwall.terminate();
    ringwall.told();
    ringwall.process.line(|line| line.contains("accepting nothing more"));
    assert!(TcpStream::connect(ringwall.address).is_err(), "still accepts");
    direct.call(&["RPUSH", "queue", "x"]);
    assert!(blocked.reply().starts_with(b"*2\r\n"));
    drop(blocked);
    assert_ended_well(ringwall, 0);
}

#[test]
fn a_session_that_is_owed_a_reply_gets_it_and_then_an_orderly_end() {
    let server = Server::on_unix_socket();
    let ringwall = with_deadline(&server, "30s");
    let mut blocked = ringwall.client();
    blocked.send_request(&["BLPOP", "queue", "0"]);
    let mut direct = server.client();
    while !direct.text(&["INFO", "clients"]).contains("blocked_clients:1") {}
    // The idle one is gone while the blocked one waits.
    let mut idle = ringwall.client();
    assert_eq!(idle.call(&["PING"]), b"+PONG\r\n");
    ringwall.terminate();
    assert_eq!(idle.end(), End::Orderly);
    direct.call(&["RPUSH", "queue", "work"]);
    assert_eq!(blocked.reply(), b"*2\r\n$5\r\nqueue\r\n$4\r\nwork\r\n");
    assert_eq!(blocked.rest(), (Vec::new(), End::Orderly));
    assert_ended_well(ringwall, 0);
}

#[test]
fn a_large_reply_under_way_is_delivered_whole() {
    let server = Server::on_unix_socket();
    server.client().call(&[b"SET".as_slice(), b"big", &vec![b'b'; 100_000_000]]);
    let ringwall = with_deadline(&server, "30s");
    let mut client = ringwall.client();
    client.send_request(&["GET", "big"]);
    let head = client.bytes(1_000_000);
    ringwall.terminate();
    ringwall.told();
    let (rest, end) = client.rest();
    assert_eq!(head.len() + rest.len(), "$100000000\r\n".len() + 100_000_000 + 2);
    assert_eq!(end, End::Orderly);
    assert_ended_well(ringwall, 0);
}

#[test]
fn at_the_deadline_a_session_that_is_still_owed_something_is_cut_off_in_good_order() {
    let server = Server::on_unix_socket();
    let ringwall = with_deadline(&server, "1s");
    let mut blocked = ringwall.client();
    blocked.send_request(&["BLPOP", "queue", "0"]);
    let mut direct = server.client();
    while !direct.text(&["INFO", "clients"]).contains("blocked_clients:1") {}
    let start = now();
    ringwall.terminate();
    assert_eq!(blocked.rest(), (Vec::new(), End::Orderly));
    let took = start.elapsed().as_millis();
    assert!((900..10_000).contains(&took), "{took} ms");
    drop(blocked);
    ringwall.session_ended("cut_off");
    assert_ended_well(ringwall, 1);
}

#[test]
fn a_subscriber_is_ended_in_good_order_at_the_deadline_at_the_latest() {
    let server = Server::on_unix_socket();
    let ringwall = with_deadline(&server, "2s");
    let mut subscriber = ringwall.client();
    subscriber.call(&["SUBSCRIBE", "news"]);
    let start = now();
    ringwall.terminate();
    assert_eq!(subscriber.rest(), (Vec::new(), End::Orderly));
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
    let mut ringwall = ringwall;
    let (last, status) = ringwall.wait();
    assert_eq!(status.code(), Some(0), "{last}");
}

#[test]
fn a_client_that_does_not_read_does_not_hold_up_the_end() {
    let server = Server::on_unix_socket();
    server.client().call(&[b"SET".as_slice(), b"big", &vec![b'b'; 100_000_000]]);
    let ringwall = with_deadline(&server, "1s");
    let mut client = ringwall.client();
    client.send_request(&["GET", "big"]);
    client.bytes(1_000);
    ringwall.terminate();
    assert_ended_well(ringwall, 1);
}

#[test]
fn a_second_signal_ends_at_once() {
    let server = Server::on_unix_socket();
    let mut ringwall = with_deadline(&server, "300s");
    let mut blocked = ringwall.client();
    blocked.send_request(&["BLPOP", "queue", "0"]);
    let mut direct = server.client();
    while !direct.text(&["INFO", "clients"]).contains("blocked_clients:1") {}
    ringwall.terminate();
    ringwall.process.line(|line| line.contains("draining"));
    let start = now();
    ringwall.terminate();
    ringwall.wait();
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}

#[test]
fn with_nobody_connected_it_ends_right_away() {
    let server = Server::on_unix_socket();
    let ringwall = with_deadline(&server, "300s");
    ringwall.assert_serves();
    ringwall.wait_for_ended_sessions(1);
    let start = now();
    ringwall.terminate();
    assert_ended_well(ringwall, 0);
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}
