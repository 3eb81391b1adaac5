//! What requests over shared connections cost a shard once everything is warm: no allocation, and one enter of the kernel a
//! turn.
//!
//! One test only: another one running beside it would be counted, too.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../benches/support/allocations.rs"]
mod allocations;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use ringwall::config::{Config, Machine};
use ringwall::dispatcher::Command;
use ringwall::server::DataPlane;
use ringwall::wire::frame::RequestFramer;

#[global_allocator]
static COUNTING: allocations::Counting = allocations::Counting;

const CLIENTS: usize = 50;

/// Windows in which what is still growing to its size may do so. What a request costs, it costs in each of them.
const WINDOWS_MAX: usize = 10;

const REQUEST: &[u8] = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n";
const REPLY: &[u8] = b"+OK\r\n";

/// A server that answers every request with the same reply.
fn serve(listener: TcpListener) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || answer(stream.unwrap()));
        }
    });
}

fn answer(mut stream: TcpStream) {
    let (mut framer, mut bytes, mut replies) = (RequestFramer::new(), vec![0; 64 * 1024], Vec::new());
    while let Ok(read @ 1..) = stream.read(&mut bytes) {
        let mut rest = &bytes[..read];
        while let Some(request) = framer.advance(rest).unwrap() {
            rest = &rest[request.end..];
            replies.extend_from_slice(REPLY);
        }
        if stream.write_all(&replies).is_err() {
            return;
        }
        replies.clear();
    }
}

fn ask(clients: &mut [TcpStream], rounds: usize) {
    for _ in 0..rounds {
        for client in &mut *clients {
            client.write_all(REQUEST).unwrap();
        }
        for client in &mut *clients {
            let mut reply = [0; REPLY.len()];
            client.read_exact(&mut reply).unwrap();
            assert_eq!(reply, REPLY);
        }
    }
}

fn start(server: SocketAddr) -> DataPlane {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ringwall.toml");
    let text = format!(
        "[[listener]]\nbind = \"127.0.0.1:0\"\nbackend = \"server\"\nplain = true\nmode = \"multiplex\"\n\
         [[backend]]\nname = \"server\"\nservers = [\"{server}\"]\n[runtime]\nshards = 1\n"
    );
    std::fs::write(&file, text).unwrap();
    let (config, keyring) = Config::load(&file, &Machine::of_this_process()).unwrap();
    DataPlane::start(&config, keyring, None).unwrap()
}

#[test]
fn requests_over_shared_connections_take_no_memory_and_one_enter_a_turn() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    serve(listener);
    let plane = start(server);
    let mut clients: Vec<_> =
        (0..CLIENTS).map(|_| TcpStream::connect(plane.in_force.read().listeners[0].address).unwrap()).collect();
    ask(&mut clients, 100);
    let tally = &plane.shards[0].tally;
    let counts = plane.in_force.read().listeners[0].ledger.sharing(0);
    let (mut taken, mut windows) = (u64::MAX, 0);
    while taken > 0 && windows < WINDOWS_MAX {
        windows += 1;
        taken = allocations::during(|| ask(&mut clients, 100)).count();
    }
    assert_eq!(taken, 0, "allocations in each of {WINDOWS_MAX} windows");
    let totals = tally.totals();
    assert!(totals.enters <= totals.turns, "{} enters in {} turns", totals.enters, totals.turns);
    let requests = ((windows + 1) * 100 * CLIENTS) as u64;
    let shared = counts.totals();
    assert_eq!((shared.requests_shared, shared.requests_own), (requests, 0));
    assert_eq!((shared.shared_batch.sum, shared.shared_connections), (requests, 1));
    drop(clients);
    plane.commands.send(Command::Stop).unwrap();
    plane.ended.blocking_recv().unwrap();
}
