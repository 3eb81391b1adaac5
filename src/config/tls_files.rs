//! The files that TLS reads besides the configuration, which are watched.

use std::path::PathBuf;

use super::backend_tls::BackendTls;
use super::tls::Tls;
use super::{Backend, Config, Listener};
use crate::tls::ServerAuth;

/// What is read besides the configuration: when something of it changes, a reload is due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Files.
    pub files: Vec<PathBuf>,
    /// Folders of which each file may be read.
    pub folders: Vec<PathBuf>,
}

impl TlsFiles {
    /// Of the listeners and backends of a configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let listeners = config.listeners.iter().filter_map(|Listener { tls, .. }| tls.as_ref());
        Self::gathered(listeners, config.backends.iter().filter_map(|Backend { tls, .. }| tls.as_ref()))
    }

    fn gathered<'t>(listeners: impl Iterator<Item = &'t Tls>, backends: impl Iterator<Item = &'t BackendTls>) -> Self {
        let mut gathered = Self::default();
        for tls in listeners {
            let Tls { certificates, cert_dir, policy: _, client_auth, ticket_secret } = tls;
            let pairs = certificates
                .iter()
                .flat_map(|pair| [&pair.certificate, &pair.private_key].into_iter().chain(&pair.ocsp));
            let about_clients =
                client_auth.iter().flat_map(|auth| [&auth.authorities].into_iter().chain(&auth.revocation_lists));
            gathered.files.extend(pairs.chain(about_clients).chain(ticket_secret).cloned());
            gathered.folders.extend(cert_dir.clone());
        }
        for BackendTls { auth, server_name: _, identity, policy: _ } in backends {
            let authorities = match auth {
                ServerAuth::Full(path) | ServerAuth::Chain(path) => Some(path),
                ServerAuth::None => None,
            };
            let pair = identity.iter().flat_map(|pair| [&pair.certificate, &pair.private_key]);
            gathered.files.extend(pair.chain(authorities).cloned());
        }
        gathered
    }
}
