//! rustls's unbuffered connection, in whichever role, behind one face: what it wants done next is done here.

use rustls::CommonState;
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic};

/// Which part we play in a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The peer has connected to us.
    Server,
    /// We have connected to the peer.
    Client,
}

/// A connection in one of the roles. Telling them apart is a branch per call; all else is generic code.
pub(super) enum Connection {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// What [`Connection::step`] has done.
pub(super) struct Step {
    /// How many bytes at the front of the records rustls is done with.
    pub(super) discard: usize,
    pub(super) next: Result<Next, rustls::Error>,
}

/// How to go on.
pub(super) enum Next {
    /// Plaintext was handed over: if all records are done with, there is nothing else to do for them.
    Traffic,
    /// A message was queued, or noted as sent.
    Again,
    /// The peer has sent close_notify.
    PeerClosed,
    /// There is nothing to do before more records come.
    Idle,
}

impl Connection {
    pub(super) const fn role(&self) -> Role {
        match self {
            Self::Server(_) => Role::Server,
            Self::Client(_) => Role::Client,
        }
    }

    /// What both roles have in common.
    pub(super) fn common(&self) -> &CommonState {
        match self {
            Self::Server(connection) => connection,
            Self::Client(connection) => connection,
        }
    }

    /// Shows rustls `records` and does the next thing that it wants. Plaintext goes to `plaintext`; a message goes to
    /// `replies`, or nowhere when `closed` says that nothing may follow what was sent.
    pub(super) fn step(
        &mut self,
        records: &mut [u8],
        replies: &mut Vec<u8>,
        closed: bool,
        plaintext: impl FnMut(&[u8]),
    ) -> Step {
        match self {
            Self::Server(connection) => carry_out(connection.process_tls_records(records), replies, closed, plaintext),
            Self::Client(connection) => carry_out(connection.process_tls_records(records), replies, closed, plaintext),
        }
    }

    /// Seals `plaintext` into `out`. `held` are the records that rustls still points into; the handshake is over and
    /// nothing is queued.
    pub(super) fn encrypt(&mut self, held: &mut [u8], plaintext: &[u8], out: &mut [u8]) -> Result<usize, EncryptError> {
        let idle = "the handshake is over and nothing is queued";
        match self {
            Self::Server(connection) => {
                writable(connection.process_tls_records(held)).expect(idle).encrypt(plaintext, out)
            }
            Self::Client(connection) => {
                writable(connection.process_tls_records(held)).expect(idle).encrypt(plaintext, out)
            }
        }
    }

    /// Queues a close_notify, if the protocol lets us send at this point; says whether it does.
    pub(super) fn queue_close_notify(&mut self, held: &mut [u8]) -> bool {
        match self {
            Self::Server(connection) => close(writable(connection.process_tls_records(held))),
            Self::Client(connection) => close(writable(connection.process_tls_records(held))),
        }
    }
}

fn writable<'c, Data>(status: UnbufferedStatus<'c, '_, Data>) -> Option<WriteTraffic<'c, Data>> {
    if let Ok(ConnectionState::WriteTraffic(traffic)) = status.state { Some(traffic) } else { None }
}

fn close<Data>(traffic: Option<WriteTraffic<'_, Data>>) -> bool {
    // Without room it is queued, from where it is taken like any other message.
    traffic.map(|mut traffic| traffic.queue_close_notify(&mut [])).is_some()
}

#[expect(clippy::wildcard_enum_match_arm, reason = "rustls's states are non-exhaustive; what is not named never comes")]
fn carry_out<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    replies: &mut Vec<u8>,
    closed: bool,
    mut plaintext: impl FnMut(&[u8]),
) -> Step {
    let next = status.state.map(|state| match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(Ok(record)) = traffic.next_record() {
                plaintext(record.payload);
            }
            Next::Traffic
        }
        ConnectionState::EncodeTlsData(mut message) => {
            encode(&mut message, replies, closed);
            Next::Again
        }
        ConnectionState::TransmitTlsData(sent) => {
            sent.done();
            Next::Again
        }
        ConnectionState::PeerClosed => Next::PeerClosed,
        ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake | ConnectionState::Closed => Next::Idle,
        other => unreachable!("early data is off, and there is no other state than {other:?}"),
    });
    Step { discard: status.discard, next }
}

/// Appends a queued message to `replies`, or drops it when nothing may follow what was sent.
fn encode<Data>(message: &mut EncodeTlsData<'_, Data>, replies: &mut Vec<u8>, closed: bool) {
    let start = replies.len();
    if let Err(EncodeError::InsufficientSize(needed)) = message.encode(&mut []) {
        replies.resize(start + needed.required_size, 0);
        message.encode(&mut replies[start..]).expect("the room is what was asked for");
    }
    if closed {
        replies.truncate(start);
    }
}
