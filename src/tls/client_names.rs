//! The names in a client's certificate, for whoever has to tell clients apart.

use x509_parser::certificate::X509Certificate;

use super::client_rules::{common_names, dns_names, uris};

/// The names of a client whose certificate was verified. Names with a NUL byte are left out: they are forged for readers
/// that stop there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientNames {
    /// Common names of the subject, in the certificate's order.
    pub common_names: Vec<Box<str>>,
    /// Alternative names of the DNS kind.
    pub dns_names: Vec<Box<str>>,
    /// Alternative names of the URI kind.
    pub uris: Vec<Box<str>>,
}

impl ClientNames {
    pub(super) fn of(certificate: &X509Certificate<'_>) -> Self {
        Self {
            common_names: common_names(certificate).map(Into::into).collect(),
            dns_names: dns_names(certificate).map(Into::into).collect(),
            uris: uris(certificate).map(Into::into).collect(),
        }
    }
}
