//! A client and what serves it, in memory, once they have shaken hands.

use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;

use ringwall::metrics::Tally;
use ringwall::pool::Pool;
use ringwall::session::coalescer::Threshold;
use ringwall::session::greeting::Opening;
use ringwall::session::transport::Transport;
use ringwall::session::{Options, Output, Session, Side, Turn};
use ringwall::time::Time;
use ringwall::tls::{self, Acceptor, Engine, Identity};

use crate::credentials::Credentials;
use crate::tls_client::TlsClient;

/// So many records of the client with the same plaintext.
pub(crate) fn sealed(client: &mut TlsClient, plaintext: &[u8], times: u64) -> Vec<Vec<u8>> {
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
pub(crate) fn connected() -> (TlsClient, Engine, Pool) {
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
pub(crate) struct Connected {
    pub(crate) session: Session,
    pub(crate) pool: Pool,
    tally: Tally,
    now: Time,
    /// What has been sent to the client during the handshake.
    to_client: Vec<u8>,
}

impl Connected {
    /// The session and its client.
    pub(crate) fn new() -> (TlsClient, Self) {
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
    pub(crate) fn receive(&mut self, side: Side, bytes: &mut [u8]) {
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
        black_box((self.session.wants_turn(), self.session.deadline()));
    }
}
