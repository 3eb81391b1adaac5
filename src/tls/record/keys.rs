//! One direction's key and the nonces that go with it.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Algorithm, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, UnboundKey};
use rustls::ConnectionTrafficSecrets;
use zeroize::Zeroizing;

use super::form::EXPLICIT_NONCE_LEN;

/// The part of a nonce that is never on the wire.
const SALT_LEN: usize = NONCE_LEN - EXPLICIT_NONCE_LEN;

/// The key of one direction, and how many records it has protected.
pub(in crate::tls) struct Keys {
    pub(super) key: LessSafeKey,
    iv: Zeroizing<[u8; NONCE_LEN]>,
    /// The number of the next record. It cannot come to its end: 2^64 records of one byte would fill a link of 100 Gbit/s
    /// for a thousand years and more.
    pub(super) sequence: u64,
}

impl Keys {
    /// Panics when `key` has not the algorithm's length.
    pub(in crate::tls) fn new(algorithm: &'static Algorithm, key: &[u8], iv: [u8; NONCE_LEN], sequence: u64) -> Self {
        let key = UnboundKey::new(algorithm, key).expect("the key has the algorithm's length");
        Self { key: LessSafeKey::new(key), iv: Zeroizing::new(iv), sequence }
    }

    /// What the library has extracted from its key schedule; none where that is of a kind that did not exist when this
    /// was written.
    pub(in crate::tls) fn extracted((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Option<Self> {
        let (algorithm, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return None,
        };
        Some(Self::new(algorithm, key.as_ref(), iv.as_ref().try_into().ok()?, sequence))
    }

    /// Whether TLS 1.2 writes a part of the nonce out.
    pub(in crate::tls) fn has_explicit_nonce(&self) -> bool {
        self.key.algorithm() != &CHACHA20_POLY1305
    }

    /// The nonce of the next record (RFC 8446, section 5.3; RFC 7905, section 2). TLS 1.2 leaves the explicit nonces of
    /// AES-GCM to the sender, and the library has begun with these.
    pub(super) fn nonce(&self) -> [u8; NONCE_LEN] {
        let mut nonce = *self.iv;
        for (byte, sequence) in nonce[SALT_LEN..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= sequence;
        }
        nonce
    }

    /// The nonce of a record that has a part of it written out.
    pub(super) fn nonce_with(&self, explicit: [u8; EXPLICIT_NONCE_LEN]) -> [u8; NONCE_LEN] {
        let mut nonce = *self.iv;
        nonce[SALT_LEN..].copy_from_slice(&explicit);
        nonce
    }
}
