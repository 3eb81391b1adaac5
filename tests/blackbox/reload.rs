//! Reloads while clients are connected: nobody notices, and nothing is left over.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rustix::process::Signal;
use rustls::ClientConnection;

use crate::client::Client;
use crate::ringwall::Ringwall;
use crate::server::Server;

/// Reloads before memory is measured for the first time: by then the load has touched every buffer.
const WARM_UP_ROUNDS: usize = 1_000;
/// Reloads after that.
const ROUNDS: usize = 1_000;

/// Has it reload for the `n`th time and waits until it has.
fn reload(ringwall: &Ringwall, n: usize) {
    ringwall.process.signal(Signal::HUP);
    ringwall.process.nth_line(n, |line| line.contains("\"reloaded\""));
    assert!(ringwall.told().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert!(ringwall.told().starts_with("READY=1\nSTATUS=serving, "));
}

/// The certificate that the client was shown.
fn shown(session: &ClientConnection) -> Vec<u8> {
    session.peer_certificates().unwrap()[0].to_vec()
}

#[test]
fn sessions_and_handshakes_under_way_keep_what_they_began_with() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let mut client = ringwall.client();
    let old = shown(client.session());
    // The first bytes of a handshake; who is accepted later and answered shows that they have been accepted.
    let mut socket = ringwall.dial().socket().unwrap();
    let mut session = ringwall.dial().session();
    let mut hello = Vec::new();
    session.write_tls(&mut hello).unwrap();
    socket.write_all(&hello[..100]).unwrap();
    ringwall.assert_serves();

    let new = ringwall.certificates.replace_server();
    ringwall.process.line(|line| line.contains("\"reloaded\""));
    assert_eq!(shown(ringwall.client().session()), new.to_vec());
    socket.write_all(&hello[100..]).unwrap();
    while session.is_handshaking() {
        session.complete_io(&mut socket).unwrap();
    }
    assert_eq!(shown(&session), old);
    let mut stream = rustls::Stream::new(&mut session, &mut socket);
    stream.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
}

/// Sends values of every size there and back until told to end; how many came back as they went.
fn echo(mut client: Client, ended: &AtomicBool, echoed: &AtomicU64) {
    let bytes: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
    for round in 0_usize.. {
        let value = &bytes[..round * 7919 % bytes.len()];
        let reply = client.call(&[b"ECHO".as_slice(), value]);
        let head = format!("${}\r\n", value.len()).len();
        assert!(reply.len() == head + value.len() + 2 && reply[head..].starts_with(value), "round {round}");
        echoed.fetch_add(1, Ordering::Relaxed);
        if ended.load(Ordering::Relaxed) {
            break;
        }
    }
}

#[test]
fn thousands_of_reloads_under_load_lose_nothing_and_leak_nothing() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let (ended, echoed, visits) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let clients: Vec<_> = (0..4).map(|_| ringwall.client()).collect();
    thread::scope(|scope| {
        for client in clients {
            scope.spawn(|| echo(client, &ended, &echoed));
        }
        // New clients all the while, by full handshake and by ticket.
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                ringwall.assert_serves();
                visits.fetch_add(1, Ordering::Relaxed);
            }
        });
        let measure = || (ringwall.process.memory_kib("VmRSS"), ringwall.process.open_files());
        let mut after_warm_up = (0, 0);
        for round in 1..=WARM_UP_ROUNDS + ROUNDS {
            reload(&ringwall, round);
            if round == WARM_UP_ROUNDS {
                after_warm_up = measure();
            }
        }
        let at_end = measure();
        ended.store(true, Ordering::Relaxed);
        // KiB. An acceptor has some 10 of them on each of two shards and more, so a leak would be 20,000 and more.
        assert!(at_end.0 < after_warm_up.0 + 4_000, "{after_warm_up:?} {at_end:?}");
        // The visitors come and go, each with two descriptors.
        assert!(at_end.1.abs_diff(after_warm_up.1) <= 2, "{after_warm_up:?} {at_end:?}");
    });
    assert!(echoed.into_inner() > 1_000 && visits.into_inner() > 100);
    let unwanted = ["\"ERROR\"", "could not be told"];
    let failed = |line: &&String| {
        let ended_badly = line.contains("session closed") && !line.contains("\"reason\":\"client_truncated\"");
        ended_badly || unwanted.iter().any(|text| line.contains(text))
    };
    assert_eq!(ringwall.process.lines().iter().find(failed), None);
}
