//! How one listener speaks TLS: what each shard's acceptor is made from.

use super::StartError;
use crate::config;
use crate::tls::{self, Acceptor, Credentials, TicketKeys, TicketSecret};

/// How one listener speaks TLS.
#[derive(Debug)]
pub(super) struct ListenerTls {
    name: Box<str>,
    credentials: Credentials,
    options: tls::Options,
}

impl ListenerTls {
    /// `secret` seals the tickets, unless the listener has one that it shares.
    pub(super) fn new(name: &str, tls: &config::Tls, credentials: Credentials, secret: &TicketSecret) -> Self {
        let secret = credentials.ticket_secret.as_ref().unwrap_or(secret);
        let tickets = Some(TicketKeys::new(secret, name.as_bytes()));
        let options = tls::Options { policy: tls.policy.clone(), tickets, ..tls::Options::default() };
        Self { name: name.into(), credentials, options }
    }

    /// An acceptor that shares nothing with another.
    pub(super) fn acceptor(&self) -> Result<Acceptor, StartError> {
        Acceptor::new(&self.credentials, &self.options)
            .map_err(|error| StartError::Tls { listener: self.name.clone(), error })
    }
}
