//! A driver in its steady state does not touch the allocator.

#![expect(unsafe_code, reason = "an allocator that counts")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use ringwall::io::uring::{Uring, UringOptions};
use ringwall::io::{Driver, Fd, Op, OpId, Outcome, Token, Wait};
use ringwall::pool::{Pool, SMALL_BYTES};

/// The system's allocator, which counts per thread: the test runner's own threads do not matter.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all is left to the system's allocator, which keeps the promises of `GlobalAlloc`; counting allocates nothing,
// because the counter is a constant-initialised thread-local without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the promise of our caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the promise of our caller; the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Carries a message from one socket to another and back: receive, send, and every 16th time a cancel, a single large
/// receive, a doorbell and a new start.
fn carry(driver: &mut Uring, pool: &mut Pool, receive: &mut OpId, socket: Fd, far: &mut UnixStream, number: u32) {
    let message = [0x5a; 64];
    far.write_all(&message).unwrap();
    let mut sent = false;
    while !sent {
        driver.enter(Wait::Forever).unwrap();
        while let Some(completion) = driver.next_completion() {
            match completion.outcome {
                Outcome::Received { result: Ok(Some(lease)), .. } => {
                    let mut buffer = pool.take(SMALL_BYTES);
                    buffer.append(driver.bytes_mut(&lease));
                    driver.recycle(lease);
                    driver.push(Token(2), Op::Send { socket, buffer });
                }
                Outcome::Sent { buffer, result } => {
                    assert_eq!(result, Ok(64));
                    pool.give(buffer);
                    sent = true;
                }
                Outcome::Received { .. } | Outcome::Rung => {}
                Outcome::Accepted(_) | Outcome::Connected(_) => panic!("{completion:?}"),
            }
            if completion.token == Token(1) && !completion.more {
                *receive = driver.push(Token(1), Op::ReceiveMany { socket });
            }
        }
    }
    let mut answer = [0; 64];
    far.read_exact(&mut answer).unwrap();
    assert_eq!(answer, message);
    if number.is_multiple_of(16) {
        let ring = driver.ring_handle();
        driver.push(Token(0), Op::Ring { ring });
        driver.push(Token(0), Op::Cancel { op: *receive });
    }
}

#[test]
fn ten_thousand_messages_allocate_nothing() {
    let mut driver = Uring::new(&UringOptions::default()).unwrap();
    let mut pool = Pool::new();
    let (near, mut far) = UnixStream::pair().unwrap();
    let socket = Fd(near.as_raw_fd());
    let mut receive = driver.push(Token(1), Op::ReceiveMany { socket });
    for number in 0..1_000 {
        carry(&mut driver, &mut pool, &mut receive, socket, &mut far, number);
    }
    let before = ALLOCATIONS.get();
    for number in 0..10_000 {
        carry(&mut driver, &mut pool, &mut receive, socket, &mut far, number);
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert!(before > 0, "the counter does not count");
}
