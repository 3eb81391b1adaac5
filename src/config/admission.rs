//! Whom a listener lets in: networks, rates, and how many connections at once.

use ipnet::IpNet;
use toml::Spanned;

use super::error::ConfigError;
use super::limits::{Limits, MAX_CONNECTIONS_MAX};
use super::network::read_networks;
use super::raw::{RawListener, Value};
use super::section::{Item, Section};
use crate::dispatcher::{self, Rates};
use crate::networks::AddressSet;

/// Clients per second that may be asked for: more than a core can shake hands with.
const RATE_MAX: u32 = 1_000_000;

/// Whom a listener lets in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Most connections at once; at most [`Limits::max_connections`].
    pub max_connections: u32,
    /// Most connections at once of one source; `None`: as many as there may be.
    pub max_connections_per_source: Option<u32>,
    /// How fast clients may come before they are told that they come too fast.
    pub connection_rates: Rates,
    /// How fast clients may come before they are closed without a word.
    pub handshake_rates: Rates,
    /// Networks that may connect; empty: all that are not denied.
    pub allow: Vec<IpNet>,
    /// Networks that may not. Of those in either list that contain an address, the smallest decides.
    pub deny: Vec<IpNet>,
}

impl Admission {
    pub(super) fn read(
        section: &Section<'_>,
        raw: &RawListener,
        limits: &Limits,
        warnings: &mut Vec<String>,
    ) -> Result<Self, ConfigError> {
        let rate = |key, value: &Option<_>| section.count(key, value.as_ref(), 1..=RATE_MAX);
        let (max_connections, max_connections_per_source) = read_max_connections(section, raw, limits)?;
        let (allow, deny) = read_access(section, raw, warnings)?;
        Ok(Self {
            max_connections,
            max_connections_per_source,
            connection_rates: Rates {
                total: rate("connection_rate", &raw.connection_rate)?,
                per_source: rate("connection_rate_per_source", &raw.connection_rate_per_source)?,
            },
            handshake_rates: Rates {
                total: rate("handshake_rate", &raw.handshake_rate)?,
                per_source: rate("handshake_rate_per_source", &raw.handshake_rate_per_source)?,
            },
            allow,
            deny,
        })
    }

    /// The same as the dispatcher takes it.
    #[must_use]
    pub fn limits(&self) -> dispatcher::Limits {
        dispatcher::Limits {
            allowed: AddressSet::allowing(&self.allow, &self.deny),
            handshake_rates: self.handshake_rates,
            connection_rates: self.connection_rates,
            connections_per_source_max: self.max_connections_per_source,
            connections_max: u64::from(self.max_connections),
        }
    }
}

fn read_max_connections(
    section: &Section<'_>,
    raw: &RawListener,
    limits: &Limits,
) -> Result<(u32, Option<u32>), ConfigError> {
    let count = |key, value: &Option<_>| section.count(key, value.as_ref(), 1..=MAX_CONNECTIONS_MAX);
    let too_many = |key, value, whose: &str, most| {
        Err(section.error(key, value, &format!("is more than {whose} max_connections, which is {most}")))
    };
    let written = count("max_connections", &raw.max_connections)?;
    let most = limits.max_connections;
    if let (Some(value), Some(_)) = (&raw.max_connections, written.filter(|&written| written > most)) {
        let problem = format!("is more than limits.max_connections, which is {most}");
        return Err(section.error("max_connections", value, &problem));
    }
    let max_connections = written.unwrap_or(most);
    let key = "max_connections_per_source";
    let per_source = count(key, &raw.max_connections_per_source)?;
    match &raw.max_connections_per_source {
        Some(value) if per_source.is_some_and(|per_source| per_source > max_connections) => {
            too_many(key, value, "the listener's", max_connections)
        }
        Some(_) | None => Ok((max_connections, per_source)),
    }
}

/// A network of `allow` or `deny`, and where it stands.
struct Rule<'v> {
    network: IpNet,
    allows: bool,
    place: &'v Spanned<Value>,
}

impl Rule<'_> {
    const fn key(&self) -> &'static str {
        if self.allows { "allow" } else { "deny" }
    }
}

fn read_access(
    section: &Section<'_>,
    raw: &RawListener,
    warnings: &mut Vec<String>,
) -> Result<(Vec<IpNet>, Vec<IpNet>), ConfigError> {
    let allow = read_networks(section, "allow", raw.allow.as_ref())?.unwrap_or_default();
    let deny = read_networks(section, "deny", raw.deny.as_ref())?.unwrap_or_default();
    let rule = |allows| move |Item { value: network, place }| Rule { network, allows, place };
    let mut rules: Vec<_> = allow.into_iter().map(rule(true)).chain(deny.into_iter().map(rule(false))).collect();
    check_rules(section, &mut rules, warnings)?;
    let networks =
        |allows: bool| rules.iter().filter(|rule| rule.allows == allows).map(|rule| rule.network).collect::<Vec<_>>();
    Ok((networks(true), networks(false)))
}

/// Checks that each network changes something: one that lies in another of its own list, with none of the other list
/// between them, or that is in both lists, is a mistake.
fn check_rules(section: &Section<'_>, rules: &mut [Rule<'_>], warnings: &mut Vec<String>) -> Result<(), ConfigError> {
    // Larger networks before those that they contain: what surrounds a network is then always at the end of `around`.
    rules.sort_by_key(|rule| (rule.network.network(), rule.network.prefix_len()));
    let allows_some = rules.iter().any(|rule| rule.allows);
    let mut around: Vec<&Rule<'_>> = Vec::new();
    for rule in rules.iter() {
        while around.pop_if(|outer| !outer.network.contains(&rule.network)).is_some() {}
        let key = rule.key();
        match around.last() {
            Some(outer) if outer.network == rule.network && outer.allows != rule.allows => {
                let problem = format!("is in {} as well: leave it in one of the two lists", outer.key());
                return Err(section.error(key, rule.place, &problem));
            }
            Some(outer) if outer.allows == rule.allows => {
                let problem =
                    format!("lies in {}, which is in the list already: leave out one of the two", outer.network);
                return Err(section.error(key, rule.place, &problem));
            }
            None if allows_some && !rule.allows => {
                let problem = "changes nothing: it lies in no network of allow, and who is in none is not let in";
                warnings.push(section.error(key, rule.place, problem).to_string());
            }
            Some(_) | None => {}
        }
        around.push(rule);
    }
    Ok(())
}
