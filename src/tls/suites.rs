//! Cipher suites by their names in the IANA registry, in the order that serves Redis best.

use std::fmt;

use rustls::crypto::CipherSuiteCommon;
use rustls::crypto::aws_lc_rs::cipher_suite::{
    TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, TLS13_AES_128_GCM_SHA256,
    TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::{SignatureAlgorithm, SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite};

use super::policy::Version;

/// Suites in the server's order, which rules.
///
/// TLS 1.3 rekeys itself, so the fastest comes first. TLS 1.2 cannot: a connection ends when it has sent 2^24
/// records under one AES-GCM key, minutes under load, and ChaCha20-Poly1305 has no such limit.
const SUITES: [SupportedCipherSuite; 9] = [
    TLS13_AES_128_GCM_SHA256,
    TLS13_AES_256_GCM_SHA384,
    TLS13_CHACHA20_POLY1305_SHA256,
    TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
];

/// A cipher suite of the TLS library.
#[derive(Clone, Copy)]
pub struct CipherSuite(SupportedCipherSuite);

impl CipherSuite {
    /// All suites there are, in the order of a listener that names none.
    pub fn all() -> impl Iterator<Item = Self> {
        SUITES.into_iter().map(Self)
    }

    /// Its name in the IANA registry.
    #[must_use]
    pub fn name(self) -> &'static str {
        name_of(self.code())
    }

    /// The one version that has it.
    #[must_use]
    pub fn version(self) -> Version {
        match self.0 {
            SupportedCipherSuite::Tls12(_) => Version::Tls12,
            SupportedCipherSuite::Tls13(_) => Version::Tls13,
        }
    }

    /// Whether it serves a certificate whose key is RSA, or one whose key is ECDSA or Ed25519. Those of TLS 1.3 serve
    /// each kind; one of TLS 1.2 has its kind in its name, where Ed25519 counts as ECDSA (RFC 8422, section 5.10).
    pub(super) fn fits(self, is_rsa: bool) -> bool {
        let key = if is_rsa { SignatureAlgorithm::RSA } else { SignatureAlgorithm::ECDSA };
        self.0.usable_for_signature_algorithm(key)
    }

    fn code(self) -> u16 {
        u16::from(self.0.suite())
    }
}

impl PartialEq for CipherSuite {
    fn eq(&self, other: &Self) -> bool {
        self.code() == other.code()
    }
}

impl Eq for CipherSuite {}

impl fmt::Debug for CipherSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The [TLS Cipher Suites registry](https://www.iana.org/assignments/tls-parameters/), as far as rustls goes.
pub(super) fn name_of(suite: u16) -> &'static str {
    match suite {
        0x1301 => "TLS_AES_128_GCM_SHA256",
        0x1302 => "TLS_AES_256_GCM_SHA384",
        0x1303 => "TLS_CHACHA20_POLY1305_SHA256",
        0xc02b => "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        0xc02c => "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        0xcca9 => "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        0xc02f => "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        0xc030 => "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        0xcca8 => "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        _ => "unknown",
    }
}

/// The library's form of `suite`. With a `limit` it is a copy whose keys are spent after at most so many records.
/// rustls wants suites that live for ever, so each copy is leaked: this is for tests and rehearsals.
pub(super) fn limited(suite: CipherSuite, limit: Option<u64>) -> SupportedCipherSuite {
    let Some(limit) = limit else { return suite.0 };
    let common = |common: &CipherSuiteCommon| CipherSuiteCommon {
        suite: common.suite,
        hash_provider: common.hash_provider,
        confidentiality_limit: limit.min(common.confidentiality_limit),
    };
    match suite.0 {
        SupportedCipherSuite::Tls12(suite) => SupportedCipherSuite::Tls12(Box::leak(Box::new(Tls12CipherSuite {
            common: common(&suite.common),
            prf_provider: suite.prf_provider,
            kx: suite.kx,
            sign: suite.sign,
            aead_alg: suite.aead_alg,
        }))),
        SupportedCipherSuite::Tls13(suite) => SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
            common: common(&suite.common),
            hkdf_provider: suite.hkdf_provider,
            aead_alg: suite.aead_alg,
            quic: suite.quic,
        }))),
    }
}
