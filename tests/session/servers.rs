//! Servers that speak TLS, or should: their handshake, and the ways it goes wrong.

use std::time::Duration;

use ringwall::io::Errno;
use ringwall::session::Side;
use ringwall::session::close::CloseReason;
use ringwall::session::dial::HandshakeEnd;
use ringwall::tls::Failure;
use rustls::AlertDescription;

use crate::world::{Credentials, Speech, World, options};

/// An alert in the clear: level fatal (RFC 8446, section 6).
const fn alert(description: u8) -> [u8; 7] {
    [0x15, 3, 3, 0, 2, 2, description]
}
const HANDSHAKE_FAILURE: u8 = 40;

/// A session whose server is connected and has said nothing. The client has asked for something already.
fn greeting(credentials: &Credentials) -> World {
    let speech = Speech { client_tls: true, backend_tls: true };
    let mut world = World::speaking(speech, credentials, options(), None);
    world.shake_hands();
    world.client_says(b"GET a\r\n");
    world.begin_connect();
    world
}

/// The client is told that no server could be reached, and ends.
fn assert_client_told(mut world: World) {
    world.turn(|session, turn| session.handle_unreachable("backend 'a': TLS: why", turn));
    assert_eq!(world.client.plaintext, b"-ERR ringwall cannot reach the server: backend 'a': TLS: why\r\n");
    assert!(world.client.closed && world.fin_to_client);
    assert_eq!(world.session.reason(), Some(CloseReason::BackendHandshakeFailed));
    world.end(Side::Client, None);
    assert!(world.closed);
    world.bury();
}

#[test]
fn what_the_client_says_waits_until_the_server_s_handshake_is_complete() {
    let credentials = Credentials::new();
    let mut world = greeting(&credentials);
    assert!(world.session.is_handshaking(Side::Backend));
    world.client_says(b"GET b\r\n");
    assert_eq!((world.to_backend.as_slice(), world.sends_to_backend.len()), (&b""[..], 1));
    world.deliver_server();
    assert!(!world.session.is_handshaking(Side::Backend));
    assert_eq!(world.to_backend, b"GET a\r\nGET b\r\n");
    world.bury();
}

#[test]
fn megabytes_that_wait_for_the_handshake_arrive_and_stop_at_the_mark() {
    let credentials = Credentials::new();
    let mut world = greeting(&credentials);
    let mut said = b"GET a\r\n".to_vec();
    while world.session.wants_receive(Side::Client, false) {
        let chunk: Vec<u8> = (0..50_000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
        world.client_says(&chunk);
        said.extend(chunk);
    }
    assert!((256 * 1024..360 * 1024).contains(&world.session.held_bytes(Side::Backend)));
    world.deliver_server();
    assert_eq!(world.to_backend, said);
    assert!(world.session.wants_receive(Side::Client, false));
    world.bury();
}

#[test]
fn a_client_that_ends_before_the_handshake_is_complete_is_served_to_its_end() {
    let credentials = Credentials::new();
    let mut world = greeting(&credentials);
    world.client_ends();
    assert!(!world.fin_to_backend);
    world.deliver_server();
    assert_eq!(world.to_backend, b"GET a\r\n");
    assert!(world.fin_to_backend && world.server.as_ref().unwrap().closed);
    world.backend_says(b"$1\r\n1\r\n");
    assert_eq!(world.client.plaintext, b"$1\r\n1\r\n");
    world.bury();
}

#[test]
fn a_server_with_another_name_is_told_and_the_next_one_gets_all_that_waited() {
    let credentials = Credentials::new();
    let speech = Speech { client_tls: true, backend_tls: true };
    let mut world = World::speaking(speech, &credentials, options(), None);
    world.shake_hands();
    world.client_says(b"GET a\r\n");
    world.expect_name(&credentials, "other.test");
    world.connect();
    assert_eq!(world.hang_ups, [HandshakeEnd::Failed(Failure::ServerNameMismatch)]);
    let told = Some(rustls::Error::AlertReceived(AlertDescription::BadCertificate));
    assert_eq!(world.server.as_ref().unwrap().error, told);
    // Nothing is asked of it again, and nothing from it counts.
    assert!(!world.session.wants_receive(Side::Backend, false));
    world.receive(Side::Backend, b"late");
    world.end(Side::Backend, None);
    world.client_says(b"GET b\r\n");
    world.hung_up();
    assert_eq!((world.dials, world.hang_ups.len()), (2, 1));
    world.expect_name(&credentials, "ringwall.test");
    world.connect();
    assert_eq!(world.to_backend, b"GET a\r\nGET b\r\n");
    world.backend_says(b"+OK\r\n");
    assert_eq!(world.client.plaintext, b"+OK\r\n");
    assert_eq!(world.session.reason(), None);
    world.bury();
}

#[test]
fn when_the_last_server_has_failed_its_handshake_the_client_is_told_in_resp() {
    let credentials = Credentials::new();
    let mut world = greeting(&credentials);
    world.receive(Side::Backend, &alert(HANDSHAKE_FAILURE));
    assert_eq!(world.hang_ups, [HandshakeEnd::Failed(Failure::AlertReceived("handshake_failure"))]);
    world.hung_up();
    assert_client_told(world);
}

#[test]
fn a_server_in_plain_text_is_recognised_and_not_answered() {
    for said in [&b"-ERR unknown command\r\n"[..], b"HTTP/1.1 400 Bad Request\r\n"] {
        let credentials = Credentials::new();
        let mut world = greeting(&credentials);
        let sends = world.sends_to_backend.len();
        world.receive(Side::Backend, said);
        assert_eq!(world.hang_ups, [HandshakeEnd::Failed(Failure::PlaintextServer)]);
        assert_eq!(world.sends_to_backend.len(), sends);
        world.hung_up();
        assert_client_told(world);
    }
}

#[test]
fn a_server_that_ends_the_connection_in_its_handshake_is_named_for_it() {
    let reset = Errno(104);
    for (error, end) in [(None, HandshakeEnd::Closed), (Some(reset), HandshakeEnd::Lost(Some(reset)))] {
        let credentials = Credentials::new();
        let mut world = greeting(&credentials);
        world.end(Side::Backend, error);
        assert_eq!(world.hang_ups, [end]);
        world.hung_up();
        assert_client_told(world);
    }
}

#[test]
fn a_hello_that_cannot_be_sent_fails_the_attempt_and_loses_nothing() {
    let credentials = Credentials::new();
    let speech = Speech { client_tls: true, backend_tls: true };
    let mut world = World::speaking(speech, &credentials, options(), None);
    world.shake_hands();
    world.client_says(b"GET a\r\n");
    world.blocked[1] = true;
    world.begin_connect();
    world.complete_send(Side::Backend, Some(Err(Errno(32))));
    world.settle();
    assert_eq!(world.hang_ups, [HandshakeEnd::Lost(Some(Errno(32)))]);
    world.blocked[1] = false;
    world.hung_up();
    world.connect();
    assert_eq!(world.to_backend, b"GET a\r\n");
    world.bury();
}

#[test]
fn the_handshake_counts_within_the_time_of_the_attempt() {
    let credentials = Credentials::new();
    let speech = Speech { client_tls: false, backend_tls: true };
    let mut world = World::speaking(speech, &credentials, options(), None);
    world.wait(Duration::from_secs(3));
    world.begin_connect();
    world.wait(Duration::from_millis(1_999));
    assert!(world.hang_ups.is_empty());
    world.wait(Duration::from_millis(1));
    assert_eq!(world.hang_ups, [HandshakeEnd::Timeout]);
    world.hung_up();
    // The next attempt has a time of its own.
    assert_eq!(world.dials, 2);
    world.begin_connect();
    world.wait(Duration::from_millis(4_999));
    assert_eq!(world.hang_ups.len(), 1);
    world.deliver_server();
    world.wait(Duration::from_secs(60));
    assert_eq!(world.hang_ups.len(), 1);
    world.client_says(b"GET a\r\n");
    assert_eq!(world.to_backend, b"GET a\r\n");
    world.bury();
}

#[test]
fn a_connection_that_stands_when_its_time_is_over_is_given_up() {
    let credentials = Credentials::new();
    let speech = Speech { client_tls: false, backend_tls: true };
    let mut world = World::speaking(speech, &credentials, options(), None);
    world.wait(Duration::from_secs(5));
    assert_eq!(world.abandoned, 1);
    world.begin_connect();
    assert_eq!(world.hang_ups, [HandshakeEnd::Timeout]);
    world.hung_up();
    assert_eq!(world.dials, 2);
    world.bury();
}

#[test]
fn a_server_that_takes_no_alert_does_not_hold_up_the_next_one_for_longer_than_the_attempt() {
    let credentials = Credentials::new();
    let speech = Speech { client_tls: true, backend_tls: true };
    let mut world = World::speaking(speech, &credentials, options(), None);
    world.shake_hands();
    world.expect_name(&credentials, "other.test");
    world.begin_connect();
    world.blocked[1] = true;
    world.deliver_server();
    assert!(world.hang_ups.is_empty(), "the alert has not gone");
    world.wait(Duration::from_secs(5));
    assert_eq!(world.hang_ups, [HandshakeEnd::Failed(Failure::ServerNameMismatch)]);
    world.hung_up();
    assert_eq!(world.dials, 2);
    world.bury();
}

#[test]
fn a_server_that_judges_after_our_handshake_is_a_failed_handshake_and_no_other_is_tried() {
    let credentials = Credentials::new();
    let mut world = greeting(&credentials);
    world.deliver_server();
    assert_eq!(world.to_backend, b"GET a\r\n");
    // As a TLS 1.3 server does that wants a certificate: it has sent nothing but its alert. This one's keys are real,
    // and it has found something wrong with what we send.
    let server = world.server.as_mut().unwrap();
    let junk = [0x17, 3, 3, 0, 32].iter().copied().chain([7; 32]).collect::<Vec<u8>>();
    server.tls.read_tls(&mut junk.as_slice()).unwrap();
    assert!(server.tls.process_new_packets().is_err());
    world.deliver_server();
    assert_eq!(world.hang_ups, [HandshakeEnd::Failed(Failure::AlertReceived("bad_record_mac"))]);
    world.client_says(b"GET b\r\n");
    world.hung_up();
    assert_eq!(world.dials, 1);
    assert_eq!(world.client.plaintext, b"-ERR ringwall cannot reach the server: TLS: why\r\n");
    assert!(world.client.closed);
    assert_eq!(world.session.reason(), Some(CloseReason::BackendHandshakeFailed));
    world.bury();
}

#[test]
fn a_server_that_breaks_tls_after_it_has_spoken_is_a_cut_for_the_client() {
    let credentials = Credentials::new();
    let mut world = greeting(&credentials);
    world.deliver_server();
    world.backend_says(b"+half");
    world.receive(Side::Backend, b"\x17\x03\x03\x00\x20this is no ciphertext, 32 bytes!");
    assert_eq!(world.client.plaintext, b"+half");
    assert!(world.fin_to_client && !world.client.closed);
    assert_eq!(world.session.reason(), Some(CloseReason::BackendTlsFailed(Failure::DecryptError)));
    assert!(world.fin_to_backend);
    let told = Some(rustls::Error::AlertReceived(AlertDescription::BadRecordMac));
    assert_eq!(world.server.as_ref().unwrap().error, told);
    world.end(Side::Client, None);
    world.end(Side::Backend, None);
    assert!(world.closed);
    world.bury();
}

#[test]
fn a_session_that_is_cut_off_in_its_server_s_handshake_ends_in_order() {
    for fails in [false, true] {
        let credentials = Credentials::new();
        let mut world = greeting(&credentials);
        if fails {
            world.receive(Side::Backend, b"-ERR\r\n");
        }
        world.turn(|session, turn| assert!(session.close(CloseReason::CutOff, turn)));
        assert!(world.client.closed && world.fin_to_client);
        world.hung_up();
        assert_eq!(world.dials, 1);
        world.end(Side::Client, None);
        assert!(world.closed);
        assert_eq!(world.session.reason(), Some(CloseReason::CutOff));
        world.bury();
    }
}

#[test]
fn a_session_that_waits_for_a_place_has_the_queue_s_time_and_then_that_of_the_attempt() {
    let credentials = Credentials::new();
    let speech = Speech { client_tls: false, backend_tls: false };
    let mut world = World::speaking(speech, &credentials, options(), None);
    world.client_says(b"GET a\r\n");
    let until = world.now + Duration::from_secs(60);
    world.turn(|session, _| session.handle_queued(until));
    world.wait(Duration::from_secs(59));
    assert_eq!((world.dials, world.abandoned), (1, 0));
    let now = world.now;
    world.turn(|session, _| session.handle_dequeued(now));
    world.wait(Duration::from_millis(4_999));
    assert_eq!(world.abandoned, 0);
    world.connect();
    assert_eq!(world.to_backend, b"GET a\r\n");
    world.bury();
}

#[test]
fn a_session_for_which_there_was_no_place_in_time_says_so() {
    let credentials = Credentials::new();
    let speech = Speech { client_tls: false, backend_tls: false };
    let mut world = World::speaking(speech, &credentials, options(), None);
    let until = world.now + Duration::from_secs(1);
    world.turn(|session, _| session.handle_queued(until));
    world.wait(Duration::from_secs(1));
    assert_eq!(world.abandoned, 1);
    world.turn(|session, turn| session.handle_no_place("all are full", CloseReason::QueueTimeout, turn));
    assert_eq!(world.raw_to_client, b"-ERR ringwall cannot reach the server: all are full\r\n");
    assert_eq!(world.session.reason(), Some(CloseReason::QueueTimeout));
    world.bury();
}

#[test]
fn an_attempt_at_a_server_that_is_not_to_be_used_is_given_up_and_the_next_server_gets_all_that_waited() {
    let credentials = Credentials::new();
    for backend_tls in [false, true] {
        let speech = Speech { client_tls: false, backend_tls };
        let mut world = World::speaking(speech, &credentials, options(), None);
        world.client_says(b"GET a\r\n");
        if backend_tls {
            world.begin_connect();
        }
        world.turn(|session, turn| assert!(session.give_up_attempt(turn)));
        if backend_tls {
            assert_eq!(world.hang_ups, [HandshakeEnd::Dismissed]);
            world.hung_up();
        } else {
            assert_eq!(world.abandoned, 1);
            world.turn(|session, _| session.redial());
        }
        assert_eq!(world.dials, 2);
        world.connect();
        assert_eq!(world.to_backend, b"GET a\r\n");
        // Once it is reached, there is no attempt to give up.
        world.turn(|session, turn| assert!(!session.give_up_attempt(turn)));
        world.bury();
    }
}

#[test]
fn an_attempt_that_is_given_up_and_has_failed_already_does_not_take_the_next_one_with_it() {
    let credentials = Credentials::new();
    let speech = Speech { client_tls: false, backend_tls: false };
    let mut world = World::speaking(speech, &credentials, options(), None);
    world.turn(|session, turn| {
        session.give_up_attempt(turn);
        session.redial();
    });
    assert_eq!((world.dials, world.abandoned), (2, 0));
    world.bury();
}
