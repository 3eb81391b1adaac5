//! An allocator that counts what the shards take while a window is open: how often, and in which sizes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// To be made the global allocator.
pub(crate) struct Counting;

static OPEN: AtomicBool = AtomicBool::new(false);

/// Sizes that are told apart; what is larger counts as this.
const SIZE_MAX: usize = 64 * 1024;

/// How often each size was taken.
static TAKEN: [AtomicU64; SIZE_MAX + 1] = [const { AtomicU64::new(0) }; SIZE_MAX + 1];

/// What a thread does. It is found out at its first allocation within a window: it has its name by then.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Unknown,
    Shard,
    Other,
}

thread_local! {
    static ROLE: Cell<Role> = const { Cell::new(Role::Unknown) };
}

fn is_shard() -> bool {
    ROLE.with(|role| {
        if role.get() == Role::Unknown {
            // To look a name up may allocate.
            role.set(Role::Other);
            if std::thread::current().name().is_some_and(|name| name.starts_with("shard-")) {
                role.set(Role::Shard);
            }
        }
        role.get() == Role::Shard
    })
}

fn count(bytes: usize) {
    if OPEN.load(Ordering::Relaxed) && is_shard() {
        TAKEN[bytes.min(SIZE_MAX)].fetch_add(1, Ordering::Relaxed);
    }
}

#[expect(unsafe_code, reason = "an allocator that counts is an implementation of an unsafe trait")]
// SAFETY: each call goes to the system's allocator unchanged, which meets the trait's demands.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes);
        // SAFETY: `pointer` came from a method of this allocator with this `layout`, so it is the system allocator's.
        unsafe { System.realloc(pointer, layout, bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as in `realloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// What the shards have taken in a window: sizes in bytes, and how often each was taken.
pub(crate) struct Taken(Vec<(usize, u64)>);

/// Counts while `work` is done.
pub(crate) fn during(work: impl FnOnce()) -> Taken {
    for count in &TAKEN {
        count.store(0, Ordering::Relaxed);
    }
    OPEN.store(true, Ordering::SeqCst);
    work();
    OPEN.store(false, Ordering::SeqCst);
    let counts = TAKEN.iter().map(|count| count.load(Ordering::Relaxed));
    Taken(counts.enumerate().filter(|&(_, count)| count > 0).collect())
}

impl Taken {
    /// Allocations of all sizes.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }
}

impl std::fmt::Display for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, (bytes, count)) in self.0.iter().enumerate() {
            write!(f, "{}{count} of {bytes} B", if place > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}
