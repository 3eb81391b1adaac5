//! Servers that do what a real one hardly ever does.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use rustix::net::{AddressFamily, SocketType, bind, listen, socket};

use crate::process::PATIENCE;

/// A listener that hands its first connection to a script.
pub(crate) struct Scripted<T> {
    pub(crate) address: SocketAddr,
    script: JoinHandle<T>,
}

impl<T: Send + 'static> Scripted<T> {
    pub(crate) fn new(script: impl FnOnce(TcpStream) -> T + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let script = thread::spawn(move || {
            let connection = listener.accept().unwrap().0;
            connection.set_read_timeout(Some(PATIENCE)).unwrap();
            script(connection)
        });
        Self { address, script }
    }

    /// What the script returned, once it is through.
    pub(crate) fn result(self) -> T {
        self.script.join().unwrap()
    }
}

/// Reads until `length` bytes have come.
pub(crate) fn read_exactly(connection: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    connection.read_exact(&mut bytes).unwrap();
    bytes
}

/// Writes everything.
pub(crate) fn write(connection: &mut TcpStream, bytes: &[u8]) {
    connection.write_all(bytes).unwrap();
}

/// An address that neither accepts nor refuses: its queue of connections is full.
pub(crate) struct Deaf {
    pub(crate) address: SocketAddr,
    _listener: rustix::fd::OwnedFd,
    _queued: Vec<TcpStream>,
}

impl Deaf {
    pub(crate) fn new() -> Self {
        let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        // A backlog of 0 holds one connection.
        listen(&listener, 0).unwrap();
        let listener = TcpListener::from(listener);
        let address = listener.local_addr().unwrap();
        let queued = vec![TcpStream::connect(address).unwrap()];
        Self { address, _listener: listener.into(), _queued: queued }
    }
}
