//! One entry of a backend's `servers`: an address, or a table with more about the server.

use std::collections::HashSet;

use toml::Spanned;

use super::address;
use super::backend_tls::{BackendTls, server_name};
use super::closest;
use super::error::ConfigError;
use super::machine::Machine;
use super::raw::Value;
use super::section::Section;
use crate::io::Address;
use crate::roster::Server;
use crate::tls::ServerName;

/// The heaviest that a server can be.
const WEIGHT_MAX: u32 = 256;

/// Most connections that may be asked for: as many as a listener may have.
const CONNECTIONS_MAX: u32 = 1_000_000;

/// What a table may say of a server.
const KEYS: [&str; 6] = ["address", "name", "weight", "backup", "max_connections", "server_name"];

/// What messages call such a table.
pub(super) const TABLE: &str = "backend.servers";

/// An entry as it is written. A server that is written as a text has an address and nothing else.
struct RawServer<'v> {
    values: [Option<&'v Spanned<Value>>; KEYS.len()],
    /// The whole of it.
    place: &'v Spanned<Value>,
}

/// An entry that has been read, and what its host name led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it is, as it is written.
    text: Box<str>,
    /// What is said of each server that it stands for, but where it is.
    like: Server,
    /// Where it leads, in the resolver's order.
    addresses: Vec<Address>,
}

impl Entry {
    /// Whether a host name is to be looked up for it.
    #[must_use]
    pub fn is_name(&self) -> bool {
        address::is_name(&self.text)
    }

    /// The servers that it stands for.
    pub fn servers(&self) -> impl Iterator<Item = Server> {
        self.addresses.iter().map(|address| Server { address: address.clone(), ..self.like.clone() })
    }

    /// Looks its host name up again; where that fails, it goes on to stand for the same servers.
    ///
    /// # Errors
    /// Why it could not be looked up, in one line.
    pub fn look_up(&mut self, machine: &Machine) -> Result<(), String> {
        self.addresses = address::server(&self.text, machine).map_err(|problem| format!("{} {problem}", self.text))?;
        Ok(())
    }
}

/// Reads the entries of `servers`. `section` is the backend's.
pub(super) fn read_entries(
    section: &Section<'_>,
    value: &Spanned<Value>,
    tls: Option<&BackendTls>,
    machine: &Machine,
) -> Result<Vec<Entry>, ConfigError> {
    let mut names = HashSet::new();
    let mut entries = Vec::new();
    for raw in raw_servers(section, value)? {
        let entry = raw.read(section, tls, machine)?;
        // Servers that are named by their address may be listed twice.
        if let Some(name) = raw.get("name")
            && !names.insert(entry.like.name.clone())
        {
            return Err(table(section).error("name", name, "is the name of another server of this backend already"));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// The place of the entry that stands for a server at `address`.
pub(super) fn place_of<'v>(
    section: &Section<'_>,
    value: &'v Spanned<Value>,
    entries: &[Entry],
    address: &Address,
) -> Result<&'v Spanned<Value>, ConfigError> {
    let raw = raw_servers(section, value)?;
    let found = entries.iter().zip(&raw).find(|(entry, _)| entry.addresses.contains(address));
    Ok(found.map_or(value, |(_, raw)| raw.get("address").unwrap_or(raw.place)))
}

/// Where this key stands in each entry, which has been read; an entry that is a text has its address alone.
pub(super) fn places<'v>(value: &'v Spanned<Value>, key: &str) -> Vec<Option<&'v Spanned<Value>>> {
    let Value::List(items) = value.get_ref() else { return Vec::new() };
    let place = |item: &'v Spanned<Value>| {
        let Value::Table(entries) = item.get_ref() else { return (key == "address").then_some(item) };
        entries.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    };
    items.iter().map(place).collect()
}

/// The table's own name in messages.
const fn table<'a>(section: &Section<'a>) -> Section<'a> {
    Section { source: section.source, name: TABLE }
}

fn raw_servers<'v>(section: &Section<'_>, value: &'v Spanned<Value>) -> Result<Vec<RawServer<'v>>, ConfigError> {
    let what = "a list of addresses, such as [\"127.0.0.1:6379\"]";
    let items = match value.get_ref() {
        Value::List(items) if !items.is_empty() => items,
        Value::List(_) => return Err(section.error("servers", value, &format!("is empty: write {what}"))),
        Value::Text(_) | Value::Integer(_) | Value::Boolean(_) | Value::Table(_) | Value::Other => {
            return Err(section.error("servers", value, &format!("is not {what}")));
        }
    };
    items.iter().map(|item| RawServer::of(section, item, what)).collect()
}

impl<'v> RawServer<'v> {
    fn of(section: &Section<'_>, place: &'v Spanned<Value>, what: &str) -> Result<Self, ConfigError> {
        let mut values = [None; KEYS.len()];
        match place.get_ref() {
            Value::Text(_) => values[0] = Some(place),
            Value::Table(entries) => {
                for (key, value) in entries {
                    let Some(position) = KEYS.iter().position(|known| known == key.get_ref()) else {
                        return Err(unknown_key(section, key));
                    };
                    values[position] = Some(value);
                }
            }
            Value::Integer(_) | Value::Boolean(_) | Value::List(_) | Value::Other => {
                let problem = format!("is neither a text nor a table; servers is {what}");
                return Err(section.error("servers", place, &problem));
            }
        }
        Ok(Self { values, place })
    }

    fn get(&self, key: &str) -> Option<&'v Spanned<Value>> {
        let position = KEYS.iter().position(|known| *known == key)?;
        self.values[position]
    }

    fn read(&self, backend: &Section<'_>, tls: Option<&BackendTls>, machine: &Machine) -> Result<Entry, ConfigError> {
        let section = table(backend);
        let what = "where the server is, such as \"127.0.0.1:6379\"";
        let (text, place) = section.required("address", self.place, self.get("address"), what)?;
        let is_table = matches!(self.place.get_ref(), Value::Table(_));
        let (of, key) = if is_table { (&section, "address") } else { (backend, "servers") };
        let addresses = address::server(text, machine).map_err(|problem| of.error(key, place, &problem))?;
        let name = match section.text("name", self.get("name"), "a word for the server in logs")? {
            None => text,
            Some((name, value)) => {
                section.check_name(name, value)?;
                name
            }
        };
        let first = addresses.first().cloned().expect("an address that was read leads somewhere");
        let weight = section.count("weight", self.get("weight"), 1..=WEIGHT_MAX)?;
        let connections_max = section.count("max_connections", self.get("max_connections"), 1..=CONNECTIONS_MAX)?;
        let like = Server {
            name: name.into(),
            server_name: self.read_server_name(&section, backend, tls, &first, place)?,
            weight: weight.and_then(|weight| u16::try_from(weight).ok()).unwrap_or(Server::WEIGHT),
            backup: section.flag("backup", self.get("backup"), false)?,
            connections_max,
            address: first,
        };
        Ok(Entry { text: text.into(), like, addresses })
    }

    /// The name that the server is asked for: its own, the backend's, or its host's.
    fn read_server_name(
        &self,
        section: &Section<'_>,
        backend: &Section<'_>,
        tls: Option<&BackendTls>,
        address: &Address,
        place: &Spanned<Value>,
    ) -> Result<Option<ServerName>, ConfigError> {
        let what = "a DNS name or an IP address, such as \"valkey.example\"";
        let own = section.text("server_name", self.get("server_name"), what)?;
        match (tls, own) {
            (None, None) => Ok(None),
            (None, Some((_, value))) => Err(section.error(
                "server_name",
                value,
                "is of no use: the backend has no tls, so nobody is asked for it",
            )),
            (Some(tls), None) => server_name(backend, "servers", tls, address, place),
            (Some(_), Some((text, value))) => {
                let error = || section.error("server_name", value, &format!("is not {what}"));
                ServerName::parse(text).ok_or_else(error).map(Some)
            }
        }
    }
}

fn unknown_key(section: &Section<'_>, key: &Spanned<String>) -> ConfigError {
    let problem = match closest(key.get_ref(), KEYS.into_iter()) {
        Some(close) => format!("unknown key; did you mean \"{close}\"?"),
        None => format!("unknown key; known here: {}", KEYS.join(", ")),
    };
    section.source.error(key.span(), format!("{TABLE}.{}", key.get_ref()), problem)
}
