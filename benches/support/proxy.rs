//! The real program, started with a configuration of its own on one core, and what can be learnt about it from outside.
#![allow(dead_code, reason = "each bench uses a part of it")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Lines};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::cores::{self, Cores};
use crate::credentials::Credentials;
use crate::processes;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ringwall");

/// A configuration with one shard; sessions are not logged, so that the log is a few lines.
pub(crate) fn config(backend: &str, cores: Cores, coalesce: &str) -> String {
    format!(
        r#"[[listener]]
bind = "127.0.0.1:0"
backend = "bench"
tls = {{ certificate = "server.crt", private_key = "server.key" }}

[[backend]]
name = "bench"
servers = ["{backend}"]

[runtime]
cores = [{}]

[limits]
max_connections = 4000

[coalesce]
bytes = "{coalesce}"

[log]
sessions = false
"#,
        cores.proxy
    )
}

/// The running program.
pub(crate) struct Proxy {
    program: Child,
    log: Lines<BufReader<ChildStderr>>,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

impl Proxy {
    /// Starts the program, all its threads on the proxy's core, and waits until it serves.
    pub(crate) fn start(credentials: &Credentials, backend: &str, cores: Cores, coalesce: &str) -> Self {
        // env(1) adds nothing here.
        Self::start_by(Command::new("env"), credentials, backend, cores, coalesce)
    }

    /// As [`Proxy::start`], by a command that runs the program named behind it in its own place.
    pub(crate) fn start_by(
        mut command: Command,
        credentials: &Credentials,
        backend: &str,
        cores: Cores,
        coalesce: &str,
    ) -> Self {
        let file = credentials.write("ringwall.toml", &config(backend, cores, coalesce));
        command.args([PROGRAM, "run", "--config"]).arg(file).env_remove("RINGWALL_LOG").env_remove("NOTIFY_SOCKET");
        // A new process stays on the core of the thread that starts it.
        cores::pin(cores.proxy);
        let program = command.stderr(Stdio::piped()).spawn();
        cores::pin(cores.clients);
        let mut program = program.unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let mut log = BufReader::new(program.stderr.take().expect("its standard error is a pipe")).lines();
        let first = log.next().expect("it says that it has started").expect("a line of text");
        let address = first.split_once(" on ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        let address = address.unwrap_or_else(|| panic!("the program does not serve: {first}"));
        Self { program, log, address }
    }

    /// The time that its threads have spent on a core.
    pub(crate) fn cpu_time(&self) -> Duration {
        processes::cpu_time(self.program.id())
    }

    /// Has it end, and gives what it has counted.
    pub(crate) fn end(mut self) -> Totals {
        kill_process(Pid::from_child(&self.program), Signal::TERM).expect("it lives");
        let lines: Vec<String> = self.log.by_ref().map_while(Result::ok).collect();
        let status = self.program.wait().expect("it is our child");
        assert!(status.success(), "the program ends with {status}: {lines:#?}");
        let totals = lines.iter().find_map(|line| line.split_once(" totals ")).expect("it says what it has counted").1;
        let fields = totals.split(' ').filter_map(|field| field.split_once('='));
        Totals(fields.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
    }
}

impl Drop for Proxy {
    /// A bench that fails leaves no program behind.
    fn drop(&mut self) {
        // It has ended already, most often.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// What the program says at its end that it has counted.
pub(crate) struct Totals(HashMap<String, u64>);

impl Totals {
    /// One of its counts. Panics when there is none of that name.
    pub(crate) fn count(&self, name: &str) -> u64 {
        *self.0.get(name).unwrap_or_else(|| panic!("the program does not count {name}"))
    }
}
