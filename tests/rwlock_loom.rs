//! The read-write lock of the emulation under every interleaving and every reordering the memory model allows. Built
//! only with `--features loom`.
//!
//! What the lock guards is memory that is not atomic: a thread that comes to it without being ordered after the one
//! before breaks the model's rule, whatever it finds there.
#![cfg(feature = "loom")]
#![expect(unsafe_code, reason = "the lock is what makes shared memory sound")]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use ringwall::rwlock::RwLock;

/// Runs `scenario` under every schedule with at most three preemptions, as for the mailbox.
fn model(scenario: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(scenario);
}

/// A number that counts writes, and its lock.
#[derive(Default)]
struct Guarded {
    lock: RwLock,
    writes: UnsafeCell<u32>,
}

// SAFETY: what is shared is touched under the lock alone; that this suffices is what loom checks at each access.
unsafe impl Sync for Guarded {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Guarded {}

impl Guarded {
    /// How often it was written. The caller has the lock.
    fn read(&self) -> u32 {
        // SAFETY: loom has checked that no write is under way.
        self.writes.with(|writes| unsafe { *writes })
    }

    /// Adds one. The caller has the lock for writing.
    fn write(&self) {
        // SAFETY: loom has checked that nothing else is under way.
        self.writes.with_mut(|writes| unsafe { *writes += 1 });
    }

    fn locked_read(&self) -> u32 {
        self.lock.read();
        let seen = self.read();
        self.lock.unlock();
        seen
    }

    /// One look more.
    fn look(&self) {
        self.locked_read();
    }

    fn locked_write(&self) {
        self.lock.write();
        self.write();
        self.lock.unlock();
    }

    /// Whether nobody has the lock, as at the start.
    fn is_unlocked(&self) -> bool {
        let free = self.lock.try_write();
        if free {
            self.lock.unlock();
        }
        free
    }
}

/// Runs the two beside a third thread's `own`, and hands over what they leave behind.
fn beside(first: fn(&Guarded), second: fn(&Guarded), own: fn(&Guarded)) -> Arc<Guarded> {
    let guarded = Arc::new(Guarded::default());
    let threads = [first, second].map(|work| {
        let guarded = Arc::clone(&guarded);
        thread::spawn(move || work(&guarded))
    });
    own(&guarded);
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(guarded.is_unlocked());
    guarded
}

#[test]
fn of_three_writers_none_loses_a_write() {
    model(|| {
        let guarded = beside(Guarded::locked_write, Guarded::locked_write, Guarded::locked_write);
        assert_eq!(guarded.locked_read(), 3);
    });
}

#[test]
fn readers_see_all_of_a_write_or_nothing_of_it() {
    model(|| {
        fn read_twice(guarded: &Guarded) {
            let first = guarded.locked_read();
            assert!(guarded.locked_read() >= first);
        }
        let guarded = beside(read_twice, Guarded::locked_write, Guarded::look);
        assert_eq!(guarded.locked_read(), 1);
    });
}

#[test]
fn a_reader_that_waits_while_one_writer_follows_another_is_neither_in_nor_lost() {
    model(|| {
        let guarded =
            beside(Guarded::locked_write, Guarded::locked_write, |guarded| assert!(guarded.locked_read() <= 2));
        assert_eq!(guarded.locked_read(), 2);
    });
}

#[test]
fn whoever_tries_gets_the_whole_lock_or_none() {
    fn try_to_write(guarded: &Guarded) {
        if guarded.lock.try_write() {
            guarded.write();
            guarded.lock.unlock();
        }
    }
    fn try_to_read(guarded: &Guarded) {
        if guarded.lock.try_read() {
            guarded.read();
            guarded.lock.unlock();
        }
    }
    model(|| drop(beside(try_to_write, try_to_read, Guarded::locked_write)));
    model(|| drop(beside(try_to_write, try_to_read, Guarded::look)));
}

#[test]
fn readers_that_try_are_not_refused_by_readers() {
    fn try_to_read(guarded: &Guarded) {
        assert!(guarded.lock.try_read());
        guarded.read();
        guarded.lock.unlock();
    }
    model(|| drop(beside(try_to_read, try_to_read, Guarded::look)));
}

#[test]
fn a_writer_that_waits_keeps_further_readers_out() {
    model(|| {
        let guarded = Arc::new(Guarded::default());
        guarded.lock.read();
        let writer = {
            let guarded = Arc::clone(&guarded);
            thread::spawn(move || guarded.locked_write())
        };
        // The writer claims the lock sooner or later, and nobody comes in behind it while the first reader is in.
        while guarded.lock.try_read() {
            guarded.lock.unlock();
            thread::yield_now();
        }
        assert_eq!(guarded.read(), 0);
        guarded.lock.unlock();
        writer.join().unwrap();
        assert_eq!(guarded.locked_read(), 1);
    });
}
