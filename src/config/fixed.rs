//! What a reload cannot change, because threads, rings and tables are made for it at the start.

use std::fmt;

use super::error::ConfigError;
use super::{Config, limits};

/// What has to be done about it.
const REMEDY: &str = "send SIGUSR2, by which a new process takes over without closing a listener, or restart";

/// Why a process cannot go over to a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartNeeded {
    /// What it cannot follow.
    pub keys: Vec<&'static str>,
    error: ConfigError,
}

impl fmt::Display for RestartNeeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for RestartNeeded {}

impl Config {
    /// Where it is not written how many connections there may be, has no more than these: how many fit the machine also
    /// depends on the number of listeners.
    pub fn fit_connections(&mut self, connections_max: u32) {
        if !self.connections_written {
            self.limits.max_connections = self.limits.max_connections.min(connections_max);
        }
    }

    /// The warnings that a process has not told that runs with `running`. How many connections fit depends on more than is
    /// told of it, and is told again when it is another number.
    #[must_use]
    pub fn warnings_beyond(&self, running: &Self) -> Vec<String> {
        let as_many = self.limits.max_connections == running.limits.max_connections;
        let told = |warning: &&String| {
            running.warnings.iter().any(|known| {
                let of_both = limits::tells_fewer_connections(known) && limits::tells_fewer_connections(warning);
                known == *warning || as_many && of_both
            })
        };
        self.warnings.iter().filter(|warning| !told(warning)).cloned().collect()
    }

    /// Whether a process that runs with `running` and was made for at most `connections_max` connections can go over to this
    /// configuration.
    ///
    /// # Errors
    ///
    /// The keys that it cannot follow, all of them in one line.
    pub fn check_reload(&self, running: &Self, connections_max: u32) -> Result<(), RestartNeeded> {
        let same_shards = self.runtime.cores.len() == running.runtime.cores.len();
        let (mut keys, mut told): (Vec<_>, Vec<_>) = running
            .fixed()
            .into_iter()
            .zip(self.fixed())
            // Other cores follow from another number of shards.
            .filter(|((key, is), (_, wanted))| is != wanted && (*key != "runtime.cores" || same_shards))
            .map(|((key, is), (_, wanted))| {
                (key, format!("{key} cannot change without a restart: it is {is}, and the file says {wanted}"))
            })
            .unzip();
        let wanted = self.limits.max_connections;
        if wanted > connections_max {
            keys.push("limits.max_connections");
            told.push(format!(
                "limits.max_connections cannot grow beyond {connections_max} without a restart, since tables are made for as \
                 many at the start, and the file says {wanted}"
            ));
        }
        if keys.is_empty() {
            return Ok(());
        }
        let error = ConfigError::of_file(self.source.file(), format!("{}; {REMEDY}", told.join("; ")));
        Err(RestartNeeded { keys, error })
    }

    /// The keys that stay as they are until the end, and their values.
    fn fixed(&self) -> Vec<(&'static str, String)> {
        let cores = &self.runtime.cores;
        let none = || "not given".to_owned();
        vec![
            ("runtime.shards", cores.len().to_string()),
            ("runtime.cores", format!("{cores:?}")),
            ("runtime.dispatcher_core", self.runtime.dispatcher_core.map_or_else(none, |core| core.to_string())),
            ("log.key_log", self.key_log.as_ref().map_or_else(none, |path| path.display().to_string())),
        ]
    }
}
