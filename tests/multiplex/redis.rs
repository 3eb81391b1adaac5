//! A real server of a test's own.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

/// A server on a unix socket in its folder, which ends with this value.
pub(crate) struct Redis {
    process: Child,
    folder: tempfile::TempDir,
}

impl Redis {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(folder.path().join("socket"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-server can be run: install it (apt-get install redis-server)");
        let mut log = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(log.any(|line| line.to_ascii_lowercase().contains("ready to accept")), "it starts");
        Self { process, folder }
    }

    pub(crate) fn connect(&self) -> UnixStream {
        UnixStream::connect(self.folder.path().join("socket")).unwrap()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}
