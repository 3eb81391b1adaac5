//! The TLS engine against a rustls client: handshakes, records in pieces, closing.

mod tls_support;

use ringwall::tls::{OpenStatus, Opened, Options, Summary, Version};
use rustls::version::{TLS12, TLS13};
use tls_support::{KeyKind, Server, UNLIMITED, World, records, shake_hands};

#[test]
fn each_version_and_kind_of_key_carries_bytes_both_ways_with_the_preferred_suite() {
    let table = [
        (KeyKind::Ecdsa, &TLS13, "TLSv1.3", "TLS_AES_128_GCM_SHA256", "X25519MLKEM768"),
        (KeyKind::Rsa, &TLS13, "TLSv1.3", "TLS_AES_128_GCM_SHA256", "X25519MLKEM768"),
        (KeyKind::Ed25519, &TLS13, "TLSv1.3", "TLS_AES_128_GCM_SHA256", "X25519MLKEM768"),
        (KeyKind::Ecdsa, &TLS12, "TLSv1.2", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "x25519"),
        (KeyKind::Rsa, &TLS12, "TLSv1.2", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "x25519"),
    ];
    for (kind, wire, version, cipher, group) in table {
        let world = World::new(kind);
        let (mut client, mut server) = (world.client(&[wire]), world.server());
        assert_eq!(server.engine.summary(), None);
        shake_hands(&mut client, &mut server);
        assert_eq!(
            server.engine.summary(),
            Some(Summary {
                version,
                cipher,
                group: Some(group),
                server_name: Some("redis.test".into()),
                resumed: false
            })
        );
        let opened = server.open(&client.seal(b"PING\r\n"));
        assert_eq!(opened, Opened { records: 1, status: OpenStatus::Drained });
        assert_eq!(server.received, b"PING\r\n");
        client.take(&server.seal(b"+PONG\r\n").unwrap()).unwrap();
        assert_eq!(client.received, b"+PONG\r\n");
        assert_eq!(server.pool.lent_bytes(), 0);
    }
}

#[test]
fn a_large_plaintext_is_sealed_in_records_of_16_kib() {
    let world = World::new(KeyKind::Ecdsa);
    // Header, plaintext, tag; TLS 1.3 adds the content type.
    for (version, lens) in [(&TLS13, [16_406, 16_406, 23]), (&TLS12, [16_405, 16_405, 22])] {
        let (mut client, mut server) = (world.client(&[version]), world.server());
        shake_hands(&mut client, &mut server);
        let plaintext = vec![b'x'; 32_769];
        let sealed = server.seal(&plaintext).unwrap();
        assert_eq!(
            records(&sealed).map(|record| (record[0], record.len())).collect::<Vec<_>>(),
            lens.map(|len| (23, len))
        );
        client.take(&sealed).unwrap();
        assert_eq!(client.received, plaintext);
    }
}

#[test]
fn a_listener_may_refuse_a_version() {
    let world = World::new(KeyKind::Ecdsa);
    for (min, max, version) in [(Version::Tls13, Version::Tls13, &TLS13), (Version::Tls12, Version::Tls12, &TLS12)] {
        let options = Options { version_min: min, version_max: max, ..Options::default() };
        let mut server = Server::new(world.acceptor(&options).engine());
        let mut client = world.client(&[&TLS12, &TLS13]);
        shake_hands(&mut client, &mut server);
        assert_eq!(client.connection.protocol_version(), Some(version.version));
    }
    let options = Options { version_min: Version::Tls13, version_max: Version::Tls12, ..Options::default() };
    let error = ringwall::tls::Acceptor::new(&world.identity, &options).unwrap_err();
    assert_eq!(error.to_string(), "no TLS version is left: the oldest accepted is 1.3, the newest offered 1.2");
}

#[test]
fn a_record_in_two_pieces_yields_its_plaintext_and_leaves_no_buffer_behind() {
    let world = World::new(KeyKind::Ecdsa);
    let (mut client, mut server) = (world.client(&[&TLS13]), world.server());
    shake_hands(&mut client, &mut server);
    let ciphertext = client.seal(b"SET key value\r\n");
    let (first, second) = ciphertext.split_at(7);
    assert_eq!(server.open(first), Opened { records: 0, status: OpenStatus::Drained });
    assert_eq!(server.engine.carried_bytes(), 7);
    assert_eq!(server.open(second), Opened { records: 1, status: OpenStatus::Drained });
    assert_eq!(server.received, b"SET key value\r\n");
    assert_eq!(server.engine.carried_bytes(), 0);
    assert_eq!(server.pool.lent_bytes(), 0);
}

#[test]
fn a_budget_of_one_record_opens_one_record_at_a_time() {
    let world = World::new(KeyKind::Ecdsa);
    let (mut client, mut server) = (world.client(&[&TLS13]), world.server());
    shake_hands(&mut client, &mut server);
    let mut ciphertext = Vec::new();
    for request in [&b"one"[..], b"two", b"three"] {
        ciphertext.extend(client.seal(request));
    }
    assert_eq!(server.open_some(&ciphertext, 1), Opened { records: 1, status: OpenStatus::Budget });
    assert_eq!(server.received, b"one");
    assert_eq!(server.open_some(&client.seal(b"four"), 1), Opened { records: 1, status: OpenStatus::Budget });
    assert_eq!(server.received, b"onetwo");
    assert_eq!(server.open_some(&[], 1), Opened { records: 1, status: OpenStatus::Budget });
    assert_eq!(server.open_some(&[], 1), Opened { records: 1, status: OpenStatus::Drained });
    assert_eq!(server.received, b"onetwothreefour");
    assert_eq!(server.pool.lent_bytes(), 0);
}

#[test]
fn close_notify_ends_one_direction_and_leaves_the_other() {
    let world = World::new(KeyKind::Ecdsa);
    for version in [&TLS13, &TLS12] {
        let (mut client, mut server) = (world.client(&[version]), world.server());
        shake_hands(&mut client, &mut server);
        client.connection.send_close_notify();
        assert_eq!(server.open(&client.output()), Opened { records: 1, status: OpenStatus::Closed });
        assert!(server.engine.peer_closed());
        client.take(&server.seal(b"still talking").unwrap()).unwrap();
        assert_eq!(client.received, b"still talking");
        server.engine.close_notify();
        server.engine.close_notify();
        let replies = server.engine.take_replies();
        assert_eq!(records(&replies).count(), 1);
        client.take(&replies).unwrap();
        assert!(client.is_closed_by_server());

        let (mut client, mut server) = (world.client(&[version]), world.server());
        shake_hands(&mut client, &mut server);
        server.engine.close_notify();
        client.take(&server.engine.take_replies()).unwrap();
        assert!(client.is_closed_by_server());
        assert_eq!(server.open_some(&client.seal(b"still talking"), UNLIMITED).records, 1);
        assert_eq!(server.received, b"still talking");
    }
}
