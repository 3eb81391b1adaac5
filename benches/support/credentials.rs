//! What the benches' connections are made with: an ECDSA P-256 or RSA-2048 certificate, and clients that speak TLS 1.3 with
//! AES-128-GCM.
#![allow(dead_code, reason = "each bench uses a part of it")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;

/// The name in the certificate.
pub(crate) const SERVER_NAME: &str = "ringwall.bench";

/// A certificate and its key as files, and clients that trust it.
pub(crate) struct Credentials {
    folder: TempDir,
    /// What every client is made with.
    pub(crate) client: Arc<ClientConfig>,
}

/// What the certificate's key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Ecdsa,
    Rsa,
}

impl Credentials {
    /// An ECDSA key and its certificate.
    pub(crate) fn new() -> Self {
        Self::of(KeyKind::Ecdsa)
    }

    /// Makes a key and signs its certificate with it.
    pub(crate) fn of(kind: KeyKind) -> Self {
        let key = match kind {
            KeyKind::Ecdsa => rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
            KeyKind::Rsa => rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048),
        };
        let key = key.expect("a key");
        let certificate = rcgen::CertificateParams::new(vec![SERVER_NAME.to_owned()])
            .and_then(|params| params.self_signed(&key))
            .expect("a certificate");
        let folder = tempfile::tempdir().expect("a temporary folder");
        write(&folder.path().join("server.crt"), &certificate.pem());
        write(&folder.path().join("server.key"), &key.serialize_pem());
        write(&folder.path().join("server.pem"), &(certificate.pem() + &key.serialize_pem()));

        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).expect("the certificate is one");
        let provider = CryptoProvider {
            cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
            ..aws_lc_rs::default_provider()
        };
        let mut client = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&TLS13])
            .expect("the suite is one of TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.resumption = Resumption::disabled();
        Self { folder, client: Arc::new(client) }
    }

    /// What a client that keeps tickets is made with. Clients made with one share them.
    pub(crate) fn resuming(&self) -> Arc<ClientConfig> {
        let mut client = ClientConfig::clone(&self.client);
        client.resumption = Resumption::in_memory_sessions(64);
        Arc::new(client)
    }

    /// The folder of `server.crt` and `server.key`, and of `server.pem` with both.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Adds a file that only its owner can read.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder().join(name);
        write(&path, text);
        path
    }
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("the folder takes a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("the file is ours");
}
