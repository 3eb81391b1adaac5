//! Sessions whose age is bounded.

use std::time::Duration;

use ringwall::session::Side;
use ringwall::session::close::CloseReason;

use crate::world::{Credentials, World, options};

/// A connected session that is to end in a minute.
fn mortal() -> World {
    let mut world = World::connected(&Credentials::new(), options());
    let end = world.now + Duration::from_secs(60);
    world.turn(|session, _| session.limit_lifetime(end));
    world
}

#[test]
fn a_quiet_session_is_closed_in_good_order_when_its_time_is_over() {
    let mut world = mortal();
    world.wait(Duration::from_secs(60));
    assert!(!world.fin_to_client);
    world.wait(Duration::from_millis(99));
    assert!(!world.fin_to_client);
    world.wait(Duration::from_millis(1));
    assert!(world.client.closed && world.fin_to_client && world.fin_to_backend);
    assert_eq!(world.session.reason(), Some(CloseReason::MaxLifetime));
    world.bury();
}

#[test]
fn a_reply_that_is_owed_is_waited_for_and_what_follows_it_too() {
    let mut world = mortal();
    world.client_says(b"GET a\r\n");
    world.wait(Duration::from_secs(80));
    assert!(!world.fin_to_client, "the reply is still owed");
    world.receive(Side::Backend, b"$1\r\n1\r\n");
    world.wait(Duration::from_millis(99));
    world.client_says(b"GET b\r\n");
    world.wait(Duration::from_millis(99));
    world.receive(Side::Backend, b"$1\r\n2\r\n");
    world.wait(Duration::from_millis(99));
    assert!(!world.fin_to_client);
    world.wait(Duration::from_millis(1));
    assert!(world.client.closed && world.fin_to_client);
    assert_eq!(world.client.plaintext, b"$1\r\n1\r\n$1\r\n2\r\n");
    assert_eq!(world.session.reason(), Some(CloseReason::MaxLifetime));
    world.bury();
}

#[test]
fn a_session_that_is_owed_something_for_half_a_minute_more_is_cut_off_with_a_close_notify() {
    let mut world = mortal();
    world.client_says(b"BLPOP a 0\r\n");
    world.wait(Duration::from_millis(89_999));
    assert!(!world.fin_to_client);
    world.wait(Duration::from_millis(1));
    assert!(world.client.closed && world.fin_to_client);
    assert_eq!(world.session.reason(), Some(CloseReason::MaxLifetimeCutOff));
    world.wait(Duration::from_secs(2));
    assert!(world.closed);
    world.bury();
}

#[test]
fn a_session_that_is_never_quiet_ends_after_half_a_minute_too() {
    let mut world = mortal();
    world.wait(Duration::from_secs(60));
    for _ in 0..599 {
        world.client_says(b"PING\r\n");
        world.receive(Side::Backend, b"+PONG\r\n");
        world.wait(Duration::from_millis(50));
        assert!(!world.fin_to_client);
    }
    world.client_says(b"PING\r\n");
    world.receive(Side::Backend, b"+PONG\r\n");
    world.wait(Duration::from_millis(50));
    assert!(world.client.closed);
    assert_eq!(world.session.reason(), Some(CloseReason::MaxLifetime));
    world.bury();
}
