//! What a test of the contract needs of a machine, and the waiting that all tests share.

use std::collections::VecDeque;
use std::time::Duration;

use ringwall::io::{Address, Completion, Driver, Errno, Fd, Lease, Op, OpId, Outcome, Token, Wait};
use ringwall::pool::SendBuf;

/// Small buffers of each machine's driver.
pub(crate) const SMALL_BUFFERS: usize = 4;
pub(crate) const SMALL_BUFFER_BYTES: usize = 1024;
/// Large ones.
pub(crate) const LARGE_BUFFERS: usize = 2;
pub(crate) const LARGE_BUFFER_BYTES: usize = 16 * 1024;

/// What is awaited comes within milliseconds; this ends a test that waits for what does not come.
const PATIENCE: Duration = Duration::from_secs(20);

/// A machine with a driver on it.
pub(crate) trait Machine {
    type Driver: Driver;
    type Peer: Peer;

    fn driver(&mut self) -> &mut Self::Driver;
    /// Another driver.
    fn second(&mut self) -> &mut Self::Driver;
    /// A connected socket and its far end.
    fn pair_over(&mut self, unix: bool) -> (Fd, Self::Peer);
    /// The same over TCP.
    fn pair(&mut self) -> (Fd, Self::Peer) {
        self.pair_over(false)
    }
    /// A listening socket and where.
    fn listen(&mut self) -> (Fd, Address);
    /// A client that connects there.
    fn client(&mut self, address: &Address) -> Self::Peer;
    /// A server to connect to, over TCP or a unix socket.
    fn serve(&mut self, unix: bool) -> Address;
    /// A connection it got.
    fn accepted(&mut self) -> Option<Self::Peer>;
    /// An address where nobody listens.
    fn refusing(&mut self) -> Address;
    /// An address that never answers.
    fn silent(&mut self) -> Address;
    fn eventfd(&mut self) -> Fd;
    fn take_events(&mut self, event: Fd) -> u64;
    /// More bytes than fit between two ends of a connection.
    fn too_much(&self) -> usize;
}

/// The far end of a connection. Nothing it does waits.
pub(crate) trait Peer {
    fn write(&mut self, bytes: &[u8]) -> usize;
    fn read(&mut self) -> Got;
    fn shutdown_write(&mut self);
    /// Closes; with unread data that is a reset.
    fn close(self);
    /// Its own address.
    fn address(&self) -> Option<std::net::SocketAddr>;
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Got {
    Bytes(Vec<u8>),
    Nothing,
    End,
    Reset,
}

/// A machine, and what its driver has completed and the test has not asked for yet.
pub(crate) struct Rig<M> {
    pub(crate) machine: M,
    seen: VecDeque<Completion>,
}

impl<M: Machine> Rig<M> {
    pub(crate) const fn new(machine: M) -> Self {
        Self { machine, seen: VecDeque::new() }
    }

    pub(crate) fn driver(&mut self) -> &mut M::Driver {
        self.machine.driver()
    }

    pub(crate) fn push(&mut self, token: u64, op: Op) -> OpId {
        self.driver().push(Token(token), op)
    }

    pub(crate) fn send(&mut self, token: u64, socket: Fd, bytes: &[u8]) -> OpId {
        self.push(token, Op::Send { socket, buffer: filled(bytes) })
    }

    /// Lets the driver work for about a millisecond.
    pub(crate) fn turn(&mut self) {
        let driver = self.machine.driver();
        let until = driver.now() + Duration::from_millis(1);
        driver.enter(Wait::Until(until)).unwrap();
        self.seen.extend(std::iter::from_fn(|| driver.next_completion()));
    }

    /// Lets the driver work until `done` has something.
    pub(crate) fn until<T>(&mut self, mut done: impl FnMut(&mut Self) -> Option<T>) -> T {
        let deadline = self.driver().now() + PATIENCE;
        loop {
            if let Some(result) = done(self) {
                return result;
            }
            assert!(self.driver().now() < deadline, "nothing happened; completions not asked for: {:?}", self.seen);
            self.turn();
        }
    }

    /// The next completion.
    pub(crate) fn next(&mut self) -> Completion {
        self.until(|rig| rig.seen.pop_front())
    }

    /// The next completion, which has this token and is its last.
    pub(crate) fn last(&mut self, token: u64) -> Outcome {
        let completion = self.next();
        assert_eq!((completion.token, completion.more), (Token(token), false), "{completion:?}");
        completion.outcome
    }

    /// The next completion, a receive's.
    pub(crate) fn received(&mut self, token: u64) -> Received {
        let Completion { token: got, outcome, more } = self.next();
        assert_eq!(got, Token(token), "{outcome:?}");
        let Outcome::Received { result, data_waits } = outcome else { panic!("{outcome:?}") };
        Received { result, data_waits, more }
    }

    /// Receives `len` bytes with one multishot receive that is armed, and not a byte more.
    pub(crate) fn receive_exactly(&mut self, token: u64, len: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let received = self.received(token);
            assert!(received.more, "{received:?}");
            bytes.extend(self.take(received.lease()));
        }
        assert_eq!(bytes.len(), len);
        bytes
    }

    /// Receives until the end, and starts again when buffers run out.
    pub(crate) fn receive_all(&mut self, socket: Fd) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.push(77, Op::ReceiveMany { socket });
        loop {
            let received = self.received(77);
            let more = received.more;
            match received.result {
                Ok(Some(lease)) => bytes.extend(self.take(lease)),
                Ok(None) => return bytes,
                Err(errno) => assert_eq!(errno, Errno(libc::ENOBUFS)),
            }
            if !more {
                self.push(77, Op::ReceiveMany { socket });
            }
        }
    }

    /// The bytes of a buffer, which goes back.
    pub(crate) fn take(&mut self, lease: Lease) -> Vec<u8> {
        let bytes = self.driver().bytes_mut(&lease).to_vec();
        assert_eq!(bytes.len(), lease.len as usize);
        self.driver().recycle(lease);
        bytes
    }

    /// Nothing completes for a while.
    pub(crate) fn assert_quiet(&mut self) {
        for _ in 0..20 {
            self.turn();
        }
        assert!(self.seen.is_empty(), "{:?}", self.seen);
    }

    /// Cancels a receive and takes its last completion, which must be the only one.
    pub(crate) fn disarm(&mut self, token: u64, op: OpId) {
        self.push(0, Op::Cancel { op });
        let received = self.received(token);
        assert_eq!((received.result, received.more), (Err(Errno(libc::ECANCELED)), false));
    }

    pub(crate) fn write(&mut self, peer: &mut M::Peer, bytes: &[u8]) {
        let mut rest = bytes;
        self.until(|_| {
            rest = &rest[peer.write(rest)..];
            rest.is_empty().then_some(())
        });
    }

    /// Reads exactly `len` bytes.
    pub(crate) fn read(&mut self, peer: &mut M::Peer, len: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.until(|_| {
            match peer.read() {
                Got::Bytes(more) => bytes.extend(more),
                Got::Nothing => {}
                other @ (Got::End | Got::Reset) => panic!("{other:?} after {} of {len} bytes", bytes.len()),
            }
            (bytes.len() >= len).then_some(())
        });
        assert_eq!(bytes.len(), len);
        bytes
    }

    /// What a peer's read finds once it finds something.
    pub(crate) fn got(&mut self, peer: &mut M::Peer) -> Got {
        self.until(|_| Some(peer.read()).filter(|got| *got != Got::Nothing))
    }

    pub(crate) fn close(&mut self, socket: Fd) {
        self.driver().close(socket);
    }
}

#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) result: Result<Option<Lease>, Errno>,
    pub(crate) data_waits: bool,
    pub(crate) more: bool,
}

impl Received {
    pub(crate) fn lease(self) -> Lease {
        match self.result {
            Ok(Some(lease)) => lease,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn filled(bytes: &[u8]) -> SendBuf {
    let mut buffer = SendBuf::with_capacity(bytes.len());
    buffer.append(bytes);
    buffer
}

/// Bytes in which each position is told from its neighbours.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    let all: Vec<u8> = (0..=250).collect();
    let mut bytes = all.repeat(len.div_ceil(all.len()));
    bytes.truncate(len);
    bytes
}
