//! One connection of a load: a socket, and TLS over it or not.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustls::ClientConfig;

use crate::tls_client::TlsClient;

/// Bytes read in one go.
const READ_BYTES: usize = 128 * 1024;

/// Where bytes pass through on their way, for one client at a time.
pub(crate) struct Buffers {
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { input: vec![0; READ_BYTES], output: Vec::new() }
    }
}

/// A connection whose handshake is over. Its socket does not block.
pub(crate) struct Client {
    stream: TcpStream,
    /// `None` where plain text is spoken.
    tls: Option<TlsClient>,
    /// The start of a record.
    carry: Vec<u8>,
}

impl Client {
    /// Connects, and shakes hands where there is a `config` for TLS.
    pub(crate) fn connect(address: SocketAddr, config: Option<&Arc<ClientConfig>>) -> Self {
        let stream = TcpStream::connect(address);
        let mut stream = stream.unwrap_or_else(|error| panic!("nobody listens at {address}: {error}"));
        stream.set_nodelay(true).expect("a TCP socket");
        let mut carry = Vec::new();
        let tls = config.map(|config| shake_hands(&mut stream, config, &mut carry));
        stream.set_nonblocking(true).expect("a socket");
        Self { stream, tls, carry }
    }

    /// Reads once. What has come goes to `plaintext`, record by record.
    pub(crate) fn receive(&mut self, buffers: &mut Buffers, mut plaintext: impl FnMut(&[u8])) {
        let Buffers { input, output } = buffers;
        let begun = self.carry.len();
        input[..begun].copy_from_slice(&self.carry);
        self.carry.clear();
        let received = match self.stream.read(&mut input[begun..]) {
            Ok(0) => panic!("the proxy has closed a connection"),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => panic!("a connection is broken: {error}"),
        };
        let all = &mut input[..begun + received];
        let Some(tls) = &mut self.tls else {
            return plaintext(all);
        };
        output.clear();
        let done = tls.open(all, output, plaintext);
        self.carry.extend_from_slice(&all[done..]);
        assert!(output.is_empty(), "the load is too short for new keys");
    }

    /// Sends `plaintext`, in one record where there are any.
    pub(crate) fn send(&mut self, plaintext: &[u8], buffers: &mut Buffers) {
        let Buffers { output, .. } = buffers;
        let bytes = match &mut self.tls {
            None => plaintext,
            Some(tls) => {
                output.clear();
                tls.seal(plaintext, output);
                output
            }
        };
        self.stream.write_all(bytes).expect("the few requests outstanding fit the socket's buffer");
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// What comes behind the handshake goes to `carry`.
fn shake_hands(stream: &mut TcpStream, config: &Arc<ClientConfig>, carry: &mut Vec<u8>) -> TlsClient {
    let mut tls = TlsClient::new(config);
    let (mut input, mut output, mut filled) = (vec![0; READ_BYTES], Vec::new(), 0);
    loop {
        let done = tls.open(&mut input[..filled], &mut output, |_| panic!("a reply to nothing"));
        input.copy_within(done..filled, 0);
        filled -= done;
        stream.write_all(&output).expect("the proxy reads");
        output.clear();
        if !tls.is_handshaking() {
            carry.extend_from_slice(&input[..filled]);
            return tls;
        }
        filled += stream.read(&mut input[filled..]).expect("the proxy answers");
    }
}
