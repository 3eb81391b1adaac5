//! Real Sentinels that watch a real primary.

use std::fs;
use std::net::TcpStream;
use std::process::Command;

use tempfile::TempDir;

use crate::client::Client;
use crate::process::Process;
use crate::server::{Server, free_port, program};

/// What they call the primary.
pub(crate) const NAME: &str = "mymaster";

/// One Sentinel, ended when it is dropped.
pub(crate) struct Sentinel {
    _folder: TempDir,
    port: u16,
    password: Option<&'static str>,
    pub(crate) process: Process,
}

impl Sentinel {
    /// Watches `primary`; `quorum` of them have to agree that it is down.
    pub(crate) fn of(primary: &Server, quorum: u32) -> Self {
        Self::at_port(free_port(), primary, quorum)
    }

    pub(crate) fn at_port(port: u16, primary: &Server, quorum: u32) -> Self {
        Self::start(port, primary, quorum, &format!("port {port}\n"), None)
    }

    /// One alone, with more of its configuration, and its password.
    pub(crate) fn with(port: u16, primary: &Server, keys: &str, password: &'static str) -> Self {
        Self::start(port, primary, 1, keys, Some(password))
    }

    fn start(port: u16, primary: &Server, quorum: u32, keys: &str, password: Option<&'static str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sentinel.conf");
        let text = format!(
            "bind 127.0.0.1\ndir {}\n{keys}\nsentinel monitor {NAME} 127.0.0.1 {} {quorum}\n\
             sentinel down-after-milliseconds {NAME} 300\nsentinel failover-timeout {NAME} 3000\n",
            folder.path().display(),
            primary.port()
        );
        fs::write(&file, text).unwrap();
        let mut command = Command::new(program());
        command.arg(&file).arg("--sentinel");
        let process = Process::start(command, || {});
        process.line(|line| line.contains("+monitor master"));
        Self { _folder: folder, port, password, process }
    }

    /// What a configuration calls it.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn client(&self) -> Client {
        let mut client = Client::plain(TcpStream::connect(("127.0.0.1", self.port)).unwrap());
        if let Some(password) = self.password {
            assert_eq!(client.call(&["AUTH", password]), b"+OK\r\n");
        }
        client
    }

    /// Waits until it knows of so many replicas and other Sentinels: before that, it cannot fail over.
    pub(crate) fn wait_for(&self, replicas: usize, others: usize) {
        self.process.nth_line(replicas, |line| line.contains("+slave slave"));
        self.process.nth_line(others, |line| line.contains("+sentinel sentinel"));
    }
}

/// Three Sentinels of a primary with one replica, which know of each other.
pub(crate) fn three(primary: &Server) -> [Sentinel; 3] {
    let sentinels = [0; 3].map(|_| Sentinel::of(primary, 2));
    sentinels.iter().for_each(|sentinel| sentinel.wait_for(1, 2));
    sentinels
}
