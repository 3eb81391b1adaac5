//! The ways a connection ends in order.

use ringwall::tls::{OpenStatus, Opened, Options};
use rustls::version::{TLS12, TLS13};

use crate::support::{KeyKind, Server, World, records, shake_hands};

#[test]
fn a_client_that_closes_its_direction_still_gets_replies() {
    let world = World::new(KeyKind::Ecdsa);
    for version in [&TLS13, &TLS12] {
        let (mut client, mut server) = (world.client(&[version]), world.server());
        shake_hands(&mut client, &mut server);
        let mut ciphertext = client.seal(b"last request");
        client.connection.send_close_notify();
        ciphertext.extend(client.output());
        assert_eq!(server.open(&ciphertext), Opened { records: 2, status: OpenStatus::Closed });
        assert_eq!(server.received, b"last request");
        assert!(server.engine.peer_closed());
        assert!(!server.engine.has_replies());
        client.take(&server.seal(b"still talking").unwrap()).unwrap();
        assert_eq!(client.received, b"still talking");
        server.engine.close_notify();
        server.engine.close_notify();
        let replies = server.engine.take_replies();
        assert_eq!(records(&replies).count(), 1);
        client.take(&replies).unwrap();
        assert!(client.is_closed_by_other());
    }
}

#[test]
fn a_server_that_closes_its_direction_still_gets_requests() {
    let world = World::new(KeyKind::Ecdsa);
    for version in [&TLS13, &TLS12] {
        let (mut client, mut server) = (world.client(&[version]), world.server());
        shake_hands(&mut client, &mut server);
        server.engine.close_notify();
        client.take(&server.engine.take_replies()).unwrap();
        assert!(client.is_closed_by_other());
        assert_eq!(server.open(&client.seal(b"still talking")).records, 1);
        assert_eq!(server.received, b"still talking");
        client.connection.send_close_notify();
        assert_eq!(server.open(&client.output()).status, OpenStatus::Closed);
        assert!(!server.engine.has_replies());
    }
}

#[test]
fn nothing_is_sent_after_our_close_notify_whatever_the_client_does() {
    let world = World::new(KeyKind::Ecdsa);
    let (mut client, mut server) = (world.client(&[&TLS13]), world.server());
    shake_hands(&mut client, &mut server);
    server.engine.close_notify();
    let _ = server.engine.take_replies();
    client.connection.refresh_traffic_keys().unwrap();
    assert_eq!(server.open(&client.output()).status, OpenStatus::Drained);
    assert!(!server.engine.has_replies());
    assert!(matches!(server.open(b"junk from the client").status, OpenStatus::Failed(_)));
    assert!(!server.engine.has_replies());
}

#[test]
fn junk_behind_close_notify_is_ignored() {
    let world = World::new(KeyKind::Ecdsa);
    for budget in [1, 5] {
        let (mut client, mut server) = (world.client(&[&TLS13]), world.server());
        shake_hands(&mut client, &mut server);
        let record = client.seal(b"behind");
        client.connection.send_close_notify();
        // The record was sealed first, so it opens first: what is behind is a copy of it.
        let ciphertext = [&record[..], &client.output(), &record, b"junk"].concat();
        let mut opened = server.open_some(&ciphertext, budget);
        if budget == 1 {
            assert_eq!(opened, Opened { records: 1, status: OpenStatus::Budget });
            opened = server.open_some(&[], budget);
        }
        assert_eq!(opened.status, OpenStatus::Closed);
        assert_eq!(server.received, b"behind");
        assert_eq!(server.pool.lent_bytes(), 0);
        assert_eq!(server.open(b"more junk"), Opened { records: 0, status: OpenStatus::Closed });
        assert_eq!(server.pool.lent_bytes(), 0);
    }
}

#[test]
fn close_notify_before_the_clients_hello_is_a_plain_alert() {
    let world = World::new(KeyKind::Ecdsa);
    let mut server = world.server();
    server.engine.close_notify();
    // Alert, TLS 1.2 on the record layer, two bytes: warning, close_notify.
    assert_eq!(server.engine.take_replies(), [21, 3, 3, 0, 2, 1, 0]);
}

#[test]
fn close_notify_in_the_middle_of_a_tls13_handshake_reaches_the_client() {
    let world = World::new(KeyKind::Ecdsa);
    let (mut client, mut server) = (world.client(&[&TLS13]), world.server());
    server.open(&client.output());
    assert!(server.engine.is_handshaking());
    server.engine.close_notify();
    client.take(&server.engine.take_replies()).unwrap();
    assert!(client.is_closed_by_other());
    // The client goes on to finish its handshake, which changes nothing.
    assert_eq!(server.open(&client.output()).status, OpenStatus::Drained);
    assert!(!server.engine.has_replies());
}

#[test]
fn close_notify_in_the_middle_of_a_tls12_handshake_is_a_plain_alert() {
    let world = World::new(KeyKind::Ecdsa);
    let (mut client, mut server) = (world.client(&[&TLS12]), world.server());
    server.open(&client.output());
    let flight = server.engine.take_replies();
    server.engine.close_notify();
    assert_eq!(server.engine.take_replies(), [21, 3, 3, 0, 2, 1, 0]);
    client.take(&flight).unwrap();
}

#[test]
fn close_notify_in_the_middle_of_a_resumed_tls12_handshake_is_not_possible() {
    let world = World::new(KeyKind::Ecdsa);
    let options = Options { tickets: Some(crate::resumption::keys("a")), ..Options::default() };
    let config = world.client_config(rustls::crypto::aws_lc_rs::default_provider(), &[&TLS12]);
    for resumed in [false, true] {
        let mut client = crate::support::Peer::client(config.clone(), "redis.test");
        let mut server = Server::new(world.acceptor(&options).engine());
        server.open(&client.output());
        if resumed {
            let _ = server.engine.take_replies();
            server.engine.close_notify();
            assert!(!server.engine.has_replies());
            return;
        }
        client.take(&server.engine.take_replies()).unwrap();
        shake_hands(&mut client, &mut server);
    }
}
