//! Where the parts of a sealed record are.

use super::header::HEADER_LEN;
use crate::tls::policy::Version;

/// The tag of each AEAD that TLS uses here.
pub(super) const TAG_LEN: usize = 16;
/// The part of the nonce that TLS 1.2 writes out with AES-GCM (RFC 5288, section 3).
pub(super) const EXPLICIT_NONCE_LEN: usize = 8;

/// How a version and its cipher lay out a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tls) enum Form {
    /// TLS 1.3: the content type is behind the content, sealed with it.
    Tls13,
    /// TLS 1.2 with ChaCha20-Poly1305: the nonce follows from the sequence number (RFC 7905, section 2).
    Tls12,
    /// TLS 1.2 with AES-GCM: a part of the nonce is in front of the content.
    Tls12ExplicitNonce,
}

impl Form {
    pub(in crate::tls) const fn version(self) -> Version {
        match self {
            Self::Tls13 => Version::Tls13,
            Self::Tls12 | Self::Tls12ExplicitNonce => Version::Tls12,
        }
    }

    /// Bytes between the header and the sealed content.
    pub(super) const fn prefix_len(self) -> usize {
        match self {
            Self::Tls13 | Self::Tls12 => 0,
            Self::Tls12ExplicitNonce => EXPLICIT_NONCE_LEN,
        }
    }

    /// Bytes behind the sealed content.
    pub(super) const fn suffix_len(self) -> usize {
        match self {
            Self::Tls13 => 1 + TAG_LEN,
            Self::Tls12 | Self::Tls12ExplicitNonce => TAG_LEN,
        }
    }

    /// Bytes that a record has besides its content.
    pub(in crate::tls) const fn overhead(self) -> usize {
        HEADER_LEN + self.prefix_len() + self.suffix_len()
    }
}
