//! What a proxy in front says of a client before the client's first byte: a PROXY header.
//!
//! ```text
//!   accepted ──► header ──► TLS handshake, or what a plain client says
//!                  └──► none, malformed, late: closed without a word
//! ```
//!
//! Until it is complete nothing is said to the client, and nothing it says counts: whoever sends no header is not the
//! proxy that this listener is for.

use std::rc::Rc;

use super::close::CloseReason;
use super::transport::Transport;
use super::{Options, Phase, Refusal, Session, Turn};
use crate::wire::proxy::{self, Addresses};

impl Session {
    /// A session whose client is introduced by a header. Otherwise as [`Session::new`].
    #[must_use]
    pub fn behind_proxy(
        client: Transport,
        options: Rc<Options>,
        refusal: Option<Refusal>,
        turn: &mut Turn<'_>,
    ) -> Self {
        Self::in_phase(Phase::Introducing, client, options, refusal, turn)
    }

    /// Whether the header is still awaited.
    #[must_use]
    pub const fn is_introducing(&self) -> bool {
        matches!(self.phase, Phase::Introducing)
    }

    /// Whether the client of a TLS listener has said hello, and all of it.
    #[must_use]
    pub fn has_heard_hello(&self) -> bool {
        matches!(&self.client.transport, Transport::Tls(engine) if engine.has_heard_hello())
    }

    /// Takes the front of what has come from the client while its header is awaited, and says how many bytes that
    /// were. Those behind them are for [`Session::handle_received`], which also takes all of them.
    pub fn introduce(&mut self, bytes: &[u8], turn: &mut Turn<'_>) -> usize {
        if !self.is_introducing() {
            return 0;
        }
        let before = self.header.len();
        // A header seldom comes in pieces, and what is no header is not kept.
        let parsed = if before == 0 {
            proxy::parse(bytes)
        } else {
            let room = proxy::HEADER_BYTES_MAX - before;
            self.header.extend_from_slice(&bytes[..bytes.len().min(room)]);
            proxy::parse(&self.header)
        };
        self.last_moved = turn.now;
        let taken = match parsed {
            Ok(None) => {
                if before == 0 {
                    self.header.extend_from_slice(bytes);
                }
                bytes.len()
            }
            Ok(Some(header)) => {
                self.announced = header.addresses.map(Box::new);
                self.end_introduction(turn);
                header.len - before
            }
            Err(error) => {
                self.turn_away(CloseReason::ProxyHeaderInvalid(error), turn);
                bytes.len()
            }
        };
        self.client.received_bytes += taken as u64;
        taken
    }

    fn end_introduction(&mut self, turn: &mut Turn<'_>) {
        self.header = Vec::new();
        self.phase = Phase::Handshaking;
        if self.client.transport.is_plain() {
            self.admit(turn);
        }
    }

    /// Closes the connection without a word to whoever is on the other end.
    pub fn turn_away(&mut self, reason: CloseReason, turn: &mut Turn<'_>) {
        if !self.is_introducing() {
            return;
        }
        self.reason.get_or_insert(reason);
        self.header = Vec::new();
        self.client.transport = Transport::Plain;
        self.client.end_output(false, turn);
        self.linger(turn);
    }

    /// The ends of the client's connection to the proxy in front, once the header has told them.
    #[must_use]
    pub fn announced(&self) -> Option<Addresses> {
        self.announced.as_deref().copied()
    }
}
