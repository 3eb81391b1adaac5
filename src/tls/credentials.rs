//! The files of one listener, read as one set: who it is, under each of its names, whom it lets in, and what seals its
//! tickets.

use super::certificate::Identity;
use super::clients::Clients;
use super::identity_error::{IdentityError, IdentityWarning};
use super::policy::{Policy, Version};
use super::ticket_secret::TicketSecret;

/// What one listener has read from files.
#[derive(Debug)]
pub struct Credentials {
    /// At least one; the first is for clients that ask for no name, or for one that nothing here has.
    pub identities: Vec<Identity>,
    /// How it authenticates clients, when it does.
    pub clients: Option<Clients>,
    /// What its tickets are sealed with, when that is shared with other processes.
    pub ticket_secret: Option<TicketSecret>,
}

impl Credentials {
    /// What is worth a warning at `unix_time`, seconds since 1970: all works, but perhaps not as meant.
    #[must_use]
    pub fn warnings(&self, unix_time: u64) -> Vec<String> {
        let clients = self.clients.iter().flat_map(|clients| clients.warnings(unix_time));
        let identities = self.identity_warnings(unix_time).into_iter().map(|warning| warning.to_string());
        let ticket_secret = self.ticket_secret.as_ref().and_then(TicketSecret::warning);
        identities.chain(clients).chain(ticket_secret).collect()
    }

    /// The secrets that everybody on this machine may read or change, each as its warning says it.
    #[must_use]
    pub fn exposed(&self) -> Vec<String> {
        let keys = self.identities.iter().filter_map(Identity::exposed);
        keys.map(|warning| warning.to_string())
            .chain(self.ticket_secret.as_ref().and_then(TicketSecret::warning))
            .collect()
    }

    /// Compares the keys with the cipher suites of `policy`: gives the certificates that clients of TLS 1.2 cannot be
    /// shown, because none of that version's suites fits their keys.
    ///
    /// # Errors
    /// When no handshake can be completed, because this holds for all of them and TLS 1.3 is not accepted.
    pub fn fit(&self, policy: &Policy) -> Result<Vec<IdentityWarning>, IdentityError> {
        if !policy.speaks(Version::Tls12) {
            return Ok(Vec::new());
        }
        let suites = policy.cipher_suites.iter().filter(|suite| suite.version() == Version::Tls12);
        let misfits: Vec<_> = self
            .identities
            .iter()
            .filter(|identity| !suites.clone().any(|suite| suite.fits(identity.is_rsa())))
            .map(|identity| (identity.certificate_path().to_owned(), identity.is_rsa()))
            .collect();
        match misfits.first() {
            Some((path, is_rsa)) if misfits.len() == self.identities.len() && !policy.speaks(Version::Tls13) => {
                Err(IdentityError::NoSuite { path: path.clone(), is_rsa: *is_rsa })
            }
            Some(_) | None => {
                let warning = |(path, is_rsa)| IdentityWarning::NoSuite { path, is_rsa };
                Ok(misfits.into_iter().map(warning).collect())
            }
        }
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
        Self { identities: vec![identity], clients: None, ticket_secret: None }
    }
}
