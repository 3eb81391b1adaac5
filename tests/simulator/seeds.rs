//! Runs many seeds, on all cores, and says which one failed and how to see it again.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::plan::Plan;
use crate::run::Run;
use crate::trace::Trace;

/// Plays one seed. A panic is what it found.
pub(crate) fn play(plan: Plan) -> Trace {
    Run::new(plan).play()
}

/// Plays the seeds from `first` on, and fails with all that went wrong.
pub(crate) fn play_all(first: u64, count: u64, plan: fn(u64) -> Plan) {
    let next = AtomicU64::new(first);
    let worker = || {
        let mut failed = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return failed;
            }
            if panic::catch_unwind(AssertUnwindSafe(|| play(plan(seed)))).is_err() {
                eprintln!("^ that was seed {seed}");
                failed.push(seed);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let failed = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
    });
    let Some(seed) = failed.iter().min() else { return };
    panic!(
        "{} of {count} seeds failed: {failed:?}\nsee one again with: RINGWALL_SEED={seed} cargo test --test simulator replay",
        failed.len()
    );
}
