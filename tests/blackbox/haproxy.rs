//! HAProxy, as a proxy in front of ringwall or as a server behind it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;

use tempfile::TempDir;

use crate::process::{PATIENCE, Process, now};
use crate::server::free_port;

/// A running HAProxy, ended when it is dropped. Its log is what it writes.
pub(crate) struct Haproxy {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    _folder: TempDir,
}

impl Haproxy {
    /// Listens with these words behind `bind ADDRESS`, logs each connection in this format, and has one server: an
    /// address and more words.
    pub(crate) fn start(bind: &str, log_format: &str, server: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        // All addresses are bound before any is served: who reaches the second one reaches the first, too.
        let (address, ready) = (local(free_port()), local(free_port()));
        let file = folder.path().join("haproxy.cfg");
        let text = format!(
            "global\n  log stdout format raw local0\n\
             defaults\n  mode tcp\n  timeout connect 30s\n  timeout client 30s\n  timeout server 30s\n\
             listen relay\n  bind {address} {bind}\n  log global\n  log-format \"{log_format}\"\n  server s {server}\n\
             frontend ready\n  mode http\n  bind {ready}\n  http-request return status 200\n"
        );
        fs::write(&file, text).unwrap();
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(&file);
        let process = Process::start(command, || {});
        let deadline = now() + PATIENCE;
        while TcpStream::connect(ready).is_err() {
            assert!(now() < deadline, "haproxy does not listen:\n{}", process.lines().join("\n"));
            std::thread::yield_now();
        }
        Self { process, address, _folder: folder }
    }
}
