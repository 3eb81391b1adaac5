//! One TLS connection: ciphertext in, plaintext and ready ciphertext out.
//!
//! The handshake and then the traffic do the protocol; this file does the bytes. It hands over one record at a time, in
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

use super::alert::{self, Fault};
use super::client_names::ClientNames;
use super::connection::{Connection, Role};
use super::failure::Failure;
use super::handshake::Handshake;
use super::overheard::Overheard;
use super::record::{has_record, record_len};
use super::summary::{HandshakeSort, Summary};
use super::traffic::{Heard, Traffic};
use crate::pool::{Pool, SendBuf};

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
    role: Role,
    phase: Phase,
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

/// Where a connection is. Boxed, so that what only a handshake needs is freed at its end.
enum Phase {
    Handshake(Box<Handshake>),
    Traffic(Box<Traffic>),
    /// The library has not given the keys of a handshake away: the connection has failed.
    Lost,
}

impl Engine {
    /// In the server's role: it waits for the client's hello.
    pub(super) fn server(connection: UnbufferedServerConnection, overheard: Arc<Overheard>) -> Self {
        Self::new(Role::Server, Handshake::new(Connection::Server(connection), Some(overheard)))
    }

    /// In the client's role: the hello is in the replies.
    pub(super) fn client(connection: UnbufferedClientConnection) -> Self {
        let mut handshake = Handshake::new(Connection::Client(connection), None);
        let mut hello = Vec::new();
        handshake.drain(&mut hello, false);
        Self { replies: hello, ..Self::new(Role::Client, handshake) }
    }

    fn new(role: Role, handshake: Handshake) -> Self {
        Self {
            role,
            phase: Phase::Handshake(Box::new(handshake)),
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

    /// Judges the start of a record, so that one that could never be accepted fails at its header.
    fn check_unfinished(
        &mut self,
        records: &mut [u8],
        pool: &mut Pool,
        plaintext: &mut impl FnMut(&mut Pool, &[u8]),
    ) -> Result<(), Failure> {
        if let Phase::Traffic(traffic) = &self.phase {
            let checked = traffic.check_unfinished(records);
            return checked.map_err(|fault| self.fail(fault));
        }
        if records.len() > self.held {
            self.process(records, pool, plaintext)?;
        }
        Ok(())
    }

    /// Notes how much rustls holds on to, which a peer that never ends its message must not grow for ever.
    fn hold(&mut self, held: usize) -> Result<(), Failure> {
        self.held = held;
        if held > HELD_BYTES_MAX
            && let Phase::Handshake(handshake) = &mut self.phase
        {
            let failure = handshake.refuse(Failure::Malformed, held, &mut self.replies, self.closed);
            self.failure = Some(failure);
            return Err(failure);
        }
        Ok(())
    }

    /// Serves `records`, one of which is new, and gives how many bytes at the front are done with.
    fn process(
        &mut self,
        records: &mut [u8],
        pool: &mut Pool,
        plaintext: &mut impl FnMut(&mut Pool, &[u8]),
    ) -> Result<usize, Failure> {
        match &mut self.phase {
            Phase::Traffic(traffic) => {
                let heard = traffic.open(records, &mut self.replies, self.closed, |bytes| plaintext(pool, bytes));
                match heard {
                    Ok(Heard::More) => {}
                    Ok(Heard::Closed) => self.peer_closed = true,
                    Err(fault) => return Err(self.fail(fault)),
                }
                Ok(records.len())
            }
            Phase::Handshake(handshake) => {
                let processed = handshake.process(records, &mut self.replies, self.closed);
                let done = processed.inspect_err(|failure| self.failure = Some(*failure))?;
                if handshake.is_over() {
                    self.begin_traffic().map_err(|fault| self.fail(fault))?;
                    if done < records.len() {
                        // A message behind the Finished in its record, where the keys change.
                        return Err(self.fail(Fault::unexpected()));
                    }
                }
                Ok(done)
            }
            Phase::Lost => Err(self.fail(Fault::internal())),
        }
    }

    fn begin_traffic(&mut self) -> Result<(), Fault> {
        let Phase::Handshake(handshake) = std::mem::replace(&mut self.phase, Phase::Lost) else {
            return Err(Fault::internal());
        };
        self.phase = Phase::Traffic(Box::new(handshake.into_traffic().ok_or(Fault::internal())?));
        Ok(())
    }

    /// Ends the open connection and sees to it that the peer is told.
    fn fail(&mut self, fault: Fault) -> Failure {
        if let (Phase::Traffic(traffic), Some(alert), false) = (&mut self.phase, fault.alert, self.closed) {
            traffic.seal_alert(alert::FATAL, alert, &mut self.replies);
        }
        self.failure = Some(fault.failure);
        fault.failure
    }

    /// How many received bytes wait for the rest of their record or message, or for budget.
    #[must_use]
    pub fn carried_bytes(&self) -> usize {
        let of_message = if let Phase::Traffic(traffic) = &self.phase { traffic.kept_bytes() } else { 0 };
        self.carry.len() + of_message
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
        let Phase::Traffic(traffic) = &mut self.phase else { panic!("sealed before the handshake's end") };
        assert!(!self.closed, "sealed behind a close_notify");
        out.append(&std::mem::take(&mut self.replies));
        let sealed = traffic.seal(plaintext, out);
        sealed.inspect_err(|&failure| {
            traffic.seal_alert(alert::WARNING, alert::CLOSE_NOTIFY, &mut self.replies);
            self.closed = true;
            self.failure = Some(failure);
        })
    }

    /// The room that [`Engine::seal`] needs for `plaintext_len` bytes, replies not taken yet included.
    #[must_use]
    pub fn sealed_len_max(&self, plaintext_len: usize) -> usize {
        let sealed = if let Phase::Traffic(traffic) = &self.phase { traffic.sealed_len_max(plaintext_len) } else { 0 };
        self.replies.len() + sealed
    }

    /// Puts a close_notify into the replies, after which nothing more is sent; once, and not after a failure, which
    /// has its own alert. In the middle of a handshake the server's goes out as the protocol allows at that point, which
    /// in a resumed TLS 1.2 handshake is not at all; the client just leaves.
    pub fn close_notify(&mut self) {
        if self.closed || self.failure.is_some() {
            return;
        }
        match &mut self.phase {
            Phase::Handshake(handshake) => {
                handshake.close_notify(&mut self.carry.data_mut()[..self.held], &mut self.replies);
            }
            Phase::Traffic(traffic) => traffic.seal_alert(alert::WARNING, alert::CLOSE_NOTIFY, &mut self.replies),
            Phase::Lost => {}
        }
        self.closed = true;
    }

    /// Which part we play.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Whether the handshake is still under way.
    #[must_use]
    pub const fn is_handshaking(&self) -> bool {
        !matches!(self.phase, Phase::Traffic(_))
    }

    /// Whether the client's hello has come to its end and was taken, in the server's role.
    #[must_use]
    pub fn has_heard_hello(&self) -> bool {
        if let Phase::Handshake(handshake) = &self.phase { handshake.has_heard_hello() } else { true }
    }

    /// Whether the peer has sent close_notify: nothing it sends from there on counts.
    #[must_use]
    pub const fn peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// What the handshake agreed on, once it is over.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        if let Phase::Traffic(traffic) = &self.phase { Some(traffic.summary().clone()) } else { None }
    }

    /// What of it metrics tell apart, once it is over.
    #[must_use]
    pub fn handshake_sort(&self) -> Option<HandshakeSort> {
        if let Phase::Traffic(traffic) = &self.phase { Some(traffic.summary().sort()) } else { None }
    }

    /// The name that a client asked for, in lower case, as soon as its ClientHello is read.
    #[must_use]
    pub fn server_name(&self) -> Option<&str> {
        match &self.phase {
            Phase::Handshake(handshake) => handshake.server_name(),
            Phase::Traffic(traffic) => traffic.summary().server_name.as_deref(),
            Phase::Lost => None,
        }
    }

    /// Who a client is, as its certificate says: once that is verified, also when the rules then refuse it.
    #[must_use]
    pub fn client_identity(&self) -> Option<Box<str>> {
        match &self.phase {
            Phase::Handshake(handshake) => handshake.client_identity(),
            Phase::Traffic(traffic) => traffic.client_identity().map(Into::into),
            Phase::Lost => None,
        }
    }

    /// The names in a client's certificate, once the handshake is over; none when it has shown none.
    #[must_use]
    pub fn client_names(&self) -> Option<ClientNames> {
        if let Phase::Traffic(traffic) = &self.phase { traffic.client_names().cloned() } else { None }
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
