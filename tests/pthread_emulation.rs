//! The emulation as C sees it: through the functions of the C library's names, in memory of C's shape. Built only with
//! `--features pthread-emulation`.
#![cfg(all(feature = "pthread-emulation", not(feature = "loom")))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "the functions are C's, and what their locks guard is shared")]

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use libc::{
    EBUSY, ETIMEDOUT, PTHREAD_RWLOCK_INITIALIZER, pthread_rwlock_destroy, pthread_rwlock_init, pthread_rwlock_rdlock,
    pthread_rwlock_t, pthread_rwlock_tryrdlock, pthread_rwlock_trywrlock, pthread_rwlock_unlock, pthread_rwlock_wrlock,
    timespec,
};
use ringwall::tls::{Options, TicketKeys, TicketSecret, warm_up};
use rustls::version::{TLS12, TLS13};

use crate::support::{KeyKind, Server, World, shake_hands};

#[path = "tls/support.rs"]
mod support;

type Timed = unsafe extern "C" fn(*mut pthread_rwlock_t, *const timespec) -> c_int;
type ByClock = unsafe extern "C" fn(*mut pthread_rwlock_t, libc::clockid_t, *const timespec) -> c_int;

// These the libc crate does not declare.
unsafe extern "C" {
    fn pthread_rwlock_timedrdlock(lock: *mut pthread_rwlock_t, until: *const timespec) -> c_int;
    fn pthread_rwlock_timedwrlock(lock: *mut pthread_rwlock_t, until: *const timespec) -> c_int;
    fn pthread_rwlock_clockrdlock(lock: *mut pthread_rwlock_t, clock: libc::clockid_t, until: *const timespec)
    -> c_int;
    fn pthread_rwlock_clockwrlock(lock: *mut pthread_rwlock_t, clock: libc::clockid_t, until: *const timespec)
    -> c_int;
}

/// A lock of C's with a number under it.
struct Guarded {
    lock: UnsafeCell<pthread_rwlock_t>,
    pair: UnsafeCell<(u64, u64)>,
}

// SAFETY: the lock is made to be shared, and the pair is touched under it alone.
unsafe impl Sync for Guarded {}

impl Guarded {
    /// Unlocked, as C programs initialise a static lock.
    const fn new() -> Self {
        Self { lock: UnsafeCell::new(PTHREAD_RWLOCK_INITIALIZER), pair: UnsafeCell::new((0, 0)) }
    }

    fn call(&self, function: unsafe extern "C" fn(*mut pthread_rwlock_t) -> c_int) -> c_int {
        // SAFETY: the lock is initialised and lives as long as `self`; each test gives back what it has taken.
        unsafe { function(self.lock.get()) }
    }

    /// With a point in time that has passed long ago.
    fn call_timed(&self, function: Timed) -> c_int {
        // SAFETY: as above.
        unsafe { function(self.lock.get(), &timespec { tv_sec: 0, tv_nsec: 0 }) }
    }

    fn call_by_clock(&self, function: ByClock) -> c_int {
        // SAFETY: as above.
        unsafe { function(self.lock.get(), libc::CLOCK_MONOTONIC, &timespec { tv_sec: 0, tv_nsec: 0 }) }
    }

    /// The first four bytes, as a number: readers, and the highest bit for a writer.
    fn word(&self) -> u32 {
        // SAFETY: nobody else has the lock in the tests that look.
        unsafe { self.lock.get().cast::<u32>().read() }
    }
}

#[test]
fn what_c_calls_is_the_emulation() {
    let guarded = Guarded::new();
    assert_eq!(guarded.word(), 0);
    assert_eq!((guarded.call(pthread_rwlock_rdlock), guarded.call(pthread_rwlock_rdlock)), (0, 0));
    // The C library counts readers in steps of eight.
    assert_eq!(guarded.word(), 2);
    assert_eq!((guarded.call(pthread_rwlock_unlock), guarded.call(pthread_rwlock_unlock)), (0, 0));
    assert_eq!(guarded.call(pthread_rwlock_wrlock), 0);
    assert_eq!(guarded.word(), 0x8000_0000);
    assert_eq!(guarded.call(pthread_rwlock_unlock), 0);
    assert_eq!(guarded.word(), 0);
}

#[test]
fn a_lock_is_unlocked_after_init_whatever_was_in_its_memory() {
    let guarded = Guarded::new();
    // SAFETY: nobody else uses it, and any bytes are a `pthread_rwlock_t`.
    unsafe { guarded.lock.get().write_bytes(0xff, 1) };
    // SAFETY: the memory is the lock's; no attributes are the default ones.
    assert_eq!(unsafe { pthread_rwlock_init(guarded.lock.get(), std::ptr::null()) }, 0);
    assert_eq!(guarded.call(pthread_rwlock_trywrlock), 0);
    assert_eq!(guarded.call(pthread_rwlock_destroy), EBUSY);
    assert_eq!(guarded.call(pthread_rwlock_unlock), 0);
    assert_eq!(guarded.call(pthread_rwlock_destroy), 0);
}

#[test]
fn whoever_only_tries_is_told_at_once() {
    let guarded = Guarded::new();
    for (held, reads) in [(pthread_rwlock_rdlock as unsafe extern "C" fn(_) -> _, true), (pthread_rwlock_wrlock, false)]
    {
        assert_eq!(guarded.call(held), 0);
        let to_read = [
            guarded.call(pthread_rwlock_tryrdlock),
            guarded.call_timed(pthread_rwlock_timedrdlock),
            guarded.call_by_clock(pthread_rwlock_clockrdlock),
        ];
        let to_write = [
            guarded.call(pthread_rwlock_trywrlock),
            guarded.call_timed(pthread_rwlock_timedwrlock),
            guarded.call_by_clock(pthread_rwlock_clockwrlock),
        ];
        assert_eq!(to_read, if reads { [0; 3] } else { [EBUSY, ETIMEDOUT, ETIMEDOUT] });
        assert_eq!(to_write, [EBUSY, ETIMEDOUT, ETIMEDOUT]);
        for _ in to_read.iter().filter(|&&result| result == 0) {
            assert_eq!(guarded.call(pthread_rwlock_unlock), 0);
        }
        assert_eq!(guarded.call(pthread_rwlock_unlock), 0);
    }
    // On a free lock a point in time that has passed is no reason to refuse.
    assert_eq!(guarded.call_timed(pthread_rwlock_timedwrlock), 0);
    assert_eq!(guarded.call(pthread_rwlock_unlock), 0);
    assert_eq!(guarded.call_by_clock(pthread_rwlock_clockwrlock), 0);
    assert_eq!(guarded.call(pthread_rwlock_unlock), 0);
}

#[test]
fn many_threads_on_one_static_lock_lose_no_write_and_see_no_half() {
    static GUARDED: Guarded = Guarded::new();
    static READS: AtomicU64 = AtomicU64::new(0);
    const THREADS: u64 = 16;
    const ROUNDS: u64 = 5_000;

    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    // Of four rounds one writes, half of those by trying, which may be refused.
                    match (thread + round) % 8 {
                        0 => assert_eq!(GUARDED.call(pthread_rwlock_wrlock), 0),
                        4 => {
                            while GUARDED.call(pthread_rwlock_trywrlock) != 0 {
                                thread::yield_now();
                            }
                        }
                        odd if odd % 2 == 1 => {
                            assert_eq!(GUARDED.call(pthread_rwlock_rdlock), 0);
                            // SAFETY: this thread has the lock for reading.
                            let (left, right) = unsafe { *GUARDED.pair.get() };
                            assert_eq!(left, right);
                            READS.fetch_add(1, Ordering::Relaxed);
                            assert_eq!(GUARDED.call(pthread_rwlock_unlock), 0);
                            continue;
                        }
                        _ => {
                            if GUARDED.call(pthread_rwlock_tryrdlock) == 0 {
                                assert_eq!(GUARDED.call(pthread_rwlock_unlock), 0);
                            }
                            continue;
                        }
                    }
                    // SAFETY: this thread has the lock for writing.
                    let (left, right) = unsafe { &mut *GUARDED.pair.get() };
                    *left += 1;
                    // The other half later: a reader that gets in between sees it.
                    std::hint::black_box(&*left);
                    *right += 1;
                    assert_eq!(GUARDED.call(pthread_rwlock_unlock), 0);
                }
            });
        }
    });
    // Two rounds of eight write.
    // SAFETY: all threads have ended.
    assert_eq!(unsafe { *GUARDED.pair.get() }, (THREADS * ROUNDS / 4, THREADS * ROUNDS / 4));
    assert_eq!(READS.load(Ordering::Relaxed), THREADS * ROUNDS / 2);
    assert_eq!(GUARDED.word(), 0);
}

#[test]
fn shards_shake_hands_on_top_of_it() {
    for kind in [KeyKind::Rsa, KeyKind::Ecdsa] {
        let world = World::new(kind);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    warm_up();
                    let tickets = Some(TicketKeys::new(&TicketSecret::random(), b"a"));
                    let acceptor = world.acceptor(&Options { tickets, ..Options::default() });
                    for version in [&TLS13, &TLS12] {
                        shake_hands(&mut world.client(&[version]), &mut Server::new(acceptor.engine()));
                    }
                });
            }
        });
    }
}

#[test]
fn the_program_takes_no_read_write_lock_of_the_c_library() {
    let output = Command::new("nm").arg(env!("CARGO_BIN_EXE_ringwall")).output().expect("the test needs nm");
    let symbols = String::from_utf8(output.stdout).unwrap();
    let of = |kind: &str| {
        let kind = format!(" {kind} pthread_rwlock_");
        symbols.lines().filter_map(|line| Some(line.split_once(&kind)?.1.to_owned())).collect::<Vec<_>>()
    };
    for name in ["rdlock", "wrlock", "tryrdlock", "trywrlock", "unlock", "init", "destroy"] {
        assert!(of("T").iter().any(|symbol| symbol == name), "the program does not define pthread_rwlock_{name}");
    }
    assert_eq!(of("U"), Vec::<String>::new());
}
