//! What a side of a session speaks: plain bytes or TLS. The relay between the sides knows only plaintext.

use crate::pool::SendBuf;
use crate::tls::{Engine, Failure};

/// Why plaintext could not be sealed.
pub type SealError = Failure;

/// The wire form of one side.
#[derive(Debug)]
pub enum Transport {
    /// Bytes as they are.
    Plain,
    /// TLS records. Boxed: a plain side must not carry the size of a TLS state.
    Tls(Box<Engine>),
}

impl Transport {
    /// Whether the wire carries plaintext.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        matches!(self, Self::Plain)
    }

    /// How many bytes `plaintext` bytes can take on the wire at most.
    #[must_use]
    pub fn sealed_len_max(&self, plaintext: usize) -> usize {
        match self {
            Self::Plain => plaintext,
            Self::Tls(engine) => engine.sealed_len_max(plaintext),
        }
    }

    /// Appends `plaintext` to `out` as it goes on the wire. `out` has room for [`Transport::sealed_len_max`].
    pub fn seal(&mut self, plaintext: &[u8], out: &mut SendBuf) -> Result<(), SealError> {
        match self {
            Self::Plain => {
                out.append(plaintext);
                Ok(())
            }
            Self::Tls(engine) => engine.seal(plaintext, out),
        }
    }
}
