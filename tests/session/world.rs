//! A session between a client and a backend, each rustls or plain text, without a socket: what the tests drive.

use std::io::{Read, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ringwall::io::Errno;
use ringwall::metrics::Tally;
use ringwall::pool::{Pool, SendBuf};
use ringwall::session::coalescer::Threshold;
use ringwall::session::dial::HandshakeEnd;
use ringwall::session::greeting::Opening;
use ringwall::session::transport::Transport;
use ringwall::session::{Options, Output, Refusal, Session, Side, Turn};
use ringwall::time::Time;
use ringwall::tls::{self, Acceptor, BackendCredentials, Connector, Identity, ServerAuth, Servers};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

/// The options most tests use.
pub(crate) fn options() -> Options {
    Options {
        send_buffer_bytes: 256 * 1024,
        coalesce: Threshold::Bytes(64 * 1024),
        handshake_timeout: Duration::from_secs(10),
        connect_timeout: Duration::from_secs(5),
        half_close_timeout: Duration::from_secs(30),
        idle_timeout: None,
        lifetime_max: None,
        tells_unreachable: true,
    }
}

/// What the two sides of a session speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Speech {
    pub(crate) client_tls: bool,
    pub(crate) backend_tls: bool,
}

impl Speech {
    /// What clients and a server without TLS want.
    pub(crate) const USUAL: Self = Self { client_tls: true, backend_tls: false };

    pub(crate) const ALL: [Self; 4] = [
        Self::USUAL,
        Self { client_tls: true, backend_tls: true },
        Self { client_tls: false, backend_tls: true },
        Self { client_tls: false, backend_tls: false },
    ];
}

/// One certificate: a listener's, with a client configuration that trusts it; and a server's, with a connector that
/// does.
pub(crate) struct Credentials {
    pub(crate) server: tls::Credentials,
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) backend: Arc<ServerConfig>,
    pub(crate) servers: BackendCredentials,
}

impl Credentials {
    /// An Ed25519 certificate: its signatures all have one length, so runs can be compared byte by byte.
    pub(crate) fn new() -> Self {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let certificate =
            rcgen::CertificateParams::new(vec!["ringwall.test".into()]).unwrap().self_signed(&key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (chain_file, key_file) = (folder.path().join("chain.pem"), folder.path().join("key.pem"));
        std::fs::write(&chain_file, certificate.pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut backend = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], der)
            .unwrap();
        // So that what a server sends unasked does not depend on when it is asked.
        backend.send_tls13_tickets = 0;
        Self {
            server: Identity::load(&chain_file, &key_file).unwrap().into(),
            client: Arc::new(client),
            backend: Arc::new(backend),
            servers: BackendCredentials {
                servers: Servers::load(&ServerAuth::Full(chain_file)).unwrap(),
                identity: None,
            },
        }
    }

    fn connector(&self, name: &str) -> Connector {
        Connector::new(&self.servers, &tls::Options::default(), tls::ServerName::parse(name)).unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        let name = ServerName::try_from("ringwall.test").unwrap();
        let mut tls = ClientConnection::new(Arc::clone(&self.client), name).unwrap();
        tls.set_buffer_limit(None);
        Client { tls, plaintext: Vec::new(), closed: false }
    }
}

/// The client's end of the TLS connection.
pub(crate) struct Client {
    pub(crate) tls: ClientConnection,
    /// Everything received so far.
    pub(crate) plaintext: Vec<u8>,
    /// Whether the session's close_notify has come.
    pub(crate) closed: bool,
}

impl Client {
    pub(crate) fn write(&mut self, plaintext: &[u8]) {
        self.tls.writer().write_all(plaintext).unwrap();
    }

    pub(crate) fn take_ciphertext(&mut self) -> Vec<u8> {
        let mut wire = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut wire).unwrap();
        }
        wire
    }

    fn feed(&mut self, mut wire: &[u8]) {
        while !wire.is_empty() {
            self.tls.read_tls(&mut wire).unwrap();
            let state = self.tls.process_new_packets().expect("the session speaks TLS");
            let mut plaintext = vec![0; state.plaintext_bytes_to_read()];
            self.tls.reader().read_exact(&mut plaintext).unwrap();
            self.plaintext.extend_from_slice(&plaintext);
            self.closed |= state.peer_has_closed();
        }
    }
}

/// The server's end of a TLS connection.
pub(crate) struct Server {
    pub(crate) tls: ServerConnection,
    /// Whether the session's close_notify has come.
    pub(crate) closed: bool,
    /// Why it gave up.
    pub(crate) error: Option<rustls::Error>,
}

impl Server {
    fn new(config: &Arc<ServerConfig>) -> Self {
        let mut tls = ServerConnection::new(Arc::clone(config)).unwrap();
        tls.set_buffer_limit(None);
        Self { tls, closed: false, error: None }
    }

    pub(crate) fn write(&mut self, plaintext: &[u8]) {
        self.tls.writer().write_all(plaintext).unwrap();
    }

    pub(crate) fn take_ciphertext(&mut self) -> Vec<u8> {
        let mut wire = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut wire).unwrap();
        }
        wire
    }

    /// The plaintext in `wire`.
    fn feed(&mut self, mut wire: &[u8]) -> Vec<u8> {
        let mut plaintext = Vec::new();
        while !wire.is_empty() && self.error.is_none() {
            self.tls.read_tls(&mut wire).unwrap();
            match self.tls.process_new_packets() {
                Ok(state) => {
                    let start = plaintext.len();
                    plaintext.resize(start + state.plaintext_bytes_to_read(), 0);
                    self.tls.reader().read_exact(&mut plaintext[start..]).unwrap();
                    self.closed |= state.peer_has_closed();
                }
                Err(error) => self.error = Some(error),
            }
        }
        plaintext
    }
}

/// A session and everything around it.
pub(crate) struct World {
    pub(crate) session: Session,
    pub(crate) speech: Speech,
    pub(crate) client: Client,
    /// Where the backend speaks TLS and is connected.
    pub(crate) server: Option<Server>,
    pub(crate) connector: Connector,
    /// What the next server is told first.
    pub(crate) opening: Opening,
    /// What a server with TLS takes off the front of what it hears, as a proxy in front of it does.
    pub(crate) strips_header: &'static [u8],
    backend: Arc<ServerConfig>,
    pub(crate) pool: Pool,
    pub(crate) tally: Tally,
    pub(crate) now: Time,
    /// Bytes the session has sent to the client.
    pub(crate) raw_to_client: Vec<u8>,
    /// Plaintext that has arrived at the backend.
    pub(crate) to_backend: Vec<u8>,
    /// The lengths of the sends to each side.
    pub(crate) sends_to_client: Vec<usize>,
    pub(crate) sends_to_backend: Vec<usize>,
    /// A side that does not read: its sends stay in flight.
    pub(crate) blocked: [bool; 2],
    in_flight: [Option<SendBuf>; 2],
    /// What the session has asked for so far.
    pub(crate) dials: u32,
    pub(crate) abandoned: u32,
    pub(crate) hang_ups: Vec<HandshakeEnd>,
    pub(crate) fin_to_client: bool,
    pub(crate) fin_to_backend: bool,
    pub(crate) closed: bool,
    /// The client's TLS is not fed any more: it speaks in plain text or not at all.
    pub(crate) client_is_raw: bool,
}

const fn index(side: Side) -> usize {
    match side {
        Side::Client => 0,
        Side::Backend => 1,
    }
}

impl World {
    pub(crate) fn new(credentials: &Credentials, options: Options) -> Self {
        Self::with_refusal(credentials, options, None)
    }

    pub(crate) fn with_refusal(credentials: &Credentials, options: Options, refusal: Option<Refusal>) -> Self {
        Self::speaking(Speech::USUAL, credentials, options, refusal)
    }

    pub(crate) fn speaking(
        speech: Speech,
        credentials: &Credentials,
        options: Options,
        refusal: Option<Refusal>,
    ) -> Self {
        Self::made(speech, credentials, options, refusal, Session::new)
    }

    /// A session whose client is introduced by a PROXY header.
    pub(crate) fn behind_proxy(speech: Speech, credentials: &Credentials, options: Options) -> Self {
        Self::made(speech, credentials, options, None, Session::behind_proxy)
    }

    fn made(
        speech: Speech,
        credentials: &Credentials,
        options: Options,
        refusal: Option<Refusal>,
        session: fn(Transport, Rc<Options>, Option<Refusal>, &mut Turn<'_>) -> Session,
    ) -> Self {
        let acceptor = Acceptor::new(&credentials.server, &tls::Options::default()).unwrap();
        let client = if speech.client_tls { Transport::Tls(Box::new(acceptor.engine())) } else { Transport::Plain };
        let (now, mut pool, tally) = (Time::from_nanos(1_000_000_000), Pool::new(), Tally::default());
        let mut turn = Turn { now, pool: &mut pool, tally: &tally };
        let mut world = Self {
            session: session(client, Rc::new(options), refusal, &mut turn),
            speech,
            client: credentials.client(),
            server: None,
            connector: credentials.connector("ringwall.test"),
            opening: Opening::default(),
            strips_header: b"",
            backend: Arc::clone(&credentials.backend),
            pool,
            tally,
            now,
            raw_to_client: Vec::new(),
            to_backend: Vec::new(),
            sends_to_client: Vec::new(),
            sends_to_backend: Vec::new(),
            blocked: [false; 2],
            in_flight: [None, None],
            dials: 0,
            abandoned: 0,
            hang_ups: Vec::new(),
            fin_to_client: false,
            fin_to_backend: false,
            closed: false,
            client_is_raw: false,
        };
        world.settle();
        world
    }

    /// A session that is connected on both sides.
    pub(crate) fn connected(credentials: &Credentials, options: Options) -> Self {
        Self::connected_and_speaking(Speech::USUAL, credentials, options)
    }

    /// As [`World::connected`], with any speech.
    pub(crate) fn connected_and_speaking(speech: Speech, credentials: &Credentials, options: Options) -> Self {
        let mut world = Self::speaking(speech, credentials, options, None);
        if speech.client_tls {
            world.shake_hands();
        }
        assert_eq!(world.dials, 1);
        world.connect();
        world
    }

    /// The backend is connected and, where it speaks TLS, its handshake goes as far as it can.
    pub(crate) fn connect(&mut self) {
        self.begin_connect();
        self.deliver_server();
    }

    /// The backend is connected and has said nothing yet.
    pub(crate) fn begin_connect(&mut self) {
        let opening = std::mem::take(&mut self.opening);
        let transport = if self.speech.backend_tls {
            self.server = Some(Server::new(&self.backend));
            Transport::Tls(Box::new(self.connector.engine()))
        } else {
            Transport::Plain
        };
        self.turn(|session, turn| session.handle_connected(transport, opening, turn));
    }

    /// A connector that expects another name of the server.
    pub(crate) fn expect_name(&mut self, credentials: &Credentials, name: &str) {
        self.connector = credentials.connector(name);
    }

    /// What a shard does when nothing of a connection that was hung up is in flight any more.
    pub(crate) fn hung_up(&mut self) {
        self.complete_send(Side::Backend, Some(Err(Errno(125))));
        self.server = None;
        self.turn(|session, turn| session.handle_hung_up("TLS: why", turn));
    }

    /// Calls into the session and then does what it asks for, as a shard does at the end of a batch.
    pub(crate) fn turn(&mut self, call: impl FnOnce(&mut Session, &mut Turn<'_>)) {
        let mut turn = Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        call(&mut self.session, &mut turn);
        self.settle();
    }

    pub(crate) fn settle(&mut self) {
        loop {
            let mut turn = Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
            match self.session.poll(&mut turn) {
                None => return,
                Some(Output::Dial) => self.dials += 1,
                Some(Output::AbandonDial) => self.abandoned += 1,
                Some(Output::HangUp(end)) => self.hang_ups.push(end),
                Some(Output::Send(side, buffer)) => self.send(side, buffer),
                Some(Output::ShutdownWrite(Side::Client)) => self.fin_to_client = true,
                Some(Output::ShutdownWrite(Side::Backend)) => self.fin_to_backend = true,
                Some(Output::Close) => {
                    assert!(!self.closed, "closed twice");
                    self.closed = true;
                }
            }
        }
    }

    fn send(&mut self, side: Side, buffer: SendBuf) {
        let in_flight = &mut self.in_flight[index(side)];
        assert!(in_flight.is_none(), "two sends in flight to {side:?}");
        assert!(!self.closed, "a send after the close");
        assert!(!buffer.is_empty(), "a send of nothing");
        match side {
            Side::Client => {
                assert!(!self.fin_to_client, "a send behind FIN");
                self.sends_to_client.push(buffer.len());
            }
            Side::Backend => {
                assert!(!self.fin_to_backend, "a send behind FIN");
                self.sends_to_backend.push(buffer.len());
            }
        }
        *in_flight = Some(buffer);
        if !self.blocked[index(side)] {
            self.complete_send(side, None);
        }
    }

    /// Completes the send in flight: all of it, or `Some(Err)`, or only so many bytes.
    pub(crate) fn complete_send(&mut self, side: Side, outcome: Option<Result<usize, Errno>>) {
        let Some(buffer) = self.in_flight[index(side)].take() else { return };
        let result = outcome.unwrap_or(Ok(buffer.len()));
        let sent = buffer.data()[..result.unwrap_or(0)].to_vec();
        match side {
            Side::Client => {
                self.raw_to_client.extend_from_slice(&sent);
                if !self.speech.client_tls {
                    self.client.plaintext.extend_from_slice(&sent);
                } else if !self.client_is_raw {
                    self.client.feed(&sent);
                }
            }
            Side::Backend => {
                let header = self.strips_header.iter().zip(&sent).take_while(|(a, b)| a == b).count();
                self.strips_header = &self.strips_header[header..];
                match &mut self.server {
                    Some(server) => self.to_backend.extend(server.feed(&sent[header..])),
                    None => self.to_backend.extend_from_slice(&sent[header..]),
                }
            }
        }
        let mut turn = Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        self.session.handle_sent(side, buffer, result, &mut turn);
    }

    /// A side reads again.
    pub(crate) fn unblock(&mut self, side: Side) {
        self.blocked[index(side)] = false;
        self.complete_send(side, None);
        self.settle();
    }

    pub(crate) fn receive(&mut self, side: Side, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        self.turn(|session, turn| session.handle_received(side, &mut bytes, turn));
    }

    pub(crate) fn end(&mut self, side: Side, error: Option<Errno>) {
        self.turn(|session, turn| session.handle_end(side, error, turn));
    }

    /// Lets what the client's TLS has to say reach the session.
    pub(crate) fn deliver_client(&mut self) {
        let wire = self.client.take_ciphertext();
        if !wire.is_empty() {
            self.receive(Side::Client, &wire);
        }
        while self.session.wants_turn() {
            self.turn(Session::resume);
        }
    }

    pub(crate) fn client_says(&mut self, plaintext: &[u8]) {
        if !self.speech.client_tls {
            return self.receive(Side::Client, plaintext);
        }
        self.client.write(plaintext);
        self.deliver_client();
    }

    /// Lets what the server's TLS has to say reach the session, until it is silent.
    pub(crate) fn deliver_server(&mut self) {
        while let Some(server) = &mut self.server {
            let wire = server.take_ciphertext();
            if wire.is_empty() {
                break;
            }
            self.receive(Side::Backend, &wire);
        }
        while self.session.wants_turn() {
            self.turn(Session::resume);
        }
    }

    pub(crate) fn backend_says(&mut self, plaintext: &[u8]) {
        let Some(server) = &mut self.server else { return self.receive(Side::Backend, plaintext) };
        server.write(plaintext);
        self.deliver_server();
    }

    /// The client ends its direction in good order.
    pub(crate) fn client_ends(&mut self) {
        if self.speech.client_tls {
            self.client.tls.send_close_notify();
            self.deliver_client();
        }
        self.end(Side::Client, None);
    }

    /// The backend ends its direction in good order.
    pub(crate) fn backend_ends(&mut self) {
        if let Some(server) = &mut self.server {
            server.tls.send_close_notify();
            self.deliver_server();
        }
        self.end(Side::Backend, None);
    }

    pub(crate) fn shake_hands(&mut self) {
        for _ in 0..8 {
            self.deliver_client();
        }
        assert!(!self.client.tls.is_handshaking() && !self.session.is_handshaking(Side::Client));
    }

    pub(crate) fn wait(&mut self, duration: Duration) {
        self.now = self.now + duration;
        self.turn(Session::handle_timeout);
    }

    /// What a shard does with a session that is over; afterwards no buffer may be out.
    pub(crate) fn bury(mut self) {
        for side in Side::BOTH {
            self.complete_send(side, Some(Err(Errno(125))));
        }
        self.session.release(&mut self.pool);
        assert_eq!(self.pool.lent_bytes(), 0, "a buffer is lost");
    }
}

impl World {
    /// Completes the send in flight with at most `sent` bytes, as a send that was cut short.
    pub(crate) fn complete_send_partially(&mut self, side: Side, sent: usize) {
        let len = self.in_flight[index(side)].as_ref().map_or(0, SendBuf::len);
        if len > 0 {
            self.complete_send(side, Some(Ok(sent.min(len))));
            self.settle();
        }
    }
}
