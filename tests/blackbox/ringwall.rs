//! The program under test: its configuration, readiness, log and end.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use rustix::process::Signal;

use crate::admin::Admin;
use crate::certificates::Certificates;
use crate::client::{Client, Dial};
use crate::process::{PATIENCE, Process, run};

/// What a test wants of ringwall beyond the defaults.
pub(crate) struct Setup {
    pub(crate) certificates: Certificates,
    servers: Vec<String>,
    bind: String,
    backend: String,
    transport: &'static str,
    listener: String,
    sections: String,
    tls: String,
    /// The whole configuration, in place of one made of the above.
    text: Option<String>,
    arguments: Vec<&'static str>,
    shell: Option<&'static str>,
}

impl Setup {
    /// One listener in front of `server`.
    pub(crate) fn before(server: impl Into<String>) -> Self {
        Self {
            certificates: Certificates::new(),
            servers: vec![server.into()],
            bind: "127.0.0.1:0".to_owned(),
            backend: String::new(),
            transport: "tls = { certificate = \"server.crt\", private_key = \"server.key\" }",
            listener: String::new(),
            sections: String::new(),
            tls: String::new(),
            text: None,
            arguments: Vec::new(),
            shell: None,
        }
    }

    /// One listener and a backend without servers, whose keys must say who names one.
    pub(crate) fn before_sentinels(keys: &str) -> Self {
        let mut setup = Self::before(String::new()).backend(keys);
        setup.servers.clear();
        setup
    }

    /// With this configuration.
    pub(crate) fn of_text(text: String) -> Self {
        Self { text: Some(text), ..Self::before("") }
    }

    /// Binds the listener to a port that the test has chosen, and not the kernel.
    pub(crate) fn on_port(mut self, port: u16) -> Self {
        self.bind = format!("127.0.0.1:{port}");
        self
    }

    /// Adds a server to the backend: where it is, or a table that says so.
    pub(crate) fn and(mut self, server: impl Into<String>) -> Self {
        self.servers.push(server.into());
        self
    }

    /// Adds keys of the backend.
    pub(crate) fn backend(mut self, keys: &str) -> Self {
        self.backend = keys.to_owned();
        self
    }

    /// Has the listener bind to another address.
    pub(crate) fn bind(mut self, address: &'static str) -> Self {
        self.bind = address.to_owned();
        self
    }

    /// Makes the listener one for clients without TLS.
    pub(crate) fn plain(mut self) -> Self {
        self.transport = "plain = true";
        self
    }

    /// Adds keys of the listener.
    pub(crate) fn listener(mut self, keys: &str) -> Self {
        self.listener = keys.to_owned();
        self
    }

    /// Adds sections at the end.
    pub(crate) fn sections(mut self, sections: &str) -> Self {
        self.sections = sections.to_owned();
        self
    }

    /// Adds keys of the listener's `tls`.
    pub(crate) fn tls(mut self, keys: &str) -> Self {
        self.tls = format!(", {keys}");
        self
    }

    /// Adds an argument of the command line.
    pub(crate) fn argument(mut self, argument: &'static str) -> Self {
        self.arguments.push(argument);
        self
    }

    /// Adds an admin socket, with `keys` of its table; see [`Ringwall::admin`].
    pub(crate) fn admin(mut self, keys: &str) -> Self {
        let socket = self.certificates.folder().join("admin.sock");
        self.sections += &format!("[admin]\nlisten = \"unix:{}\"\n{keys}", socket.display());
        self
    }

    /// Exchanges the certificates.
    pub(crate) fn certificates(mut self, certificates: Certificates) -> Self {
        self.certificates = certificates;
        self
    }

    /// Runs `commands` in the shell that then becomes ringwall.
    pub(crate) fn after(mut self, commands: &'static str) -> Self {
        self.shell = Some(commands);
        self
    }

    /// Writes the configuration and returns its path.
    pub(crate) fn write(&self) -> PathBuf {
        let path = self.certificates.folder().join("ringwall.toml");
        if let Some(text) = &self.text {
            fs::write(&path, text).unwrap();
            return path;
        }
        let written = |server: &String| if server.starts_with('{') { server.clone() } else { format!("{server:?}") };
        let servers: Vec<_> = self.servers.iter().map(written).collect();
        let servers = if servers.is_empty() { String::new() } else { format!("servers = [{}]", servers.join(", ")) };
        // Tests wait for lines: none is withheld.
        let text = format!(
            "[[listener]]\nname = \"public\"\nbind = \"{}\"\nbackend = \"server\"\n\
             {}\n{}\n[[backend]]\nname = \"server\"\n{}\n{}\n[log]\nformat = \"json\"\n\
             failures_per_second = 100000\n{}",
            self.bind,
            self.transport.replace(" }", &format!("{} }}", self.tls)),
            self.listener,
            servers,
            self.backend,
            self.sections
        );
        fs::write(&path, text).unwrap();
        path
    }

    /// Starts it and waits until it is ready.
    pub(crate) fn start(self) -> Ringwall {
        self.start_with("public")
    }

    /// As [`Self::start`]; clients that name no listener come to this one.
    pub(crate) fn start_with(self, listener: &str) -> Ringwall {
        let notify = self.certificates.folder().join("notify");
        let manager = UnixDatagram::bind(&notify).unwrap();
        manager.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut command = Command::new("bash");
        command.arg("-c").arg(format!("{}\nexec \"$0\" \"$@\"", self.shell.unwrap_or_default())).arg(binary());
        command
            .arg("run")
            .arg("--config")
            .arg(self.write())
            .args(&self.arguments)
            .env("NOTIFY_SOCKET", &notify)
            .env_remove("RINGWALL_LOG");
        // Whoever waits for readiness also learns that there will be none.
        let process = Process::start(command, move || drop(UnixDatagram::unbound().unwrap().send_to(b"ended", notify)));
        let mut told = [0; 512];
        let length = manager.recv(&mut told).unwrap();
        let told = String::from_utf8_lossy(&told[..length]);
        assert!(told.lines().any(|line| line == "READY=1"), "not ready: {told}\n{}", process.lines().join("\n"));
        let start = process.line(|line| line.contains("\"started\""));
        let address = listening_on(&start, listener);
        Ringwall { process, address, manager, certificates: self.certificates }
    }
}

/// Where the listener `name` listens, according to the line logged at start.
fn listening_on(line: &str, name: &str) -> SocketAddr {
    let rest = line.split(&format!("{name} on ")).nth(1).unwrap_or_else(|| panic!("no address in {line}"));
    let address = rest.split([' ', ',', '"']).next().unwrap();
    address.parse().unwrap_or_else(|_| panic!("{address} is no address in {line}"))
}

/// The program that is tested.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("RINGWALL_BINARY").map_or_else(|| env!("CARGO_BIN_EXE_ringwall").into(), PathBuf::from)
}

/// Runs `ringwall` with `arguments` to its end.
pub(crate) fn ringwall(arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(binary());
    command.args(arguments).env_remove("NOTIFY_SOCKET").env_remove("RINGWALL_LOG");
    run(command, b"")
}

/// A running ringwall, ended when it is dropped.
pub(crate) struct Ringwall {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    pub(crate) certificates: Certificates,
    manager: UnixDatagram,
}

impl Ringwall {
    /// One listener with the defaults in front of `server`.
    pub(crate) fn before(server: impl Into<String>) -> Self {
        Setup::before(server).start()
    }

    pub(crate) fn dial(&self) -> Dial {
        Dial::new(self.address, self.certificates.roots())
    }

    /// Where the listener `name` listens.
    fn address_of(&self, name: &str) -> SocketAddr {
        listening_on(&self.process.line(|line| line.contains("\"started\"")), name)
    }

    pub(crate) fn port_of(&self, name: &str) -> u16 {
        self.address_of(name).port()
    }

    /// As [`Self::dial`], to the listener `name`.
    pub(crate) fn dial_to(&self, name: &str) -> Dial {
        Dial::new(self.address_of(name), self.certificates.roots())
    }

    /// A connected client.
    pub(crate) fn client(&self) -> Client {
        self.dial().connect().unwrap()
    }

    /// A connected client without TLS.
    pub(crate) fn plain_client(&self) -> Client {
        Client::plain(TcpStream::connect(self.address).unwrap())
    }

    pub(crate) fn ca_file(&self) -> PathBuf {
        self.certificates.ca_file()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.certificates.folder()
    }

    /// The log line of the `n`th session (from 1) that ended for `reason`.
    pub(crate) fn nth_session_ended(&self, n: usize, reason: &str) -> String {
        let field = format!("\"reason\":\"{reason}\"");
        self.process.nth_line(n, |line| line.contains("session closed") && line.contains(&field))
    }

    /// The log line of the first session that ended for `reason`.
    pub(crate) fn session_ended(&self, reason: &str) -> String {
        self.nth_session_ended(1, reason)
    }

    /// Waits until `count` sessions have ended, for whatever reason.
    pub(crate) fn wait_for_ended_sessions(&self, count: usize) {
        self.process.nth_line(count, |line| line.contains("session closed"));
    }

    /// Asks the admin socket that a configuration names.
    pub(crate) fn admin_at(&self, text: &str) -> Admin {
        let path = text.split("listen = \"unix:").nth(1).and_then(|rest| rest.split('"').next());
        Admin::at(path.expect("it names one").into())
    }

    /// Asks the admin socket.
    pub(crate) fn admin(&self) -> Admin {
        Admin::at(self.folder().join("admin.sock"))
    }

    pub(crate) fn terminate(&self) {
        self.process.signal(Signal::TERM);
    }

    /// What the service manager is told next.
    pub(crate) fn told(&self) -> String {
        let mut told = [0; 512];
        let length = self.manager.recv(&mut told).unwrap();
        String::from_utf8_lossy(&told[..length]).into_owned()
    }

    /// Waits for its end; the last line it wrote, and its exit status.
    pub(crate) fn wait(&mut self) -> (String, ExitStatus) {
        let status = self.process.wait();
        (self.process.lines().pop().unwrap_or_default(), status)
    }

    /// Asserts that it still serves.
    pub(crate) fn assert_serves(&self) {
        assert_eq!(self.client().call(&["PING"]), b"+PONG\r\n");
    }
}
