//! Clients behind a proxy: the PROXY header in front of TLS or of the first command.

use std::time::Duration;

use ringwall::io::Errno;
use ringwall::session::Side;
use ringwall::session::close::CloseReason;
use ringwall::wire::proxy::HeaderError;

use crate::world::{Credentials, Speech, World, options};

const LINE: &[u8] = b"PROXY TCP4 192.0.2.7 192.0.2.1 56324 6380\r\n";
/// The same in version 2, with a TLV of no meaning behind it.
const BINARY: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x10\xc0\x00\x02\x07\xc0\x00\x02\x01\xdc\x04\x18\xec\x04\x00\x01\x00";

const PLAIN: Speech = Speech { client_tls: false, backend_tls: false };

fn source(world: &World) -> Option<String> {
    world.session.announced().map(|addresses| addresses.source.to_string())
}

#[test]
fn a_header_cut_at_any_byte_introduces_the_client() {
    let credentials = Credentials::new();
    for header in [LINE, BINARY] {
        for cut in 0..=header.len() {
            let mut world = World::behind_proxy(PLAIN, &credentials, options());
            let (first, rest) = header.split_at(cut);
            if !first.is_empty() {
                world.receive(Side::Client, first);
            }
            assert_eq!(world.dials, u32::from(rest.is_empty()), "cut at {cut}");
            world.receive(Side::Client, &[rest, b"PING\r\n"].concat());
            assert_eq!(source(&world).as_deref(), Some("192.0.2.7:56324"));
            world.connect();
            assert_eq!(world.to_backend, b"PING\r\n");
            let (received, _) = world.session.bytes(Side::Client);
            assert_eq!(received, header.len() as u64 + 6);
            world.bury();
        }
    }
}

#[test]
fn a_header_in_single_bytes_stands_in_front_of_tls() {
    let credentials = Credentials::new();
    for header in [LINE, BINARY] {
        let mut world = World::behind_proxy(Speech::USUAL, &credentials, options());
        for byte in header {
            assert!(world.session.is_introducing() && world.session.is_handshaking(Side::Client));
            world.receive(Side::Client, &[*byte]);
        }
        assert!(!world.session.is_introducing() && world.session.is_handshaking(Side::Client));
        world.shake_hands();
        world.connect();
        world.client_says(b"PING\r\n");
        assert_eq!(world.to_backend, b"PING\r\n");
        world.bury();
    }
}

#[test]
fn a_header_and_the_hello_come_in_one_read() {
    let credentials = Credentials::new();
    let mut world = World::behind_proxy(Speech::USUAL, &credentials, options());
    let hello = world.client.take_ciphertext();
    world.receive(Side::Client, &[LINE, &hello].concat());
    world.shake_hands();
    assert_eq!(source(&world).as_deref(), Some("192.0.2.7:56324"));
    world.bury();
}

#[test]
fn a_proxy_that_speaks_for_itself_announces_nobody() {
    let credentials = Credentials::new();
    for header in [&b"PROXY UNKNOWN\r\n"[..], b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00"] {
        let mut world = World::behind_proxy(PLAIN, &credentials, options());
        world.receive(Side::Client, header);
        assert_eq!((source(&world), world.dials), (None, 1));
        world.bury();
    }
}

#[test]
fn what_is_no_header_is_named_and_closed_without_a_word() {
    let credentials = Credentials::new();
    let mut version_3 = BINARY.to_vec();
    version_3[12] = 0x31;
    for (speech, bytes, error) in [
        (Speech::USUAL, &b"\x16\x03\x01\x02\x00"[..], HeaderError::Absent),
        (PLAIN, b"PING\r\n", HeaderError::Absent),
        (PLAIN, b"PROXY TCP4 nobody\r\n", HeaderError::Line),
        (PLAIN, &version_3, HeaderError::Version),
        (PLAIN, b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff", HeaderError::TooLong),
    ] {
        let mut world = World::behind_proxy(speech, &credentials, options());
        world.client_is_raw = true;
        world.receive(Side::Client, bytes);
        assert_eq!(world.session.reason(), Some(CloseReason::ProxyHeaderInvalid(error)));
        assert!(world.fin_to_client && world.raw_to_client.is_empty() && world.dials == 0);
        assert!(!world.session.is_handshaking(Side::Client));
        world.receive(Side::Client, b"more of it");
        world.end(Side::Client, None);
        assert!(world.closed);
        world.bury();
    }
}

#[test]
fn a_header_that_does_not_come_in_time_is_a_reason_of_its_own() {
    let credentials = Credentials::new();
    for begun in [&b""[..], b"PROXY TCP4"] {
        let mut world = World::behind_proxy(Speech::USUAL, &credentials, options());
        if !begun.is_empty() {
            world.receive(Side::Client, begun);
        }
        world.wait(Duration::from_millis(9_999));
        assert_eq!(world.session.reason(), None);
        world.wait(Duration::from_millis(1));
        assert_eq!(world.session.reason(), Some(CloseReason::ProxyHeaderTimeout));
        assert!(world.fin_to_client && world.raw_to_client.is_empty());
        world.wait(Duration::from_secs(2));
        assert!(world.closed);
        world.bury();
    }
}

#[test]
fn the_time_of_the_handshake_begins_before_the_header() {
    let credentials = Credentials::new();
    let mut world = World::behind_proxy(Speech::USUAL, &credentials, options());
    world.wait(Duration::from_secs(6));
    world.receive(Side::Client, LINE);
    world.wait(Duration::from_secs(4));
    assert_eq!(world.session.reason(), Some(CloseReason::HandshakeTimeout));
    world.end(Side::Client, None);
    world.bury();
}

#[test]
fn a_connection_that_ends_before_its_header_does_was_aborted() {
    let credentials = Credentials::new();
    for error in [None, Some(Errno(104))] {
        let mut world = World::behind_proxy(PLAIN, &credentials, options());
        world.receive(Side::Client, b"PROXY ");
        world.end(Side::Client, error);
        assert!(world.closed);
        assert_eq!(world.session.reason(), Some(CloseReason::HandshakeAborted));
        world.bury();
    }
}

#[test]
fn whoever_is_not_trusted_is_turned_away_unheard() {
    let credentials = Credentials::new();
    let mut world = World::behind_proxy(Speech::USUAL, &credentials, options());
    world.turn(|session, turn| session.turn_away(CloseReason::ProxyUntrusted, turn));
    world.client_is_raw = true;
    world.receive(Side::Client, LINE);
    assert!(world.fin_to_client && world.raw_to_client.is_empty() && source(&world).is_none());
    assert_eq!(world.session.reason(), Some(CloseReason::ProxyUntrusted));
    world.end(Side::Client, None);
    assert!(world.closed);
    world.bury();
}

#[test]
fn a_session_that_is_cut_off_before_its_header_ends() {
    let credentials = Credentials::new();
    let mut world = World::behind_proxy(PLAIN, &credentials, options());
    world.turn(|session, turn| assert!(session.close(CloseReason::CutOff, turn)));
    assert!(world.fin_to_client);
    world.end(Side::Client, None);
    assert!(world.closed);
    assert_eq!(world.session.reason(), Some(CloseReason::CutOff));
    world.bury();
}
