//! What a configuration asks of the machine: its cores, how many files a process may open, the addresses of a name.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cgroup::ControlGroup;

/// What this process may use. A test makes one up.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Numbers of the cores that the process may run on (its cpuset), ascending; at least one.
    pub cores: Vec<usize>,
    /// The most file descriptors the process can get: the hard limit of `RLIMIT_NOFILE`.
    pub open_files_max: u64,
    /// Bytes of memory that the process can have, as its control groups say; `None` where they set no bound.
    pub memory_max: Option<u64>,
    /// Finds the addresses of a host name. May wait for a name server.
    pub resolve: fn(host: &str, port: u16) -> io::Result<Vec<SocketAddr>>,
}

impl Machine {
    /// Looks at the machine this process runs on.
    #[must_use]
    pub fn of_this_process() -> Self {
        let mut cores: Vec<usize> =
            core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect();
        cores.sort_unstable();
        if cores.is_empty() {
            cores.push(0);
        }
        let open_files_max = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let resolve = |host: &str, port: u16| (host, port).to_socket_addrs().map(Iterator::collect);
        let memory_max = ControlGroup::of_this_process().and_then(|group| group.memory_max());
        Self { cores, open_files_max, memory_max, resolve }
    }
}

/// Raises the soft limit of open files to `needed`, where it is lower.
///
/// # Errors
///
/// The kernel's, when it refuses: `needed` is above the hard limit.
pub fn raise_open_files(needed: u64) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|soft| soft < needed) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })?;
    }
    Ok(())
}
