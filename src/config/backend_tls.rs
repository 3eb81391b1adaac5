//! A backend's `tls` table: how its servers are judged, and who it is to them.

use std::net::IpAddr;

use toml::Spanned;

use super::error::ConfigError;
use super::policy::{RawPolicy, read_policy};
use super::raw::{RawBackendTls, Value};
use super::section::{Section, as_text};
use super::security::Security;
use super::tls::{Pair, read_path};
use crate::io::Address;
use crate::tls::{BackendCredentials, Identity, Policy, ServerAuth, ServerName, Servers, unix_time};

/// How a backend speaks TLS to its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendTls {
    /// How their certificates are judged.
    pub auth: ServerAuth,
    /// The name that all of them are asked for; where not given, each is asked for by its host.
    pub server_name: Option<ServerName>,
    /// The certificate for servers that ask for one, and its key.
    pub identity: Option<Pair>,
    /// What it agrees to.
    pub policy: Policy,
}

#[derive(Clone, Copy, PartialEq)]
enum Verify {
    Full,
    Chain,
    None,
}

/// Reads the table of this name: a backend's own, or that of its Sentinels.
pub(super) fn read_backend_tls(section: &Section<'_>, tls: &Spanned<RawBackendTls>) -> Result<BackendTls, ConfigError> {
    let raw = tls.get_ref();
    let words = [("full", Verify::Full), ("ca", Verify::Chain), ("none", Verify::None)];
    let verify = section.choice("verify", raw.verify.as_ref(), Verify::Full, &words)?;
    let what = "the certificates of the authorities that servers must have theirs from, a file in PEM form";
    let ca = read_path(section, "ca", raw.ca.as_ref(), what)?;
    let auth = match (verify, ca) {
        (Verify::Full, Some(ca)) => ServerAuth::Full(ca),
        (Verify::Chain, Some(ca)) => ServerAuth::Chain(ca),
        (Verify::None, None) => ServerAuth::None,
        (Verify::Full | Verify::Chain, None) => return Err(section.missing("ca", tls, what)),
        (Verify::None, Some(_)) => {
            // Whoever writes it believes that servers are checked.
            let value = raw.ca.as_ref().expect("it has been read");
            return Err(section.error("ca", value, "is of no use with verify = \"none\""));
        }
    };
    let what = "a DNS name or an IP address, such as \"valkey.example\"";
    let server_name = match section.text("server_name", raw.server_name.as_ref(), what)? {
        None => None,
        Some((text, value)) => {
            let problem = format!("is not {what}");
            Some(ServerName::parse(text).ok_or_else(|| section.error("server_name", value, &problem))?)
        }
    };
    let policy = RawPolicy {
        min_version: raw.min_version.as_ref(),
        max_version: raw.max_version.as_ref(),
        cipher_suites: raw.cipher_suites.as_ref(),
        groups: raw.groups.as_ref(),
        require_pq: raw.require_pq.as_ref(),
    };
    Ok(BackendTls { auth, server_name, identity: read_identity(section, tls)?, policy: read_policy(section, &policy)? })
}

fn read_identity(section: &Section<'_>, tls: &Spanned<RawBackendTls>) -> Result<Option<Pair>, ConfigError> {
    let (raw, what) = (tls.get_ref(), "a file in PEM form");
    let certificate = read_path(section, "certificate", raw.certificate.as_ref(), what)?;
    let private_key = read_path(section, "private_key", raw.private_key.as_ref(), what)?;
    match (certificate, private_key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(private_key)) => Ok(Some(Pair { certificate, private_key, ocsp: None })),
        (Some(_), None) => Err(section.missing("private_key", tls, what)),
        (None, Some(_)) => Err(section.missing("certificate", tls, what)),
    }
}

/// The name that a server is asked for: the backend's for all, or the host of its own address as `place` has it, which is
/// an item of `key`. There must be one where names are verified.
pub(super) fn server_name(
    section: &Section<'_>,
    key: &str,
    tls: &BackendTls,
    address: &Address,
    place: &Spanned<Value>,
) -> Result<Option<ServerName>, ConfigError> {
    if tls.server_name.is_some() {
        return Ok(tls.server_name.clone());
    }
    let text = as_text(place).unwrap_or_default();
    let name = match address {
        Address::Unix(_) => None,
        Address::Tcp(_) => text.rsplit_once(':').and_then(|(host, _)| ServerName::parse(without_brackets(host))),
    };
    if name.is_none() && matches!(tls.auth, ServerAuth::Full(_)) {
        let problem = "has no name that a certificate can be for: write tls.server_name, or tls.verify = \"ca\"";
        return Err(section.error(key, place, problem));
    }
    Ok(name)
}

/// An address of IPv6 stands in brackets in front of a port.
fn without_brackets(host: &str) -> &str {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inner.filter(|inner| inner.parse::<IpAddr>().is_ok()).unwrap_or(host)
}

/// Reads the files that the table of this name names, which `tls` was made of.
pub(super) fn load_backend_credentials(
    section: &Section<'_>,
    tls: &BackendTls,
    raw: &Spanned<RawBackendTls>,
    security: Security,
    warnings: &mut Vec<String>,
) -> Result<BackendCredentials, ConfigError> {
    let error = |problem: String| section.source.error(raw.span(), section.name, problem);
    let servers = Servers::load(&tls.auth).map_err(|problem| error(problem.to_string()))?;
    let identity = tls.identity.as_ref().map(|pair| Identity::load(&pair.certificate, &pair.private_key));
    let identity = identity.transpose().map_err(|problem| error(problem.to_string()))?;
    let credentials = BackendCredentials { servers, identity };
    security.judge(&credentials.exposed(), error)?;
    warnings.extend(credentials.warnings(unix_time()).into_iter().map(|warning| error(warning).to_string()));
    Ok(credentials)
}
