//! What a listener or a backend agrees to: the keys of its `tls` table about versions, cipher suites and groups, and a
//! listener's about protocols and server names.

use toml::Spanned;

use super::error::ConfigError;
use super::raw::{RawTls, Value};
use super::section::{Item, Section};
use crate::tls::{CipherSuite, Group, Policy, Version};

/// The longest name of an application protocol in bytes (RFC 7301, section 3.1).
const PROTOCOL_BYTES_MAX: usize = 255;

/// The keys that a listener's table and a backend's have in common.
pub(super) struct RawPolicy<'a> {
    pub(super) min_version: Option<&'a Spanned<Value>>,
    pub(super) max_version: Option<&'a Spanned<Value>>,
    pub(super) cipher_suites: Option<&'a Spanned<Value>>,
    pub(super) groups: Option<&'a Spanned<Value>>,
    pub(super) require_pq: Option<&'a Spanned<Value>>,
}

/// A listener's policy.
pub(super) fn read_listener_policy(section: &Section<'_>, raw: &RawTls) -> Result<Policy, ConfigError> {
    let common = RawPolicy {
        min_version: raw.min_version.as_ref(),
        max_version: raw.max_version.as_ref(),
        cipher_suites: raw.cipher_suites.as_ref(),
        groups: raw.groups.as_ref(),
        require_pq: raw.require_pq.as_ref(),
    };
    let mut policy = read_policy(section, &common)?;
    policy.strict_sni = section.flag("strict_sni", raw.strict_sni.as_ref(), false)?;
    policy.alpn = read_alpn(section, raw)?;
    Ok(policy)
}

pub(super) fn read_policy(section: &Section<'_>, raw: &RawPolicy<'_>) -> Result<Policy, ConfigError> {
    let require_pq = section.flag("require_pq", raw.require_pq, false)?;
    let (version_min, version_max) = read_versions(section, raw, require_pq)?;
    let mut policy = Policy { version_min, version_max, ..Policy::default() };
    read_cipher_suites(section, raw, &mut policy)?;
    read_groups(section, raw, &mut policy, require_pq)?;
    Ok(policy)
}

fn read_versions(
    section: &Section<'_>,
    raw: &RawPolicy<'_>,
    require_pq: bool,
) -> Result<(Version, Version), ConfigError> {
    let words = [("1.2", Version::Tls12), ("1.3", Version::Tls13)];
    let oldest = if require_pq { Version::Tls13 } else { Version::Tls12 };
    let min = section.choice("min_version", raw.min_version, oldest, &words)?;
    let max = section.choice("max_version", raw.max_version, Version::Tls13, &words)?;
    for (key, value, version) in [("max_version", raw.max_version, max), ("min_version", raw.min_version, min)] {
        if let (Some(value), true, Version::Tls12) = (value, require_pq, version) {
            let problem = "does not fit require_pq = true: TLS 1.2 has no post-quantum key exchange; write \"1.3\" or \
                           leave the key out";
            return Err(section.error(key, value, problem));
        }
    }
    match raw.max_version {
        Some(value) if min > max => {
            Err(section.error("max_version", value, &format!("is older than min_version, which is \"{min}\"")))
        }
        Some(_) | None => Ok((min, max)),
    }
}

fn read_cipher_suites(section: &Section<'_>, raw: &RawPolicy<'_>, policy: &mut Policy) -> Result<(), ConfigError> {
    let key = "cipher_suites";
    let known: Vec<_> = CipherSuite::all().map(|suite| (suite.name(), suite)).collect();
    let what = "a list of cipher suites, such as [\"TLS_AES_128_GCM_SHA256\"]";
    let Some(listed) = section.choices(key, raw.cipher_suites, what, &known)? else {
        policy.cipher_suites = CipherSuite::all().filter(|suite| policy.speaks(suite.version())).collect();
        return Ok(());
    };
    for Item { value: suite, place } in &listed {
        let version = suite.version();
        if !policy.speaks(version) {
            let problem = format!("is of TLS {version}, which min_version and max_version leave out");
            return Err(section.error(key, place, &problem));
        }
    }
    policy.cipher_suites = listed.into_iter().map(|item| item.value).collect();
    if let (Some(value), Some(version)) = (
        raw.cipher_suites,
        version_without(policy, |version| policy.cipher_suites.iter().any(|suite| suite.version() == version)),
    ) {
        return Err(section.error(key, value, &lacks("a cipher suite", version)));
    }
    Ok(())
}

fn read_groups(
    section: &Section<'_>,
    raw: &RawPolicy<'_>,
    policy: &mut Policy,
    require_pq: bool,
) -> Result<(), ConfigError> {
    let key = "groups";
    let known: Vec<_> = Group::all().map(|group| (group.name(), group)).collect();
    let what = "a list of key exchange groups, such as [\"X25519MLKEM768\", \"x25519\"]";
    let Some(listed) = section.choices(key, raw.groups, what, &known)? else {
        policy.groups = Group::defaults().filter(|group| group.is_post_quantum() || !require_pq).collect();
        return Ok(());
    };
    for Item { value: group, place } in &listed {
        if require_pq && !group.is_post_quantum() {
            let problem = "is not post-quantum, which require_pq = true demands; leave it out of the list";
            return Err(section.error(key, place, problem));
        }
    }
    policy.groups = listed.into_iter().map(|item| item.value).collect();
    if let (Some(value), Some(version)) = (
        raw.groups,
        version_without(policy, |version| {
            policy.groups.iter().any(|group| version == Version::Tls13 || !group.is_post_quantum())
        }),
    ) {
        return Err(section.error(key, value, &lacks("a group", version)));
    }
    Ok(())
}

/// The first version that is spoken and that `has` does not hold for.
fn version_without(policy: &Policy, has: impl Fn(Version) -> bool) -> Option<Version> {
    Version::ALL.into_iter().find(|&version| policy.speaks(version) && !has(version))
}

fn lacks(what: &str, version: Version) -> String {
    let remedy = match version {
        Version::Tls12 => "min_version = \"1.3\"",
        Version::Tls13 => "max_version = \"1.2\"",
    };
    format!("lacks {what} for TLS {version}: add one or write {remedy}")
}

fn read_alpn(section: &Section<'_>, raw: &RawTls) -> Result<Vec<Box<str>>, ConfigError> {
    let what = "a list of application protocols, such as [\"redis\"]";
    let listed = section.distinct_texts("alpn", raw.alpn.as_ref(), what)?.unwrap_or_default();
    for Item { value: protocol, place } in &listed {
        if protocol.is_empty() || protocol.len() > PROTOCOL_BYTES_MAX {
            let problem = format!("is not the name of a protocol, which has 1 to {PROTOCOL_BYTES_MAX} bytes");
            return Err(section.error("alpn", place, &problem));
        }
    }
    Ok(listed.into_iter().map(|item| item.value.into()).collect())
}
