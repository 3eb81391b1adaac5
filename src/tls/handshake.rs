//! A connection whose hands are not shaken yet: the library's part.
//!
//! rustls's unbuffered connection does the protocol. It is shown one record at a time, so that when the handshake is
//! over no record behind it has been read, and the traffic goes on at the next one with what the library hands over.

use std::sync::Arc;

use super::alert;
use super::client_verifier::{identity_of, names_of};
use super::connection::{Connection, Next, Role};
use super::failure::Failure;
use super::overheard::{Hearing, Overheard};
use super::record::HEADER_LEN;
use super::summary::Summary;
use super::traffic::Traffic;

/// One handshake in either role.
pub(super) struct Handshake {
    connection: Connection,
    /// What the callbacks hear about a client; there is none in the client's role.
    hearing: Option<Hearing>,
}

impl Handshake {
    /// `overheard` is for the server's role.
    pub(super) fn new(connection: Connection, overheard: Option<Arc<Overheard>>) -> Self {
        Self { connection, hearing: overheard.map(Hearing::new) }
    }

    /// Whether there is nothing left to do but traffic.
    pub(super) fn is_over(&self) -> bool {
        !self.connection.common().is_handshaking()
    }

    /// Whether a client's hello has come to its end and was taken. Nothing is computed for one before.
    pub(super) fn has_heard_hello(&self) -> bool {
        self.connection.common().protocol_version().is_some()
    }

    /// Hands `records` to rustls until it wants no more, and gives how many bytes at the front it is done with. What it
    /// answers goes to `replies`, or nowhere when `closed` says that nothing may follow what was sent.
    pub(super) fn process(
        &mut self,
        records: &mut [u8],
        replies: &mut Vec<u8>,
        closed: bool,
    ) -> Result<usize, Failure> {
        let mut done = 0;
        if let Some(hearing) = &self.hearing {
            hearing.remind();
        }
        loop {
            let step = self.connection.step(&mut records[done..], replies, closed);
            done += step.discard;
            match step.next {
                Ok(Next::Again) => {}
                Ok(Next::Idle) => break,
                Err(error) => {
                    self.note_overheard();
                    let mut failure = Failure::of(&error, self.connection.role());
                    if failure == Failure::UnknownServerName && self.server_name().is_none() {
                        failure = Failure::NoServerName;
                    }
                    return Err(self.refuse(failure, records.len(), replies, closed));
                }
            }
        }
        self.note_overheard();
        Ok(done)
    }

    /// Ends the handshake with `failure` and sees to it that the peer is told. `seen` is how many bytes rustls has been
    /// shown in its last call.
    pub(super) fn refuse(&mut self, failure: Failure, seen: usize, replies: &mut Vec<u8>, closed: bool) -> Failure {
        let replied = replies.len();
        self.drain(replies, closed);
        let told = replies.len() > replied || matches!(failure, Failure::AlertReceived(_)) || closed;
        if !told {
            // rustls ends some violations without an alert. A record of type 0, wherever it looks, gets one.
            let mut unacceptable = vec![0; seen + HEADER_LEN];
            let _ = self.connection.step(&mut unacceptable, replies, closed);
            self.drain(replies, closed);
        }
        failure.mend_alert(replies);
        failure
    }

    /// Moves what rustls has queued to the replies. It reads no input meanwhile, so none needs to be shown.
    pub(super) fn drain(&mut self, replies: &mut Vec<u8>, closed: bool) {
        while self.connection.common().wants_write() {
            let step = self.connection.step(&mut [], replies, closed);
            assert!(matches!(step.next, Ok(Next::Again)), "what is queued comes first");
        }
    }

    /// Puts a close_notify into the replies as the protocol allows at this point, which in a resumed TLS 1.2 handshake
    /// is not at all; the client just leaves. `held` are the records that rustls still points into.
    pub(super) fn close_notify(&mut self, held: &mut [u8], replies: &mut Vec<u8>) {
        if self.connection.queue_close_notify(held) {
            self.drain(replies, false);
        } else if self.connection.role() == Role::Server && !self.is_encrypting() {
            replies.extend_from_slice(&PLAIN_CLOSE_NOTIFY);
        }
    }

    /// Takes what the callbacks have heard about this client.
    fn note_overheard(&mut self) {
        if let Some(hearing) = &mut self.hearing {
            hearing.note();
        }
    }

    /// Whether what a server sends in the middle of a handshake is encrypted already.
    fn is_encrypting(&self) -> bool {
        let connection = self.connection.common();
        match connection.protocol_version() {
            None => false,
            // From the ServerHello on, which is where the group is settled.
            Some(rustls::ProtocolVersion::TLSv1_3) => connection.negotiated_key_exchange_group().is_some(),
            // A full handshake ends with our first encrypted message; a resumed one starts with it.
            Some(_) => connection.handshake_kind() == Some(rustls::HandshakeKind::Resumed),
        }
    }

    /// The name that a client asked for, in lower case, as soon as its ClientHello is read.
    pub(super) fn server_name(&self) -> Option<&str> {
        self.hearing.as_ref()?.heard.server_name.as_deref()
    }

    /// Who a client is, as its certificate says: once that is verified, also when the rules then refuse it.
    pub(super) fn client_identity(&self) -> Option<Box<str>> {
        let hearing = self.hearing.as_ref()?;
        let certificate = self.connection.common().peer_certificates().and_then(<[_]>::first);
        certificate.and_then(identity_of).or_else(|| hearing.heard.refused.clone())
    }

    /// The connection behind the handshake, which is over. None when the library does not give the keys away.
    pub(super) fn into_traffic(self) -> Option<Traffic> {
        let summary = Summary::of(self.connection.common(), self.server_name())?;
        let identity = self.client_identity();
        let certificate = self.connection.common().peer_certificates().and_then(<[_]>::first);
        let names = self.hearing.as_ref().and(certificate).and_then(names_of);
        let (role, suite) = (self.connection.role(), self.connection.common().negotiated_cipher_suite()?);
        let (secrets, schedule) = self.connection.into_secrets().ok()?;
        Some(Traffic::new(role, suite, secrets, schedule, summary, identity)?.of_client(names))
    }
}

/// An alert record: level warning, close_notify (RFC 8446, section 6).
const PLAIN_CLOSE_NOTIFY: [u8; 7] = [0x15, 0x03, 0x03, 0x00, 0x02, alert::WARNING, alert::CLOSE_NOTIFY];
