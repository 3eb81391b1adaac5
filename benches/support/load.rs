//! Clients that keep requests outstanding: each reply that is complete lets the next request go.
#![allow(dead_code, reason = "each bench uses a part of it")]

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use ringwall::io::sys::now;
use ringwall::time::Time;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustls::ClientConfig;

use crate::client::{Buffers, Client};

/// Nothing takes longer than this: a proxy that does not answer within it has lost a byte.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// How many clients there are and what they ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Connections.
    pub(crate) clients: usize,
    /// Requests that each has outstanding.
    pub(crate) outstanding: usize,
    /// Bytes of each request.
    pub(crate) request_bytes: usize,
    /// Bytes of each reply.
    pub(crate) reply_bytes: usize,
}

/// What the clients have seen since they were connected.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Bytes of replies.
    pub(crate) reply_bytes: u64,
    /// Records with requests.
    pub(crate) records_sent: u64,
    /// Records with replies.
    pub(crate) records_received: u64,
}

/// The clients.
pub(crate) struct Load {
    shape: Shape,
    poll: OwnedFd,
    events: Vec<Event>,
    clients: Vec<Asking>,
    seen: Seen,
    /// What a client with nothing outstanding asks.
    requests: Vec<u8>,
    buffers: Buffers,
    /// Times from a request to its last reply, while they are measured.
    latencies: Option<Vec<Duration>>,
}

/// What the clients had of a stretch of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measure {
    /// Replies.
    pub(crate) per_second: f64,
    /// The time in which half of what was asked in one go was answered.
    pub(crate) p50: Duration,
    /// The time in which 99 of 100 of what was asked in one go was answered.
    pub(crate) p99: Duration,
    /// The same for 999 of 1,000.
    pub(crate) p999: Duration,
}

struct Asking {
    client: Client,
    /// Bytes of replies that are still to come.
    awaited: usize,
    /// When the last of them was asked for.
    asked: Time,
}

impl Load {
    /// Connects the clients and shakes hands, one after the other.
    pub(crate) fn connect(address: SocketAddr, config: &Arc<ClientConfig>, shape: Shape) -> Self {
        Self::connect_by(address, Some(config), shape)
    }

    /// As [`Load::connect`]; without a configuration for TLS the clients speak plain text.
    pub(crate) fn connect_by(address: SocketAddr, config: Option<&Arc<ClientConfig>>, shape: Shape) -> Self {
        let mut load = Self {
            shape,
            poll: epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll"),
            events: Vec::with_capacity(shape.clients),
            clients: Vec::with_capacity(shape.clients),
            seen: Seen::default(),
            requests: vec![b'q'; shape.outstanding * shape.request_bytes],
            buffers: Buffers::default(),
            latencies: None,
        };
        for index in 0..shape.clients as u64 {
            let client = Client::connect(address, config);
            epoll::add(&load.poll, &client, EventData::new_u64(index), EventFlags::IN).expect("a socket can be polled");
            load.clients.push(Asking { client, awaited: 0, asked: Time::default() });
        }
        load
    }

    /// From here on asks this, which is as long as the shape says, instead of something without content.
    pub(crate) fn asks(&mut self, request: &[u8]) {
        assert_eq!(request.len(), self.shape.request_bytes, "the length of a request");
        self.requests = request.repeat(self.shape.outstanding);
    }

    /// What has been seen so far.
    pub(crate) const fn seen(&self) -> Seen {
        self.seen
    }

    /// Replies so far; the last of them may be in parts.
    pub(crate) fn replies(&self) -> f64 {
        self.seen.reply_bytes as f64 / self.shape.reply_bytes as f64
    }

    /// Keeps requests outstanding for this long; afterwards they still are.
    pub(crate) fn run_for(&mut self, duration: Duration) {
        self.send_first();
        let deadline = now() + duration;
        while now() < deadline {
            self.turn(true);
        }
    }

    /// As [`Load::run_for`], and measures; each client asks for its next pipeline when the last one is answered.
    pub(crate) fn measure_for(&mut self, duration: Duration) -> Measure {
        self.latencies = Some(Vec::new());
        let (before, started) = (self.replies(), now());
        self.run_for(duration);
        let took = now().since(started);
        let mut latencies = self.latencies.take().unwrap_or_default();
        latencies.sort_unstable();
        let per_second = (self.replies() - before) / took.as_secs_f64();
        let [p50, p99, p999] = [500, 990, 999].map(|permille| quantile(&latencies, permille));
        Measure { per_second, p50, p99, p999 }
    }

    /// Takes all that is still to come and asks for nothing.
    pub(crate) fn rest(&mut self) {
        while self.clients.iter().any(|client| client.awaited > 0) {
            self.turn(false);
        }
    }

    /// Keeps requests outstanding until `replies` more have come, and then takes what is still to come.
    pub(crate) fn run_until_answered(&mut self, replies: u64) {
        self.send_first();
        let enough = self.seen.reply_bytes + replies * self.shape.reply_bytes as u64;
        while self.seen.reply_bytes < enough {
            self.turn(true);
        }
        self.rest();
    }

    fn send_first(&mut self) {
        for index in 0..self.clients.len() {
            self.top_up(index);
        }
    }

    /// Serves the clients that have something to read. They ask for more unless that is over.
    fn turn(&mut self, asks: bool) {
        let timeout = Timespec::try_from(ANSWER_TIMEOUT).expect("it is short");
        epoll::wait(&self.poll, spare_capacity(&mut self.events), Some(&timeout)).expect("an epoll can be waited for");
        assert!(!self.events.is_empty(), "no reply within {ANSWER_TIMEOUT:?}");
        while let Some(event) = self.events.pop() {
            let index = usize::try_from(event.data.u64()).expect("an index");
            self.receive(index);
            if asks {
                self.top_up(index);
            }
        }
    }

    fn receive(&mut self, index: usize) {
        let Self { clients, buffers, seen, latencies, .. } = self;
        let Asking { client, awaited, asked } = &mut clients[index];
        let waited = *awaited > 0;
        client.receive(buffers, |plaintext| {
            seen.records_received += 1;
            seen.reply_bytes += plaintext.len() as u64;
            *awaited = awaited.checked_sub(plaintext.len()).expect("no more comes than was asked for");
        });
        // A ticket may come to a client that waits for nothing.
        if waited
            && *awaited == 0
            && let Some(latencies) = latencies
        {
            latencies.push(now().since(*asked));
        }
    }

    /// Asks for as many replies as are not outstanding, in one record.
    fn top_up(&mut self, index: usize) {
        let Self { shape, clients, requests, buffers, seen, latencies, .. } = self;
        let Asking { client, awaited, asked } = &mut clients[index];
        let wanted = shape.outstanding - awaited.div_ceil(shape.reply_bytes);
        if wanted == 0 || latencies.is_some() && *awaited > 0 {
            return;
        }
        client.send(&requests[..wanted * shape.request_bytes], buffers);
        *awaited += wanted * shape.reply_bytes;
        *asked = now();
        seen.records_sent += 1;
    }
}

/// The time in which so many thousandths of `sorted` latencies were over.
pub(crate) fn quantile(sorted: &[Duration], permille: usize) -> Duration {
    sorted.get(sorted.len() * permille / 1000).copied().unwrap_or(Duration::MAX)
}
