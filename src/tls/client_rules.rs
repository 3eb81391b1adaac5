//! Which clients a listener lets in, by what their certificates say about them.

use aws_lc_rs::digest::{SHA256, digest};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

use super::client_names::ClientNames;

/// The most characters of an identity that are logged.
const SHOWN_CHARS_MAX: usize = 256;

/// Rules of which a client's certificate must meet one. Without any, each certificate of the authorities will do.
///
/// A name with a NUL byte, whatever stands around it, meets none: it is how names are forged for readers that stop
/// there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientRules {
    /// Common names of the subject, as they are.
    pub common_names: Vec<Box<str>>,
    /// Alternative names of the DNS kind, in any case; a leading `*.` stands for one label.
    pub dns_names: Vec<Box<str>>,
    /// Alternative names of the URI kind, SPIFFE IDs for instance; `/*` at the end stands for one segment of the path
    /// and `/**` for one or more.
    pub uris: Vec<Box<str>>,
    /// SHA-256 digests of the public key (SubjectPublicKeyInfo in DER).
    pub keys: Vec<[u8; 32]>,
}

impl ClientRules {
    /// Whether every certificate of the authorities will do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.common_names.is_empty() && self.dns_names.is_empty() && self.uris.is_empty() && self.keys.is_empty()
    }

    pub(super) fn allow(&self, certificate: &X509Certificate<'_>) -> bool {
        self.is_empty()
            || self.name(&ClientNames::of(certificate))
            || self.keys.iter().any(|key| digest(&SHA256, certificate.public_key().raw).as_ref() == key)
    }

    /// Whether one of the rules on names is met. Those on keys are not looked at.
    #[must_use]
    pub fn name(&self, names: &ClientNames) -> bool {
        let meets = |rules: &[Box<str>], names: &[Box<str>], matches: fn(&str, &str) -> bool| {
            names.iter().any(|name| rules.iter().any(|rule| matches(rule, name)))
        };
        meets(&self.common_names, &names.common_names, |rule, name| rule == name)
            || meets(&self.dns_names, &names.dns_names, dns_matches)
            || meets(&self.uris, &names.uris, uri_matches)
    }

    /// Each rule as bytes that no other list of rules has, for a digest.
    pub(super) fn write(&self, mut field: impl FnMut(&[u8])) {
        for (kind, rules) in [(b"cn", &self.common_names), (b"dn", &self.dns_names), (b"ur", &self.uris)] {
            field(kind);
            rules.iter().for_each(|rule| field(rule.as_bytes()));
        }
        field(b"key");
        self.keys.iter().for_each(|key| field(key));
    }
}

/// The one name of a client that says most: its URI, else its common name, else its DNS name, else the whole subject.
pub(super) fn identity(certificate: &X509Certificate<'_>) -> Box<str> {
    let name = uris(certificate).next().or_else(|| common_names(certificate).next());
    let name = name.or_else(|| dns_names(certificate).next()).map(ToOwned::to_owned);
    let name = name.unwrap_or_else(|| certificate.subject().to_string());
    name.chars().filter(|c| !c.is_control()).take(SHOWN_CHARS_MAX).collect()
}

fn dns_matches(rule: &str, name: &str) -> bool {
    match rule.strip_prefix("*.") {
        _ if name.contains('*') => false,
        Some(parent) => name.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && same_dns(rest, parent)),
        None => same_dns(name, rule),
    }
}

fn same_dns(name: &str, rule: &str) -> bool {
    name.strip_suffix('.').unwrap_or(name).eq_ignore_ascii_case(rule)
}

fn uri_matches(rule: &str, uri: &str) -> bool {
    let below = |parent: &str| uri.strip_prefix(parent).and_then(|rest| rest.strip_prefix('/'));
    if let Some(parent) = rule.strip_suffix("/**") {
        below(parent).is_some_and(|rest| rest.split('/').all(is_segment))
    } else if let Some(parent) = rule.strip_suffix("/*") {
        below(parent).is_some_and(is_segment)
    } else {
        rule == uri
    }
}

/// Whether a wildcard may stand for `text`, which must lead nowhere else.
fn is_segment(text: &str) -> bool {
    !["", ".", ".."].contains(&text) && !text.contains(['/', '?', '#'])
}

pub(super) fn common_names<'c>(certificate: &'c X509Certificate<'_>) -> impl Iterator<Item = &'c str> {
    let names = certificate.subject().iter_common_name();
    names.filter_map(|name| name.as_str().ok()).filter(|name| is_honest(name))
}

pub(super) fn dns_names<'c>(certificate: &'c X509Certificate<'_>) -> impl Iterator<Item = &'c str> {
    let names = alternative_names(certificate);
    names
        .filter_map(|name| if let GeneralName::DNSName(name) = name { Some(*name) } else { None })
        .filter(|name| is_honest(name))
}

pub(super) fn uris<'c>(certificate: &'c X509Certificate<'_>) -> impl Iterator<Item = &'c str> {
    let names = alternative_names(certificate);
    names
        .filter_map(|name| if let GeneralName::URI(uri) = name { Some(*uri) } else { None })
        .filter(|uri| is_honest(uri))
}

fn alternative_names<'c>(certificate: &'c X509Certificate<'_>) -> impl Iterator<Item = &'c GeneralName<'c>> {
    let extension = certificate.subject_alternative_name().ok().flatten();
    extension.into_iter().flat_map(|extension| &extension.value.general_names)
}

fn is_honest(name: &str) -> bool {
    !name.is_empty() && !name.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::{dns_matches, uri_matches};

    #[test]
    fn a_dns_rule_is_a_name_in_any_case_or_one_label_below_it() {
        for (rule, name, matches) in [
            ("app.test", "app.test", true),
            ("app.test", "APP.test.", true),
            ("app.test", "a.app.test", false),
            ("*.test", "app.test", true),
            ("*.test", "a.app.test", false),
            ("*.test", "test", false),
            ("*.test", ".test", false),
            ("*.test", "*.test", false),
        ] {
            assert_eq!(dns_matches(rule, name), matches, "{rule} {name}");
        }
    }

    #[test]
    fn a_uri_rule_is_a_uri_or_what_is_below_it() {
        for (rule, uri, matches) in [
            ("spiffe://a.test/app", "spiffe://a.test/app", true),
            ("spiffe://a.test/app", "spiffe://a.test/App", false),
            ("spiffe://a.test/*", "spiffe://a.test/app", true),
            ("spiffe://a.test/*", "spiffe://a.test/app/one", false),
            ("spiffe://a.test/*", "spiffe://a.test/", false),
            ("spiffe://a.test/*", "spiffe://a.test.evil/app", false),
            ("spiffe://a.test/**", "spiffe://a.test/app/one", true),
            ("spiffe://a.test/ns/**", "spiffe://a.test/ns/../admin", false),
            ("spiffe://a.test/**", "spiffe://a.test", false),
        ] {
            assert_eq!(uri_matches(rule, uri), matches, "{rule} {uri}");
        }
    }
}
