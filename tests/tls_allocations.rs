//! What the TLS layer takes from the allocator: counted over many records, with an allocator that counts.
//!
//! One test only: another one running beside it would be counted, too.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use ringwall::pool::{Pool, SendBuf};
use ringwall::tls::{
    Acceptor, BackendCredentials, Connector, OpenStatus, Options, ServerAuth, Servers, TicketKeys, TicketSecret,
};
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

use crate::support::{KeyKind, Server, World, shake_hands};

#[path = "tls/support.rs"]
mod support;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[expect(unsafe_code, reason = "an allocator that counts is an implementation of an unsafe trait")]
// SAFETY: each call goes to the system's allocator unchanged, which meets the trait's demands.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        LIVE_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `pointer` came from `alloc` above with this `layout`, so it is the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// How many allocations `work` makes.
fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    work();
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

const RECORDS: usize = 1000;

#[test]
fn a_record_sealed_or_opened_costs_no_allocation_and_an_idle_engine_holds_no_buffer() {
    let world = World::new(KeyKind::Ecdsa);
    let tickets = Some(TicketKeys::new(&TicketSecret::random(), b"a"));
    let acceptor = world.acceptor(&Options { tickets, ..Options::default() });
    for (version, name) in [(&TLS13, "TLS 1.3"), (&TLS12, "TLS 1.2")] {
        let mut client = world.client(&[version]);
        let mut server = Server::new(acceptor.engine());
        shake_hands(&mut client, &mut server);
        assert_eq!(server.engine.carried_bytes(), 0);
        assert_eq!(server.pool.lent_bytes(), 0);
        let (own, heap) = idle_bytes(&world, &acceptor, version);
        println!("{name}: an idle engine has {own} bytes and {heap} more on the heap, libcrypto's not counted");
        assert!(own + heap <= 4096);

        for len in [64, 16_384] {
            let sealed = seal(&mut server, len);
            let opened = open(|plaintext| client.seal(plaintext), &mut server, len);
            println!("{name}, {len} bytes: {sealed} allocations to seal and {opened} to open {RECORDS} records");
            assert_eq!((sealed, opened), (0, 0));
        }
    }
    let (mut client, mut server) = dialled(&acceptor);
    for len in [64, 16_384] {
        let sealed = seal(&mut client, len);
        let opened = open(|plaintext| server.seal(plaintext).unwrap(), &mut client, len);
        println!("client's role, {len} bytes: {sealed} allocations to seal and {opened} to open {RECORDS} records");
        assert_eq!((sealed, opened), (0, 0));
    }
}

/// Two engines, one in each role, that have shaken hands.
fn dialled(acceptor: &Acceptor) -> (Server, Server) {
    let credentials = BackendCredentials { servers: Servers::load(&ServerAuth::None).unwrap(), identity: None };
    let connector = Connector::new(&credentials, &Options::default(), None).unwrap();
    let (mut client, mut server) = (Server::new(connector.engine()), Server::new(acceptor.engine()));
    while client.engine.has_replies() || server.engine.has_replies() {
        server.open(&client.engine.take_replies());
        client.open(&server.engine.take_replies());
    }
    assert!(!client.engine.is_handshaking() && !server.engine.is_handshaking());
    (client, server)
}

/// The size of an engine after its handshake, and what is given back to the allocator with it.
fn idle_bytes(world: &World, acceptor: &Acceptor, version: &'static SupportedProtocolVersion) -> (usize, usize) {
    let (mut client, mut server) = (world.client(&[version]), Server::new(acceptor.engine()));
    shake_hands(&mut client, &mut server);
    let own = size_of_val(&server.engine);
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    drop(server.engine);
    (own, before - LIVE_BYTES.load(Ordering::Relaxed))
}

/// Seals many records into one buffer, which is emptied each time.
fn seal(server: &mut Server, len: usize) -> usize {
    let plaintext = vec![b'x'; len];
    let mut pool = Pool::new();
    let warm = pool.take(server.engine.sealed_len_max(len));
    pool.give(warm);
    allocations(|| {
        for _ in 0..RECORDS {
            let mut out: SendBuf = pool.take(server.engine.sealed_len_max(len));
            server.engine.seal(&plaintext, &mut out).unwrap();
            pool.give(out);
        }
    })
}

/// Opens many records, every other one in two pieces.
fn open(mut sealed: impl FnMut(&[u8]) -> Vec<u8>, server: &mut Server, len: usize) -> usize {
    let plaintext = vec![b'x'; len];
    let mut records: Vec<_> = (0..RECORDS + 1).map(|_| sealed(&plaintext)).collect();
    let mut open = |record: &mut [u8], pieces: usize| {
        let mut bytes = 0;
        let (first, second) = record.split_at_mut(record.len() / pieces);
        for piece in [first, second] {
            let opened =
                server.engine.open(piece, usize::MAX, &mut server.pool, |_, plaintext| bytes += plaintext.len());
            assert_eq!(opened.status, OpenStatus::Drained);
        }
        assert_eq!(bytes, len);
    };
    // The first takes the carry from the allocator and the rest from the pool.
    open(&mut records[0], 2);
    allocations(|| {
        for (index, record) in records[1..].iter_mut().enumerate() {
            open(record, 1 + index % 2);
        }
    })
}
