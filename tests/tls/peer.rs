//! rustls as the peer, in either role, in memory.

use std::io::{Read, Write};

use rustls::Connection;

pub(crate) struct Peer {
    pub(crate) connection: Connection,
    pub(crate) received: Vec<u8>,
    /// Why it gave up.
    pub(crate) error: Option<rustls::Error>,
}

impl Peer {
    pub(crate) fn new(connection: impl Into<Connection>) -> Self {
        Self { connection: connection.into(), received: Vec::new(), error: None }
    }

    pub(crate) fn take(&mut self, mut ciphertext: &[u8]) {
        while !ciphertext.is_empty() && self.error.is_none() {
            self.connection.read_tls(&mut ciphertext).unwrap();
            match self.connection.process_new_packets() {
                Ok(state) => {
                    let start = self.received.len();
                    self.received.resize(start + state.plaintext_bytes_to_read(), 0);
                    self.connection.reader().read_exact(&mut self.received[start..]).unwrap();
                }
                Err(error) => self.error = Some(error),
            }
        }
    }

    pub(crate) fn output(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut output).unwrap();
        }
        output
    }

    pub(crate) fn seal(&mut self, plaintext: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        for chunk in plaintext.chunks(16 * 1024) {
            self.connection.writer().write_all(chunk).unwrap();
            output.extend(self.output());
        }
        output
    }

    /// The name that the client of a server has asked for.
    pub(crate) fn server_name(&self) -> Option<&str> {
        let Connection::Server(connection) = &self.connection else { panic!("it plays the client") };
        connection.server_name()
    }
}
