//! Which cipher suites and key exchange groups a listener offers, in which order.

use rustls::crypto::aws_lc_rs::cipher_suite::{
    TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, TLS13_AES_128_GCM_SHA256,
    TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::crypto::{CipherSuiteCommon, CryptoProvider, aws_lc_rs};
use rustls::{SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite};

/// Suites in the server's order, which rules.
///
/// TLS 1.3 rekeys itself, so the fastest comes first. TLS 1.2 cannot: rustls ends a connection that has sent 2^24
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

/// rustls's provider on aws-lc-rs with [`SUITES`] and its default groups, X25519MLKEM768 first.
pub(super) fn provider(record_limit: Option<u64>) -> CryptoProvider {
    let cipher_suites = match record_limit {
        None => SUITES.to_vec(),
        Some(limit) => SUITES.iter().map(|suite| limited(*suite, limit)).collect(),
    };
    CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() }
}

/// A copy of `suite` whose keys are spent after at most `limit` records. rustls wants suites that live for ever, so
/// each copy is leaked: this is for tests and rehearsals.
fn limited(suite: SupportedCipherSuite, limit: u64) -> SupportedCipherSuite {
    let common = |common: &CipherSuiteCommon| CipherSuiteCommon {
        suite: common.suite,
        hash_provider: common.hash_provider,
        confidentiality_limit: limit.min(common.confidentiality_limit),
    };
    match suite {
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
