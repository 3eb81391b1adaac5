//! One connection of the control plane to a server or a Sentinel, plain or TLS: commands out, replies in.
//!
//! It is slow and simple beside a shard's, and its memory is bounded by one read and one reply. Whoever calls sets the
//! deadline. A call that waits for the peer may be given up at any moment and made again; one that sends a command leaves
//! the connection good for nothing then.

use std::fmt;
use std::io;

use tokio::net::{TcpStream, UnixStream};

use crate::io::Address;
use crate::pool::Pool;
use crate::tls::{Connector, Engine, Failure, OpenStatus, Role};
use crate::wire::{Command, Malformed, Reader, Reply};

/// Bytes read at once.
const READ_BYTES: usize = 4 * 1024;
/// The longest reply: that of a primary with a thousand replicas to ROLE.
const REPLY_BYTES_MAX: usize = 128 * 1024;

/// Why a connection is over, or never was.
#[derive(Debug)]
pub(super) enum LinkError {
    /// The kernel's word.
    Io(io::Error),
    /// TLS has failed.
    Tls(Failure),
    /// The peer has ended it.
    Ended,
    /// What came is no reply.
    Malformed(Malformed),
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Tls(failure) => write!(f, "TLS: {}", failure.in_words(Role::Client)),
            Self::Ended => f.write_str("it has closed the connection"),
            Self::Malformed(malformed) => write!(f, "it does not speak RESP: {malformed}"),
        }
    }
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    async fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
            Address::Unix(path) => UnixStream::connect(path).await.map(Self::Unix),
        }
    }

    async fn read(&self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                Self::Tcp(stream) => {
                    stream.readable().await?;
                    stream.try_read(to)
                }
                Self::Unix(stream) => {
                    stream.readable().await?;
                    stream.try_read(to)
                }
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// Writes some of `bytes`, which are not empty.
    async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self {
                Self::Tcp(stream) => stream.writable().await?,
                Self::Unix(stream) => stream.writable().await?,
            }
            match self.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self.write(bytes).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }
}

/// An engine with the pool that its buffers are from.
struct Tls {
    engine: Engine,
    pool: Pool,
}

impl Tls {
    fn new(engine: Engine) -> Self {
        Self { engine, pool: Pool::new() }
    }

    /// Opens what has come; what it says goes to `plaintext`.
    fn open(&mut self, input: &mut [u8], plaintext: &mut Vec<u8>) -> OpenStatus {
        self.engine.open(input, usize::MAX, &mut self.pool, |_, bytes| plaintext.extend_from_slice(bytes)).status
    }

    fn seal(&mut self, plaintext: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut out = self.pool.take(self.engine.sealed_len_max(plaintext.len()));
        let sealed = self.engine.seal(plaintext, &mut out).map(|()| out.data().to_owned());
        self.pool.give(out);
        sealed
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        self.engine.release(&mut self.pool);
    }
}

/// An open connection.
pub(super) struct Link {
    socket: Socket,
    tls: Option<Box<Tls>>,
    reader: Reader,
    /// What has come and was not read as a reply yet.
    received: Vec<u8>,
    /// What TLS itself wants sent and was not sent yet.
    unsent: Vec<u8>,
}

impl Link {
    /// Connects, and shakes hands where there is a connector.
    pub(super) async fn connect(address: &Address, connector: Option<&Connector>) -> Result<Self, LinkError> {
        let socket = Socket::connect(address).await?;
        let tls = connector.map(|connector| Box::new(Tls::new(connector.engine())));
        let mut link =
            Self { socket, tls, reader: Reader::new(REPLY_BYTES_MAX), received: Vec::new(), unsent: Vec::new() };
        link.flush().await?;
        while link.tls.as_ref().is_some_and(|tls| tls.engine.is_handshaking()) {
            link.fill().await?;
        }
        Ok(link)
    }

    /// Sends a command.
    pub(super) async fn send(&mut self, command: &Command) -> Result<(), LinkError> {
        self.flush().await?;
        match &mut self.tls {
            None => self.socket.write_all(command.bytes()).await?,
            Some(tls) => {
                let sealed = tls.seal(command.bytes()).map_err(LinkError::Tls)?;
                self.socket.write_all(&sealed).await?;
            }
        }
        Ok(())
    }

    /// The next reply.
    pub(super) async fn reply(&mut self) -> Result<Reply, LinkError> {
        loop {
            if !self.received.is_empty() {
                let mut rest = &self.received[..];
                let reply = self.reader.read(&mut rest).map_err(LinkError::Malformed)?;
                let taken = self.received.len() - rest.len();
                self.received.drain(..taken);
                if let Some(reply) = reply {
                    return Ok(reply);
                }
            }
            self.fill().await?;
        }
    }

    /// Sends a command and waits for its reply.
    pub(super) async fn call(&mut self, command: &Command) -> Result<Reply, LinkError> {
        self.send(command).await?;
        self.reply().await
    }

    /// Waits until an idle connection is over: its peer ends it, or says what nobody has asked for.
    pub(super) async fn over(&mut self) {
        while self.received.is_empty() && !self.reader.is_within_reply() {
            if self.fill().await.is_err() {
                return;
            }
        }
    }

    /// Tells the peer that nothing more comes, as far as it takes that at once.
    pub(super) fn close(mut self) {
        if let Some(tls) = &mut self.tls {
            tls.engine.close_notify();
            // Whoever does not take it sees the socket close.
            let _ = self.socket.try_write(&tls.engine.take_replies());
        }
    }

    /// Waits for bytes and takes them in.
    async fn fill(&mut self) -> Result<(), LinkError> {
        let mut chunk = [0; READ_BYTES];
        let length = self.socket.read(&mut chunk).await?;
        if length == 0 {
            return Err(LinkError::Ended);
        }
        let Some(tls) = &mut self.tls else {
            self.received.extend_from_slice(&chunk[..length]);
            return Ok(());
        };
        let status = tls.open(&mut chunk[..length], &mut self.received);
        // Also after a failure: it is an alert then.
        self.flush().await?;
        match status {
            OpenStatus::Drained | OpenStatus::Budget => Ok(()),
            // What came before it counts.
            OpenStatus::Closed if !self.received.is_empty() => Ok(()),
            OpenStatus::Closed => Err(LinkError::Ended),
            OpenStatus::Failed(failure) => Err(LinkError::Tls(failure)),
        }
    }

    /// Sends what TLS itself wants sent. Given up in the middle, it goes on from there the next time.
    async fn flush(&mut self) -> Result<(), LinkError> {
        if let Some(tls) = &mut self.tls {
            self.unsent.append(&mut tls.engine.take_replies());
        }
        while !self.unsent.is_empty() {
            let written = self.socket.write(&self.unsent).await?;
            self.unsent.drain(..written);
        }
        Ok(())
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}
