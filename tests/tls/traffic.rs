//! An open connection: bytes both ways, key updates, the ends of keys.

use ringwall::pool::SendBuf;
use ringwall::tls::{Failure, OpenStatus, Opened, Options};
use rustls::AlertDescription;
use rustls::crypto::aws_lc_rs;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
use rustls::version::{TLS12, TLS13};

use crate::forger::{ALERT, APPLICATION_DATA, Forger, HANDSHAKE};
use crate::support::{KeyKind, Peer, Server, World, records, shake_hands};

#[test]
fn bytes_go_both_ways_and_an_idle_engine_holds_no_buffer() {
    let world = World::new(KeyKind::Ecdsa);
    for version in [&TLS13, &TLS12] {
        let (mut client, mut server) = (world.client(&[version]), world.server());
        shake_hands(&mut client, &mut server);
        assert_eq!(server.engine.carried_bytes(), 0);
        assert_eq!(server.pool.lent_bytes(), 0);
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
        let found: Vec<_> = records(&sealed).map(|record| (record[0], record.len())).collect();
        assert_eq!(found, lens.map(|len| (APPLICATION_DATA, len)));
        client.take(&sealed).unwrap();
        assert_eq!(client.received, plaintext);
    }
}

#[test]
fn empty_plaintext_makes_no_record() {
    let world = World::new(KeyKind::Ecdsa);
    let (mut client, mut server) = (world.client(&[&TLS13]), world.server());
    shake_hands(&mut client, &mut server);
    assert_eq!(server.seal(b"").unwrap(), b"");
}

#[test]
fn sealing_appends_to_what_the_buffer_holds_and_puts_replies_in_front() {
    let world = World::new(KeyKind::Ecdsa);
    let options = Options { tickets: Some(crate::resumption::keys("a")), ..Options::default() };
    let mut server = Server::new(world.acceptor(&options).engine());
    let mut client = world.client(&[&TLS13]);
    server.open(&client.output());
    client.take(&server.engine.take_replies()).unwrap();
    server.open(&client.output());
    assert!(server.engine.has_replies());
    assert_eq!(client.tickets(), 0);

    let first = b"not TLS, sent already";
    let mut out = SendBuf::with_capacity(first.len() + server.engine.sealed_len_max(5));
    out.append(first);
    server.engine.seal(b"reply", &mut out).unwrap();
    assert!(!server.engine.has_replies());
    assert_eq!(&out.data()[..first.len()], first);
    client.take(&out.data()[first.len()..]).unwrap();
    assert_eq!(client.tickets(), 1);
    assert_eq!(client.received, b"reply");
}

#[test]
fn a_key_update_that_the_client_asks_for_is_answered_before_the_next_reply() {
    let world = World::new(KeyKind::Ecdsa);
    let (mut client, mut server) = (world.client(&[&TLS13]), world.server());
    shake_hands(&mut client, &mut server);
    for round in 0..3_u8 {
        client.connection.refresh_traffic_keys().unwrap();
        let opened = server.open(&client.seal(&[round]));
        assert_eq!(opened, Opened { records: 2, status: OpenStatus::Drained });
        let sealed = server.seal(&[round]).unwrap();
        // The key update: header, handshake message of 5 bytes, content type, tag. Then the reply.
        assert_eq!(records(&sealed).map(<[u8]>::len).collect::<Vec<_>>(), [27, 23]);
        client.take(&sealed).unwrap();
    }
    assert_eq!(server.received, [0, 1, 2]);
    assert_eq!(client.received, [0, 1, 2]);
}

#[test]
fn tls13_changes_its_keys_by_itself_and_goes_on() {
    let world = World::new(KeyKind::Ecdsa);
    let options = Options { record_limit: Some(5), ..Options::default() };
    let mut server = Server::new(world.acceptor(&options).engine());
    let mut client = world.client(&[&TLS13]);
    shake_hands(&mut client, &mut server);
    let mut updates = 0;
    for round in 0..100_u8 {
        let sealed = server.seal(&[round]).unwrap();
        updates += records(&sealed).count() - 1;
        client.take(&sealed).unwrap();
        // The client's answers to the key updates are in here.
        assert_eq!(server.open(&client.seal(&[round])).status, OpenStatus::Drained);
    }
    assert_eq!(client.received, (0..100).collect::<Vec<u8>>());
    assert_eq!(server.received, (0..100).collect::<Vec<u8>>());
    // Of each five records under one key, the last is the key update.
    assert_eq!(updates, 24);
}

#[test]
fn tls13_changes_its_keys_in_front_of_a_plaintext_of_many_records() {
    let world = World::new(KeyKind::Ecdsa);
    let options = Options { record_limit: Some(3), ..Options::default() };
    let mut server = Server::new(world.acceptor(&options).engine());
    let mut client = world.client(&[&TLS13]);
    shake_hands(&mut client, &mut server);
    let plaintext = vec![b'x'; 10 * 16_384];
    for _ in 0..3 {
        client.take(&server.seal(&plaintext).unwrap()).unwrap();
    }
    assert_eq!(client.received.len(), 30 * 16_384);
}

#[test]
fn tls12_with_aes_gcm_ends_with_close_notify_when_its_keys_are_spent() {
    let world = World::new(KeyKind::Ecdsa);
    let options = Options { record_limit: Some(5), ..Options::default() };
    let mut server = Server::new(world.acceptor(&options).engine());
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = vec![TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256];
    let mut client = Peer::client(world.client_config(provider, &[&TLS12]), "redis.test");
    shake_hands(&mut client, &mut server);
    // The first of the five is the server's Finished.
    for _ in 0..4 {
        client.take(&server.seal(b"x").unwrap()).unwrap();
    }
    assert_eq!(server.seal(b"x"), Err(Failure::KeysExhausted));
    let replies = server.engine.take_replies();
    assert_eq!(records(&replies).map(|record| record[0]).collect::<Vec<_>>(), [ALERT]);
    client.take(&replies).unwrap();
    assert_eq!(client.received, b"xxxx");
    assert!(client.is_closed_by_other());
    assert_eq!(server.seal(b"x"), Err(Failure::KeysExhausted));
    assert_eq!(server.open(b"").status, OpenStatus::Failed(Failure::KeysExhausted));
    assert_eq!(Failure::KeysExhausted.label(), "keys_exhausted");
}

#[test]
fn empty_and_padded_records_are_taken_and_too_many_empty_ones_are_not() {
    let world = World::new(KeyKind::Ecdsa);
    let (mut forger, mut server) = Forger::connect(&world);
    let mut ciphertext = forger.seal(APPLICATION_DATA, b"");
    ciphertext.extend(forger.seal_padded(APPLICATION_DATA, b"padded", 1000));
    ciphertext.extend(forger.seal_padded(APPLICATION_DATA, b"", 16_384));
    ciphertext.extend(forger.seal(APPLICATION_DATA, b"plain"));
    assert_eq!(server.open(&ciphertext), Opened { records: 4, status: OpenStatus::Drained });
    assert_eq!(server.received, b"paddedplain");

    for _ in 0..32 {
        assert_eq!(server.open(&forger.seal(APPLICATION_DATA, b"")).status, OpenStatus::Drained);
    }
    assert_eq!(server.open(&forger.seal(APPLICATION_DATA, b"")).status, OpenStatus::Failed(Failure::PeerMisbehaved));
    forger.expect_alert(&server.engine.take_replies(), AlertDescription::UnexpectedMessage);
}

#[test]
fn a_key_update_message_in_two_records_waits_for_its_end_and_blocks_nothing() {
    let world = World::new(KeyKind::Ecdsa);
    let (mut forger, mut server) = Forger::connect(&world);
    // KeyUpdate (24), three bytes of length, update_not_requested.
    let message = [24, 0, 0, 1, 0];
    let (first, second) = message.split_at(3);
    assert_eq!(server.open(&forger.seal(HANDSHAKE, first)), Opened { records: 1, status: OpenStatus::Drained });
    assert_eq!(server.engine.carried_bytes(), 3);
    forger.client.take(&server.seal(b"meanwhile").unwrap()).unwrap();
    let ciphertext = forger.seal(HANDSHAKE, second);
    assert_eq!(server.open(&ciphertext[..9]), Opened { records: 0, status: OpenStatus::Drained });
    forger.client.take(&server.seal(b", still").unwrap()).unwrap();
    assert_eq!(server.open(&ciphertext[9..]), Opened { records: 1, status: OpenStatus::Drained });
    assert_eq!(server.pool.lent_bytes(), 0);
    assert_eq!(forger.client.received, b"meanwhile, still");
    // The keys have changed: what the old ones seal does not open.
    assert_eq!(server.open(&forger.seal(APPLICATION_DATA, b"old")).status, OpenStatus::Failed(Failure::DecryptError));
    forger.expect_alert(&server.engine.take_replies(), AlertDescription::BadRecordMac);
}

#[test]
fn traffic_in_the_middle_of_a_handshake_message_is_refused_with_an_alert() {
    let world = World::new(KeyKind::Ecdsa);
    let (mut forger, mut server) = Forger::connect(&world);
    let mut ciphertext = forger.seal(HANDSHAKE, &[24, 0, 0]);
    ciphertext.extend(forger.seal(APPLICATION_DATA, b"x"));
    assert_eq!(server.open(&ciphertext), Opened { records: 2, status: OpenStatus::Failed(Failure::PeerMisbehaved) });
    assert_eq!(server.received, b"");
    assert_eq!(server.pool.lent_bytes(), 0);
    // RFC 8446, section 5.1.
    forger.expect_alert(&server.engine.take_replies(), AlertDescription::UnexpectedMessage);
}

#[test]
fn a_flood_of_key_updates_is_refused_with_an_alert() {
    let world = World::new(KeyKind::Ecdsa);
    let (mut client, mut server) = (world.client(&[&TLS13]), world.server());
    shake_hands(&mut client, &mut server);
    for _ in 0..32 {
        client.connection.refresh_traffic_keys().unwrap();
        assert_eq!(server.open(&client.output()).status, OpenStatus::Drained);
    }
    client.connection.refresh_traffic_keys().unwrap();
    assert_eq!(server.open(&client.output()).status, OpenStatus::Failed(Failure::PeerMisbehaved));
    let error = client.take(&server.engine.take_replies()).unwrap_err();
    assert_eq!(error, rustls::Error::AlertReceived(AlertDescription::UnexpectedMessage));
}
