//! The program under a service manager: sockets and credentials that are handed over, and signs of life.
#![expect(clippy::unwrap_used, reason = "in a test an unexpected error is a failure")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Clients without TLS and a server that nobody is: whoever is served is told that.
const CONFIG: &str = r#"[[listener]]
name = "public"
bind = "127.0.0.1:0"
backend = "valkey"
plain = true

[[backend]]
name = "valkey"
servers = ["unix:/nowhere/valkey.sock"]

[limits]
max_connections = 100
shutdown_timeout = "0s"

[runtime]
shards = 2
"#;

/// How long anything that must happen may take on a busy machine before the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A folder with a configuration, and the manager's socket in it.
struct Manager {
    folder: TempDir,
    socket: UnixDatagram,
}

impl Manager {
    fn with(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ringwall.toml"), config).unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { folder, socket }
    }

    /// The program, started by a shell whose process it becomes, after these commands of it.
    fn command(&self, commands: &str) -> Command {
        let mut command = Command::new("bash");
        let program = env!("CARGO_BIN_EXE_ringwall");
        command.args(["-c", &format!("{commands}\nexec '{program}' run --config ringwall.toml")]);
        command.current_dir(self.folder.path()).env("NOTIFY_SOCKET", self.folder.path().join("notify"));
        command.env_remove("RINGWALL_LOG").stdin(Stdio::null());
        command
    }

    fn told(&self) -> String {
        let mut message = [0; 256];
        let length = self.socket.recv(&mut message).expect("the manager is told something");
        String::from_utf8(message[..length].to_vec()).unwrap()
    }
}

/// Hands `socket` over under this name.
fn hand_over(manager: &Manager, socket: impl Into<OwnedFd>, name: &str) -> Command {
    // The shell's own process becomes the program, so its number is the program's.
    let variables = format!("export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES={name}");
    let mut command = manager.command(&format!("exec 3<&0 </dev/null\n{variables}"));
    command.stdin(socket.into());
    command
}

/// The program at work.
struct Serving(Child);

impl Serving {
    fn start(command: &mut Command, manager: &Manager) -> Self {
        let serving = Self(command.spawn().unwrap());
        assert!(manager.told().starts_with("READY=1\n"));
        serving
    }

    /// As [`Serving::start`], with a log that nobody reads.
    fn start_quietly(command: &mut Command, manager: &Manager) -> Self {
        Self::start(command.stderr(Stdio::null()), manager)
    }

    /// The number of the thread of this name.
    fn thread(&self, name: &str) -> u32 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap().map(|task| task.unwrap());
        let named = |task: &fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap().trim() == name;
        let mut named = tasks.filter(named);
        named.next().unwrap().file_name().to_str().unwrap().parse().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).ok();
        self.0.wait().ok();
    }
}

/// What a client is told that finds no server.
fn assert_is_served(mut client: TcpStream) {
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut told = String::new();
    client.read_to_string(&mut told).unwrap();
    assert!(told.starts_with("-ERR ringwall cannot reach the server"), "{told}");
}

#[test]
fn a_socket_that_is_handed_over_is_the_listener_of_its_name() {
    let manager = Manager::with(CONFIG);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // It waits in the queue of the socket until the program is there.
    let early = TcpStream::connect(address).unwrap();
    let serving = Serving::start_quietly(&mut hand_over(&manager, listener, "public"), &manager);
    assert_is_served(early);
    assert_is_served(TcpStream::connect(address).unwrap());
    drop(serving);
}

#[test]
fn a_socket_of_another_name_is_the_listener_of_its_address() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let manager = Manager::with(&CONFIG.replace("127.0.0.1:0", &address.to_string()));
    let _serving = Serving::start_quietly(&mut hand_over(&manager, listener, "ringwall.socket"), &manager);
    assert_is_served(TcpStream::connect(address).unwrap());
}

/// The line that the program ends with.
fn refusal(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_socket_that_is_no_listener_s_is_told_what_to_do() {
    let manager = Manager::with(CONFIG);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    assert_eq!(
        refusal(&mut hand_over(&manager, listener, "ringwall.socket")),
        format!(
            "ringwall: a socket that the service manager hands over: \"ringwall.socket\" on {address} is no listener's: write \
             FileDescriptorName= with the name of a listener (public) into the socket unit, or bind a listener to that \
             address\n"
        )
    );
    let other = UnixDatagram::unbound().unwrap();
    assert_eq!(
        refusal(&mut hand_over(&manager, other, "public")),
        "ringwall: a socket that the service manager hands over: \"public\" (descriptor 3) is no listening TCP socket: \
         Invalid argument (os error 22); a listener takes ListenStream= with an address and a port, and Accept=no\n"
    );
}

#[test]
fn sockets_for_another_process_are_left_alone() {
    let manager = Manager::with(CONFIG);
    let mut command = manager.command("export LISTEN_PID=1 LISTEN_FDS=1 LISTEN_FDNAMES=nobody");
    drop(Serving::start_quietly(&mut command, &manager));
}

#[test]
fn keys_are_read_from_where_the_manager_puts_credentials() {
    let tls = "tls = { certificate = \"server.crt\", private_key = \"credential:server.key\" }";
    let manager = Manager::with(&CONFIG.replace("plain = true", tls));
    let made = rcgen::generate_simple_self_signed(vec!["ringwall.example".to_owned()]).unwrap();
    let credentials = manager.folder.path().join("credentials");
    fs::create_dir(&credentials).unwrap();
    fs::write(manager.folder.path().join("server.crt"), made.cert.pem()).unwrap();
    fs::write(credentials.join("server.key"), made.signing_key.serialize_pem()).unwrap();
    assert_eq!(
        refusal(manager.command("").env_remove("CREDENTIALS_DIRECTORY")),
        "ringwall: ringwall.toml:5: listener.tls.private_key: \"credential:server.key\" is handed over by the service \
         manager, and CREDENTIALS_DIRECTORY is not set: start ringwall as a systemd service with \
         LoadCredential=server.key:/path, or write the path of a file\n"
    );
    drop(Serving::start_quietly(manager.command("").env("CREDENTIALS_DIRECTORY", credentials), &manager));
}

/// Stops the thread whose number is its argument, as a debugger does, until its input ends. A thread that does not run
/// is one that is stuck, whatever keeps it.
const STOPPER: &str = r#"
import ctypes, os, sys
libc, tid = ctypes.CDLL(None, use_errno=True), int(sys.argv[1])
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
SEIZE, INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000
for request in SEIZE, INTERRUPT:
    if libc.ptrace(request, tid, None, None) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
os.waitpid(tid, WALL)
print("stopped", flush=True)
sys.stdin.read()
"#;

#[test]
fn signs_of_life_end_while_a_thread_is_stuck_and_only_then() {
    let manager = Manager::with(CONFIG);
    let mut command = manager.command("export WATCHDOG_USEC=200000");
    let mut serving = Serving::start(command.stderr(Stdio::piped()), &manager);
    let mut log = BufReader::new(serving.0.stderr.take().unwrap()).lines().map(|line| line.unwrap());
    for thread in ["shard-1", "dispatcher"] {
        // Idle threads are alive.
        (0..8).for_each(|_| assert_eq!(manager.told(), "WATCHDOG=1\n"));
        let mut stopper = Command::new("python3");
        stopper.args(["-c", STOPPER, &serving.thread(thread).to_string()]);
        let mut stopper = stopper.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stopped = [0; 8];
        stopper.stdout.as_mut().unwrap().read_exact(&mut stopped).expect("root, or who may debug this process");
        let line = log.find(|line| line.contains(" ERROR ")).unwrap();
        let silent = if thread == "dispatcher" { "shard-0, shard-1, dispatcher" } else { thread };
        assert!(line.ends_with(&format!("is told nothing until they do threads={silent}")), "{line}");
        // What it was told before that line; nothing follows.
        manager.socket.set_nonblocking(true).unwrap();
        while manager.socket.recv(&mut [0; 256]).is_ok() {}
        manager.socket.set_nonblocking(false).unwrap();
        drop(stopper.stdin.take());
        assert!(stopper.wait().unwrap().success());
    }
    assert_eq!(manager.told(), "WATCHDOG=1\n");
    thread::spawn(move || log.for_each(drop));
}
