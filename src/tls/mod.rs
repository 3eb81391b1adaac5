//! TLS: the only place that names rustls and does cryptography.
//!
//! An [`Identity`] is a certificate chain and its key, read and checked once; [`Credentials`] are all that one listener
//! has read from files, with [`Clients`] for those it lets in. An [`Acceptor`] belongs to one shard and
//! one listener; it parses the key again and owns its own configuration and ticket keys, so that a handshake touches
//! no memory that another shard writes. A [`Connector`] is its counterpart towards one server, with
//! [`BackendCredentials`] for [`Credentials`] and [`Servers`] for [`Clients`]. An [`Engine`] is one connection, in
//! either [`Role`]: ciphertext in, plaintext and ready ciphertext out.
//!
//! An engine has two lives. `handshake.rs` shows rustls one record at a time until hands are shaken. Then rustls gives
//! the keys away and is freed but for its key schedule, and `traffic.rs` goes on at the next record of either direction:
//! it says what records mean, `record` opens and seals them in place, and `key_schedule.rs` asks rustls for the next
//! keys and gives it the tickets of servers.
//!
//! Nothing here knows a file descriptor, a timer, a thread or a log. The one clock is the wall clock, which a
//! handshake needs to date its tickets; tests replace it through [`Options`]. No secret and no payload byte appears in
//! a `Debug` or `Display` text; a [`KeyLogFile`], which is for debugging alone, is the one way out for secrets.
//!
//! Read `tests/tls/traffic.rs` first, and for the record layer `tests/tls/records.rs`.

mod acceptor;
mod alert;
mod authorities;
mod certificate;
mod client_names;
mod client_rules;
mod client_verifier;
mod clients;
mod connection;
mod connector;
mod credentials;
mod engine;
mod failure;
mod first_bytes;
mod groups;
mod handshake;
mod hello;
mod identity_error;
mod key_log;
mod key_schedule;
mod messages;
mod ocsp;
mod overheard;
mod patience;
mod pem;
mod policy;
mod randomness;
mod record;
mod resolver;
mod server_verifier;
mod servers;
mod sessions;
mod suites;
mod summary;
mod ticket_secret;
mod tickets;
mod traffic;

pub use acceptor::{Acceptor, Options, SetupError, unix_time};
pub use authorities::TrustError;
pub use certificate::{CertificateFacts, Identity, Outline};
pub use client_names::ClientNames;
pub use client_rules::ClientRules;
pub use clients::{ClientAuth, Clients, Coverage};
pub use connection::Role;
pub use connector::{Connector, ServerName};
pub use credentials::Credentials;
pub use engine::{Engine, OpenStatus, Opened};
pub use failure::{Failure, InWords};
pub use first_bytes::{is_plaintext_reply, is_unfinished_record, looks_like_plaintext};
pub use groups::Group;
pub use identity_error::{IdentityError, IdentityWarning};
pub use key_log::KeyLogFile;
pub use policy::{Policy, Version};
pub use randomness::{random_seed, warm_up};
pub use servers::{BackendCredentials, ServerAuth, Servers};
pub use suites::CipherSuite;
pub use summary::{HandshakeSort, Summary};
pub use ticket_secret::TicketSecret;
pub use tickets::TicketKeys;
