//! Each way a peer makes a connection fail, and the alert it is told with.

use ringwall::tls::{Failure, OpenStatus, Options, Policy, Version};
use rustls::crypto::aws_lc_rs::{self, cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, Error, SignatureScheme, SupportedProtocolVersion};

use crate::forger::{APPLICATION_DATA, CHANGE_CIPHER_SPEC, Forger, HANDSHAKE};
use crate::support::{Authority, KeyKind, Peer, Server, World, roots, shake_hands};

/// A plain fatal alert.
const fn fatal(alert: u8) -> [u8; 7] {
    [21, 3, 3, 0, 2, 2, alert]
}

const UNEXPECTED_MESSAGE: u8 = 10;
const DECODE_ERROR: u8 = 50;

/// What the server makes of a client's first flight, and the alert that the client finds.
fn refused(
    world: &World,
    options: &Options,
    provider: CryptoProvider,
    versions: &[&'static SupportedProtocolVersion],
) -> (Failure, AlertDescription) {
    let mut client = Peer::client(world.client_config(provider, versions), "redis.test");
    let mut server = Server::new(world.acceptor(options).engine());
    let OpenStatus::Failed(failure) = server.open(&client.output()).status else { panic!("accepted") };
    let Err(Error::AlertReceived(alert)) = client.take(&server.engine.take_replies()) else { panic!("no alert") };
    // It stays failed, and says so once.
    server.engine.close_notify();
    assert_eq!(server.open(b"more").status, OpenStatus::Failed(failure));
    assert!(!server.engine.has_replies());
    assert_eq!(server.pool.lent_bytes(), 0);
    (failure, alert)
}

#[test]
fn a_client_without_a_shared_version_is_told_so() {
    let world = World::new(KeyKind::Ecdsa);
    let only13 = Policy { version_min: Version::Tls13, ..Policy::default() };
    let only12 = Policy { version_max: Version::Tls12, ..Policy::default() };
    for (policy, version) in [(only13, &TLS12), (only12, &TLS13)] {
        let options = Options { policy, ..Options::default() };
        let refused = refused(&world, &options, aws_lc_rs::default_provider(), &[version]);
        assert_eq!(refused, (Failure::NoSharedVersion, AlertDescription::ProtocolVersion));
    }
}

#[test]
fn a_client_without_a_shared_cipher_is_told_so() {
    // The client's only suite is for RSA keys.
    let world = World::new(KeyKind::Ecdsa);
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = vec![cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256];
    let refused = refused(&world, &Options::default(), provider, &[&TLS12]);
    assert_eq!(refused, (Failure::NoSharedCipher, AlertDescription::HandshakeFailure));
}

#[test]
fn a_client_without_a_shared_group_is_told_so() {
    let world = World::new(KeyKind::Ecdsa);
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = vec![kx_group::MLKEM1024];
    let refused = refused(&world, &Options::default(), provider, &[&TLS13]);
    assert_eq!(refused, (Failure::NoSharedGroup, AlertDescription::HandshakeFailure));
}

#[test]
fn a_client_that_cannot_verify_our_kind_of_key_is_told_so() {
    let world = World::new(KeyKind::Ed25519);
    let mut provider = aws_lc_rs::default_provider();
    let algorithms = provider.signature_verification_algorithms;
    let mapping: Vec<_> =
        algorithms.mapping.iter().copied().filter(|(scheme, _)| *scheme != SignatureScheme::ED25519).collect();
    provider.signature_verification_algorithms =
        WebPkiSupportedAlgorithms { all: algorithms.all, mapping: Vec::leak(mapping) };
    // In TLS 1.2 the library finds out late and without an alert; the engine has it send the one it can.
    for (version, alert) in [(&TLS13, AlertDescription::HandshakeFailure), (&TLS12, AlertDescription::DecodeError)] {
        let refused = refused(&world, &Options::default(), provider.clone(), &[version]);
        assert_eq!(refused, (Failure::NoSharedSignature, alert));
    }
}

#[test]
fn a_client_that_does_not_trust_the_certificate_is_named_by_its_alert() {
    let world = World::new(KeyKind::Ecdsa);
    let stranger = Authority::new("Another Authority");
    let distrusting =
        World { credentials: World::new(KeyKind::Ecdsa).credentials, roots: roots(stranger.certificate.der()) };
    for version in [&TLS13, &TLS12] {
        let (mut client, mut server) = (distrusting.client(&[version]), world.server());
        server.open(&client.output());
        client.take(&server.engine.take_replies()).unwrap_err();
        assert_eq!(server.open(&client.output()).status, OpenStatus::Failed(Failure::AlertReceived("unknown_ca")));
        assert!(!server.engine.has_replies());
    }
}

#[test]
fn bytes_that_are_not_tls_get_an_alert_at_their_header() {
    let world = World::new(KeyKind::Ecdsa);
    for junk in [&b"GET / HTTP/1.1\r\n"[..], b"*1\r\n$4\r\nPING\r\n", &[0x80, 0x2e, 1, 3, 1], &[22, 3, 1, 0xff, 0xff]] {
        let mut server = world.server();
        assert_eq!(server.open(junk).status, OpenStatus::Failed(Failure::Malformed), "{junk:?}");
        assert_eq!(server.engine.take_replies(), fatal(DECODE_ERROR));
        // One byte of it is enough, or all that are needed for a header.
        let mut server = world.server();
        let status = junk.iter().map(|&byte| server.open(&[byte]).status).find(|status| *status != OpenStatus::Drained);
        assert_eq!(status, Some(OpenStatus::Failed(Failure::Malformed)));
        assert_eq!(server.pool.lent_bytes(), 0);
    }
}

#[test]
fn traffic_before_the_handshake_gets_an_alert() {
    let world = World::new(KeyKind::Ecdsa);
    for junk in [&[APPLICATION_DATA, 3, 3, 0, 0][..], &[APPLICATION_DATA, 3, 3, 0, 3, 1, 2, 3]] {
        let mut server = world.server();
        assert_eq!(server.open(junk).status, OpenStatus::Failed(Failure::PeerMisbehaved));
        assert_eq!(server.engine.take_replies(), fatal(UNEXPECTED_MESSAGE));
    }
}

#[test]
fn a_record_of_another_kind_in_the_middle_of_a_hello_gets_an_alert() {
    let world = World::new(KeyKind::Ecdsa);
    let mut server = world.server();
    let junk = [HANDSHAKE, 3, 1, 0, 6, 1, 0, 1, 0, 3, 3, CHANGE_CIPHER_SPEC, 3, 3, 0, 1, 1];
    assert_eq!(server.open(&junk).status, OpenStatus::Failed(Failure::PeerMisbehaved));
    assert_eq!(server.engine.take_replies(), fatal(DECODE_ERROR));
}

#[test]
fn a_handshake_message_that_never_ends_is_refused_within_bounds() {
    let world = World::new(KeyKind::Ecdsa);
    let mut server = world.server();
    // A hello that says it has 65,535 bytes, in records of one byte each.
    let message = [&[1, 0, 0xff, 0xff][..], &[0; 65_535]].concat();
    let mut opened = 0;
    let status = loop {
        let status = server.open(&[HANDSHAKE, 3, 1, 0, 1, message[opened]]).status;
        opened += 1;
        if status != OpenStatus::Drained {
            break status;
        }
        assert!(server.engine.carried_bytes() <= 49_152);
        assert!(server.pool.lent_bytes() <= 73_728);
    };
    assert_eq!(status, OpenStatus::Failed(Failure::Malformed));
    // Records of 6 bytes: the first that goes beyond 48 KiB.
    assert_eq!(opened, 8_193);
    assert_eq!(server.engine.take_replies(), fatal(DECODE_ERROR));
    assert_eq!(server.pool.lent_bytes(), 0);
}

#[test]
fn a_changed_record_gets_an_alert_and_what_came_before_is_delivered() {
    let world = World::new(KeyKind::Ecdsa);
    for version in [&TLS13, &TLS12] {
        let (mut client, mut server) = (world.client(&[version]), world.server());
        shake_hands(&mut client, &mut server);
        let mut ciphertext = client.seal(b"good");
        ciphertext.extend(client.seal(b"bad"));
        *ciphertext.last_mut().unwrap() ^= 1;
        assert_eq!(server.open(&ciphertext).status, OpenStatus::Failed(Failure::DecryptError));
        assert_eq!(server.received, b"good");
        let replies = server.engine.take_replies();
        assert_eq!(client.take(&replies), Err(Error::AlertReceived(AlertDescription::BadRecordMac)));
        assert_eq!(server.seal(b"x"), Err(Failure::DecryptError));
    }
}

#[test]
fn a_wrong_message_in_an_open_connection_gets_an_alert() {
    let world = World::new(KeyKind::Ecdsa);
    let (mut forger, mut server) = Forger::connect(&world);
    // An empty EndOfEarlyData (5).
    let opened = server.open(&forger.seal(HANDSHAKE, &[5, 0, 0, 0]));
    assert_eq!(opened.status, OpenStatus::Failed(Failure::PeerMisbehaved));
    forger.expect_alert(&server.engine.take_replies(), AlertDescription::UnexpectedMessage);
}

#[test]
fn several_messages_in_one_record_are_all_judged() {
    let world = World::new(KeyKind::Ecdsa);
    let (mut forger, mut server) = Forger::connect(&world);
    // A key update must be the last in its record (RFC 8446, section 5.1).
    let opened = server.open(&forger.seal(HANDSHAKE, &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0]));
    assert_eq!(opened.status, OpenStatus::Failed(Failure::PeerMisbehaved));
    forger.expect_alert(&server.engine.take_replies(), AlertDescription::UnexpectedMessage);
}
