//! What the data plane tells the control plane: one line of the log each.
//!
//! A shard or the dispatcher hands events over a bounded lock-free ring and never waits: the control plane formats
//! and writes them, and a slow reader of the log costs events, which are counted, and nothing else.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::io::{Errno, Fd};
use crate::ledger::Ledger;
use crate::mailbox::Doorbell;
use crate::roster::Member;
use crate::tls::Summary;

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// A session has ended.
    Closed(Box<CloseRecord>),
    /// A session's server is connected; sent only where [`tells_reached`](crate::shard::Options::tells_reached) asks for it.
    Reached {
        /// The client's address.
        client: Option<SocketAddr>,
        /// The listener.
        listener: Arc<Ledger>,
        /// The shard's number.
        shard: u16,
        /// The server.
        server: Option<Arc<Member>>,
        /// Our port towards the server: what the server's CLIENT LIST shows.
        server_local_port: Option<u16>,
    },
    /// A session has been blocked in both directions by peers that do not read.
    Stalled {
        /// The client's address.
        client: Option<SocketAddr>,
        /// The listener.
        listener: Arc<Ledger>,
        /// For how long.
        pending: Duration,
    },
    /// A request over a connection that sessions share, or over one in its stead, took longer than the listener wants.
    Slow(Box<SlowRecord>),
    /// There were so many of these that some are not told of one by one.
    SlowLeftOut {
        /// How many.
        requests: u64,
    },
    /// Accepting is paused: the system gives no more file descriptors or memory.
    AcceptPaused {
        /// The listener.
        listener: Arc<Ledger>,
        /// What `accept(2)` said.
        errno: Errno,
    },
    /// Accepting goes on.
    AcceptResumed {
        /// The listener.
        listener: Arc<Ledger>,
    },
    /// Clients were not let in.
    Denied {
        /// The listener.
        listener: Arc<Ledger>,
        /// Why.
        why: Denial,
        /// How many are told so, since the last such event of this kind.
        refused: u64,
        /// How many were closed without a word since then.
        closed: u64,
        /// The last of them, where the listener looks at addresses.
        client: Option<SocketAddr>,
    },
    /// The dispatcher has stopped accepting, and every connection it had accepted is with a shard.
    Draining,
}

/// Why a client is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// It comes from a network that may not connect.
    Network,
    /// It comes faster than handshakes may be asked for.
    HandshakeRate,
    /// It comes faster than clients may connect.
    ConnectionRate,
    /// Its source has as many connections as it may have.
    SourceConnections,
    /// There are as many connections as there may be.
    Connections,
}

impl Denial {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 5] =
        [Self::Network, Self::HandshakeRate, Self::ConnectionRate, Self::SourceConnections, Self::Connections];
}

/// A session's story, told at its end.
#[derive(Clone, Debug)]
pub struct CloseRecord {
    /// The client's address; where a proxy has introduced it, the one that the proxy names.
    pub client: Option<SocketAddr>,
    /// The address of that proxy.
    pub proxy: Option<SocketAddr>,
    /// The listener.
    pub listener: Arc<Ledger>,
    /// The name of its backend.
    pub backend: Arc<str>,
    /// Whether it shared connections to its server.
    pub is_multiplexed: bool,
    /// The shard's number.
    pub shard: u16,
    /// The server that was dialled last, once one was.
    pub server: Option<Arc<Member>>,
    /// Our port towards the server: what the server's CLIENT LIST shows.
    pub server_local_port: Option<u16>,
    /// What the handshake with the client agreed on, if it was completed.
    pub tls: Option<Summary>,
    /// What the handshake with the server agreed on, if it was completed.
    pub server_tls: Option<Summary>,
    /// Who the client is, as its verified certificate says; also when it was refused for that.
    pub client_identity: Option<Box<str>>,
    /// Who it was to become on the server, by its certificate.
    pub user: Option<Box<str>>,
    /// How long the handshake with the client took, if it was completed.
    pub handshake: Option<Duration>,
    /// From accept to close.
    pub duration: Duration,
    /// Bytes from the client, as on the wire.
    pub client_received_bytes: u64,
    /// Bytes to the client, as on the wire.
    pub client_sent_bytes: u64,
    /// Bytes from the server, as on the wire.
    pub server_received_bytes: u64,
    /// Bytes to the server, as on the wire.
    pub server_sent_bytes: u64,
    /// Why it ended: a [`CloseReason`](crate::session::close::CloseReason)'s label.
    pub reason: &'static str,
    /// What exactly went wrong.
    pub detail: Option<Box<str>>,
}

/// A slow request. Nothing that its client has said is in it but which command it was.
#[derive(Clone, Debug)]
pub struct SlowRecord {
    /// The client's address, unless it has left.
    pub client: Option<SocketAddr>,
    /// Its session's slot and generation, unless it has left.
    pub session: Option<(u32, u32)>,
    /// The listener.
    pub listener: Arc<Ledger>,
    /// The shard's number.
    pub shard: u16,
    /// The command, a subcommand's behind a bar.
    pub command: &'static str,
    /// From its way to the server to its complete reply.
    pub took: Duration,
    /// Whether it went over a shared connection.
    pub is_shared: bool,
    /// Replies that were awaited over that connection when it was said.
    pub in_front: u16,
}

/// The sending end of one data-plane thread's events.
#[derive(Debug)]
pub struct EventSender {
    ring: rtrb::Producer<Event>,
    dropped: Arc<AtomicU64>,
    doorbell: Doorbell,
    wake: Fd,
    sent: bool,
}

/// The receiving end of one data-plane thread's events.
#[derive(Debug)]
pub struct EventReceiver {
    ring: rtrb::Consumer<Event>,
    dropped: Arc<AtomicU64>,
}

/// A ring of `capacity` events whose reader sleeps on `doorbell` and is woken through the eventfd `wake`.
#[must_use]
pub fn events(capacity: usize, doorbell: Doorbell, wake: Fd) -> (EventSender, EventReceiver) {
    let (producer, consumer) = rtrb::RingBuffer::new(capacity);
    let dropped = Arc::new(AtomicU64::new(0));
    let sender = EventSender { ring: producer, dropped: Arc::clone(&dropped), doorbell, wake, sent: false };
    (sender, EventReceiver { ring: consumer, dropped })
}

impl EventSender {
    /// Hands an event over, or counts it as dropped.
    pub fn send(&mut self, event: Event) {
        if self.ring.push(event).is_ok() {
            self.sent = true;
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The eventfd to write to when the reader must be woken for what was sent since the last call.
    #[must_use = "the reader stays asleep unless the caller wakes it"]
    pub fn wake_due(&mut self) -> Option<Fd> {
        (std::mem::take(&mut self.sent) && self.doorbell.needs_ring()).then_some(self.wake)
    }
}

impl EventReceiver {
    /// The oldest event not yet taken.
    pub fn receive(&mut self) -> Option<Event> {
        self.ring.pop().ok()
    }

    /// Whether nothing is there to take.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Events dropped since the start because the ring was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_ring_drops_and_counts_and_the_sender_goes_on() {
        let (mut sender, mut receiver) = events(2, Doorbell::new(), Fd(0));
        for _ in 0..5 {
            sender.send(Event::Draining);
        }
        assert_eq!(receiver.dropped(), 3);
        assert!(receiver.receive().is_some());
        assert!(receiver.receive().is_some());
        assert!(receiver.receive().is_none());
        sender.send(Event::Draining);
        assert!(!receiver.is_empty());
    }

    #[test]
    fn a_sleeping_reader_is_woken_once_per_sleep() {
        let doorbell = Doorbell::new();
        let (mut sender, _receiver) = events(8, doorbell.clone(), Fd(7));
        sender.send(Event::Draining);
        assert_eq!(sender.wake_due(), None);
        doorbell.going_to_sleep();
        assert_eq!(sender.wake_due(), None);
        sender.send(Event::Draining);
        assert_eq!(sender.wake_due(), Some(Fd(7)));
        sender.send(Event::Draining);
        assert_eq!(sender.wake_due(), None);
    }
}
