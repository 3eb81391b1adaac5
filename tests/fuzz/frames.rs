//! Bytes as a stream of requests or replies.

use ringwall::wire::frame::{Malformed, ReplyFramer, RequestFramer};

/// What streams are made of: a byte of the input is one of these, or itself.
const WORDS: [&[u8]; 24] = [
    b"\r\n",
    b"*",
    b"$",
    b"+",
    b"-",
    b":",
    b"%",
    b"~",
    b">",
    b"|",
    b"=",
    b"!",
    b"_",
    b"#",
    b",",
    b"(",
    b"0",
    b"1",
    b"2",
    b"3",
    b"-1",
    b"*1\r\n$4\r\nPING\r\n",
    b"$3\r\nabc\r\n",
    b"+OK\r\n",
];

/// Cuts `input`, as it is and as a sentence of [`WORDS`], whole and byte by byte.
pub(crate) fn frames(input: &[u8]) {
    let sentence: Vec<u8> = input
        .iter()
        .flat_map(|byte| WORDS.get(usize::from(byte % 32)).copied().unwrap_or(std::slice::from_ref(byte)))
        .copied()
        .collect();
    for stream in [input, &sentence] {
        let mut requests = RequestFramer::new();
        let whole = ends(stream, stream.len(), |bytes| Ok(requests.advance(bytes)?.map(|request| request.end)));
        let mut requests = RequestFramer::new();
        let bytewise = ends(stream, 1, |bytes| Ok(requests.advance(bytes)?.map(|request| request.end)));
        assert_eq!(whole, bytewise);
        let mut replies = ReplyFramer::new();
        let whole = ends(stream, stream.len(), |bytes| Ok(replies.advance(bytes)?.map(|reply| reply.end)));
        let mut replies = ReplyFramer::new();
        let bytewise = ends(stream, 1, |bytes| Ok(replies.advance(bytes)?.map(|reply| reply.end)));
        assert_eq!(whole, bytewise);
    }
}

fn ends(
    stream: &[u8],
    piece: usize,
    mut advance: impl FnMut(&[u8]) -> Result<Option<usize>, Malformed>,
) -> Result<Vec<usize>, Malformed> {
    let (mut ends, mut start) = (Vec::new(), 0);
    for piece in stream.chunks(piece.max(1)) {
        let mut at = 0;
        while at < piece.len() {
            match advance(&piece[at..])? {
                Some(end) => {
                    assert!(end > 0 && end <= piece.len() - at);
                    at += end;
                    ends.push(start + at);
                }
                None => break,
            }
        }
        start += piece.len();
    }
    Ok(ends)
}
