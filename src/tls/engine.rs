//! One TLS connection: ciphertext in, plaintext and ready ciphertext out.
//!
//! rustls's unbuffered connection does the protocol; this file does the bytes. It hands over one record at a time, in
//! place, and keeps what is not a whole record yet.
//!
//! ```text
//! input:  | end of a record | record | record | start of a record |
//!           copied to the     opened in place    copied to an
//!           carry, opened                        empty carry
//!           there
//! ```

use std::fmt;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::EncryptError;

use super::client_verifier::identity_of;
use super::connection::{Connection, Next, Role};
use super::failure::Failure;
use super::overheard::{Hearing, Overheard};
use super::summary::Summary;
use crate::pool::{Pool, SendBuf};

/// A record's header: its type, a version, the length of what follows (RFC 8446, section 5.1).
const HEADER_LEN: usize = 5;
/// The most plaintext in one record (RFC 8446, section 5.1).
const PLAINTEXT_MAX: usize = 16 * 1024;
/// What a record adds to its plaintext at most: header, TLS 1.2's explicit nonce, tag. TLS 1.3 adds a byte for the
/// content type and no nonce.
const OVERHEAD_MAX: usize = HEADER_LEN + 8 + 16;
/// Room for the two messages that rustls may put in front of sealed plaintext: the answer to a key update and a key
/// update of its own. Each is a record with 5 bytes of plaintext.
const KEY_UPDATES_LEN_MAX: usize = 2 * (5 + OVERHEAD_MAX);
/// The most bytes of records held for a handshake message that spans them. With one record more they fit the pool's
/// middle class; a ClientHello with post-quantum shares has less than 2 KiB, a chain of post-quantum certificates 20.
const HELD_BYTES_MAX: usize = 48 * 1024;

/// What became of the ciphertext given to [`Engine::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenStatus {
    /// All whole records are opened.
    Drained,
    /// The budget of records is used up and at least one whole record is carried: call again with an empty input.
    Budget,
    /// The peer has sent close_notify; all before it is delivered, and all behind it is ignored.
    Closed,
    /// The connection is over. What is to be sent, an alert most often, is in the replies.
    Failed(Failure),
}

/// The outcome of [`Engine::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Records opened, of all kinds.
    pub records: usize,
    /// Where that leaves the connection.
    pub status: OpenStatus,
}

/// One TLS connection in either role, without a socket.
///
/// What the caller owes it:
/// 1. Ciphertext goes to [`Engine::open`] in the order received, all of it.
/// 2. After each call, what [`Engine::take_replies`] gives is sent before anything sealed later; also after a failure.
/// 3. [`Engine::seal`] is called only after the handshake and before [`Engine::close_notify`], with room to seal into.
/// 4. [`Engine::release`] is called with the pool that was given to `open` before the engine is dropped.
pub struct Engine {
    connection: Connection,
    /// What the callbacks hear about a client; there is none in the client's role.
    hearing: Option<Hearing>,
    /// Records not opened yet, behind `held` bytes of such as are. Empty, and not the pool's, when there is neither.
    carry: SendBuf,
    /// How many bytes at the front of the carry rustls has read and still points into: the records of a handshake
    /// message whose end is not here yet. It must find them at the same place in each call.
    held: usize,
    replies: Vec<u8>,
    /// The peer's close_notify is here.
    peer_closed: bool,
    /// Our close_notify is in the replies, or was: nothing may follow it.
    closed: bool,
    failure: Option<Failure>,
}

impl Engine {
    /// In the server's role: it waits for the client's hello.
    pub(super) fn server(connection: UnbufferedServerConnection, overheard: Arc<Overheard>) -> Self {
        Self::new(Connection::Server(connection), Some(Hearing::new(overheard)))
    }

    /// In the client's role: the hello is in the replies.
    pub(super) fn client(connection: UnbufferedClientConnection) -> Self {
        let mut engine = Self::new(Connection::Client(connection), None);
        engine.drain_replies();
        engine
    }

    fn new(connection: Connection, hearing: Option<Hearing>) -> Self {
        Self {
            connection,
            hearing,
            carry: SendBuf::default(),
            held: 0,
            replies: Vec::new(),
            peer_closed: false,
            closed: false,
            failure: None,
        }
    }

    /// Takes all of `input`, ciphertext as received, and opens at most `records_max` records of it and of what was
    /// carried. Each record's plaintext goes to `plaintext`, which
    /// may take buffers of `pool`.
    ///
    /// Records are opened in place. What is left, an unfinished record or what the budget does not cover, is carried
    /// in a buffer of `pool` until a later call; whole records stay behind only under [`OpenStatus::Budget`].
    pub fn open(
        &mut self,
        input: &mut [u8],
        records_max: usize,
        pool: &mut Pool,
        mut plaintext: impl FnMut(&mut Pool, &[u8]),
    ) -> Opened {
        if let Some(failure) = self.failure {
            return Opened { records: 0, status: OpenStatus::Failed(failure) };
        }
        if self.peer_closed {
            return Opened { records: 0, status: OpenStatus::Closed };
        }
        let mut budget = records_max;
        let mut carry = std::mem::take(&mut self.carry);
        let mut outcome = Ok(());
        match self.open_carried(&mut carry, input, &mut budget, pool, &mut plaintext) {
            Ok(rest) if carry.is_empty() && !self.peer_closed => {
                outcome = self.open_in_place(&mut carry, rest, &mut budget, pool, &mut plaintext);
            }
            Ok(_) => {}
            Err(failure) => outcome = Err(failure),
        }
        let status = match outcome {
            Err(failure) => OpenStatus::Failed(failure),
            Ok(()) if self.peer_closed => OpenStatus::Closed,
            Ok(()) if has_record(carry.data().get(self.held..).unwrap_or_default()) => OpenStatus::Budget,
            Ok(()) => OpenStatus::Drained,
        };
        if carry.is_empty() || self.peer_closed || self.failure.is_some() {
            self.held = 0;
            pool.give(carry);
        } else {
            self.carry = carry;
        }
        Opened { records: records_max - budget, status }
    }

    /// Opens what is carried, completing its last record from `input`, until the carry is empty or input or budget
    /// end. Gives what is left of the input; nothing is, unless the carry is empty.
    fn open_carried<'i>(
        &mut self,
        carry: &mut SendBuf,
        mut input: &'i mut [u8],
        budget: &mut usize,
        pool: &mut Pool,
        plaintext: &mut impl FnMut(&mut Pool, &[u8]),
    ) -> Result<&'i mut [u8], Failure> {
        while !carry.is_empty() && !self.peer_closed {
            let here = carry.len() - self.held;
            let needed = record_len(&carry.data()[self.held..]);
            if here < needed {
                let (piece, rest) = input.split_at_mut(input.len().min(needed - here));
                if piece.is_empty() {
                    self.check_unfinished(carry.data_mut(), pool, plaintext)?;
                    return Ok(rest);
                }
                pool.grow(carry, piece.len());
                carry.append(piece);
                input = rest;
            } else if *budget == 0 {
                pool.grow(carry, input.len());
                carry.append(input);
                return Ok(&mut []);
            } else {
                *budget -= 1;
                let end = self.held + needed;
                let discard = self.process(&mut carry.data_mut()[..end], pool, plaintext)?;
                carry.consume(discard);
                self.hold(end - discard)?;
            }
        }
        Ok(input)
    }

    /// Opens records in `input` until it or the budget ends, and carries the rest.
    fn open_in_place(
        &mut self,
        carry: &mut SendBuf,
        input: &mut [u8],
        budget: &mut usize,
        pool: &mut Pool,
        plaintext: &mut impl FnMut(&mut Pool, &[u8]),
    ) -> Result<(), Failure> {
        let mut start = 0;
        while !self.peer_closed && *budget > 0 && has_record(&input[start + self.held..]) {
            *budget -= 1;
            let end = start + self.held + record_len(&input[start + self.held..]);
            let discard = self.process(&mut input[start..end], pool, plaintext)?;
            start += discard;
            self.hold(end - start)?;
        }
        let rest = &mut input[start..];
        if rest.is_empty() || self.peer_closed {
            return Ok(());
        }
        if !has_record(&rest[self.held..]) {
            self.check_unfinished(rest, pool, plaintext)?;
        }
        pool.grow(carry, rest.len());
        carry.append(rest);
        Ok(())
    }

    /// Shows rustls the start of a record, so that one that could never be accepted fails at its header.
    fn check_unfinished(
        &mut self,
        records: &mut [u8],
        pool: &mut Pool,
        plaintext: &mut impl FnMut(&mut Pool, &[u8]),
    ) -> Result<(), Failure> {
        if records.len() > self.held {
            self.process(records, pool, plaintext)?;
        }
        Ok(())
    }

    /// Notes how much rustls holds on to, which a peer that never ends its message must not grow for ever.
    fn hold(&mut self, held: usize) -> Result<(), Failure> {
        self.held = held;
        if held > HELD_BYTES_MAX { Err(self.refuse(Failure::Malformed, held)) } else { Ok(()) }
    }

    /// Hands `records` to rustls until it wants no more, and gives how many bytes at the front it is done with.
    fn process(
        &mut self,
        records: &mut [u8],
        pool: &mut Pool,
        plaintext: &mut impl FnMut(&mut Pool, &[u8]),
    ) -> Result<usize, Failure> {
        let mut done = 0;
        if self.is_handshaking()
            && let Some(hearing) = &self.hearing
        {
            hearing.remind();
        }
        loop {
            let step = self.connection.step(&mut records[done..], &mut self.replies, self.closed, |bytes| {
                plaintext(pool, bytes);
            });
            done += step.discard;
            match step.next {
                // A record of traffic leaves nothing else to do, which spares a second call for each.
                Ok(Next::Traffic) if done == records.len() => return Ok(done),
                Ok(Next::Traffic | Next::Again) => {}
                Ok(Next::PeerClosed) => self.peer_closed = true,
                Ok(Next::Idle) => break,
                Err(error) => {
                    self.note_overheard();
                    let mut failure = Failure::of(&error, self.role());
                    if failure == Failure::UnknownServerName && self.server_name().is_none() {
                        failure = Failure::NoServerName;
                    }
                    return Err(self.refuse(failure, records.len()));
                }
            }
        }
        self.note_overheard();
        Ok(done)
    }

    /// Ends the connection with `failure` and sees to it that the peer is told. `seen` is how many bytes rustls has
    /// been shown in its last call.
    fn refuse(&mut self, failure: Failure, seen: usize) -> Failure {
        let replied = self.replies.len();
        self.drain_replies();
        let told = self.replies.len() > replied || matches!(failure, Failure::AlertReceived(_)) || self.closed;
        if !told {
            // rustls ends some violations without an alert. A record of type 0, wherever it looks, gets one.
            let mut unacceptable = vec![0; seen + HEADER_LEN];
            let _ = self.connection.step(&mut unacceptable, &mut self.replies, self.closed, |_| {});
            self.drain_replies();
        }
        failure.mend_alert(&mut self.replies);
        self.failure = Some(failure);
        failure
    }

    /// Moves what rustls has queued to the replies. It reads no input meanwhile, so none needs to be shown.
    fn drain_replies(&mut self) {
        while self.connection.common().wants_write() {
            let step = self.connection.step(&mut [], &mut self.replies, self.closed, |_| {});
            assert!(matches!(step.next, Ok(Next::Again)), "what is queued comes first");
        }
    }

    /// Takes what the callbacks have heard about this client.
    fn note_overheard(&mut self) {
        if self.is_handshaking()
            && let Some(hearing) = &mut self.hearing
        {
            hearing.note();
        }
    }

    /// How many received bytes wait for the rest of their record or for budget.
    #[must_use]
    pub const fn carried_bytes(&self) -> usize {
        self.carry.len()
    }

    /// Whether there is something to send besides sealed plaintext.
    #[must_use]
    pub const fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// What the protocol itself wants sent: handshake messages, tickets, alerts. It is ready ciphertext, and goes out
    /// before anything sealed later.
    #[must_use]
    pub fn take_replies(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.replies)
    }

    /// Seals `plaintext` into the room of `out`, in records of 16 KiB; replies not taken yet and key updates go in
    /// front. Empty plaintext makes no record.
    ///
    /// # Errors
    /// [`Failure::KeysExhausted`], with a close_notify in the replies and nothing of `plaintext` sealed; or the failure
    /// that the connection has ended with before.
    ///
    /// # Panics
    /// When the caller breaks its word: during the handshake, after close_notify, or with less room than
    /// [`Engine::sealed_len_max`].
    pub fn seal(&mut self, plaintext: &[u8], out: &mut SendBuf) -> Result<(), Failure> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        assert!(!self.closed && !self.is_handshaking(), "sealed outside of the connection's open time");
        out.append(&self.take_replies());
        let held = &mut self.carry.data_mut()[..self.held];
        match self.connection.encrypt(held, plaintext, out.room_mut()) {
            Ok(written) => {
                out.fill(written);
                Ok(())
            }
            Err(EncryptError::EncryptExhausted) => {
                self.drain_replies();
                self.closed = true;
                self.failure = Some(Failure::KeysExhausted);
                Err(Failure::KeysExhausted)
            }
            Err(EncryptError::InsufficientSize(needed)) => {
                panic!("sealing {} bytes needs {} bytes of room", plaintext.len(), needed.required_size)
            }
        }
    }

    /// The room that [`Engine::seal`] needs for `plaintext_len` bytes, replies not taken yet included.
    #[must_use]
    pub fn sealed_len_max(&self, plaintext_len: usize) -> usize {
        self.replies.len() + KEY_UPDATES_LEN_MAX + plaintext_len + plaintext_len.div_ceil(PLAINTEXT_MAX) * OVERHEAD_MAX
    }

    /// Puts a close_notify into the replies, after which nothing more is sent; once, and not after a failure, which
    /// has its own alert. In the middle of a handshake the server's goes out as the protocol allows at that point, which
    /// in a resumed TLS 1.2 handshake is not at all; the client just leaves.
    pub fn close_notify(&mut self) {
        if self.closed || self.failure.is_some() {
            return;
        }
        let held = &mut self.carry.data_mut()[..self.held];
        if self.connection.queue_close_notify(held) {
            self.drain_replies();
        } else if self.role() == Role::Server && !self.is_encrypting() {
            self.replies.extend_from_slice(&PLAIN_CLOSE_NOTIFY);
        }
        self.closed = true;
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

    /// Which part we play.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.connection.role()
    }

    /// Whether the handshake is still under way.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.connection.common().is_handshaking()
    }

    /// Whether the peer has sent close_notify: nothing it sends from there on counts.
    #[must_use]
    pub const fn peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// What the handshake agreed on, once it is over.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        Summary::of(self.connection.common(), self.server_name())
    }

    /// The name that a client asked for, in lower case, as soon as its ClientHello is read.
    #[must_use]
    pub fn server_name(&self) -> Option<&str> {
        self.hearing.as_ref()?.heard.server_name.as_deref()
    }

    /// Who a client is, as its certificate says: once that is verified, also when the rules then refuse it.
    #[must_use]
    pub fn client_identity(&self) -> Option<Box<str>> {
        let hearing = self.hearing.as_ref()?;
        let certificate = self.connection.common().peer_certificates().and_then(<[_]>::first);
        certificate.and_then(identity_of).or_else(|| hearing.heard.refused.clone())
    }

    /// Gives the carry back to the pool that it came from and drops what is in it. The engine is good for nothing
    /// afterwards.
    pub fn release(&mut self, pool: &mut Pool) {
        self.peer_closed = true;
        self.closed = true;
        self.held = 0;
        pool.give(std::mem::take(&mut self.carry));
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("role", &self.role())
            .field("handshaking", &self.is_handshaking())
            .field("carried_bytes", &self.carried_bytes())
            .field("replies_bytes", &self.replies.len())
            .field("peer_closed", &self.peer_closed)
            .field("closed", &self.closed)
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}

/// An alert record: level warning, close_notify (RFC 8446, section 6).
const PLAIN_CLOSE_NOTIFY: [u8; 7] = [0x15, 0x03, 0x03, 0x00, 0x02, 0x01, 0x00];

/// The length of the record at the front of `bytes`, or of its header while that is not complete.
fn record_len(bytes: &[u8]) -> usize {
    match bytes {
        [_, _, _, high, low, ..] => HEADER_LEN + usize::from(u16::from_be_bytes([*high, *low])),
        _ => HEADER_LEN,
    }
}

/// Whether `bytes` start with a whole record.
fn has_record(bytes: &[u8]) -> bool {
    bytes.len() >= HEADER_LEN && bytes.len() >= record_len(bytes)
}
