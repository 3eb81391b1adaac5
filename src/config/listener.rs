//! `[[listener]]`: where clients connect, and what they are shown.

use std::collections::HashSet;
use std::net::SocketAddr;

use toml::Spanned;

use super::admission::Admission;
use super::backend::Backend;
use super::error::{ConfigError, Source};
use super::limits::{Limits, read_listen_backlog};
use super::listener_edge::{ListenerEdge, read_listener_edge};
use super::machine::Machine;
use super::multiplex::Multiplex;
use super::raw::RawListener;
use super::section::Section;
use super::session_limits::SessionLimits;
use super::tls::{Tls, read_tls};
use super::{Coalesce, address, check_entries, closest};

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Unique among listeners; where not given, the bind address as it is written.
    pub name: Box<str>,
    /// The address to bind; port 0 lets the kernel choose.
    pub bind: SocketAddr,
    /// Index of its backend in [`Config::backends`](super::Config::backends).
    pub backend: usize,
    /// How it speaks TLS; without it its clients speak plain text.
    pub tls: Option<Tls>,
    /// Whom it lets in.
    pub admission: Admission,
    /// Connections the kernel may hold before they are accepted; see `listen(2)`.
    pub listen_backlog: u32,
    /// Bounds on each of its sessions.
    pub session: SessionLimits,
    /// What its clients see when no server can be reached.
    pub unreachable: Unreachable,
    /// What stands in front of its clients' first bytes.
    pub edge: ListenerEdge,
    /// How its clients share connections to servers; without it, each has its own.
    pub multiplex: Option<Multiplex>,
}

impl Listener {
    /// Whether strangers can reach it and need nothing to be let in, so that what a server lets strangers do counts.
    #[must_use]
    pub fn is_open_to_strangers(&self) -> bool {
        let asks = self.tls.as_ref().and_then(|tls| tls.client_auth.as_ref()).is_some_and(|auth| auth.required);
        !self.bind.ip().is_loopback() && !asks
    }

    /// Whether the kernel does not have two sockets listen to its address and this one as a matter of course.
    #[must_use]
    pub fn overlaps(&self, bind: SocketAddr) -> bool {
        address::overlap(self.bind, bind)
    }
}

/// What a client sees when no server can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// An error in RESP, then an orderly end.
    Error,
    /// Its connection is cut, as if the server had failed.
    Close,
}

pub(super) fn read_listeners(
    source: &Source,
    raw: &[Spanned<RawListener>],
    backends: &[Backend],
    (limits, coalesce): (&Limits, Coalesce),
    machine: &Machine,
    warnings: &mut Vec<String>,
) -> Result<Vec<Listener>, ConfigError> {
    let section = Section { source, name: "listener" };
    check_entries(source, "listener", raw)?;
    let mut listeners: Vec<Listener> = Vec::new();
    let mut names = HashSet::new();
    for entry in raw {
        let listener = read_listener(&section, entry, backends, (limits, coalesce), machine, warnings)?;
        let raw = entry.get_ref();
        let taken = listeners.iter().find(|other| address::overlap(other.bind, listener.bind));
        if let (Some(other), Some(value)) = (taken, &raw.bind) {
            let problem = if other.bind == listener.bind {
                format!("is bound by listener \"{}\" already", other.name)
            } else {
                format!(
                    "overlaps {}, which listener \"{}\" is bound to: write addresses that do not contain each other, or \
                     other ports",
                    other.bind, other.name
                )
            };
            return Err(section.error("bind", value, &problem));
        }
        if let (false, Some(value)) = (names.insert(listener.name.clone()), raw.name.as_ref().or(raw.bind.as_ref())) {
            return Err(section.error("name", value, "is the name of another listener already"));
        }
        if let (Some(value), None, false) = (&raw.plain, &listener.tls, listener.bind.ip().is_loopback()) {
            let problem = "lets whoever can reach this address read and change what clients and server say: bind it to \
                           loopback, or give it tls";
            warnings.push(section.error("plain", value, problem).to_string());
        }
        listeners.push(listener);
    }
    Ok(listeners)
}

fn read_listener(
    section: &Section<'_>,
    entry: &Spanned<RawListener>,
    backends: &[Backend],
    (limits, coalesce): (&Limits, Coalesce),
    machine: &Machine,
    warnings: &mut Vec<String>,
) -> Result<Listener, ConfigError> {
    let raw = entry.get_ref();
    let what = "the address to listen on, such as \"0.0.0.0:6380\"";
    let (bind_text, value) = section.required("bind", entry, raw.bind.as_ref(), what)?;
    let bind = address::bind(bind_text, machine).map_err(|problem| section.error("bind", value, &problem))?;

    let name = match section.text("name", raw.name.as_ref(), "a name such as \"public\"")? {
        Some((name, value)) => {
            section.check_name(name, value)?;
            name
        }
        None => bind_text,
    };

    let what = "the name of a [[backend]]";
    let (wanted, value) = section.required("backend", entry, raw.backend.as_ref(), what)?;
    let Some(backend) = backends.iter().position(|backend| &*backend.name == wanted) else {
        let names = backends.iter().map(|backend| &*backend.name);
        let problem = match closest(wanted, names.clone()) {
            Some(close) => format!("is the name of no [[backend]]; did you mean \"{close}\"?"),
            None => format!("is the name of no [[backend]]; there are: {}", names.collect::<Vec<_>>().join(", ")),
        };
        return Err(section.error("backend", value, &problem));
    };

    let tls = read_tls(section, entry)?;
    let edge = read_listener_edge(section, entry, tls.as_ref(), warnings)?;
    let session = SessionLimits::read(section, raw, limits, coalesce)?;
    let multiplex = Multiplex::read(section, raw, &backends[backend], &session, limits)?;
    Ok(Listener {
        name: name.into(),
        bind,
        backend,
        tls,
        admission: Admission::read(section, raw, limits, warnings)?,
        listen_backlog: read_listen_backlog(section, raw.listen_backlog.as_ref())?.unwrap_or(limits.listen_backlog),
        session,
        unreachable: section.choice(
            "unreachable",
            raw.unreachable.as_ref(),
            Unreachable::Error,
            &[("error", Unreachable::Error), ("close", Unreachable::Close)],
        )?,
        edge,
        multiplex,
    })
}
