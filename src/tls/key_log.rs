//! The secrets of connections in a file, for whoever must see what a recording of the wire holds.
//!
//! The file has the NSS key log format, which Wireshark reads (`SSLKEYLOGFILE` elsewhere): label, client random and
//! secret, one line each. This is the one place where secrets leave the program, and the operator has to ask for it
//! twice.

use std::fmt;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustls::KeyLog;
use zeroize::Zeroizing;

use crate::hex;

/// A label, a client random and the longest secret.
const LINE_BYTES: usize = 256;

/// A key log. It opens every connection that was made while it was in use.
pub struct KeyLogFile(File);

impl KeyLogFile {
    /// Opens the file, which is made where there is none, and makes its owner the only one who can read it. What is in
    /// it stays.
    ///
    /// # Errors
    /// What the system says; a symbolic link is refused.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file =
            OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(Self(file))
    }
}

impl KeyLog for KeyLogFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut line = Zeroizing::new(String::with_capacity(LINE_BYTES));
        line.push_str(label);
        for bytes in [client_random, secret] {
            line.push(' ');
            hex::encode_onto(&mut line, bytes);
        }
        line.push('\n');
        // One write, so that lines of several shards do not mix. A full disk costs the log its use and nobody else.
        let _ = (&self.0).write_all(line.as_bytes());
    }
}

impl fmt::Debug for KeyLogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyLogFile")
    }
}
