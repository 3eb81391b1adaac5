//! Certificates and keys made for one test, in a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use tempfile::TempDir;

/// A CA, a certificate for localhost signed by it, and room for a test's other files.
pub(crate) struct Certificates {
    folder: TempDir,
    ca: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    /// With an ECDSA P-256 key.
    pub(crate) fn new() -> Self {
        Self::with_key(&KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap())
    }

    /// With the key of this PEM file's text.
    pub(crate) fn with_key(key: &KeyPair) -> Self {
        let made = Self { folder: tempfile::tempdir().unwrap(), ca: issuer() };
        fs::write(made.ca_file(), made.ca.pem()).unwrap();
        made.write_server(key);
        made
    }

    /// Replaces the server's certificate and key; gives the new certificate.
    pub(crate) fn replace_server(&self) -> CertificateDer<'static> {
        self.write_server(&KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap())
    }

    fn write_server(&self, key: &KeyPair) -> CertificateDer<'static> {
        let mut server = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        server.distinguished_name.push(DnType::CommonName, "localhost");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = server.signed_by(key, &self.ca).unwrap();
        fs::write(self.folder().join("server.crt"), certificate.pem()).unwrap();
        write_private(&self.folder().join("server.key"), &key.serialize_pem());
        certificate.der().clone()
    }

    /// Exchanges `server.crt` and its key for ones with these parameters.
    pub(crate) fn with_server(self, change: impl FnOnce(&mut CertificateParams)) -> Self {
        self.certify("server", change);
        self
    }

    /// Adds `name.crt` and `name.key`; the certificate is for localhost unless its parameters are changed.
    pub(crate) fn certify(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let path = |ending: &str| self.folder().join(format!("{name}.{ending}"));
        fs::write(path("crt"), params.signed_by(&key, &self.ca).unwrap().pem()).unwrap();
        write_private(&path("key"), &key.serialize_pem());
    }

    /// Where `ca.crt`, `server.crt` and `server.key` lie.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// What a client trusts.
    pub(crate) fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.ca.der().clone()).unwrap();
        Arc::new(roots)
    }
}

fn issuer() -> CertifiedIssuer<'static, KeyPair> {
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.distinguished_name.push(DnType::CommonName, "test CA");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    CertifiedIssuer::self_signed(ca, KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap()).unwrap()
}

/// Readable by its owner alone, as ringwall expects of a key.
fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}
