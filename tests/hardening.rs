//! What the running program has given up: core files, debuggers, root, capabilities.
#![expect(clippy::unwrap_used, reason = "in a test an unexpected error is a failure")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

/// A user who is nobody on any machine.
const NOBODY: u32 = 65_534;

const CONFIG: &str = r#"[[listener]]
bind = "127.0.0.1:0"
backend = "valkey"
tls = { certificate = "server.crt", private_key = "server.key" }

[[backend]]
name = "valkey"
servers = ["127.0.0.1:6379"]

[limits]
max_connections = 100
shutdown_timeout = "0s"

[runtime]
shards = 2

[log]
"#;

/// The program at work, for a user without any right where this test has some to give up.
struct Serving {
    program: Child,
    _folder: TempDir,
}

impl Serving {
    fn start(log: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let made = rcgen::generate_simple_self_signed(vec!["ringwall.example".to_owned()]).unwrap();
        for (name, text) in [
            ("server.crt", made.cert.pem()),
            ("server.key", made.signing_key.serialize_pem()),
            ("ringwall.toml", format!("{CONFIG}{log}")),
        ] {
            fs::write(path(name), text).unwrap();
            fs::set_permissions(path(name), Permissions::from_mode(0o400)).unwrap();
        }
        // Another user may not be able to reach where it was built.
        fs::copy(env!("CARGO_BIN_EXE_ringwall"), path("ringwall")).unwrap();
        let manager = UnixDatagram::bind(path("notify")).unwrap();
        let mut command = if geteuid().is_root() {
            for entry in fs::read_dir(folder.path()).unwrap() {
                chown(entry.unwrap().path(), Some(NOBODY), Some(NOBODY)).unwrap();
            }
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs"]);
            command.args(["--inh-caps", "-all", "--bounding-set", "-all", "--"]).arg(path("ringwall"));
            command
        } else {
            Command::new(path("ringwall"))
        };
        command.current_dir(folder.path()).args(["run", "--config", "ringwall.toml"]).args(arguments);
        command.env("NOTIFY_SOCKET", path("notify")).env_remove("RINGWALL_LOG");
        let program = command.stderr(Stdio::null()).spawn().unwrap();
        let serving = Self { program, _folder: folder };
        let mut message = [0; 256];
        let length = manager.recv(&mut message).unwrap();
        assert!(message[..length].starts_with(b"READY=1\n"));
        serving
    }

    fn proc(&self, name: &str) -> String {
        fs::read_to_string(Path::new("/proc").join(self.program.id().to_string()).join(name)).unwrap()
    }

    /// A line of `/proc/PID/status`.
    fn status(&self, field: &str) -> String {
        let status = self.proc("status");
        status.lines().find_map(|line| line.strip_prefix(field)).unwrap().trim().to_owned()
    }

    /// To whom the files of a process under `/proc` belong: its user when it is dumpable, else root; see `proc(5)`.
    fn owner(&self) -> u32 {
        fs::metadata(format!("/proc/{}/fd", self.program.id())).unwrap().uid()
    }

    fn core_limit(&self) -> Vec<String> {
        let limits = self.proc("limits");
        let line = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
        line.split_whitespace().take(2).map(ToOwned::to_owned).collect()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        kill_process(Pid::from_child(&self.program), Signal::TERM).ok();
        self.program.wait().ok();
    }
}

#[test]
fn it_serves_without_root_and_without_capabilities() {
    let serving = Serving::start("", &[]);
    let user = if geteuid().is_root() { NOBODY } else { geteuid().as_raw() };
    assert_eq!(serving.status("Uid:"), format!("{user}\t{user}\t{user}\t{user}"));
    for set in ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:"] {
        assert_eq!(serving.status(set), "0000000000000000", "{set}");
    }
}

#[test]
fn its_memory_is_not_for_debuggers_and_leaves_no_core_file() {
    let serving = Serving::start("", &[]);
    assert_eq!(serving.owner(), 0);
    assert_eq!(serving.core_limit(), ["0", "0"]);
}

#[test]
fn with_a_key_log_it_stays_open_to_debuggers() {
    let serving = Serving::start("key_log = \"keys.log\"\n", &["--unsafe-key-log"]);
    assert_eq!(serving.owner(), if geteuid().is_root() { NOBODY } else { geteuid().as_raw() });
}
