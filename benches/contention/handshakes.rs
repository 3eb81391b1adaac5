//! Full TLS handshakes in memory: a rustls client against the server that is measured.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::ValueEnum;
use ringwall::pool::Pool;
use ringwall::tls::{Acceptor, Credentials, Engine, Identity, OpenStatus, Options, TicketKeys, TicketSecret};
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, ProducesTickets, StoresServerSessions};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

const SERVER_NAME: &str = "ringwall.bench";

/// The kind of a server's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyKind {
    /// RSA with 2048 bits.
    Rsa,
    /// ECDSA on P-256.
    Ecdsa,
}

/// A certificate and its key as files, one pair for each kind.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    /// Where the pair of that kind is in `folder`.
    pub(crate) fn of(kind: KeyKind, folder: &Path) -> Self {
        let name = match kind {
            KeyKind::Rsa => "rsa",
            KeyKind::Ecdsa => "ecdsa",
        };
        Self { certificate: folder.join(format!("{name}.crt")), key: folder.join(format!("{name}.key")) }
    }

    /// Makes the pair.
    pub(crate) fn make(kind: KeyKind, folder: &Path) {
        let files = Self::of(kind, folder);
        let key = match kind {
            KeyKind::Rsa => rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048),
            KeyKind::Ecdsa => rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
        };
        let key = key.expect("a key");
        let certificate = rcgen::CertificateParams::new(vec![SERVER_NAME.to_owned()])
            .and_then(|params| params.self_signed(&key))
            .expect("a certificate");
        std::fs::write(&files.certificate, certificate.pem()).expect("the folder takes a file");
        std::fs::write(&files.key, key.serialize_pem()).expect("the folder takes a file");
    }

    fn certificate(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(&self.certificate).expect("the certificate was written above")
    }

    /// The client of one thread, which shares nothing with another and resumes no session.
    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate()).expect("the certificate is one");
        let mut client = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has suites for each version")
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.resumption = Resumption::disabled();
        Arc::new(client)
    }

    /// A thread's own parsed key and configuration, as each shard has them.
    pub(crate) fn acceptor(&self) -> Server {
        let credentials: Credentials = Identity::load(&self.certificate, &self.key).expect("a valid pair").into();
        let tickets = Some(TicketKeys::new(&TicketSecret::random(), b"bench"));
        let options = Options { tickets, ..Options::default() };
        Server::Ours(Acceptor::new(&credentials, &options).expect("a valid pair"))
    }

    fn rustls_config(&self) -> ServerConfig {
        let key = PrivateKeyDer::from_pem_file(&self.key).expect("the key was written above");
        ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has suites for each version")
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate()], key)
            .expect("a valid pair")
    }

    /// One configuration for all threads with rustls's defaults: a cache of sessions, which is a mutex.
    pub(crate) fn rustls_with_cache(&self) -> Server {
        let mut config = self.rustls_config();
        config.session_storage = Arc::new(Counted(Arc::clone(&config.session_storage)));
        Server::Rustls(Arc::new(config))
    }

    /// The same with the library's ticketer, which is a read-write lock of std around its keys.
    pub(crate) fn rustls_with_ticketer(&self) -> Server {
        let mut config = self.rustls_config();
        config.ticketer = Arc::new(Counted(aws_lc_rs::Ticketer::new().expect("randomness")));
        Server::Rustls(Arc::new(config))
    }

    /// The same with neither: what is shared is the key.
    pub(crate) fn rustls_with_neither(&self) -> Server {
        let mut config = self.rustls_config();
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Server::Rustls(Arc::new(config))
    }
}

/// How often rustls's own locks were asked for.
static RUSTLS_LOCKS: AtomicU64 = AtomicU64::new(0);

/// How often rustls's own locks were asked for since the program began.
pub(crate) fn rustls_locks() -> u64 {
    RUSTLS_LOCKS.load(Ordering::Relaxed)
}

/// A cache or a ticketer of which each call takes its lock once.
#[derive(Debug)]
struct Counted<T: ?Sized>(Arc<T>);

impl<T: ?Sized> Counted<T> {
    fn counted(&self) -> &T {
        RUSTLS_LOCKS.fetch_add(1, Ordering::Relaxed);
        &self.0
    }
}

impl StoresServerSessions for Counted<dyn StoresServerSessions> {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.counted().put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.counted().get(key)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.counted().take(key)
    }

    fn can_cache(&self) -> bool {
        self.0.can_cache()
    }
}

impl ProducesTickets for Counted<dyn ProducesTickets> {
    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.counted().encrypt(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.counted().decrypt(cipher)
    }
}

/// What makes a server's connections.
pub(crate) enum Server {
    Ours(Acceptor),
    Rustls(Arc<ServerConfig>),
}

enum Connection {
    Ours(Engine),
    Rustls(Box<ServerConnection>),
}

impl Connection {
    fn is_handshaking(&self) -> bool {
        match self {
            Self::Ours(engine) => engine.is_handshaking(),
            Self::Rustls(connection) => connection.is_handshaking(),
        }
    }

    /// Takes what the client has sent and gives what goes back.
    fn answer(&mut self, mut input: Vec<u8>, pool: &mut Pool) -> Vec<u8> {
        match self {
            Self::Ours(engine) => {
                let opened = engine.open(&mut input, usize::MAX, pool, |_, _| {});
                assert_eq!(opened.status, OpenStatus::Drained);
                engine.take_replies()
            }
            Self::Rustls(connection) => {
                let mut input = &input[..];
                while !input.is_empty() {
                    connection.read_tls(&mut input).expect("memory does not fail");
                    connection.process_new_packets().expect("the client speaks TLS");
                }
                let mut output = Vec::new();
                while connection.wants_write() {
                    connection.write_tls(&mut output).expect("memory does not fail");
                }
                output
            }
        }
    }
}

impl Server {
    /// One full handshake, tickets included. What the server does goes through `measured`, which does it and may look
    /// at what it takes.
    pub(crate) fn shake_hands(
        &self,
        client: &Arc<ClientConfig>,
        pool: &mut Pool,
        mut measured: impl FnMut(&mut dyn FnMut()),
    ) {
        let name = ServerName::try_from(SERVER_NAME).expect("a name");
        let mut client = ClientConnection::new(Arc::clone(client), name).expect("the configuration serves");
        let mut server = None;
        while client.is_handshaking() || server.as_ref().is_none_or(Connection::is_handshaking) {
            let mut hello = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut hello).expect("memory does not fail");
            }
            let mut answer = Vec::new();
            measured(&mut || {
                let server = server.get_or_insert_with(|| match self {
                    Self::Ours(acceptor) => Connection::Ours(acceptor.engine()),
                    Self::Rustls(config) => {
                        let connection = ServerConnection::new(Arc::clone(config));
                        Connection::Rustls(Box::new(connection.expect("the configuration serves")))
                    }
                });
                answer = server.answer(std::mem::take(&mut hello), pool);
            });
            let mut answer = &answer[..];
            while !answer.is_empty() {
                client.read_tls(&mut answer).expect("memory does not fail");
                client.process_new_packets().expect("the server speaks TLS");
            }
        }
        // The end of a connection is the server's work as well.
        measured(&mut || drop(server.take()));
    }
}
