//! Bytes as what a proxy in front says first.

use ringwall::wire::proxy::{HEADER_BYTES_MAX, parse};

/// What the beginnings of inputs are exchanged for: the byte that is drawn is almost never one of a signature.
const BEGINNINGS: [&[u8]; 6] =
    [b"", b"PROXY ", b"PROXY TCP4 ", b"PROXY TCP6 ", b"\r\n\r\n\0\r\nQUIT\n", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0"];

/// Reads `input` as a header, as it is and behind a beginning, and checks the bounds of what is said of it: at once,
/// and of each piece of it.
pub(crate) fn header(input: &[u8]) {
    let Some((&first, rest)) = input.split_first() else { return };
    let beginning = BEGINNINGS[usize::from(first) % BEGINNINGS.len()];
    let bytes = [beginning, rest].concat();
    let verdict = parse(&bytes);
    match verdict {
        Ok(Some(header)) => assert!(header.len <= bytes.len() && header.len <= HEADER_BYTES_MAX),
        Ok(None) => assert!(bytes.len() < HEADER_BYTES_MAX),
        Err(_) => {}
    }
    // What was said of fewer bytes stands.
    for len in 0..bytes.len() {
        match parse(&bytes[..len]) {
            Ok(None) => {}
            early => return assert_eq!(early, verdict),
        }
    }
}
