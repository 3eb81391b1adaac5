//! Names for a shard's operations: which session, which side, what for.

use crate::io::Token;
use crate::session::Side;

/// What an operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Bytes from this side.
    Receive(Side),
    /// Bytes to this side.
    Send(Side),
    /// Reach the backend.
    Connect,
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
pub(super) const fn encode(id: SessionId, purpose: Purpose) -> Token {
    let purpose = match purpose {
        Purpose::Receive(Side::Client) => 1,
        Purpose::Receive(Side::Backend) => 2,
        Purpose::Send(Side::Client) => 3,
        Purpose::Send(Side::Backend) => 4,
        Purpose::Connect => 5,
    };
    Token((id.generation as u64) << 32 | (id.slot as u64) << 8 | purpose)
}

/// The inverse of [`encode`]; `None` for a token that is no session's.
#[expect(clippy::cast_possible_truncation, reason = "each field is cut out of the word at its width")]
pub(super) const fn decode(token: Token) -> Option<(SessionId, Purpose)> {
    let purpose = match token.0 as u8 {
        1 => Purpose::Receive(Side::Client),
        2 => Purpose::Receive(Side::Backend),
        3 => Purpose::Send(Side::Client),
        4 => Purpose::Send(Side::Backend),
        5 => Purpose::Connect,
        _ => return None,
    };
    let slot = (token.0 >> 8) as u32 & 0x00ff_ffff;
    Some((SessionId { slot, generation: (token.0 >> 32) as u32 }, purpose))
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
            assert_eq!(decode(encode(id, purpose)), Some((id, purpose)));
        }
    }

    #[test]
    fn a_ring_names_no_session() {
        assert_eq!(decode(Token(0)), None);
    }
}
