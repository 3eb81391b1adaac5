//! Why the program cannot start, and what to do about it.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use crate::io::Address;
use crate::io::uring::Unavailable;
use crate::tls::SetupError;

/// Why the program cannot start.
#[derive(Debug)]
pub enum StartError {
    /// The kernel does not give what is needed of io_uring.
    Unavailable(Unavailable),
    /// A listener cannot be bound.
    Bind {
        /// The listener's name.
        listener: Box<str>,
        /// Its address.
        address: SocketAddr,
        /// What the kernel said.
        error: io::Error,
    },
    /// A listener cannot be bound beside sockets whose addresses overlap its own, and which are given up for it.
    Beside {
        /// The listener's name.
        listener: Box<str>,
        /// Its address.
        address: SocketAddr,
        /// Where those sockets listen.
        held: Vec<SocketAddr>,
        /// What the kernel said.
        error: io::Error,
    },
    /// A socket that the service manager hands over cannot be used: why, and what to do.
    Inherited(String),
    /// A backend's source address cannot be connected from.
    Source {
        /// The backend's name.
        backend: Box<str>,
        /// The address.
        address: IpAddr,
        /// What the kernel said.
        error: io::Error,
    },
    /// The admin socket cannot be bound.
    Admin {
        /// Where.
        address: Address,
        /// What the system said.
        error: io::Error,
    },
    /// The admin socket's permissions cannot be changed.
    AdminMode {
        /// Where it is.
        address: Address,
        /// What the system said.
        error: io::Error,
    },
    /// TLS cannot be set up with the certificate and key of a listener or a backend.
    Tls {
        /// Which it is, with its name.
        of: Box<str>,
        /// Why.
        error: SetupError,
    },
    /// The key log cannot be opened.
    KeyLog {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A thread cannot be started.
    Thread {
        /// Its name.
        name: String,
        /// What the system said.
        error: io::Error,
    },
    /// A socket pair or eventfd cannot be had.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(unavailable) => unavailable.fmt(f),
            Self::Bind { listener, address, error } => {
                write!(f, "listener \"{listener}\": cannot listen on {address}: {error}")?;
                match error.raw_os_error() {
                    Some(libc::EADDRINUSE) => {
                        f.write_str("; another program listens there already (ss -ltnp shows which)")
                    }
                    Some(libc::EADDRNOTAVAIL) => f.write_str("; no interface of this machine has that address"),
                    Some(libc::EACCES) => f.write_str("; ports below 1024 need CAP_NET_BIND_SERVICE"),
                    Some(_) | None => Ok(()),
                }
            }
            Self::Beside { listener, address, held, error } => {
                let held: Vec<_> = held.iter().map(ToString::to_string).collect();
                let held = held.join(" and ");
                write!(
                    f,
                    "listener \"{listener}\": cannot listen on {address} while ringwall still listens on {held}: {error}; \
                     another program listens there, too (ss -ltnp shows which), or the socket on {held} is of the service \
                     manager. In the latter case go there in two steps: reload without the listener on {held}, and then with \
                     the new one"
                )
            }
            Self::Inherited(problem) => write!(f, "a socket that the service manager hands over: {problem}"),
            Self::Source { backend, address, error } => {
                write!(f, "backend \"{backend}\": cannot connect from {address} of source_addresses: {error}")?;
                match error.raw_os_error() {
                    Some(libc::EADDRNOTAVAIL) => f.write_str("; no interface of this machine has that address"),
                    Some(_) | None => Ok(()),
                }
            }
            Self::Admin { address, error } => {
                write!(f, "admin.listen: cannot listen on {address}: {error}")?;
                match (error.kind(), address) {
                    (io::ErrorKind::NotFound, Address::Unix(_)) => f.write_str(
                        "; its folder must exist and ringwall's user be allowed to write there (RuntimeDirectory= of the \
                         systemd unit makes one)",
                    ),
                    _ => Ok(()),
                }
            }
            Self::AdminMode { address, error } => {
                write!(f, "admin.socket_mode: the permissions of {address} cannot be changed: {error}")
            }
            Self::Tls { of, error } => write!(f, "{of}: {error}"),
            Self::KeyLog { path, error } => write!(f, "log.key_log {}: cannot be opened: {error}", path.display()),
            Self::Thread { name, error } => {
                write!(f, "the thread \"{name}\" cannot be started: {error}")?;
                if error.raw_os_error() == Some(libc::EAGAIN) {
                    f.write_str(
                        "; a limit of threads (ulimit -u, TasksMax= of the systemd unit, pids.max of the control group) or \
                         of memory (ulimit -v) is reached: raise it, or write a lower runtime.shards",
                    )?;
                }
                Ok(())
            }
            Self::System(error) => write!(f, "the system gives no file descriptor or memory: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}
