//! A backend that answers every request with a write of its own, as a server does that works request by request.
//!
//! Requests and replies have fixed sizes and no content. It holds no reply in memory: it counts what it owes.
#![allow(dead_code, reason = "each bench uses a part of it")]

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};

use crate::cores;

/// Bytes of requests read in one go.
const READ_BYTES: usize = 64 * 1024;

/// Where a backend listens.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Listens on a port of the loopback interface; gives the address as a configuration names it.
    pub(crate) fn tcp() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of the loopback interface");
        let address = listener.local_addr().expect("a bound socket has an address").to_string();
        (Self::Tcp(listener), address)
    }

    /// Listens at `path`; gives the address as a configuration names it.
    pub(crate) fn unix(path: &Path) -> (Self, String) {
        (Self::Unix(UnixListener::bind(path).expect("a path that is free")), format!("unix:{}", path.display()))
    }

    fn accept(&self) -> io::Result<File> {
        let socket = match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                OwnedFd::from(stream)
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                OwnedFd::from(stream)
            }
        };
        Ok(File::from(socket))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

/// Serves on `core` for as long as the process lives.
pub(crate) fn start(listener: Listener, core: usize, request_bytes: usize, reply_bytes: usize) {
    let serve = move || {
        cores::pin(core);
        Backend { request_bytes, reply: vec![b'r'; reply_bytes], connections: Vec::new() }
            .serve(&listener)
            .expect("sockets work");
    };
    thread::Builder::new().name("backend".to_owned()).spawn(serve).expect("a thread");
}

struct Backend {
    request_bytes: usize,
    reply: Vec<u8>,
    connections: Vec<Option<Connection>>,
}

struct Connection {
    stream: File,
    /// Bytes of a request that is not complete.
    begun: usize,
    /// Replies that are owed, and how much of the first is written.
    owed: usize,
    written: usize,
}

impl Backend {
    fn serve(&mut self, listener: &Listener) -> io::Result<()> {
        const LISTENER: u64 = u64::MAX;
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&poll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        let mut events = Vec::with_capacity(64);
        let mut requests = vec![0; READ_BYTES];
        loop {
            epoll::wait(&poll, spare_capacity(&mut events), None)?;
            for event in events.drain(..) {
                if event.data.u64() == LISTENER {
                    let stream = listener.accept()?;
                    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
                    epoll::add(&poll, &stream, EventData::new_u64(self.connections.len() as u64), flags)?;
                    self.connections.push(Some(Connection { stream, begun: 0, owed: 0, written: 0 }));
                    continue;
                }
                let index = usize::try_from(event.data.u64()).expect("an index");
                let connection = &mut self.connections[index];
                if let Some(open) = connection
                    && !open.serve(self.request_bytes, &self.reply, &mut requests)
                {
                    *connection = None;
                }
            }
        }
    }
}

impl Connection {
    /// Reads and writes as far as the socket goes. Says whether it is still open.
    fn serve(&mut self, request_bytes: usize, reply: &[u8], requests: &mut [u8]) -> bool {
        loop {
            match self.stream.read(requests) {
                Ok(0) => return false,
                Ok(bytes) => {
                    self.owed += (self.begun + bytes) / request_bytes;
                    self.begun = (self.begun + bytes) % request_bytes;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        while self.owed > 0 {
            match self.stream.write(&reply[self.written..]) {
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
            if self.written == reply.len() {
                self.written = 0;
                self.owed -= 1;
            }
        }
        true
    }
}
