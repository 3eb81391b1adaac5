//! How one listener speaks TLS: what each shard's acceptor is made from.

use std::sync::{Arc, Mutex, PoisonError};

use zeroize::Zeroizing;

use super::StartError;
use crate::config::{self, Config};
use crate::tls::{self, Acceptor, Credentials, KeyLogFile, TicketKeys, TicketSecret};

/// What all listeners have in common, and keep through reloads.
#[derive(Debug)]
pub(super) struct Common {
    /// For the tickets of listeners that share none with other processes.
    secret: Arc<TicketSecret>,
    key_log: Option<Arc<KeyLogFile>>,
    lasting: LastingSecret,
}

/// The secret that tickets are made with, as whoever takes over gets it.
#[derive(Clone, Debug)]
pub(super) struct LastingSecret(Arc<Mutex<Arc<TicketSecret>>>);

impl LastingSecret {
    pub(super) fn bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(*self.0.lock().unwrap_or_else(PoisonError::into_inner).bytes())
    }
}

impl Common {
    /// With the secret of the process that this one replaces, or a new one.
    pub(super) fn new(config: &Config, secret: Option<&[u8; 32]>) -> Result<Self, StartError> {
        let key_log = config.key_log.as_ref().map(|path| {
            KeyLogFile::open(path).map_err(|error| StartError::KeyLog { path: path.clone(), error }).map(Arc::new)
        });
        let secret = Arc::new(secret.map_or_else(TicketSecret::random, |&secret| TicketSecret::from_bytes(secret)));
        let lasting = LastingSecret(Arc::new(Mutex::new(Arc::clone(&secret))));
        Ok(Self { secret, key_log: key_log.transpose()?, lasting })
    }
}

impl Common {
    /// The same with another secret.
    pub(super) fn rotated(&self) -> Self {
        Self { secret: Arc::new(TicketSecret::random()), key_log: self.key_log.clone(), lasting: self.lasting.clone() }
    }

    /// Takes what [`Common::rotated`] has made: it is in use.
    pub(super) fn accept(&mut self, rotated: Self) {
        *self.lasting.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&rotated.secret);
        *self = rotated;
    }

    /// What is handed to whoever takes over.
    pub(super) fn lasting_secret(&self) -> LastingSecret {
        self.lasting.clone()
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
