//! Server names: which certificate a client is shown, and who is refused.

use std::sync::Arc;

use rcgen::KeyPair;
use ringwall::tls::{Acceptor, Credentials, Failure, Identity, OpenStatus, Options, Policy};
use rustls::crypto::aws_lc_rs::{self, cipher_suite};
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, ClientConfig, Error, RootCertStore, SignatureScheme};

use crate::support::{Authority, Folder, KeyKind, Peer, Server, roots, server_params};

/// An authority and what it has certified.
struct Shop {
    folder: Folder,
    authority: Authority,
    identities: Vec<Identity>,
    /// What a client finds as the server's certificate.
    certificates: Vec<Vec<u8>>,
}

impl Shop {
    fn new() -> Self {
        let authority = Authority::new("Test Authority");
        Self { folder: Folder::new(), authority, identities: Vec::new(), certificates: Vec::new() }
    }

    fn add(mut self, names: &[&str], kind: KeyKind) -> Self {
        let key: KeyPair = kind.generate();
        let made = self.authority.certify(&server_params(names), &key);
        let certificate = self.folder.write(&format!("{}.crt", self.identities.len()), made.pem());
        let private_key = self.folder.write(&format!("{}.key", self.identities.len()), key.serialize_pem());
        self.identities.push(Identity::load(&certificate, &private_key).unwrap());
        self.certificates.push(made.der().to_vec());
        self
    }

    fn acceptor(&mut self, strict_sni: bool) -> Acceptor {
        let credentials =
            Credentials { identities: std::mem::take(&mut self.identities), clients: None, ticket_secret: None };
        let policy = Policy { strict_sni, ..Policy::default() };
        Acceptor::new(&credentials, &Options { policy, ..Options::default() }).unwrap()
    }

    fn roots(&self) -> Arc<RootCertStore> {
        roots(self.authority.certificate.der())
    }

    /// Which of the certificates a client is shown that asks for `name`, and trusts it for whatever name it has.
    fn shown(&self, acceptor: &Acceptor, config: ClientConfig, name: &'static str) -> usize {
        let mut client = Peer::client(config.into(), name);
        let mut server = Server::new(acceptor.engine());
        assert_eq!(server.open(&client.output()).status, OpenStatus::Drained, "{name}");
        // A client that finds a wrong name still has the certificate.
        let taken = client.take(&server.engine.take_replies());
        let shown = client.connection.peer_certificates().unwrap_or_else(|| panic!("{name}: {taken:?}"))[0].to_vec();
        self.certificates.iter().position(|certificate| *certificate == shown).unwrap()
    }

    fn client(&self) -> ClientConfig {
        ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_protocol_versions(&[&TLS13, &TLS12])
            .unwrap()
            .with_root_certificates(self.roots())
            .with_no_client_auth()
    }
}

#[test]
fn a_name_is_found_as_it_is_then_by_wildcard_then_the_first_certificate_stands_in() {
    let mut shop = Shop::new()
        .add(&["first.test"], KeyKind::Ecdsa)
        .add(&["*.cache.test"], KeyKind::Ecdsa)
        .add(&["a.cache.test", "B.Test"], KeyKind::Ecdsa);
    let acceptor = shop.acceptor(false);
    let trust_all = |shop: &Shop| {
        let mut config = shop.client();
        config.dangerous().set_certificate_verifier(Arc::new(AnyName));
        config
    };
    for (name, expected) in [
        ("first.test", 0),
        ("a.cache.test", 2),
        ("b.cache.test", 1),
        ("b.test", 2),
        // A wildcard stands for one label.
        ("x.b.cache.test", 0),
        ("cache.test", 0),
        ("other.test", 0),
        ("127.0.0.1", 0),
    ] {
        assert_eq!(shop.shown(&acceptor, trust_all(&shop), name), expected, "{name}");
    }
}

#[test]
fn of_two_certificates_for_a_name_a_client_is_shown_the_one_that_it_can_verify() {
    let mut shop = Shop::new()
        .add(&["redis.test"], KeyKind::Rsa)
        .add(&["redis.test", "other.sub.test"], KeyKind::Ecdsa)
        .add(&["*.sub.test"], KeyKind::Rsa);
    let acceptor = shop.acceptor(false);
    assert_eq!(shop.shown(&acceptor, shop.client(), "redis.test"), 1);
    // Nobody's name: the first stands in, and its kin of the other kind.
    let mut any_name = shop.client();
    any_name.dangerous().set_certificate_verifier(Arc::new(AnyName));
    assert_eq!(shop.shown(&acceptor, any_name, "127.0.0.1"), 1);

    let with_suites = |suites: &[rustls::SupportedCipherSuite]| {
        let mut provider = aws_lc_rs::default_provider();
        provider.cipher_suites = suites.to_vec();
        ClientConfig::builder_with_provider(provider.into())
            .with_protocol_versions(&[&TLS12])
            .unwrap()
            .with_root_certificates(shop.roots())
            .with_no_client_auth()
    };
    let rsa = with_suites(&[cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]);
    assert_eq!(shop.shown(&acceptor, rsa.clone(), "redis.test"), 0);
    // The exact name has only what this client cannot verify, the wildcard has more.
    assert_eq!(shop.shown(&acceptor, rsa, "other.sub.test"), 2);
    let ecdsa = with_suites(&[cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]);
    assert_eq!(shop.shown(&acceptor, ecdsa, "redis.test"), 1);
}

#[test]
fn a_strict_listener_refuses_names_it_has_not_and_clients_without_one() {
    let mut shop = Shop::new().add(&["redis.test", "127.0.0.1"], KeyKind::Ecdsa);
    let acceptor = shop.acceptor(true);
    assert_eq!(shop.shown(&acceptor, shop.client(), "redis.test"), 0);
    for version in [&TLS13, &TLS12] {
        for (name, failure, alert) in [
            ("other.test", Failure::UnknownServerName, AlertDescription::UnrecognisedName),
            ("127.0.0.1", Failure::NoServerName, AlertDescription::MissingExtension),
        ] {
            let config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
                .with_protocol_versions(&[version])
                .unwrap()
                .with_root_certificates(shop.roots())
                .with_no_client_auth();
            let mut client = Peer::client(config.into(), name);
            let mut server = Server::new(acceptor.engine());
            assert_eq!(server.open(&client.output()).status, OpenStatus::Failed(failure));
            assert_eq!(client.take(&server.engine.take_replies()), Err(Error::AlertReceived(alert)));
        }
    }
    assert_eq!(Failure::UnknownServerName.label(), "unknown_server_name");
    assert_eq!(Failure::NoServerName.label(), "no_server_name");
}

#[test]
fn certificates_that_no_client_is_shown_are_warned_about() {
    let shop = Shop::new()
        .add(&["redis.test", "cache.test"], KeyKind::Ecdsa)
        .add(&["redis.test"], KeyKind::Rsa)
        .add(&["a.test", "cache.test"], KeyKind::Ecdsa);
    let at = shop.folder.path("").display().to_string();
    let credentials = Credentials { identities: shop.identities, clients: None, ticket_secret: None };
    let texts: Vec<_> = credentials.warnings(1_800_000_000).iter().map(ToString::to_string).collect();
    let shadowed: Vec<_> = texts.iter().filter(|text| text.contains("are shown")).collect();
    assert_eq!(
        shadowed,
        [&format!(
            "certificate {at}2.crt: clients that ask for cache.test are shown {at}0.crt, which comes first and has the \
             same kind of key"
        )]
    );
}

/// Takes every certificate, for looking at it.
#[derive(Debug)]
struct AnyName;

impl rustls::client::danger::ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
