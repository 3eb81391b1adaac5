//! What the tests of configuration files share.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use ringwall::config::{Config, Machine};

/// The reference: every key.
pub(crate) const REFERENCE: &str = include_str!("../../config/ringwall.toml");
/// The least that starts.
pub(crate) const MINIMAL: &str = include_str!("../../config/minimal.toml");

/// A machine of four cores that knows two host names.
pub(crate) fn machine() -> Machine {
    fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let (first, second) = (SocketAddr::from(([10, 0, 0, 1], port)), SocketAddr::from(([10, 0, 0, 2], port)));
        match host {
            "valkey.example" => Ok(vec![first]),
            "pair.example" => Ok(vec![first, second]),
            _ => Err(io::Error::other("no such name")),
        }
    }
    Machine { cores: vec![0, 1, 2, 3], open_files_max: 1_048_576, resolve }
}

/// Reads `text` as `/etc/ringwall.toml` on `machine`.
pub(crate) fn parse_on(machine: &Machine, text: &str) -> Result<Config, String> {
    Config::parse(text.as_bytes(), Path::new("/etc/ringwall.toml"), machine).map_err(|error| error.to_string())
}
