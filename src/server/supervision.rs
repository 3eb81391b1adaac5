//! The ends of the threads of the data plane: each reports its own, and a thread of its own waits for all of them.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use tokio::sync::oneshot;

use super::{Commands, StartError};
use crate::control::Ending;
use crate::dispatcher::Command;
use crate::metrics::{Tally, Totals};
use crate::pulse::Pulse;
use crate::shard::Report;

/// How a thread of the data plane ended.
pub(super) enum End {
    Shard(io::Result<Report>),
    Dispatcher(io::Result<()>),
    Panicked,
}

/// How the end of a thread becomes known.
pub(super) struct Ends {
    pub(super) sender: mpsc::Sender<End>,
    /// The thread has its name.
    pub(super) pulse: Pulse,
}

/// Starts a thread that reports its end, pinned to `core` when there is one.
pub(super) fn spawn(
    core: Option<usize>,
    ends: Ends,
    body: impl FnOnce() -> End + Send + 'static,
) -> Result<(), StartError> {
    let name = ends.pulse.thread().to_owned();
    let thread = thread::Builder::new().name(name.clone()).spawn(move || {
        if let Some(id) = core {
            // Pinning is for speed: a sandbox that forbids it costs some, and nothing else.
            core_affinity::set_for_current(core_affinity::CoreId { id });
        }
        let end = panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or(End::Panicked);
        ends.pulse.end();
        let _ = ends.sender.send(end);
    });
    thread.map(drop).map_err(|error| StartError::Thread { name, error })
}

/// What all threads have counted together.
fn totals(tallies: &[Arc<Tally>]) -> Totals {
    let mut totals = Totals::default();
    tallies.iter().for_each(|tally| totals += &tally.totals());
    totals
}

/// Sees the threads end: the shards when they have drained, then the dispatcher. A thread that fails ends it all.
pub(super) fn supervise(
    tallies: Vec<Arc<Tally>>,
    ends: mpsc::Receiver<End>,
    commands: Commands,
) -> Result<oneshot::Receiver<Ending>, StartError> {
    let (ended, receiver) = oneshot::channel();
    let body = move || {
        let mut ending = Ending::default();
        // One more is the dispatcher's.
        let mut running = tallies.len() - 1;
        for end in ends {
            match end {
                End::Shard(Ok(report)) => {
                    ending.sessions_cut_off += report.cut_off;
                    running -= 1;
                    if running == 0 {
                        // Room for it is kept.
                        let _ = commands.send(Command::End);
                    }
                }
                End::Dispatcher(Ok(())) => break,
                End::Shard(Err(error)) => ending.failure = Some(format!("a shard's ring failed: {error}")),
                End::Dispatcher(Err(error)) => ending.failure = Some(format!("the dispatcher's ring failed: {error}")),
                End::Panicked => ending.failure = Some("a thread of the data plane panicked".to_owned()),
            }
            if ending.failure.is_some() {
                break;
            }
        }
        ending.totals = totals(&tallies);
        let _ = ended.send(ending);
    };
    let name = "supervisor".to_owned();
    match thread::Builder::new().name(name.clone()).spawn(body) {
        Ok(_) => Ok(receiver),
        Err(error) => Err(StartError::Thread { name, error }),
    }
}
