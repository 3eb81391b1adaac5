//! What ticket keys derive from: made at start, or read from a file that hosts share.

use std::fmt;
use std::path::{Path, PathBuf};

use aws_lc_rs::rand;
use zeroize::Zeroizing;

use super::identity_error::IdentityError;
use crate::files::{self, Contents};
use crate::hex;

/// The configuration key that names the file.
const ROLE: &str = "ticket_secret";
/// What such a file holds.
const FORM: &str = "64 hexadecimal digits, which `openssl rand -hex 32` makes";
/// The digits, and room for blanks around them.
const FILE_BYTES_MAX: usize = 256;

/// What ticket keys derive from. Whoever has it can read each TLS 1.2 session that has a ticket, and pass for the server
/// towards whoever resumes one of TLS 1.3.
pub struct TicketSecret {
    bytes: Zeroizing<[u8; 32]>,
    file: Option<PathBuf>,
    open_to_all: bool,
}

impl TicketSecret {
    /// A fresh secret. Panics when the system has no randomness to give.
    #[must_use]
    pub fn random() -> Self {
        let mut bytes = Zeroizing::new([0; 32]);
        rand::fill(&mut *bytes).expect("the random generator fails");
        Self { bytes, file: None, open_to_all: false }
    }

    /// A secret shared with other processes or hosts: 32 bytes of a random generator.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self { bytes: Zeroizing::new(bytes), file: None, open_to_all: false }
    }

    /// Reads a secret from a file: 64 hexadecimal digits and nothing else but blanks around them.
    ///
    /// # Errors
    /// When the file cannot be read or holds something else.
    pub fn load(path: &Path) -> Result<Self, IdentityError> {
        let unreadable = |error| IdentityError::Unreadable { role: ROLE, path: path.into(), error };
        let Contents { bytes: text, mode } = files::read(path, FILE_BYTES_MAX).map_err(unreadable)?;
        let digits = text.trim_ascii();
        let mut bytes = Zeroizing::new([0; 32]);
        if !hex::decode_into(digits, &mut *bytes) {
            let reason = format!("found {} bytes of something else; it must hold {FORM}", digits.len());
            return Err(IdentityError::Unfit { role: ROLE, path: path.into(), reason });
        }
        // Others than the file's owner and group may read or change it.
        let open_to_all = mode & 0o006 != 0;
        Ok(Self { bytes, file: Some(path.into()), open_to_all })
    }

    /// What is worth a warning.
    pub(super) fn warning(&self) -> Option<String> {
        let path = self.file.as_ref().filter(|_| self.open_to_all)?.display();
        Some(format!(
            "{ROLE} {path}: everybody on this machine may read or change it; restrict it with `chmod o-rw {path}`"
        ))
    }

    /// The secret itself.
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }
}

impl fmt::Debug for TicketSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketSecret").field("file", &self.file).finish_non_exhaustive()
    }
}
