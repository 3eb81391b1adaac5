//! How a listener authenticates its clients: the keys of its `tls` table about client certificates.

use std::path::PathBuf;

use toml::Spanned;

use super::error::ConfigError;
use super::raw::{RawTls, Value};
use super::section::{Item, Section};
use super::tls::{path_in, read_path};
use crate::hex;
use crate::tls::{ClientAuth, ClientRules, Coverage};

/// Whether client certificates are asked for.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    None,
    Optional,
    Required,
}

pub(super) fn read_client_auth(
    section: &Section<'_>,
    tls: &Spanned<RawTls>,
) -> Result<Option<ClientAuth>, ConfigError> {
    let raw = tls.get_ref();
    let modes = [("none", Mode::None), ("optional", Mode::Optional), ("required", Mode::Required)];
    let mode = section.choice("client_auth", raw.client_auth.as_ref(), Mode::None, &modes)?;
    if mode == Mode::None {
        return match keys(raw).into_iter().find_map(|(key, value)| Some((key, value?))) {
            // Whoever writes one of these believes that clients are checked.
            Some((key, value)) => {
                let problem = "is of no use without client_auth = \"required\" or \"optional\"";
                Err(section.error(key, value, problem))
            }
            None => Ok(None),
        };
    }
    let what = "the certificates of the authorities that clients must have theirs from, a file in PEM form";
    let authorities = read_path(section, "client_ca", raw.client_ca.as_ref(), what)?
        .ok_or_else(|| section.missing("client_ca", tls, what))?;
    let coverages = [("chain", Coverage::Chain), ("leaf", Coverage::Leaf), ("available", Coverage::Available)];
    let written = raw.client_crl_coverage.as_ref();
    let coverage = section.choice("client_crl_coverage", written, Coverage::Chain, &coverages)?;
    if let (Some(value), None) = (written, &raw.client_crl) {
        return Err(section.error("client_crl_coverage", value, "is of no use without client_crl"));
    }
    Ok(Some(ClientAuth {
        required: mode == Mode::Required,
        authorities,
        revocation_lists: read_revocation_lists(section, raw.client_crl.as_ref())?,
        coverage,
        rules: read_rules(section, raw)?,
    }))
}

/// The keys that mean nothing unless client certificates are asked for.
fn keys(raw: &RawTls) -> [(&'static str, Option<&Spanned<Value>>); 7] {
    [
        ("client_ca", raw.client_ca.as_ref()),
        ("client_crl", raw.client_crl.as_ref()),
        ("client_crl_coverage", raw.client_crl_coverage.as_ref()),
        ("allowed_cn", raw.allowed_cn.as_ref()),
        ("allowed_dns", raw.allowed_dns.as_ref()),
        ("allowed_uri", raw.allowed_uri.as_ref()),
        ("allowed_spki", raw.allowed_spki.as_ref()),
    ]
}

fn read_revocation_lists(section: &Section<'_>, raw: Option<&Spanned<Value>>) -> Result<Vec<PathBuf>, ConfigError> {
    let what = "a list of files with revocation lists, such as [\"clients.crl\"]";
    let listed = section.distinct_texts("client_crl", raw, what)?.unwrap_or_default();
    listed.into_iter().map(|Item { value, place }| path_in(section, "client_crl", value, place, what)).collect()
}

fn read_rules(section: &Section<'_>, raw: &RawTls) -> Result<ClientRules, ConfigError> {
    let what = "a list of common names, such as [\"worker\"]";
    let common_names = read_names(section, "allowed_cn", raw.allowed_cn.as_ref(), what, |_| true)?;
    let what = "a list of DNS names, such as [\"worker.example\", \"*.workers.example\"]";
    let dns_names = read_names(section, "allowed_dns", raw.allowed_dns.as_ref(), what, is_dns_rule)?;
    let what = "a list of URIs, such as [\"spiffe://example/worker\", \"spiffe://example/workers/*\"]";
    let uris = read_names(section, "allowed_uri", raw.allowed_uri.as_ref(), what, is_uri_rule)?;
    let what = "a list of SHA-256 digests of public keys, 64 hexadecimal digits each";
    let mut keys = Vec::new();
    for Item { value, place } in
        section.distinct_texts("allowed_spki", raw.allowed_spki.as_ref(), what)?.unwrap_or_default()
    {
        let mut key = [0; 32];
        if !hex::decode_into(value.as_bytes(), &mut key) {
            return Err(section.error("allowed_spki", place, &format!("is no item of {what}")));
        }
        keys.push(key);
    }
    Ok(ClientRules { common_names, dns_names, uris, keys })
}

/// Whether `name` is a DNS name, or stands for one label in front of one.
pub(super) fn is_dns_rule(name: &str) -> bool {
    !name.strip_prefix("*.").unwrap_or(name).contains('*')
}

/// Whether `uri` is one, or stands for what is below one.
pub(super) fn is_uri_rule(uri: &str) -> bool {
    let literal = uri.strip_suffix("/**").or_else(|| uri.strip_suffix("/*")).unwrap_or(uri);
    uri.contains(':') && !literal.contains('*')
}

/// Names without NUL bytes, which no certificate's name can match.
fn read_names(
    section: &Section<'_>,
    key: &str,
    raw: Option<&Spanned<Value>>,
    what: &str,
    is_good: impl Fn(&str) -> bool,
) -> Result<Vec<Box<str>>, ConfigError> {
    let mut names = Vec::new();
    for Item { value, place } in section.distinct_texts(key, raw, what)?.unwrap_or_default() {
        if value.is_empty() || value.contains('\0') || !is_good(value) {
            return Err(section.error(key, place, &format!("is no item of {what}")));
        }
        names.push(value.into());
    }
    Ok(names)
}
