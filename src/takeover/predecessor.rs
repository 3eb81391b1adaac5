//! The new process's side: what it gets from the one that it replaces, and how that one learns how it goes.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::stdio::{dup2_stdin, stdin};
use zeroize::Zeroizing;

use super::channel::{Channel, Message};
use super::{VARIABLE, word};

/// How long the predecessor may take for each step; it does nothing else then.
const PATIENCE: Duration = Duration::from_secs(10);

/// The process that this one replaces, and what it hands over.
#[derive(Debug)]
pub struct Predecessor {
    channel: Channel,
    /// The same channel, until this process is on its own.
    excuse: Arc<Mutex<Option<Channel>>>,
    listeners: Vec<Listener>,
    admin: Option<(String, OwnedFd)>,
    ticket_secret: Option<Zeroizing<[u8; 32]>>,
    takes_admin: bool,
}

#[derive(Debug)]
struct Listener {
    name: String,
    bind: SocketAddr,
    socket: OwnedFd,
}

/// What the predecessor asks for as it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// To serve.
    Serve,
    /// To read files again as well: they may have changed since they were read.
    Reload,
}

impl Predecessor {
    /// The process that started this one in order to be replaced; `None` where it was started in any other way. Waits for
    /// what is handed over. The standard input is empty afterwards. To be called once.
    ///
    /// # Errors
    ///
    /// When what is handed over does not come whole and in time.
    pub fn from_environment() -> io::Result<Option<Self>> {
        if std::env::var_os(VARIABLE).is_none() {
            return Ok(None);
        }
        let channel = Channel::from_end(stdin().try_clone_to_owned()?);
        dup2_stdin(File::open("/dev/null")?)?;
        Self::inherit(channel).map(Some)
    }

    fn inherit(channel: Channel) -> io::Result<Self> {
        channel.set_patience(Some(PATIENCE))?;
        let mut inherited = Self {
            excuse: Arc::new(Mutex::new(Some(channel.duplicate()?))),
            channel,
            listeners: Vec::new(),
            admin: None,
            ticket_secret: None,
            takes_admin: false,
        };
        while let Some(message) = inherited.channel.receive()? {
            if inherited.keep(message)? {
                return Ok(inherited);
            }
        }
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended before all was handed over"))
    }

    /// Keeps what is handed over; returns whether that was all.
    fn keep(&mut self, mut message: Message) -> io::Result<bool> {
        let descriptor = message.descriptor.take();
        let (first, rest) = message.parts();
        let first = str::from_utf8(first).map_err(io::Error::other)?;
        match (first, descriptor) {
            (word::ALL, None) => return Ok(true),
            (word::LISTENER, Some(socket)) => {
                let rest = str::from_utf8(rest).map_err(io::Error::other)?;
                let (bind, name) = rest.split_once(' ').ok_or(io::ErrorKind::InvalidData)?;
                let bind = bind.parse().map_err(io::Error::other)?;
                self.listeners.push(Listener { name: name.to_owned(), bind, socket });
            }
            (word::ADMIN, Some(socket)) => {
                let address = str::from_utf8(rest).map_err(io::Error::other)?;
                self.admin = Some((address.to_owned(), socket));
            }
            (word::SECRET, None) => {
                self.ticket_secret = Some(Zeroizing::new(rest.try_into().map_err(io::Error::other)?));
            }
            // Of a later version.
            (_, _) => {}
        }
        Ok(false)
    }

    /// The socket of a listener that is configured as it was. A listener of the same address and another name has been
    /// renamed, if the kernel did not choose its port.
    pub fn take_listener(&mut self, name: &str, bind: SocketAddr) -> Option<OwnedFd> {
        let mut inherited = self.listeners.iter();
        let same = inherited.position(|listener| listener.bind == bind && listener.name == name);
        let renamed = || self.listeners.iter().position(|listener| listener.bind == bind && bind.port() != 0);
        same.or_else(renamed).map(|index| self.listeners.swap_remove(index).socket)
    }

    /// The sockets of listeners that nobody has taken, and the addresses that they are configured with.
    pub fn left_listeners(&self) -> impl Iterator<Item = (SocketAddr, BorrowedFd<'_>)> {
        self.listeners.iter().map(|listener| (listener.bind, listener.socket.as_fd()))
    }

    /// The socket that administrators connect to, if it is at this address.
    pub fn take_admin(&mut self, address: &str) -> Option<OwnedFd> {
        let (_, socket) = self.admin.take_if(|(inherited, _)| inherited == address)?;
        self.takes_admin = true;
        Some(socket)
    }

    /// What the keys of tickets derived from that are good still.
    #[must_use]
    pub fn ticket_secret(&self) -> Option<&[u8; 32]> {
        self.ticket_secret.as_deref()
    }

    /// The way to say that this process cannot take over.
    #[must_use]
    pub fn excuse(&self) -> Excuse {
        Excuse(Arc::clone(&self.excuse))
    }

    /// Says that this process serves, and waits until all is its own. What has not been taken is closed.
    ///
    /// # Errors
    ///
    /// When the predecessor has called it off, is gone, or does not answer; this process has to end then.
    pub fn take_over(self) -> io::Result<Wish> {
        let admin = if self.takes_admin { word::ADMIN } else { "" };
        self.channel.send(word::READY, admin.as_bytes(), None)?;
        loop {
            let Some(message) = self.channel.receive()? else {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the running process keeps its place"));
            };
            match message.parts() {
                (first, rest) if first == word::YOURS.as_bytes() => {
                    self.excuse.lock().unwrap_or_else(PoisonError::into_inner).take();
                    return Ok(if rest == word::RELOAD.as_bytes() { Wish::Reload } else { Wish::Serve });
                }
                _ => {}
            }
        }
    }
}

/// The way to say that this process cannot take over.
#[derive(Debug)]
pub struct Excuse(Arc<Mutex<Option<Channel>>>);

impl Excuse {
    /// Says why. A predecessor that is gone, or has left, needs not know.
    pub fn give(&self, reason: &str) {
        if let Some(channel) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = channel.send(word::FAILED, reason.as_bytes(), None);
        }
    }
}
