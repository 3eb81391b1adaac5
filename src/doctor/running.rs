//! The ringwall that runs already, as its admin listener tells of it: where one does, it has the ports and the socket that
//! are examined.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::config::Config;
use crate::control::admin::api::Status;
use crate::control::admin::client::ask_within;

/// The longest that it is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where the ringwall listens that runs.
pub(super) struct Running(Vec<SocketAddr>);

impl Running {
    /// Asks whoever listens where the configuration has its administrators; none when nobody answers as a ringwall does.
    ///
    /// # Errors
    /// When the runtime for it cannot be had.
    pub(super) fn find(config: &Config) -> io::Result<Option<Self>> {
        let Some(admin) = &config.admin else { return Ok(None) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let answer = runtime.block_on(ask_within(PATIENCE, &admin.listen, "GET", "/status"));
        let status = answer.ok().and_then(|answer| serde_json::from_str::<Status>(&answer.body).ok());
        Ok(status.map(|status| Self::of(&status)))
    }

    fn of(status: &Status) -> Self {
        Self(status.listeners.iter().filter_map(|listener| listener.address.parse().ok()).collect())
    }

    /// Whether it listens there.
    pub(super) fn listens_on(&self, address: SocketAddr) -> bool {
        self.0.contains(&address)
    }

    #[cfg(test)]
    pub(super) fn on(address: &str) -> Self {
        Self(vec![address.parse().expect("an address")])
    }
}
