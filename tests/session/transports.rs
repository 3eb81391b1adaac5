//! What holds whatever the two sides speak: TLS or plain text, in all four combinations.

use std::time::Duration;

use ringwall::io::Errno;
use ringwall::session::close::CloseReason;
use ringwall::session::coalescer::Threshold;
use ringwall::session::{Options, Refusal, Session, Side};

use crate::world::{Credentials, Speech, World, options};

const ECONNRESET: Errno = Errno(104);

/// A session that is connected on both sides, in each combination.
fn connected() -> impl Iterator<Item = World> {
    let credentials = Credentials::new();
    Speech::ALL.into_iter().map(move |speech| World::connected_and_speaking(speech, &credentials, options()))
}

#[test]
fn bytes_pass_one_to_one_in_every_combination_and_an_idle_session_holds_no_buffer() {
    for mut world in connected() {
        // As the first bytes of a client they would be taken for plain text where TLS is spoken.
        for request in [&b"*1\r\n$4\r\nPING\r\n"[..], &[0x16, 3, 1, 0, 5], &[b'x'; 100_000]] {
            world.to_backend.clear();
            world.client.plaintext.clear();
            world.client_says(request);
            assert_eq!(world.to_backend, request, "{:?}", world.speech);
            world.backend_says(request);
            assert_eq!(world.client.plaintext, request, "{:?}", world.speech);
        }
        assert_eq!(world.pool.lent_bytes(), 0);
        assert_eq!(world.tally.handshakes.get(), u64::from(world.speech.client_tls));
        assert_eq!(world.tally.backend_handshakes.get(), u64::from(world.speech.backend_tls));
        assert_eq!(world.session.tls_summary(Side::Client).is_some(), world.speech.client_tls);
        assert_eq!(world.session.tls_summary(Side::Backend).is_some(), world.speech.backend_tls);
        world.bury();
    }
}

#[test]
fn a_client_without_tls_is_dialled_for_at_once() {
    for backend_tls in [false, true] {
        let speech = Speech { client_tls: false, backend_tls };
        let mut world = World::speaking(speech, &Credentials::new(), options(), None);
        assert_eq!(world.dials, 1);
        assert!(world.session.is_dialling() && !world.session.is_handshaking(Side::Client));
        world.client_says(b"PING\r\n");
        world.connect();
        assert_eq!(world.to_backend, b"PING\r\n");
        world.bury();
    }
}

#[test]
fn a_client_without_tls_is_refused_at_once_at_the_limit() {
    let speech = Speech { client_tls: false, backend_tls: false };
    let refusal = Some(Refusal::TooManyConnections);
    let mut world = World::speaking(speech, &Credentials::new(), options(), refusal);
    assert_eq!(world.client.plaintext, b"-ERR max number of clients reached\r\n");
    assert!(world.fin_to_client);
    assert_eq!(world.dials, 0);
    world.end(Side::Client, None);
    assert!(world.closed);
    assert_eq!(world.session.reason(), Some(CloseReason::TooManyConnections));
    world.bury();
}

#[test]
fn an_orderly_end_of_the_client_is_one_for_the_backend_and_replies_still_flow() {
    for mut world in connected() {
        world.client_says(b"PING\r\n");
        world.client_ends();
        assert!(world.fin_to_backend && !world.fin_to_client);
        assert_eq!(world.to_backend, b"PING\r\n");
        assert_eq!(world.server.as_ref().is_some_and(|server| server.closed), world.speech.backend_tls);
        world.backend_says(b"+PONG\r\n");
        assert_eq!(world.client.plaintext, b"+PONG\r\n");
        world.backend_ends();
        assert_eq!(world.client.closed, world.speech.client_tls);
        assert!(world.closed);
        assert_eq!(world.session.reason(), Some(CloseReason::ClientClosed), "{:?}", world.speech);
        world.bury();
    }
}

#[test]
fn an_orderly_end_of_the_backend_is_one_for_the_client_and_requests_still_flow() {
    for mut world in connected() {
        world.backend_says(b"+bye\r\n");
        world.backend_ends();
        assert_eq!(world.client.plaintext, b"+bye\r\n");
        assert_eq!(world.client.closed, world.speech.client_tls);
        assert!(world.fin_to_client && !world.fin_to_backend);
        world.client_says(b"still\r\n");
        assert_eq!(world.to_backend, b"still\r\n");
        world.client_ends();
        assert!(world.closed && world.fin_to_backend);
        assert_eq!(world.session.reason(), Some(CloseReason::BackendClosed), "{:?}", world.speech);
        world.bury();
    }
}

#[test]
fn a_close_notify_of_the_backend_is_its_end_before_its_fin_comes() {
    let speech = Speech { client_tls: true, backend_tls: true };
    let mut world = World::connected_and_speaking(speech, &Credentials::new(), options());
    world.server.as_mut().unwrap().tls.send_close_notify();
    world.deliver_server();
    assert!(world.client.closed && world.fin_to_client && !world.closed);
    assert_eq!(world.session.reason(), Some(CloseReason::BackendClosed));
    // The client gets its time, and then the backend's FIN is not waited for.
    world.wait(Duration::from_secs(5));
    assert!(world.closed);
    world.bury();
}

#[test]
fn a_failure_of_the_backend_is_a_cut_without_close_notify_behind_all_that_was_received() {
    for mut world in connected() {
        world.backend_says(b"+half");
        world.end(Side::Backend, Some(ECONNRESET));
        assert_eq!(world.client.plaintext, b"+half");
        assert!(world.fin_to_client && !world.client.closed);
        assert_eq!(world.session.reason(), Some(CloseReason::BackendReset));
        world.end(Side::Client, None);
        assert!(world.closed);
        world.bury();
    }
}

#[test]
fn an_end_of_the_backend_without_close_notify_is_a_cut_and_told_apart() {
    for mut world in connected().filter(|world| world.speech.backend_tls) {
        world.backend_says(b"+half");
        world.end(Side::Backend, None);
        assert_eq!(world.client.plaintext, b"+half");
        assert!(world.fin_to_client && !world.client.closed);
        assert_eq!(world.session.reason(), Some(CloseReason::BackendTruncated));
        world.end(Side::Client, None);
        assert!(world.closed);
        world.bury();
    }
}

#[test]
fn a_bare_fin_in_answer_to_our_close_notify_is_an_orderly_end() {
    for mut world in connected().filter(|world| world.speech.backend_tls) {
        world.client_says(b"PING\r\n");
        world.client_ends();
        world.backend_says(b"+PONG\r\n");
        world.end(Side::Backend, None);
        assert_eq!(world.client.plaintext, b"+PONG\r\n");
        assert_eq!(world.client.closed, world.speech.client_tls);
        assert!(world.closed);
        assert_eq!(world.session.reason(), Some(CloseReason::ClientClosed));
        world.bury();
    }
}

#[test]
fn a_client_that_leaves_without_close_notify_is_truncated_only_where_it_speaks_tls() {
    for mut world in connected() {
        world.client_says(b"QUIT\r\n");
        world.end(Side::Client, None);
        assert_eq!(world.to_backend, b"QUIT\r\n");
        assert!(world.fin_to_backend);
        let reason = if world.speech.client_tls { CloseReason::ClientTruncated } else { CloseReason::ClientClosed };
        assert_eq!(world.session.reason(), Some(reason));
        world.bury();
    }
}

#[test]
fn each_direction_stops_at_the_other_side_s_mark_and_goes_on_when_it_reads() {
    for mut world in connected() {
        for side in Side::BOTH {
            let from = side.other();
            world.blocked[usize::from(side == Side::Backend)] = true;
            let mut said = 0;
            while world.session.wants_receive(from, false) {
                let chunk = vec![b'r'; 4_096];
                if from == Side::Client {
                    world.client_says(&chunk)
                } else {
                    world.backend_says(&chunk)
                }
                said += chunk.len();
            }
            let held = world.session.held_bytes(side);
            assert!((128 * 1024..264 * 1024).contains(&held), "{held} for {side:?} of {:?}", world.speech);
            assert!(world.session.wants_receive(side, false));
            world.unblock(side);
            let arrived = if side == Side::Client { &world.client.plaintext } else { &world.to_backend };
            assert_eq!(arrived.len(), said);
            assert!(!world.session.is_pending());
        }
        world.bury();
    }
}

#[test]
fn a_flood_of_tiny_records_of_a_server_is_served_in_portions() {
    let speech = Speech { client_tls: true, backend_tls: true };
    let mut world = World::connected_and_speaking(speech, &Credentials::new(), options());
    let server = world.server.as_mut().unwrap();
    for _ in 0..600 {
        server.write(b"x");
    }
    let wire = server.take_ciphertext();
    world.receive(Side::Backend, &wire);
    assert_eq!(world.client.plaintext.len(), 256);
    assert!(world.session.is_pending() && !world.session.wants_receive(Side::Backend, false));
    assert!(world.session.wants_receive(Side::Client, false));
    world.turn(Session::resume);
    world.turn(Session::resume);
    assert_eq!(world.client.plaintext.len(), 600);
    assert!(!world.session.is_pending());
    world.bury();
}

#[test]
fn what_a_side_said_in_many_tiny_records_arrives_although_its_end_came_with_it() {
    for (side, error) in [(Side::Client, None), (Side::Client, Some(ECONNRESET)), (Side::Backend, Some(ECONNRESET))] {
        let speech = Speech { client_tls: true, backend_tls: true };
        let mut world = World::connected_and_speaking(speech, &Credentials::new(), options());
        let server = world.server.as_mut().unwrap();
        for _ in 0..600 {
            if side == Side::Client { world.client.write(b"x") } else { server.write(b"x") }
        }
        let mut wire = if side == Side::Client { world.client.take_ciphertext() } else { server.take_ciphertext() };
        world.turn(|session, turn| {
            session.handle_received(side, &mut wire, turn);
            session.handle_end(side, error, turn);
        });
        assert!(!world.session.wants_receive(side, false), "the end is known");
        assert_eq!(world.session.reason(), None);
        world.turn(Session::resume);
        world.turn(Session::resume);
        let arrived = if side == Side::Client { &world.to_backend } else { &world.client.plaintext };
        assert_eq!(arrived.len(), 600);
        assert!(world.session.reason().is_some() && !world.session.wants_turn());
        world.bury();
    }
}

#[test]
fn requests_of_one_batch_leave_for_a_tls_server_as_one_record_and_one_send() {
    let speech = Speech { client_tls: false, backend_tls: true };
    let mut world = World::connected_and_speaking(speech, &Credentials::new(), options());
    let before = world.sends_to_backend.len();
    world.turn(|session, turn| {
        for _ in 0..10 {
            session.handle_received(Side::Client, &mut b"PING\r\n".to_vec(), turn);
        }
    });
    // TLS 1.3 adds 22 bytes to a record: header 5, content type 1, tag 16.
    assert_eq!(world.sends_to_backend[before..], [60 + 22]);
    assert_eq!(world.to_backend, b"PING\r\n".repeat(10));
    world.bury();
}

#[test]
fn with_coalescing_off_each_request_is_a_record_and_a_send() {
    let speech = Speech { client_tls: false, backend_tls: true };
    let without_coalescing = Options { coalesce: Threshold::Off, ..options() };
    let mut world = World::connected_and_speaking(speech, &Credentials::new(), without_coalescing);
    let before = world.sends_to_backend.len();
    world.turn(|session, turn| {
        for _ in 0..3 {
            session.handle_received(Side::Client, &mut b"PING\r\n".to_vec(), turn);
        }
    });
    assert_eq!(world.sends_to_backend[before..], [28, 28, 28]);
    world.bury();
}
