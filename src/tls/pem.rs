//! PEM files: what sections they hold, and why one that should hold something does not.

use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject, SectionKind};
use zeroize::Zeroizing;

use super::identity_error::IdentityError;
use crate::files::{self, Contents};

/// How a private key is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyFormat {
    /// RFC 5958: any kind of key.
    Pkcs8,
    /// RFC 8017: RSA.
    Pkcs1,
    /// RFC 5915: elliptic curves.
    Sec1,
}

/// What stands between a BEGIN and its END, decoded.
struct Section {
    kind: SectionKind,
    der: Zeroizing<Vec<u8>>,
}

/// A file in memory, wiped when dropped.
pub(super) struct PemFile {
    /// The configuration key that names it, for errors.
    role: &'static str,
    path: PathBuf,
    text: Zeroizing<Vec<u8>>,
    mode: u32,
}

impl PemFile {
    pub(super) fn read(path: &Path, role: &'static str) -> Result<Self, IdentityError> {
        Self::read_at_most(path, role, FILE_BYTES_MAX)
    }

    /// As [`PemFile::read`], for what may be long: revocation lists.
    pub(super) fn read_large(path: &Path, role: &'static str) -> Result<Self, IdentityError> {
        Self::read_at_most(path, role, LARGE_FILE_BYTES_MAX)
    }

    fn read_at_most(path: &Path, role: &'static str, most: usize) -> Result<Self, IdentityError> {
        let unreadable = |error| IdentityError::Unreadable { role, path: path.into(), error };
        let Contents { bytes: text, mode } = files::read(path, most).map_err(unreadable)?;
        if text.iter().all(u8::is_ascii_whitespace) {
            return Err(IdentityError::Empty { role, path: path.into() });
        }
        Ok(Self { role, path: path.into(), text, mode })
    }

    /// Whether others than the file's owner and group may read or change it.
    pub(super) const fn is_open_to_all(&self) -> bool {
        self.mode & 0o006 != 0
    }

    /// All certificates in the file, at least one, in its order.
    pub(super) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
        let certificates: Vec<_> = self
            .sections()?
            .into_iter()
            .filter(|section| section.kind == SectionKind::Certificate)
            .map(|section| CertificateDer::from(section.der.to_vec()))
            .collect();
        if certificates.is_empty() {
            return Err(IdentityError::NoCertificate { path: self.path.clone(), found: self.labels() });
        }
        Ok(certificates)
    }

    /// The one private key in the file.
    pub(super) fn private_key(&self) -> Result<(KeyFormat, Zeroizing<Vec<u8>>), IdentityError> {
        // PKCS#8 has a label of its own for encrypted keys, the older formats a header (RFC 1421) in front of the key.
        let encrypted = self.labels().iter().any(|label| label == "ENCRYPTED PRIVATE KEY")
            || self.lines().any(|line| line.starts_with(b"Proc-Type:") && line.ends_with(b"ENCRYPTED"));
        if encrypted {
            return Err(IdentityError::KeyEncrypted { path: self.path.clone() });
        }
        let mut keys: Vec<_> =
            self.sections()?.into_iter().filter_map(|section| Some((key_format(section.kind)?, section.der))).collect();
        if keys.len() > 1 {
            return Err(IdentityError::SeveralKeys { path: self.path.clone(), count: keys.len() });
        }
        keys.pop().ok_or_else(|| IdentityError::NoKey { path: self.path.clone(), found: self.labels() })
    }

    /// The contents of all sections of one kind, in the file's order.
    pub(super) fn sections_of(&self, kind: SectionKind) -> Result<Vec<Vec<u8>>, IdentityError> {
        let sections = self.sections()?.into_iter().filter(|section| section.kind == kind);
        Ok(sections.map(|section| section.der.to_vec()).collect())
    }

    /// The whole file, when it is not PEM but DER.
    pub(super) fn der(&self) -> Option<Vec<u8>> {
        // DER starts with the tag of a sequence and its length, of one byte that says it or of one that says how many.
        let is_der = match self.text[..] {
            [0x30, 0x81..=0x83, ..] => true,
            [0x30, length @ 2..=0x7f, ref rest @ ..] => rest.len() == usize::from(length),
            _ => false,
        };
        is_der.then(|| self.text.to_vec())
    }

    fn sections(&self) -> Result<Vec<Section>, IdentityError> {
        let not_pem = |reason: String| IdentityError::NotPem { role: self.role, path: self.path.clone(), reason };
        if let Some(reason) = self.other_form() {
            return Err(not_pem(reason.into()));
        }
        <(SectionKind, Vec<u8>)>::pem_slice_iter(&self.text)
            .map(|section| match section {
                Ok((kind, der)) => Ok(Section { kind, der: Zeroizing::new(der) }),
                Err(error) => {
                    let damage = damage(&error);
                    Err(not_pem(format!("the PEM is damaged ({damage}); it must be complete, from BEGIN to END")))
                }
            })
            .collect()
    }

    /// What the file is instead of PEM that can be read, where that can be seen.
    fn other_form(&self) -> Option<&'static str> {
        if self.der().is_some() {
            return Some(
                "this is DER; it must be PEM: convert it with `openssl x509` or `openssl pkey` and -inform DER, or with \
                 `openssl pkcs12` if it is PKCS#12",
            );
        }
        let is_begin = |line: &[u8]| line.starts_with(b"-----BEGIN ");
        // In UTF-16 none of the lines can be seen.
        let marked = self.text.starts_with(b"\xff\xfe")
            || self.text.starts_with(b"\xfe\xff")
            || self.lines().any(|line| line.strip_prefix(b"\xef\xbb\xbf").is_some_and(is_begin));
        if marked {
            return Some(
                "it has a byte order mark, as some programs put before text; it must be PEM: save it as plain ASCII",
            );
        }
        let mut lines = self.text.split(|&byte| byte == b'\n');
        let indented = lines.any(|line| !is_begin(line) && is_begin(line.trim_ascii_start()));
        indented.then_some("a line with -----BEGIN has space before it; in PEM each such line begins with the dashes")
    }

    /// The label of each section, known or not.
    fn labels(&self) -> Vec<String> {
        self.lines()
            .filter_map(|line| line.strip_prefix(b"-----BEGIN ")?.strip_suffix(b"-----"))
            .map(|name| label(name).unwrap_or("something else").to_owned())
            .collect()
    }

    fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii)
    }
}

/// No section that anybody writes has a longer name.
const LABEL_BYTES_MAX: usize = 40;
/// A chain of ten certificates has about 20 KB.
const FILE_BYTES_MAX: usize = 1024 * 1024;
/// A revocation list has about 40 bytes for each certificate that is revoked.
const LARGE_FILE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What is wrong with PEM, without the lines that are: one that lacks its line breaks holds the key.
fn damage(error: &pem::Error) -> String {
    if let pem::Error::MissingSectionEnd { end_marker } = error {
        match label(end_marker) {
            Some(label) => format!("-----END {label}----- is missing"),
            None => "the END of a section is missing".to_owned(),
        }
    } else if let pem::Error::IllegalSectionStart { .. } = error {
        "a line with -----BEGIN goes on behind its label".to_owned()
    } else if let pem::Error::Base64Decode(_) = error {
        "what stands between BEGIN and END is not base64".to_owned()
    } else {
        error.to_string()
    }
}

/// The name of a section, if it looks like one: capitals, digits and blanks.
fn label(name: &[u8]) -> Option<&str> {
    let fits = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b' ';
    if name.len() <= LABEL_BYTES_MAX && name.iter().all(fits) { std::str::from_utf8(name).ok() } else { None }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the sections of a PEM file are an open list; three are keys")]
const fn key_format(kind: SectionKind) -> Option<KeyFormat> {
    match kind {
        SectionKind::PrivateKey => Some(KeyFormat::Pkcs8),
        SectionKind::RsaPrivateKey => Some(KeyFormat::Pkcs1),
        SectionKind::EcPrivateKey => Some(KeyFormat::Sec1),
        _ => None,
    }
}
