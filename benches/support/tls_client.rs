//! The client's end of a TLS connection, without a socket: one record at a time, in place, so that the load takes as
//! little as it can of the core that it shares with the backend.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError};

use crate::credentials::SERVER_NAME;

/// The most plaintext in one record (RFC 8446, section 5.1).
const PLAINTEXT_MAX: usize = 16 * 1024;
/// What a record adds to its plaintext: header, content type and tag (RFC 8446, section 5.2; RFC 5116, section 5.1).
const OVERHEAD: usize = 5 + 1 + 16;

/// A client's TLS connection.
pub(crate) struct TlsClient(UnbufferedClientConnection);

impl TlsClient {
    /// A connection that has said nothing yet.
    pub(crate) fn new(config: &Arc<ClientConfig>) -> Self {
        let name = ServerName::try_from(SERVER_NAME).expect("a name");
        Self(UnbufferedClientConnection::new(Arc::clone(config), name).expect("the configuration serves"))
    }

    /// Whether the handshake is still under way.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Takes the whole records at the front of `input` and gives how many bytes they had. Plaintext goes to
    /// `plaintext`, record by record; what the protocol has to say is appended to `output`.
    pub(crate) fn open(&mut self, input: &mut [u8], output: &mut Vec<u8>, mut plaintext: impl FnMut(&[u8])) -> usize {
        let mut done = 0;
        loop {
            let status = self.0.process_tls_records(&mut input[done..]);
            done += status.discard;
            match status.state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        plaintext(record.expect("the record is whole").payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    let start = output.len();
                    if let Err(EncodeError::InsufficientSize(needed)) = message.encode(&mut []) {
                        output.resize(start + needed.required_size, 0);
                        message.encode(&mut output[start..]).expect("the room is what was asked for");
                    }
                }
                Ok(ConnectionState::TransmitTlsData(sent)) => sent.done(),
                Ok(ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake) => return done,
                Ok(other) => panic!("the other side has ended: {other:?}"),
                Err(error) => panic!("the other side does not speak TLS: {error}"),
            }
        }
    }

    /// Appends `plaintext` to `output` as records.
    pub(crate) fn seal(&mut self, plaintext: &[u8], output: &mut Vec<u8>) {
        let start = output.len();
        output.resize(start + plaintext.len() + plaintext.len().div_ceil(PLAINTEXT_MAX) * OVERHEAD, 0);
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = self.0.process_tls_records(&mut []).state else {
            panic!("nothing can be said before the handshake is over");
        };
        let sealed = traffic.encrypt(plaintext, &mut output[start..]).expect("the room is enough");
        output.truncate(start + sealed);
    }
}
