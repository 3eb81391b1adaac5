//! What is said about certificate and key files that cannot be used, or that work and are odd.

use std::fmt;
use std::path::PathBuf;

/// Why an [`Identity`](super::Identity) cannot be had: the file, what was found there, what is needed.
#[derive(Debug)]
pub enum IdentityError {
    /// A file cannot be read.
    Unreadable {
        /// The configuration key that names it.
        role: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// A file has no byte, or nothing but space.
    Empty {
        /// The configuration key that names it.
        role: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// A file is not PEM, or its PEM is damaged.
    NotPem {
        /// The configuration key that names it.
        role: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A file does not hold what it must.
    Unfit {
        /// The configuration key that names it.
        role: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The certificate file holds no certificate.
    NoCertificate {
        /// The file.
        path: PathBuf,
        /// The PEM labels in it.
        found: Vec<String>,
    },
    /// The key file holds no private key.
    NoKey {
        /// The file.
        path: PathBuf,
        /// The PEM labels in it.
        found: Vec<String>,
    },
    /// The key file holds more than one private key.
    SeveralKeys {
        /// The file.
        path: PathBuf,
        /// How many.
        count: usize,
    },
    /// The private key is encrypted.
    KeyEncrypted {
        /// The file.
        path: PathBuf,
    },
    /// The private key is damaged or of a kind that TLS does not use.
    KeyUnusable {
        /// The file.
        path: PathBuf,
        /// What the library says.
        reason: String,
    },
    /// A certificate's contents are damaged.
    CertificateUnreadable {
        /// The file.
        path: PathBuf,
        /// Which certificate of the file, from one.
        position: usize,
        /// What the parser says.
        reason: String,
    },
    /// The key belongs to none of the certificates.
    KeyMismatch {
        /// The certificate file.
        certificate: PathBuf,
        /// The key file.
        private_key: PathBuf,
        /// The subject of the first certificate.
        subject: String,
    },
    /// The key belongs to a certificate that is not the first.
    KeyOfLaterCertificate {
        /// The certificate file.
        path: PathBuf,
        /// Which certificate of the file, from one.
        position: usize,
        /// Its subject.
        subject: String,
    },
    /// A certificate is not followed by its issuer's, which is elsewhere in the file.
    ChainOrder {
        /// The certificate file.
        path: PathBuf,
        /// Which certificate of the file, from one.
        position: usize,
        /// Its issuer.
        issuer: String,
        /// Where the issuer's certificate is.
        found_at: usize,
    },
    /// TLS 1.2 alone is accepted, and no cipher suite of it fits the key of any certificate.
    NoSuite {
        /// The first certificate file.
        path: PathBuf,
        /// Whether its key is RSA, and not ECDSA or Ed25519.
        is_rsa: bool,
    },
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { role, path, error } => {
                write!(f, "{role} {}: cannot be read: {error}", path.display())?;
                // What is not the system's word says what it must be.
                if error.raw_os_error().is_some() {
                    f.write_str("; it must be a file that ringwall's user may read")?;
                }
                Ok(())
            }
            Self::Empty { role, path } => write!(f, "{role} {}: the file is empty; it must hold PEM", path.display()),
            Self::NotPem { role, path, reason } | Self::Unfit { role, path, reason } => {
                write!(f, "{role} {}: {reason}", path.display())
            }
            Self::NoCertificate { path, found } => write!(
                f,
                "certificate {}: found {}, and no certificate; it must hold the server's certificate and then its \
                 intermediates, each as -----BEGIN CERTIFICATE-----{}",
                path.display(),
                listed(found),
                perhaps_exchanged(found.iter().any(|label| label.ends_with("PRIVATE KEY")))
            ),
            Self::NoKey { path, found } => write!(
                f,
                "private_key {}: found {}, and no private key; it must hold one as -----BEGIN PRIVATE KEY----- (PKCS#8), \
                 RSA PRIVATE KEY (PKCS#1) or EC PRIVATE KEY (SEC1){}",
                path.display(),
                listed(found),
                perhaps_exchanged(found.iter().any(|label| label == "CERTIFICATE"))
            ),
            Self::SeveralKeys { path, count } => {
                write!(f, "private_key {}: found {count} private keys; it must hold exactly one", path.display())
            }
            Self::KeyEncrypted { path } => write!(
                f,
                "private_key {0}: the key is encrypted with a passphrase; it must not be: decrypt it with \
                 `openssl pkey -in {0} -out plain.key` and restrict who can read the result",
                path.display()
            ),
            Self::KeyUnusable { path, reason } => write!(
                f,
                "private_key {}: the key cannot be used ({reason}); it must be ECDSA (P-256, P-384, P-521), RSA of 2048 \
                 bits or more, or Ed25519",
                path.display()
            ),
            Self::CertificateUnreadable { path, position, reason } => write!(
                f,
                "certificate {}: certificate number {position} is damaged ({reason}); each must be X.509 in PEM",
                path.display()
            ),
            Self::KeyMismatch { certificate, private_key, subject } => write!(
                f,
                "private_key {}: the key does not belong to certificate {} (subject {subject}); it must be the one that \
                 the certificate was made for",
                private_key.display(),
                certificate.display()
            ),
            Self::KeyOfLaterCertificate { path, position, subject } => write!(
                f,
                "certificate {}: the private key belongs to certificate number {position} (subject {subject}); the \
                 server's own certificate must come first, then its intermediates",
                path.display()
            ),
            Self::ChainOrder { path, position, issuer, found_at } => write!(
                f,
                "certificate {}: certificate number {position} is issued by {issuer}, which is number {found_at}; each \
                 certificate must be followed by its issuer's",
                path.display()
            ),
            Self::NoSuite { path, is_rsa } => write!(
                f,
                "certificate {}: no cipher suite fits its {}, and TLS 1.3, whose suites fit every key, is not accepted: no \
                 client could shake hands; add one that begins with {} or write max_version = \"1.3\"",
                path.display(),
                kind(*is_rsa),
                suites_for(*is_rsa)
            ),
        }
    }
}

impl std::error::Error for IdentityError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Unreadable { error, .. } = self { Some(error) } else { None }
    }
}

const fn kind(is_rsa: bool) -> &'static str {
    if is_rsa { "RSA key" } else { "ECDSA or Ed25519 key" }
}

/// What the names of TLS 1.2's cipher suites for such a key begin with.
const fn suites_for(is_rsa: bool) -> &'static str {
    if is_rsa { "TLS_ECDHE_RSA_" } else { "TLS_ECDHE_ECDSA_" }
}

const fn perhaps_exchanged(holds_the_other: bool) -> &'static str {
    if holds_the_other { " (are certificate and private_key exchanged?)" } else { "" }
}

fn listed(labels: &[String]) -> String {
    if labels.is_empty() { "nothing in PEM".to_owned() } else { labels.join(", ") }
}

/// What is odd about an [`Identity`](super::Identity) that works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityWarning {
    /// A certificate's time is over.
    Expired {
        /// The certificate file.
        path: PathBuf,
        /// Which certificate of the file, from one.
        position: usize,
        /// Its subject.
        subject: String,
        /// Its last moment.
        since: String,
    },
    /// A certificate's time has not come.
    NotYetValid {
        /// The certificate file.
        path: PathBuf,
        /// Which certificate of the file, from one.
        position: usize,
        /// Its subject.
        subject: String,
        /// Its first moment.
        until: String,
    },
    /// The chain is longer than many clients take.
    LongChain {
        /// The certificate file.
        path: PathBuf,
        /// How many certificates it has.
        count: usize,
        /// The length of the message that shows them to a client.
        bytes: usize,
    },
    /// A certificate in the file issued none of those before it.
    StrayCertificate {
        /// The certificate file.
        path: PathBuf,
        /// Which certificate of the file, from one.
        position: usize,
    },
    /// A certificate that is not the listener's first is for no host name, so no client is shown it.
    Nameless {
        /// The certificate file.
        path: PathBuf,
    },
    /// A certificate before it has the same name and kind of key, so for that name no client is shown it.
    Shadowed {
        /// The certificate file.
        path: PathBuf,
        /// The name.
        name: Box<str>,
        /// The certificate file that comes first.
        by: PathBuf,
    },
    /// TLS 1.2 is accepted, and no cipher suite of it fits the certificate's key.
    NoSuite {
        /// The certificate file.
        path: PathBuf,
        /// Whether its key is RSA, and not ECDSA or Ed25519.
        is_rsa: bool,
    },
    /// The OCSP response says something else than good.
    OcspNotGood {
        /// Its file.
        path: PathBuf,
        /// What it says.
        status: &'static str,
    },
    /// The OCSP response's time is over.
    OcspExpired {
        /// Its file.
        path: PathBuf,
        /// Its last moment.
        since: String,
    },
    /// Everybody on the machine may read or change the key.
    KeyOpenToAll {
        /// The key file.
        path: PathBuf,
    },
}

impl fmt::Display for IdentityWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { path, position, subject, since } => write!(
                f,
                "certificate {}: number {position} (subject {subject}) expired on {since}; clients will refuse it",
                path.display()
            ),
            Self::NotYetValid { path, position, subject, until } => write!(
                f,
                "certificate {}: number {position} (subject {subject}) is not valid before {until}; clients will refuse it",
                path.display()
            ),
            Self::LongChain { path, count, bytes } => write!(
                f,
                "certificate {}: its {count} certificates make a message of {bytes} bytes; some clients refuse more than 65535, \
                 and OpenSSL more than 102400: leave out those that clients have or do not need",
                path.display()
            ),
            Self::StrayCertificate { path, position } => write!(
                f,
                "certificate {}: number {position} issued none of those before it; clients do not need it",
                path.display()
            ),
            Self::Nameless { path } => write!(
                f,
                "certificate {}: it is for no host name and not the listener's first; no client is shown it",
                path.display()
            ),
            Self::Shadowed { path, name, by } => write!(
                f,
                "certificate {}: clients that ask for {name} are shown {}, which comes first and has the same kind of key",
                path.display(),
                by.display()
            ),
            Self::NoSuite { path, is_rsa } => write!(
                f,
                "certificate {}: no cipher suite of TLS 1.2 fits its {}: clients that speak no TLS 1.3 are not shown it; \
                 add one that begins with {} or write min_version = \"1.3\"",
                path.display(),
                kind(*is_rsa),
                suites_for(*is_rsa)
            ),
            Self::OcspNotGood { path, status } => write!(
                f,
                "ocsp {}: the responder says of the certificate: {status}; clients that look at it will refuse it",
                path.display()
            ),
            Self::OcspExpired { path, since } => write!(
                f,
                "ocsp {}: the response expired on {since}; clients that look at it will refuse the certificate",
                path.display()
            ),
            Self::KeyOpenToAll { path } => write!(
                f,
                "private_key {0}: everybody on this machine may read or change it; restrict it with `chmod o-rw {0}`",
                path.display()
            ),
        }
    }
}
