//! A real Redis or Valkey server, on a unix socket or a TCP port of its own.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::client::Client;
use crate::process::Process;

/// The first of the ports that tests give to servers.
const PORTS_FROM: u32 = 10_000;

/// A server with no persistence, ended when it is dropped.
pub(crate) struct Server {
    folder: TempDir,
    port: u16,
    pub(crate) process: Process,
}

impl Server {
    /// On a unix socket.
    pub(crate) fn on_unix_socket() -> Self {
        Self::start(0, &["--port".into(), "0".into()])
    }

    /// On a unix socket, with these lines of its configuration, such as `--tls-replication yes`.
    pub(crate) fn with(keys: &[&str]) -> Self {
        let words = keys.iter().flat_map(|key| key.split(' ')).map(str::to_owned);
        Self::start(0, &["--port".into(), "0".into()].into_iter().chain(words).collect::<Vec<_>>())
    }

    /// On a TCP port.
    pub(crate) fn on_tcp() -> Self {
        Self::on_port(free_port())
    }

    /// On this TCP port.
    pub(crate) fn on_port(port: u16) -> Self {
        Self::start(port, &["--port".into(), port.to_string()])
    }

    /// On a TCP port, with more of its configuration.
    pub(crate) fn on_tcp_with(keys: &[&str]) -> Self {
        let port = free_port();
        let keys = keys.iter().map(ToString::to_string);
        Self::start(port, &["--port".into(), port.to_string()].into_iter().chain(keys).collect::<Vec<_>>())
    }

    /// A replica of this server, as soon as it copies it.
    pub(crate) fn replica(&self) -> Self {
        let replica = Self::on_tcp_with(&["--replicaof", "127.0.0.1", &self.port.to_string()]);
        replica.process.line(|line| line.contains("Finished with success"));
        replica
    }

    /// Its TCP port.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// On a TCP port that speaks TLS with the certificate that `certificates` has for a server; `keys` are more of its
    /// configuration, such as `--tls-auth-clients no`.
    pub(crate) fn with_tls(certificates: &Certificates, keys: &[&str]) -> Self {
        let port = free_port();
        let file = |name: &str| certificates.folder().join(name).display().to_string();
        let mut arguments = vec!["--port".into(), "0".into(), "--tls-port".into(), port.to_string()];
        for (key, name) in [("cert", "server.crt"), ("key", "server.key"), ("ca-cert", "ca.crt")] {
            arguments.extend([format!("--tls-{key}-file"), file(name)]);
        }
        arguments.extend(keys.iter().map(ToString::to_string));
        Self::start(port, &arguments)
    }

    fn start(port: u16, arguments: &[String]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(installed(program()));
        command
            .args(["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--maxclients", "4500"])
            // Which also refuses clients from 127.0.0.2.
            .args(["--protected-mode", "no"])
            // Values of any size, and no opinion on how fast a client must read.
            .args(["--proto-max-bulk-len", "1gb", "--client-query-buffer-limit", "2gb"])
            // A replica is served at once.
            .args(["--repl-diskless-sync-delay", "0"])
            .args(arguments)
            .arg("--unixsocket")
            .arg(folder.path().join("server.sock"))
            .arg("--dir")
            .arg(folder.path());
        let process = Process::start(command, || {});
        process.line(|line| line.contains("eady to accept connections"));
        Self { folder, port, process }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("server.sock")
    }

    /// What a configuration calls it.
    pub(crate) fn address(&self) -> String {
        if self.port == 0 { format!("unix:{}", self.socket().display()) } else { format!("127.0.0.1:{}", self.port) }
    }

    /// A client that talks to it directly.
    pub(crate) fn client(&self) -> Client {
        Client::plain(UnixStream::connect(self.socket()).unwrap())
    }

    /// Waits until `count` clients are connected, the asking one not counted.
    pub(crate) fn wait_for_clients(&self, count: usize) {
        let mut client = self.client();
        let deadline = crate::process::now() + crate::process::PATIENCE;
        loop {
            let list = client.text(&["CLIENT", "LIST"]);
            let others = list.matches("id=").count() - 1;
            if others == count {
                return;
            }
            assert!(crate::process::now() < deadline, "{others} clients instead of {count}:\n{list}");
            std::thread::yield_now();
        }
    }
}

/// The server that is installed.
pub(crate) fn program() -> &'static str {
    let answers = |program: &str| Command::new(program).arg("--version").output().is_ok();
    ["redis-server", "valkey-server"]
        .into_iter()
        .find(|program| answers(program))
        .expect("neither redis-server nor valkey-server is installed; tests/run.sh installs one")
}

/// Where a program is. A server that is told to start itself anew must know where it is itself.
fn installed(program: &str) -> PathBuf {
    let folders = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("no {program} in {}", folders.display()))
}

/// A port that nothing listens on, outside those that the kernel gives to clients: a connection that leaves from the
/// port meanwhile would keep the server off it. No other call in this process has got it.
pub(crate) fn free_port() -> u16 {
    static LATEST: AtomicU32 = AtomicU32::new(0);
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let end: u32 = range.split_whitespace().next().unwrap().parse().unwrap();
    let ports = end.checked_sub(PORTS_FROM).filter(|&ports| ports > 0);
    let ports = ports.unwrap_or_else(|| panic!("no port from {PORTS_FROM} on is left to servers: {range}"));
    // Processes side by side begin far from each other.
    let begin = std::process::id().wrapping_mul(997);
    let chosen = (0..ports).find_map(|_| {
        let turn = begin.wrapping_add(LATEST.fetch_add(1, Ordering::Relaxed)) % ports;
        let port = u16::try_from(PORTS_FROM + turn).unwrap();
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok().then_some(port)
    });
    chosen.expect("every port is in use")
}
