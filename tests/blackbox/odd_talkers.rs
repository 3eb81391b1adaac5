//! Clients that talk as no library does, and those that do not listen.

use std::io::Write;
use std::thread;
use std::time::Duration;

use crate::client::{Dial, End};
use crate::process::now;
use crate::resp::{payload, request};
use crate::ringwall::{Ringwall, Setup};
use crate::scripted::Scripted;
use crate::server::Server;

#[test]
fn a_client_that_sends_byte_by_byte_is_understood() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let mut client = ringwall.dial().in_pieces_of(1).connect().unwrap();
    assert_eq!(client.call(&["SET", "slow", "but sure"]), b"+OK\r\n");
    assert_eq!(client.call(&["GET", "slow"]), b"$8\r\nbut sure\r\n");
    client.end_writing();
    assert_eq!(client.end(), End::Orderly);
}

#[test]
fn a_large_request_in_awkward_pieces_arrives_whole() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let value: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    for pieces in [1_021, 4_093, 16_411] {
        let mut client = ringwall.dial().in_pieces_of(pieces).connect().unwrap();
        assert!(payload(&client.call(&[b"ECHO".as_slice(), &value])) == value, "in pieces of {pieces}");
    }
}

#[test]
fn a_client_that_leaves_nagle_on_is_not_stalled() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let median = |dial: &Dial| {
        let mut times: Vec<_> = (0..31)
            .map(|_| {
                let start = now();
                let mut client = dial.connect().unwrap();
                assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
                start.elapsed()
            })
            .collect();
        times.sort();
        times[15]
    };
    let (without, with) = (median(&ringwall.dial()), median(&ringwall.dial().with_nagle()));
    // A delayed acknowledgement takes 40 ms; a handshake and a request over loopback take a few.
    assert!(with < without + Duration::from_millis(25), "{with:?} with Nagle, {without:?} without");
}

#[test]
fn a_gigabyte_of_requests_is_taken_before_the_first_reply_is_read() {
    const REQUESTS: usize = 1_000;
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let mut client = ringwall.client();
    let echo = request(&[b"ECHO".as_slice(), &vec![b'e'; 1_000_000]]);
    for _ in 0..REQUESTS {
        client.send(&echo);
    }
    for _ in 0..REQUESTS {
        assert_eq!(client.reply().len(), "$1000000\r\n".len() + 1_000_000 + 2);
    }
    let peak = ringwall.process.memory_kib("VmHWM");
    assert!(peak < 256 * 1024, "ringwall held {peak} KiB of what was not read");
}

#[test]
fn slow_readers_do_not_make_ringwall_grow() {
    const READERS: usize = 20;
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    server.client().call(&[b"SET".as_slice(), b"big", &vec![b'b'; 50_000_000]]);
    let mut readers: Vec<_> = (0..READERS).map(|_| ringwall.client()).collect();
    for reader in &mut readers {
        reader.send_request(&["GET", "big"]);
    }
    // Those that read are served meanwhile.
    let mut quick = ringwall.client();
    assert_eq!(quick.call(&["GET", "big"]).len(), "$50000000\r\n".len() + 50_000_000 + 2);
    let held = ringwall.process.memory_kib("VmRSS");
    assert!(held < 256 * 1024, "ringwall holds {held} KiB for readers that do not read");
    for mut reader in readers {
        assert_eq!(reader.reply().len(), "$50000000\r\n".len() + 50_000_000 + 2);
    }
}

#[test]
fn big_pipelines_in_both_directions_do_not_lock_each_other() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let talk = &|letter| {
        let mut client = ringwall.client();
        let echo = request(&[b"ECHO".as_slice(), &vec![letter; 200_000]]);
        // More than all the buffers on the way hold, before anything is read.
        for _ in 0..300 {
            client.send(&echo);
        }
        for _ in 0..300 {
            assert!(payload(&client.reply()).iter().all(|&byte| byte == letter));
        }
    };
    thread::scope(|scope| {
        for letter in b'a'..b'e' {
            scope.spawn(move || talk(letter));
        }
    });
}

#[test]
fn an_impatient_client_that_never_reads_its_handshake_is_dropped_in_time() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).sections("[limits]\nhandshake_timeout = \"4s\"\n").start();
    let dial = ringwall.dial();
    let silent = dial.socket().unwrap();
    let mut half = dial.socket().unwrap();
    let hello = dial.client_hello();
    half.write_all(&hello[..hello.len() / 2]).unwrap();
    let mut mute = dial.socket().unwrap();
    mute.write_all(&hello).unwrap();
    ringwall.nth_session_ended(3, "handshake_timeout");
    for mut socket in [silent, half, mute] {
        // Whatever was sent before, the connection has ended.
        std::io::copy(&mut socket, &mut std::io::sink()).ok();
    }
    ringwall.assert_serves();
}

#[test]
fn two_peers_that_both_write_and_do_not_read_are_a_stall_in_the_log() {
    let patience = Some(Duration::from_secs(1));
    let backend = Scripted::new(move |mut connection| {
        connection.set_write_timeout(patience).unwrap();
        while connection.write_all(&[b'b'; 65_536]).is_ok() {}
        connection
    });
    let ringwall =
        Setup::before(backend.address.to_string()).sections("[limits]\nhalf_close_timeout = \"1s\"\n").start();
    let mut client = ringwall.client();
    client.socket().set_write_timeout(patience).unwrap();
    while client.try_send(&[b'c'; 65_536]).is_ok() {}
    ringwall.process.line(|line| line.contains("session stalled"));
    client.reset();
    // What it sent before may still be delivered, for as long as after any end.
    ringwall.session_ended("client_reset");
}

#[test]
fn a_client_that_resets_at_once_is_logged_with_its_address() {
    use rustix::process::Signal;
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    // It is gone before it is accepted.
    ringwall.process.signal(Signal::STOP);
    let mut client = ringwall.dial().socket().unwrap();
    let address = client.local_addr().unwrap();
    client.write_all(b"PING\r\n").unwrap();
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
    ringwall.process.signal(Signal::CONT);
    ringwall.wait_for_ended_sessions(1);
    let line = ringwall.process.line(|line| line.contains("session closed"));
    assert!(line.contains(&format!("\"client\":\"{address}\"")), "{line}");
}
