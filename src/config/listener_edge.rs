//! What stands in front of the first bytes of a listener's clients: the proxies that introduce them, the users that they
//! become, and whether servers may be open.

use std::path::PathBuf;

use ipnet::IpNet;
use toml::Spanned;

use super::client_auth::{is_dns_rule, is_uri_rule};
use super::error::{ConfigError, Source};
use super::network::read_networks;
use super::raw::{RawListener, RawUser, Value};
use super::section::Section;
use super::security::Security;
use super::tls::{Tls, read_path};
use crate::secret::Secret;
use crate::tls::ClientRules;

/// Longest name of a user in bytes.
const USER_BYTES_MAX: usize = 128;

/// Most users of one listener: they are looked through for each connection.
const USERS_MAX: usize = 1_024;

/// What stands in front of the first bytes of a listener's clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerEdge {
    /// The proxies whose PROXY headers say who clients are, at least one; without it, clients come by themselves.
    pub trusted_proxies: Option<Vec<IpNet>>,
    /// The users that clients become, in order.
    pub users: Vec<User>,
    /// Whether strangers may be let at a server that asks for no password.
    pub allow_unauthenticated: bool,
}

/// A user of the server, and the clients that become it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// What their certificates say: one rule.
    pub rules: ClientRules,
    /// Its name on the server.
    pub name: Box<str>,
    /// Where its password is.
    pub password_file: PathBuf,
}

pub(super) fn read_listener_edge(
    section: &Section<'_>,
    entry: &Spanned<RawListener>,
    tls: Option<&Tls>,
    warnings: &mut Vec<String>,
) -> Result<ListenerEdge, ConfigError> {
    let raw = entry.get_ref();
    let users = read_users(section.source, &raw.user)?;
    if let (Some(first), true) = (raw.user.first(), tls.is_none_or(|tls| tls.client_auth.is_none())) {
        let problem = "is of no use without client certificates: write tls.client_auth = \"required\" or \"optional\"";
        return Err(section.source.error(first.span(), "listener.user", problem.to_owned()));
    }
    let allow_unauthenticated = section.flag("allow_unauthenticated", raw.allow_unauthenticated.as_ref(), false)?;
    if let (true, false, Some(value)) = (allow_unauthenticated, users.is_empty(), &raw.allow_unauthenticated) {
        let problem = "does not fit [[listener.user]]: on a server that asks for no password, RESET would make every \
                       client its default user";
        return Err(section.error("allow_unauthenticated", value, problem));
    }
    let trusted_proxies = read_proxies(section, entry, warnings)?;
    Ok(ListenerEdge { trusted_proxies, users, allow_unauthenticated })
}

fn read_proxies(
    section: &Section<'_>,
    entry: &Spanned<RawListener>,
    warnings: &mut Vec<String>,
) -> Result<Option<Vec<IpNet>>, ConfigError> {
    let raw = entry.get_ref();
    let accepts = section.flag("accept_proxy", raw.accept_proxy.as_ref(), false)?;
    let networks = read_networks(section, "trusted_proxies", raw.trusted_proxies.as_ref())?;
    match (accepts, networks, &raw.trusted_proxies) {
        (true, Some(networks), _) => {
            if let Some(all) = networks.iter().find(|network| network.value.prefix_len() == 0) {
                let problem = "lets whoever connects say that it is somebody else: write the addresses of the proxies in \
                               front";
                warnings.push(section.error("trusted_proxies", all.place, problem).to_string());
            }
            if let Some(value) = &raw.handshake_rate_per_source {
                let problem = "counts the clients of one proxy in front as those of one address, with accept_proxy";
                warnings.push(section.error("handshake_rate_per_source", value, problem).to_string());
            }
            Ok(Some(networks.into_iter().map(|network| network.value).collect()))
        }
        (true, None, _) => {
            let what = "a list of the networks of the proxies in front, such as [\"10.0.0.0/28\"]: a PROXY header says who \
                        a client is, so not everybody may send one";
            Err(section.missing("trusted_proxies", entry, what))
        }
        // Whoever writes it believes that proxies are listened to.
        (false, Some(_), Some(value)) => {
            Err(section.error("trusted_proxies", value, "is of no use without accept_proxy = true"))
        }
        (false, ..) => Ok(None),
    }
}

fn read_users(source: &Source, raw: &[Spanned<RawUser>]) -> Result<Vec<User>, ConfigError> {
    let section = Section { source, name: "listener.user" };
    let mut users: Vec<User> = Vec::new();
    for entry in raw {
        if users.len() == USERS_MAX {
            let problem = format!("is one too many; there may be {USERS_MAX}");
            return Err(source.error(entry.span(), "listener.user", problem));
        }
        let (rules, key, value) = read_rule(&section, entry)?;
        if users.iter().any(|user| user.rules == rules) {
            return Err(section.error(key, value, "is that of an earlier [[listener.user]], which comes first"));
        }
        let what = "the name of a user on the server (ACL LIST shows them)";
        let (name, value) = section.required("name", entry, entry.get_ref().name.as_ref(), what)?;
        let fits = (1..=USER_BYTES_MAX).contains(&name.len());
        if !fits || name.chars().any(|c| c.is_control() || c.is_whitespace()) {
            let problem = format!("is not a name of 1 to {USER_BYTES_MAX} bytes without blanks");
            return Err(section.error("name", value, &problem));
        }
        users.push(User { rules, name: name.into(), password_file: read_password_file(&section, entry)? });
    }
    Ok(users)
}

/// Whose user it is: one name, with its key and value.
fn read_rule<'v>(
    section: &Section<'_>,
    entry: &'v Spanned<RawUser>,
) -> Result<(ClientRules, &'static str, &'v Spanned<Value>), ConfigError> {
    let raw = entry.get_ref();
    let written = [("cn", &raw.cn), ("dns", &raw.dns), ("uri", &raw.uri)];
    let mut written = written.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
    let whose = "whose certificate makes a client this user, such as cn = \"worker\"";
    let Some((key, value)) = written.next() else {
        let problem = format!("lacks cn, dns or uri: {whose}");
        return Err(section.source.error(entry.span(), "listener.user", problem));
    };
    if let Some((other, value)) = written.next() {
        return Err(section.error(
            other,
            value,
            &format!("does not fit {key}: write another [[listener.user]] for it"),
        ));
    }
    let text = section.text(key, Some(value), whose)?.map_or("", |(text, _)| text);
    let is_good = match key {
        "cn" => true,
        "dns" => is_dns_rule(text),
        _ => is_uri_rule(text),
    };
    if text.is_empty() || text.contains('\0') || !is_good {
        let what = match key {
            "cn" => "a common name, such as \"worker\"",
            "dns" => "a DNS name, such as \"worker.example\" or \"*.workers.example\"",
            _ => "a URI, such as \"spiffe://example/worker\" or \"spiffe://example/workers/*\"",
        };
        return Err(section.error(key, value, &format!("is not {what}")));
    }
    let (name, mut rules) = (vec![text.into()], ClientRules::default());
    match key {
        "cn" => rules.common_names = name,
        "dns" => rules.dns_names = name,
        _ => rules.uris = name,
    }
    Ok((rules, key, value))
}

fn read_password_file(section: &Section<'_>, entry: &Spanned<RawUser>) -> Result<PathBuf, ConfigError> {
    let raw = entry.get_ref().password_file.as_ref();
    let what = "a file that holds the user's password and nothing else";
    read_path(section, "password_file", raw, what)?.ok_or_else(|| section.missing("password_file", entry, what))
}

/// Reads the passwords of `users`, in their order.
pub(super) fn load_passwords(
    source: &Source,
    users: &[User],
    raw: &[Spanned<RawUser>],
    security: Security,
    warnings: &mut Vec<String>,
) -> Result<Vec<Secret>, ConfigError> {
    let load = |(user, raw): (&User, &Spanned<RawUser>)| {
        let span = raw.get_ref().password_file.as_ref().map_or(raw.span(), Spanned::span);
        let error = |problem: String| source.error(span.clone(), "listener.user.password_file", problem);
        let password = Secret::load(&user.password_file).map_err(error)?;
        let exposed: Vec<_> = password.exposed().into_iter().map(ToOwned::to_owned).collect();
        security.judge(&exposed, error)?;
        warnings.extend(exposed.into_iter().map(|problem| error(problem).to_string()));
        Ok(password)
    };
    users.iter().zip(raw).map(load).collect()
}
