//! `[admin]`: where administrators and Prometheus connect.

use std::path::Path;

use toml::Spanned;

use super::address;
use super::error::{ConfigError, Source};
use super::listener::Listener;
use super::machine::Machine;
use super::raw::RawAdmin;
use super::section::Section;
use crate::io::Address;

/// Where it is when the file does not say.
const SOCKET: &str = "/run/ringwall/admin.sock";

/// Where administrators and Prometheus connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// A unix socket, or a TCP port of loopback.
    pub listen: Address,
    /// The permissions of the unix socket; see `chmod(2)`.
    pub socket_mode: u32,
    /// Whether requests may change anything; of a unix socket only.
    pub allow_changes: bool,
}

impl Admin {
    pub(super) fn read(
        source: &Source,
        raw: Option<&Spanned<RawAdmin>>,
        machine: &Machine,
        listeners: &[Listener],
    ) -> Result<Option<Self>, ConfigError> {
        let Some(raw) = raw.map(Spanned::get_ref) else { return Ok(None) };
        let section = Section { source, name: "admin" };
        let what = "\"unix:/path\" or an address of loopback, such as \"127.0.0.1:9121\"";
        let listen = match section.text("listen", raw.listen.as_ref(), what)? {
            None => Address::Unix(Path::new(SOCKET).to_owned()),
            Some((text, value)) => {
                let listen =
                    address::admin(text, machine).map_err(|problem| section.error("listen", value, &problem))?;
                if let Some(taken) = listeners.iter().find(|listener| address::leads_to(&listen, listener.bind)) {
                    let problem = format!("is bound by listener \"{}\" already", taken.name);
                    return Err(section.error("listen", value, &problem));
                }
                listen
            }
        };
        let modes = [("0600", 0o600), ("0660", 0o660), ("0666", 0o666)];
        let socket_mode = section.choice("socket_mode", raw.socket_mode.as_ref(), 0o600, &modes)?;
        let allow_changes = section.flag("allow_changes", raw.allow_changes.as_ref(), false)?;
        if let Address::Tcp(_) = listen {
            if let Some(value) = &raw.socket_mode {
                return Err(section.error("socket_mode", value, "is of no use: admin.listen is not a unix socket"));
            }
            if let (true, Some(value)) = (allow_changes, &raw.allow_changes) {
                let problem = "lets every process of this host, browsers too, close connections and more: a TCP port has no \
                               permissions, so write a unix socket in admin.listen";
                return Err(section.error("allow_changes", value, problem));
            }
        }
        Ok(Some(Self { listen, socket_mode, allow_changes }))
    }
}
