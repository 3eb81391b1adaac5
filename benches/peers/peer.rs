//! A program that is measured: how it is started, and what it costs, seen from outside.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::cores::{self, Cores};
use crate::credentials::Credentials;
use crate::processes::{self, Thread};
use crate::server::Server;

/// How long a program may take until it serves.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// What a program's configuration is made from.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    /// Where it writes its files; `server.crt`, `server.key` and `server.pem` (both) are there.
    pub(crate) folder: &'a Path,
    /// The port it is to listen on, at 127.0.0.1.
    pub(crate) port: u16,
    /// The server: a port of 127.0.0.1, or a unix socket.
    pub(crate) server: ServerAddress<'a>,
    /// Its workers: threads or processes, whichever it has.
    pub(crate) workers: usize,
    /// Lines for the listener in its configuration.
    pub(crate) listener: &'a str,
}

/// Where a proxy finds the server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ServerAddress<'a> {
    /// At 127.0.0.1.
    Port(u16),
    /// A unix socket.
    Path(&'a Path),
}

impl Site<'_> {
    /// Writes a file of the configuration and gives its path as text. No other program's has it.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder.join(format!("{}-{name}", self.port));
        fs::write(&path, text).expect("the folder takes a file");
        path.display().to_string()
    }

    /// The server as `tcp` or `unix` say, in which `$` stands for the port or the path.
    pub(crate) fn server_as(&self, tcp: &str, unix: &str) -> String {
        match self.server {
            ServerAddress::Port(port) => tcp.replace('$', &port.to_string()),
            ServerAddress::Path(path) => unix.replace('$', &path.display().to_string()),
        }
    }
}

/// What a program is in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// ringwall.
    Ours,
    /// Another proxy that terminates TLS.
    Peer,
    /// A proxy without TLS: what forwarding alone costs.
    Floor,
    /// The server itself, without a proxy.
    Direct,
}

/// What the clients speak to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    Tls,
    Plain,
}

/// A program that can be measured.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) spoken: Spoken,
    /// The command that tells its version, if it is installed.
    pub(crate) version: fn() -> Command,
    /// The command that runs it in the foreground; `None` for the server itself.
    pub(crate) command: Option<fn(&Site<'_>) -> Command>,
    /// Threads or processes that it is to have.
    pub(crate) workers: usize,
    /// Lines for the listener in its configuration.
    pub(crate) listener: String,
}

/// A program that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) spoken: Spoken,
    pub(crate) version: String,
    pub(crate) workers: usize,
    pub(crate) address: SocketAddr,
    /// `None` for the server itself.
    program: Option<Child>,
}

impl Running {
    /// Starts `program` on the proxy's core; `None`, with a line that says so, when it is not installed or does not start.
    pub(crate) fn start(program: &Program, credentials: &Credentials, server: &Server, cores: Cores) -> Option<Self> {
        let Program { name, role, spoken, workers, .. } = program;
        let running = |version, port, program| Self {
            name: name.clone(),
            role: *role,
            spoken: *spoken,
            version,
            workers: *workers,
            address: ([127, 0, 0, 1], port).into(),
            program,
        };
        let Some(command) = program.command else {
            let port = if *spoken == Spoken::Tls { server.tls_port? } else { server.port };
            return Some(running(server.version.clone(), port, None));
        };
        let Some(version) = version_of(&mut (program.version)()) else {
            println!("{name} is not installed and is left out");
            return None;
        };
        let (folder, port) = (credentials.folder(), free_port());
        let site = Site { folder, port, server: server.address(), workers: *workers, listener: &program.listener };
        let log_path = folder.join(format!("{port}.log"));
        let log = fs::File::create(&log_path).expect("the folder takes a file");
        let errors = log.try_clone().expect("a file");
        let mut command = command(&site);
        // Who is started stays on the core of the thread that starts it.
        cores::pin(cores.proxy);
        let child = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
        cores::pin(cores.clients);
        let mut running = running(version, port, Some(child.expect("it is installed")));
        if !running.serves() {
            let log = fs::read_to_string(log_path).unwrap_or_default();
            println!("{name} does not start and is left out: {}", log.trim());
            return None;
        }
        Some(running)
    }

    /// Waits until it can be reached. It may listen before it has found all that it needs, so it is looked at once more.
    fn serves(&mut self) -> bool {
        let started = ringwall::io::sys::now();
        while ringwall::io::sys::now().since(started) < START_TIMEOUT {
            if TcpStream::connect(self.address).is_ok() {
                std::thread::park_timeout(Duration::from_millis(200));
                return self.program.as_mut().is_some_and(|program| matches!(program.try_wait(), Ok(None)));
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
        false
    }

    /// Its processes: the one that was started, and those that it started. The server is none of them.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.program.iter().flat_map(|program| processes::family(program.id())).collect()
    }

    /// The time that its threads have spent on a core.
    pub(crate) fn cpu_time(&self) -> Duration {
        self.processes().into_iter().map(processes::cpu_time).sum()
    }

    /// All threads of all processes.
    pub(crate) fn threads(&self) -> Vec<Thread> {
        self.processes().into_iter().flat_map(processes::threads).collect()
    }

    /// Its resident memory in bytes; pages that its processes share count once for each.
    pub(crate) fn memory(&self) -> u64 {
        self.processes().into_iter().map(processes::memory).sum()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let processes = self.processes();
        if let Some(child) = &mut self.program {
            // It may have ended by itself; then there is nobody to end.
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
            let _ = child.wait();
        }
        for process in processes {
            let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
            let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
        }
    }
}

/// What a command prints first.
pub(crate) fn version_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let line = text.lines().find(|line| line.bytes().any(|byte| byte.is_ascii_digit()))?;
    Some(line.trim().to_owned())
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of the loopback interface");
    listener.local_addr().expect("a bound socket has an address").port()
}
