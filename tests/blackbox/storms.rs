//! Storms of new clients: who is let in, who makes room, and what is not done for those who have gone.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::Signal;

use crate::ringwall::{Ringwall, Setup};
use crate::server::Server;

/// How many of `clients` connections, made one after the other, end in a handshake.
fn let_in(ringwall: &Ringwall, clients: usize) -> usize {
    (0..clients).filter(|_| ringwall.dial().connect().is_ok()).count()
}

/// A count of the totals that ringwall logs at its end.
fn total(ringwall: &mut Ringwall, name: &str) -> u64 {
    ringwall.terminate();
    ringwall.wait();
    let totals = ringwall.process.line(|line| line.contains("\"totals\""));
    let (_, rest) = totals.split_once(&format!("\"{name}\":")).unwrap();
    rest.split([',', '}']).next().unwrap().parse().unwrap()
}

#[test]
fn clients_beyond_the_listeners_rate_are_closed_and_the_log_says_how_many() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).listener("handshake_rate = 3\n").start();
    // One more becomes due each third of a second.
    let let_in = let_in(&ringwall, 40);
    assert!((3..40).contains(&let_in), "{let_in} of 40 were let in");
    let is_warning = |line: &str| line.contains("clients refused");
    let first = ringwall.process.line(is_warning);
    assert!(first.contains("\"WARN\"") && first.contains("\"listener\":\"public\"") && first.contains("\"clients\":1"));
    let (mut refused, mut lines) = (0, 0);
    while let_in + refused < 40 {
        lines += 1;
        refused += count_of_refused(&ringwall.process.nth_line(lines, is_warning));
    }
    assert_eq!(let_in + refused, 40);
}

fn count_of_refused(line: &str) -> usize {
    let (_, rest) = line.split_once("\"clients\":").unwrap();
    rest.split([',', '}']).next().unwrap().parse().unwrap()
}

#[test]
fn a_source_that_comes_too_fast_does_not_keep_others_out() {
    let server = Server::on_unix_socket();
    let keys = "handshake_rate_per_source = 1\n";
    let ringwall = Setup::before(server.address()).listener(keys).start();
    assert!(ringwall.dial().connect().is_ok());
    let from_elsewhere = || {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let from = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let address: std::net::SocketAddr = "127.0.0.2:0".parse().unwrap();
        bind(&from, &address).unwrap();
        connect(&from, &ringwall.address).unwrap();
        TcpStream::from(from)
    };
    let let_in = let_in(&ringwall, 20);
    assert!(let_in < 20, "{let_in}");
    let mut stranger = from_elsewhere();
    stranger.write_all(&ringwall.dial().client_hello()).unwrap();
    let mut record = [0; 5];
    stranger.read_exact(&mut record).unwrap();
    // A handshake record, not an alert.
    assert_eq!(record[0], 22);
}

#[test]
fn the_oldest_unfinished_handshakes_make_room_for_newer_ones() {
    let server = Server::on_unix_socket();
    let ringwall =
        Setup::before(server.address()).sections("[limits]\nmax_handshakes = 16\n[runtime]\nshards = 1\n").start();
    let hello = ringwall.dial().client_hello();
    let mut unfinished: Vec<_> = (0..40)
        .map(|_| {
            let mut socket = ringwall.dial().socket().unwrap();
            socket.write_all(&hello).unwrap();
            let mut answer = [0; 5];
            socket.read_exact(&mut answer).unwrap();
            socket
        })
        .collect();
    ringwall.nth_session_ended(24, "too_many_handshakes");
    ringwall.assert_serves();
    for socket in &mut unfinished[..24] {
        // What ringwall had said, and then the end.
        socket.read_to_end(&mut Vec::new()).unwrap();
    }
    // And one more for whoever was served.
    ringwall.nth_session_ended(25, "too_many_handshakes");
    let ended = |line: &String| line.contains("too_many_handshakes");
    assert_eq!(ringwall.process.lines().iter().filter(|line| ended(line)).count(), 25);
}

#[test]
fn nothing_is_signed_for_clients_that_have_gone() {
    let server = Server::on_unix_socket();
    let mut ringwall = Ringwall::before(server.address());
    let hello = ringwall.dial().client_hello();
    ringwall.process.signal(Signal::STOP);
    for _ in 0..50 {
        ringwall.dial().socket().unwrap().write_all(&hello).unwrap();
    }
    ringwall.process.signal(Signal::CONT);
    ringwall.wait_for_ended_sessions(50);
    ringwall.nth_session_ended(50, "handshake_aborted");
    ringwall.assert_serves();
    assert_eq!(total(&mut ringwall, "handshakes_abandoned"), 50);
}

#[test]
fn half_a_hello_is_no_handshake_and_takes_no_place_of_one() {
    let server = Server::on_unix_socket();
    let sections = "[limits]\nmax_handshakes = 32\n[runtime]\nshards = 1\n";
    let mut ringwall = Setup::before(server.address()).sections(sections).start();
    let hello = ringwall.dial().client_hello();
    let half = |number: usize| &hello[..if number.is_multiple_of(2) { 40 } else { hello.len() - 1 }];
    let mut slow: Vec<_> = (0..40)
        .map(|number| {
            let mut socket = ringwall.dial().socket().unwrap();
            socket.write_all(half(number)).unwrap();
            socket
        })
        .collect();
    ringwall.assert_serves();
    // As many of them go on as may, with one more behind them, and all are answered.
    for (number, socket) in slow.iter_mut().enumerate().take(31) {
        socket.write_all(&hello[half(number).len()..]).unwrap();
    }
    for socket in &mut slow[..31] {
        let mut record = [0; 5];
        socket.read_exact(&mut record).unwrap();
        // A handshake record, not an alert.
        assert_eq!(record[0], 22);
    }
    ringwall.assert_serves();
    drop(slow);
    ringwall.wait_for_ended_sessions(42);
    assert_eq!(total(&mut ringwall, "handshakes_displaced"), 0);
}
