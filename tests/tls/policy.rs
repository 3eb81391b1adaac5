//! What a listener agrees to, and what it refuses.

use ringwall::tls::{Acceptor, CipherSuite, Failure, Group, OpenStatus, Options, Policy};
use rustls::crypto::aws_lc_rs::{self, cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, Error, SupportedCipherSuite};

use crate::support::{KeyKind, Peer, Server, World, shake_hands};

fn suite(name: &str) -> CipherSuite {
    CipherSuite::all().find(|suite| suite.name() == name).unwrap()
}

fn group(name: &str) -> Group {
    Group::all().find(|group| group.name() == name).unwrap()
}

fn acceptor(world: &World, policy: Policy) -> Acceptor {
    world.acceptor(&Options { policy, ..Options::default() })
}

fn provider(suites: &[SupportedCipherSuite], groups: &[&'static dyn SupportedKxGroup]) -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    if !suites.is_empty() {
        provider.cipher_suites = suites.to_vec();
    }
    if !groups.is_empty() {
        provider.kx_groups = groups.to_vec();
    }
    provider
}

/// The failure of a client's first flight and the alert that the client finds.
fn refused(mut client: Peer, acceptor: &Acceptor) -> (Failure, AlertDescription) {
    let mut server = Server::new(acceptor.engine());
    let OpenStatus::Failed(failure) = server.open(&client.output()).status else { panic!("accepted") };
    let Err(Error::AlertReceived(alert)) = client.take(&server.engine.take_replies()) else { panic!("no alert") };
    (failure, alert)
}

#[test]
fn the_listener_s_order_of_suites_rules_and_no_other_is_accepted() {
    let world = World::new(KeyKind::Ecdsa);
    let cipher_suites = vec![
        suite("TLS_CHACHA20_POLY1305_SHA256"),
        suite("TLS_AES_256_GCM_SHA384"),
        suite("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    ];
    let acceptor = acceptor(&world, Policy { cipher_suites, ..Policy::default() });
    for (version, cipher) in
        [(&TLS13, "TLS_CHACHA20_POLY1305_SHA256"), (&TLS12, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384")]
    {
        let (mut client, mut server) = (world.client(&[version]), Server::new(acceptor.engine()));
        shake_hands(&mut client, &mut server);
        assert_eq!(server.engine.summary().unwrap().cipher, cipher);
    }
    for (version, offered) in [
        (&TLS13, cipher_suite::TLS13_AES_128_GCM_SHA256),
        (&TLS12, cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ] {
        let client = Peer::client(world.client_config(provider(&[offered], &[]), &[version]), "redis.test");
        assert_eq!(refused(client, &acceptor), (Failure::NoSharedCipher, AlertDescription::HandshakeFailure));
    }
}

#[test]
fn each_group_is_used_where_the_listener_has_it_and_refused_where_not() {
    let world = World::new(KeyKind::Ecdsa);
    for (offered, name) in [
        (kx_group::X25519MLKEM768, "X25519MLKEM768"),
        (kx_group::SECP256R1MLKEM768, "SecP256r1MLKEM768"),
        (kx_group::X25519, "x25519"),
        (kx_group::SECP256R1, "secp256r1"),
        (kx_group::SECP384R1, "secp384r1"),
        (kx_group::MLKEM768, "MLKEM768"),
        (kx_group::MLKEM1024, "MLKEM1024"),
    ] {
        let config = world.client_config(provider(&[], &[offered]), &[&TLS13]);
        let only = acceptor(&world, Policy { groups: vec![group(name)], ..Policy::default() });
        let (mut client, mut server) = (Peer::client(config.clone(), "redis.test"), Server::new(only.engine()));
        shake_hands(&mut client, &mut server);
        assert_eq!(server.engine.summary().unwrap().group, Some(name));

        let others = Group::all().filter(|other| *other != group(name)).collect();
        let others = acceptor(&world, Policy { groups: others, ..Policy::default() });
        let refused = refused(Peer::client(config, "redis.test"), &others);
        assert_eq!(refused, (Failure::NoSharedGroup, AlertDescription::HandshakeFailure), "{name}");
    }
}

#[test]
fn a_listener_with_post_quantum_groups_only_refuses_classical_clients_of_each_version() {
    let world = World::new(KeyKind::Ecdsa);
    let groups = Group::defaults().filter(|group| group.is_post_quantum()).collect();
    let acceptor = acceptor(&world, Policy { groups, ..Policy::default() });
    let (mut client, mut server) = (world.client(&[&TLS13]), Server::new(acceptor.engine()));
    shake_hands(&mut client, &mut server);
    assert_eq!(server.engine.summary().unwrap().group, Some("X25519MLKEM768"));
    let classical = [kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1];
    for version in [&TLS13, &TLS12] {
        let client = Peer::client(world.client_config(provider(&[], &classical), &[version]), "redis.test");
        assert_eq!(refused(client, &acceptor), (Failure::NoSharedGroup, AlertDescription::HandshakeFailure));
    }
}

#[test]
fn an_application_protocol_is_agreed_on_where_both_have_one() {
    let world = World::new(KeyKind::Ecdsa);
    let alpn = vec!["redis".into(), "resp".into()];
    let policy = Policy { alpn, ..Policy::default() };
    let client = |protocols: &[&str]| {
        let mut config = (*world.client_config(aws_lc_rs::default_provider(), &[&TLS13])).clone();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Peer::client(config.into(), "redis.test")
    };
    for (policy, offered, agreed) in [
        (policy.clone(), &["resp", "redis"][..], Some("redis")),
        (policy.clone(), &["http/1.1", "resp"], Some("resp")),
        (policy.clone(), &[], None),
        (Policy::default(), &["http/1.1"], None),
    ] {
        let mut server = Server::new(acceptor(&world, policy).engine());
        shake_hands(&mut client(offered), &mut server);
        assert_eq!(server.engine.summary().unwrap().alpn.as_deref(), agreed, "{offered:?}");
    }
    let refused = refused(client(&["http/1.1"]), &acceptor(&world, policy));
    assert_eq!(refused, (Failure::NoSharedProtocol, AlertDescription::NoApplicationProtocol));
}
