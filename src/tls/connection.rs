//! rustls's unbuffered connection, in whichever role, behind one face: what its handshake wants done next is done here.

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus, WriteTraffic};
use rustls::{CommonState, Error, ExtractedSecrets};

use super::key_schedule::KeySchedule;

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
    pub(super) next: Result<Next, Error>,
}

/// How to go on.
pub(super) enum Next {
    /// A message was queued, or noted as sent.
    Again,
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

    /// Shows rustls `records` and does the next thing that it wants. A message goes to `replies`, or nowhere when
    /// `closed` says that nothing may follow what was sent.
    pub(super) fn step(&mut self, records: &mut [u8], replies: &mut Vec<u8>, closed: bool) -> Step {
        match self {
            Self::Server(connection) => carry_out(connection.process_tls_records(records), replies, closed),
            Self::Client(connection) => carry_out(connection.process_tls_records(records), replies, closed),
        }
    }

    /// Ends the library's part: what the keys are, and what makes the next ones. The handshake is over and nothing is
    /// queued; otherwise it fails.
    pub(super) fn into_secrets(self) -> Result<(ExtractedSecrets, KeySchedule), Error> {
        match self {
            Self::Server(connection) => {
                let (secrets, connection) = connection.dangerous_into_kernel_connection()?;
                Ok((secrets, KeySchedule::Server(Box::new(connection))))
            }
            Self::Client(connection) => {
                let (secrets, connection) = connection.dangerous_into_kernel_connection()?;
                Ok((secrets, KeySchedule::Client(Box::new(connection))))
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
fn carry_out<Data>(status: UnbufferedStatus<'_, '_, Data>, replies: &mut Vec<u8>, closed: bool) -> Step {
    let next = status.state.and_then(|state| match state {
        ConnectionState::EncodeTlsData(mut message) => {
            encode(&mut message, replies, closed);
            Ok(Next::Again)
        }
        ConnectionState::TransmitTlsData(sent) => {
            sent.done();
            Ok(Next::Again)
        }
        ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake => Ok(Next::Idle),
        // Early data is off, and traffic and its end are not shown to the library.
        other => Err(Error::General(format!("out of place: {other:?}"))),
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
