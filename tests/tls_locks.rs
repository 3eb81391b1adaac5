//! Which locks of the C library a handshake takes inside libcrypto, counted in front of them.
#![cfg(not(any(feature = "loom", feature = "pthread-emulation")))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ringwall::tls::{OpenStatus, Options, TicketKeys, TicketSecret, warm_up};
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

use crate::lock_calls::Calls;
use crate::support::{KeyKind, Server, World};

#[path = "../benches/support/lock_calls.rs"]
mod lock_calls;
#[path = "tls/support.rs"]
mod support;

#[test]
fn a_draw_from_libcrypto_takes_four_locks_of_the_process() {
    warm_up();
    let (calls, ()) = lock_calls::during(|| aws_lc_rs::rand::fill(&mut [0; 32]).unwrap());
    // Two locks before and two after; the last is that of the thread's generator.
    assert_eq!(calls, Calls { process_reads: 4, heap_reads: 1, ..Calls::default() });
}

/// What the server's side of one full handshake takes, once its thread and its acceptor are warm.
fn handshake(kind: KeyKind, version: &'static SupportedProtocolVersion) -> Calls {
    let world = World::new(kind);
    let tickets = Some(TicketKeys::new(&TicketSecret::random(), b"a"));
    let acceptor = world.acceptor(&Options { tickets, ..Options::default() });
    let one = || {
        let (mut client, mut server) = (world.client(&[version]), Server::new(acceptor.engine()));
        let mut taken = Calls::default();
        while client.connection.is_handshaking() || server.engine.is_handshaking() {
            let output = client.output();
            let (calls, opened) = lock_calls::during(|| server.open(&output));
            taken = taken + calls;
            assert_eq!(opened.status, OpenStatus::Drained);
            client.take(&server.engine.take_replies()).unwrap();
        }
        taken
    };
    one();
    one()
}

/// So many draws from libcrypto's generator.
fn draws(count: u64) -> Calls {
    Calls { process_reads: 4 * count, heap_reads: count, ..Calls::default() }
}

#[test]
fn only_keys_signatures_and_the_nonce_of_a_ticket_are_drawn_from_libcrypto() {
    // X25519, ML-KEM, the signature and the ticket; TLS 1.2 has no ML-KEM.
    assert_eq!(handshake(KeyKind::Ecdsa, &TLS13), draws(4));
    assert_eq!(handshake(KeyKind::Ecdsa, &TLS12), draws(3));
}

#[test]
fn an_rsa_signature_takes_the_lock_of_its_key_and_asks_once_more_for_a_fork() {
    let signature = Calls { process_reads: 1, heap_reads: 2, heap_writes: 2, ..Calls::default() };
    assert_eq!(handshake(KeyKind::Rsa, &TLS13), draws(4) + signature);
    assert_eq!(handshake(KeyKind::Rsa, &TLS12), draws(3) + signature);
}
