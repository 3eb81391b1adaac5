//! The real machine: a `Uring`, loopback connections, a unix socket in a folder of its own.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use ringwall::io::sys;
use ringwall::io::uring::{Uring, UringOptions};
use ringwall::io::{Address, Fd};

use crate::rig::{Got, LARGE_BUFFER_BYTES, LARGE_BUFFERS, Machine, Peer, SMALL_BUFFER_BYTES, SMALL_BUFFERS};

pub(crate) struct UringMachine {
    driver: Uring,
    second: Option<Uring>,
    server: Option<Server>,
    /// Kept open until the machine goes.
    kept: Vec<OwnedFd>,
    events: Vec<OwnedFd>,
}

enum Server {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

pub(crate) fn options() -> UringOptions {
    UringOptions {
        submissions: 8,
        completions: 64,
        in_flight: 4,
        small_buffers: u16::try_from(SMALL_BUFFERS).unwrap(),
        small_buffer_bytes: u32::try_from(SMALL_BUFFER_BYTES).unwrap(),
        large_buffers: u16::try_from(LARGE_BUFFERS).unwrap(),
        large_buffer_bytes: u32::try_from(LARGE_BUFFER_BYTES).unwrap(),
    }
}

impl UringMachine {
    pub(crate) fn new() -> Self {
        let driver = Uring::new(&options()).unwrap_or_else(|error| panic!("{error}"));
        Self { driver, second: None, server: None, kept: Vec::new(), events: Vec::new() }
    }
}

impl Machine for UringMachine {
    type Driver = Uring;
    type Peer = StreamPeer;

    fn driver(&mut self) -> &mut Uring {
        &mut self.driver
    }

    fn second(&mut self) -> &mut Uring {
        self.second.get_or_insert_with(|| Uring::new(&options()).unwrap())
    }

    fn pair_over(&mut self, unix: bool) -> (Fd, StreamPeer) {
        if unix {
            let (near, far) = UnixStream::pair().unwrap();
            near.set_nonblocking(true).unwrap();
            return (Fd::from(OwnedFd::from(near)), StreamPeer::unix(far));
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (near, _) = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        (Fd::from(OwnedFd::from(near)), StreamPeer::tcp(far))
    }

    fn listen(&mut self) -> (Fd, Address) {
        let listener = Fd::from(sys::listen("127.0.0.1:0".parse().unwrap(), 16).unwrap());
        (listener, Address::Tcp(sys::local_address(listener).unwrap()))
    }

    fn client(&mut self, address: &Address) -> StreamPeer {
        let Address::Tcp(address) = address else { panic!("listeners are TCP") };
        StreamPeer::tcp(TcpStream::connect(address).unwrap())
    }

    fn serve(&mut self, unix: bool) -> Address {
        if unix {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("ringwall-{}-{number}.sock", std::process::id()));
            let listener = UnixListener::bind(&path).unwrap();
            listener.set_nonblocking(true).unwrap();
            self.server = Some(Server::Unix(listener, path.clone()));
            Address::Unix(path)
        } else {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            let address = listener.local_addr().unwrap();
            self.server = Some(Server::Tcp(listener));
            Address::Tcp(address)
        }
    }

    fn accepted(&mut self) -> Option<StreamPeer> {
        match self.server.as_ref()? {
            Server::Tcp(listener) => listener.accept().ok().map(|(stream, _)| StreamPeer::tcp(stream)),
            Server::Unix(listener, _) => listener.accept().ok().map(|(stream, _)| StreamPeer::unix(stream)),
        }
    }

    fn refusing(&mut self) -> Address {
        // A port bound by us on which nobody listens: nobody else can take it meanwhile.
        let socket = sys::listen("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        let address = sys::local_address(Fd(socket.as_raw_fd())).unwrap();
        drop(socket);
        Address::Tcp(address)
    }

    fn silent(&mut self) -> Address {
        // A backlog of 0 holds one connection; the kernel drops the attempts of all others.
        let listener = sys::listen("127.0.0.1:0".parse().unwrap(), 0).unwrap();
        let address = sys::local_address(Fd(listener.as_raw_fd())).unwrap();
        self.kept.push(TcpStream::connect(address).unwrap().into());
        self.kept.push(listener);
        Address::Tcp(address)
    }

    fn eventfd(&mut self) -> Fd {
        let event = sys::eventfd().unwrap();
        let fd = Fd(event.as_raw_fd());
        self.events.push(event);
        fd
    }

    fn take_events(&mut self, event: Fd) -> u64 {
        let owned = self.events.iter().find(|owned| owned.as_raw_fd() == event.0).unwrap();
        let mut count = [0; 8];
        match std::fs::File::from(owned.try_clone().unwrap()).read_exact(&mut count) {
            Ok(()) => u64::from_ne_bytes(count),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                0
            }
        }
    }

    fn too_much(&self) -> usize {
        64 << 20
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A stream of the standard library, non-blocking.
pub(crate) enum StreamPeer {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl StreamPeer {
    fn tcp(stream: TcpStream) -> Self {
        stream.set_nonblocking(true).unwrap();
        Self::Tcp(stream)
    }

    fn unix(stream: UnixStream) -> Self {
        stream.set_nonblocking(true).unwrap();
        Self::Unix(stream)
    }
}

impl Peer for StreamPeer {
    fn write(&mut self, bytes: &[u8]) -> usize {
        let result = match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        };
        match result {
            Ok(len) => len,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                0
            }
        }
    }

    fn read(&mut self) -> Got {
        let mut bytes = vec![0; 64 * 1024];
        let result = match self {
            Self::Tcp(stream) => stream.read(&mut bytes),
            Self::Unix(stream) => stream.read(&mut bytes),
        };
        match result {
            Ok(0) => Got::End,
            Ok(len) => Got::Bytes(bytes[..len].to_vec()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Got::Nothing,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                Got::Reset
            }
        }
    }

    fn shutdown_write(&mut self) {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
        .unwrap();
    }

    fn close(self) {}

    fn address(&self) -> Option<std::net::SocketAddr> {
        match self {
            Self::Tcp(stream) => Some(stream.local_addr().unwrap()),
            Self::Unix(_) => None,
        }
    }
}
