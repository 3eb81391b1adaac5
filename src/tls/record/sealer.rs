//! Seals plaintext into records, from where it lies to where it is sent from.

use aws_lc_rs::aead::{Aad, Nonce};

use super::form::Form;
use super::header::{APPLICATION_DATA, HEADER_LEN, PLAINTEXT_MAX};
use super::keys::Keys;

/// TLS 1.2 on the record layer, which TLS 1.3 claims as well (RFC 8446, section 5.1).
const VERSION: [u8; 2] = [3, 3];

/// The sending direction.
pub(in crate::tls) struct Sealer {
    keys: Keys,
    form: Form,
    /// How many records one key may seal.
    records_max: u64,
}

impl Sealer {
    pub(in crate::tls) const fn new(keys: Keys, form: Form, records_max: u64) -> Self {
        Self { keys, form, records_max }
    }

    /// Goes on with other keys.
    pub(in crate::tls) fn rekey(&mut self, keys: Keys) {
        self.keys = keys;
    }

    /// How many records the key may still seal.
    pub(in crate::tls) const fn records_left(&self) -> u64 {
        self.records_max.saturating_sub(self.keys.sequence)
    }

    /// How many records a key may seal in its life.
    pub(in crate::tls) const fn records_max(&self) -> u64 {
        self.records_max
    }

    /// Whether the key has sealed nothing yet.
    pub(in crate::tls) const fn is_fresh(&self) -> bool {
        self.keys.sequence == 0
    }

    /// The length of `plaintext_len` bytes as one record.
    pub(in crate::tls) const fn sealed_len(&self, plaintext_len: usize) -> usize {
        plaintext_len + self.form.overhead()
    }

    /// Seals `content` of this type as one record at the front of `out`, and gives its length.
    ///
    /// # Panics
    /// When the content is more than a record holds, or the room less than [`Sealer::sealed_len`].
    pub(in crate::tls) fn seal(&mut self, kind: u8, content: &[u8], out: &mut [u8]) -> usize {
        assert!(content.len() <= PLAINTEXT_MAX, "{} bytes are more than a record holds", content.len());
        let record_len = self.sealed_len(content.len());
        let (header, body) = out[..record_len].split_at_mut(HEADER_LEN);
        let (prefix, body) = body.split_at_mut(self.form.prefix_len());
        let (sealed, suffix) = body.split_at_mut(content.len());
        let nonce = self.keys.nonce();
        prefix.copy_from_slice(&nonce[nonce.len() - prefix.len()..]);
        let body_len = be16(record_len - HEADER_LEN);
        if self.form == Form::Tls13 {
            header.copy_from_slice(&[APPLICATION_DATA, VERSION[0], VERSION[1], body_len[0], body_len[1]]);
            let aad = additional_data_13(record_len - HEADER_LEN);
            self.encrypt(nonce, &aad, content, sealed, &[kind], suffix);
        } else {
            header.copy_from_slice(&[kind, VERSION[0], VERSION[1], body_len[0], body_len[1]]);
            let aad = additional_data_12(self.keys.sequence, kind, VERSION, content.len());
            self.encrypt(nonce, &aad, content, sealed, &[], suffix);
        }
        self.keys.sequence += 1;
        record_len
    }

    fn encrypt(&self, nonce: [u8; 12], aad: &[u8], from: &[u8], to: &mut [u8], extra: &[u8], suffix: &mut [u8]) {
        self.keys
            .key
            .seal_out_of_place_scatter(Nonce::assume_unique_for_key(nonce), Aad::from(aad), from, to, extra, suffix)
            .expect("only wrong lengths fail, and these fit");
    }
}

/// What a record's tag covers besides its content (RFC 8446, section 5.2).
pub(super) const fn additional_data_13(body_len: usize) -> [u8; HEADER_LEN] {
    let len = be16(body_len);
    [APPLICATION_DATA, VERSION[0], VERSION[1], len[0], len[1]]
}

/// The same in TLS 1.2 (RFC 5246, section 6.2.3.3), where the length is the content's.
pub(super) fn additional_data_12(sequence: u64, kind: u8, version: [u8; 2], content_len: usize) -> [u8; 13] {
    let mut data = [0; 13];
    data[..8].copy_from_slice(&sequence.to_be_bytes());
    data[8] = kind;
    data[9..11].copy_from_slice(&version);
    data[11..].copy_from_slice(&be16(content_len));
    data
}

#[expect(clippy::cast_possible_truncation, reason = "the length of a record fits 16 bits, which its header has for it")]
const fn be16(len: usize) -> [u8; 2] {
    (len as u16).to_be_bytes()
}
