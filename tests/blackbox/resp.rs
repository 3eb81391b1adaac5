//! The little of RESP that a test's client needs: requests, and where a reply ends.

/// A request as an array of bulk strings.
pub(crate) fn request<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments.iter().map(AsRef::as_ref) {
        out.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// The length of the first reply in `bytes`, `None` while it is incomplete. RESP2 and RESP3.
pub(crate) fn reply_length(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let head = line + 2;
    let number = || std::str::from_utf8(&bytes[1..line]).ok().and_then(|text| text.parse::<i64>().ok());
    let children = |count: i64| (0..count).try_fold(head, |at, _| reply_length(&bytes[at..]).map(|length| at + length));
    match bytes[0] {
        b'$' | b'=' | b'!' => match usize::try_from(number().expect("a length")) {
            Ok(length) => (bytes.len() >= head + length + 2).then_some(head + length + 2),
            Err(_) => Some(head),
        },
        b'*' | b'~' | b'>' => children(number().expect("a count")),
        b'%' => children(2 * number().expect("a count")),
        _ => Some(head),
    }
}

/// The payload of a bulk string, the text of anything else without its type and line end.
pub(crate) fn payload(reply: &[u8]) -> &[u8] {
    let line = reply.windows(2).position(|pair| pair == b"\r\n").expect("a complete reply");
    if matches!(reply[0], b'$' | b'=') && reply[1] != b'-' {
        &reply[line + 2..reply.len() - 2]
    } else {
        &reply[1..line]
    }
}
