//! What the multiplexer takes from the allocator for requests over shared connections: nothing, once it is warm.
//!
//! One test only: another one running beside it would be counted, too.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ringwall::metrics::Tally;
use ringwall::multiplex::{Id, Multiplexer, Options, Output};
use ringwall::pool::Pool;
use ringwall::session::Turn;
use ringwall::time::Time;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[expect(unsafe_code, reason = "an allocator that counts is an implementation of an unsafe trait")]
// SAFETY: each call goes to the system's allocator unchanged, which meets the trait's demands.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `alloc` above with this `layout`, so it is the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const CLIENTS: usize = 50;

/// A multiplexer whose sends are done as soon as they are asked for, and a server that answers each request with a
/// status.
struct World {
    multiplexer: Multiplexer,
    pool: Pool,
    tally: Tally,
    clients: Vec<Id>,
    link: Option<Id>,
    /// Bytes that the server has got, and clients.
    to_server: usize,
    to_clients: usize,
}

impl World {
    fn turn(&mut self, call: impl FnOnce(&mut Multiplexer, &mut Turn<'_>)) {
        let now = Time::from_nanos(1_000_000_000);
        let mut turn = Turn { now, pool: &mut self.pool, tally: &self.tally };
        call(&mut self.multiplexer, &mut turn);
        while let Some(output) = self.multiplexer.poll(&mut turn) {
            match output {
                Output::Dial(id) => {
                    self.link = Some(id);
                    self.multiplexer.handle_connected(id, &mut turn);
                }
                Output::SendToServer(id, buffer) => {
                    let len = buffer.len();
                    self.to_server += len;
                    self.multiplexer.handle_link_sent(id, buffer, Ok(len), &mut turn);
                }
                Output::SendToClient(id, buffer) => {
                    let len = buffer.len();
                    self.to_clients += len;
                    self.multiplexer.handle_client_sent(id, buffer, Ok(len), &mut turn);
                }
                Output::ReceiveFromServer(..) | Output::ReceiveFromClient(..) => {}
                other @ (Output::EndToServer(_)
                | Output::CloseLink(_)
                | Output::CloseClient(..)
                | Output::CutClient(..)
                | Output::TellSlow(_)) => panic!("{other:?}"),
            }
        }
    }

    /// Each client asks once, half of them in two pieces; the server answers all of them at once.
    fn round(&mut self, replies: &[u8]) {
        const REQUEST: &[u8] = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n";
        for at in 0..CLIENTS {
            let id = self.clients[at];
            let (first, second) = REQUEST.split_at(if at % 2 == 0 { REQUEST.len() } else { 10 });
            self.turn(|multiplexer, turn| multiplexer.handle_client_received(id, first, turn));
            if !second.is_empty() {
                self.turn(|multiplexer, turn| multiplexer.handle_client_received(id, second, turn));
            }
        }
        let link = self.link.expect("there is a connection");
        self.turn(|multiplexer, turn| multiplexer.handle_link_received(link, replies, turn));
    }
}

#[test]
fn requests_and_replies_over_a_shared_connection_take_nothing_from_the_allocator() {
    let mut multiplexer = Multiplexer::new(Options::default(), Arc::default());
    let came = multiplexer.moment();
    let clients: Vec<_> = (0..CLIENTS).map(|_| multiplexer.accept(came)).collect();
    let (pool, tally) = (Pool::new(), Tally::default());
    let mut world = World { multiplexer, pool, tally, clients, link: None, to_server: 0, to_clients: 0 };
    let first = world.clients[0];
    world.turn(|multiplexer, turn| multiplexer.handle_client_received(first, b"PING\r\n", turn));
    let link = world.link.expect("the first request makes a connection");
    // The answer to what is asked on behalf of the clients, and then to the request.
    for _ in 0..2 {
        world.turn(|multiplexer, turn| multiplexer.handle_link_received(link, b"+PONG\r\n", turn));
    }
    let replies = b"+OK\r\n".repeat(CLIENTS);
    for _ in 0..10 {
        world.round(&replies);
    }
    let (before, got) = (ALLOCATIONS.load(Ordering::Relaxed), world.to_clients);
    for _ in 0..100 {
        world.round(&replies);
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
    assert_eq!(world.to_clients - got, 100 * replies.len());
    assert!(world.to_server > 0);
}
