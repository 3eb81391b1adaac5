//! Whether the threads of the data plane make progress: each is asked for a sign of life and gives it at its next turn,
//! also one that sleeps because it has nothing to do. Nothing is written between two questions.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a thread that has ended answers to all pings.
const ENDED: u64 = u64::MAX;

/// One thread's answers. Clones are the same pulse.
#[derive(Clone)]
pub struct Pulse(Arc<Shared>);

struct Shared {
    thread: Box<str>,
    answered: AtomicU64,
}

/// A question to a thread, which is answered by the thread's own hand alone.
#[derive(Debug)]
pub struct Ping {
    pulse: Pulse,
    number: u64,
}

impl Pulse {
    /// That of the thread of this name, which has answered nothing yet.
    #[must_use]
    pub fn new(thread: impl Into<Box<str>>) -> Self {
        Self(Arc::new(Shared { thread: thread.into(), answered: AtomicU64::new(0) }))
    }

    /// The thread's name.
    #[must_use]
    pub fn thread(&self) -> &str {
        &self.0.thread
    }

    /// A question. `number` is above those of earlier ones.
    #[must_use]
    pub fn ping(&self, number: u64) -> Ping {
        Ping { pulse: self.clone(), number }
    }

    /// Whether the thread has answered this question or a later one, or need not because it has ended.
    #[must_use]
    pub fn has_answered(&self, number: u64) -> bool {
        self.0.answered.load(Ordering::Relaxed) >= number
    }

    /// Whether there is nobody to ask any more. All that the thread did is to be seen then.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.answered.load(Ordering::Acquire) == ENDED
    }

    /// The thread ends: it owes no answer any more.
    pub fn end(&self) {
        self.0.answered.store(ENDED, Ordering::Release);
    }
}

impl Ping {
    /// The asked thread is alive.
    pub fn answer(self) {
        // No read-modify-write: the thread that answers is the only one that writes.
        self.pulse.0.answered.store(self.number, Ordering::Relaxed);
    }
}

impl fmt::Debug for Pulse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answered = self.0.answered.load(Ordering::Relaxed);
        f.debug_struct("Pulse").field("thread", &self.0.thread).field("answered", &answered).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_answered_what_it_was_asked_and_all_before() {
        let pulse = Pulse::new("shard-0");
        assert!(pulse.has_answered(0) && !pulse.has_answered(1));
        pulse.ping(2).answer();
        assert!(pulse.has_answered(2) && !pulse.has_answered(3) && !pulse.has_ended());
    }

    #[test]
    fn a_thread_that_has_ended_owes_nothing() {
        let pulse = Pulse::new("shard-0");
        pulse.end();
        assert!(pulse.has_answered(1_000_000) && pulse.has_ended());
    }
}
