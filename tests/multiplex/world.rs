//! A multiplexer between clients and a server, without a socket: what the tests drive.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ringwall::io::Errno;
use ringwall::metrics::{Sharing, Tally};
use ringwall::multiplex::{Id, Multiplexer, Options, Output, Reason, SlowRequest};
use ringwall::pool::{Pool, SendBuf};
use ringwall::session::Turn;
use ringwall::time::Time;

use crate::server::Server;

/// The options most tests use.
pub(crate) fn options() -> Options {
    Options::default()
}

/// The other end of one of the multiplexer's connections.
#[derive(Default)]
pub(crate) struct Link {
    /// The server's side, once it is connected.
    pub(crate) connection: Option<usize>,
    in_flight: Option<SendBuf>,
    has_ended: bool,
    is_welcome: bool,
}

/// The other end of a client's connection.
pub(crate) struct Client {
    pub(crate) id: Id,
    pub(crate) received: Vec<u8>,
    in_flight: Option<SendBuf>,
    /// It does not read.
    pub(crate) blocked: bool,
    is_welcome: bool,
    pub(crate) closed: Option<Reason>,
}

pub(crate) struct World {
    pub(crate) multiplexer: Multiplexer,
    pub(crate) server: Server,
    pub(crate) links: BTreeMap<Id, Link>,
    pub(crate) clients: Vec<Client>,
    pub(crate) pool: Pool,
    tally: Tally,
    pub(crate) counts: Arc<Sharing>,
    pub(crate) now: Time,
    /// Attempts to connect are not answered.
    pub(crate) is_unreachable: bool,
    /// Writes to the server, each with its bytes.
    pub(crate) writes: Vec<String>,
    pub(crate) dials: usize,
    pub(crate) slow: Vec<SlowRequest>,
}

impl World {
    pub(crate) fn new(options: Options) -> Self {
        let counts = Arc::<Sharing>::default();
        Self {
            multiplexer: Multiplexer::new(options, Arc::clone(&counts)),
            server: Server::default(),
            links: BTreeMap::new(),
            clients: Vec::new(),
            pool: Pool::new(),
            tally: Tally::default(),
            counts,
            now: Time::from_nanos(1_000_000_000),
            is_unreachable: false,
            writes: Vec::new(),
            dials: 0,
            slow: Vec::new(),
        }
    }

    /// A client comes; its number.
    pub(crate) fn accept(&mut self) -> usize {
        let id = self.multiplexer.accept(self.multiplexer.moment());
        let client =
            Client { id, received: Vec::new(), in_flight: None, blocked: false, is_welcome: true, closed: None };
        self.clients.push(client);
        self.clients.len() - 1
    }

    /// Calls into the multiplexer and takes its orders, as a shard does at the end of a batch.
    pub(crate) fn turn(&mut self, call: impl FnOnce(&mut Multiplexer, &mut Turn<'_>)) {
        let mut turn = Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        call(&mut self.multiplexer, &mut turn);
        while let Some(output) = self.multiplexer.poll(&mut turn) {
            match output {
                Output::Dial(id) => {
                    self.dials += 1;
                    assert!(self.links.insert(id, Link::default()).is_none(), "dialled twice");
                }
                Output::SendToServer(id, buffer) => {
                    let link = self.links.get_mut(&id).expect("a send over a connection that is there");
                    assert!(link.connection.is_some() && !link.has_ended, "a send before or behind its time");
                    assert!(link.in_flight.replace(buffer).is_none(), "two sends in flight");
                }
                Output::EndToServer(id) => {
                    let link = self.links.get_mut(&id).expect("an end of a connection that is there");
                    assert!(!std::mem::replace(&mut link.has_ended, true), "ended twice");
                }
                Output::ReceiveFromServer(id, is_welcome) => {
                    let link = self.links.get_mut(&id).expect("a connection that is there");
                    assert!(std::mem::replace(&mut link.is_welcome, is_welcome) != is_welcome, "said twice");
                }
                Output::ReceiveFromClient(id, is_welcome) => {
                    let client = self.clients.iter_mut().find(|client| client.id == id).unwrap();
                    assert!(std::mem::replace(&mut client.is_welcome, is_welcome) != is_welcome, "said twice");
                }
                Output::CloseLink(id) => {
                    let link = self.links.remove(&id).expect("closed once");
                    if let Some(connection) = link.connection {
                        self.server.connections[connection].is_open = false;
                    }
                    if let Some(buffer) = link.in_flight {
                        self.multiplexer.handle_link_sent(id, buffer, Err(Errno(125)), &mut turn);
                    }
                }
                Output::SendToClient(id, buffer) => {
                    let client = self.clients.iter_mut().find(|client| client.id == id).unwrap();
                    assert!(client.closed.is_none(), "a send behind the end");
                    assert!(client.in_flight.replace(buffer).is_none(), "two sends in flight");
                }
                Output::TellSlow(slow) => self.slow.push(slow),
                Output::CloseClient(id, reason) | Output::CutClient(id, reason) => {
                    let client = self.clients.iter_mut().find(|client| client.id == id).unwrap();
                    assert!(client.closed.replace(reason).is_none(), "closed twice");
                    if let Some(buffer) = client.in_flight.take() {
                        self.multiplexer.handle_client_sent(id, buffer, Err(Errno(125)), &mut turn);
                    }
                }
            }
        }
    }

    /// A client says something; whether it was welcome.
    pub(crate) fn say(&mut self, client: usize, bytes: &[u8]) -> bool {
        let id = self.clients[client].id;
        if !self.clients[client].is_welcome || self.clients[client].closed.is_some() {
            return false;
        }
        self.turn(|multiplexer, turn| multiplexer.handle_client_received(id, bytes, turn));
        true
    }

    /// A client ends, in good order or not.
    pub(crate) fn leave(&mut self, client: usize, error: Option<Errno>) {
        let id = self.clients[client].id;
        self.turn(|multiplexer, turn| multiplexer.handle_client_end(id, error, turn));
    }

    /// An attempt to connect succeeds, or does not.
    pub(crate) fn connect(&mut self, id: Id) -> bool {
        let Some(link) = self.links.get_mut(&id).filter(|link| link.connection.is_none()) else { return false };
        if self.is_unreachable {
            self.turn(|multiplexer, turn| multiplexer.handle_link_end(id, None, "connection refused", turn));
        } else {
            link.connection = Some(self.server.connect());
            self.turn(|multiplexer, turn| multiplexer.handle_connected(id, turn));
        }
        true
    }

    /// At most so many bytes of what is in flight reach the server.
    pub(crate) fn carry_to_server(&mut self, id: Id, max: usize) -> bool {
        let Some(link) = self.links.get_mut(&id) else { return false };
        let Some(buffer) = link.in_flight.take() else { return self.end_at_server(id) };
        let sent = buffer.len().min(max);
        self.writes.push(String::from_utf8_lossy(&buffer.data()[..sent]).into_owned());
        let connection = link.connection.unwrap();
        self.server.receive(connection, &buffer.data()[..sent]);
        self.turn(|multiplexer, turn| multiplexer.handle_link_sent(id, buffer, Ok(sent), turn));
        true
    }

    /// A server closes when the other side has ended.
    fn end_at_server(&mut self, id: Id) -> bool {
        let link = &self.links[&id];
        let Some(connection) = link.connection.filter(|_| link.has_ended) else { return false };
        !std::mem::replace(&mut self.server.connections[connection].closed, true)
    }

    /// At most so many bytes of what the server has said arrive, or its end does.
    pub(crate) fn carry_from_server(&mut self, id: Id, max: usize) -> bool {
        let welcome = self.links.get(&id).filter(|link| link.is_welcome);
        let Some(connection) = welcome.and_then(|link| link.connection) else { return false };
        let connection = &mut self.server.connections[connection];
        let rest = connection.output.split_off(connection.output.len().min(max));
        let bytes = std::mem::replace(&mut connection.output, rest);
        if !bytes.is_empty() {
            self.turn(|multiplexer, turn| multiplexer.handle_link_received(id, &bytes, turn));
            return true;
        }
        if connection.closed && connection.is_open {
            connection.is_open = false;
            self.turn(|multiplexer, turn| multiplexer.handle_link_end(id, None, "", turn));
            return true;
        }
        false
    }

    /// At most so many bytes of what is in flight reach a client.
    pub(crate) fn carry_to_client(&mut self, client: usize, max: usize) -> bool {
        let client = &mut self.clients[client];
        if client.blocked {
            return false;
        }
        let Some(buffer) = client.in_flight.take() else { return false };
        let sent = buffer.len().min(max);
        client.received.extend_from_slice(&buffer.data()[..sent]);
        let id = client.id;
        self.turn(|multiplexer, turn| multiplexer.handle_client_sent(id, buffer, Ok(sent), turn));
        true
    }

    /// Everything that can move moves, until nothing does.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            let mut moved = false;
            for id in self.links.keys().copied().collect::<Vec<_>>() {
                moved |= self.connect(id);
                moved |= self.carry_to_server(id, usize::MAX);
                moved |= self.carry_from_server(id, 64 * 1024);
            }
            for client in 0..self.clients.len() {
                moved |= self.carry_to_client(client, usize::MAX);
            }
            if !moved {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    /// A client says something and everything moves; what it got since it last asked.
    pub(crate) fn ask(&mut self, client: usize, requests: &str) -> String {
        assert!(self.say(client, requests.as_bytes()));
        self.settle();
        self.take(client)
    }

    /// What a client got since it last asked.
    pub(crate) fn take(&mut self, client: usize) -> String {
        String::from_utf8(std::mem::take(&mut self.clients[client].received)).unwrap()
    }

    pub(crate) fn wait(&mut self, duration: Duration) {
        self.now = self.now + duration;
        if self.multiplexer.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.turn(Multiplexer::handle_timeout);
        }
    }

    /// A connection fails.
    pub(crate) fn break_link(&mut self, id: Id) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if let Some(connection) = link.connection {
            self.server.connections[connection].is_open = false;
        }
        self.turn(|multiplexer, turn| multiplexer.handle_link_end(id, Some(Errno(104)), "reset", turn));
    }

    /// The only connection.
    pub(crate) fn only_link(&self) -> Id {
        assert_eq!(self.links.len(), 1);
        *self.links.keys().next().unwrap()
    }

    /// The server says something over a connection, unasked.
    pub(crate) fn server_says(&mut self, id: Id, bytes: &[u8]) {
        let connection = self.links[&id].connection.unwrap();
        self.server.connections[connection].output.extend_from_slice(bytes);
    }
}
