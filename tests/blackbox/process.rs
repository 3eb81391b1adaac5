//! A child process: its lines, its end, and what the kernel says of it.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long anything that must happen may take on a busy machine before the test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The time, for tests that bound how long something takes.
#[expect(clippy::disallowed_methods, reason = "these tests measure the real program from outside")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The text of a file as soon as it holds this.
pub(crate) fn text_with(path: &Path, what: &str) -> String {
    let deadline = now() + PATIENCE;
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if text.contains(what) {
            return text;
        }
        assert!(now() < deadline, "no {what} in {text}");
        thread::yield_now();
    }
}

/// What a process has written so far, line by line.
#[derive(Default)]
struct Output {
    lines: Mutex<Vec<String>>,
    grown: Condvar,
    ended: Mutex<bool>,
    at_end: Condvar,
}

/// A running program, ended when it is dropped.
pub(crate) struct Process {
    name: String,
    child: Child,
    output: Arc<Output>,
}

impl Process {
    /// Starts `command` and reads what it writes, to both its outputs. `at_end` is called when both are closed.
    pub(crate) fn start(mut command: Command, at_end: impl FnOnce() + Send + 'static) -> Self {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let output = Arc::new(Output::default());
        let stdout = follow(child.stdout.take().unwrap(), Arc::clone(&output));
        let stderr = follow(child.stderr.take().unwrap(), Arc::clone(&output));
        let all = Arc::clone(&output);
        thread::spawn(move || {
            stdout.join().unwrap();
            stderr.join().unwrap();
            at_end();
            *all.ended.lock().unwrap() = true;
            all.at_end.notify_all();
        });
        Self { name, child, output }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Everything written so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        // A test that failed while it looked at them has done no harm to them.
        self.output.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The first line that `fits`, waiting for it.
    pub(crate) fn line(&self, fits: impl Fn(&str) -> bool) -> String {
        self.nth_line(1, fits)
    }

    /// The `n`th line (from 1) that `fits`, waiting for it.
    pub(crate) fn nth_line(&self, n: usize, fits: impl Fn(&str) -> bool) -> String {
        let deadline = now() + PATIENCE;
        let mut lines = self.output.lines.lock().unwrap();
        loop {
            if let Some(line) = lines.iter().filter(|line| fits(line)).nth(n - 1) {
                return line.clone();
            }
            let left = deadline.saturating_duration_since(now());
            assert!(!left.is_zero(), "{} did not write line {n} of what was waited for:\n{}", self.name, tail(&lines));
            lines = self.output.grown.wait_timeout(lines, left).unwrap().0;
        }
    }

    /// Waits until the process ends by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let ended = self.output.ended.lock().unwrap();
        let (ended, _) = self.output.at_end.wait_timeout_while(ended, PATIENCE, |ended| !*ended).unwrap();
        assert!(*ended, "{} did not end:\n{}", self.name, tail(&self.lines()));
        drop(ended);
        self.child.wait().unwrap()
    }

    /// Processor time used so far, in clock ticks of a hundredth of a second.
    pub(crate) fn cpu_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // The second field is the name in brackets; utime and stime are the 14th and 15th.
        let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    /// A figure of `/proc/PID/status` in KiB, such as `VmRSS` or `VmHWM`.
    pub(crate) fn memory_kib(&self, figure: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(figure)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// The names of its threads.
    pub(crate) fn threads(&self) -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        // One that has just ended has no name.
        let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        tasks.map(|task| name(task.unwrap()).trim().to_owned()).collect()
    }

    /// How many file descriptors are open.
    pub(crate) fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            self.child.kill().ok();
            self.child.wait().ok();
        }
        if thread::panicking() {
            eprintln!("--- {} wrote:\n{}", self.name, tail(&self.lines()));
        }
    }
}

fn follow(stream: impl Read + Send + 'static, output: Arc<Output>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            output.lines.lock().unwrap().push(String::from_utf8_lossy(&line).into_owned());
            output.grown.notify_all();
        }
    })
}

fn tail(lines: &[String]) -> String {
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// Runs a program to its end, gives it `input`, and returns whether it succeeded with all it wrote. One that does not
/// end is ended after five minutes, and has not succeeded.
pub(crate) fn run(program: Command, input: &[u8]) -> (bool, String) {
    let name = program.get_program().to_string_lossy().into_owned();
    let mut command = Command::new("timeout");
    command.args(["--kill-after", "5", "300"]).arg(program.get_program()).args(program.get_args());
    for (variable, value) in program.get_envs() {
        match value {
            Some(value) => command.env(variable, value),
            None => command.env_remove(variable),
        };
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{name} does not start: {error}; see tests/run.sh"));
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = thread::spawn(move || {
        // A program that ends early closes its input.
        std::io::Write::write_all(&mut stdin, &input).ok();
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}
