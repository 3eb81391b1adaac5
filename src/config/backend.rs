//! `[[backend]]`: where clients' bytes go.

use toml::Spanned;

use super::backend_tls::{BackendTls, read_backend_tls, server_name};
use super::error::{ConfigError, Source};
use super::listener::Listener;
use super::machine::Machine;
use super::raw::RawBackend;
use super::section::{Item, Section};
use super::{ENTRIES_MAX, address, check_entries};
use crate::roster::Server;

/// Where clients' bytes go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Unique among backends.
    pub name: Box<str>,
    /// How it speaks TLS to its servers; without it, they are spoken to in plain text.
    pub tls: Option<BackendTls>,
    /// At least one. A host name with several addresses is as many servers, in the resolver's order.
    pub servers: Vec<Server>,
}

pub(super) fn read_backends(
    source: &Source,
    raw: &[Spanned<RawBackend>],
    machine: &Machine,
) -> Result<Vec<Backend>, ConfigError> {
    let section = Section { source, name: "backend" };
    check_entries(source, "backend", raw)?;
    let mut backends: Vec<Backend> = Vec::new();
    for entry in raw {
        let what = "the word that listeners use for it, such as \"valkey\"";
        let (name, value) = section.required("name", entry, entry.get_ref().name.as_ref(), what)?;
        section.check_name(name, value)?;
        if backends.iter().any(|backend| &*backend.name == name) {
            return Err(section.error("name", value, "is the name of another backend already"));
        }
        let tls = entry.get_ref().tls.as_ref().map(|tls| read_backend_tls(source, tls)).transpose()?;
        let servers = read_servers(&section, entry, tls.as_ref(), machine)?;
        backends.push(Backend { name: name.into(), tls, servers });
    }
    Ok(backends)
}

/// No server is a listener of the same file: clients would be sent in a circle, and a listener takes only TLS.
pub(super) fn check_servers(
    source: &Source,
    raw: &[Spanned<RawBackend>],
    backends: &[Backend],
    listeners: &[Listener],
) -> Result<(), ConfigError> {
    let section = Section { source, name: "backend" };
    for (backend, raw) in backends.iter().zip(raw) {
        for server in &backend.servers {
            let found = listeners.iter().find(|listener| address::leads_to(&server.address, listener.bind));
            let (Some(listener), Some(value)) = (found, &raw.get_ref().servers) else { continue };
            let items = section.texts("servers", Some(value), "")?.unwrap_or_default();
            let place = items.iter().find(|item| item.value == &*server.name).map_or(value, |item| item.place);
            let problem = format!(
                "leads to listener \"{}\" of this file, which takes clients; write where the Valkey or Redis server is",
                listener.name
            );
            return Err(section.error("servers", place, &problem));
        }
    }
    Ok(())
}

fn read_servers(
    section: &Section<'_>,
    entry: &Spanned<RawBackend>,
    tls: Option<&BackendTls>,
    machine: &Machine,
) -> Result<Vec<Server>, ConfigError> {
    let what = "a list of addresses, such as [\"127.0.0.1:6379\"]";
    let Some(value) = entry.get_ref().servers.as_ref() else {
        return Err(section.missing("servers", entry, what));
    };
    let mut servers = Vec::new();
    for Item { value: text, place } in section.texts("servers", Some(value), what)?.unwrap_or_default() {
        let addresses = address::server(text, machine).map_err(|problem| section.error("servers", place, &problem))?;
        for address in addresses {
            let server_name = tls.map(|tls| server_name(section, tls, &address, place)).transpose()?.flatten();
            servers.push(Server { name: text.into(), server_name, ..Server::at(address) });
        }
    }
    if servers.len() > ENTRIES_MAX {
        let problem = format!("has {} addresses; a backend has at most {ENTRIES_MAX}", servers.len());
        return Err(section.error("servers", value, &problem));
    }
    Ok(servers)
}
