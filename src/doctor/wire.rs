//! A connection to a server, in plain text or TLS, for a few questions.

use std::fmt;
use std::io;

use tokio::net::{TcpStream, UnixStream};

use crate::io::Address;
use crate::pool::{Pool, SendBuf};
use crate::secret::Secret;
use crate::tls::{Connector, Engine, Failure, OpenStatus, Role};
use crate::wire::{Command, Malformed, Reader, Reply};

/// More than any answer to PING or ROLE.
const REPLY_BYTES_MAX: usize = 64 * 1024;

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Why a connection is of no use.
#[derive(Debug)]
pub(super) enum WireError {
    Io(io::Error),
    /// The server ended the connection; whether during the handshake.
    Ended(bool),
    Tls(Failure),
    /// What it said is no reply; whether the connection is in plain text.
    Malformed(Malformed, bool),
}

/// A connection to a server.
pub(super) struct Wire {
    stream: Stream,
    engine: Option<Engine>,
    pool: Pool,
    reader: Reader,
    /// Plaintext that was received and not read.
    received: Vec<u8>,
}

impl Stream {
    async fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => TcpStream::connect(address).await.map(Self::Tcp),
            Address::Unix(path) => UnixStream::connect(path).await.map(Self::Unix),
        }
    }

    async fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = match self {
                Self::Tcp(stream) => {
                    stream.writable().await?;
                    stream.try_write(bytes)
                }
                Self::Unix(stream) => {
                    stream.writable().await?;
                    stream.try_write(bytes)
                }
            };
            match sent {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What came; 0 at the end.
    async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let received = match self {
                Self::Tcp(stream) => {
                    stream.readable().await?;
                    stream.try_read(buffer)
                }
                Self::Unix(stream) => {
                    stream.readable().await?;
                    stream.try_read(buffer)
                }
            };
            match received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => return received,
            }
        }
    }
}

impl Wire {
    /// Connects, without any handshake yet.
    pub(super) async fn connect(address: &Address, connector: Option<&Connector>) -> io::Result<Self> {
        Ok(Self {
            stream: Stream::connect(address).await?,
            engine: connector.map(Connector::engine),
            pool: Pool::new(),
            reader: Reader::new(REPLY_BYTES_MAX),
            received: Vec::new(),
        })
    }

    /// Completes the handshake, where there is one.
    pub(super) async fn shake_hands(&mut self) -> Result<(), WireError> {
        self.send_replies().await?;
        while self.engine.as_ref().is_some_and(Engine::is_handshaking) {
            self.receive().await?;
        }
        Ok(())
    }

    /// Ends in good order, so that nobody's log tells of a cut.
    pub(super) async fn leave(mut self) {
        if let Some(engine) = &mut self.engine {
            engine.close_notify();
        }
        // Whoever has gone already need not hear it.
        drop(self.send_replies().await);
    }

    /// What the handshake agreed on.
    pub(super) fn summary(&self) -> Option<String> {
        let summary = self.engine.as_ref()?.summary()?;
        Some([summary.version].into_iter().chain(summary.group).collect::<Vec<_>>().join(" "))
    }

    /// Says who we are: this user, or without a name the default one. The answer to AUTH.
    pub(super) async fn log_in(&mut self, username: Option<&str>, password: &Secret) -> Result<Reply, WireError> {
        match username {
            Some(username) => self.ask(&[b"AUTH", username.as_bytes(), password.bytes()]).await,
            None => self.ask(&[b"AUTH", password.bytes()]).await,
        }
    }

    /// Sends a command and waits for the reply.
    pub(super) async fn ask(&mut self, arguments: &[&[u8]]) -> Result<Reply, WireError> {
        let command = Command::new(arguments);
        match &mut self.engine {
            None => self.stream.send(command.bytes()).await.map_err(WireError::Io)?,
            Some(engine) => {
                let mut sealed = SendBuf::with_capacity(engine.sealed_len_max(command.bytes().len()));
                engine.seal(command.bytes(), &mut sealed).map_err(WireError::Tls)?;
                self.stream.send(sealed.data()).await.map_err(WireError::Io)?;
            }
        }
        loop {
            let mut unread = &self.received[..];
            let reply = self.reader.read(&mut unread);
            let read = self.received.len() - unread.len();
            self.received.drain(..read);
            match reply {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => self.receive().await?,
                Err(error) => return Err(WireError::Malformed(error, self.engine.is_none())),
            }
        }
    }

    /// Receives once, and opens what came. A server that lets nobody in may say why and end at once, so what was said
    /// counts before the end does.
    async fn receive(&mut self) -> Result<(), WireError> {
        let mut buffer = vec![0; 16 * 1024];
        let length = self.stream.receive(&mut buffer).await.map_err(WireError::Io)?;
        let ended = || WireError::Ended(false);
        let Some(engine) = &mut self.engine else {
            self.received.extend_from_slice(&buffer[..length]);
            return if length == 0 { Err(ended()) } else { Ok(()) };
        };
        if length == 0 {
            return Err(WireError::Ended(engine.is_handshaking()));
        }
        let received = &mut self.received;
        let opened = engine.open(&mut buffer[..length], usize::MAX, &mut self.pool, |_, plaintext| {
            received.extend_from_slice(plaintext);
        });
        let sent = self.send_replies().await;
        match opened.status {
            OpenStatus::Drained | OpenStatus::Budget => sent,
            OpenStatus::Closed if !self.received.is_empty() => Ok(()),
            OpenStatus::Closed => Err(ended()),
            OpenStatus::Failed(failure) => Err(WireError::Tls(failure)),
        }
    }

    async fn send_replies(&mut self) -> Result<(), WireError> {
        let replies = self.engine.as_mut().map(Engine::take_replies).unwrap_or_default();
        self.stream.send(&replies).await.map_err(WireError::Io)
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Ended(true) => f.write_str("the connection ended during the TLS handshake"),
            Self::Ended(false) => f.write_str("the connection ended without a reply"),
            Self::Tls(failure) => write!(f, "TLS: {}", failure.in_words(Role::Client)),
            Self::Malformed(malformed, _) => write!(f, "no reply of RESP: {malformed}"),
        }
    }
}

impl WireError {
    pub(super) const fn remedy(&self) -> &'static str {
        match self {
            // What servers with TLS do with what is none.
            Self::Io(_) | Self::Ended(false) | Self::Malformed(_, true) => {
                "look at the server's log; if its port speaks TLS, give the backend a tls table"
            }
            Self::Malformed(_, false) => "is it a Valkey or Redis server? Write where that is",
            Self::Ended(true) | Self::Tls(_) => {
                "look at the server's log, and at ca, verify, server_name and certificate of the backend's tls; if its port \
                 speaks no TLS, leave the table out"
            }
        }
    }
}
