//! The same random commands through ringwall, where clients share connections, and straight to a second server: the
//! replies are the same, byte for byte, no client gets what is another's, and in the end both servers hold the same data.
//!
//! `DIFFERENTIAL_COMMANDS` makes it longer and `DIFFERENTIAL_SEED` another one. A seed decides what clients say and how it
//! is cut into writes; which of them come first is up to the kernel.

use std::thread;

use crate::client::{Client, Dial, End};
use crate::commands::LOADED;
use crate::ringwall::{Ringwall, Setup};
use crate::rng::Rng;
use crate::server::Server;
use crate::workload::{Burst, Workload};

const CLIENTS: usize = 64;
const COMMANDS: usize = 100_000;

/// As much is shown of what was said and replied when they are not what they should be.
const SHOWN_BYTES: usize = 4_000;

/// A client, and the one of the same kind that puts it through.
struct Pair {
    client: Client,
    feeder: Client,
}

/// What a server must know before.
const ALICE: &[&str] = &["ACL", "SETUSER", "alice", "on", ">wonder", "~*", "&*", "+@all", "-zadd"];

fn server() -> Server {
    let server = Server::with(&["--enable-debug-command yes"]);
    assert_eq!(server.client().call(ALICE), b"+OK\r\n");
    server.client().call(&["SCRIPT", "LOAD", LOADED]);
    server
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number")))
}

/// The connection's number is the one thing in a reply that the connection decides, and not its client: HELLO tells it.
fn without_connection(reply: &[u8]) -> Vec<u8> {
    const FIELD: &[u8] = b"$2\r\nid\r\n:";
    let Some(at) = reply.windows(FIELD.len()).position(|window| window == FIELD) else { return reply.to_vec() };
    let (before, id) = reply.split_at(at + FIELD.len());
    let digits = id.iter().take_while(|byte| byte.is_ascii_digit()).count();
    [before, b"N", &id[digits..]].concat()
}

/// The name of another client in a reply: names stand between angle brackets, and no other number does.
fn another<'a>(reply: &'a str, name: &str) -> Option<&'a str> {
    let names = reply.split('<').filter_map(|rest| rest.split_once('>')).map(|(between, _)| between);
    let is_name = |between: &str| !between.is_empty() && between.bytes().all(|byte| byte.is_ascii_digit());
    names.filter(|between| is_name(between)).find(|number| format!("<{number}>") != name)
}

/// One client's life on both ways.
struct Life<'a> {
    dial: Dial,
    direct: &'a Server,
    through: Pair,
    straight: Pair,
    workload: Workload,
    cuts: Rng,
    seed: u64,
    /// All that it has said, for whoever must find out what went wrong.
    said: Vec<u8>,
}

impl Drop for Life<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let tail = &self.said[self.said.len().saturating_sub(SHOWN_BYTES)..];
            eprintln!(
                "client {} with DIFFERENTIAL_SEED={} had said {}",
                self.workload.commands.name,
                self.seed,
                text(tail)
            );
        }
    }
}

impl<'a> Life<'a> {
    fn new(ringwall: &Ringwall, direct: &'a Server, seed: u64, number: usize) -> Self {
        let dial = ringwall.dial();
        let through = Pair { client: dial.connect().unwrap(), feeder: dial.connect().unwrap() };
        let straight = Pair { client: direct.client(), feeder: direct.client() };
        let workload = Workload::new(seed, number);
        Self { dial, direct, through, straight, workload, cuts: Rng::new(seed ^ number as u64), seed, said: Vec::new() }
    }

    /// Says it on both ways and compares the replies.
    fn play(&mut self, burst: &Burst) {
        let said: Vec<u8> = burst.said.iter().flat_map(|(bytes, _)| bytes).copied().collect();
        self.said.extend_from_slice(&said);
        let feeds_first = self.cuts.chance(300);
        if feeds_first {
            self.feed(burst);
        }
        self.send_cut(&said);
        self.straight.client.send(&said);
        if !feeds_first {
            self.feed(burst);
        }
        let requests = burst.said.iter().flat_map(|(bytes, replies)| std::iter::repeat_n(bytes.as_slice(), *replies));
        for request in requests.chain(std::iter::repeat(b"(fed)".as_slice())).take(burst.replies()) {
            let (ours, theirs) = (self.through.client.try_reply(), self.straight.client.try_reply());
            self.compare(ours, theirs, request);
        }
        for fed in &burst.fed {
            let (ours, theirs) = (self.through.feeder.try_reply(), self.straight.feeder.try_reply());
            self.compare(ours, theirs, fed);
        }
        if burst.ends {
            let (rest, end) = self.through.client.rest();
            assert_eq!((rest, end), (Vec::new(), End::Orderly));
            self.through.client = self.dial.connect().unwrap();
            self.straight.client = self.direct.client();
        }
    }

    fn feed(&mut self, burst: &Burst) {
        for fed in &burst.fed {
            self.through.feeder.send(fed);
            self.straight.feeder.send(fed);
        }
    }

    /// Sends it in one piece, or in several of any size.
    fn send_cut(&mut self, mut said: &[u8]) {
        let piece_max = [usize::MAX, usize::MAX, 1_000, 60][self.cuts.index(4)].max(said.len() / 50);
        while !said.is_empty() {
            let (piece, rest) = said.split_at(self.cuts.size(piece_max).min(said.len()));
            self.through.client.send(piece);
            said = rest;
        }
    }

    fn compare(&self, ours: Result<Vec<u8>, End>, theirs: Result<Vec<u8>, End>, request: &[u8]) {
        let name = &self.workload.commands.name;
        let (ours, theirs) = match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => (ours, theirs),
            (ours, theirs) => panic!("{}: {ours:?} through ringwall, {theirs:?} straight", text(request)),
        };
        if let Some(other) = another(&String::from_utf8_lossy(&ours), name) {
            panic!("{}: {name} gets a reply of <{other}>: {}", text(request), text(&ours));
        }
        if without_connection(&ours) != without_connection(&theirs) {
            panic!("{}: {} through ringwall, {} straight", text(request), text(&ours), text(&theirs));
        }
    }
}

/// What a person can read, and not too much of it.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]).escape_debug().to_string()
}

#[test]
fn whatever_clients_say_the_replies_are_those_of_a_connection_of_their_own() {
    let seed = number("DIFFERENTIAL_SEED", 1);
    let commands = usize::try_from(number("DIFFERENTIAL_COMMANDS", COMMANDS as u64)).unwrap();
    let (server, direct) = (server(), server());
    let setup = Setup::before(server.address()).listener("mode = \"multiplex\"").sections("[runtime]\nshards = 2\n");
    let ringwall = setup.admin("").start();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let mut life = Life::new(&ringwall, &direct, seed, client);
            scope.spawn(move || {
                let mut said = 0;
                while said < commands / CLIENTS {
                    for burst in life.workload.scene() {
                        said += burst.requests();
                        life.play(&burst);
                    }
                }
            });
        }
    });
    let digests = [&server, &direct].map(|server| server.client().text(&["DEBUG", "DIGEST"]));
    assert_eq!(digests[0], digests[1], "seed {seed}: the servers hold different data");
    let metrics = ringwall.admin().metrics();
    let count =
        |way| metrics.value(&format!("ringwall_multiplex_requests_total{{listener=\"public\",connection=\"{way}\"}}"));
    println!("{} shared, {} on connections of their own", count("shared"), count("own"));
    println!("{:?}", metrics.nonzero("ringwall_multiplex_departures_total"));
    assert!(count("shared") > count("own"), "{metrics:?}");
}
