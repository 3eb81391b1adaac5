//! Connections, servers, clients and ringwall itself go at random moments while many clients work on shared connections.
//!
//! Each client gets a prefix of exactly its replies, and then an error of those that the documentation names, or an end.
//! Each request adds a number to a list that its client alone writes, so the lists tell what was carried out: nothing
//! twice, nothing of one connection out of order, nothing that was agreed to is missing, and of a transaction all or nothing.
//!
//! `LOSSES_SEED` makes another one; which request a loss meets is up to the kernel.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::client::{Client, Dial, End};
use crate::resp::{payload, reply_length, request};
use crate::ringwall::{Ringwall, Setup};
use crate::rng::Rng;
use crate::server::Server;

const WORKERS: usize = 32;

/// What a client may be told in the stead of its reply. The third is for one that comes while no server is there.
const DOCUMENTED: &[&str] = &[
    "-ERR the connection to the server is lost; whether the command ran is unknown",
    "-ERR the server has closed the connection; whether the command ran is unknown",
    "-ERR ringwall cannot reach the server: ",
    "-ERR the server cannot be reached: ",
];

/// What a server says that has come back and reads its files.
const LOADING: &[&str] = &["-LOADING ", "-EXECABORT "];

/// A number that was to be added to a list, and the length the list then had, if that was told.
#[derive(Clone, Copy, Debug)]
struct Push {
    id: u64,
    /// Which of the client's connections it was said on.
    connection: u64,
    length: Option<usize>,
    /// It is of one transaction with the next.
    with_next: bool,
}

/// The reply to a request.
enum Expected {
    Exactly(Vec<u8>),
    /// The length of the list after this push.
    Length(usize),
    /// The same for this one and the next.
    Lengths(usize),
}

/// A client that works through one connection after the other.
struct Worker {
    name: String,
    dial: Dial,
    client: Option<Client>,
    connections: u64,
    rng: Rng,
    pushes: Vec<Push>,
    /// Whether it leaves now and then in the middle of its replies.
    leaves: bool,
}

/// How a burst ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// Some of it, or all, was answered with an error, or not at all.
    Disturbed,
    /// It left by itself.
    Left,
    /// The connection could not be made.
    Refused,
}

impl Worker {
    fn new(number: usize, dial: Dial, seed: u64) -> Self {
        let rng = Rng::new(Rng::new(seed).next() ^ number as u64);
        Self {
            name: format!("<{number}>"),
            dial,
            client: None,
            connections: 0,
            rng,
            pushes: Vec::new(),
            leaves: number.is_multiple_of(4),
        }
    }

    fn list(&self) -> String {
        format!("{}:list", self.name)
    }

    fn push(&mut self, with_next: bool) -> String {
        let id = self.pushes.len() as u64;
        self.pushes.push(Push { id, connection: self.connections, length: None, with_next });
        id.to_string()
    }

    /// Requests for one write, and their replies.
    fn burst(&mut self) -> (Vec<u8>, Vec<Expected>) {
        let (mut said, mut expected) = (Vec::new(), Vec::new());
        let list = self.list();
        let exactly = |reply: &str| Expected::Exactly(reply.as_bytes().to_vec());
        for _ in 0..self.rng.size(20) {
            let at = self.pushes.len();
            match self.rng.below(20) {
                0 => {
                    said.extend(request(&["SELECT", "0"]));
                    expected.push(exactly("+OK\r\n"));
                }
                1 => {
                    said.extend(request(&["BLPOP", &format!("{}:empty", self.name), "0.001"]));
                    expected.push(exactly("*-1\r\n"));
                }
                2..6 => {
                    let (one, two) = (self.push(true), self.push(false));
                    let requests =
                        [&["MULTI"][..], &["RPUSH", &list, &one], &["RPUSH", &list, &two], &["EXEC"]].map(request);
                    said.extend(requests.concat());
                    expected.extend(["+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n"].map(exactly));
                    expected.push(Expected::Lengths(at));
                }
                6..10 => {
                    let word = format!("{}{}", self.name, "x".repeat(self.rng.index(5_000)));
                    said.extend(request(&["ECHO", &word]));
                    expected.push(exactly(&format!("${}\r\n{word}\r\n", word.len())));
                }
                _ => {
                    let id = self.push(false);
                    said.extend(request(&["RPUSH", &list, &id]));
                    expected.push(Expected::Length(at));
                }
            }
        }
        (said, expected)
    }

    /// Says a burst and reads what comes back.
    fn work(&mut self, documented: &[&str]) -> Outcome {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => {
                self.connections += 1;
                let Ok(client) = self.dial.connect() else { return Outcome::Refused };
                client
            }
        };
        let (said, expected) = self.burst();
        let pieces = self.rng.size(3);
        // One that has been closed meanwhile has said why: that is read.
        let is_said = said.chunks(said.len().div_ceil(pieces)).all(|piece| client.try_send(piece).is_ok());
        if self.leaves && self.rng.chance(100) {
            return Outcome::Left;
        }
        let mut outcome = if is_said { Outcome::Done } else { Outcome::Disturbed };
        for expected in expected {
            if self.leaves && self.rng.chance(5) {
                return Outcome::Left;
            }
            match client.try_reply() {
                Ok(reply) if reply[0] == b'-' => {
                    self.check_error(&reply, documented);
                    outcome = Outcome::Disturbed;
                }
                Ok(reply) => self.learn(&expected, &reply),
                Err(_) => {
                    self.check_piece(&expected, client.waiting());
                    return Outcome::Disturbed;
                }
            }
        }
        self.client = Some(client);
        outcome
    }

    fn check_error(&self, reply: &[u8], documented: &[&str]) {
        let reply = String::from_utf8_lossy(reply);
        assert!(documented.iter().any(|start| reply.starts_with(start)), "{} is told {reply}", self.name);
    }

    fn learn(&mut self, expected: &Expected, reply: &[u8]) {
        let length = |reply: &[u8]| std::str::from_utf8(payload(reply)).unwrap().parse().unwrap();
        match expected {
            Expected::Exactly(exactly) => {
                assert!(reply == exactly, "{} gets {}", self.name, String::from_utf8_lossy(reply));
            }
            Expected::Length(at) => self.pushes[*at].length = Some(length(reply)),
            Expected::Lengths(at) => {
                let both = reply.strip_prefix(b"*2\r\n").unwrap_or_else(|| panic!("{reply:?}"));
                let (one, two) = both.split_at(reply_length(both).unwrap());
                self.pushes[*at].length = Some(length(one));
                self.pushes[*at + 1].length = Some(length(two));
            }
        }
    }

    /// What came of a reply when the connection ended.
    fn check_piece(&self, expected: &Expected, piece: &[u8]) {
        let is_piece = match expected {
            Expected::Exactly(exactly) => exactly.starts_with(piece),
            Expected::Length(_) => piece.is_empty() || piece[0] == b':',
            Expected::Lengths(_) => piece.is_empty() || piece[0] == b'*',
        };
        let is_error = DOCUMENTED.iter().any(|error| error.as_bytes().starts_with(piece));
        assert!(is_piece || is_error, "{} gets at last {}", self.name, String::from_utf8_lossy(piece));
    }

    /// Compares what it was told with what is in its list.
    fn settle(&self, server: &Server) {
        let mut client = server.client();
        let reply = client.call(&["LRANGE", &self.list(), "0", "-1"]);
        let text = String::from_utf8(reply).unwrap();
        let lines = text.split("\r\n").skip(1);
        let ids: Vec<u64> = lines.filter(|line| !line.starts_with('$')).filter_map(|id| id.parse().ok()).collect();
        // What was under way on a connection that is gone may come behind what was said on the next.
        let mut last = BTreeMap::new();
        for &id in &ids {
            let before = last.insert(self.pushes[usize::try_from(id).unwrap()].connection, id);
            assert!(before < Some(id), "{}: {id} was carried out twice or too late: {ids:?}", self.name);
        }
        for push in &self.pushes {
            let Some(length) = push.length else { continue };
            assert_eq!(ids.get(length - 1), Some(&push.id), "{} was told {push:?}", self.name);
        }
        for pair in self.pushes.windows(2).filter(|pair| pair[0].with_next) {
            let found = [pair[0], pair[1]].map(|push| ids.iter().position(|&id| id == push.id));
            assert_eq!(
                found[0].map(|at| at + 1),
                found[1],
                "{}: half of a transaction was carried out: {pair:?}",
                self.name
            );
        }
    }
}

fn seed() -> u64 {
    std::env::var("LOSSES_SEED").map_or(1, |seed| seed.parse().unwrap())
}

fn before(server: &Server) -> Setup {
    Setup::before(server.address()).listener("mode = \"multiplex\"").sections("[runtime]\nshards = 2\n")
}

/// Has all workers work until each has had so many bursts without a disturbance, while `strike` gets the news of each burst.
fn work_through(ringwall: &Ringwall, server: &Server, documented: &[&str], strike: impl FnOnce(Receiver<()>)) {
    let (seed, bursts) = (seed(), 60);
    println!("seed {seed}");
    let (news, heard) = channel();
    let workers: Vec<_> = thread::scope(|scope| {
        let start = |number| {
            let mut worker = Worker::new(number, ringwall.dial(), seed);
            let news: Sender<()> = news.clone();
            scope.spawn(move || {
                let mut done = 0;
                while done < bursts {
                    let outcome = worker.work(documented);
                    assert_ne!(outcome, Outcome::Refused, "ringwall is there all the time");
                    done += usize::from(outcome == Outcome::Done);
                    news.send(()).ok();
                }
                worker
            })
        };
        let threads: Vec<_> = (0..WORKERS).map(start).collect();
        drop(news);
        strike(heard);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for worker in workers {
        worker.settle(server);
    }
    ringwall.assert_serves();
}

/// Waits for a random number of bursts. `false` when all are over.
fn wait(heard: &Receiver<()>, rng: &mut Rng, bursts_max: usize) -> bool {
    (0..rng.size(bursts_max)).all(|_| heard.recv().is_ok())
}

#[test]
fn connections_that_are_killed_cost_nobody_more_than_an_error() {
    let server = Server::on_unix_socket();
    let ringwall = before(&server).start();
    work_through(&ringwall, &server, &DOCUMENTED[..2], |heard| {
        let (mut rng, mut killer) = (Rng::new(seed()), server.client());
        let mut killed = 0;
        while wait(&heard, &mut rng, 60) {
            if rng.chance(500) {
                killed += killer.text(&["CLIENT", "KILL", "TYPE", "normal"]).parse::<usize>().unwrap();
                continue;
            }
            let list = killer.text(&["CLIENT", "LIST", "TYPE", "normal"]);
            let ids: Vec<&str> = list.lines().filter_map(|line| line.strip_prefix("id=")?.split(' ').next()).collect();
            let victim = ids[rng.index(ids.len())];
            killed += killer.text(&["CLIENT", "KILL", "ID", victim]).parse::<usize>().unwrap();
        }
        assert!(killed > 20, "{killed} connections were killed");
    });
}

#[test]
fn a_server_that_crashes_again_and_again_carries_out_nothing_twice() {
    let server = Server::with(&["--enable-debug-command yes --appendonly yes --appendfsync no"]);
    let ringwall = before(&server).start();
    let documented = [DOCUMENTED, LOADING].concat();
    work_through(&ringwall, &server, &documented, |heard| {
        let mut rng = Rng::new(seed());
        let mut crashes = 0;
        while wait(&heard, &mut rng, 200) && crashes < 12 {
            crashes += 1;
            server.client().send_request(&["DEBUG", "CRASH-AND-RECOVER"]);
            server.process.nth_line(1 + crashes, |line| line.contains("eady to accept connections"));
        }
        assert!(crashes > 3, "{crashes} crashes");
        heard.iter().for_each(drop);
    });
}

#[test]
fn whom_a_drain_cuts_off_in_the_middle_of_work_has_got_a_prefix_of_its_replies() {
    for round in 0..3 {
        let server = Server::on_unix_socket();
        // Clients that never stop are cut off when this is over.
        let limits = "[runtime]\nshards = 2\n[limits]\nshutdown_timeout = \"1s\"\n";
        let mut ringwall = before(&server).sections(limits).start();
        let (news, heard) = channel();
        let workers: Vec<_> = thread::scope(|scope| {
            let start = |number| {
                let mut worker = Worker::new(number, ringwall.dial(), seed() + round);
                worker.leaves = false;
                let news = news.clone();
                scope.spawn(move || {
                    while worker.work(&[]) == Outcome::Done {
                        news.send(()).ok();
                    }
                    worker
                })
            };
            let threads: Vec<_> = (0..WORKERS).map(start).collect();
            assert!(wait(&heard, &mut Rng::new(seed() + round), 500));
            ringwall.terminate();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let (_, status) = ringwall.wait();
        assert!(status.success());
        workers.iter().for_each(|worker| worker.settle(&server));
        server.wait_for_clients(0);
    }
}

#[test]
fn who_does_not_read_loses_the_rest_of_its_own_replies_alone() {
    let server = Server::on_unix_socket();
    let ringwall = before(&server).start();
    let value = "<slow>".repeat(40_000);
    server.client().call(&["SET", "value", &value]);
    let reply = format!("${}\r\n{value}\r\n", value.len()).into_bytes();
    let (mut slow, mut others) = (ringwall.client(), [ringwall.client(), ringwall.client(), ringwall.client()]);
    slow.send(&request(&["GET", "value"]).repeat(100));
    for n in 0..200 {
        for other in &mut others {
            let word = n.to_string();
            assert_eq!(payload(&other.call(&["ECHO", &word])), word.as_bytes());
        }
    }
    ringwall.session_ended("slow_client");
    let (rest, end) = slow.rest();
    assert!(reply.repeat(100).starts_with(&rest), "{} bytes", rest.len());
    assert!(rest.len() < 100 * reply.len() && matches!(end, End::Cut | End::Reset), "{end:?} after {}", rest.len());
}
