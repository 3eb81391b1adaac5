//! The files of one listener, read as one set: who it is, under each of its names, and whom it
//! lets in.

use super::certificate::Identity;
use super::clients::Clients;
use super::identity_error::IdentityWarning;

/// What one listener has read from files.
#[derive(Debug)]
pub struct Credentials {
    /// At least one; the first is for clients that ask for no name, or for one that nothing here has.
    pub identities: Vec<Identity>,
    /// How it authenticates clients, when it does.
    pub clients: Option<Clients>,
}

impl Credentials {
    /// What is worth a warning at `unix_time`, seconds since 1970: all works, but perhaps not as meant.
    #[must_use]
    pub fn warnings(&self, unix_time: u64) -> Vec<String> {
        let clients = self.clients.iter().flat_map(|clients| clients.warnings(unix_time));
        let identities = self.identity_warnings(unix_time).into_iter().map(|warning| warning.to_string());
        identities.chain(clients).collect()
    }

    fn identity_warnings(&self, unix_time: u64) -> Vec<IdentityWarning> {
        let mut warnings: Vec<_> = self.identities.iter().flat_map(|identity| identity.warnings(unix_time)).collect();
        for (index, identity) in self.identities.iter().enumerate() {
            let path = identity.certificate_path().to_owned();
            if index > 0 && identity.names().is_empty() {
                warnings.push(IdentityWarning::Nameless { path });
                continue;
            }
            let earlier = &self.identities[..index];
            let shadow = identity.names().iter().find_map(|name| {
                let same = |other: &&Identity| other.is_rsa() == identity.is_rsa() && other.names().contains(name);
                Some((name.clone(), earlier.iter().find(same)?.certificate_path().to_owned()))
            });
            if let Some((name, by)) = shadow {
                warnings.push(IdentityWarning::Shadowed { path, name, by });
            }
        }
        warnings
    }
}

impl From<Identity> for Credentials {
    fn from(identity: Identity) -> Self {
        Self { identities: vec![identity], clients: None }
    }
}
