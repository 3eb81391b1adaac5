//! The authorities that a peer's certificate must come from, and why what peers are judged by cannot be had.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::SectionKind;

use super::identity_error::IdentityError;
use super::pem::PemFile;

/// The certificates of one file, each good for a trust anchor.
pub(super) struct Authorities {
    pub(super) roots: Arc<RootCertStore>,
    pub(super) certificates: Vec<CertificateDer<'static>>,
}

impl Authorities {
    /// Reads and checks the file. `role` is the configuration key that names it.
    pub(super) fn load(path: &Path, role: &'static str) -> Result<Self, TrustError> {
        let certificates = PemFile::read(path, role)?.sections_of(SectionKind::Certificate)?;
        let certificates: Vec<_> = certificates.into_iter().map(CertificateDer::from).collect();
        let unusable = |reason| TrustError::Unusable { role, path: path.into(), reason };
        let mut roots = RootCertStore::empty();
        for (index, certificate) in certificates.iter().enumerate() {
            let added = roots.add(certificate.clone());
            added.map_err(|error| unusable(format!("certificate number {} is damaged ({error})", index + 1)))?;
        }
        if roots.is_empty() {
            return Err(unusable("holds no certificate; it must hold those of the authorities, in PEM".to_owned()));
        }
        Ok(Self { roots: Arc::new(roots), certificates })
    }
}

/// Why what peers are judged by cannot be had.
#[derive(Debug)]
pub enum TrustError {
    /// A file cannot be read, or is not what its kind should be.
    File(IdentityError),
    /// A file's contents cannot be used.
    Unusable {
        /// The configuration key that names it.
        role: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl From<IdentityError> for TrustError {
    fn from(error: IdentityError) -> Self {
        Self::File(error)
    }
}

impl fmt::Display for TrustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Unusable { role, path, reason } => write!(f, "{role} {}: {reason}", path.display()),
        }
    }
}

impl std::error::Error for TrustError {}
