//! Whom a listener lets in, and what holds for its sessions alone.

use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};

use crate::client::{Client, End};
use crate::ringwall::{Ringwall, Setup};
use crate::server::Server;

/// Two addresses of this machine.
const ONE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

const TOO_MANY: &str = "-ERR max number of clients reached\r\n";
const TOO_FAST: &str = "-ERR max rate of new clients reached, try again later\r\n";

fn before(listener: &str) -> (Server, Ringwall) {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).listener(listener).start();
    (server, ringwall)
}

fn come(ringwall: &Ringwall, source: Ipv4Addr) -> Client {
    ringwall.dial().from(source).connect().unwrap()
}

/// Asserts that a client gets this answer and then an orderly end.
fn assert_told(mut client: Client, answer: &str) {
    let (told, end) = client.rest();
    assert_eq!((String::from_utf8(told).unwrap(), end), (answer.to_owned(), End::Orderly));
}

/// Asserts that a connection ends without a byte.
fn assert_closed(mut socket: TcpStream) {
    let mut answer = Vec::new();
    // A reset where something was sent that nobody has read.
    let end = socket.read_to_end(&mut answer);
    assert!(answer.is_empty() && end.is_ok_and(|bytes| bytes == 0), "{answer:?}");
}

/// The sum of a number over lines of the log.
fn sum(lines: &[String], text: &str, field: &str) -> u64 {
    let number = |line: &String| {
        let (_, rest) = line.split_once(&format!("\"{field}\":"))?;
        rest.split([',', '}']).next()?.parse::<u64>().ok()
    };
    lines.iter().filter(|line| line.contains(text)).filter_map(number).sum()
}

#[test]
fn who_comes_from_a_denied_network_is_closed_without_a_word() {
    let (server, mut ringwall) = before("deny = [\"127.0.0.2/31\"]\n");
    for _ in 0..5 {
        assert_closed(ringwall.dial().from(OTHER).socket().unwrap());
    }
    assert_eq!(come(&ringwall, ONE).call(&["PING"]), b"+PONG\r\n");
    let line = ringwall.process.line(|line| line.contains("clients denied"));
    assert!(line.contains("\"WARN\"") && line.contains("\"listener\":\"public\""), "{line}");
    assert!(line.contains("\"last\":\"127.0.0.2:"), "{line}");
    ringwall.session_ended("client_truncated");
    server.wait_for_clients(0);
    ringwall.terminate();
    ringwall.wait();
    let lines = ringwall.process.lines();
    assert_eq!((sum(&lines, "clients denied", "clients"), sum(&lines, "\"totals\"", "denied")), (5, 5));
}

#[test]
fn where_somebody_is_allowed_nobody_else_is_and_the_smallest_network_decides() {
    let (_server, ringwall) = before("allow = [\"127.0.0.0/30\"]\ndeny = [\"127.0.0.2\"]\n");
    assert_eq!(come(&ringwall, ONE).call(&["PING"]), b"+PONG\r\n");
    assert_eq!(come(&ringwall, Ipv4Addr::new(127, 0, 0, 3)).call(&["PING"]), b"+PONG\r\n");
    for source in [OTHER, Ipv4Addr::new(127, 0, 0, 4)] {
        assert_closed(ringwall.dial().from(source).socket().unwrap());
    }
}

#[test]
fn a_source_with_as_many_connections_as_it_may_have_is_told_and_others_are_served() {
    let (_server, ringwall) = before("max_connections_per_source = 2\n");
    let mut clients = [come(&ringwall, ONE), come(&ringwall, ONE)];
    for _ in 0..3 {
        assert_told(come(&ringwall, ONE), TOO_MANY);
    }
    let mut other = come(&ringwall, OTHER);
    for client in clients.iter_mut().chain([&mut other]) {
        assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    }
    ringwall.nth_session_ended(3, "too_many_connections_per_source");
    let line = ringwall.process.line(|line| line.contains("max_connections_per_source is reached"));
    assert!(line.contains("\"WARN\"") && line.contains("\"last\":\"127.0.0.1:"), "{line}");
    // A place that is given up can be taken.
    let [first, _second] = &mut clients;
    first.end_writing();
    assert_eq!(first.end(), End::Orderly);
    ringwall.session_ended("client_closed");
    assert_eq!(come(&ringwall, ONE).call(&["PING"]), b"+PONG\r\n");
}

#[test]
fn sources_come_and_go_and_none_is_left_counted() {
    let (_server, ringwall) = before("max_connections_per_source = 1\n");
    let rounds = 20;
    for round in 0..rounds {
        for last in 1..=10 {
            let mut client = come(&ringwall, Ipv4Addr::new(127, 0, round, last));
            assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
            client.end_writing();
            assert_eq!(client.end(), End::Orderly);
        }
    }
    ringwall.nth_session_ended(usize::from(rounds) * 10, "client_closed");
    for last in 1..=10 {
        assert_eq!(come(&ringwall, Ipv4Addr::new(127, 0, 0, last)).call(&["PING"]), b"+PONG\r\n");
    }
}

#[test]
fn beyond_a_rate_of_connections_clients_are_told_so() {
    let (_server, mut ringwall) = before("connection_rate = 1\n");
    let mut told = 0;
    for _ in 0..20 {
        let mut client = come(&ringwall, ONE);
        client.send_request(&["PING"]);
        match String::from_utf8(client.reply()).unwrap().as_str() {
            "+PONG\r\n" => {}
            answer => {
                assert_eq!(answer, TOO_FAST);
                assert_eq!(client.end(), End::Orderly);
                told += 1;
            }
        }
    }
    assert!(told > 0, "20 clients took 20 seconds");
    ringwall.nth_session_ended(told, "connection_rate");
    ringwall.terminate();
    ringwall.wait();
    let lines = ringwall.process.lines();
    let line = "faster than connection_rate";
    let told = u64::try_from(told).unwrap();
    assert_eq!((sum(&lines, line, "refused"), sum(&lines, line, "closed")), (told, 0));
    assert_eq!(sum(&lines, "\"totals\"", "refused_at_rate"), told);
}

#[test]
fn a_source_that_comes_too_fast_leaves_others_their_rate() {
    let (_server, ringwall) = before("connection_rate_per_source = 1\n");
    let answers: Vec<_> = (0..20)
        .map(|_| {
            let mut client = come(&ringwall, ONE);
            client.send_request(&["PING"]);
            String::from_utf8(client.reply()).unwrap()
        })
        .collect();
    assert!(answers.iter().any(|answer| answer == TOO_FAST), "20 clients took 20 seconds");
    assert_eq!(come(&ringwall, OTHER).call(&["PING"]), b"+PONG\r\n");
}

#[test]
fn a_session_ends_in_good_order_when_its_time_is_over() {
    let (_server, ringwall) = before("max_lifetime = \"1s\"\n");
    let mut client = come(&ringwall, ONE);
    assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    assert_eq!(client.end(), End::Orderly);
    let line = ringwall.session_ended("max_lifetime");
    let duration: f64 = line.split("\"duration_ms\":").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
    assert!(duration >= 1_000.0, "{line}");
    ringwall.assert_serves();
}

#[test]
fn what_a_listener_says_of_its_sessions_holds_for_no_other() {
    let server = Server::on_unix_socket();
    let other = "[[listener]]\nname = \"patient\"\nbind = \"127.0.0.1:0\"\nbackend = \"server\"\n\
                 tls = { certificate = \"server.crt\", private_key = \"server.key\" }\nidle_timeout = \"off\"\n\
                 [limits]\nidle_timeout = \"1s\"\n";
    let ringwall = Setup::before(server.address()).sections(other).start();
    let mut patient = ringwall.dial_to("patient").connect().unwrap();
    let mut client = ringwall.client();
    assert_eq!(patient.call(&["PING"]), b"+PONG\r\n");
    assert_eq!(client.end(), End::Orderly);
    let line = ringwall.session_ended("idle_timeout");
    assert!(line.contains("\"listener\":\"public\""), "{line}");
    assert_eq!(patient.call(&["PING"]), b"+PONG\r\n");
}
