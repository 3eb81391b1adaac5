//! Where a running ringwall is asked.

use std::path::PathBuf;

use clap::Args;

use super::ctl::CtlError;
use crate::config::{Config, Machine};
use crate::files;
use crate::io::Address;

/// Where the socket is when nobody says.
const SOCKET: &str = "/run/ringwall/admin.sock";
/// Bytes of a configuration file at most, as for `ringwall run`.
const CONFIG_BYTES_MAX: usize = 1024 * 1024;

/// Where a running ringwall is asked.
#[derive(Debug, Args)]
pub struct Place {
    /// Where it is to be found: what admin.listen of this configuration file says
    #[arg(long, value_name = "FILE", conflicts_with = "socket")]
    pub config: Option<PathBuf>,

    /// Where it is: the path of its admin socket, or HOST:PORT [default: /run/ringwall/admin.sock]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<String>,
}

impl Place {
    /// The address of its admin listener.
    ///
    /// # Errors
    /// The configuration says nothing of it.
    pub(super) fn address(&self) -> Result<Address, CtlError> {
        if let Some(socket) = &self.socket {
            let path = socket.strip_prefix("unix:").unwrap_or(socket);
            return Ok(socket.parse().map_or_else(|_| Address::Unix(path.into()), Address::Tcp));
        }
        let Some(file) = &self.config else { return Ok(Address::Unix(SOCKET.into())) };
        let text = files::read(file, CONFIG_BYTES_MAX);
        let text = text.map_err(|error| CtlError::Place(format!("{}: {error}", file.display())))?;
        let config = Config::parse(&text.bytes, file, &Machine::of_this_process()).map_err(CtlError::Config)?;
        let none = || {
            CtlError::Place(format!(
                "{}: has no [admin] table, so nothing listens for administrators: add one and restart ringwall",
                file.display()
            ))
        };
        config.admin.map(|admin| admin.listen).ok_or_else(none)
    }
}
