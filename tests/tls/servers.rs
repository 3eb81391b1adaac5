//! The client's role: an engine that has dialled a rustls server.

use std::cell::Cell;
use std::sync::Arc;

use rcgen::{ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};
use ringwall::tls::{
    BackendCredentials, Connector, Failure, Identity, OpenStatus, Options, Policy, Role, ServerAuth, ServerName,
    Servers, Summary, Version,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, ServerConfig, ServerConnection, SupportedProtocolVersion};

// The engine under test with a pool, whichever role it plays.
use crate::support::{Authority, Folder, Peer, Server as Engine, records, roots, server_params};

/// A server's certificate, an authority, and a folder for their files.
struct Pki {
    folder: Folder,
    authority: Authority,
}

impl Pki {
    fn new() -> Self {
        let (folder, authority) = (Folder::new(), Authority::new("Servers"));
        folder.write("ca.pem", authority.certificate.pem());
        Self { folder, authority }
    }

    fn auth(&self) -> ServerAuth {
        ServerAuth::Full(self.folder.path("ca.pem"))
    }

    fn connector(&self, auth: &ServerAuth, options: &Options, name: Option<&str>) -> Connector {
        let credentials = BackendCredentials { servers: Servers::load(auth).unwrap(), identity: None };
        Connector::new(&credentials, options, name.map(|name| ServerName::parse(name).unwrap())).unwrap()
    }

    /// The usual one: the authority must vouch for `redis.test`.
    fn usual(&self) -> Connector {
        self.connector(&self.auth(), &Options::default(), Some("redis.test"))
    }

    /// A server with a certificate of the authority for these names.
    fn server(&self, names: &[&str]) -> Shown {
        let key = KeyPair::generate().unwrap();
        Shown { chain: vec![self.authority.certify(&server_params(names), &key)], key }
    }
}

/// What a server shows.
struct Shown {
    chain: Vec<rcgen::Certificate>,
    key: KeyPair,
}

impl Shown {
    fn config(&self, versions: &[&'static SupportedProtocolVersion]) -> ServerConfig {
        self.config_that_asks(versions, None)
    }

    /// As [`Shown::config`], asking clients for certificates of an authority.
    fn config_that_asks(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        clients: Option<&Authority>,
    ) -> ServerConfig {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = match clients {
            None => Arc::new(NoClientAuth),
            Some(authority) => {
                let roots = roots(authority.certificate.der());
                WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build().unwrap()
            }
        };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let chain = self.chain.iter().map(|certificate| certificate.der().clone()).collect();
        let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        builder.with_client_cert_verifier(verifier).with_single_cert(chain, key).unwrap()
    }
}

/// A rustls server.
fn rustls_server(config: &Arc<ServerConfig>) -> Peer {
    Peer::new(ServerConnection::new(Arc::clone(config)).unwrap())
}

/// Carries bytes both ways until both are silent, or the engine fails.
fn shake_hands(engine: &mut Engine, remote: &mut Peer) -> Result<(), Failure> {
    loop {
        let sent = engine.engine.take_replies();
        // What it does not like, the engine hears next.
        let _ = remote.take(&sent);
        let answered = remote.output();
        if sent.is_empty() && answered.is_empty() {
            return Ok(());
        }
        if let OpenStatus::Failed(failure) = engine.open(&answered).status {
            let _ = remote.take(&engine.engine.take_replies());
            return Err(failure);
        }
    }
}

/// One connection: what the engine made of it, and the server's error.
fn connect(connector: &Connector, config: &Arc<ServerConfig>) -> (Result<Summary, Failure>, Option<rustls::Error>) {
    let (mut engine, mut remote) = (Engine::new(connector.engine()), rustls_server(config));
    let outcome = shake_hands(&mut engine, &mut remote);
    let summary = outcome.map(|()| {
        // Traffic flows whichever way it came about.
        if remote.error.is_none() {
            remote.take(&engine.seal(b"PING\r\n").unwrap()).unwrap();
            assert_eq!(remote.received, b"PING\r\n");
            assert_eq!(engine.open(&remote.seal(b"+PONG\r\n")).status, OpenStatus::Drained);
            assert_eq!(engine.received, b"+PONG\r\n");
        }
        engine.engine.summary().unwrap()
    });
    engine.engine.release(&mut engine.pool);
    assert_eq!(engine.pool.lent_bytes(), 0);
    (summary, remote.error)
}

#[test]
fn bytes_go_both_ways_with_a_server_of_either_version() {
    let pki = Pki::new();
    for (version, name) in [(&TLS13, "TLSv1.3"), (&TLS12, "TLSv1.2")] {
        let config = Arc::new(pki.server(&["redis.test"]).config(&[version]));
        let (mut engine, mut remote) = (Engine::new(pki.usual().engine()), rustls_server(&config));
        assert_eq!(engine.engine.role(), Role::Client);
        assert!(engine.engine.has_replies(), "the hello is ready at once");
        assert_eq!(shake_hands(&mut engine, &mut remote), Ok(()));
        let summary = engine.engine.summary().unwrap();
        assert_eq!((summary.version, summary.resumed, summary.server_name), (name, false, None));
        // It asked for the name, and the server's certificate is not taken for a client's.
        assert_eq!(remote.server_name(), Some("redis.test"));
        assert_eq!(engine.engine.client_identity(), None);
        let request = vec![b'q'; 100_000];
        remote.take(&engine.seal(&request).unwrap()).unwrap();
        assert_eq!(remote.received, request);
        let reply: Vec<u8> = (0..100_000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let sealed = remote.seal(&reply);
        assert_eq!(engine.open(&sealed).status, OpenStatus::Drained);
        assert_eq!(engine.received, reply);
        assert_eq!((engine.engine.carried_bytes(), engine.pool.lent_bytes()), (0, 0));
    }
}

#[test]
fn a_handshake_and_a_reply_in_pieces_of_any_size_give_the_same_plaintext() {
    let pki = Pki::new();
    for version in [&TLS13, &TLS12] {
        let config = Arc::new(pki.server(&["redis.test"]).config(&[version]));
        for size in [1, 2, 3, 5, 7, 64, 1000] {
            let (mut engine, mut remote) = (Engine::new(pki.usual().engine()), rustls_server(&config));
            let carry = |engine: &mut Engine, bytes: &[u8]| {
                for piece in bytes.chunks(size) {
                    assert_eq!(engine.open(piece).status, OpenStatus::Drained, "pieces of {size}");
                }
            };
            while engine.engine.has_replies() {
                remote.take(&engine.engine.take_replies()).unwrap();
                carry(&mut engine, &remote.output());
            }
            let reply = vec![b'r'; 40_000];
            carry(&mut engine, &remote.seal(&reply));
            assert_eq!(engine.received, reply);
            assert_eq!(engine.pool.lent_bytes(), 0);
        }
    }
}

#[test]
fn a_budget_of_records_holds_for_a_server_s_as_well() {
    let pki = Pki::new();
    let config = Arc::new(pki.server(&["redis.test"]).config(&[&TLS13]));
    let (mut engine, mut remote) = (Engine::new(pki.usual().engine()), rustls_server(&config));
    shake_hands(&mut engine, &mut remote).unwrap();
    let sealed = [remote.seal(b"one"), remote.seal(b"two"), remote.seal(b"three")].concat();
    assert_eq!(engine.open_some(&sealed, 2).status, OpenStatus::Budget);
    assert_eq!(engine.received, b"onetwo");
    assert_eq!(engine.open_some(&[], 2).status, OpenStatus::Drained);
    assert_eq!(engine.received, b"onetwothree");
}

#[test]
fn a_server_is_refused_for_what_is_wrong_with_its_certificate_and_told() {
    let pki = Pki::new();
    let key = || KeyPair::generate().unwrap();
    let made = |change: fn(&mut rcgen::CertificateParams)| {
        let (mut params, key) = (server_params(&["redis.test"]), key());
        change(&mut params);
        Shown { chain: vec![pki.authority.certify(&params, &key)], key }
    };
    let expired = made(|params| params.not_after = date_time_ymd(2020, 1, 1));
    let early = made(|params| params.not_before = date_time_ymd(2100, 1, 1));
    let for_clients = made(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]);
    let of_authority = made(|params| params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained));
    let (stranger_key, twin_key) = (key(), key());
    let stranger = Shown {
        chain: vec![Authority::new("Strangers").certify(&server_params(&["redis.test"]), &stranger_key)],
        key: stranger_key,
    };
    let twin = Shown {
        chain: vec![Authority::new("Servers").certify(&server_params(&["redis.test"]), &twin_key)],
        key: twin_key,
    };
    let cases = [
        (&expired, Failure::ServerCertificateExpired, AlertDescription::CertificateExpired),
        (&early, Failure::ServerCertificateNotYetValid, AlertDescription::CertificateExpired),
        (&for_clients, Failure::ServerCertificateBad, AlertDescription::UnsupportedCertificate),
        (&of_authority, Failure::ServerCertificateOfAuthority, AlertDescription::AccessDenied),
        (&stranger, Failure::ServerCertificateUntrusted, AlertDescription::UnknownCA),
        (&twin, Failure::ServerSignatureBad, AlertDescription::DecryptError),
        (&pki.server(&["other.test"]), Failure::ServerNameMismatch, AlertDescription::BadCertificate),
    ];
    for version in [&TLS13, &TLS12] {
        for (shown, failure, alert) in cases {
            let (outcome, error) = connect(&pki.usual(), &Arc::new(shown.config(&[version])));
            assert_eq!(outcome, Err(failure));
            let told = matches!(error, Some(rustls::Error::AlertReceived(told)) if told == alert);
            assert!(told, "{failure:?}: {error:?}");
        }
        // Whatever it is, nobody asks.
        let careless = pki.connector(&ServerAuth::None, &Options::default(), Some("redis.test"));
        for (shown, ..) in cases {
            assert!(connect(&careless, &Arc::new(shown.config(&[version]))).0.is_ok());
        }
    }
}

#[test]
fn without_verifying_names_any_name_of_the_authority_will_do_and_nobody_else_s() {
    let pki = Pki::new();
    let auth = ServerAuth::Chain(pki.folder.path("ca.pem"));
    for name in [Some("redis.test"), None] {
        let connector = pki.connector(&auth, &Options::default(), name);
        let config = Arc::new(pki.server(&["other.test"]).config(&[&TLS13]));
        assert!(connect(&connector, &config).0.is_ok());
        let strangers = Pki::new().server(&["redis.test"]).config(&[&TLS13]);
        assert_eq!(connect(&connector, &Arc::new(strangers)).0, Err(Failure::ServerSignatureBad));
    }
}

#[test]
fn a_server_is_asked_for_by_a_dns_name_and_not_by_an_address_or_no_name() {
    let pki = Pki::new();
    let config = Arc::new(pki.server(&["redis.test", "127.0.0.1"]).config(&[&TLS13]));
    for (auth, name, asked) in [
        (pki.auth(), Some("redis.test"), Some("redis.test")),
        (pki.auth(), Some("127.0.0.1"), None),
        (ServerAuth::Chain(pki.folder.path("ca.pem")), None, None),
    ] {
        let connector = pki.connector(&auth, &Options::default(), name);
        let (mut engine, mut remote) = (Engine::new(connector.engine()), rustls_server(&config));
        assert_eq!(shake_hands(&mut engine, &mut remote), Ok(()), "{name:?}");
        assert_eq!(remote.server_name(), asked);
    }
    // The address is verified all the same.
    let connector = pki.connector(&pki.auth(), &Options::default(), Some("127.0.0.2"));
    assert_eq!(connect(&connector, &config).0, Err(Failure::ServerNameMismatch));
}

#[test]
fn a_name_is_a_dns_name_or_an_address() {
    for name in ["redis.test", "a", "127.0.0.1", "::1", "node_1.test"] {
        assert_eq!(ServerName::parse(name).map(|name| name.to_string()).as_deref(), Some(name));
    }
    for name in ["", "two words", "redis.test:6379", "*.test", "[::1]", "-"] {
        assert_eq!(ServerName::parse(name), None, "{name}");
    }
}

#[test]
fn versions_that_do_not_meet_are_named() {
    let pki = Pki::new();
    let only = |version| {
        let policy = Policy { version_min: version, version_max: version, ..Policy::default() };
        pki.connector(&pki.auth(), &Options { policy, ..Options::default() }, Some("redis.test"))
    };
    for (ours, theirs) in [(Version::Tls13, &TLS12), (Version::Tls12, &TLS13)] {
        let config = Arc::new(pki.server(&["redis.test"]).config(&[theirs]));
        assert_eq!(connect(&only(ours), &config).0, Err(Failure::NoSharedVersion), "{ours}");
    }
}

#[test]
fn a_server_that_asks_for_a_certificate_gets_it_and_says_so_when_it_gets_none() {
    let pki = Pki::new();
    let clients = Authority::new("Clients");
    let key = KeyPair::generate().unwrap();
    let certificate = pki.folder.write("proxy.crt", clients.certify(&server_params(&["proxy.test"]), &key).pem());
    let private_key = pki.folder.write("proxy.key", key.serialize_pem());
    let credentials = BackendCredentials {
        servers: Servers::load(&pki.auth()).unwrap(),
        identity: Some(Identity::load(&certificate, &private_key).unwrap()),
    };
    let name = ServerName::parse("redis.test");
    let known = Connector::new(&credentials, &Options::default(), name).unwrap();
    for version in [&TLS13, &TLS12] {
        let config = Arc::new(pki.server(&["redis.test"]).config_that_asks(&[version], Some(&clients)));
        let (mut engine, mut remote) = (Engine::new(known.engine()), rustls_server(&config));
        assert_eq!(shake_hands(&mut engine, &mut remote), Ok(()));
        assert_eq!(remote.connection.peer_certificates().unwrap().len(), 1);

        // In TLS 1.3 the server judges after our handshake is over, and in either version its alert has a name.
        let (mut engine, mut remote) = (Engine::new(pki.usual().engine()), rustls_server(&config));
        let outcome = shake_hands(&mut engine, &mut remote);
        assert_eq!(outcome, Err(Failure::AlertReceived("certificate_required")));
        assert_eq!(remote.error, Some(rustls::Error::NoCertificatesPresented));
        assert_eq!(engine.engine.is_handshaking(), version.version == rustls::ProtocolVersion::TLSv1_2);
    }
}

#[test]
fn a_server_in_plain_text_is_not_well_formed_tls() {
    let mut engine = Engine::new(Pki::new().usual().engine());
    assert_eq!(engine.open(b"-ERR unknown command\r\n").status, OpenStatus::Failed(Failure::Malformed));
}

#[test]
fn the_next_connection_of_a_connector_resumes_and_that_of_another_does_not() {
    let pki = Pki::new();
    for version in [&TLS13, &TLS12] {
        let mut config = pki.server(&["redis.test"]).config(&[version]);
        config.ticketer = aws_lc_rs::Ticketer::new().unwrap();
        let config = Arc::new(config);
        let connector = pki.usual();
        let resumed = |connector| connect(connector, &config).0.unwrap().resumed;
        assert_eq!([(); 4].map(|()| resumed(&connector)), [false, true, true, true]);
        assert!(!resumed(&pki.usual()));
    }
}

#[test]
fn a_burst_of_connections_resumes_with_the_tickets_of_the_one_before_as_far_as_they_go() {
    let pki = Pki::new();
    let mut config = pki.server(&["redis.test"]).config(&[&TLS13]);
    config.ticketer = aws_lc_rs::Ticketer::new().unwrap();
    config.send_tls13_tickets = 2;
    let config = Arc::new(config);
    let connector = pki.usual();
    for _ in 0..80 {
        connect(&connector, &config).0.unwrap();
    }
    // All begin before one has ended: none has a ticket of another.
    let mut burst: Vec<_> = (0..80).map(|_| (Engine::new(connector.engine()), rustls_server(&config))).collect();
    let resumed = burst.iter_mut().filter_map(|(engine, remote)| {
        shake_hands(engine, remote).unwrap();
        engine.engine.summary().filter(|summary| summary.resumed)
    });
    // 64 tickets are kept of one server.
    assert_eq!(resumed.count(), 64);
}

#[test]
fn a_server_that_has_forgotten_its_tickets_is_met_anew() {
    let pki = Pki::new();
    let shown = pki.server(&["redis.test"]);
    let connector = pki.usual();
    for version in [&TLS13, &TLS12] {
        for _ in 0..2 {
            // Each with ticket keys of its own, as after a restart.
            let mut config = shown.config(&[version]);
            config.ticketer = aws_lc_rs::Ticketer::new().unwrap();
            assert!(!connect(&connector, &Arc::new(config)).0.unwrap().resumed);
        }
    }
}

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
}

#[test]
fn certificates_are_judged_by_the_clock_of_the_options() {
    let pki = Pki::new();
    let key = KeyPair::generate().unwrap();
    let mut params = server_params(&["redis.test"]);
    params.not_after = date_time_ymd(2025, 1, 1);
    let shown = Shown { chain: vec![pki.authority.certify(&params, &key)], key };
    let config = Arc::new(shown.config(&[&TLS13]));
    // 2025-01-01T00:00:00Z is 1,735,689,600.
    for (now, good) in [(1_735_689_600, true), (1_735_689_601, false)] {
        NOW.set(now);
        let options = Options { unix_time: || NOW.get(), ..Options::default() };
        let outcome = connect(&pki.connector(&pki.auth(), &options, Some("redis.test")), &config).0;
        assert_eq!(outcome.is_ok(), good, "{outcome:?}");
    }
}

#[test]
fn either_side_ends_in_order_with_close_notify() {
    let pki = Pki::new();
    for version in [&TLS13, &TLS12] {
        let config = Arc::new(pki.server(&["redis.test"]).config(&[version]));
        let (mut engine, mut remote) = (Engine::new(pki.usual().engine()), rustls_server(&config));
        shake_hands(&mut engine, &mut remote).unwrap();
        engine.engine.close_notify();
        let goodbye = engine.engine.take_replies();
        assert_eq!(records(&goodbye).count(), 1);
        remote.take(&goodbye).unwrap();
        assert!(remote.is_closed_by_other());
        let mut last = remote.seal(b"last reply");
        remote.connection.send_close_notify();
        last.extend(remote.output());
        assert_eq!(engine.open(&last).status, OpenStatus::Closed);
        assert_eq!(engine.received, b"last reply");
    }
}

#[test]
fn a_client_that_gives_up_in_its_handshake_just_leaves() {
    let mut engine = Engine::new(Pki::new().usual().engine());
    let _ = engine.engine.take_replies();
    engine.engine.close_notify();
    assert!(!engine.engine.has_replies());
}

#[test]
fn keys_towards_a_server_end_after_their_records_in_tls12_and_change_in_tls13() {
    let pki = Pki::new();
    let options = Options { record_limit: Some(8), ..Options::default() };
    let connector = pki.connector(&pki.auth(), &options, Some("redis.test"));
    for (version, ends) in [(&TLS13, false), (&TLS12, true)] {
        let config = Arc::new(pki.server(&["redis.test"]).config(&[version]));
        let (mut engine, mut remote) = (Engine::new(connector.engine()), rustls_server(&config));
        shake_hands(&mut engine, &mut remote).unwrap();
        let failed = (0..20).find_map(|_| engine.seal(b"x").map(|sealed| remote.take(&sealed).unwrap()).err());
        assert_eq!(failed, ends.then_some(Failure::KeysExhausted));
        remote.take(&engine.engine.take_replies()).unwrap();
        assert_eq!(remote.is_closed_by_other(), ends);
    }
}
