//! A proxy that is measured: how it is started, and what it costs, seen from outside.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::cores::{self, Cores};
use crate::credentials::Credentials;
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
    /// The core it runs on.
    pub(crate) core: usize,
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
    /// Writes a file of the configuration and gives its path as text.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder.join(name);
        fs::write(&path, text).expect("the folder takes a file");
        path.display().to_string()
    }

    /// The server as `tcp` or `unix` say, in which `@` stands for the port or the path.
    pub(crate) fn server_as(&self, tcp: &str, unix: &str) -> String {
        match self.server {
            ServerAddress::Port(port) => tcp.replace('@', &port.to_string()),
            ServerAddress::Path(path) => unix.replace('@', &path.display().to_string()),
        }
    }
}

/// A program that can be measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// The command that tells its version, if it is installed.
    pub(crate) version: fn() -> Command,
    /// The command that runs it in the foreground; `None` where it cannot serve that server.
    pub(crate) command: fn(&Site<'_>) -> Option<Command>,
}

/// A proxy that serves.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) name: &'static str,
    pub(crate) version: String,
    pub(crate) address: SocketAddr,
    /// `None` for the server's own TLS.
    program: Option<Child>,
}

impl Running {
    /// Starts `program` on the proxy's core; `None`, with a line that says so, when it is not installed.
    pub(crate) fn start(program: &Program, credentials: &Credentials, server: &Server, cores: Cores) -> Option<Self> {
        if program.name == "server's own TLS" {
            let address = ([127, 0, 0, 1], server.tls_port).into();
            return Some(Self { name: program.name, version: server.version.clone(), address, program: None });
        }
        let Some(version) = version_of(&mut (program.version)()) else {
            println!("{} is not installed and is left out", program.name);
            return None;
        };
        let port = free_port();
        let site = Site { folder: credentials.folder(), port, server: server.address(), core: cores.proxy };
        let mut command = (program.command)(&site)?;
        // Who is started stays on the core of the thread that starts it.
        cores::pin(cores.proxy);
        let log = fs::File::create(site.folder.join(format!("{}.log", program.name))).expect("the folder takes a file");
        let errors = log.try_clone().expect("a file");
        let child = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
        cores::pin(cores.clients);
        let address = ([127, 0, 0, 1], port).into();
        let running = Self { name: program.name, version, address, program: Some(child.expect("it is installed")) };
        if !running.serves() {
            let log = fs::read_to_string(site.folder.join(format!("{}.log", program.name)));
            println!("{} does not start and is left out: {}", program.name, log.unwrap_or_default().trim());
            return None;
        }
        Some(running)
    }

    fn serves(&self) -> bool {
        let started = ringwall::io::sys::now();
        while ringwall::io::sys::now().since(started) < START_TIMEOUT {
            if TcpStream::connect(self.address).is_ok() {
                return true;
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
        false
    }

    /// Its processes: the one that was started, and those that it started.
    fn processes(&self) -> Vec<u32> {
        let mut processes: Vec<u32> = self.program.iter().map(Child::id).collect();
        let mut index = 0;
        while let Some(&process) = processes.get(index) {
            processes.extend(children(process));
            index += 1;
        }
        processes
    }

    /// The time that its threads have spent on a core.
    pub(crate) fn cpu_time(&self) -> Duration {
        self.processes().into_iter().map(cpu_time).sum()
    }

    /// Its resident memory in bytes; pages that its processes share count once for each.
    pub(crate) fn memory(&self) -> u64 {
        let resident = |process| {
            let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
            line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
        };
        self.processes().into_iter().filter_map(resident).sum::<u64>() * 1024
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

/// The time that a process has spent on a core: of its living threads to the nanosecond, or of all to a clock tick,
/// where threads have ended.
pub(crate) fn cpu_time(process: u32) -> Duration {
    of_living_threads(process).max(of_all_threads(process).unwrap_or_default())
}

/// The first number of `schedstat`, in nanoseconds.
fn of_living_threads(process: u32) -> Duration {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return Duration::ZERO };
    let nanos = threads.filter_map(|thread| {
        let schedstat = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        schedstat.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// The fields `utime` and `stime` of `stat`, the 14th and 15th, in hundredths of a second.
fn of_all_threads(process: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is a name in brackets, and may hold anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    let ticks: u64 = rest.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks * 10))
}

fn children(process: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    lists.flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}
