//! What a session does, case by case.

use std::time::Duration;

use ringwall::io::Errno;
use ringwall::session::close::CloseReason;
use ringwall::session::coalescer::Threshold;
use ringwall::session::{Options, Refusal, Session, Side};

use crate::world::{Credentials, World, options};

const ECONNRESET: Errno = Errno(104);
const EPIPE: Errno = Errno(32);

#[test]
fn the_backend_is_dialled_only_after_the_handshake() {
    let mut world = World::new(&Credentials::new(), options());
    let hello = world.client.take_ciphertext();
    world.receive(Side::Client, &hello);
    assert_eq!(world.dials, 0);
    world.shake_hands();
    assert_eq!(world.dials, 1);
    world.bury();
}

#[test]
fn a_ticket_leaves_right_after_the_clients_finished() {
    let mut world = World::new(&Credentials::new(), options());
    let hello = world.client.take_ciphertext();
    world.receive(Side::Client, &hello);
    let before = world.raw_to_client.len();
    world.deliver_client();
    assert!(!world.session.is_handshaking(Side::Client));
    // No tickets are configured here, so nothing is owed; the black-box tests see the ticket itself.
    assert_eq!(world.raw_to_client.len(), before);
    world.bury();
}

#[test]
fn bytes_pass_one_to_one_in_both_directions() {
    let mut world = World::connected(&Credentials::new(), options());
    world.client_says(b"PING\r\n");
    assert_eq!(world.to_backend, b"PING\r\n");
    world.receive(Side::Backend, b"+PONG\r\n");
    assert_eq!(world.client.plaintext, b"+PONG\r\n");
    assert!(!world.closed);
    world.bury();
}

#[test]
fn what_the_client_says_before_the_backend_is_connected_waits_for_it() {
    let mut world = World::new(&Credentials::new(), options());
    world.shake_hands();
    world.client_says(b"SET a 1\r\n");
    assert_eq!(world.to_backend, b"");
    world.connect();
    assert_eq!(world.to_backend, b"SET a 1\r\n");
    world.bury();
}

#[test]
fn an_idle_session_holds_no_buffer() {
    let mut world = World::connected(&Credentials::new(), options());
    world.client_says(b"PING\r\n");
    world.receive(Side::Backend, b"+PONG\r\n");
    assert_eq!(world.pool.lent_bytes(), 0);
}

#[test]
fn small_replies_of_one_batch_leave_as_one_record_and_one_send() {
    let mut world = World::connected(&Credentials::new(), options());
    let before = world.sends_to_client.len();
    world.turn(|session, turn| {
        for _ in 0..10 {
            session.handle_received(Side::Backend, &mut b"+OK\r\n".to_vec(), turn);
        }
    });
    // TLS 1.3 adds 22 bytes to a record: header 5, content type 1, tag 16.
    assert_eq!(world.sends_to_client[before..], [50 + 22]);
    assert_eq!(world.client.plaintext, b"+OK\r\n".repeat(10));
    assert_eq!(world.tally.flushes_batch_end.get(), 1);
    world.bury();
}

#[test]
fn with_coalescing_off_each_chunk_is_a_record_and_a_send() {
    let mut world = World::connected(&Credentials::new(), Options { coalesce: Threshold::Off, ..options() });
    let before = world.sends_to_client.len();
    world.turn(|session, turn| {
        for _ in 0..3 {
            session.handle_received(Side::Backend, &mut b"+OK\r\n".to_vec(), turn);
        }
    });
    assert_eq!(world.sends_to_client[before..], [27, 27, 27]);
    world.bury();
}

#[test]
fn replies_that_come_while_a_send_is_in_flight_leave_together_with_the_next() {
    let mut world = World::connected(&Credentials::new(), options());
    world.blocked[0] = true;
    let before = world.sends_to_client.len();
    for _ in 0..5 {
        world.receive(Side::Backend, b"+OK\r\n");
    }
    assert_eq!(world.sends_to_client[before..], [27]);
    world.unblock(Side::Client);
    assert_eq!(world.sends_to_client[before..], [27, 20 + 22]);
    assert_eq!(world.client.plaintext, b"+OK\r\n".repeat(5));
    world.bury();
}

#[test]
fn a_large_chunk_passes_the_cork_and_follows_what_was_gathered() {
    let mut world = World::connected(&Credentials::new(), options());
    let large = vec![b'x'; 65_536];
    let mut copy = large.clone();
    world.turn(|session, turn| {
        session.handle_received(Side::Backend, &mut b"$65536\r\n".to_vec(), turn);
        session.handle_received(Side::Backend, &mut copy, turn);
    });
    assert_eq!(world.tally.chunks_passed.get(), 1);
    assert_eq!(world.client.plaintext, [b"$65536\r\n".as_slice(), &large].concat());
    world.bury();
}

#[test]
fn an_orderly_end_of_the_client_is_one_for_the_backend_and_replies_still_flow() {
    let mut world = World::connected(&Credentials::new(), options());
    world.client_says(b"GET a\r\n");
    world.client.tls.send_close_notify();
    world.deliver_client();
    assert!(world.fin_to_backend && !world.fin_to_client && !world.closed);
    world.receive(Side::Backend, b"$1\r\n1\r\n");
    assert_eq!(world.client.plaintext, b"$1\r\n1\r\n");
    world.end(Side::Backend, None);
    assert!(world.client.closed && world.fin_to_client);
    world.end(Side::Client, None);
    assert!(world.closed);
    assert_eq!(world.session.reason(), Some(CloseReason::ClientClosed));
    world.bury();
}

#[test]
fn an_orderly_end_of_the_backend_is_one_for_the_client_and_requests_still_flow() {
    let mut world = World::connected(&Credentials::new(), options());
    world.receive(Side::Backend, b"-ERR bye\r\n");
    world.end(Side::Backend, None);
    assert!(world.client.closed && world.fin_to_client && !world.fin_to_backend);
    world.client_says(b"still here\r\n");
    assert_eq!(world.to_backend, b"still here\r\n");
    world.end(Side::Client, None);
    assert!(world.closed && world.fin_to_backend);
    assert_eq!(world.session.reason(), Some(CloseReason::BackendClosed));
    world.bury();
}

#[test]
fn a_client_that_stays_after_the_backend_ended_is_closed_after_five_seconds() {
    let mut world = World::connected(&Credentials::new(), options());
    world.end(Side::Backend, None);
    world.wait(Duration::from_millis(4_999));
    assert!(!world.closed);
    world.wait(Duration::from_millis(1));
    assert!(world.closed);
    world.bury();
}

#[test]
fn a_truncated_client_is_told_apart_and_everything_it_sent_is_delivered() {
    let mut world = World::connected(&Credentials::new(), options());
    world.client_says(b"SET a 1\r\n");
    world.end(Side::Client, None);
    assert_eq!(world.to_backend, b"SET a 1\r\n");
    assert!(world.fin_to_backend && !world.closed);
    assert_eq!(world.session.reason(), Some(CloseReason::ClientTruncated));
    world.end(Side::Backend, None);
    assert!(world.closed);
    world.bury();
}

#[test]
fn a_reset_of_the_client_loses_nothing_that_had_come() {
    let mut world = World::connected(&Credentials::new(), options());
    world.blocked[1] = true;
    world.client_says(b"SET a 1\r\n");
    world.client_says(b"SET b 2\r\n");
    world.end(Side::Client, Some(ECONNRESET));
    assert!(!world.fin_to_backend);
    world.unblock(Side::Backend);
    assert_eq!(world.to_backend, b"SET a 1\r\nSET b 2\r\n");
    assert!(world.fin_to_backend && !world.closed);
    world.receive(Side::Backend, b"+OK\r\n+OK\r\n");
    world.end(Side::Backend, None);
    assert!(world.closed);
    assert_eq!(world.session.reason(), Some(CloseReason::ClientReset));
    world.bury();
}

#[test]
fn a_failed_send_to_the_client_does_not_end_what_the_client_still_says() {
    let mut world = World::connected(&Credentials::new(), options());
    world.blocked[0] = true;
    world.receive(Side::Backend, b"+OK\r\n");
    world.complete_send(Side::Client, Some(Err(EPIPE)));
    world.settle();
    world.client_says(b"SET a 1\r\n");
    assert_eq!(world.to_backend, b"SET a 1\r\n");
    assert!(!world.closed);
    world.bury();
}

#[test]
fn a_client_that_is_gone_does_not_wait_for_ever_behind_a_backend_that_does_not_read() {
    let mut world = World::connected(&Credentials::new(), options());
    world.blocked = [true, true];
    world.client_says(&[b'x'; 300_000]);
    world.receive(Side::Backend, b"+OK\r\n");
    world.complete_send(Side::Client, Some(Err(ECONNRESET)));
    world.settle();
    world.wait(Duration::from_secs(29));
    assert_eq!(world.session.reason(), None);
    world.wait(Duration::from_secs(1));
    assert_eq!(world.session.reason(), Some(CloseReason::ClientReset));
    world.wait(Duration::from_secs(2));
    world.unblock(Side::Backend);
    assert!(world.closed);
    world.bury();
}

#[test]
fn a_backend_that_closes_on_us_still_has_its_last_words_delivered() {
    let mut world = World::connected(&Credentials::new(), options());
    world.blocked[1] = true;
    world.client_says(b"PING\r\n");
    world.complete_send(Side::Backend, Some(Err(EPIPE)));
    world.settle();
    world.receive(Side::Backend, b"-ERR max number of clients reached\r\n");
    world.end(Side::Backend, Some(ECONNRESET));
    assert_eq!(world.client.plaintext, b"-ERR max number of clients reached\r\n");
    world.bury();
}

#[test]
fn an_end_after_a_failed_send_to_the_backend_is_a_cut_too() {
    let mut world = World::connected(&Credentials::new(), options());
    world.blocked[1] = true;
    world.client_says(b"PING\r\n");
    world.complete_send(Side::Backend, Some(Err(ECONNRESET)));
    world.settle();
    world.end(Side::Backend, None);
    assert!(world.fin_to_client && !world.client.closed);
    assert_eq!(world.session.reason(), Some(CloseReason::BackendReset));
    world.bury();
}

#[test]
fn a_reset_of_the_backend_is_a_cut_for_the_client_without_close_notify() {
    let mut world = World::connected(&Credentials::new(), options());
    world.receive(Side::Backend, b"$100\r\nhalf");
    world.end(Side::Backend, Some(ECONNRESET));
    assert_eq!(world.client.plaintext, b"$100\r\nhalf");
    assert!(world.fin_to_client && !world.client.closed);
    assert_eq!(world.session.reason(), Some(CloseReason::BackendReset));
    world.end(Side::Client, None);
    assert!(world.closed);
    world.bury();
}

#[test]
fn plaintext_on_the_tls_port_is_answered_in_plain_resp_and_lingers_two_seconds() {
    let mut world = World::new(&Credentials::new(), options());
    world.client_is_raw = true;
    world.receive(Side::Client, b"*1\r\n$4\r\nPING\r\n");
    assert_eq!(
        world.raw_to_client,
        b"-ERR this port speaks TLS: connect with TLS (redis-cli --tls), or to the server's plain port\r\n"
    );
    assert!(world.fin_to_client && !world.closed);
    world.receive(Side::Client, &[b'x'; 60_000]);
    assert!(world.session.wants_receive(Side::Client, false));
    world.wait(Duration::from_secs(2));
    assert!(world.closed);
    assert_eq!(world.session.reason(), Some(CloseReason::Plaintext));
    assert_eq!(world.dials, 0);
    world.bury();
}

#[test]
fn an_unreachable_backend_is_said_in_resp_and_ends_in_good_order() {
    let mut world = World::new(&Credentials::new(), options());
    world.shake_hands();
    world.client_says(b"PING\r\n");
    world.turn(|session, turn| session.handle_unreachable("backend 'valkey': Connection refused", turn));
    assert_eq!(
        world.client.plaintext,
        b"-ERR ringwall cannot reach the server: backend 'valkey': Connection refused\r\n"
    );
    assert!(world.client.closed && world.fin_to_client && !world.closed);
    world.end(Side::Client, None);
    assert!(world.closed);
    assert_eq!(world.session.reason(), Some(CloseReason::BackendUnreachable));
    world.bury();
}

#[test]
fn an_unreachable_backend_is_a_cut_where_no_error_is_wanted() {
    let silent = Options { tells_unreachable: false, ..options() };
    let mut world = World::new(&Credentials::new(), silent);
    world.shake_hands();
    world.client_says(b"PING\r\n");
    world.turn(|session, turn| session.handle_unreachable("backend 'valkey': Connection refused", turn));
    assert!(world.client.plaintext.is_empty());
    assert!(!world.client.closed && world.fin_to_client && !world.closed);
    world.end(Side::Client, None);
    assert!(world.closed);
    assert_eq!(world.session.reason(), Some(CloseReason::BackendUnreachable));
    world.bury();
}

#[test]
fn at_the_limit_the_handshake_is_finished_and_the_error_said() {
    let mut world = World::with_refusal(&Credentials::new(), options(), Some(Refusal::TooManyConnections));
    world.shake_hands();
    assert_eq!(world.client.plaintext, b"-ERR max number of clients reached\r\n");
    assert!(world.client.closed);
    assert_eq!(world.dials, 0);
    world.bury();
}

#[test]
fn a_handshake_that_takes_too_long_ends() {
    let mut world = World::new(&Credentials::new(), options());
    let hello = world.client.take_ciphertext();
    world.receive(Side::Client, &hello[..hello.len() / 2]);
    world.wait(Duration::from_millis(9_999));
    assert!(!world.fin_to_client);
    world.wait(Duration::from_millis(1));
    assert!(world.fin_to_client);
    world.wait(Duration::from_secs(2));
    assert!(world.closed);
    assert_eq!(world.session.reason(), Some(CloseReason::HandshakeTimeout));
    world.bury();
}

#[test]
fn a_client_that_leaves_in_its_handshake_is_closed_at_once() {
    let mut world = World::new(&Credentials::new(), options());
    let hello = world.client.take_ciphertext();
    world.receive(Side::Client, &hello);
    world.end(Side::Client, None);
    assert!(world.closed);
    assert_eq!(world.session.reason(), Some(CloseReason::HandshakeAborted));
    world.bury();
}

#[test]
fn a_dial_that_takes_too_long_is_abandoned_and_tried_elsewhere() {
    let mut world = World::new(&Credentials::new(), options());
    world.shake_hands();
    world.wait(Duration::from_secs(5));
    assert_eq!(world.abandoned, 1);
    world.turn(|session, _| session.redial());
    assert_eq!(world.dials, 2);
    world.connect();
    world.client_says(b"PING\r\n");
    assert_eq!(world.to_backend, b"PING\r\n");
    world.bury();
}

#[test]
fn a_half_closed_session_ends_when_nothing_moves_and_lives_while_something_does() {
    let mut world = World::connected(&Credentials::new(), options());
    world.client.tls.send_close_notify();
    world.deliver_client();
    world.wait(Duration::from_secs(29));
    world.receive(Side::Backend, b"+still\r\n");
    world.wait(Duration::from_secs(29));
    assert!(!world.fin_to_client);
    world.wait(Duration::from_secs(1));
    assert!(world.client.closed);
    assert_eq!(world.session.reason(), Some(CloseReason::HalfCloseTimeout));
    world.wait(Duration::from_secs(2));
    assert!(world.closed);
    world.bury();
}

#[test]
fn an_idle_timeout_ends_a_silent_session_and_is_off_by_default() {
    let mut world = World::connected(&Credentials::new(), options());
    world.wait(Duration::from_secs(1_000_000));
    assert!(!world.fin_to_client);
    let idle = Options { idle_timeout: Some(Duration::from_secs(60)), ..options() };
    let mut world = World::connected(&Credentials::new(), idle);
    world.wait(Duration::from_secs(60));
    assert!(world.client.closed && world.fin_to_backend);
    assert_eq!(world.session.reason(), Some(CloseReason::IdleTimeout));
    world.bury();
}

#[test]
fn a_drain_closes_what_is_owed_nothing_and_waits_for_what_is() {
    let quiet = Duration::from_millis(100);
    let mut world = World::connected(&Credentials::new(), options());
    world.client_says(b"GET a\r\n");
    let now = world.now;
    world.turn(|session, _| session.begin_drain(quiet, CloseReason::Drained, now));
    world.wait(Duration::from_secs(20));
    assert!(!world.fin_to_client, "the reply is still owed");
    world.receive(Side::Backend, b"$1\r\n1\r\n");
    world.wait(Duration::from_millis(99));
    assert!(!world.fin_to_client);
    world.wait(Duration::from_millis(1));
    assert!(world.client.closed && world.fin_to_client && world.fin_to_backend);
    assert_eq!(world.session.reason(), Some(CloseReason::Drained));
    world.bury();
}

#[test]
fn what_is_cut_off_still_gets_a_close_notify() {
    let mut world = World::connected(&Credentials::new(), options());
    world.client_says(b"BLPOP a 0\r\n");
    world.turn(|session, turn| assert!(session.close(CloseReason::CutOff, turn)));
    assert!(world.client.closed);
    world.turn(|session, turn| assert!(!session.close(CloseReason::CutOff, turn)));
    world.wait(Duration::from_secs(2));
    assert!(world.closed);
    world.bury();
}

#[test]
fn requests_go_on_being_taken_while_the_client_reads_no_reply() {
    let mut world = World::connected(&Credentials::new(), options());
    world.blocked[0] = true;
    while world.session.wants_receive(Side::Backend, false) {
        world.receive(Side::Backend, &[b'r'; 4_096]);
    }
    assert!(world.session.held_bytes(Side::Client) < 256 * 1024 + 4_096 + 4_096);
    assert!(world.session.wants_receive(Side::Client, false));
    assert!(world.session.is_pending());
    world.client_says(b"SET a 1\r\n");
    assert_eq!(world.to_backend, b"SET a 1\r\n");
    world.unblock(Side::Client);
    assert!(world.session.wants_receive(Side::Backend, false));
    assert!(!world.session.is_pending());
    world.bury();
}

#[test]
fn a_flood_of_tiny_records_is_served_in_portions() {
    let mut world = World::connected(&Credentials::new(), options());
    for _ in 0..600 {
        world.client.write(b"x");
    }
    let wire = world.client.take_ciphertext();
    world.receive(Side::Client, &wire);
    assert_eq!(world.to_backend.len(), 256);
    assert!(world.session.is_pending() && !world.session.wants_receive(Side::Client, false));
    world.turn(Session::resume);
    world.turn(Session::resume);
    assert_eq!(world.to_backend.len(), 600);
    assert!(!world.session.is_pending());
    world.bury();
}
