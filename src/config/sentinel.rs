//! A backend's `sentinel` table: who is asked which server is the primary.

use toml::Spanned;

use super::address;
use super::backend_tls::{BackendTls, read_backend_tls, server_name};
use super::error::{ConfigError, Source};
use super::health_check::{Login, read_login};
use super::machine::Machine;
use super::raw::RawSentinel;
use super::section::{Item, Section};
use crate::roster::Server;

/// Most addresses of Sentinels: each has two connections open to it.
const ADDRESSES_MAX: usize = 32;
/// Longest name of a primary in bytes.
const NAME_BYTES_MAX: usize = 256;

/// What messages call the Sentinels' `tls` table.
pub(super) const TLS: &str = "backend.sentinel.tls";

/// Who is asked which server is the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentinel {
    /// The Sentinels, at least one. All are listened to.
    pub addresses: Vec<Server>,
    /// What they call the primary.
    pub name: Box<str>,
    /// Who ringwall is to them; without it, whom they take for their default user.
    pub login: Option<Login>,
    /// How they speak TLS; without it, they are spoken to in plain text.
    pub tls: Option<BackendTls>,
}

pub(super) fn read_sentinel(
    source: &Source,
    entry: &Spanned<RawSentinel>,
    machine: &Machine,
) -> Result<Sentinel, ConfigError> {
    let (section, raw) = (Section { source, name: "backend.sentinel" }, entry.get_ref());
    let what = "the name of the primary, as in Sentinel's \"sentinel monitor NAME ...\"";
    let (name, value) = section.required("name", entry, raw.name.as_ref(), what)?;
    // What Sentinel itself takes for a name.
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_fit) {
        let problem = format!("is not a name of 1 to {NAME_BYTES_MAX} letters, digits, dots, hyphens and underscores");
        return Err(section.error("name", value, &problem));
    }
    let tls = raw.tls.as_ref().map(|tls| read_backend_tls(&Section { source, name: TLS }, tls)).transpose()?;
    let what = "a list of the Sentinels' addresses, such as [\"10.0.0.1:26379\", \"10.0.0.2:26379\"]";
    let Some(value) = raw.addresses.as_ref() else { return Err(section.missing("addresses", entry, what)) };
    let mut addresses = Vec::new();
    for Item { value: text, place } in section.distinct_texts("addresses", Some(value), what)?.unwrap_or_default() {
        let found = address::server(text, machine).map_err(|problem| section.error("addresses", place, &problem))?;
        for address in found {
            let name = |tls| server_name(&section, "addresses", tls, &address, place);
            let server_name = tls.as_ref().map(name).transpose()?.flatten();
            addresses.push(Server { name: text.into(), server_name, ..Server::at(address) });
        }
    }
    if addresses.len() > ADDRESSES_MAX {
        let problem = format!("has {} addresses; there are at most {ADDRESSES_MAX}", addresses.len());
        return Err(section.error("addresses", value, &problem));
    }
    let login = read_login(&section, raw.username.as_ref(), raw.password_file.as_ref())?;
    Ok(Sentinel { addresses, name: name.into(), login, tls })
}
