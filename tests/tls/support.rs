//! What the tests of `ringwall::tls` share: certificates made on the spot, rustls as the peer, and the engine under test
//! with a pool of its own.
#![allow(dead_code, clippy::unwrap_used, reason = "each test binary uses a part of it; a test fails by panicking")]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{CertificateParams, Issuer, KeyPair};
use ringwall::pool::{Pool, SendBuf};
use ringwall::tls::{Acceptor, Credentials, Engine, Failure, Identity, OpenStatus, Opened, Options};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, SupportedProtocolVersion};

/// More records than any test sends at once.
pub(crate) const UNLIMITED: usize = usize::MAX;

/// A folder that goes away with the value.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ringwall-tls-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the openssl program, which must succeed.
pub(crate) fn openssl(arguments: &[&str]) {
    let output = Command::new("openssl").args(arguments).output().expect("the tests need the openssl program");
    assert!(output.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A certificate authority.
pub(crate) struct Authority {
    pub(crate) certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let params = Self::params(name);
        let certificate = params.self_signed(&key).unwrap();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// An authority that this one vouches for.
    pub(crate) fn intermediate(&self, name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let params = Self::params(name);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// Its private key.
    pub(crate) fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params
    }

    pub(crate) fn certify(&self, params: &CertificateParams, key: &KeyPair) -> rcgen::Certificate {
        params.signed_by(key, &self.issuer).unwrap()
    }

    /// A list that revokes these serial numbers and is good until the first day of `year`.
    pub(crate) fn revoke(&self, serials: &[u64], year: i32) -> rcgen::CertificateRevocationList {
        let revoked = serials.iter().map(|&serial| rcgen::RevokedCertParams {
            serial_number: serial.into(),
            revocation_time: rcgen::date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = rcgen::CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2024, 1, 1),
            next_update: rcgen::date_time_ymd(year, 1, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap()
    }

    /// A certificate for `redis.test` with `key`, as PEM.
    pub(crate) fn server(&self, key: &KeyPair) -> String {
        self.certify(&server_params(&["redis.test"]), key).pem()
    }
}

/// The parameters of a server certificate whose subject is `redis.test`.
pub(crate) fn server_params(names: &[&str]) -> CertificateParams {
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, "redis.test");
    params
}

/// The kinds of keys that servers have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyKind {
    Ecdsa,
    Rsa,
    Ed25519,
}

impl KeyKind {
    pub(crate) fn generate(self) -> KeyPair {
        match self {
            Self::Ecdsa => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap(),
            Self::Rsa => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap(),
            Self::Ed25519 => KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap(),
        }
    }
}

/// A listener's credentials, and what its clients trust.
pub(crate) struct World {
    pub(crate) credentials: Credentials,
    pub(crate) roots: Arc<RootCertStore>,
}

impl World {
    pub(crate) fn new(kind: KeyKind) -> Self {
        Self::with_names(kind, &["redis.test", "cache.test"])
    }

    pub(crate) fn with_names(kind: KeyKind, names: &[&str]) -> Self {
        let folder = Folder::new();
        let authority = Authority::new("Test Authority");
        let key = kind.generate();
        let certificate = folder.write("server.crt", authority.certify(&server_params(names), &key).pem());
        let private_key = folder.write("server.key", key.serialize_pem());
        Self::load(&authority, &certificate, &private_key)
    }

    pub(crate) fn load(authority: &Authority, certificate: &Path, private_key: &Path) -> Self {
        let identity = Identity::load(certificate, private_key).unwrap();
        Self { credentials: identity.into(), roots: roots(authority.certificate.der()) }
    }

    pub(crate) fn acceptor(&self, options: &Options) -> Acceptor {
        Acceptor::new(&self.credentials, options).unwrap()
    }

    pub(crate) fn server(&self) -> Server {
        Server::new(self.acceptor(&Options::default()).engine())
    }

    /// A client with the provider's defaults.
    pub(crate) fn client(&self, versions: &[&'static SupportedProtocolVersion]) -> Peer {
        Peer::client(self.client_config(aws_lc_rs::default_provider(), versions), "redis.test")
    }

    pub(crate) fn client_config(
        &self,
        provider: CryptoProvider,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(Arc::clone(&self.roots))
            .with_no_client_auth();
        Arc::new(config)
    }
}

pub(crate) fn roots(certificate: &CertificateDer<'_>) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone().into_owned()).unwrap();
    Arc::new(roots)
}

/// rustls as the peer, in either role, in memory.
pub(crate) struct Peer {
    pub(crate) connection: Connection,
    pub(crate) received: Vec<u8>,
    /// Why it gave up.
    pub(crate) error: Option<rustls::Error>,
}

impl Peer {
    pub(crate) fn new(connection: impl Into<Connection>) -> Self {
        Self { connection: connection.into(), received: Vec::new(), error: None }
    }

    /// A client of the server with this name.
    pub(crate) fn client(config: Arc<ClientConfig>, name: &'static str) -> Self {
        Self::new(ClientConnection::new(config, ServerName::try_from(name).unwrap()).unwrap())
    }

    /// The ciphertext it wants to send.
    pub(crate) fn output(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut output).unwrap();
        }
        output
    }

    /// `plaintext` as ciphertext.
    pub(crate) fn seal(&mut self, plaintext: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        // In steps that its buffer takes.
        for chunk in plaintext.chunks(16 * 1024) {
            self.connection.writer().write_all(chunk).unwrap();
            output.extend(self.output());
        }
        output
    }

    /// Takes ciphertext until it gives up, and says then why it did.
    pub(crate) fn take(&mut self, mut ciphertext: &[u8]) -> Result<(), rustls::Error> {
        while !ciphertext.is_empty() && self.error.is_none() {
            if self.connection.read_tls(&mut ciphertext).unwrap() == 0 {
                break;
            }
            match self.connection.process_new_packets() {
                Ok(state) => {
                    let start = self.received.len();
                    self.received.resize(start + state.plaintext_bytes_to_read(), 0);
                    self.connection.reader().read_exact(&mut self.received[start..]).unwrap();
                }
                Err(error) => self.error = Some(error),
            }
        }
        self.error.clone().map_or(Ok(()), Err)
    }

    /// Whether the other side's close_notify is here.
    pub(crate) fn is_closed_by_other(&mut self) -> bool {
        self.connection.process_new_packets().unwrap().peer_has_closed()
    }

    /// The name that the client of a server has asked for.
    pub(crate) fn server_name(&self) -> Option<&str> {
        let Connection::Server(connection) = &self.connection else { panic!("it plays the client") };
        connection.server_name()
    }

    /// Tickets of TLS 1.3 that a client has got.
    pub(crate) fn tickets(&self) -> u32 {
        let Connection::Client(connection) = &self.connection else { panic!("it plays the server") };
        connection.tls13_tickets_received()
    }
}

/// The engine under test, with a pool of its own.
pub(crate) struct Server {
    pub(crate) engine: Engine,
    pub(crate) pool: Pool,
    pub(crate) received: Vec<u8>,
}

impl Server {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine, pool: Pool::new(), received: Vec::new() }
    }

    pub(crate) fn open(&mut self, ciphertext: &[u8]) -> Opened {
        self.open_some(ciphertext, UNLIMITED)
    }

    pub(crate) fn open_some(&mut self, ciphertext: &[u8], records_max: usize) -> Opened {
        let mut input = ciphertext.to_vec();
        self.engine.open(&mut input, records_max, &mut self.pool, |_, bytes| self.received.extend_from_slice(bytes))
    }

    /// `plaintext` as ciphertext, in a buffer of exactly the size that the engine asks for.
    pub(crate) fn seal(&mut self, plaintext: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut out = SendBuf::with_capacity(self.engine.sealed_len_max(plaintext.len()));
        self.engine.seal(plaintext, &mut out)?;
        Ok(out.data().to_vec())
    }
}

/// Carries bytes both ways until both sides are silent.
pub(crate) fn shake_hands(client: &mut Peer, server: &mut Server) {
    loop {
        let hello = client.output();
        let opened = server.open(&hello);
        assert_eq!(opened.status, OpenStatus::Drained);
        let replies = server.engine.take_replies();
        if hello.is_empty() && replies.is_empty() {
            break;
        }
        client.take(&replies).unwrap();
    }
    assert!(!client.connection.is_handshaking());
    assert!(!server.engine.is_handshaking());
}

/// The records in `bytes`, which must be whole.
pub(crate) fn records(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let [_, _, _, high, low, ..] = bytes else {
            assert!(bytes.is_empty());
            return None;
        };
        let (record, rest) = bytes.split_at(5 + usize::from(u16::from_be_bytes([*high, *low])));
        bytes = rest;
        Some(record)
    })
}
