//! The real server behind the proxies.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::cores::{self, Cores};
use crate::credentials::Credentials;
use crate::peer::{ServerAddress, cpu_time, free_port, version_of};

/// A redis-server with a plain port, a port for its own TLS and a unix socket.
#[derive(Debug)]
pub(crate) struct Server {
    program: Child,
    port: u16,
    pub(crate) tls_port: u16,
    path: PathBuf,
    unix: bool,
    pub(crate) version: String,
}

impl Server {
    /// Starts it on the backend's core and waits until it serves.
    pub(crate) fn start(credentials: &Credentials, cores: Cores, unix: bool) -> Self {
        let (port, tls_port) = (free_port(), free_port());
        let folder = credentials.folder();
        let path = folder.join("server.sock");
        let version = version_of(Command::new("redis-server").arg("--version")).expect("redis-server is installed");
        cores::pin(cores.backend);
        let program = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--tls-port", &tls_port.to_string()])
            .args(["--tls-auth-clients", "no", "--tls-protocols", "TLSv1.3", "--save", "", "--appendonly", "no"])
            .args(["--tls-ciphersuites", "TLS_AES_128_GCM_SHA256", "--maxclients", "15000", "--loglevel", "warning"])
            .arg("--unixsocket")
            .arg(&path)
            .arg("--tls-cert-file")
            .arg(folder.join("server.crt"))
            .arg("--tls-key-file")
            .arg(folder.join("server.key"))
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        cores::pin(cores.clients);
        let server = Self { program, port, tls_port, path, unix, version };
        while UnixStream::connect(&server.path).is_err() {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        server
    }

    /// Where proxies find it.
    pub(crate) fn address(&self) -> ServerAddress<'_> {
        if self.unix { ServerAddress::Path(&self.path) } else { ServerAddress::Port(self.port) }
    }

    /// The time that its threads have spent on a core.
    pub(crate) fn cpu_time(&self) -> Duration {
        cpu_time(self.program.id())
    }

    /// Sets the one key of the bench to a value of so many bytes. Gives the request that gets it and the reply's length.
    pub(crate) fn set(&self, value_bytes: usize) -> (Vec<u8>, usize) {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the server listens");
        let mut reader = BufReader::new(&stream);
        let mut ask = |request: &[u8]| {
            (&stream).write_all(request).expect("the server reads");
            let mut line = String::new();
            reader.read_line(&mut line).expect("the server answers");
            line
        };
        let value = vec![b'v'; value_bytes];
        let set = [format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${value_bytes}\r\n").as_bytes(), &value, b"\r\n"].concat();
        assert_eq!(ask(&set), "+OK\r\n");
        let get = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".to_vec();
        let head = ask(&get);
        let mut rest = vec![0; value_bytes + 2];
        reader.read_exact(&mut rest).expect("the server answers");
        (get, head.len() + rest.len())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is ours, and holds nothing that matters.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
