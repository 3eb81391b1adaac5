//! The multiplexer in front of a real server: each client gets what the server tells a client that is alone with it.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use ringwall::metrics::Tally;
use ringwall::multiplex::{Id, Multiplexer, Output};
use ringwall::pool::{Pool, SendBuf};
use ringwall::session::Turn;
use ringwall::time::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::redis::Redis;
use crate::talk::{Rng, encoded, script};
use crate::world::options;

/// Longer than anything here takes; who waits as long has failed.
const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// What has happened and must be told.
enum Event {
    Connected(Id),
    SentToServer(Id, SendBuf),
    SentToClient(Id, SendBuf),
}

struct Client {
    id: Id,
    to_say: VecDeque<Vec<u8>>,
    is_welcome: bool,
    received: Vec<u8>,
}

/// A multiplexer, its connections to a real server, and clients that take what they are given.
struct Front<'a> {
    redis: &'a Redis,
    multiplexer: Multiplexer,
    pool: Pool,
    tally: Tally,
    links: BTreeMap<Id, (UnixStream, bool)>,
    clients: Vec<Client>,
    events: VecDeque<Event>,
    dials: usize,
}

impl<'a> Front<'a> {
    fn new(redis: &'a Redis, pieces: Vec<VecDeque<Vec<u8>>>) -> Self {
        let mut multiplexer = Multiplexer::new(options(), Arc::default());
        let came = multiplexer.moment();
        let clients = pieces
            .into_iter()
            .map(|to_say| Client { id: multiplexer.accept(came), to_say, is_welcome: true, received: Vec::new() })
            .collect();
        let (pool, tally) = (Pool::new(), Tally::default());
        Self { redis, multiplexer, pool, tally, links: BTreeMap::new(), clients, events: VecDeque::new(), dials: 0 }
    }

    fn turn(&mut self, call: impl FnOnce(&mut Multiplexer, &mut Turn<'_>)) {
        let now = Time::from_nanos(1_000_000_000);
        let mut turn = Turn { now, pool: &mut self.pool, tally: &self.tally };
        call(&mut self.multiplexer, &mut turn);
        while let Some(output) = self.multiplexer.poll(&mut turn) {
            match output {
                Output::Dial(id) => {
                    self.dials += 1;
                    self.links.insert(id, (self.redis.connect(), false));
                    self.events.push_back(Event::Connected(id));
                }
                Output::SendToServer(id, buffer) => {
                    self.links.get_mut(&id).unwrap().0.write_all(buffer.data()).unwrap();
                    self.events.push_back(Event::SentToServer(id, buffer));
                }
                Output::EndToServer(id) => self.links[&id].0.shutdown(std::net::Shutdown::Write).unwrap(),
                Output::ReceiveFromServer(id, is_welcome) => self.links.get_mut(&id).unwrap().1 = is_welcome,
                Output::CloseLink(id) => drop(self.links.remove(&id)),
                Output::SendToClient(id, buffer) => {
                    let client = self.clients.iter_mut().find(|client| client.id == id).unwrap();
                    client.received.extend_from_slice(buffer.data());
                    self.events.push_back(Event::SentToClient(id, buffer));
                }
                Output::ReceiveFromClient(id, is_welcome) => {
                    self.clients.iter_mut().find(|client| client.id == id).unwrap().is_welcome = is_welcome;
                }
                Output::CloseClient(id, reason) | Output::CutClient(id, reason) => panic!("{id:?} closed: {reason:?}"),
                Output::TellSlow(slow) => panic!("{slow:?}"),
            }
        }
    }

    fn tell(&mut self, event: Event) {
        self.turn(|multiplexer, turn| match event {
            Event::Connected(id) => multiplexer.handle_connected(id, turn),
            Event::SentToServer(id, buffer) => {
                let len = buffer.len();
                multiplexer.handle_link_sent(id, buffer, Ok(len), turn);
            }
            Event::SentToClient(id, buffer) => {
                let len = buffer.len();
                multiplexer.handle_client_sent(id, buffer, Ok(len), turn);
            }
        });
    }

    /// Takes what servers have said, once at least one has.
    fn listen(&mut self) {
        let welcome = || self.links.iter().filter(|(_, (_, is_welcome))| *is_welcome);
        let ids: Vec<_> = welcome().map(|(id, _)| *id).collect();
        let mut waits: Vec<_> = welcome().map(|(_, (stream, _))| PollFd::new(stream, PollFlags::IN)).collect();
        assert!(poll(&mut waits, Some(&PATIENCE)).unwrap() > 0, "nothing comes any more");
        let ready: Vec<_> =
            ids.iter().zip(&waits).filter(|(_, wait)| !wait.revents().is_empty()).map(|(id, _)| *id).collect();
        for id in ready {
            let mut bytes = [0; 16 * 1024];
            let Some((stream, _)) = self.links.get_mut(&id) else { continue };
            let read = stream.read(&mut bytes).unwrap();
            self.turn(|multiplexer, turn| match read {
                0 => multiplexer.handle_link_end(id, None, "", turn),
                _ => multiplexer.handle_link_received(id, &bytes[..read], turn),
            });
        }
    }

    /// Until each client has got `end` as its last reply.
    fn run(&mut self, end: &[u8]) {
        while self.clients.iter().any(|client| !client.received.ends_with(end)) {
            while let Some(event) = self.events.pop_front() {
                self.tell(event);
            }
            let mut said = false;
            for at in 0..self.clients.len() {
                let client = &mut self.clients[at];
                if !client.is_welcome {
                    continue;
                }
                if let Some(piece) = client.to_say.pop_front() {
                    said = true;
                    let id = client.id;
                    self.turn(|multiplexer, turn| multiplexer.handle_client_received(id, &piece, turn));
                }
            }
            if !said && self.events.is_empty() && self.clients.iter().any(|client| !client.received.ends_with(end)) {
                self.listen();
            }
        }
    }
}

/// What the server says to these requests over one connection, up to and with `end`.
fn alone(redis: &Redis, requests: &[u8], end: &[u8]) -> Vec<u8> {
    let mut stream = redis.connect();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(requests).unwrap();
    let mut said = Vec::new();
    while !said.ends_with(end) {
        let mut bytes = [0; 16 * 1024];
        let read = stream.read(&mut bytes).unwrap();
        assert!(read > 0, "the server closes: {}", said.escape_ascii());
        said.extend_from_slice(&bytes[..read]);
    }
    said
}

/// The replies without the numbers of connections, which HELLO tells.
fn without_ids(replies: &[u8]) -> String {
    let text = String::from_utf8_lossy(replies);
    let mut parts = text.split("$2\r\nid\r\n:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "id" + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

fn prepare(redis: &Redis) {
    let setup = "FLUSHALL\r\nACL SETUSER alice on >wonder ~* &* +@all\r\nACL SETUSER bob on >builder ~* &* +@all -get\r\n\
                 PING\r\n";
    alone(redis, setup.as_bytes(), b"+PONG\r\n");
}

#[test]
fn each_client_gets_what_the_server_would_tell_it_alone() {
    const END: &[u8] = b"$3\r\nend\r\n";
    let redis = Redis::start();
    for seed in 0..20 {
        let mut rng = Rng(seed);
        let scripts: Vec<String> = (0..8)
            .map(|client| {
                let mut requests = script(client, 60, &mut rng);
                // Nobody feeds lists here; and who the server takes the client for is worth knowing.
                for request in &mut requests {
                    if request.contains("BLPOP") {
                        *request = encoded("ACL WHOAMI");
                    }
                }
                requests.concat() + &encoded("ECHO end")
            })
            .collect();
        prepare(&redis);
        let expected: Vec<_> = scripts.iter().map(|script| alone(&redis, script.as_bytes(), END)).collect();
        prepare(&redis);
        let pieces = scripts.iter().map(|script| {
            let size = [7, 100, 100_000][rng.draw(3)];
            script.as_bytes().chunks(size).map(<[u8]>::to_vec).collect()
        });
        let mut front = Front::new(&redis, pieces.collect());
        front.run(END);
        for (client, expected) in front.clients.iter().zip(&expected) {
            assert_eq!(without_ids(&client.received), without_ids(expected), "seed {seed}");
        }
    }
}

#[test]
fn a_hundred_clients_share_one_connection() {
    const END: &[u8] = b"$3\r\nend\r\n";
    let redis = Redis::start();
    let requests = |client: usize| {
        let lines = [format!("SET key:{client} {client}"), format!("GET key:{client}"), "ECHO end".to_owned()];
        lines.iter().map(|line| encoded(line).into_bytes()).collect()
    };
    let mut front = Front::new(&redis, (0..100).map(requests).collect());
    front.run(END);
    for (number, client) in front.clients.iter().enumerate() {
        let value = number.to_string();
        let expected = format!("+OK\r\n${}\r\n{value}\r\n$3\r\nend\r\n", value.len());
        assert_eq!(String::from_utf8_lossy(&client.received), expected);
    }
    assert_eq!(front.dials, 1);
}
