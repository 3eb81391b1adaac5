//! A responder's word that a certificate is not revoked (OCSP, RFC 6960), which clients get with the certificate
//! (RFC 6066, section 8).
//!
//! It is read as far as it takes to find mistakes: which certificate it is about, what it says and until when. Its
//! signature is the clients' to verify.

use std::path::{Path, PathBuf};

use x509_parser::asn1_rs::{Any, Class, FromDer, Oid, Tag, oid};
use x509_parser::time::ASN1Time;

use super::identity_error::{IdentityError, IdentityWarning};
use crate::files;

/// The configuration key that names the file.
const ROLE: &str = "ocsp";
/// A response with its responder's certificates has a few kilobytes.
const FILE_BYTES_MAX: usize = 64 * 1024;
/// `id-pkix-ocsp-basic`, RFC 6960, section 4.2.1.
const BASIC: Oid<'_> = oid!(1.3.6.1.5.5.7.48.1.1);

/// A response about one certificate.
pub(super) struct OcspResponse {
    path: PathBuf,
    pub(super) der: Vec<u8>,
    status: Status,
    /// Its last second since 1970, and the same for people; some responses have none.
    until: Option<(i64, String)>,
}

/// What is said about a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Good,
    Revoked,
    Unknown,
}

impl OcspResponse {
    /// Reads a response about the certificate with this serial number, in the bytes of its DER.
    pub(super) fn load(path: &Path, serial: &[u8]) -> Result<Self, IdentityError> {
        let unreadable = |error| IdentityError::Unreadable { role: ROLE, path: path.into(), error };
        let der = files::read(path, FILE_BYTES_MAX).map_err(unreadable)?.bytes.to_vec();
        let unfit = |reason| IdentityError::Unfit { role: ROLE, path: path.into(), reason };
        let answers = answers(&der).map_err(unfit)?;
        let Some(answer) = answers.into_iter().find(|answer| answer.serial == serial) else {
            return Err(unfit(format!(
                "the response is not about the certificate, whose serial number is {}; ask for it with `openssl ocsp -cert`",
                shown(serial)
            )));
        };
        let until = answer.until.map(|time| (time.timestamp(), time.to_string()));
        Ok(Self { path: path.into(), status: answer.status, until, der })
    }

    /// What is worth a warning at `now`, seconds since 1970.
    pub(super) fn warning(&self, now: i64) -> Option<IdentityWarning> {
        let path = self.path.clone();
        match (self.status, &self.until) {
            (Status::Revoked, _) => Some(IdentityWarning::OcspNotGood { path, status: "revoked" }),
            (Status::Unknown, _) => Some(IdentityWarning::OcspNotGood { path, status: "unknown" }),
            (Status::Good, Some((until, since))) if now > *until => {
                Some(IdentityWarning::OcspExpired { path, since: since.clone() })
            }
            (Status::Good, _) => None,
        }
    }
}

/// What a response says about one certificate.
struct Answer<'d> {
    serial: &'d [u8],
    status: Status,
    until: Option<ASN1Time>,
}

/// All that an `OCSPResponse` says.
fn answers(der: &[u8]) -> Result<Vec<Answer<'_>>, String> {
    let damaged = || "this is no OCSP response in DER, or it is damaged; `openssl ocsp -respout` writes one".to_owned();
    let mut response = Reader(der).sequence().ok_or_else(damaged)?;
    let status = response.universal(Tag::Enumerated).ok_or_else(damaged)?;
    if let Some(problem) = problem(status) {
        return Err(format!("the responder gave no answer but \"{problem}\"; ask it again"));
    }
    basic_answers(&mut response).ok_or_else(damaged)
}

/// What `OCSPResponseStatus` means, unless it is successful.
fn problem(status: &[u8]) -> Option<&'static str> {
    match status {
        [0] => None,
        [1] => Some("malformedRequest"),
        [2] => Some("internalError"),
        [3] => Some("tryLater"),
        [5] => Some("sigRequired"),
        [6] => Some("unauthorized"),
        _ => Some("unknown status"),
    }
}

/// Reads `ResponseBytes` down to the single responses.
fn basic_answers<'d>(response: &mut Reader<'d>) -> Option<Vec<Answer<'d>>> {
    let mut bytes = response.tagged(0)?.sequence()?;
    let kind = Oid::new(bytes.universal(Tag::Oid)?.into());
    if kind != BASIC {
        return None;
    }
    let mut data = Reader(bytes.universal(Tag::OctetString)?).sequence()?.sequence()?;
    // The version, which is left out where it is the first.
    data.tagged(0);
    // Who the responder is, by name or by key, and when it produced the response.
    data.tagged(1).or_else(|| data.tagged(2))?;
    data.universal(Tag::GeneralizedTime)?;
    let mut singles = data.sequence()?;
    let mut answers = Vec::new();
    while !singles.0.is_empty() {
        answers.push(answer(&mut singles.sequence()?)?);
    }
    Some(answers)
}

/// Reads a `SingleResponse`.
fn answer<'d>(single: &mut Reader<'d>) -> Option<Answer<'d>> {
    let mut id = single.sequence()?;
    id.sequence()?;
    id.universal(Tag::OctetString)?;
    id.universal(Tag::OctetString)?;
    let serial = id.universal(Tag::Integer)?;
    let status = [Status::Good, Status::Revoked, Status::Unknown];
    let status = status.into_iter().zip(0..).find_map(|(status, tag)| single.tagged(tag).map(|_| status))?;
    single.universal(Tag::GeneralizedTime)?;
    let until = match single.tagged(0) {
        Some(until) => Some(ASN1Time::from_der(until.0).ok()?.1),
        None => None,
    };
    Some(Answer { serial, status, until })
}

/// DER that is not yet read.
struct Reader<'d>(&'d [u8]);

impl<'d> Reader<'d> {
    /// The contents of the next value, when its tag is this.
    fn take(&mut self, class: Class, tag: Tag) -> Option<&'d [u8]> {
        let (rest, value) = Any::from_der(self.0).ok()?;
        if value.class() != class || value.tag() != tag {
            return None;
        }
        self.0 = rest;
        Some(value.data)
    }

    fn universal(&mut self, tag: Tag) -> Option<&'d [u8]> {
        self.take(Class::Universal, tag)
    }

    fn sequence(&mut self) -> Option<Self> {
        self.universal(Tag::Sequence).map(Self)
    }

    fn tagged(&mut self, number: u32) -> Option<Self> {
        self.take(Class::ContextSpecific, Tag(number)).map(Self)
    }
}

/// A serial number as openssl prints it.
fn shown(serial: &[u8]) -> String {
    let mut digits = String::new();
    crate::hex::encode_onto(&mut digits, serial);
    digits.to_uppercase()
}
