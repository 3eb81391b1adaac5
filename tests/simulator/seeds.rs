//! Runs many seeds, on all cores, and says which ones failed and how to see them again.

use std::any::Any;
use std::fmt::Write as _;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::plan::Plan;
use crate::run::Run;
use crate::trace::Trace;

/// Plays one seed, and shows what there is to see when it fails.
pub(crate) fn replay(seed: u64) {
    let mut run = Run::new(Plan::draw(seed));
    if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(|| run.play())) {
        eprintln!("{run}");
        // Some of what it holds is in a state that its own duties forbid.
        mem::forget(run);
        panic::resume_unwind(panic);
    }
}

/// Plays one seed. A panic is what it found.
pub(crate) fn play(seed: u64) -> Trace {
    Run::new(Plan::draw(seed)).play()
}

/// Plays the seeds from `first` on, and fails with all that went wrong.
pub(crate) fn play_all(first: u64, count: u64) {
    let next = AtomicU64::new(first);
    let worker = || {
        let mut failed = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return failed;
            }
            if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(|| play(seed))) {
                failed.push((seed, message(&*panic)));
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut failed = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
    });
    failed.sort();
    let Some((first, _)) = failed.first() else { return };
    let mut list = String::new();
    for (seed, message) in &failed {
        writeln!(list, "seed {seed}: {message}").unwrap();
    }
    let failures = failed.len();
    panic!(
        "{failures} of {count} seeds failed; replay: RINGWALL_SEED={first} cargo test --test simulator replay\n{list}"
    );
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a text").replace('\n', " ")
}
