//! The operations whose instructions are counted, each made ready to run.

use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;

use ringwall::mailbox::{Doorbell, mailbox, pending_flags};
use ringwall::metrics::Tally;
use ringwall::multiplex::route::{arguments, route};
use ringwall::multiplex::{self, Multiplexer};
use ringwall::pool::Pool;
use ringwall::session::coalescer::Threshold;
use ringwall::session::greeting::Opening;
use ringwall::session::queue::SendQueue;
use ringwall::session::transport::Transport;
use ringwall::session::{Options, Output, Session, Side, Turn};
use ringwall::time::Time;
use ringwall::tls::{self, Acceptor, Engine, Identity};
use ringwall::wire::frame::{Form, ReplyFramer, RequestFramer};

use crate::credentials::Credentials;
use crate::tls_client::TlsClient;

const CHUNK: [u8; 64] = [b'x'; 64];

/// An operation, to be called as often as it was prepared for.
pub(crate) type Operation = Box<dyn FnMut()>;

/// Something to measure.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Calls in one timed run; bounded by what must be prepared for each.
    pub(crate) timed: u64,
    /// Makes an operation for so many calls.
    pub(crate) prepare: Box<dyn Fn(u64) -> Operation>,
}

impl Case {
    fn new(name: &'static str, timed: u64, prepare: impl Fn(u64) -> Operation + 'static) -> Self {
        Self { name, timed, prepare: Box::new(prepare) }
    }
}

/// All cases, in the order in which they are printed.
pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("record open, 64 B", 20_000, |times| open_records(64, times)),
        Case::new("record open, 16 KiB", 2_000, |times| open_records(16 * 1024, times)),
        Case::new("record seal, 64 B", 20_000, |_| seal_chunks(64)),
        Case::new("record seal, 16 KiB", 2_000, |_| seal_chunks(16 * 1024)),
        Case::new("record seal, 64 KiB as four", 1_000, |_| seal_chunks(64 * 1024)),
        Case::new("session, request and reply of 64 B", 20_000, pass_requests_and_replies),
        Case::new("queue, 10 chunks of 64 B and their send", 20_000, |_| gather_and_send(Transport::Plain)),
        Case::new("queue, 10 chunks of 64 B sealed as one", 20_000, |_| gather_and_send(sealing())),
        Case::new("request framed, GET", 1_000_000, |_| {
            frame_request(b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000012345\r\n")
        }),
        Case::new("reply framed, 64 B", 1_000_000, |_| frame_reply()),
        Case::new("command routed, GET", 1_000_000, |_| route_command()),
        Case::new("multiplexer, request and reply of 64 B", 100_000, |_| multiplex(1)),
        Case::new("multiplexer, 50 of both in one batch", 10_000, |_| multiplex(50)),
        Case::new("mailbox, send and receive", 1_000_000, |_| pass_through_mailbox()),
        Case::new("doorbell, asked while awake", 1_000_000, |_| ask_doorbell()),
        Case::new("doorbell, a sleep and its ring", 1_000_000, |_| ring_sleeper()),
        Case::new("pending flag, no transition", 1_000_000, |_| publish_nothing_new()),
        Case::new("pending flag, a transition and its flush", 1_000_000, |_| publish_transitions()),
    ]
}

fn open_records(bytes: usize, times: u64) -> Operation {
    let (mut client, mut engine, mut pool) = connected();
    let plaintext = vec![b'x'; bytes];
    let mut records = sealed(&mut client, &plaintext, times).into_iter();
    Box::new(move || {
        let mut record = records.next().expect("one for each call");
        let opened = engine.open(&mut record, usize::MAX, &mut pool, |_, plaintext| {
            black_box(plaintext);
        });
        assert_eq!(opened.records, 1);
        // Freeing it is the bench's doing, and not counted as the engine's.
        std::mem::forget(record);
    })
}

fn seal_chunks(bytes: usize) -> Operation {
    let (_, mut engine, mut pool) = connected();
    let plaintext = vec![b'x'; bytes];
    Box::new(move || {
        let mut out = pool.take(engine.sealed_len_max(plaintext.len()));
        engine.seal(&plaintext, &mut out).expect("the keys last");
        pool.give(out);
    })
}

/// What a shard does with a session for one request: both directions, each as a receive and a settled send.
fn pass_requests_and_replies(times: u64) -> Operation {
    let (mut client, mut session) = Connected::new();
    let mut records = sealed(&mut client, &CHUNK, times).into_iter();
    let mut reply = CHUNK;
    Box::new(move || {
        let mut record = records.next().expect("one for each call");
        session.receive(Side::Client, &mut record);
        session.receive(Side::Backend, &mut reply);
        std::mem::forget(record);
    })
}

fn gather_and_send(mut transport: Transport) -> Operation {
    let (mut pool, tally) = (Pool::new(), Tally::default());
    let mut queue = SendQueue::new(Threshold::Bytes(64 * 1024));
    Box::new(move || {
        for _ in 0..10 {
            queue.push(&CHUNK, &mut transport, &mut pool, &tally).expect("the keys last");
        }
        let buffer = queue.next(&mut transport, &mut pool, &tally).expect("the keys last").expect("a send");
        let sent = buffer.len();
        queue.sent(buffer, sent, &mut pool);
    })
}

fn sealing() -> Transport {
    let (_, engine, _) = connected();
    Transport::Tls(Box::new(engine))
}

fn frame_request(request: &'static [u8]) -> Operation {
    let mut framer = RequestFramer::new();
    Box::new(move || {
        let framed = framer.advance(black_box(request)).expect("well-formed");
        black_box(framed.expect("complete"));
    })
}

fn frame_reply() -> Operation {
    let mut framer = ReplyFramer::new();
    let reply = [b"$64\r\n".as_slice(), &CHUNK, b"\r\n"].concat();
    Box::new(move || {
        let framed = framer.advance(black_box(&reply)).expect("well-formed");
        black_box(framed.expect("complete"));
    })
}

fn route_command() -> Operation {
    Box::new(|| {
        let request = black_box(b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000012345\r\n");
        black_box(route(arguments(request, Form::Array(2))));
    })
}

/// What a shard does with a multiplexer for requests of so many clients that leave together.
fn multiplex(clients: usize) -> Operation {
    let mut multiplexer = Multiplexer::new(multiplex::Options::default());
    let (mut pool, tally) = (Pool::new(), Tally::default());
    let clients: Vec<_> = (0..clients).map(|_| multiplexer.accept()).collect();
    let reply = [b"$64\r\n".as_slice(), &CHUNK, b"\r\n"].concat();
    let replies = reply.repeat(clients.len());
    let mut link = None;
    let mut turn = Turn { now: Time::from_nanos(1), pool: &mut pool, tally: &tally };
    multiplexer.handle_client_received(clients[0], b"PING\r\n", &mut turn);
    settle(&mut multiplexer, &mut link, &mut turn);
    // The answer to what is asked on behalf of the clients, and then to the request.
    for _ in 0..2 {
        multiplexer.handle_link_received(link.expect("a connection"), b"+PONG\r\n", &mut turn);
        settle(&mut multiplexer, &mut link, &mut turn);
    }
    Box::new(move || {
        let mut turn = Turn { now: Time::from_nanos(1), pool: &mut pool, tally: &tally };
        for &client in &clients {
            multiplexer.handle_client_received(client, b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000012345\r\n", &mut turn);
        }
        settle(&mut multiplexer, &mut link, &mut turn);
        multiplexer.handle_link_received(link.expect("a connection"), &replies, &mut turn);
        settle(&mut multiplexer, &mut link, &mut turn);
    })
}

fn settle(multiplexer: &mut Multiplexer, link: &mut Option<multiplex::Id>, turn: &mut Turn<'_>) {
    while let Some(output) = multiplexer.poll(turn) {
        match output {
            multiplex::Output::Dial(id) => {
                *link = Some(id);
                multiplexer.handle_connected(id, turn);
            }
            multiplex::Output::SendToServer(id, buffer) => {
                let sent = buffer.len();
                multiplexer.handle_link_sent(id, buffer, Ok(sent), turn);
            }
            multiplex::Output::SendToClient(id, buffer) => {
                let sent = buffer.len();
                multiplexer.handle_client_sent(id, buffer, Ok(sent), turn);
            }
            multiplex::Output::ReceiveFromServer(..) | multiplex::Output::ReceiveFromClient(..) => {}
            other @ (multiplex::Output::EndToServer(_)
            | multiplex::Output::CloseLink(_)
            | multiplex::Output::CloseClient(..)
            | multiplex::Output::CutClient(..)) => panic!("{other:?}"),
        }
    }
}

fn pass_through_mailbox() -> Operation {
    let (mut sender, mut receiver) = mailbox::<u64>(64);
    Box::new(move || {
        sender.send(black_box(7)).expect("there is room");
        black_box(receiver.receive());
    })
}

fn ask_doorbell() -> Operation {
    let doorbell = Doorbell::new();
    Box::new(move || {
        black_box(doorbell.needs_ring());
    })
}

fn ring_sleeper() -> Operation {
    let (sender, receiver) = mailbox::<u64>(64);
    Box::new(move || {
        assert!(receiver.going_to_sleep());
        assert!(sender.needs_ring());
        receiver.awake();
    })
}

fn publish_nothing_new() -> Operation {
    let (mut publisher, _reader) = pending_flags(1024, 64);
    Box::new(move || {
        publisher.publish(black_box(500), false);
        black_box(publisher.flush());
    })
}

fn publish_transitions() -> Operation {
    let (mut publisher, mut reader) = pending_flags(1024, 64);
    let mut pending = false;
    Box::new(move || {
        pending = !pending;
        publisher.publish(black_box(500), pending);
        black_box(publisher.flush());
        reader.drain(|hint| {
            black_box(hint);
        });
    })
}

/// So many records of the client with the same plaintext.
fn sealed(client: &mut TlsClient, plaintext: &[u8], times: u64) -> Vec<Vec<u8>> {
    let seal = |_| {
        let mut record = Vec::new();
        client.seal(plaintext, &mut record);
        record
    };
    (0..times).map(seal).collect()
}

fn acceptor(credentials: &Credentials) -> Acceptor {
    let (chain, key) = (credentials.folder().join("server.crt"), credentials.folder().join("server.key"));
    let identity = Identity::load(&chain, &key).expect("a certificate and its key");
    Acceptor::new(&identity.into(), &tls::Options::default()).expect("the key can be used")
}

/// A client and an engine that have shaken hands.
fn connected() -> (TlsClient, Engine, Pool) {
    let credentials = Credentials::new();
    let (mut client, mut engine) = (TlsClient::new(&credentials.client), acceptor(&credentials).engine());
    let mut pool = Pool::new();
    shake_hands(&mut client, |from_client| {
        engine.open(from_client, usize::MAX, &mut pool, |_, _| {});
        engine.take_replies()
    });
    (client, engine, pool)
}

/// Passes messages between a client and `server`, which answers what it is given, until the client has no more to say.
fn shake_hands(client: &mut TlsClient, mut server: impl FnMut(&mut [u8]) -> Vec<u8>) {
    let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
    loop {
        let taken = client.open(&mut to_client, &mut to_server, |_| {});
        assert_eq!(taken, to_client.len(), "a flight of the server is whole");
        if to_server.is_empty() {
            return assert!(!client.is_handshaking());
        }
        to_client = server(&mut to_server);
        to_server.clear();
    }
}

/// A session that relays, and what a shard keeps beside it.
struct Connected {
    session: Session,
    pool: Pool,
    tally: Tally,
    now: Time,
    /// What has been sent to the client during the handshake.
    to_client: Vec<u8>,
}

impl Connected {
    /// The session and its client.
    fn new() -> (TlsClient, Self) {
        let options = Options {
            send_buffer_bytes: 256 * 1024,
            coalesce: Threshold::Bytes(64 * 1024),
            handshake_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            half_close_timeout: Duration::from_secs(30),
            idle_timeout: None,
            lifetime_max: None,
            tells_unreachable: true,
        };
        let credentials = Credentials::new();
        let mut client = TlsClient::new(&credentials.client);
        let now = Time::from_nanos(1_000_000_000);
        let (mut pool, tally) = (Pool::new(), Tally::default());
        let transport = Transport::Tls(Box::new(acceptor(&credentials).engine()));
        let mut turn = Turn { now, pool: &mut pool, tally: &tally };
        let session = Session::new(transport, Rc::new(options), None, &mut turn);
        let mut connected = Self { session, pool, tally, now, to_client: Vec::new() };
        shake_hands(&mut client, |from_client| {
            connected.receive(Side::Client, from_client);
            std::mem::take(&mut connected.to_client)
        });
        let mut turn = Turn { now, pool: &mut connected.pool, tally: &connected.tally };
        connected.session.handle_connected(Transport::Plain, Opening::default(), &mut turn);
        assert!(connected.session.wants_receive(Side::Backend, false), "it relays");
        (client, connected)
    }

    /// Serves what came, does what the session asks for, and looks at it as a shard does at the end of a turn.
    fn receive(&mut self, side: Side, bytes: &mut [u8]) {
        let handshaking = self.session.is_handshaking(Side::Client);
        let mut turn = Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        self.session.handle_received(side, bytes, &mut turn);
        while let Some(output) = self.session.poll(&mut turn) {
            if let Output::Send(side, buffer) = output {
                if handshaking {
                    self.to_client.extend_from_slice(buffer.data());
                }
                let sent = buffer.len();
                self.session.handle_sent(side, buffer, Ok(sent), &mut turn);
            }
        }
        for side in Side::BOTH {
            black_box(self.session.wants_receive(side, false));
        }
        black_box((self.session.wants_turn(), self.session.deadline(), self.session.is_pending()));
    }
}
