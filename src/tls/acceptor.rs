//! One listener's TLS configuration, as one shard owns it.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::UnixTime;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, NoServerSessionStorage, UnbufferedServerConnection};
use rustls::time_provider::TimeProvider;
use rustls::{KeyLog, ServerConfig};

use super::client_verifier::ClientVerifier;
use super::clients::Clients;
use super::credentials::Credentials;
use super::engine::Engine;
use super::hello::ticket_offered;
use super::key_log::KeyLogFile;
use super::overheard::Overheard;
use super::policy::{Policy, Version};
use super::resolver::Resolver;
use super::tickets::TicketKeys;

/// How a listener, or a backend, speaks TLS.
#[derive(Clone, Debug)]
pub struct Options {
    /// What it agrees to.
    pub policy: Policy,
    /// What seals session tickets; without it no session resumes and no ticket is sent. A ticket is also what the
    /// server sends right after the client's Finished: without it a client that left Nagle's algorithm on waits for an
    /// acknowledgement before it sends its first request.
    pub tickets: Option<TicketKeys>,
    /// Where the secrets of each connection go, for debugging. Handshakes then wait for the disk.
    pub key_log: Option<Arc<KeyLogFile>>,
    /// Lowers how many records one key may seal, to see in a test or a rehearsal what happens at the end of a key's
    /// life. Each acceptor made with it leaks a few hundred bytes.
    pub record_limit: Option<u64>,
    /// Tells the wall-clock time in seconds since 1970, for the age of tickets.
    pub unix_time: fn() -> u64,
}

impl Default for Options {
    /// The default policy, no tickets, no key log, the limits of the cipher suites, the system's clock.
    fn default() -> Self {
        Self { policy: Policy::default(), tickets: None, key_log: None, record_limit: None, unix_time }
    }
}

/// The system's wall-clock time in seconds since 1970.
#[must_use]
pub fn unix_time() -> u64 {
    UnixTime::now().as_secs()
}

/// Makes the connections of one listener on one shard.
///
/// It shares no memory that changes with another acceptor: it parses the key itself (RSA keys carry a lock of their
/// own) and has its own configuration and ticket keys. It is made to be used from one thread; moving it there is fine.
pub struct Acceptor {
    config: Arc<ServerConfig>,
    overheard: Arc<Overheard>,
    requires_certificate: bool,
}

impl Acceptor {
    /// Parses the keys of `credentials` and sets up a configuration.
    ///
    /// # Errors
    /// When the options leave no version, or the library does not take a key.
    pub fn new(credentials: &Credentials, options: &Options) -> Result<Self, SetupError> {
        let policy = &options.policy;
        let versions = policy.versions();
        if versions.is_empty() {
            return Err(SetupError::NoVersion { min: policy.version_min, max: policy.version_max });
        }
        let overheard = Arc::new(Overheard::default());
        let resolver = Resolver::new(&credentials.identities, policy.strict_sni, Arc::clone(&overheard))
            .map_err(SetupError::Key)?;
        let provider = Arc::new(policy.provider(options.record_limit));
        let clock = Arc::new(Clock(options.unix_time));
        let library = |reason: &dyn fmt::Display| SetupError::Library(reason.to_string());
        let verifier: Arc<dyn ClientCertVerifier> = match &credentials.clients {
            None => Arc::new(NoClientAuth),
            Some(clients) => Arc::new(ClientVerifier {
                chain: clients.verifier(&provider).map_err(|error| library(&error))?,
                rules: clients.rules().clone(),
                overheard: Arc::clone(&overheard),
            }),
        };
        let mut config = ServerConfig::builder_with_details(provider, clock)
            .with_protocol_versions(&versions)
            .map_err(|error| library(&error))?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(resolver));
        // The record layer is our own.
        config.enable_secret_extraction = true;
        config.ignore_client_order = true;
        config.alpn_protocols = policy.alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        config.session_storage = Arc::new(NoServerSessionStorage {});
        // Requests of Redis are not safe to replay, so there is no early data.
        config.max_early_data_size = 0;
        // Zero means that a client's wish for more tickets, or none, is not heard (RFC 9149).
        config.max_tls13_tickets = 0;
        config.send_tls13_tickets = 0;
        // Nothing of ours is sent before the handshake ends, but the right to send is what lets a close_notify out in
        // the middle of one.
        config.send_half_rtt_data = true;
        if let Some(key_log) = &options.key_log {
            config.key_log = Arc::clone(key_log) as Arc<dyn KeyLog>;
        }
        if let Some(tickets) = &options.tickets {
            config.send_tls13_tickets = 1;
            config.ticketer =
                Arc::new(tickets.bound_to(credentials).producer(options.unix_time, Arc::clone(&overheard)));
        }
        let requires_certificate = credentials.clients.as_ref().is_some_and(Clients::are_required);
        Ok(Self { config: Arc::new(config), overheard, requires_certificate })
    }

    /// A connection that has seen no byte yet.
    #[must_use]
    pub fn engine(&self) -> Engine {
        let connection = UnbufferedServerConnection::new(Arc::clone(&self.config))
            .expect("only a wrong maximum fragment size fails, and none is set");
        Engine::server(connection, Arc::clone(&self.overheard))
    }

    /// Whether a client is let in only with a certificate.
    #[must_use]
    pub const fn requires_certificate(&self) -> bool {
        self.requires_certificate
    }

    /// Whether a client whose first bytes are `first` brings a ticket that opens, so that its handshake can be had
    /// without a signature. A few microseconds of work.
    #[must_use]
    pub fn knows(&self, first: &[u8]) -> bool {
        let opens = ticket_offered(first).is_some_and(|ticket| self.config.ticketer.decrypt(ticket).is_some());
        // It told the end of a certificate that is nobody's yet.
        self.overheard.heard().certificates_until = None;
        opens
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor")
    }
}

/// Why an [`Acceptor`] cannot be made.
#[derive(Debug, PartialEq, Eq)]
pub enum SetupError {
    /// The oldest version accepted is newer than the newest.
    NoVersion {
        /// The oldest version accepted.
        min: Version,
        /// The newest version offered.
        max: Version,
    },
    /// The library does not take the private key, with its reason.
    Key(String),
    /// The library refuses the configuration, with its reason.
    Library(String),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoVersion { min, max } => {
                write!(f, "no TLS version is left: the oldest accepted is {min}, the newest offered {max}")
            }
            Self::Key(reason) => write!(f, "the private key cannot be used: {reason}"),
            Self::Library(reason) => write!(f, "the TLS library refuses the configuration: {reason}"),
        }
    }
}

impl std::error::Error for SetupError {}

/// The options' clock, as rustls asks for it.
#[derive(Debug)]
pub(super) struct Clock(pub(super) fn() -> u64);

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs((self.0)())))
    }
}
