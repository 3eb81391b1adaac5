//! One server's TLS configuration, as one shard owns it: the counterpart of an acceptor.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::pki_types;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, client::ResolvesClientCert};

use super::acceptor::{Clock, Options, SetupError};
use super::engine::Engine;
use super::servers::BackendCredentials;
use super::sessions::Sessions;

/// The name that a server is asked for (SNI), and that its certificate must be for: a DNS name or an IP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerName(pki_types::ServerName<'static>);

impl ServerName {
    /// Reads a name; `None` when it is neither a DNS name nor an IP address.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        pki_types::ServerName::try_from(text).ok().map(|name| Self(name.to_owned()))
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.to_str().fmt(f)
    }
}

/// Makes the connections of one shard to one server. Clones are the same connector.
///
/// Like an [`Acceptor`](super::Acceptor) it shares no memory that changes with another of its kind. What the server
/// gives for the next connections stays with it.
#[derive(Clone)]
pub struct Connector {
    config: Arc<ClientConfig>,
    name: Option<ServerName>,
}

impl Connector {
    /// Parses the key of `credentials` and sets up a configuration; of `options`, tickets are an acceptor's. Without a
    /// name, none is asked for: certificates are not judged by it then.
    ///
    /// # Errors
    /// When the options leave no version, or the library does not take a key.
    pub fn new(
        credentials: &BackendCredentials,
        options: &Options,
        name: Option<ServerName>,
    ) -> Result<Self, SetupError> {
        let policy = &options.policy;
        let versions = policy.versions();
        if versions.is_empty() {
            return Err(SetupError::NoVersion { min: policy.version_min, max: policy.version_max });
        }
        let provider = Arc::new(policy.provider(options.record_limit));
        let verifier = credentials.servers.verifier(&provider);
        let builder = ClientConfig::builder_with_details(provider, Arc::new(Clock(options.unix_time)))
            .with_protocol_versions(&versions)
            .map_err(|error| SetupError::Library(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &credentials.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let key = identity.certified_key().map_err(SetupError::Key)?;
                let resolver: Arc<dyn ResolvesClientCert> = Arc::new(SingleCertAndKey::from(key));
                builder.with_client_cert_resolver(resolver)
            }
        };
        // The record layer is our own.
        config.enable_secret_extraction = true;
        config.resumption = Resumption::store(Arc::new(Sessions::default()));
        // Requests of Redis are not safe to replay, so there is no early data.
        config.enable_early_data = false;
        Ok(Self { config: Arc::new(config), name })
    }

    /// Makes the connections of the same shard to another server, which is asked for `name`. The key is not parsed again,
    /// and what either server gives for the next connections stays apart.
    #[must_use]
    pub fn towards(&self, name: Option<ServerName>) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::store(Arc::new(Sessions::default()));
        Self { config: Arc::new(config), name }
    }

    /// A connection whose hello is ready to be sent.
    #[must_use]
    pub fn engine(&self) -> Engine {
        // An address is never asked for by SNI (RFC 6066, section 3), so this one stands for no name.
        let nameless = || pki_types::ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let name = self.name.as_ref().map_or_else(nameless, |name| name.0.clone());
        let connection = UnbufferedClientConnection::new(Arc::clone(&self.config), name)
            .expect("a hello that fits the configuration can be made");
        Engine::client(connection)
    }

    /// The name that the server is asked for.
    #[must_use]
    pub const fn server_name(&self) -> Option<&ServerName> {
        self.name.as_ref()
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("name", &self.name).finish_non_exhaustive()
    }
}
