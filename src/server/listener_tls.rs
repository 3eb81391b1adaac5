//! How one listener speaks TLS: what each shard's acceptor is made from.

use std::sync::Arc;

use super::StartError;
use crate::config::{self, Config};
use crate::tls::{self, Acceptor, Credentials, KeyLogFile, TicketKeys, TicketSecret};

/// What all listeners have in common, and keep through reloads.
#[derive(Debug)]
pub(super) struct Common {
    /// For the tickets of listeners that share none with other processes.
    secret: TicketSecret,
    key_log: Option<Arc<KeyLogFile>>,
}

impl Common {
    pub(super) fn new(config: &Config) -> Result<Self, StartError> {
        let key_log = config.key_log.as_ref().map(|path| {
            KeyLogFile::open(path).map_err(|error| StartError::KeyLog { path: path.clone(), error }).map(Arc::new)
        });
        Ok(Self { secret: TicketSecret::random(), key_log: key_log.transpose()? })
    }
}

impl Common {
    /// The same with another secret.
    pub(super) fn rotated(&self) -> Self {
        Self { secret: TicketSecret::random(), key_log: self.key_log.clone() }
    }
}

/// How one listener speaks TLS.
#[derive(Debug)]
pub(super) struct ListenerTls {
    name: Box<str>,
    credentials: Credentials,
    options: tls::Options,
}

impl ListenerTls {
    pub(super) fn new(name: &str, tls: &config::Tls, credentials: Credentials, common: &Common) -> Self {
        let secret = credentials.ticket_secret.as_ref().unwrap_or(&common.secret);
        let tickets = Some(TicketKeys::new(secret, name.as_bytes()));
        let (policy, key_log) = (tls.policy.clone(), common.key_log.clone());
        let options = tls::Options { policy, tickets, key_log, ..tls::Options::default() };
        Self { name: name.into(), credentials, options }
    }

    /// An acceptor that shares nothing with another.
    pub(super) fn acceptor(&self) -> Result<Acceptor, StartError> {
        Acceptor::new(&self.credentials, &self.options)
            .map_err(|error| StartError::Tls { of: format!("listener \"{}\"", self.name).into(), error })
    }
}
