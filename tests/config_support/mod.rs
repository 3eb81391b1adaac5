//! What the tests of configuration files share.
#![allow(dead_code, reason = "each test binary uses a part of it")]

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
    Machine { cores: vec![0, 1, 2, 3], open_files_max: 1_048_576, memory_max: None, resolve }
}

/// Reads `text` as `/etc/ringwall.toml` on `machine`.
pub(crate) fn parse_on(machine: &Machine, text: &str) -> Result<Config, String> {
    Config::parse(text.as_bytes(), Path::new("/etc/ringwall.toml"), machine).map_err(|error| error.to_string())
}

/// The refusal of a text, without the name of its file.
pub(crate) fn refusal(text: &str) -> String {
    match Config::parse(text.as_bytes(), Path::new("f.toml"), &machine()) {
        Ok(config) => panic!("accepted: {text}\nas: {config:?}"),
        Err(error) => error.to_string().replacen("f.toml:", "", 1).trim_start().to_owned(),
    }
}

/// The refusal of the minimal file with `from` replaced by `to`.
pub(crate) fn refusal_of_minimal_with(from: &str, to: &str) -> String {
    assert!(MINIMAL.contains(from), "{from}");
    refusal(&MINIMAL.replacen(from, to, 1))
}
