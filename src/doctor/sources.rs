//! Whether this machine has the addresses that servers are to be connected to from.

use std::io;
use std::net::IpAddr;

use super::finding::Finding;
use crate::config::Config;

/// `check` says whether a connection can come from an address.
pub(super) fn judge(config: &Config, check: impl Fn(IpAddr) -> io::Result<()>) -> Vec<Finding> {
    let sources = config.backends.iter().flat_map(|backend| {
        backend.options.sources.iter().map(move |&address| (format!("{} from {address}", backend.name), address))
    });
    let judge = |(what, address)| match check(address) {
        Ok(()) => Finding::good(what, "an address of this machine"),
        Err(error) => Finding::bad(
            what,
            error,
            "no interface of this machine has that address (`ip address` shows those it has): write one of these in \
             source_addresses",
        ),
    };
    sources.map(judge).collect()
}
