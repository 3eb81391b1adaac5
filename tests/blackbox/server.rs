//! A real Redis or Valkey server, on a unix socket or a TCP port of its own.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::client::Client;
use crate::process::Process;

/// A server with no persistence, ended when it is dropped.
pub(crate) struct Server {
    folder: TempDir,
    port: u16,
    _process: Process,
}

impl Server {
    /// On a unix socket.
    pub(crate) fn on_unix_socket() -> Self {
        Self::start(0)
    }

    /// On a TCP port.
    pub(crate) fn on_tcp() -> Self {
        Self::start(free_port())
    }

    fn start(port: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(program());
        command
            .args(["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--maxclients", "4500"])
            // Values of any size, and no opinion on how fast a client must read.
            .args(["--proto-max-bulk-len", "1gb", "--client-query-buffer-limit", "2gb"])
            .args(["--port", &port.to_string()])
            .arg("--unixsocket")
            .arg(folder.path().join("server.sock"))
            .arg("--dir")
            .arg(folder.path());
        let process = Process::start(command, || {});
        process.line(|line| line.contains("eady to accept connections"));
        Self { folder, port, _process: process }
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

fn program() -> &'static str {
    let answers = |program: &str| Command::new(program).arg("--version").output().is_ok();
    ["redis-server", "valkey-server"]
        .into_iter()
        .find(|program| answers(program))
        .expect("neither redis-server nor valkey-server is installed; tests/run.sh installs one")
}

/// A port that nothing listens on at the moment.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    listener.local_addr().unwrap().port()
}
