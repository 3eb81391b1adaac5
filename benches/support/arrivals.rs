//! Clients that come, begin a handshake and go: at a rate that does not wait for the proxy, or as fast as it takes them.
#![allow(dead_code, reason = "each bench uses a part of it")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use ringwall::io::sys::now;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::sockopt::set_socket_linger;
use rustls::ClientConfig;
use slab::Slab;

use crate::tls_client::TlsClient;

/// More than a server's first flight.
const READ_BYTES: usize = 16 * 1024;

/// Clients that may be waiting at once; those that come on top stay away.
const WAITING_MAX: usize = 2_000;

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Sends the hello of another client and leaves when the server has answered.
    Recorded,
    /// Completes its handshake and leaves.
    Honest,
    /// Completes its handshake, asks PING and leaves with the answer.
    Asking,
}

/// How many come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// So many each second, whatever becomes of them.
    PerSecond(f64),
    /// As many as keep so many waiting.
    Waiting(usize),
}

/// What became of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fates {
    /// Came.
    pub(crate) came: u64,
    /// Got what they came for: the server's first flight, or a complete handshake.
    pub(crate) served: u64,
    /// Were closed before that.
    pub(crate) closed: u64,
}

struct Arrival {
    stream: TcpStream,
    /// Of an honest one.
    tls: Option<TlsClient>,
    /// It has still to ask.
    asks: bool,
    /// Bytes of plaintext received.
    answered: usize,
    /// Bytes of plaintext that it waits for.
    awaited: usize,
    input: Vec<u8>,
}

/// A crowd on its way to `address`.
pub(crate) struct Crowd {
    address: SocketAddr,
    config: Arc<ClientConfig>,
    manner: Manner,
    recorded: Vec<u8>,
    poll: OwnedFd,
    waiting: Slab<Arrival>,
    fates: Fates,
}

impl Crowd {
    pub(crate) fn new(address: SocketAddr, config: &Arc<ClientConfig>, manner: Manner) -> Self {
        let mut recorded = Vec::new();
        TlsClient::new(config).open(&mut [], &mut recorded, |_| {});
        Self {
            address,
            config: Arc::clone(config),
            manner,
            recorded,
            poll: epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll"),
            waiting: Slab::new(),
            fates: Fates::default(),
        }
    }

    /// Keeps coming for `duration`, then drops who still waits.
    pub(crate) fn run_for(mut self, duration: Duration, pace: Pace) -> Fates {
        let start = now();
        let mut events = Vec::with_capacity(256);
        loop {
            let elapsed = now().since(start);
            if elapsed >= duration {
                return self.fates;
            }
            while self.is_due(pace, elapsed) {
                self.fates.came += 1;
                if self.waiting.len() < WAITING_MAX {
                    self.arrive();
                }
            }
            let timeout = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            epoll::wait(&self.poll, spare_capacity(&mut events), Some(&timeout)).expect("an epoll can be waited for");
            for event in events.drain(..) {
                self.hear(usize::try_from(event.data.u64()).expect("an index"));
            }
        }
    }

    fn is_due(&self, pace: Pace, elapsed: Duration) -> bool {
        match pace {
            Pace::PerSecond(rate) => (self.fates.came as f64) < elapsed.as_secs_f64() * rate,
            Pace::Waiting(clients) => self.waiting.len() < clients,
        }
    }

    fn arrive(&mut self) {
        let mut stream = TcpStream::connect(self.address).expect("the proxy listens");
        // Leaving with a reset leaves no port behind that waits for a minute.
        set_socket_linger(&stream, Some(Duration::ZERO)).expect("a TCP socket");
        stream.set_nodelay(true).expect("a TCP socket");
        stream.set_nonblocking(true).expect("a socket");
        let tls = match self.manner {
            Manner::Recorded => {
                stream.write_all(&self.recorded).expect("a hello fits the socket's buffer");
                None
            }
            Manner::Honest | Manner::Asking => {
                let (mut tls, mut hello) = (TlsClient::new(&self.config), Vec::new());
                tls.open(&mut [], &mut hello, |_| {});
                stream.write_all(&hello).expect("a hello fits the socket's buffer");
                Some(tls)
            }
        };
        let entry = self.waiting.vacant_entry();
        epoll::add(&self.poll, &stream, EventData::new_u64(entry.key() as u64), EventFlags::IN).expect("a socket");
        let asks = self.manner == Manner::Asking;
        entry.insert(Arrival { stream, tls, asks, answered: 0, awaited: 0, input: Vec::new() });
    }

    fn hear(&mut self, index: usize) {
        let arrival = &mut self.waiting[index];
        let start = arrival.input.len();
        arrival.input.resize(start + READ_BYTES, 0);
        let received = match arrival.stream.read(&mut arrival.input[start..]) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                arrival.input.truncate(start);
                return;
            }
            Err(_) => 0,
        };
        arrival.input.truncate(start + received);
        if received == 0 {
            self.fates.closed += 1;
        } else if arrival.is_served() {
            self.fates.served += 1;
        } else {
            return;
        }
        self.waiting.remove(index);
    }
}

impl Arrival {
    fn is_served(&mut self) -> bool {
        let Some(tls) = &mut self.tls else { return true };
        let mut output = Vec::new();
        let answered = &mut self.answered;
        let done = tls.open(&mut self.input, &mut output, |plaintext| *answered += plaintext.len());
        self.input.drain(..done);
        let shaken = !tls.is_handshaking();
        let asked = shaken && std::mem::take(&mut self.asks);
        if asked {
            tls.seal(b"PING\r\n", &mut output);
            self.awaited = b"+PONG\r\n".len();
        }
        // A proxy that has closed meanwhile is noticed by whoever reads next.
        let _ = self.stream.write_all(&output);
        shaken && self.answered >= self.awaited
    }
}
