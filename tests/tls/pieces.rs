//! Ciphertext in pieces: wherever it is cut and whatever the budget, the same plaintext comes out.

use proptest::prelude::*;
use ringwall::tls::{Failure, OpenStatus, Opened};
use rustls::SupportedProtocolVersion;
use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::version::{TLS12, TLS13};

use crate::support::{KeyKind, Peer, Server, World, shake_hands};

/// A client whose hello is short, for tests that cut it everywhere.
fn short_client(world: &World, version: &'static SupportedProtocolVersion) -> Peer {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = vec![kx_group::X25519];
    Peer::client(world.client_config(provider, &[version]), "redis.test")
}

#[test]
fn a_handshake_cut_at_any_byte_completes() {
    let world = World::new(KeyKind::Ecdsa);
    for version in [&TLS13, &TLS12] {
        let mut flight_lens = [usize::MAX; 2];
        for flight in 0..2 {
            let mut cut = 0;
            while cut <= flight_lens[flight] {
                let (mut client, mut server) = (short_client(&world, version), world.server());
                for (turn, len) in flight_lens.iter_mut().enumerate() {
                    let bytes = client.output();
                    *len = bytes.len();
                    let (first, second) = bytes.split_at(if turn == flight { cut } else { 0 });
                    assert_eq!(server.open(first).status, OpenStatus::Drained);
                    assert_eq!(server.open(second).status, OpenStatus::Drained);
                    client.take(&server.engine.take_replies()).unwrap();
                }
                assert!(!server.engine.is_handshaking(), "flight {flight} cut at {cut}");
                assert_eq!(server.pool.lent_bytes(), 0);
                cut += 1;
            }
        }
        assert!(flight_lens.iter().all(|len| (50..500).contains(len)), "{flight_lens:?}");
    }
}

#[test]
fn a_handshake_byte_by_byte_completes() {
    let world = World::new(KeyKind::Rsa);
    for version in [&TLS13, &TLS12] {
        let (mut client, mut server) = (world.client(&[version]), world.server());
        for _ in 0..2 {
            for byte in client.output() {
                assert_eq!(server.open(&[byte]).status, OpenStatus::Drained);
            }
            client.take(&server.engine.take_replies()).unwrap();
        }
        assert!(!server.engine.is_handshaking());
        assert_eq!(server.pool.lent_bytes(), 0);
    }
}

#[test]
fn a_hello_in_many_small_records_completes_in_any_pieces_and_budget() {
    let world = World::new(KeyKind::Ecdsa);
    for (piece, records_max) in [(1, 1), (7, 1), (100, 3), (10_000, 1), (10_000, usize::MAX)] {
        let mut config = (*world.client_config(aws_lc_rs::default_provider(), &[&TLS13])).clone();
        config.max_fragment_size = Some(64);
        let (mut client, mut server) = (Peer::client(config.into(), "redis.test"), world.server());
        let mut records = 0;
        for _ in 0..2 {
            for piece in client.output().chunks(piece) {
                let mut opened = server.open_some(piece, records_max);
                records += opened.records;
                while opened.status == OpenStatus::Budget {
                    assert_eq!(opened.records, records_max);
                    opened = server.open_some(&[], records_max);
                    records += opened.records;
                }
                assert_eq!(opened.status, OpenStatus::Drained);
            }
            client.take(&server.engine.take_replies()).unwrap();
        }
        assert!(!server.engine.is_handshaking());
        assert!(records > 20, "{records}");
        assert_eq!(server.pool.lent_bytes(), 0);
    }
}

/// Three records, of 6, 0 and 300 bytes, as one client sends them. Each connection has its own keys, so each cut gets
/// its own.
fn three_records(client: &mut Peer) -> Vec<u8> {
    let mut ciphertext = client.seal(b"PING\r\n");
    ciphertext.extend(client.seal(&[b'x'; 300]));
    ciphertext.extend(client.seal(b"QUIT\r\n"));
    ciphertext
}

#[test]
fn records_cut_at_any_byte_yield_the_same_plaintext() {
    let world = World::new(KeyKind::Ecdsa);
    let expected = [b"PING\r\n", &[b'x'; 300][..], b"QUIT\r\n"].concat();
    for (version, len) in [(&TLS13, 378), (&TLS12, 375)] {
        for cut in 0..=len {
            let (mut client, mut server) = (short_client(&world, version), world.server());
            shake_hands(&mut client, &mut server);
            let ciphertext = three_records(&mut client);
            assert_eq!(ciphertext.len(), len);
            let (first, second) = ciphertext.split_at(cut);
            let records = server.open(first).records + server.open(second).records;
            assert_eq!((records, &server.received), (3, &expected), "cut at {cut}");
            assert_eq!(server.pool.lent_bytes(), 0);
        }
    }
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
    // Replies are sealed while requests wait.
    client.take(&server.seal(b"reply").unwrap()).unwrap();
    assert_eq!(client.received, b"reply");
    assert_eq!(server.open_some(&[], 1), Opened { records: 1, status: OpenStatus::Budget });
    assert_eq!(server.open_some(&[], 1), Opened { records: 1, status: OpenStatus::Drained });
    assert_eq!(server.open_some(&[], 1), Opened { records: 0, status: OpenStatus::Drained });
    assert_eq!(server.received, b"onetwothreefour");
    assert_eq!(server.pool.lent_bytes(), 0);
}

#[test]
fn a_budget_of_none_keeps_everything_for_later() {
    let world = World::new(KeyKind::Ecdsa);
    let (mut client, mut server) = (world.client(&[&TLS13]), world.server());
    shake_hands(&mut client, &mut server);
    let ciphertext = client.seal(b"later");
    assert_eq!(server.open_some(&ciphertext[..5], 0), Opened { records: 0, status: OpenStatus::Drained });
    assert_eq!(server.open_some(&ciphertext[5..], 0), Opened { records: 0, status: OpenStatus::Budget });
    assert_eq!(server.engine.carried_bytes(), 27);
    assert_eq!(server.open_some(&[], 1), Opened { records: 1, status: OpenStatus::Drained });
    assert_eq!(server.received, b"later");
}

#[test]
fn release_gives_the_carry_back_and_ends_the_engine() {
    let world = World::new(KeyKind::Ecdsa);
    let (mut client, mut server) = (world.client(&[&TLS13]), world.server());
    let hello = client.output();
    server.open(&hello[..100]);
    assert_eq!(server.pool.lent_bytes(), 4096);
    server.engine.release(&mut server.pool);
    assert_eq!(server.pool.lent_bytes(), 0);
    server.engine.close_notify();
    assert!(!server.engine.has_replies());
    assert_eq!(server.open(&hello[100..]), Opened { records: 0, status: OpenStatus::Closed });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any plaintexts in any pieces under any budget come out whole, in order, and leave no buffer behind.
    #[test]
    fn any_pieces_and_budget_yield_the_same_plaintext(
        tls13: bool,
        lens in prop::collection::vec(prop_oneof![3 => 1..100_usize, 1 => 1..40_000_usize], 1..12),
        pieces in prop::collection::vec(prop_oneof![1 => 1..8_usize, 2 => 1..3_000_usize, 1 => 1..70_000_usize], 1..40),
        budgets in prop::collection::vec(0..6_usize, 1..8),
    ) {
        let world = World::new(KeyKind::Ecdsa);
        let version = if tls13 { &TLS13 } else { &TLS12 };
        let (mut client, mut server) = (short_client(&world, version), world.server());
        shake_hands(&mut client, &mut server);
        let (mut plaintext, mut ciphertext) = (Vec::new(), Vec::new());
        for (index, len) in lens.into_iter().enumerate() {
            let bytes = vec![index.to_le_bytes()[0]; len];
            ciphertext.extend(client.seal(&bytes));
            plaintext.extend(bytes);
        }
        let (mut rest, mut pieces, mut budgets) = (&ciphertext[..], pieces.iter().cycle(), budgets.iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(*pieces.next().unwrap()));
            let budget = *budgets.next().unwrap();
            let opened = server.open_some(piece, budget);
            prop_assert!(opened.records <= budget);
            prop_assert!(matches!(opened.status, OpenStatus::Drained | OpenStatus::Budget));
            rest = after;
        }
        while server.open_some(&[], 1).status == OpenStatus::Budget {}
        prop_assert!(server.received == plaintext);
        prop_assert_eq!(server.pool.lent_bytes(), 0);
    }

    /// A byte changed anywhere in a stream ends it with a reason, and what came before is delivered.
    #[test]
    fn a_changed_byte_ends_the_connection_with_a_reason(tls13: bool, position in 0..375_usize, flip in 1..=255_u8) {
        let world = World::new(KeyKind::Ecdsa);
        let version = if tls13 { &TLS13 } else { &TLS12 };
        let (mut client, mut server) = (short_client(&world, version), world.server());
        shake_hands(&mut client, &mut server);
        let mut ciphertext = three_records(&mut client);
        ciphertext[position] ^= flip;
        let opened = server.open(&ciphertext);
        prop_assert!(b"PING\r\n".starts_with(&server.received[..server.received.len().min(6)]));
        match opened.status {
            OpenStatus::Failed(failure) => {
                prop_assert!(
                    matches!(failure, Failure::DecryptError | Failure::Malformed | Failure::PeerMisbehaved),
                    "{failure:?}"
                );
                prop_assert!(server.engine.has_replies());
            }
            // A length grew: the record's end is awaited. Or the version changed within what is allowed, which TLS 1.2
            // does not see before it opens the record and TLS 1.3 does not at all.
            OpenStatus::Drained => {}
            other @ (OpenStatus::Budget | OpenStatus::Closed) => prop_assert!(false, "{other:?}"),
        }
        server.engine.release(&mut server.pool);
        prop_assert_eq!(server.pool.lent_bytes(), 0);
    }

    /// Junk at any stage never panics; the engine ends with a reason or waits for more, within its bounds.
    #[test]
    fn junk_at_any_stage_never_panics(
        stage in 0..4_u8,
        junk in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..40),
                // Records with honest headers and junk inside.
                (20..25_u8, prop::collection::vec(any::<u8>(), 0..60)).prop_map(|(kind, body)| {
                    [&[kind, 3, 3, 0, u8::try_from(body.len()).unwrap()], &body[..]].concat()
                }),
                // Handshake messages of all types, with honest lengths.
                (0..26_u8, prop::collection::vec(any::<u8>(), 0..60)).prop_map(|(kind, body)| {
                    let len = u8::try_from(body.len()).unwrap();
                    [&[22, 3, 3, 0, len + 4, kind, 0, 0, len], &body[..]].concat()
                }),
            ],
            1..8,
        ),
        budget in 0..4_usize,
    ) {
        let world = World::new(KeyKind::Ecdsa);
        let version = if stage % 2 == 0 { &TLS13 } else { &TLS12 };
        let (mut client, mut server) = (short_client(&world, version), world.server());
        if stage > 0 {
            server.open(&client.output());
            client.take(&server.engine.take_replies()).unwrap();
        }
        if stage > 1 {
            shake_hands(&mut client, &mut server);
        }
        throw(&mut server, &junk, budget);
    }
}

fn throw(server: &mut Server, junk: &[Vec<u8>], budget: usize) {
    for (index, piece) in junk.iter().enumerate() {
        server.open_some(piece, budget);
        if index == 3 {
            server.engine.close_notify();
        }
        let _ = server.engine.take_replies();
    }
    server.engine.close_notify();
    server.engine.release(&mut server.pool);
    assert_eq!(server.pool.lent_bytes(), 0);
}
