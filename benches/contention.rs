//! What handshakes on many threads pay for locks: how many they take, how often they wait for one in the kernel, and
//! what either costs, with shared keys and with a key for each shard, on the C library's locks and on the emulation's.

#[path = "contention/cell.rs"]
mod cell;
#[path = "contention/handshakes.rs"]
mod handshakes;
#[path = "support/lock_calls.rs"]
mod lock_calls;
#[path = "support/samples.rs"]
mod samples;
#[path = "support/strace.rs"]
mod strace;

use std::path::Path;
use std::time::Duration;

use clap::{Parser, Subcommand};
use ringwall::pool::Pool;
use ringwall::tls::warm_up;
use tempfile::TempDir;

use crate::cell::{Cell, Keys, Locks};
use crate::handshakes::{Files, KeyKind, Server, rustls_locks};
use crate::lock_calls::Calls;
use crate::samples::Samples;

/// Handshakes over which locks are counted.
const COUNTED: u64 = 200;

/// Lock calls, waiting and processor time of handshakes on many threads.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    /// Says only that it works
    #[arg(long)]
    quick: bool,
    /// How often each cell is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// One measurement, in a process of its own
    #[command(hide = true)]
    Cell(Cell),
}

fn main() {
    let arguments = Arguments::parse();
    if let Some(Part::Cell(cell)) = arguments.part {
        cell.run();
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    for kind in [KeyKind::Rsa, KeyKind::Ecdsa] {
        Files::make(kind, folder.path());
    }
    count_locks(folder.path());
    let bench = if arguments.quick {
        Bench { threads: &[1, 8], rounds: 1, window: Duration::from_millis(50), folder }
    } else {
        Bench {
            threads: &[1, 2, 8, 24, 64],
            rounds: arguments.rounds.max(1),
            window: Duration::from_millis(300),
            folder,
        }
    };
    bench.say_what_it_can_show();
    for keys in [Keys::SharedRsa, Keys::OwnRsa, Keys::OwnEcdsa] {
        bench.compare(keys);
    }
}

/// Prints which locks the server's side of one full handshake takes.
fn count_locks(folder: &Path) {
    println!("Locks taken by the server's side of one full TLS 1.3 handshake, mean of {COUNTED}.");
    println!(
        "Process: locks that all threads share. Heap: those of a key or of a thread's generator. Rustls: its own.\n"
    );
    println!(
        "{:<7}{:<26}{:>13}{:>15}{:>11}{:>12}{:>8}{:>8}{:>8}",
        "key", "server", "process read", "process write", "heap read", "heap write", "mutex", "rustls", "total"
    );
    warm_up();
    for kind in [KeyKind::Rsa, KeyKind::Ecdsa] {
        let files = Files::of(kind, folder);
        let servers = [
            ("rustls's defaults", files.rustls_with_cache()),
            ("rustls with its ticketer", files.rustls_with_ticketer()),
            ("a shard's acceptor", files.acceptor()),
        ];
        for (name, server) in servers {
            let (calls, rustls) = locks_of(&server, &files);
            let mean = |count: u64| count as f64 / COUNTED as f64;
            println!(
                "{:<7}{name:<26}{:>13.2}{:>15.2}{:>11.2}{:>12.2}{:>8.2}{:>8.2}{:>8.2}",
                format!("{kind:?}"),
                mean(calls.process_reads),
                mean(calls.process_writes),
                mean(calls.heap_reads),
                mean(calls.heap_writes),
                mean(calls.mutexes),
                mean(rustls),
                mean(calls.total() + rustls),
            );
        }
    }
}

/// The locks of [`COUNTED`] handshakes: C's, and rustls's own.
fn locks_of(server: &Server, files: &Files) -> (Calls, u64) {
    let (client, mut pool) = (files.client(), Pool::new());
    let mut taken = Calls::default();
    for _ in 0..2 {
        server.shake_hands(&client, &mut pool, |work| work());
    }
    let rustls_before = rustls_locks();
    for _ in 0..COUNTED {
        server.shake_hands(&client, &mut pool, |work| taken = taken + lock_calls::during(work).0);
    }
    (taken, rustls_locks() - rustls_before)
}

struct Bench {
    threads: &'static [usize],
    rounds: usize,
    /// How long one measurement takes.
    window: Duration,
    folder: TempDir,
}

impl Bench {
    fn say_what_it_can_show(&self) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        println!(
            "\nHandshakes per second of the server's processor time: medians of {} of {:?}; the",
            self.rounds, self.window
        );
        println!("ratio with its smallest and largest. Calls per handshake are counted under strace.\n");
        println!(
            "This machine runs {cores} threads at once. Up to there, threads contend as on any machine. Beyond, they"
        );
        println!("take turns, and a lock is met taken only when its holder was taken off its core: that shows which");
        println!(
            "locks are waited for, and that who spins gives its core away. It cannot show what a cache line costs"
        );
        println!("that more than {cores} cores write at a time, nor a queue of more waiters than that on a lock.");
    }

    /// Measures all numbers of threads with these keys, on either kind of locks in turn.
    fn compare(&self, keys: Keys) {
        println!(
            "\n{:<16}{:>8}{:>12}{:>12}{:>26}{:>16}{:>17}{:>18}",
            keys.to_string(),
            "threads",
            "pthread /s",
            "emulated /s",
            "emulated to pthread",
            "futex, pthread",
            "futex, emulated",
            "yields, emulated"
        );
        for &threads in self.threads {
            let cell = Cell::new(keys, threads, self.window, self.folder.path());
            let (c_library, emulation) = self.rates(&cell);
            let ratio = emulation.relative_to(&c_library);
            let (sleeps, spins) = (cell.count_waits(Locks::CLibrary), cell.count_waits(Locks::Emulation));
            println!(
                "{:<16}{threads:>8}{:>12.0}{:>12.0}{:>26}{:>16.4}{:>17.4}{:>18.4}",
                "",
                c_library.median(),
                emulation.median(),
                format!("{:.2} ({:.2} to {:.2})", ratio.median(), ratio.min(), ratio.max()),
                sleeps.of("futex"),
                spins.of("futex"),
                spins.of("sched_yield"),
            );
        }
    }

    /// Handshakes per second of processor time in each round, on either kind of locks.
    fn rates(&self, cell: &Cell) -> (Samples, Samples) {
        let rounds = (0..self.rounds).map(|round| {
            // Whoever comes second finds the machine warm, so they take turns in that.
            if round % 2 == 0 {
                let first = cell.rate(Locks::CLibrary);
                (first, cell.rate(Locks::Emulation))
            } else {
                let first = cell.rate(Locks::Emulation);
                (cell.rate(Locks::CLibrary), first)
            }
        });
        let (c_library, emulation): (Vec<_>, Vec<_>) = rounds.unzip();
        (c_library.into_iter().collect(), emulation.into_iter().collect())
    }
}
