//! What a peer's first bytes tell: whether it speaks plain RESP or TLS, and whether its first record is all there.

/// Whether a connection's first bytes are plain RESP: the start of an array of bulk strings or of an inline command,
/// and neither a TLS record nor an SSL 2 hello.
///
/// One byte is enough to ask with; more make the answer surer. HTTP counts as plaintext, too: to a Redis server it is
/// an inline command.
#[must_use]
pub fn looks_like_plaintext(first: &[u8]) -> bool {
    match first {
        [] => false,
        [b'*', rest @ ..] => rest.first().is_none_or(u8::is_ascii_digit),
        [letter, ..] if letter.is_ascii_alphabetic() => first
            .iter()
            .take(INLINE_BYTES_LOOKED_AT)
            .take_while(|&&byte| byte != b'\r' && byte != b'\n')
            .all(|&byte| byte == b'\t' || (b' '..=b'~').contains(&byte)),
        _ => false,
    }
}

/// Whether a server's first bytes are plain text: RESP, HTTP or a banner of whatever kind. Each begins with a printable
/// character, and no TLS record does.
#[must_use]
pub fn is_plaintext_reply(first: &[u8]) -> bool {
    first.first().is_some_and(|byte| (b' '..=b'~').contains(byte))
}

/// Whether these bytes, a connection's first, are a part of a TLS handshake record whose rest is still to come (RFC 8446,
/// section 5.1). `false` also for what can be no such record.
#[must_use]
pub fn is_unfinished_record(first: &[u8]) -> bool {
    const HANDSHAKE: u8 = 22;
    const LENGTH_MAX: usize = 1 << 14;
    match first {
        [HANDSHAKE, _, _, high, low, rest @ ..] => {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            length <= LENGTH_MAX && rest.len() < length
        }
        _ => first.len() < 5 && first.first() == Some(&HANDSHAKE),
    }
}

/// The longest command name and a space fit; arguments behind it may be anything.
const INLINE_BYTES_LOOKED_AT: usize = 16;

#[cfg(test)]
mod tests {
    use super::{is_plaintext_reply, is_unfinished_record, looks_like_plaintext};

    #[test]
    fn a_resp_array_an_inline_command_and_http_are_plaintext() {
        for first in
            [&b"*1\r\n$4\r\nPING\r\n"[..], b"*", b"*3", b"PING\r\n", b"P", b"auth secret\r\n", b"GET / HTTP/1.1\r\n"]
        {
            assert!(looks_like_plaintext(first), "{first:?}");
        }
    }

    #[test]
    fn a_tls_record_an_ssl2_hello_and_junk_are_not_plaintext() {
        for first in [
            &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01][..],
            &[0x16],
            &[0x80, 0x2e, 0x01, 0x03, 0x01],
            b"",
            b"*x",
            b"\r\n\r\n\0\r\nQUIT\n",
            b"SSH\x01\x02",
        ] {
            assert!(!looks_like_plaintext(first), "{first:?}");
        }
    }

    #[test]
    fn what_a_server_says_is_plaintext_or_a_tls_record() {
        for first in [&b"-ERR unknown command\r\n"[..], b"-", b"+OK\r\n", b"HTTP/1.1 400 Bad Request\r\n", b"SSH-2.0-x"]
        {
            assert!(is_plaintext_reply(first), "{first:?}");
        }
        // Change cipher spec, alert, handshake, application data.
        for first in [&[0x14, 0x03, 0x03][..], &[0x15], &[0x16, 0x03, 0x03, 0x00, 0x7a], &[0x17], b""] {
            assert!(!is_plaintext_reply(first), "{first:?}");
        }
    }

    #[test]
    fn a_record_is_finished_with_its_last_byte() {
        let record = [22, 3, 1, 0, 2, 1, 0];
        for end in 1..7 {
            assert!(is_unfinished_record(&record[..end]), "{end}");
        }
        // Whole, whole with more behind it, nothing, an alert, too long for a record.
        for other in [&record[..], &[22, 3, 1, 0, 0, 22], b"", &[21, 3, 1], &[22, 3, 1, 0x40, 1]] {
            assert!(!is_unfinished_record(other), "{other:?}");
        }
    }
}
