//! The operations whose instructions are counted, each made ready to run.

use std::hint::black_box;
use std::sync::Arc;

use ringwall::mailbox::{Doorbell, mailbox, pending_flags};
use ringwall::metrics::Tally;
use ringwall::multiplex::route::{arguments, route};
use ringwall::multiplex::{self, Multiplexer};
use ringwall::pool::Pool;
use ringwall::session::coalescer::Threshold;
use ringwall::session::queue::SendQueue;
use ringwall::session::transport::Transport;
use ringwall::session::{Side, Turn};
use ringwall::time::Time;
use ringwall::wire::frame::{Form, ReplyFramer, RequestFramer};

use crate::connected::{Connected, connected, sealed};

const SESSION: &str = "session, request and reply of 64 B";
const CHUNK: [u8; 64] = [b'x'; 64];

/// An operation, to be called as often as it was prepared for.
pub(crate) type Operation = Box<dyn FnMut()>;

/// Something to measure.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Calls in one timed run; bounded by what must be prepared for each.
    pub(crate) timed: u64,
    /// The case before it that its count is shown beside.
    pub(crate) beside: Option<&'static str>,
    /// Makes an operation for so many calls.
    pub(crate) prepare: Box<dyn Fn(u64) -> Operation>,
}

impl Case {
    fn new(name: &'static str, timed: u64, prepare: impl Fn(u64) -> Operation + 'static) -> Self {
        Self { name, timed, beside: None, prepare: Box::new(prepare) }
    }

    fn beside(self, name: &'static str) -> Self {
        Self { beside: Some(name), ..self }
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
        Case::new(SESSION, 20_000, |times| pass_requests_and_replies(Pending::Unknown, times)),
        Case::new("session, the same, pending flag published", 20_000, |times| {
            pass_requests_and_replies(Pending::Published, times)
        })
        .beside(SESSION),
        Case::new("session, the same, TLS asked after each event", 20_000, |times| {
            pass_requests_and_replies(Pending::Asked, times)
        })
        .beside(SESSION),
        Case::new("queue, 10 chunks of 64 B and their send", 20_000, |_| gather_and_send(Transport::Plain)),
        Case::new("queue, 10 chunks of 64 B sealed as one", 20_000, |_| gather_and_send(sealing())),
        Case::new("request framed, GET", 1_000_000, |_| {
            frame_request(b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000012345\r\n")
        }),
        Case::new("reply framed, 64 B", 1_000_000, |_| frame_reply()),
        Case::new("command routed, GET", 1_000_000, |_| route_command()),
        Case::new("multiplexer, request and reply of 64 B", 100_000, |_| multiplex(1, 1)),
        Case::new("multiplexer, 50 of both in one batch", 10_000, |_| multiplex(50, 1)),
        Case::new("multiplexer, 64 of both of one client", 10_000, |_| multiplex(1, 64)),
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

/// How it is found out whether something of a session waits to be served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pending {
    /// Not at all.
    Unknown,
    /// As shards do it: known after each event, published when it has changed.
    Published,
    /// By a call into TLS after each event, as servers do it that know no better.
    Asked,
}

/// What a shard does with a session for one request: both directions, each as a receive and a settled send. It is as if
/// each turn served one request, so what a turn does once weighs more here than it ever does.
fn pass_requests_and_replies(how: Pending, times: u64) -> Operation {
    let (mut client, mut session) = Connected::new();
    let (_, mut engine, mut pool) = connected();
    let (mut publisher, _reader) = pending_flags(1024, 64);
    let mut was_pending = false;
    let mut records = sealed(&mut client, &CHUNK, times).into_iter();
    let mut reply = CHUNK;
    Box::new(move || {
        let mut record = records.next().expect("one for each call");
        for (side, bytes) in [(Side::Client, &mut record[..]), (Side::Backend, &mut reply[..])] {
            session.receive(side, bytes);
            match how {
                Pending::Unknown => {}
                Pending::Published => {
                    let pending = session.session.is_pending();
                    if pending != was_pending {
                        was_pending = pending;
                        publisher.publish(500, pending);
                    }
                }
                Pending::Asked => {
                    black_box(engine.open(&mut [], 1, &mut pool, |_, _| {}));
                }
            }
        }
        if how == Pending::Published {
            black_box(publisher.flush());
        }
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

/// What a shard does with a multiplexer for so many requests of each of so many clients that leave together.
fn multiplex(clients: usize, pipeline: usize) -> Operation {
    let mut multiplexer = Multiplexer::new(multiplex::Options::default(), Arc::default());
    let (mut pool, tally) = (Pool::new(), Tally::default());
    let came = multiplexer.moment();
    let clients: Vec<_> = (0..clients).map(|_| multiplexer.accept(came)).collect();
    let reply = [b"$64\r\n".as_slice(), &CHUNK, b"\r\n"].concat();
    let requests = b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000012345\r\n".repeat(pipeline);
    let replies = reply.repeat(clients.len() * pipeline);
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
            multiplexer.handle_client_received(client, &requests, &mut turn);
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
            | multiplex::Output::CutClient(..)
            | multiplex::Output::TellSlow(_)) => panic!("{other:?}"),
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
