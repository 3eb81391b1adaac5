//! Opens sealed records where they lie.

use aws_lc_rs::aead::{Aad, Nonce};

use super::form::{EXPLICIT_NONCE_LEN, Form, TAG_LEN};
use super::header::{APPLICATION_DATA, HEADER_LEN, PLAINTEXT_MAX};
use super::keys::Keys;
use super::sealer::{additional_data_12, additional_data_13};
use crate::tls::alert::Fault;

/// What was in a record.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::tls) struct Content<'r> {
    /// Its content type; TLS 1.3 lets the peer seal any.
    pub(in crate::tls) kind: u8,
    pub(in crate::tls) bytes: &'r [u8],
}

/// The receiving direction.
pub(in crate::tls) struct Opener {
    keys: Keys,
    form: Form,
}

impl Opener {
    pub(in crate::tls) const fn new(keys: Keys, form: Form) -> Self {
        Self { keys, form }
    }

    /// Goes on with other keys.
    pub(in crate::tls) fn rekey(&mut self, keys: Keys) {
        self.keys = keys;
    }

    /// Opens a whole record, whose header is found right. The record's bytes are lost.
    pub(in crate::tls) fn open<'r>(&mut self, record: &'r mut [u8]) -> Result<Content<'r>, Fault> {
        let (header, body) = record.split_at_mut(HEADER_LEN);
        let (body, tag) = body.split_last_chunk_mut::<TAG_LEN>().ok_or(Fault::bad_record())?;
        match self.form {
            Form::Tls13 => {
                // The content type counts as well.
                if body.len() > PLAINTEXT_MAX + 1 {
                    return Err(Fault::overflow());
                }
                let aad = additional_data_13(body.len() + TAG_LEN);
                self.unseal(self.keys.nonce(), &aad, tag, body)?;
                unpad(body)
            }
            Form::Tls12 => self.open_12(header, self.keys.nonce(), tag, body),
            Form::Tls12ExplicitNonce => {
                let (explicit, sealed) =
                    body.split_first_chunk_mut::<EXPLICIT_NONCE_LEN>().ok_or(Fault::bad_record())?;
                self.open_12(header, self.keys.nonce_with(*explicit), tag, sealed)
            }
        }
    }

    fn open_12<'r>(
        &mut self,
        header: &[u8],
        nonce: [u8; 12],
        tag: &[u8],
        sealed: &'r mut [u8],
    ) -> Result<Content<'r>, Fault> {
        if sealed.len() > PLAINTEXT_MAX {
            return Err(Fault::overflow());
        }
        let aad = additional_data_12(self.keys.sequence, header[0], [header[1], header[2]], sealed.len());
        self.unseal(nonce, &aad, tag, sealed)?;
        Ok(Content { kind: header[0], bytes: sealed })
    }

    fn unseal(&mut self, nonce: [u8; 12], aad: &[u8], tag: &[u8], sealed: &mut [u8]) -> Result<(), Fault> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.keys
            .key
            .open_in_place_separate_tag(nonce, Aad::from(aad), tag, sealed)
            .map_err(|_| Fault::bad_record())?;
        self.keys.sequence += 1;
        Ok(())
    }
}

/// Finds the content type in front of the padding (RFC 8446, section 5.4).
fn unpad(inner: &[u8]) -> Result<Content<'_>, Fault> {
    let end = match inner.split_last() {
        // Hardly anyone pads.
        Some((&APPLICATION_DATA, content)) => content.len(),
        _ => inner.iter().rposition(|&byte| byte != 0).ok_or(Fault::unexpected())?,
    };
    Ok(Content { kind: inner[end], bytes: &inner[..end] })
}
