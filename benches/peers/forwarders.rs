//! Proxies of the suite's own, each on one thread: two that only forward, which are the least that a proxy can do, and one
//! with TLS that one would write in an afternoon. The bench's own program is started as them.

mod buffers;
mod copy;
mod epoll;
mod uring;

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use clap::ValueEnum;

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Forwarder {
    Epoll,
    IoUring,
    TokioCopy,
}

impl Forwarder {
    /// What the command line calls it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::IoUring => "io-uring",
            Self::TokioCopy => "tokio-copy",
        }
    }

    /// Forwards to `server` until it is ended. `folder` has the certificate and its key.
    pub(crate) fn serve(self, listen: &str, server: &str, folder: &Path) {
        let served = match self {
            Self::Epoll => epoll::serve(listen, server),
            Self::IoUring => uring::serve(listen, server),
            Self::TokioCopy => copy::serve(listen, server, folder),
        };
        served.expect("sockets work");
    }
}

/// A connection to the server: `unix:PATH`, or an address. It blocks: on the loopback interface that is a moment.
fn dial(server: &str) -> io::Result<OwnedFd> {
    if let Some(path) = server.strip_prefix("unix:") {
        return Ok(UnixStream::connect(path)?.into());
    }
    let stream = TcpStream::connect(server)?;
    stream.set_nodelay(true)?;
    Ok(stream.into())
}
