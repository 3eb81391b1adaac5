//! How a backend judges its servers and who it is to them: files, read and checked once.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;

use super::authorities::{Authorities, TrustError};
use super::certificate::Identity;
use super::server_verifier::{Judgement, ServerVerifier};

/// How the certificates of a backend's servers are judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAuth {
    /// They must come from one of these authorities, in PEM, and be for the name that the server is asked for.
    Full(PathBuf),
    /// They must come from one of these authorities, in PEM, and may be for any name.
    Chain(PathBuf),
    /// Any will do: whoever answers at the server's address is taken for the server.
    None,
}

/// A [`ServerAuth`] with its file read and checked.
#[derive(Debug, PartialEq)]
pub struct Servers(Judgement);

impl Servers {
    /// Reads and checks the file.
    ///
    /// # Errors
    /// When the file cannot be read or does not hold what it should.
    pub fn load(auth: &ServerAuth) -> Result<Self, TrustError> {
        let roots = |path| Authorities::load(path, "ca").map(|authorities| authorities.roots);
        Ok(Self(match auth {
            ServerAuth::Full(path) => Judgement::Full(roots(path)?),
            ServerAuth::Chain(path) => Judgement::Chain(roots(path)?),
            ServerAuth::None => Judgement::None,
        }))
    }

    /// What verifies certificates, for one shard.
    pub(super) fn verifier(&self, provider: &CryptoProvider) -> Arc<dyn ServerCertVerifier> {
        let algorithms = provider.signature_verification_algorithms;
        Arc::new(ServerVerifier { judgement: self.0.clone(), algorithms })
    }
}

/// What one backend has read from files.
#[derive(Debug, PartialEq)]
pub struct BackendCredentials {
    /// How its servers are judged.
    pub servers: Servers,
    /// What it shows to servers that ask for a certificate, when it has one.
    pub identity: Option<Identity>,
}

impl BackendCredentials {
    /// The secrets that everybody on this machine may read or change, each as its warning says it.
    #[must_use]
    pub fn exposed(&self) -> Vec<String> {
        self.identity.iter().filter_map(Identity::exposed).map(|warning| warning.to_string()).collect()
    }

    /// What is worth a warning at `unix_time`, seconds since 1970: all works, but perhaps not as meant.
    #[must_use]
    pub fn warnings(&self, unix_time: u64) -> Vec<String> {
        let unverified = matches!(self.servers.0, Judgement::None).then(|| {
            "verify = \"none\": whoever can answer at a server's address can read and change everything; write \"full\" \
             and a ca"
                .to_owned()
        });
        let identity = self.identity.iter().flat_map(|identity| identity.warnings(unix_time));
        unverified.into_iter().chain(identity.map(|warning| warning.to_string())).collect()
    }
}
