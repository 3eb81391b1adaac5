//! A listener's `tls` table: who it is to its clients, and whom it lets in.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;

use super::cert_dir;
use super::client_auth::read_client_auth;
use super::credential;
use super::error::{ConfigError, Source};
use super::policy::read_listener_policy;
use super::raw::{RawListener, RawTls, Value};
use super::section::Section;
use super::security::Security;
use crate::tls::{ClientAuth, Clients, Credentials, Identity, Policy, TicketSecret, unix_time};

/// How a listener speaks TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Certificates with their keys, as far as the file names each; the first of all is for clients without a name.
    pub certificates: Vec<Pair>,
    /// A folder with more of them. There is one, or `certificates` has at least one.
    pub cert_dir: Option<PathBuf>,
    /// What it agrees to.
    pub policy: Policy,
    /// How it authenticates clients, when it does.
    pub client_auth: Option<ClientAuth>,
    /// What its tickets are sealed with, when that is shared with other processes.
    pub ticket_secret: Option<PathBuf>,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The certificate chain in PEM.
    pub certificate: PathBuf,
    /// Its private key in PEM; may be the same file.
    pub private_key: PathBuf,
    /// An OCSP response about it in DER, where there is one.
    pub ocsp: Option<PathBuf>,
}

/// A pair as it is written, and where.
struct RawPair<'a> {
    name: &'static str,
    span: Range<usize>,
    certificate: Option<&'a Spanned<Value>>,
    private_key: Option<&'a Spanned<Value>>,
    ocsp: Option<&'a Spanned<Value>>,
}

/// The pair of the table itself, if it has one, then those that it lists.
fn raw_pairs(tls: &Spanned<RawTls>) -> Vec<RawPair<'_>> {
    let raw = tls.get_ref();
    let (certificate, private_key, ocsp) = (raw.certificate.as_ref(), raw.private_key.as_ref(), raw.ocsp.as_ref());
    let own = RawPair { name: "listener.tls", span: tls.span(), certificate, private_key, ocsp };
    let listed = raw.certificates.iter().map(|pair| RawPair {
        name: "listener.tls.certificates",
        span: pair.span(),
        certificate: pair.get_ref().certificate.as_ref(),
        private_key: pair.get_ref().private_key.as_ref(),
        ocsp: pair.get_ref().ocsp.as_ref(),
    });
    let others = !raw.certificates.is_empty() || raw.cert_dir.is_some();
    let has_own = certificate.is_some() || private_key.is_some() || ocsp.is_some() || !others;
    has_own.then_some(own).into_iter().chain(listed).collect()
}

/// The listener's TLS, or none where it says that it is plain.
pub(super) fn read_tls(listener: &Section<'_>, entry: &Spanned<RawListener>) -> Result<Option<Tls>, ConfigError> {
    let plain = listener.flag("plain", entry.get_ref().plain.as_ref(), false)?;
    let Some(tls) = entry.get_ref().tls.as_ref() else {
        let what = "{ certificate = \"server.crt\", private_key = \"server.key\" }; or write plain = true for clients \
                    that speak no TLS";
        return if plain { Ok(None) } else { Err(listener.missing("tls", entry, what)) };
    };
    if let (true, Some(value)) = (plain, &entry.get_ref().plain) {
        return Err(listener.error("plain", value, "does not fit tls: a listener has one of them"));
    }
    let (source, raw) = (listener.source, tls.get_ref());
    let mut certificates = Vec::new();
    for pair in raw_pairs(tls) {
        let section = Section { source, name: pair.name };
        let path = |key, value: Option<&Spanned<Value>>| {
            let what = "a file in PEM form";
            read_path(&section, key, value, what)?
                .ok_or_else(|| source.error(pair.span.clone(), section.key(key), format!("is missing: {what}")))
        };
        certificates.push(Pair {
            certificate: path("certificate", pair.certificate)?,
            private_key: path("private_key", pair.private_key)?,
            ocsp: read_path(&section, "ocsp", pair.ocsp, "a file with an OCSP response in DER")?,
        });
    }
    let section = Section { source, name: "listener.tls" };
    let cert_dir = read_path(&section, "cert_dir", raw.cert_dir.as_ref(), "a folder of certificates and keys")?;
    let (policy, client_auth) = (read_listener_policy(&section, raw)?, read_client_auth(&section, tls)?);
    let ticket_secret = read_path(&section, "ticket_secret", raw.ticket_secret.as_ref(), "a file with a secret")?;
    Ok(Some(Tls { certificates, cert_dir, policy, client_auth, ticket_secret }))
}

/// A path, which is relative to the folder of the configuration file, or the name of a credential.
pub(super) fn read_path(
    section: &Section<'_>,
    key: &str,
    raw: Option<&Spanned<Value>>,
    what: &str,
) -> Result<Option<PathBuf>, ConfigError> {
    let Some((path, value)) = section.text(key, raw, what)? else { return Ok(None) };
    path_in(section, key, path, value, what).map(Some)
}

/// As [`read_path`], of a text at hand.
pub(super) fn path_in(
    section: &Section<'_>,
    key: &str,
    path: &str,
    value: &Spanned<Value>,
    what: &str,
) -> Result<PathBuf, ConfigError> {
    if path.is_empty() || path.contains('\0') {
        return Err(section.error(key, value, &format!("is not a path; {what}")));
    }
    if let Some(credential) = credential::path(path) {
        return credential.map_err(|problem| section.error(key, value, &problem));
    }
    let folder = section.source.file().parent().unwrap_or(Path::new(""));
    Ok(folder.join(path))
}

/// Reads the files that the table names, which `tls` was made of.
pub(super) fn load_credentials(
    source: &Source,
    tls: &Tls,
    raw: &Spanned<RawTls>,
    security: Security,
    warnings: &mut Vec<String>,
) -> Result<Credentials, ConfigError> {
    let mut identities = Vec::new();
    let mut load = |pair: &Pair, span: Range<usize>, key: &str| {
        let identity = Identity::load(&pair.certificate, &pair.private_key).and_then(|identity| match &pair.ocsp {
            Some(response) => identity.with_ocsp(response),
            None => Ok(identity),
        });
        identities.push(identity.map_err(|error| source.error(span, key, error.to_string()))?);
        Ok(())
    };
    for (pair, raw) in tls.certificates.iter().zip(raw_pairs(raw)) {
        load(pair, raw.span, raw.name)?;
    }
    if let (Some(folder), Some(value)) = (&tls.cert_dir, &raw.get_ref().cert_dir) {
        let key = "listener.tls.cert_dir";
        let pairs = cert_dir::pairs(folder).map_err(|problem| source.error(value.span(), key, problem))?;
        for pair in &pairs {
            load(pair, value.span(), key)?;
        }
    }
    let clients = tls.client_auth.as_ref().map(Clients::load).transpose();
    let clients = clients.map_err(|error| source.error(raw.span(), "listener.tls", error.to_string()))?;
    let ticket_secret = tls.ticket_secret.as_deref().map(TicketSecret::load).transpose();
    let ticket_secret = ticket_secret.map_err(|error| source.error(raw.span(), "listener.tls", error.to_string()))?;
    let credentials = Credentials { identities, clients, ticket_secret };
    // Those of the defaults fit every key.
    let suites = raw.get_ref().cipher_suites.as_ref().map_or(raw.span(), Spanned::span);
    let at_suites = |text: String| source.error(suites.clone(), "listener.tls.cipher_suites", text);
    for warning in credentials.fit(&tls.policy).map_err(|error| at_suites(error.to_string()))? {
        warnings.push(at_suites(warning.to_string()).to_string());
    }
    security.judge(&credentials.exposed(), |problem| source.error(raw.span(), "listener.tls", problem))?;
    for warning in credentials.warnings(unix_time()) {
        warnings.push(source.error(raw.span(), "listener.tls", warning).to_string());
    }
    Ok(credentials)
}
