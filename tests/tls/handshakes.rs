//! Handshakes: what is agreed on, and for whom.

use ringwall::tls::{Acceptor, OpenStatus, Options, Policy, Summary, Version};
use rustls::crypto::aws_lc_rs::{self, cipher_suite, kx_group};
use rustls::version::{TLS12, TLS13};

use crate::support::{KeyKind, Peer, Server, World, shake_hands};

#[test]
fn each_version_and_kind_of_key_gets_the_preferred_suite_and_group() {
    let table = [
        (KeyKind::Ecdsa, &TLS13, "TLSv1.3", "TLS_AES_128_GCM_SHA256", "X25519MLKEM768"),
        (KeyKind::Rsa, &TLS13, "TLSv1.3", "TLS_AES_128_GCM_SHA256", "X25519MLKEM768"),
        (KeyKind::Ed25519, &TLS13, "TLSv1.3", "TLS_AES_128_GCM_SHA256", "X25519MLKEM768"),
        (KeyKind::Ecdsa, &TLS12, "TLSv1.2", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "x25519"),
        (KeyKind::Rsa, &TLS12, "TLSv1.2", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "x25519"),
        (KeyKind::Ed25519, &TLS12, "TLSv1.2", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "x25519"),
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
                alpn: None,
                resumed: false
            })
        );
    }
}

#[test]
fn each_suite_is_used_when_the_client_has_no_other() {
    let table = [
        (KeyKind::Ecdsa, cipher_suite::TLS13_AES_128_GCM_SHA256, "TLS_AES_128_GCM_SHA256"),
        (KeyKind::Ecdsa, cipher_suite::TLS13_AES_256_GCM_SHA384, "TLS_AES_256_GCM_SHA384"),
        (KeyKind::Ecdsa, cipher_suite::TLS13_CHACHA20_POLY1305_SHA256, "TLS_CHACHA20_POLY1305_SHA256"),
        (
            KeyKind::Ecdsa,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        ),
        (
            KeyKind::Ecdsa,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        ),
        (KeyKind::Rsa, cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        (KeyKind::Rsa, cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    ];
    for (kind, suite, name) in table {
        let world = World::new(kind);
        let mut provider = aws_lc_rs::default_provider();
        provider.cipher_suites = vec![suite];
        let mut client = Peer::client(world.client_config(provider, &[suite.version()]), "redis.test");
        let mut server = world.server();
        shake_hands(&mut client, &mut server);
        assert_eq!(server.engine.summary().unwrap().cipher, name);
        let sealed = server.seal(&[b'x'; 20_000]).unwrap();
        client.take(&sealed).unwrap();
        assert_eq!(client.received.len(), 20_000);
    }
}

#[test]
fn a_client_that_guessed_no_group_of_ours_is_asked_to_retry() {
    let world = World::new(KeyKind::Ecdsa);
    let mut provider = aws_lc_rs::default_provider();
    // The client sends a share for its first group only, which the listener does not have.
    provider.kx_groups = vec![kx_group::MLKEM768, kx_group::SECP384R1];
    let mut client = Peer::client(world.client_config(provider, &[&TLS13]), "redis.test");
    let mut server = world.server();
    assert_eq!(server.open(&client.output()).status, OpenStatus::Drained);
    assert!(server.engine.is_handshaking());
    client.take(&server.engine.take_replies()).unwrap();
    shake_hands(&mut client, &mut server);
    assert_eq!(server.engine.summary().unwrap().group, Some("secp384r1"));
}

#[test]
fn a_listener_may_refuse_a_version() {
    let world = World::new(KeyKind::Ecdsa);
    for (only, wire) in [(Version::Tls13, &TLS13), (Version::Tls12, &TLS12)] {
        let policy = Policy { version_min: only, version_max: only, ..Policy::default() };
        let options = Options { policy, ..Options::default() };
        let mut server = Server::new(world.acceptor(&options).engine());
        let mut client = world.client(&[&TLS12, &TLS13]);
        shake_hands(&mut client, &mut server);
        assert_eq!(client.connection.protocol_version(), Some(wire.version));
    }
    let policy = Policy { version_min: Version::Tls13, version_max: Version::Tls12, ..Policy::default() };
    let options = Options { policy, ..Options::default() };
    let error = Acceptor::new(&world.credentials, &options).unwrap_err();
    assert_eq!(error.to_string(), "no TLS version is left: the oldest accepted is 1.3, the newest offered 1.2");
}

#[test]
fn handshakes_that_overlap_keep_their_server_names_apart() {
    let world = World::new(KeyKind::Ecdsa);
    let acceptor = world.acceptor(&Options::default());
    let config = world.client_config(aws_lc_rs::default_provider(), &[&TLS13]);
    let mut clients = ["redis.test", "cache.test"].map(|name| Peer::client(config.clone(), name));
    let mut servers = [Server::new(acceptor.engine()), Server::new(acceptor.engine())];
    for (client, server) in clients.iter_mut().zip(&mut servers) {
        server.open(&client.output());
    }
    assert_eq!(servers[0].engine.server_name(), Some("redis.test"));
    for (client, server) in clients.iter_mut().zip(&mut servers).rev() {
        client.take(&server.engine.take_replies()).unwrap();
        shake_hands(client, server);
    }
    let names = servers.map(|server| server.engine.summary().unwrap().server_name);
    assert_eq!(names, [Some("redis.test".into()), Some("cache.test".into())]);
}

#[test]
fn a_second_hello_leaves_no_server_name_to_the_next_connection() {
    let world = World::new(KeyKind::Ecdsa);
    let acceptor = world.acceptor(&Options::default());
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = vec![kx_group::MLKEM768, kx_group::SECP384R1];
    let mut first = Peer::client(world.client_config(provider, &[&TLS13]), "redis.test");
    shake_hands(&mut first, &mut Server::new(acceptor.engine()));
    let mut second = Server::new(acceptor.engine());
    second.open(&world.client(&[&TLS13]).output()[..100]);
    assert_eq!(second.engine.server_name(), None);
}

#[test]
fn a_client_that_asks_for_an_address_has_no_server_name() {
    let world = World::with_names(KeyKind::Ecdsa, &["127.0.0.1"]);
    let config = world.client_config(aws_lc_rs::default_provider(), &[&TLS13]);
    let (mut client, mut server) = (Peer::client(config, "127.0.0.1"), world.server());
    shake_hands(&mut client, &mut server);
    assert_eq!(server.engine.summary().unwrap().server_name, None);
}
