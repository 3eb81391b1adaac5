//! The C library's read-write locks, defined anew by the program: what the `pthread-emulation` feature is.
//!
//! libcrypto locks with `pthread_rwlock_t`, whose waiters sleep in the kernel. With this module in the program, its
//! calls are linked to the functions below, and a `pthread_rwlock_t` holds a [`RwLock`] instead. std has its own locks
//! and the C library calls its own by other names, so C libraries are all that notice. It is not for a fully static
//! image: there both definitions meet in one link, and which of them a library gets is up to the linker.
//!
//! What differs from POSIX: nothing is refused with `EDEADLK`, a thread that locks what it has waits for itself; the
//! attributes given at the start are not read (a lock works between processes anyway, and prefers writers); and the
//! timed calls do not wait, they try once and say `ETIMEDOUT`. libcrypto relies on none of these: its other
//! implementation of the same locks, Windows's `SRWLOCK`, has neither recursion nor time limits.
//!
//! Invariant: a lock made by an initializer of zeros, by [`pthread_rwlock_init`] or by `calloc` is unlocked.
//!
//! Read `tests/pthread_emulation.rs` first.
#![expect(unsafe_code, reason = "C calls these functions, with pointers")]

use libc::{EBUSY, ETIMEDOUT, c_int, clockid_t, pthread_rwlock_t, pthread_rwlockattr_t, timespec};

use crate::rwlock::RwLock;

const _: () = assert!(size_of::<RwLock>() <= size_of::<pthread_rwlock_t>());
const _: () = assert!(align_of::<RwLock>() <= align_of::<pthread_rwlock_t>());

/// The lock that lies in C's.
///
/// # Safety
/// `lock` points to a `pthread_rwlock_t` that is all zeros or was initialised, and lives for `'a`; all access to it goes
/// through this module.
unsafe fn lock_in<'a>(lock: *mut pthread_rwlock_t) -> &'a RwLock {
    // SAFETY: the caller's promise covers liveness; size and alignment are asserted above; a `RwLock` is two atomic
    // integers, valid with any bytes and made to be shared.
    unsafe { &*lock.cast::<RwLock>() }
}

/// 0 for a lock that was taken, `otherwise` for one that was not.
fn taken_or(otherwise: c_int, taken: bool) -> c_int {
    if taken { 0 } else { otherwise }
}

/// Makes an unlocked lock.
///
/// # Safety
/// `lock` points to memory for one, which nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_init(lock: *mut pthread_rwlock_t, _: *const pthread_rwlockattr_t) -> c_int {
    // SAFETY: the caller owns the memory, and the assertions above say that it holds a `RwLock`.
    unsafe { lock.cast::<RwLock>().write(RwLock::default()) };
    0
}

/// Ends a lock; `EBUSY`, with nothing done, where it is locked.
///
/// # Safety
/// As `lock_in` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_destroy(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller promises the same.
    let lock = unsafe { lock_in(lock) };
    let free = lock.try_write();
    if free {
        lock.unlock();
    }
    taken_or(EBUSY, free)
}

/// Locks for reading.
///
/// # Safety
/// As `lock_in` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_rdlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller promises the same.
    unsafe { lock_in(lock) }.read();
    0
}

/// Locks for reading, or says `EBUSY`.
///
/// # Safety
/// As `lock_in` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_tryrdlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller promises the same.
    taken_or(EBUSY, unsafe { lock_in(lock) }.try_read())
}

/// Locks for reading, or says `ETIMEDOUT` at once.
///
/// # Safety
/// As `lock_in` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_timedrdlock(lock: *mut pthread_rwlock_t, _: *const timespec) -> c_int {
    // SAFETY: the caller promises the same.
    taken_or(ETIMEDOUT, unsafe { lock_in(lock) }.try_read())
}

/// Locks for reading, or says `ETIMEDOUT` at once.
///
/// # Safety
/// As `lock_in` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_clockrdlock(
    lock: *mut pthread_rwlock_t,
    _: clockid_t,
    _: *const timespec,
) -> c_int {
    // SAFETY: the caller promises the same.
    taken_or(ETIMEDOUT, unsafe { lock_in(lock) }.try_read())
}

/// Locks for writing.
///
/// # Safety
/// As `lock_in` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_wrlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller promises the same.
    unsafe { lock_in(lock) }.write();
    0
}

/// Locks for writing, or says `EBUSY`.
///
/// # Safety
/// As `lock_in` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_trywrlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller promises the same.
    taken_or(EBUSY, unsafe { lock_in(lock) }.try_write())
}

/// Locks for writing, or says `ETIMEDOUT` at once.
///
/// # Safety
/// As `lock_in` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_timedwrlock(lock: *mut pthread_rwlock_t, _: *const timespec) -> c_int {
    // SAFETY: the caller promises the same.
    taken_or(ETIMEDOUT, unsafe { lock_in(lock) }.try_write())
}

/// Locks for writing, or says `ETIMEDOUT` at once.
///
/// # Safety
/// As `lock_in` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_clockwrlock(
    lock: *mut pthread_rwlock_t,
    _: clockid_t,
    _: *const timespec,
) -> c_int {
    // SAFETY: the caller promises the same.
    taken_or(ETIMEDOUT, unsafe { lock_in(lock) }.try_write())
}

/// Gives back a lock for reading or for writing.
///
/// # Safety
/// As `lock_in` says, and the calling thread has the lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_unlock(lock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: the caller promises the same.
    unsafe { lock_in(lock) }.unlock();
    0
}
