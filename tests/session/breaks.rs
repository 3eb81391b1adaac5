//! What a session does when a peer breaks the rules or a connection breaks down.

use std::time::Duration;

use ringwall::io::Errno;
use ringwall::session::close::CloseReason;
use ringwall::session::coalescer::Threshold;
use ringwall::session::{Options, Refusal, Side};

use crate::world::{Credentials, World, options};

const EPIPE: Errno = Errno(32);

/// A record of application data that no key has sealed.
const JUNK: &[u8] = b"\x17\x03\x03\x00\x20this is no ciphertext, 32 bytes!";

/// A session that has answered the client's hello.
fn greeted(options: Options, refusal: Option<Refusal>) -> World {
    let mut world = World::with_refusal(&Credentials::new(), options, refusal);
    let hello = world.client.take_ciphertext();
    world.receive(Side::Client, &hello);
    assert!(!world.client.tls.is_handshaking());
    world
}

fn assert_tls_failed(world: &World) {
    let reason = world.session.reason();
    assert!(matches!(reason, Some(CloseReason::TlsFailed(_))), "{reason:?}");
}

#[test]
fn junk_right_behind_the_handshake_and_a_request_does_not_undo_them() {
    let mut world = greeted(options(), None);
    world.client_is_raw = true;
    world.client.write(b"SET a 1\r\n");
    let wire = [world.client.take_ciphertext(), JUNK.to_vec()].concat();
    world.receive(Side::Client, &wire);
    assert_tls_failed(&world);
    assert!(world.session.handshake_took().is_some());
    assert_eq!(world.dials, 1);
    world.connect();
    assert_eq!(world.to_backend, b"SET a 1\r\n");
    assert!(world.fin_to_backend);
    world.bury();
}

#[test]
fn a_server_that_talks_on_after_its_client_has_gone_is_left_after_the_half_close_timeout() {
    let mut world = World::connected(&Credentials::new(), options());
    world.end(Side::Client, Some(EPIPE));
    for _ in 0..29 {
        world.wait(Duration::from_secs(1));
        world.receive(Side::Backend, b"+more\r\n");
        assert!(!world.closed);
    }
    // The timeout, and two seconds for the server to end as well.
    world.wait(Duration::from_secs(1));
    world.receive(Side::Backend, b"+more\r\n");
    world.wait(Duration::from_secs(2));
    assert!(world.closed);
    assert_eq!(world.session.reason(), Some(CloseReason::ClientReset));
    world.bury();
}

#[test]
fn an_error_that_cannot_be_sealed_any_more_is_not_sent_as_nothing() {
    let without_coalescing = Options { coalesce: Threshold::Off, ..options() };
    let mut world = greeted(without_coalescing, Some(Refusal::TooManyConnections));
    world.client_is_raw = true;
    let wire = [world.client.take_ciphertext(), JUNK.to_vec()].concat();
    let before = world.sends_to_client.len();
    world.receive(Side::Client, &wire);
    // The alert: header 5, level and description 2, content type 1, tag 16.
    assert_eq!(world.sends_to_client[before..], [24]);
    assert!(world.fin_to_client);
    world.bury();
}

#[test]
fn a_slow_backend_still_gets_what_a_client_said_before_it_broke_tls() {
    let mut world = World::connected(&Credentials::new(), options());
    world.client_is_raw = true;
    world.blocked[1] = true;
    world.client_says(b"SET a 1\r\n");
    world.client_says(b"SET b 2\r\n");
    world.receive(Side::Client, JUNK);
    assert!(world.fin_to_client);
    world.wait(Duration::from_secs(10));
    world.unblock(Side::Backend);
    assert_eq!(world.to_backend, b"SET a 1\r\nSET b 2\r\n");
    assert!(world.fin_to_backend && !world.closed);
    assert_tls_failed(&world);
    world.end(Side::Backend, None);
    assert!(world.closed);
    world.bury();
}

#[test]
fn an_end_after_a_send_that_was_cut_short_is_a_cut_too() {
    let mut world = World::connected(&Credentials::new(), options());
    world.blocked[1] = true;
    world.client_says(b"PING\r\n");
    world.complete_send(Side::Backend, Some(Ok(3)));
    world.end(Side::Backend, None);
    assert!(world.fin_to_client && !world.client.closed);
    assert_eq!(world.session.reason(), Some(CloseReason::BackendReset));
    world.complete_send(Side::Backend, Some(Err(EPIPE)));
    world.bury();
}

#[test]
fn without_coalescing_many_small_chunks_for_a_client_that_does_not_read_stop_at_the_mark_too() {
    let mark = 65_536;
    let without_coalescing = Options { coalesce: Threshold::Off, send_buffer_bytes: mark, ..options() };
    let mut world = World::connected(&Credentials::new(), without_coalescing);
    world.blocked[0] = true;
    let mut chunks = 0;
    while world.session.wants_receive(Side::Backend, false) {
        world.receive(Side::Backend, b"+OK\r\n");
        chunks += 1;
    }
    let held = world.pool.lent_bytes();
    assert!((mark / 2..mark + 4_096).contains(&held), "{held} bytes are held for {chunks} chunks");
    world.unblock(Side::Client);
    assert_eq!(world.client.plaintext, b"+OK\r\n".repeat(chunks));
    world.bury();
}

#[test]
fn an_attempt_that_fails_at_its_deadline_does_not_take_the_next_one_with_it() {
    let mut world = World::new(&Credentials::new(), options());
    world.shake_hands();
    assert!(world.session.is_dialling());
    world.now = world.now + options().connect_timeout;
    world.turn(|session, turn| {
        session.redial();
        assert!(!session.is_dialling());
        session.handle_timeout(turn);
    });
    assert_eq!((world.dials, world.abandoned), (2, 0));
    world.wait(options().connect_timeout);
    assert_eq!(world.abandoned, 1);
    assert!(!world.session.is_dialling());
    world.bury();
}

#[test]
fn a_session_that_has_just_been_given_up_keeps_its_reason() {
    let mut world = World::connected(&Credentials::new(), options());
    world.end(Side::Backend, None);
    world.now = world.now + Duration::from_secs(40);
    world.turn(|session, turn| {
        // Two timers of one session may fire in one turn.
        session.handle_timeout(turn);
        session.handle_timeout(turn);
    });
    assert!(world.closed);
    assert_eq!(world.session.reason(), Some(CloseReason::BackendClosed));
    world.bury();
}
