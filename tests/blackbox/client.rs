//! A blocking client with every freedom a peer has: how it writes, when it reads, and how it ends.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, SocketType};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};

use crate::certificates::Certificates;
use crate::process::PATIENCE;
use crate::resp::{payload, reply_length, request};

/// How the peer ended its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With a close_notify, or FIN where there is no TLS.
    Orderly,
    /// With FIN and no close_notify.
    Cut,
    /// With a reset.
    Reset,
    /// With a fatal alert, or something else that TLS calls an error.
    TlsError,
}

enum Wire {
    Plain(UnixStream),
    Tls { socket: TcpStream, session: Box<ClientConnection>, write_bytes_max: usize },
}

/// A connection, and what has been received on it.
pub(crate) struct Client {
    wire: Wire,
    received: Vec<u8>,
    taken: usize,
    end: Option<End>,
}

/// How to connect with TLS.
#[derive(Clone)]
pub(crate) struct Dial {
    address: SocketAddr,
    config: Arc<ClientConfig>,
    source: Option<Ipv4Addr>,
    nagle: bool,
    write_bytes_max: usize,
}

impl Dial {
    pub(crate) fn new(address: SocketAddr, roots: Arc<RootCertStore>) -> Self {
        Self::with_versions(address, roots, rustls::ALL_VERSIONS)
    }

    pub(crate) fn with_versions(
        address: SocketAddr,
        roots: Arc<RootCertStore>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self { address, config: Arc::new(config), source: None, nagle: false, write_bytes_max: usize::MAX }
    }

    /// Where it connects.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Comes from this address.
    pub(crate) fn from(mut self, source: Ipv4Addr) -> Self {
        self.source = Some(source);
        self
    }

    /// Shows the certificate `name` of a test's folder.
    pub(crate) fn with_certificate(mut self, certificates: &Certificates, name: &str) -> Self {
        let path = |ending: &str| certificates.folder().join(format!("{name}.{ending}"));
        let chain = vec![CertificateDer::from_pem_file(path("crt")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(path("key")).unwrap();
        let config = ClientConfig::builder().with_root_certificates(certificates.roots());
        self.config = Arc::new(config.with_client_auth_cert(chain, key).unwrap());
        self
    }

    /// Leaves Nagle's algorithm on.
    pub(crate) fn with_nagle(mut self) -> Self {
        self.nagle = true;
        self
    }

    /// Writes at most so many bytes of ciphertext at once.
    pub(crate) fn in_pieces_of(mut self, bytes: usize) -> Self {
        self.write_bytes_max = bytes;
        self
    }

    /// A TCP connection on which nothing was said.
    pub(crate) fn socket(&self) -> io::Result<TcpStream> {
        let socket = match self.source {
            None => TcpStream::connect(self.address)?,
            Some(source) => {
                let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
                rustix::net::bind(&socket, &SocketAddr::from((source, 0)))?;
                rustix::net::connect(&socket, &self.address)?;
                socket.into()
            }
        };
        socket.set_nodelay(!self.nagle)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(socket)
    }

    /// The first bytes a client sends.
    pub(crate) fn client_hello(&self) -> Vec<u8> {
        let mut hello = Vec::new();
        self.session().write_tls(&mut hello).unwrap();
        hello
    }

    /// A TLS session that has said nothing.
    pub(crate) fn session(&self) -> ClientConnection {
        let name = ServerName::try_from("localhost").unwrap();
        ClientConnection::new(Arc::clone(&self.config), name).unwrap()
    }

    /// Connects and completes the handshake.
    pub(crate) fn connect(&self) -> io::Result<Client> {
        let wire = Wire::Tls {
            socket: self.socket()?,
            session: Box::new(self.session()),
            write_bytes_max: self.write_bytes_max,
        };
        let mut client = Client { wire, received: Vec::new(), taken: 0, end: None };
        while client.session().is_handshaking() {
            client.flush()?;
            if client.session().is_handshaking() && !client.fill()? {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("{:?} in the handshake", client.end)));
            }
        }
        client.flush()?;
        Ok(client)
    }
}

impl Client {
    /// A client without TLS. A socket of either kind takes the same calls.
    pub(crate) fn plain(socket: impl Into<OwnedFd>) -> Self {
        let socket = UnixStream::from(socket.into());
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { wire: Wire::Plain(socket), received: Vec::new(), taken: 0, end: None }
    }

    /// Its TLS state. Panics where there is none.
    pub(crate) fn session(&mut self) -> &mut ClientConnection {
        match &mut self.wire {
            Wire::Tls { session, .. } => session,
            Wire::Plain(_) => panic!("a plain connection has no TLS state"),
        }
    }

    /// Its TCP socket. Panics where there is none.
    pub(crate) fn socket(&self) -> &TcpStream {
        match &self.wire {
            Wire::Tls { socket, .. } => socket,
            Wire::Plain(_) => panic!("a plain connection has no TCP socket"),
        }
    }

    /// Sends what TLS has to say.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let Wire::Tls { socket, session, write_bytes_max } = &mut self.wire else { return Ok(()) };
        let mut out = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut out)?;
        }
        out.chunks(*write_bytes_max).try_for_each(|piece| socket.write_all(piece))
    }

    /// Sends `bytes` as plaintext.
    pub(crate) fn try_send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if let Wire::Plain(socket) = &mut self.wire {
            return socket.write_all(bytes);
        }
        while !bytes.is_empty() {
            let written = self.session().writer().write(bytes)?;
            bytes = &bytes[written..];
            self.flush()?;
        }
        Ok(())
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).unwrap();
    }

    pub(crate) fn send_request<A: AsRef<[u8]>>(&mut self, arguments: &[A]) {
        self.send(&request(arguments));
    }

    /// Receives once; `false` when the peer has ended.
    fn fill(&mut self) -> io::Result<bool> {
        if self.end.is_some() {
            return Ok(false);
        }
        let end = match &mut self.wire {
            Wire::Plain(socket) => {
                let mut bytes = [0; 65536];
                let length = match socket.read(&mut bytes) {
                    Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                        self.end = Some(End::Reset);
                        return Ok(false);
                    }
                    read => read?,
                };
                self.received.extend_from_slice(&bytes[..length]);
                (length == 0).then_some(End::Orderly)
            }
            Wire::Tls { socket, session, .. } => match session.read_tls(socket) {
                Ok(length) => match session.process_new_packets() {
                    Ok(state) => {
                        let already = self.received.len();
                        self.received.resize(already + state.plaintext_bytes_to_read(), 0);
                        session.reader().read_exact(&mut self.received[already..])?;
                        if state.peer_has_closed() { Some(End::Orderly) } else { (length == 0).then_some(End::Cut) }
                    }
                    Err(_) => {
                        // The alert that tells the peer.
                        session.write_tls(socket).ok();
                        Some(End::TlsError)
                    }
                },
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Some(End::Reset),
                Err(error) => return Err(error),
            },
        };
        self.end = end;
        Ok(end.is_none())
    }

    /// What was received and not yet taken.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.received[self.taken..]
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let taken = self.received[self.taken..self.taken + length].to_vec();
        self.taken += length;
        if self.taken == self.received.len() {
            self.received.clear();
            self.taken = 0;
        }
        taken
    }

    /// The next `length` bytes.
    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        while self.waiting().len() < length {
            assert_eq!(self.end, None, "after {} of {length} bytes", self.waiting().len());
            self.fill().unwrap();
        }
        self.take(length)
    }

    /// The next reply, byte for byte; an error tells how the connection ended instead.
    pub(crate) fn try_reply(&mut self) -> Result<Vec<u8>, End> {
        loop {
            if let Some(length) = reply_length(self.waiting()) {
                return Ok(self.take(length));
            }
            if let Some(end) = self.end {
                return Err(end);
            }
            self.fill().unwrap();
        }
    }

    /// The next reply, byte for byte.
    pub(crate) fn reply(&mut self) -> Vec<u8> {
        self.try_reply().unwrap_or_else(|end| panic!("{end:?} instead of a reply"))
    }

    /// Sends a request and returns its reply, byte for byte.
    pub(crate) fn call<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Vec<u8> {
        self.send_request(arguments);
        self.reply()
    }

    /// Sends a request and returns the payload of its reply as text.
    pub(crate) fn text(&mut self, arguments: &[&str]) -> String {
        let reply = self.call(arguments);
        String::from_utf8_lossy(payload(&reply)).into_owned()
    }

    /// Reads to the end of what the peer sends.
    pub(crate) fn end(&mut self) -> End {
        while self.fill().unwrap() {}
        self.end.unwrap()
    }

    /// Everything up to the end, and how it ended.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, End) {
        let end = self.end();
        (self.take(self.received.len() - self.taken), end)
    }

    /// Reads whatever comes until nothing has come for `quiet`.
    pub(crate) fn fill_until_quiet(&mut self, quiet: Duration) {
        self.socket().set_read_timeout(Some(quiet)).unwrap();
        while matches!(self.fill(), Ok(true)) {}
        self.socket().set_read_timeout(Some(PATIENCE)).unwrap();
    }

    /// Ends the client's direction in good order, and goes on reading.
    pub(crate) fn end_writing(&mut self) {
        if matches!(self.wire, Wire::Tls { .. }) {
            self.session().send_close_notify();
            self.flush().unwrap();
        }
        self.cut_writing();
    }

    /// Sends FIN without a close_notify, and goes on reading.
    pub(crate) fn cut_writing(&mut self) {
        match &self.wire {
            Wire::Plain(socket) => socket.shutdown(Shutdown::Write).unwrap(),
            Wire::Tls { socket, .. } => socket.shutdown(Shutdown::Write).unwrap(),
        }
    }

    /// Resets the connection.
    pub(crate) fn reset(self) {
        reset(self.socket());
    }
}

/// Makes the socket's close, which must follow, a reset.
pub(crate) fn reset(socket: &TcpStream) {
    set_socket_linger(socket, Some(Duration::ZERO)).unwrap();
}
