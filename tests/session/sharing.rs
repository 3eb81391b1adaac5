//! Sessions whose backend is nobody's own: its connections may go on when it is over for one session.

use std::time::Duration;

use ringwall::io::Errno;
use ringwall::session::Side;
use ringwall::session::close::CloseReason;

use crate::world::{Credentials, World, options};

const ECONNRESET: Errno = Errno(104);

#[test]
fn a_backend_that_is_gone_in_good_order_is_the_end_behind_what_it_has_said() {
    let mut world = World::connected(&Credentials::new(), options());
    world.client_says(b"QUIT\r\n");
    world.receive(Side::Backend, b"+OK\r\n");
    world.turn(|session, turn| session.handle_backend_gone(CloseReason::ClientClosed, None, turn));
    world.deliver_client();
    assert_eq!(world.client.plaintext, b"+OK\r\n");
    assert!(world.client.closed && world.fin_to_client);
    assert_eq!(world.session.reason(), Some(CloseReason::ClientClosed));
    // Nobody listens any more: it waits for the client's end no longer than for a refused one's.
    world.wait(Duration::from_secs(2));
    assert!(world.closed);
    world.bury();
}

#[test]
fn a_backend_that_is_gone_with_a_part_of_a_reply_is_a_cut() {
    let mut world = World::connected(&Credentials::new(), options());
    world.client_says(b"GET a\r\n");
    world.receive(Side::Backend, b"$100\r\npart");
    world.turn(|session, turn| session.handle_backend_gone(CloseReason::ReplyCut, Some(ECONNRESET), turn));
    world.deliver_client();
    assert_eq!(world.client.plaintext, b"$100\r\npart");
    assert!(!world.client.closed && world.fin_to_client);
    assert_eq!(world.session.reason(), Some(CloseReason::ReplyCut));
    world.wait(Duration::from_secs(2));
    assert!(world.closed);
    world.bury();
}

#[test]
fn a_drain_waits_for_all_replies_where_it_is_known_that_more_are_owed() {
    let mut world = World::connected(&Credentials::new(), options());
    world.client_says(b"PING\r\nPING\r\n");
    world.receive(Side::Backend, b"+PONG\r\n");
    let now = world.now;
    world.turn(|session, _| {
        session.expect_more();
        session.begin_drain(Duration::from_millis(10), CloseReason::Drained, now);
    });
    world.wait(Duration::from_secs(20));
    assert!(!world.fin_to_client);
    world.receive(Side::Backend, b"+PONG\r\n");
    world.wait(Duration::from_millis(10));
    assert!(world.client.closed && world.fin_to_client);
    assert_eq!(world.session.reason(), Some(CloseReason::Drained));
    world.bury();
}
