//! One measurement: threads that do nothing but shake hands for a while, in a process of their own.

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ringwall::io::sys::now;
use ringwall::pool::Pool;
use ringwall::tls::warm_up;

use crate::handshakes::{Files, KeyKind, Server};
use crate::lock_calls::EMULATE;
use crate::strace::{self, Calls, Trace};

/// What the threads have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Keys {
    /// One configuration of rustls, and with it one RSA key.
    SharedRsa,
    /// Nothing: an acceptor with an RSA key for each.
    OwnRsa,
    /// Nothing: an acceptor with an ECDSA key for each.
    OwnEcdsa,
}

impl Keys {
    fn kind(self) -> KeyKind {
        match self {
            Self::SharedRsa | Self::OwnRsa => KeyKind::Rsa,
            Self::OwnEcdsa => KeyKind::Ecdsa,
        }
    }
}

impl std::fmt::Display for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::SharedRsa => "one RSA key",
            Self::OwnRsa => "RSA per shard",
            Self::OwnEcdsa => "ECDSA per shard",
        })
    }
}

/// What is behind the read-write locks that libcrypto takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locks {
    CLibrary,
    Emulation,
}

/// What to measure.
#[derive(Args, Clone, Debug)]
pub(crate) struct Cell {
    #[arg(long, hide = true)]
    keys: Keys,
    #[arg(long, hide = true)]
    threads: usize,
    #[arg(long, hide = true)]
    window_ms: u64,
    /// Where certificates and keys are.
    #[arg(long, hide = true)]
    folder: PathBuf,
    /// Whether the processor time is asked for, with a system call on either side of what the server does.
    #[arg(long, hide = true)]
    timed: bool,
}

/// The system calls of waiting and yielding, and the handshakes in which they were made.
pub(crate) struct Waits {
    calls: Calls,
    handshakes: u64,
}

impl Waits {
    /// How often one of them was made per handshake.
    pub(crate) fn of(&self, call: &str) -> f64 {
        self.calls.get(call).copied().unwrap_or(0) as f64 / self.handshakes as f64
    }
}

/// How many windows long waits are counted: they are rare.
const COUNTED_WINDOWS: u64 = 3;

impl Cell {
    pub(crate) fn new(keys: Keys, threads: usize, window: Duration, folder: &Path) -> Self {
        let window_ms = u64::try_from(window.as_millis()).expect("a window is short");
        Self { keys, threads, window_ms, folder: folder.to_owned(), timed: false }
    }

    /// Handshakes per second of the server's processor time.
    pub(crate) fn rate(&self, locks: Locks) -> f64 {
        let report = Self { timed: true, ..self.clone() }.run_by(Command::new("env"), locks);
        report.handshakes as f64 / report.cpu.as_secs_f64()
    }

    /// Counts how often threads wait or yield.
    pub(crate) fn count_waits(&self, locks: Locks) -> Waits {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let trace = Trace::new(folder.path());
        let longer = Self { window_ms: COUNTED_WINDOWS * self.window_ms, ..self.clone() };
        let report = longer.run_by(trace.command_for(&["futex", "sched_yield"]), locks);
        Waits { calls: trace.calls(report.from, report.until), handshakes: report.handshakes }
    }

    /// Runs this very program, started by `command`, for the one cell.
    fn run_by(&self, mut command: Command, locks: Locks) -> Report {
        command.arg(std::env::current_exe().expect("the program knows its file"));
        command.arg("cell");
        command.args(["--keys", self.keys.to_possible_value().expect("all have names").get_name()]);
        command.args(["--threads", &self.threads.to_string(), "--window-ms", &self.window_ms.to_string()]);
        command.arg("--folder").arg(&self.folder);
        if self.timed {
            command.arg("--timed");
        }
        // The allocator has locks as well, between threads that share an arena. Shards do not: they are as many as
        // cores, and by default there are eight arenas for each core.
        command.env("MALLOC_ARENA_MAX", "128");
        if locks == Locks::Emulation {
            command.env(EMULATE, "1");
        }
        let output = command.output().expect("the program starts; counting needs strace");
        assert!(output.status.success(), "{self:?}: {}", String::from_utf8_lossy(&output.stderr));
        Report::parse(&String::from_utf8_lossy(&output.stdout))
    }

    /// The measurement itself, whose report goes to standard output.
    pub(crate) fn run(&self) {
        let files = Files::of(self.keys.kind(), &self.folder);
        let shared = (self.keys == Keys::SharedRsa).then(|| files.rustls_with_neither());
        let gate = Gate::new(self.threads);
        let reports: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|_| {
                    scope.spawn(|| {
                        let own = shared.is_none().then(|| files.acceptor());
                        let server = shared.as_ref().or(own.as_ref()).expect("one of them is there");
                        let report = self.shake_hands(server, &files, &gate);
                        // Ending a thread is waiting for locks as well, which is not counted.
                        gate.wait_for_all(2);
                        Report { until: strace::time(), ..report }
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no thread fails")).collect()
        });
        let all = |mut all: Report, one: &Report| {
            all.handshakes += one.handshakes;
            all.cpu += one.cpu;
            all.from = all.from.min(one.from);
            all.until = all.until.min(one.until);
            all
        };
        let all = reports.iter().fold(Report { from: Duration::MAX, until: Duration::MAX, ..Report::default() }, all);
        all.print();
    }

    /// What one thread does.
    fn shake_hands(&self, server: &Server, files: &Files, gate: &Gate) -> Report {
        warm_up();
        let (client, mut pool) = (files.client(), Pool::new());
        for _ in 0..2 {
            server.shake_hands(&client, &mut pool, |work| work());
        }
        gate.wait_for_all(1);
        let mut report = Report { from: strace::time(), ..Report::default() };
        let (started, window) = (now(), Duration::from_millis(self.window_ms));
        while now().since(started) < window {
            server.shake_hands(&client, &mut pool, |work| {
                if self.timed {
                    let before = cpu_time();
                    work();
                    report.cpu += cpu_time() - before;
                } else {
                    work();
                }
            });
            report.handshakes += 1;
        }
        report
    }
}

/// Where all threads wait for each other without a call that is counted.
struct Gate {
    threads: usize,
    arrived: AtomicUsize,
}

impl Gate {
    fn new(threads: usize) -> Self {
        Self { threads, arrived: AtomicUsize::new(0) }
    }

    /// Waits until all have come as often as this one.
    #[expect(clippy::disallowed_methods, reason = "neither a lock nor a yield, which are what is counted")]
    fn wait_for_all(&self, times: usize) {
        self.arrived.fetch_add(1, Ordering::SeqCst);
        while self.arrived.load(Ordering::SeqCst) < self.threads * times {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The calling thread's processor time.
#[expect(unsafe_code, reason = "std does not tell it")]
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is where the kernel writes, and the clock is one of Linux's.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("less than a second"))
}

/// What a thread or the whole of them has done, and when.
#[derive(Default)]
struct Report {
    handshakes: u64,
    cpu: Duration,
    from: Duration,
    until: Duration,
}

impl Report {
    fn print(&self) {
        let Self { handshakes, cpu, from, until } = self;
        let line = format!("{handshakes} {} {} {}\n", cpu.as_nanos(), from.as_nanos(), until.as_nanos());
        stdout().write_all(line.as_bytes()).expect("somebody reads");
    }

    fn parse(text: &str) -> Self {
        let mut numbers = text.split_whitespace().map(|word| word.parse().expect("a number"));
        let mut next = || numbers.next().expect("four numbers");
        Self {
            handshakes: next(),
            cpu: Duration::from_nanos(next()),
            from: Duration::from_nanos(next()),
            until: Duration::from_nanos(next()),
        }
    }
}
