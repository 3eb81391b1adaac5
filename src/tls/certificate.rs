//! A certificate chain and its private key, read from PEM files and checked once, with an error for each way that
//! people get them wrong.

use std::fmt;
use std::path::{Path, PathBuf};

use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer, SubjectPublicKeyInfoDer,
};
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::oid_registry::OID_PKCS1_RSAENCRYPTION;
use zeroize::Zeroizing;

use super::identity_error::{IdentityError, IdentityWarning};
use super::ocsp::OcspResponse;
use super::pem::{KeyFormat, PemFile};
use crate::hex;

/// The longest handshake message that rustls takes. OpenSSL takes certificates of 100 KiB (see
/// `SSL_CTX_set_max_cert_list`).
const MESSAGE_BYTES_MAX: usize = 65_535;

/// A certificate chain and the private key of its first certificate, known to belong together.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: Key,
    certificate_path: PathBuf,
    private_key_path: PathBuf,
    /// Of each certificate, in the order of the chain.
    validity: Vec<Validity>,
    /// The names it is for, in lower case, each once.
    names: Vec<Box<str>>,
    /// Of the first, in hexadecimal digits.
    serial: String,
    is_rsa: bool,
    key_open_to_all: bool,
    /// Position in the file, from one, of the first certificate that its predecessor's issuer is not.
    stray: Option<usize>,
    ocsp: Option<OcspResponse>,
}

/// A key fits one certificate alone, so the chain tells.
impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.chain == other.chain
    }
}

/// What an operator wants to know of an [`Identity`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// The file of the chain.
    pub certificate: PathBuf,
    /// The file of the key.
    pub private_key: PathBuf,
    /// The first of its names, or its subject.
    pub name: String,
    /// How many there are in the chain.
    pub certificates: usize,
    /// From when on the whole chain is valid, in seconds since 1970.
    pub not_before_unix: i64,
    /// Until when it is.
    pub not_after_unix: i64,
    /// Whether everybody on this machine may read or change the key.
    pub key_open_to_all: bool,
}

/// What operators watch of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The file it was read from.
    pub path: PathBuf,
    /// The first of its names, or its subject.
    pub name: String,
    /// Its serial number in hexadecimal digits.
    pub serial: String,
    /// Seconds since 1970 after which it has expired.
    pub not_after_unix: i64,
    der: Vec<u8>,
}

impl CertificateFacts {
    /// Whether the file still begins with this certificate. It reads the file.
    #[must_use]
    pub fn matches_disk(&self) -> bool {
        let file = PemFile::read(&self.path, "certificate").and_then(|file| file.certificates());
        file.is_ok_and(|chain| chain.first().is_some_and(|own| **own == *self.der))
    }
}

struct Key {
    format: KeyFormat,
    der: Zeroizing<Vec<u8>>,
}

struct Validity {
    subject: String,
    not_before_unix: i64,
    not_after_unix: i64,
    not_before: String,
    not_after: String,
}

impl Identity {
    /// Reads and checks both files, which may be one and the same.
    ///
    /// # Errors
    /// When a file cannot be read or does not hold what it should, or the two do not belong together.
    pub fn load(certificate: &Path, private_key: &Path) -> Result<Self, IdentityError> {
        let chain_file = PemFile::read(certificate, "certificate")?;
        let key_file = PemFile::read(private_key, "private_key")?;
        let chain = chain_file.certificates()?;
        let (format, der) = key_file.private_key()?;
        let key = Key { format, der };
        let spki = key.public().map_err(|reason| IdentityError::KeyUnusable { path: private_key.into(), reason })?;

        let parsed = chain
            .iter()
            .enumerate()
            .map(|(index, der)| {
                x509_parser::parse_x509_certificate(der).map(|(_, parsed)| parsed).map_err(|error| {
                    IdentityError::CertificateUnreadable {
                        path: certificate.into(),
                        position: index + 1,
                        reason: error.to_string(),
                    }
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        check_key(&parsed, &spki, certificate, private_key)?;
        let stray = check_order(&parsed, certificate)?;
        let validity = parsed.iter().map(Validity::of).collect();
        let names = parsed.first().map(names).unwrap_or_default();
        let serial = parsed.first().map(serial).unwrap_or_default();
        let is_rsa = parsed.iter().take(1).any(|own| own.public_key().algorithm.algorithm == OID_PKCS1_RSAENCRYPTION);
        Ok(Self {
            chain,
            key,
            certificate_path: certificate.into(),
            private_key_path: private_key.into(),
            validity,
            names,
            serial,
            is_rsa,
            key_open_to_all: key_file.is_open_to_all(),
            stray,
            ocsp: None,
        })
    }

    /// Reads the OCSP response about its first certificate, which clients then get with it.
    ///
    /// # Errors
    /// When the file cannot be read, or holds no answer about the certificate.
    pub fn with_ocsp(mut self, response: &Path) -> Result<Self, IdentityError> {
        let own = self.chain.first().map(|own| x509_parser::parse_x509_certificate(own));
        let Some(Ok((_, own))) = own else { unreachable!("a chain has been parsed, and is not empty") };
        self.ocsp = Some(OcspResponse::load(response, own.raw_serial())?);
        Ok(self)
    }

    /// What is worth a warning at `unix_time`, seconds since 1970: the identity works, but perhaps not as meant.
    #[must_use]
    pub fn warnings(&self, unix_time: u64) -> Vec<IdentityWarning> {
        let now = i64::try_from(unix_time).unwrap_or(i64::MAX);
        let mut warnings = Vec::new();
        for (index, validity) in self.validity.iter().enumerate() {
            let path = self.certificate_path.clone();
            let (position, subject) = (index + 1, validity.subject.clone());
            if now > validity.not_after_unix {
                let since = validity.not_after.clone();
                warnings.push(IdentityWarning::Expired { path, position, subject, since });
            } else if now < validity.not_before_unix {
                let until = validity.not_before.clone();
                warnings.push(IdentityWarning::NotYetValid { path, position, subject, until });
            }
        }
        // The message that shows it to clients of TLS 1.3: RFC 8446, section 4.4.2, without extensions.
        let bytes = 4 + self.chain.iter().map(|certificate| 3 + certificate.len() + 2).sum::<usize>();
        if bytes > MESSAGE_BYTES_MAX {
            let (path, count) = (self.certificate_path.clone(), self.chain.len());
            warnings.push(IdentityWarning::LongChain { path, count, bytes });
        }
        if let Some(position) = self.stray {
            warnings.push(IdentityWarning::StrayCertificate { path: self.certificate_path.clone(), position });
        }
        warnings.extend(self.ocsp.as_ref().and_then(|response| response.warning(now)));
        warnings.extend(self.exposed());
        warnings
    }

    /// What is said of the key when everybody on this machine may read or change its file.
    pub(super) fn exposed(&self) -> Option<IdentityWarning> {
        self.key_open_to_all.then(|| IdentityWarning::KeyOpenToAll { path: self.private_key_path.clone() })
    }

    /// What an operator wants to know of it.
    #[must_use]
    pub fn outline(&self) -> Outline {
        let own = self.validity.first();
        let name = self.names.first().map(ToString::to_string).or_else(|| own.map(|own| own.subject.clone()));
        Outline {
            certificate: self.certificate_path.clone(),
            private_key: self.private_key_path.clone(),
            name: name.unwrap_or_default(),
            certificates: self.chain.len(),
            not_before_unix: self.validity.iter().map(|one| one.not_before_unix).max().unwrap_or(i64::MAX),
            not_after_unix: self.validity.iter().map(|one| one.not_after_unix).min().unwrap_or(i64::MIN),
            key_open_to_all: self.key_open_to_all,
        }
    }

    /// The facts about its first certificate that operators watch.
    #[must_use]
    pub fn facts(&self) -> CertificateFacts {
        let own = self.validity.first();
        let name = self.names.first().map(ToString::to_string);
        CertificateFacts {
            path: self.certificate_path.clone(),
            name: name.or_else(|| own.map(|own| own.subject.clone())).unwrap_or_default(),
            serial: self.serial.clone(),
            not_after_unix: own.map_or(0, |own| own.not_after_unix),
            der: self.chain.first().map(|own| own.to_vec()).unwrap_or_default(),
        }
    }

    pub(super) fn certificate_path(&self) -> &Path {
        &self.certificate_path
    }

    /// The names it is for, in lower case, each once; one may begin with a wildcard.
    pub(super) fn names(&self) -> &[Box<str>] {
        &self.names
    }

    pub(super) const fn is_rsa(&self) -> bool {
        self.is_rsa
    }

    /// The chain with a freshly parsed key, which shares no memory with any other.
    pub(super) fn certified_key(&self) -> Result<CertifiedKey, String> {
        let key = any_supported_type(&self.key.der()).map_err(reason)?;
        let ocsp = self.ocsp.as_ref().map(|response| response.der.clone());
        Ok(CertifiedKey { ocsp, ..CertifiedKey::new(self.chain.clone(), key) })
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("certificate", &self.certificate_path)
            .field("private_key", &self.private_key_path)
            .field("certificates", &self.chain.len())
            .finish_non_exhaustive()
    }
}

impl Key {
    fn der(&self) -> PrivateKeyDer<'_> {
        match self.format {
            KeyFormat::Pkcs8 => PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(&self.der[..])),
            KeyFormat::Pkcs1 => PrivateKeyDer::Pkcs1(PrivatePkcs1KeyDer::from(&self.der[..])),
            KeyFormat::Sec1 => PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(&self.der[..])),
        }
    }

    fn public(&self) -> Result<SubjectPublicKeyInfoDer<'static>, String> {
        let key = any_supported_type(&self.der()).map_err(reason)?;
        Ok(key.public_key().ok_or("its public half is unknown")?.into_owned())
    }
}

impl Validity {
    fn of(certificate: &X509Certificate<'_>) -> Self {
        let validity = certificate.validity();
        Self {
            subject: certificate.subject().to_string(),
            not_before_unix: validity.not_before.timestamp(),
            not_after_unix: validity.not_after.timestamp(),
            not_before: validity.not_before.to_string(),
            not_after: validity.not_after.to_string(),
        }
    }
}

/// What the library says of a key, without the words that it puts before all that it has no kind of error for.
fn reason(error: rustls::Error) -> String {
    if let rustls::Error::General(reason) = error { reason } else { error.to_string() }
}

/// The serial number in hexadecimal digits.
fn serial(certificate: &X509Certificate<'_>) -> String {
    let mut digits = String::new();
    hex::encode_onto(&mut digits, certificate.raw_serial());
    digits
}

/// The host names of a certificate: its alternative names, or, as very old certificates have none, its common names.
fn names(certificate: &X509Certificate<'_>) -> Vec<Box<str>> {
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let alternative = alternative.iter().flat_map(|extension| &extension.value.general_names);
    let mut names: Vec<&str> =
        alternative.filter_map(|name| if let GeneralName::DNSName(name) = name { Some(*name) } else { None }).collect();
    if names.is_empty() {
        names.extend(certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok()));
    }
    let mut names: Vec<Box<str>> = names.into_iter().map(|name| name.to_ascii_lowercase().into()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The key must be the first certificate's. When it is a later one's, the chain is upside down.
fn check_key(
    chain: &[X509Certificate<'_>],
    spki: &SubjectPublicKeyInfoDer<'_>,
    certificate: &Path,
    private_key: &Path,
) -> Result<(), IdentityError> {
    let owner = chain.iter().position(|parsed| parsed.public_key().raw == spki.as_ref());
    match owner {
        Some(0) => Ok(()),
        Some(index) => Err(IdentityError::KeyOfLaterCertificate {
            path: certificate.into(),
            position: index + 1,
            subject: chain[index].subject().to_string(),
        }),
        None => Err(IdentityError::KeyMismatch {
            certificate: certificate.into(),
            private_key: private_key.into(),
            subject: chain.first().map(|first| first.subject().to_string()).unwrap_or_default(),
        }),
    }
}

/// Each certificate must be followed by its issuer's. One whose issuer is elsewhere in the file is an error; one that
/// nobody asked for is harmless, and its position is given back.
fn check_order(chain: &[X509Certificate<'_>], path: &Path) -> Result<Option<usize>, IdentityError> {
    for (index, pair) in chain.windows(2).enumerate() {
        let (this, next) = (&pair[0], &pair[1]);
        let issuer = this.issuer().as_raw();
        if next.subject().as_raw() == issuer {
            continue;
        }
        let elsewhere = chain.iter().position(|other| other.subject().as_raw() == issuer);
        return match elsewhere {
            Some(found) if found != index => Err(IdentityError::ChainOrder {
                path: path.into(),
                position: index + 1,
                issuer: this.issuer().to_string(),
                found_at: found + 1,
            }),
            _ => Ok(Some(index + 2)),
        };
    }
    Ok(None)
}
