//! Calls to the C library's read-write locks and mutexes, counted by standing in front of them: a program's own
//! definition of a C function is what libcrypto is linked to, and behind it dlsym(3) finds the C library's.
//!
//! Behind the read-write locks can stand the emulation's lock instead. Which it is, a variable of the environment says at
//! the first call, which comes before `main`; it stays so, because the two do not understand each other's locks.
#![allow(dead_code, reason = "each program uses a part of it")]
#![expect(unsafe_code, reason = "C calls these functions, and they call C's")]

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::ops::{Add, Sub};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use libc::{pthread_mutex_t, pthread_rwlock_t, pthread_rwlockattr_t};
use ringwall::rwlock::RwLock;

/// With this in the environment, whatever its value, read-write locks are the emulation's.
pub(crate) const EMULATE: &str = "RINGWALL_BENCH_EMULATE";
const EMULATE_C: &CStr = c"RINGWALL_BENCH_EMULATE";

/// How often locks were taken, each with a call to give it back besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    /// For reading, of locks in the program's own memory: the whole process shares them.
    pub(crate) process_reads: u64,
    /// For writing, of the same.
    pub(crate) process_writes: u64,
    /// For reading, of locks on the heap: of a key, or of a thread's random generator.
    pub(crate) heap_reads: u64,
    /// For writing, of the same.
    pub(crate) heap_writes: u64,
    /// Mutexes.
    pub(crate) mutexes: u64,
}

impl Calls {
    const NONE: Self = Self { process_reads: 0, process_writes: 0, heap_reads: 0, heap_writes: 0, mutexes: 0 };

    /// All of them.
    pub(crate) fn total(self) -> u64 {
        self.process_reads + self.process_writes + self.heap_reads + self.heap_writes + self.mutexes
    }

    fn combine(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            process_reads: with(self.process_reads, other.process_reads),
            process_writes: with(self.process_writes, other.process_writes),
            heap_reads: with(self.heap_reads, other.heap_reads),
            heap_writes: with(self.heap_writes, other.heap_writes),
            mutexes: with(self.mutexes, other.mutexes),
        }
    }
}

impl Add for Calls {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.combine(other, |a, b| a + b)
    }
}

impl Sub for Calls {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.combine(other, |a, b| a - b)
    }
}

thread_local! {
    // Needs no destructor, so it can be used as long as the thread lives.
    static CALLS: Cell<Calls> = const { Cell::new(Calls::NONE) };
}

/// What the calling thread takes during `work`, and what `work` gives.
pub(crate) fn during<T>(work: impl FnOnce() -> T) -> (Calls, T) {
    let before = CALLS.get();
    let result = work();
    (CALLS.get() - before, result)
}

fn count(with: impl FnOnce(&mut Calls)) {
    let mut calls = CALLS.get();
    with(&mut calls);
    CALLS.set(calls);
}

fn count_read(lock: *const pthread_rwlock_t) {
    count(|calls| if is_of_the_process(lock) { calls.process_reads += 1 } else { calls.heap_reads += 1 });
}

fn count_write(lock: *const pthread_rwlock_t) {
    count(|calls| if is_of_the_process(lock) { calls.process_writes += 1 } else { calls.heap_writes += 1 });
}

unsafe extern "C" {
    /// Where the program begins and ends in memory, as the linker says.
    static __executable_start: u8;
    static _end: u8;
}

fn is_of_the_process(lock: *const pthread_rwlock_t) -> bool {
    (&raw const __executable_start..&raw const _end).contains(&lock.cast::<u8>())
}

/// 0 while it is not known, then one of the two below.
static BEHIND: AtomicU8 = AtomicU8::new(0);
const C_LIBRARY: u8 = 1;
const EMULATION: u8 = 2;

fn is_emulated() -> bool {
    let mut behind = BEHIND.load(Ordering::Relaxed);
    if behind == 0 {
        // SAFETY: the name is a C string, and nothing in these programs changes the environment.
        let emulate = unsafe { !libc::getenv(EMULATE_C.as_ptr()).is_null() };
        behind = if emulate { EMULATION } else { C_LIBRARY };
        BEHIND.store(behind, Ordering::Relaxed);
    }
    behind == EMULATION
}

/// The emulation's lock in C's memory.
///
/// # Safety
/// As for the C function that is called.
unsafe fn lock_in<'a>(lock: *mut pthread_rwlock_t) -> &'a RwLock {
    // SAFETY: `ringwall::pthread` says why this is sound, and does the same.
    unsafe { &*lock.cast::<RwLock>() }
}

fn busy_unless(taken: bool) -> c_int {
    if taken { 0 } else { libc::EBUSY }
}

type OnLock = unsafe extern "C" fn(*mut pthread_rwlock_t) -> c_int;
type OnNewLock = unsafe extern "C" fn(*mut pthread_rwlock_t, *const pthread_rwlockattr_t) -> c_int;
type OnMutex = unsafe extern "C" fn(*mut pthread_mutex_t) -> c_int;

/// The C library's function of that name, looked up once.
macro_rules! c_library {
    ($name:literal as $function:ty) => {{
        static FOUND: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
        let mut found = FOUND.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: the name is a C string.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, $name.as_ptr()) };
            assert!(!found.is_null(), "the C library lacks {:?}", $name);
            FOUND.store(found, Ordering::Relaxed);
        }
        // SAFETY: it is the C library's function of that name, and each use below gives it the type it has there.
        unsafe { std::mem::transmute::<*mut c_void, $function>(found) }
    }};
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_init(lock: *mut pthread_rwlock_t, with: *const pthread_rwlockattr_t) -> c_int {
    if is_emulated() {
        // SAFETY: the caller owns the memory, which is large enough.
        unsafe { lock.cast::<RwLock>().write(RwLock::default()) };
        return 0;
    }
    let function = c_library!(c"pthread_rwlock_init" as OnNewLock);
    // SAFETY: the caller's promises are passed on; so it is in all functions below.
    unsafe { function(lock, with) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_destroy(lock: *mut pthread_rwlock_t) -> c_int {
    if is_emulated() {
        return 0;
    }
    let function = c_library!(c"pthread_rwlock_destroy" as OnLock);
    // SAFETY: as above.
    unsafe { function(lock) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_rdlock(lock: *mut pthread_rwlock_t) -> c_int {
    count_read(lock);
    if is_emulated() {
        // SAFETY: as above.
        unsafe { lock_in(lock) }.read();
        return 0;
    }
    let function = c_library!(c"pthread_rwlock_rdlock" as OnLock);
    // SAFETY: as above.
    unsafe { function(lock) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_tryrdlock(lock: *mut pthread_rwlock_t) -> c_int {
    count_read(lock);
    if is_emulated() {
        // SAFETY: as above.
        return busy_unless(unsafe { lock_in(lock) }.try_read());
    }
    let function = c_library!(c"pthread_rwlock_tryrdlock" as OnLock);
    // SAFETY: as above.
    unsafe { function(lock) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_wrlock(lock: *mut pthread_rwlock_t) -> c_int {
    count_write(lock);
    if is_emulated() {
        // SAFETY: as above.
        unsafe { lock_in(lock) }.write();
        return 0;
    }
    let function = c_library!(c"pthread_rwlock_wrlock" as OnLock);
    // SAFETY: as above.
    unsafe { function(lock) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_trywrlock(lock: *mut pthread_rwlock_t) -> c_int {
    count_write(lock);
    if is_emulated() {
        // SAFETY: as above.
        return busy_unless(unsafe { lock_in(lock) }.try_write());
    }
    let function = c_library!(c"pthread_rwlock_trywrlock" as OnLock);
    // SAFETY: as above.
    unsafe { function(lock) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_unlock(lock: *mut pthread_rwlock_t) -> c_int {
    if is_emulated() {
        // SAFETY: as above.
        unsafe { lock_in(lock) }.unlock();
        return 0;
    }
    let function = c_library!(c"pthread_rwlock_unlock" as OnLock);
    // SAFETY: as above.
    unsafe { function(lock) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_lock(lock: *mut pthread_mutex_t) -> c_int {
    count(|calls| calls.mutexes += 1);
    let function = c_library!(c"pthread_mutex_lock" as OnMutex);
    // SAFETY: as above.
    unsafe { function(lock) }
}
