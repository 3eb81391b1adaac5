//! What a listener agrees to: versions, cipher suites, key exchange groups, application protocols, server names.

use std::fmt;

use rustls::SupportedProtocolVersion;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::version::{TLS12, TLS13};

use super::groups::Group;
use super::randomness::ThreadRandom;
use super::suites::{self, CipherSuite};

/// A version of TLS that this program speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// TLS 1.2, RFC 5246.
    Tls12,
    /// TLS 1.3, RFC 8446.
    Tls13,
}

impl Version {
    /// Both, the older first.
    pub const ALL: [Self; 2] = [Self::Tls12, Self::Tls13];
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        })
    }
}

/// What a listener agrees to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The oldest version accepted.
    pub version_min: Version,
    /// The newest version offered.
    pub version_max: Version,
    /// The server's order, which rules.
    pub cipher_suites: Vec<CipherSuite>,
    /// What is accepted. Among these the client's order rules.
    pub groups: Vec<Group>,
    /// Application protocols (RFC 7301) in the server's order, which rules. With none, what a client offers is not
    /// heard; with some, a client that offers only others is refused, and one that offers none is not.
    pub alpn: Vec<Box<str>>,
    /// Whether a client that asks for no name of the listener's certificates is refused, and not shown the first.
    pub strict_sni: bool,
}

impl Default for Policy {
    /// TLS 1.2 and 1.3, all cipher suites, the default groups, no application protocol, any server name.
    fn default() -> Self {
        Self {
            version_min: Version::Tls12,
            version_max: Version::Tls13,
            cipher_suites: CipherSuite::all().collect(),
            groups: Group::defaults().collect(),
            alpn: Vec::new(),
            strict_sni: false,
        }
    }
}

impl Policy {
    /// Whether `version` is accepted.
    #[must_use]
    pub fn speaks(&self, version: Version) -> bool {
        (self.version_min..=self.version_max).contains(&version)
    }

    /// The library's form of the versions, the newest first.
    pub(super) fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        [(Version::Tls13, &TLS13), (Version::Tls12, &TLS12)]
            .into_iter()
            .filter(|(version, _)| self.speaks(*version))
            .map(|(_, supported)| supported)
            .collect()
    }

    /// rustls's provider on aws-lc-rs with the policy's suites and groups, and the thread's own randomness.
    /// `record_limit` lowers how many records a key may seal.
    pub(super) fn provider(&self, record_limit: Option<u64>) -> CryptoProvider {
        let suites = self.cipher_suites.iter().map(|suite| suites::limited(*suite, record_limit));
        let kx_groups = self.groups.iter().map(|group| group.supported());
        CryptoProvider {
            cipher_suites: suites.collect(),
            kx_groups: kx_groups.collect(),
            secure_random: &ThreadRandom,
            ..aws_lc_rs::default_provider()
        }
    }
}
