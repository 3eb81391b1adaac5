//! The record layer against rustls, record by record: whatever is said in whatever order, pieces and records, each side
//! hears what the other has said.

use std::sync::Arc;

use proptest::prelude::*;
use ringwall::tls::{
    BackendCredentials, CipherSuite, Connector, Failure, OpenStatus, Options, Policy, ServerAuth, Servers, Version,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConnection, Connection, ServerConfig, ServerConnection};

use crate::forger::{ALERT, APPLICATION_DATA, Forger, HANDSHAKE, Pen, Secret};
use crate::support::{KeyKind, Peer, Server as Engine, World, records};

/// One suite, and who plays which part.
#[derive(Clone, Copy, Debug)]
struct Setting {
    suite: CipherSuite,
    engine_is_server: bool,
    /// Records that a key of the engine may seal.
    limit: Option<u64>,
    /// The most plaintext in a record of the peer.
    fragment: Option<usize>,
}

impl Setting {
    /// The suites of a certificate with an ECDSA key: with that of RSA the records are the same.
    fn suites() -> Vec<CipherSuite> {
        CipherSuite::all().filter(|suite| !suite.name().contains("_RSA_")).collect()
    }

    fn connect(self) -> (Engine, Peer) {
        let policy = Policy { cipher_suites: vec![self.suite], ..Policy::default() };
        let options = Options { policy, record_limit: self.limit, ..Options::default() };
        let world = World::new(KeyKind::Ecdsa);
        let (engine, connection) = if self.engine_is_server {
            let versions = [&rustls::version::TLS13, &rustls::version::TLS12];
            let config = world.client_config(aws_lc_rs::default_provider(), &versions);
            let mut config = Arc::unwrap_or_clone(config);
            config.max_fragment_size = self.fragment;
            let name = ServerName::try_from("redis.test").unwrap();
            let client = ClientConnection::new(Arc::new(config), name).unwrap();
            (world.acceptor(&options).engine(), Connection::Client(client))
        } else {
            let credentials = BackendCredentials { servers: Servers::load(&ServerAuth::None).unwrap(), identity: None };
            let server = ServerConnection::new(Arc::new(server_config(self.fragment))).unwrap();
            (Connector::new(&credentials, &options, None).unwrap().engine(), Connection::Server(server))
        };
        let (mut engine, mut peer) = (Engine::new(engine), Peer::new(connection));
        loop {
            let (ours, theirs) = (engine.engine.take_replies(), peer.output());
            if ours.is_empty() && theirs.is_empty() {
                break;
            }
            peer.take(&ours).unwrap();
            assert_eq!(engine.open(&theirs).status, OpenStatus::Drained);
        }
        assert_eq!(engine.engine.summary().unwrap().cipher, self.suite.name());
        (engine, peer)
    }
}

fn server_config(fragment: Option<usize>) -> ServerConfig {
    let key = KeyKind::Ecdsa.generate();
    let certificate = rcgen::CertificateParams::new(vec!["redis.test".to_owned()]).unwrap().self_signed(&key).unwrap();
    let chain = vec![CertificateDer::from(certificate)];
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key).unwrap();
    config.max_fragment_size = fragment;
    config
}

/// An engine in the client's role, and what seals as its server does.
fn forged_server() -> (Pen, Engine) {
    let log = Arc::new(Secret::of("SERVER_TRAFFIC_SECRET_0"));
    let mut config = server_config(None);
    config.key_log = Arc::<Secret>::clone(&log);
    config.send_tls13_tickets = 0;
    let server = ServerConnection::new(Arc::new(config)).unwrap();
    let mut peer = Peer::new(server);
    let credentials = BackendCredentials { servers: Servers::load(&ServerAuth::None).unwrap(), identity: None };
    let mut engine = Engine::new(Connector::new(&credentials, &Options::default(), None).unwrap().engine());
    while engine.engine.has_replies() {
        peer.take(&engine.engine.take_replies()).unwrap();
        engine.open(&peer.output());
    }
    assert!(!engine.engine.is_handshaking());
    (log.pen(), engine)
}

/// Contents of records, honest, nearly so, and not.
fn contents() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
    let message = (prop_oneof![Just(0), Just(1), Just(4), Just(24), any::<u8>()], 0..300_usize, any::<bool>());
    let message = message.prop_map(|(kind, len, honest)| {
        let said = if honest { len } else { len * 1000 };
        let [_, high, middle, low] = u32::try_from(said).unwrap().to_be_bytes();
        [vec![kind, high, middle, low], vec![1; len]].concat()
    });
    let content = prop_oneof![
        3 => (Just(HANDSHAKE), message),
        1 => (Just(HANDSHAKE), prop::sample::select(vec![vec![24, 0, 0], vec![24, 0, 0, 1, 1], vec![]])),
        1 => (Just(ALERT), prop::collection::vec(prop_oneof![0..3_u8, any::<u8>()], 0..4)),
        2 => (Just(APPLICATION_DATA), prop::collection::vec(any::<u8>(), 0..40)),
        1 => (any::<u8>(), prop::collection::vec(any::<u8>(), 0..40)),
    ];
    prop::collection::vec(content, 1..12)
}

/// What one of the sides does.
#[derive(Clone, Debug)]
enum Act {
    EngineSays(usize),
    PeerSays(usize),
    /// The peer changes its keys and asks the engine to do the same.
    PeerChangesKeys,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let len = || prop_oneof![1 => Just(0_usize), 4 => 1..200_usize, 2 => 16_380..16_390_usize, 1 => 1..70_000_usize];
    let act = prop_oneof![
        3 => len().prop_map(Act::EngineSays),
        3 => len().prop_map(Act::PeerSays),
        1 => Just(Act::PeerChangesKeys),
    ];
    prop::collection::vec(act, 1..24)
}

fn setting() -> impl Strategy<Value = Setting> {
    let limit = prop_oneof![2 => Just(None), 1 => (1..12_u64).prop_map(Some)];
    let fragment = prop_oneof![2 => Just(None), 1 => (32..600_usize).prop_map(Some)];
    (prop::sample::select(Setting::suites()), any::<bool>(), limit, fragment).prop_map(
        |(suite, engine_is_server, limit, fragment)| {
            // TLS 1.2 ends at its limit, which is another test's subject.
            let limit = limit.filter(|_| suite.version() == Version::Tls13);
            Setting { suite, engine_is_server, limit, fragment }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_side_hears_what_the_other_says(
        setting in setting(),
        acts in acts(),
        pieces in prop::collection::vec(prop_oneof![1 => 1..8_usize, 2 => 1..3_000_usize, 1 => 1..70_000_usize], 1..20),
        budgets in prop::collection::vec(1..6_usize, 1..8),
    ) {
        let (mut engine, mut peer) = setting.connect();
        let (mut pieces, mut budgets) = (pieces.into_iter().cycle(), budgets.into_iter().cycle());
        let (mut by_engine, mut by_peer) = (Vec::new(), Vec::new());
        for (act, byte) in acts.into_iter().zip(1_u8..) {
            let sealed = match act {
                Act::EngineSays(len) => {
                    let plaintext = vec![byte; len];
                    peer.take(&engine.seal(&plaintext).unwrap()).unwrap();
                    by_engine.extend(plaintext);
                    continue;
                }
                Act::PeerSays(len) => {
                    let plaintext = vec![byte; len];
                    let sealed = peer.seal(&plaintext);
                    by_peer.extend(plaintext);
                    sealed
                }
                Act::PeerChangesKeys => {
                    // TLS 1.2 refuses to.
                    let _ = peer.connection.refresh_traffic_keys();
                    peer.output()
                }
            };
            let mut rest = &sealed[..];
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rest.len().min(pieces.next().unwrap()));
                let status = engine.open_some(piece, budgets.next().unwrap()).status;
                prop_assert!(matches!(status, OpenStatus::Drained | OpenStatus::Budget), "{status:?}");
                rest = after;
            }
            while engine.open_some(&[], 4).status == OpenStatus::Budget {}
        }
        prop_assert!(engine.received == by_peer);
        prop_assert!(peer.received == by_engine);
        prop_assert_eq!((engine.engine.carried_bytes(), engine.pool.lent_bytes()), (0, 0));
    }

    /// Whatever a peer seals, nothing panics; what the engine refuses it tells about, and it stays with that.
    #[test]
    fn whatever_a_peer_seals_goes_on_or_ends_with_a_reason(to_server: bool, contents in contents(), closed: bool) {
        let (mut pen, mut engine) = if to_server {
            let (forger, server) = Forger::connect(&World::new(KeyKind::Ecdsa));
            (forger.into_pen(), server)
        } else {
            forged_server()
        };
        if closed {
            engine.engine.close_notify();
            let _ = engine.engine.take_replies();
        }
        for (kind, content) in contents {
            let status = engine.open(&pen.seal_padded(kind, &content, 3)).status;
            if let OpenStatus::Failed(failure) = status {
                let is_alert = matches!(failure, Failure::AlertReceived(_));
                prop_assert!(is_alert || engine.engine.has_replies() != closed, "{failure:?}");
                prop_assert_eq!(engine.open(b"more").status, status);
                break;
            }
            prop_assert!(matches!(status, OpenStatus::Drained | OpenStatus::Closed));
            prop_assert!(engine.engine.carried_bytes() < 50_000);
        }
        prop_assert!(!closed || !engine.engine.has_replies());
        engine.engine.release(&mut engine.pool);
        prop_assert_eq!(engine.pool.lent_bytes(), 0);
    }

    /// Padding of any length is nobody's plaintext (RFC 8446, section 5.4).
    #[test]
    fn padded_records_open_to_what_was_said(
        contents in prop::collection::vec((0..16_385_usize, prop_oneof![0..3_usize, 0..16_385_usize]), 1..12),
    ) {
        let (mut forger, mut server) = Forger::connect(&World::new(KeyKind::Ecdsa));
        let mut said = Vec::new();
        for ((len, padding), byte) in contents.into_iter().zip(1_u8..) {
            let content = vec![byte; len];
            let record = forger.seal_padded(APPLICATION_DATA, &content, padding);
            prop_assert_eq!(server.open(&record).status, OpenStatus::Drained);
            said.extend(content);
        }
        prop_assert!(server.received == said);
    }
}

#[test]
fn all_suites_seal_records_of_the_lengths_that_the_standards_give_them() {
    // Header 5 and tag 16; the content type of TLS 1.3; the nonce that TLS 1.2 writes out with AES-GCM.
    let expected = [
        ("TLS_AES_128_GCM_SHA256", 22),
        ("TLS_AES_256_GCM_SHA384", 22),
        ("TLS_CHACHA20_POLY1305_SHA256", 22),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", 21),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", 29),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", 29),
    ];
    let overheads = Setting::suites().into_iter().map(|suite| {
        let (mut engine, _) = Setting { suite, engine_is_server: true, limit: None, fragment: None }.connect();
        let sealed = engine.seal(&[7; 20_000]).unwrap();
        assert_eq!(records(&sealed).count(), 2);
        (suite.name(), (sealed.len() - 20_000) / 2)
    });
    assert_eq!(overheads.collect::<Vec<_>>(), expected);
}

#[test]
fn a_key_that_seals_a_single_record_is_changed_before_each_record_but_the_first() {
    for suite in Setting::suites().into_iter().filter(|suite| suite.version() == Version::Tls13) {
        let (mut engine, mut peer) =
            Setting { suite, engine_is_server: true, limit: Some(1), fragment: None }.connect();
        let sealed = engine.seal(&[7; 5 * 16_384]).unwrap();
        // A change of keys: header, 5 bytes, content type, tag.
        let changes = records(&sealed).filter(|record| record.len() == 27).count();
        assert_eq!((records(&sealed).count(), changes), (9, 4));
        peer.take(&sealed).unwrap();
        assert_eq!(peer.received, [7; 5 * 16_384]);
    }
}

#[test]
fn a_ticket_is_taken_from_a_server_in_whatever_records_it_comes_and_refused_when_it_is_none() {
    // RFC 8446, section 4.6.1: lifetime, age, nonce, ticket, extensions.
    let ticket = [&[4, 0, 0, 19][..], &[0, 0, 1, 0], &[9; 4], &[1, 7], &[0, 5], b"state", &[0, 0]].concat();
    assert_eq!(ticket.len(), 4 + 19);
    for cut in 1..ticket.len() {
        let (mut pen, mut engine) = forged_server();
        for piece in [&ticket[..cut], &ticket[cut..]] {
            let record = pen.seal_padded(HANDSHAKE, piece, 0);
            assert_eq!(engine.open(&record).status, OpenStatus::Drained, "cut at {cut}");
        }
        assert_eq!(engine.engine.carried_bytes(), 0);
    }
    for (wrong, failure) in [
        (&ticket[..22], None),
        (&[&[4, 0, 0, 18], &ticket[4..22]].concat()[..], Some(Failure::Malformed)),
        // Longer than 48 KiB.
        (&[4, 0, 0xc0, 1], Some(Failure::Malformed)),
        (&[13, 0, 0, 0], Some(Failure::PeerMisbehaved)),
    ] {
        let (mut pen, mut engine) = forged_server();
        let status = engine.open(&pen.seal_padded(HANDSHAKE, wrong, 0)).status;
        assert_eq!(status, failure.map_or(OpenStatus::Drained, OpenStatus::Failed), "{wrong:?}");
    }
}
