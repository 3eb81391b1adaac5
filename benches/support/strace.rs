//! System calls of a program that runs under strace(1), counted over a window.
#![allow(dead_code, reason = "each bench uses a part of it")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// How often each system call was begun.
pub(crate) type Calls = BTreeMap<String, u64>;

/// What strace has written, or will have when the program has ended.
pub(crate) struct Trace(PathBuf);

impl Trace {
    /// A trace into a file in `folder`.
    pub(crate) fn new(folder: &Path) -> Self {
        Self(folder.join("strace"))
    }

    /// The start of a command that runs the program behind it, all its threads traced. strace is a child of the program,
    /// which so may be traced wherever programs may be traced by their own kin only.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new("strace");
        command.args(["-D", "-f", "-ttt", "-o"]).arg(&self.0);
        command
    }

    /// The same for some system calls only; all others run at their own speed.
    pub(crate) fn command_for(&self, calls: &[&str]) -> Command {
        let mut command = self.command();
        command.args(["--seccomp-bpf", "-e"]).arg(format!("trace={}", calls.join(",")));
        command
    }

    /// Counts what was begun from `from` to `until`.
    pub(crate) fn calls(&self, from: Duration, until: Duration) -> Calls {
        let text = fs::read_to_string(&self.0).expect("strace has written a file");
        let mut calls = Calls::new();
        for (at, name) in text.lines().filter_map(begun) {
            if (from..until).contains(&at) {
                *calls.entry(name.to_owned()).or_default() += 1;
            }
        }
        calls
    }
}

/// A line such as `4711 1700000000.123456 futex(0x7f…`: when, and which call. Lines that end a call or tell of a signal
/// look otherwise.
fn begun(line: &str) -> Option<(Duration, &str)> {
    let mut words = line.split_whitespace();
    let at = words.nth(1)?.parse().ok()?;
    let (name, _) = words.next()?.split_once('(')?;
    Some((Duration::from_secs_f64(at), name))
}

/// The time as strace tells it: since 1970.
#[expect(clippy::disallowed_methods, reason = "strace tells the time of day, and is told nothing")]
pub(crate) fn time() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is later than 1970")
}
