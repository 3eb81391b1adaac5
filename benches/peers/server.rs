//! The real server behind the proxies.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::Args;

use crate::cores::{self, Cores};
use crate::credentials::Credentials;
use crate::peer::{ServerAddress, free_port, version_of};
use crate::processes;

/// Which server there is.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerOptions {
    /// The program: one of the kin of redis-server
    #[arg(long, default_value = "redis-server")]
    server: String,
    /// Its I/O threads
    #[arg(long, default_value_t = 1)]
    io_threads: usize,
}

/// A redis-server with a plain port, a port for its own TLS where it has that, and a unix socket.
#[derive(Debug)]
pub(crate) struct Server {
    program: Child,
    pub(crate) port: u16,
    pub(crate) tls_port: Option<u16>,
    path: PathBuf,
    unix: bool,
    pub(crate) version: String,
}

impl Server {
    /// Starts it on the backend's core and waits until it serves.
    pub(crate) fn start(options: &ServerOptions, credentials: &Credentials, cores: Cores, unix: bool) -> Self {
        let Some(mut version) = version_of(Command::new(&options.server).arg("--version")) else {
            panic!("{} cannot be run: install it, or name another with --server", options.server);
        };
        if options.io_threads > 1 {
            version += &format!(", {} I/O threads", options.io_threads);
        }
        let (port, tls_port) = (free_port(), free_port());
        let path = credentials.folder().join("server.sock");
        cores::pin(cores.backend);
        let server = [Some(tls_port), None].into_iter().find_map(|tls_port| {
            let mut command = command(options, credentials, port, &path);
            tls_port.into_iter().for_each(|port| speak_tls(&mut command, credentials, port));
            let program = command.spawn().expect("it has told its version");
            Self { program, port, tls_port, path: path.clone(), unix, version: version.clone() }.once_it_serves()
        });
        cores::pin(cores.clients);
        let server = server.unwrap_or_else(|| panic!("{} does not start", options.server));
        if server.tls_port.is_none() {
            println!("{} has no TLS: it is measured without", server.version);
        }
        server
    }

    /// `None` when it has ended instead.
    fn once_it_serves(mut self) -> Option<Self> {
        while UnixStream::connect(&self.path).is_err() {
            if self.program.try_wait().ok()?.is_some() {
                return None;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        Some(self)
    }

    /// Where proxies find it.
    pub(crate) fn address(&self) -> ServerAddress<'_> {
        if self.unix { ServerAddress::Path(&self.path) } else { ServerAddress::Port(self.port) }
    }

    /// Its process.
    pub(crate) fn process(&self) -> u32 {
        self.program.id()
    }

    /// The time that its threads have spent on a core.
    pub(crate) fn cpu_time(&self) -> Duration {
        processes::cpu_time(self.process())
    }

    /// Its resident memory in bytes.
    pub(crate) fn memory(&self) -> u64 {
        processes::memory(self.process())
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

fn command(options: &ServerOptions, credentials: &Credentials, port: u16, path: &Path) -> Command {
    let mut command = Command::new(&options.server);
    command
        .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"])
        .args(["--io-threads", &options.io_threads.to_string(), "--io-threads-do-reads", "yes"])
        .args(["--maxclients", "15000", "--loglevel", "warning", "--unixsocket"])
        .arg(path)
        .current_dir(credentials.folder())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn speak_tls(command: &mut Command, credentials: &Credentials, port: u16) {
    command
        .args(["--tls-port", &port.to_string(), "--tls-auth-clients", "no", "--tls-protocols", "TLSv1.3"])
        .args(["--tls-ciphersuites", "TLS_AES_128_GCM_SHA256", "--tls-cert-file"])
        .arg(credentials.folder().join("server.crt"))
        .arg("--tls-key-file")
        .arg(credentials.folder().join("server.key"));
}
