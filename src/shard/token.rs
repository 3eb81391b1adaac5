//! Names for a shard's operations: which session or line, which side, what for.

use crate::io::Token;
use crate::session::Side;
use crate::slots::Id;

/// What an operation of a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Bytes from this side.
    Receive(Side),
    /// Bytes to this side.
    Send(Side),
    /// Reach the backend.
    Connect,
}

/// What an operation of a line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinePurpose {
    Receive,
    Send,
    Connect,
}

/// Whose an operation is, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Session(SessionId, Purpose),
    /// A connection that sessions share.
    Line(Id, LinePurpose),
}

/// One session's place in the table of its shard and which of the place's successive users it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId {
    /// The place.
    pub slot: u32,
    /// Which of its users, counted from 0.
    pub generation: u32,
}

/// For operations that nobody waits for.
pub(super) const NO_ONE: Token = Token(0);

/// Slots a token can name: 24 bits.
pub(super) const SLOTS_MAX: usize = 1 << 24;

/// ```text
/// | generation: 32 | slot: 24 | purpose: 8 |
/// ```
const fn word(generation: u32, slot: u32, purpose: u64) -> Token {
    Token((generation as u64) << 32 | (slot as u64) << 8 | purpose)
}

pub(super) const fn encode(id: SessionId, purpose: Purpose) -> Token {
    let purpose = match purpose {
        Purpose::Receive(Side::Client) => 1,
        Purpose::Receive(Side::Backend) => 2,
        Purpose::Send(Side::Client) => 3,
        Purpose::Send(Side::Backend) => 4,
        Purpose::Connect => 5,
    };
    word(id.generation, id.slot, purpose)
}

pub(super) const fn encode_line(id: Id, purpose: LinePurpose) -> Token {
    let purpose = match purpose {
        LinePurpose::Receive => 6,
        LinePurpose::Send => 7,
        LinePurpose::Connect => 8,
    };
    word(id.serial, id.slot, purpose)
}

/// The inverse of both; `None` for a token that is nobody's.
#[expect(clippy::cast_possible_truncation, reason = "each field is cut out of the word at its width")]
pub(super) const fn decode(token: Token) -> Option<Owner> {
    let slot = (token.0 >> 8) as u32 & 0x00ff_ffff;
    let generation = (token.0 >> 32) as u32;
    let (session, line) = (SessionId { slot, generation }, Id { slot, serial: generation });
    Some(match token.0 as u8 {
        1 => Owner::Session(session, Purpose::Receive(Side::Client)),
        2 => Owner::Session(session, Purpose::Receive(Side::Backend)),
        3 => Owner::Session(session, Purpose::Send(Side::Client)),
        4 => Owner::Session(session, Purpose::Send(Side::Backend)),
        5 => Owner::Session(session, Purpose::Connect),
        6 => Owner::Line(line, LinePurpose::Receive),
        7 => Owner::Line(line, LinePurpose::Send),
        8 => Owner::Line(line, LinePurpose::Connect),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_gives_back_what_went_in() {
        let id = SessionId { slot: 0x00ff_ffff, generation: 0xffff_fffe };
        assert_eq!(encode(id, Purpose::Connect), Token(0xffff_fffe_ffff_ff05));
        for purpose in [
            Purpose::Receive(Side::Client),
            Purpose::Receive(Side::Backend),
            Purpose::Send(Side::Client),
            Purpose::Send(Side::Backend),
            Purpose::Connect,
        ] {
            assert_eq!(decode(encode(id, purpose)), Some(Owner::Session(id, purpose)));
        }
        let line = Id { slot: 0x00ff_ffff, serial: 0xffff_fffe };
        assert_eq!(encode_line(line, LinePurpose::Connect), Token(0xffff_fffe_ffff_ff08));
        for purpose in [LinePurpose::Receive, LinePurpose::Send, LinePurpose::Connect] {
            assert_eq!(decode(encode_line(line, purpose)), Some(Owner::Line(line, purpose)));
        }
    }

    #[test]
    fn a_ring_names_nobody() {
        assert_eq!(decode(Token(0)), None);
    }
}
