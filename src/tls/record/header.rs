//! A record's header: its type, a version, the length of what follows (RFC 8446, section 5.1).

use crate::tls::alert::Fault;
use crate::tls::policy::Version;

/// Content types (RFC 8446, appendix B.1).
pub(in crate::tls) const ALERT: u8 = 21;
pub(in crate::tls) const HANDSHAKE: u8 = 22;
pub(in crate::tls) const APPLICATION_DATA: u8 = 23;

pub(in crate::tls) const HEADER_LEN: usize = 5;
/// The most plaintext in one record (RFC 8446, section 5.1; RFC 5246, section 6.2.1).
pub(in crate::tls) const PLAINTEXT_MAX: usize = 16 * 1024;
/// How much longer ciphertext may be (RFC 8446, section 5.2; RFC 5246, section 6.2.3).
const EXPANSION_MAX_13: usize = 256;
const EXPANSION_MAX_12: usize = 2048;

/// The length of the record at the front of `bytes`, or of its header while that is not complete.
pub(in crate::tls) fn record_len(bytes: &[u8]) -> usize {
    match bytes {
        [_, _, _, high, low, ..] => HEADER_LEN + usize::from(u16::from_be_bytes([*high, *low])),
        _ => HEADER_LEN,
    }
}

/// Whether `bytes` start with a whole record.
pub(in crate::tls) fn has_record(bytes: &[u8]) -> bool {
    bytes.len() >= HEADER_LEN && bytes.len() >= record_len(bytes)
}

/// Judges the header of a sealed record, or as much of it as is there, before the rest of the record is waited for.
///
/// TLS 1.3 seals all but the alerts of a client that has not got the keys, so that each record looks like application
/// data, and has its receiver ignore the version.
pub(in crate::tls) fn check_header(version: Version, bytes: &[u8]) -> Result<(), Fault> {
    let expansion_max = match (version, bytes) {
        (Version::Tls13, [] | [APPLICATION_DATA, ..]) => EXPANSION_MAX_13,
        (Version::Tls12, [] | [ALERT | HANDSHAKE | APPLICATION_DATA]) => EXPANSION_MAX_12,
        (Version::Tls12, [ALERT | HANDSHAKE | APPLICATION_DATA, major, ..]) => {
            if *major != 3 {
                return Err(Fault::malformed());
            }
            EXPANSION_MAX_12
        }
        _ => return Err(Fault::unexpected()),
    };
    if record_len(bytes) > HEADER_LEN + PLAINTEXT_MAX + expansion_max {
        return Err(Fault::overflow());
    }
    Ok(())
}
