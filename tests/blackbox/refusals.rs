//! Clients that cannot be served learn why, in RESP, before the connection ends.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use crate::client::{Client, End};
use crate::process::now;
use crate::ringwall::{Ringwall, Setup};
use crate::scripted::Deaf;
use crate::server::{Server, free_port};

const LIMIT_REACHED: &str = "-ERR max number of clients reached\r\n";

/// Asserts that a client that sends 64 KiB before it reads gets an error that fits, and then an orderly end.
fn assert_refused(mut client: Client, fits: impl Fn(&str) -> bool) {
    let pings = b"*1\r\n$4\r\nPING\r\n".repeat(64 * 1024 / 14);
    client.send(&pings);
    let (refusal, end) = client.rest();
    let refusal = String::from_utf8(refusal).unwrap();
    assert!(refusal.ends_with("\r\n") && refusal.lines().count() == 1 && fits(&refusal), "{refusal:?}");
    assert_eq!(end, End::Orderly);
    // Once more, after the refusal: it is read and dropped, not answered by a reset.
    client.try_send(&pings).unwrap();
}

#[test]
fn a_server_that_refuses_connections_is_named_in_an_error() {
    let port = free_port();
    let ringwall = Ringwall::before(format!("127.0.0.1:{port}"));
    assert_refused(ringwall.client(), |refusal| refusal.starts_with("-ERR "));
    let line = ringwall.session_ended("backend_unreachable");
    assert!(line.contains("onnection refused"), "the cause is not in {line}");
    ringwall.process.line(|line| line.contains("WARN") && line.contains("\"backend\":\"server\""));
}

#[test]
fn a_unix_socket_that_is_not_there_is_an_error() {
    let ringwall = Ringwall::before("unix:/nowhere/server.sock");
    assert_refused(ringwall.client(), |refusal| refusal.starts_with("-ERR "));
    ringwall.session_ended("backend_unreachable");
}

#[test]
fn a_server_that_does_not_answer_is_given_up_after_the_connect_timeout() {
    let deaf = Deaf::new();
    let ringwall = Setup::before(deaf.address.to_string()).sections("[limits]\nconnect_timeout = \"300ms\"\n").start();
    let start = now();
    let mut client = ringwall.client();
    let (refusal, end) = client.rest();
    assert!(refusal.starts_with(b"-ERR "), "{refusal:?}");
    assert_eq!(end, End::Orderly);
    let took = start.elapsed().as_millis();
    assert!((300..5_000).contains(&took), "{took} ms");
    drop(client);
    ringwall.session_ended("backend_unreachable");
}

#[test]
fn a_server_that_comes_back_is_used_again() {
    let port = free_port();
    let ringwall = Ringwall::before(format!("127.0.0.1:{port}"));
    assert!(ringwall.client().reply().starts_with(b"-ERR "));
    let backend = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let mut client = ringwall.client();
    client.send(b"hello");
    let mut hello = [0; 5];
    backend.accept().unwrap().0.read_exact(&mut hello).unwrap();
    assert_eq!(&hello, b"hello");
}

#[test]
fn clients_above_the_limit_are_told_and_those_below_are_not_disturbed() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).sections("[limits]\nmax_connections = 2\n").start();
    let mut first = ringwall.client();
    let mut second = ringwall.client();
    for _ in 0..5 {
        assert_refused(ringwall.client(), |refusal| refusal == LIMIT_REACHED);
    }
    assert_eq!(first.call(&["PING"]), b"+PONG\r\n");
    ringwall.nth_session_ended(5, "too_many_connections");
    // A place that is given up can be taken.
    second.end_writing();
    assert_eq!(second.end(), End::Orderly);
    ringwall.session_ended("client_closed");
    ringwall.assert_serves();
}

#[test]
fn a_listeners_own_limit_counts_as_well() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).listener("max_connections = 1\n").start();
    let mut first = ringwall.client();
    assert_refused(ringwall.client(), |refusal| refusal == LIMIT_REACHED);
    assert_eq!(first.call(&["PING"]), b"+PONG\r\n");
}

#[test]
fn a_crowd_above_the_limit_leaves_those_below_undisturbed() {
    let server = Server::on_unix_socket();
    let sections = "sessions = false\n[limits]\nmax_connections = 1\n";
    let mut ringwall = Setup::before(server.address()).sections(sections).start();
    let mut first = ringwall.client();
    let told = |client: &mut Client| client.rest().0;
    let answers: Vec<_> = thread::scope(|scope| {
        // Beyond the budget for refusals a client is closed without a word.
        let ask = || ringwall.dial().connect().as_mut().map_or(Vec::new(), told);
        let crowd: Vec<_> = (0..200).map(|_| scope.spawn(ask)).collect();
        for _ in 0..100 {
            assert_eq!(first.call(&["PING"]), b"+PONG\r\n");
        }
        crowd.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let told = answers.iter().filter(|answer| **answer == LIMIT_REACHED.as_bytes()).count();
    assert!(told >= 20, "only {told} of 200 were told");
    assert!(answers.iter().all(|answer| answer.is_empty() || *answer == LIMIT_REACHED.as_bytes()));
    assert_eq!(first.call(&["PING"]), b"+PONG\r\n");
    // The log says how many, though sessions are not logged.
    ringwall.terminate();
    ringwall.wait();
    let is_warning = |line: &&String| line.contains("\"WARN\"") && line.contains("max_connections is reached");
    let lines = ringwall.process.lines();
    let warnings = || lines.iter().filter(is_warning);
    assert!(warnings().all(|line| line.contains("\"listener\":\"public\"")), "{lines:?}");
    let sum = |field| warnings().map(|line| number(line, field)).sum::<usize>();
    let totals = lines.iter().find(|line| line.contains("\"totals\"")).unwrap();
    assert_eq!(sum("refused") + sum("closed"), 200);
    assert_eq!(
        (number(totals, "refused_at_limit"), number(totals, "closed_at_limit")),
        (sum("refused"), sum("closed"))
    );
    assert!((told..=200).contains(&sum("refused")), "{told} were told, {lines:?}");
}

/// A number of a line of the log.
fn number(line: &str, field: &str) -> usize {
    let (_, rest) = line.split_once(&format!("\"{field}\":")).unwrap();
    rest.split([',', '}']).next().unwrap().parse().unwrap()
}

/// What a client of a plain socket is answered.
fn plain_answer(ringwall: &Ringwall, request: &[u8]) -> String {
    let mut socket: TcpStream = ringwall.dial().socket().unwrap();
    socket.write_all(request).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    // Still there: what comes late is dropped, not answered by a reset.
    socket.write_all(request).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    answer
}

#[test]
fn a_plaintext_client_is_told_to_use_tls_in_plain_text() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let pipelined = b"*1\r\n$4\r\nPING\r\n".repeat(64 * 1024 / 14);
    for request in [b"*1\r\n$4\r\nPING\r\n".as_slice(), b"PING\r\n", &pipelined] {
        let answer = plain_answer(&ringwall, request);
        assert!(answer.starts_with("-ERR ") && answer.ends_with("\r\n") && answer.contains("TLS"), "{answer:?}");
        assert_eq!(answer.lines().count(), 1, "{answer:?}");
    }
    ringwall.nth_session_ended(3, "plaintext");
    let line = ringwall.process.line(|line| line.contains("WARN") && line.contains("plain"));
    assert!(line.contains("\"client\":\"127.0.0.1:"), "{line}");
    // The server saw none of them.
    server.wait_for_clients(0);
}

#[test]
fn exhausted_file_descriptors_pause_accepting_and_nothing_spins() {
    let server = Server::on_unix_socket();
    // Its own limit on connections keeps it from running out; here somebody else holds most of the descriptors.
    let ringwall = Setup::before(server.address())
        .after("ulimit -n 400; for _ in {1..330}; do exec {held}</dev/null; done")
        .start();
    let mut client = ringwall.client();
    assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    // More clients than descriptors: the others wait in the kernel's queue.
    let crowd: Vec<_> = (0..100).map(|_| ringwall.dial().socket().unwrap()).collect();
    ringwall.process.line(|line| line.contains("accepting paused"));
    let ticks = ringwall.process.cpu_ticks();
    client.fill_until_quiet(Duration::from_secs(2));
    let used = ringwall.process.cpu_ticks() - ticks;
    assert!(used < 20, "{used} hundredths of a second of processor time in two seconds with nothing to do");
    assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    // Descriptors come back, and accepting with them.
    drop(crowd);
    ringwall.process.line(|line| line.contains("accepting again"));
    ringwall.assert_serves();
    assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
}

#[test]
fn where_no_error_is_wanted_a_server_that_cannot_be_reached_is_a_cut() {
    let ringwall = Setup::before(format!("127.0.0.1:{}", free_port())).listener("unreachable = \"close\"\n").start();
    let mut client = ringwall.client();
    client.send(b"PING\r\n");
    assert_eq!(client.rest(), (vec![], End::Cut));
    ringwall.session_ended("backend_unreachable");
    ringwall.process.line(|line| line.contains("WARN") && line.contains("no server of the backend reached"));
}
