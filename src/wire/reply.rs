//! Reads replies of RESP2: simple strings, errors, integers, bulk strings and arrays of them.
//!
//! A connection speaks RESP2 until it says HELLO, which none of ours does, so RESP3's further types are malformed here.
//!
//! ```text
//! input: | end of a reply | what comes behind it |
//!          taken            left to the caller
//! ```

use std::fmt;
use std::mem;

/// Arrays within arrays at most: a primary's answer to ROLE has three.
const DEPTH_MAX: usize = 8;

/// The longest line that begins a bulk string or an array: its type, a sign and the digits of 64 bits. It bounds nothing
/// that a server sends, and lets garbage be recognised by its length.
const COUNT_LINE_MAX: usize = 24;

/// One reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+OK`, without the sign.
    Simple(Vec<u8>),
    /// `-ERR what is wrong`, without the sign.
    Error(Vec<u8>),
    /// `:1`
    Integer(i64),
    /// A string of any bytes.
    Bulk(Vec<u8>),
    /// The null of either kind.
    Null,
    /// Replies in a row.
    Array(Vec<Self>),
}

impl Reply {
    /// The text of a simple or bulk string that is UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Simple(bytes) | Self::Bulk(bytes) => std::str::from_utf8(bytes).ok(),
            Self::Error(_) | Self::Integer(_) | Self::Null | Self::Array(_) => None,
        }
    }

    /// The replies of an array.
    #[must_use]
    pub fn items(&self) -> Option<&[Self]> {
        match self {
            Self::Array(items) => Some(items),
            Self::Simple(_) | Self::Error(_) | Self::Integer(_) | Self::Bulk(_) | Self::Null => None,
        }
    }
}

/// Why bytes are no reply. Nothing behind them can be made sense of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// A reply begins with a byte that no type has.
    Type(u8),
    /// A number or a length is none.
    Number,
    /// A line or a string does not end where it should.
    End,
    /// Arrays lie too deep in each other.
    Depth,
    /// A reply is larger than what the reader was made for.
    Size,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(byte) if byte.is_ascii_graphic() => write!(f, "a reply begins with '{}'", char::from(*byte)),
            Self::Type(byte) => write!(f, "a reply begins with the byte {byte:#04x}"),
            Self::Number => f.write_str("a reply has a number that is none"),
            Self::End => f.write_str("a reply does not end where it should"),
            Self::Depth => f.write_str("a reply has arrays too deep in each other"),
            Self::Size => f.write_str("a reply is too large"),
        }
    }
}

impl std::error::Error for Malformed {}

/// Puts replies together from pieces as they come.
#[derive(Debug)]
pub struct Reader {
    bytes_max: usize,
    /// Bytes that the reply may still have.
    bytes_left: usize,
    part: Part,
    /// The arrays around what comes next, the outermost first.
    open: Vec<OpenArray>,
    failed: Option<Malformed>,
}

/// What the next byte belongs to.
#[derive(Debug)]
enum Part {
    /// A line, up to its CRLF.
    Line(Vec<u8>),
    /// A bulk string of this length, with its CRLF.
    Bulk(Vec<u8>, usize),
}

#[derive(Debug)]
struct OpenArray {
    items: Vec<Reply>,
    /// How many are still to come, at least one.
    missing: usize,
}

impl Reader {
    /// For replies of at most `bytes_max` bytes each, as they stand on the wire.
    #[must_use]
    pub const fn new(bytes_max: usize) -> Self {
        let part = Part::Line(Vec::new());
        Self { bytes_max, bytes_left: bytes_max, part, open: Vec::new(), failed: None }
    }

    /// Takes bytes from the front of `input` up to the end of a reply, and gives that; all of them, and nothing, while
    /// its end is not there. Whatever the pieces, the replies are the same.
    ///
    /// # Errors
    /// When they are no reply; from then on, always.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<Reply>, Malformed> {
        if let Some(malformed) = self.failed {
            return Err(malformed);
        }
        let outcome = self.read_on(input);
        self.failed = outcome.as_ref().err().copied();
        outcome
    }

    /// Whether some bytes of a reply are here and others are not.
    #[must_use]
    pub fn is_within_reply(&self) -> bool {
        self.bytes_left < self.bytes_max
    }

    fn read_on(&mut self, input: &mut &[u8]) -> Result<Option<Reply>, Malformed> {
        while !input.is_empty() {
            let Some(value) = self.read_part(input)? else { continue };
            if let Some(reply) = self.place(value) {
                self.bytes_left = self.bytes_max;
                return Ok(Some(reply));
            }
        }
        Ok(None)
    }

    /// Goes on with the part; gives a value that is complete with it.
    fn read_part(&mut self, input: &mut &[u8]) -> Result<Option<Reply>, Malformed> {
        match &mut self.part {
            Part::Line(line) => {
                let end = input.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
                take(input, end.unwrap_or(input.len()), line, &mut self.bytes_left)?;
                check_line_start(line)?;
                if end.is_none() {
                    return Ok(None);
                }
                let line = mem::take(line);
                self.end_line(&line)
            }
            Part::Bulk(bytes, length) => {
                let missing = *length + 2 - bytes.len();
                take(input, missing.min(input.len()), bytes, &mut self.bytes_left)?;
                if bytes.len() < *length + 2 {
                    return Ok(None);
                }
                let mut bytes = mem::take(bytes);
                let length = bytes.len() - 2;
                if bytes.split_off(length) != b"\r\n" {
                    return Err(Malformed::End);
                }
                self.part = Part::Line(Vec::new());
                Ok(Some(Reply::Bulk(bytes)))
            }
        }
    }

    /// What a whole line says: a value, or the beginning of a larger one.
    fn end_line(&mut self, line: &[u8]) -> Result<Option<Reply>, Malformed> {
        let Some(([kind], text)) = line.strip_suffix(b"\r\n").and_then(|line| line.split_first_chunk()) else {
            return Err(Malformed::End);
        };
        // A line ends with both, and has neither within.
        if text.contains(&b'\r') {
            return Err(Malformed::End);
        }
        match kind {
            b'+' => Ok(Some(Reply::Simple(text.to_owned()))),
            b'-' => Ok(Some(Reply::Error(text.to_owned()))),
            b':' => number(text).map(|number| Some(Reply::Integer(number))),
            b'$' => match count(text)? {
                None => Ok(Some(Reply::Null)),
                Some(length) if length > self.bytes_left => Err(Malformed::Size),
                Some(length) => {
                    self.part = Part::Bulk(Vec::new(), length);
                    Ok(None)
                }
            },
            b'*' => match count(text)? {
                None => Ok(Some(Reply::Null)),
                Some(0) => Ok(Some(Reply::Array(Vec::new()))),
                Some(_) if self.open.len() == DEPTH_MAX => Err(Malformed::Depth),
                Some(missing) if missing > self.bytes_left => Err(Malformed::Size),
                Some(missing) => {
                    self.open.push(OpenArray { items: Vec::new(), missing });
                    Ok(None)
                }
            },
            &other => Err(Malformed::Type(other)),
        }
    }

    /// Puts a value where it belongs: into the innermost array, which may be complete with it, and so on outwards.
    fn place(&mut self, value: Reply) -> Option<Reply> {
        let mut value = value;
        while let Some(array) = self.open.last_mut() {
            array.items.push(value);
            array.missing -= 1;
            if array.missing > 0 {
                return None;
            }
            value = Reply::Array(mem::take(&mut array.items));
            self.open.pop();
        }
        Some(value)
    }
}

/// Moves `length` bytes from the front of `input` to `to`.
fn take(input: &mut &[u8], length: usize, to: &mut Vec<u8>, bytes_left: &mut usize) -> Result<(), Malformed> {
    *bytes_left = bytes_left.checked_sub(length).ok_or(Malformed::Size)?;
    let (taken, rest) = input.split_at(length);
    to.extend_from_slice(taken);
    *input = rest;
    Ok(())
}

/// What can be told before a line's end is there: a peer that speaks something else is recognised by its first byte.
fn check_line_start(line: &[u8]) -> Result<(), Malformed> {
    match line {
        [] | [b'+' | b'-', ..] => Ok(()),
        [b':' | b'$' | b'*', ..] if line.len() <= COUNT_LINE_MAX => Ok(()),
        [b':' | b'$' | b'*', ..] => Err(Malformed::Number),
        [other, ..] => Err(Malformed::Type(*other)),
    }
}

fn number(text: &[u8]) -> Result<i64, Malformed> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(Malformed::Number)
}

/// A length or a count; -1 stands for null.
fn count(text: &[u8]) -> Result<Option<usize>, Malformed> {
    match number(text)? {
        -1 => Ok(None),
        count => usize::try_from(count).map(Some).map_err(|_| Malformed::Number),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BYTES_MAX: usize = 4_096;

    fn bulk(text: &str) -> Reply {
        Reply::Bulk(text.as_bytes().to_owned())
    }

    fn simple(text: &str) -> Reply {
        Reply::Simple(text.as_bytes().to_owned())
    }

    /// All replies in `bytes`, which end with one.
    fn read_all(mut bytes: &[u8]) -> Result<Vec<Reply>, Malformed> {
        let mut reader = Reader::new(BYTES_MAX);
        let mut replies = Vec::new();
        while !bytes.is_empty() {
            replies.extend(reader.read(&mut bytes)?);
        }
        assert!(!reader.is_within_reply(), "cut short");
        Ok(replies)
    }

    fn read_one(bytes: &[u8]) -> Result<Reply, Malformed> {
        read_all(bytes).map(|mut replies| replies.pop().unwrap())
    }

    #[test]
    fn every_form_of_the_specification_is_read() {
        assert_eq!(read_one(b"+OK\r\n"), Ok(simple("OK")));
        assert_eq!(read_one(b"-ERR unknown command\r\n"), Ok(Reply::Error(b"ERR unknown command".to_vec())));
        assert_eq!(read_one(b":-1000\r\n"), Ok(Reply::Integer(-1000)));
        assert_eq!(read_one(b"$5\r\nhello\r\n"), Ok(bulk("hello")));
        assert_eq!(read_one(b"$2\r\n\r\n\r\n"), Ok(bulk("\r\n")));
        assert_eq!(read_one(b"$0\r\n\r\n"), Ok(bulk("")));
        assert_eq!(read_one(b"$-1\r\n"), Ok(Reply::Null));
        assert_eq!(read_one(b"*-1\r\n"), Ok(Reply::Null));
        assert_eq!(read_one(b"*0\r\n"), Ok(Reply::Array(Vec::new())));
        let nested = b"*3\r\n$6\r\nmaster\r\n:3129659\r\n*2\r\n*1\r\n$4\r\n9001\r\n*0\r\n";
        let replicas = Reply::Array(vec![Reply::Array(vec![bulk("9001")]), Reply::Array(Vec::new())]);
        assert_eq!(read_one(nested), Ok(Reply::Array(vec![bulk("master"), Reply::Integer(3_129_659), replicas])));
    }

    #[test]
    fn what_follows_a_reply_is_left() {
        let mut input = &b"+OK\r\n+PONG\r\n-ER"[..];
        let mut reader = Reader::new(BYTES_MAX);
        assert_eq!(reader.read(&mut input), Ok(Some(simple("OK"))));
        assert_eq!(input, b"+PONG\r\n-ER");
        assert_eq!(reader.read(&mut input), Ok(Some(simple("PONG"))));
        assert!(!reader.is_within_reply());
        assert_eq!(reader.read(&mut input), Ok(None));
        assert!(input.is_empty() && reader.is_within_reply());
    }

    #[test]
    fn what_is_no_reply_is_told_at_its_first_byte_and_from_then_on() {
        for (bytes, malformed) in [
            (&b"HTTP/1.1 400"[..], Malformed::Type(b'H')),
            (b"\x15\x03\x03", Malformed::Type(0x15)),
            (b"%1\r\n", Malformed::Type(b'%')),
            (b"\r\n", Malformed::Type(b'\r')),
            (b":12a\r\n", Malformed::Number),
            (b":\r\n", Malformed::Number),
            (b"$-2\r\n", Malformed::Number),
            (b"*1e3\r\n", Malformed::Number),
            (b"$0000000000000000000000000", Malformed::Number),
            (b"+OK\n", Malformed::End),
            (b"+a\rb\r\n", Malformed::End),
            (b"$1\r\nabc", Malformed::End),
            (b"$4096\r\n", Malformed::Size),
            (b"*9223372036854775807\r\n", Malformed::Size),
            (b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", Malformed::Depth),
        ] {
            let shown = String::from_utf8_lossy(bytes);
            let mut reader = Reader::new(BYTES_MAX);
            assert_eq!(reader.read(&mut &*bytes), Err(malformed), "{shown}");
            assert_eq!(reader.read(&mut &b"+OK\r\n"[..]), Err(malformed), "{shown}");
        }
    }

    #[test]
    fn a_reply_has_at_most_the_bytes_that_the_reader_was_made_for() {
        for (bytes_max, outcome) in [(11, Ok(Some(bulk("hello")))), (10, Err(Malformed::Size))] {
            let mut reader = Reader::new(bytes_max);
            assert_eq!(reader.read(&mut &b"$5\r\nhello\r\n"[..]), outcome);
        }
        let mut reader = Reader::new(1_000);
        let mut endless = std::iter::repeat_n(&b"+xxxxxxxxx"[..], 101);
        assert!(endless.any(|piece| reader.read(&mut &*piece) == Err(Malformed::Size)));
        // Each reply anew.
        let mut reader = Reader::new(5);
        for _ in 0..3 {
            assert_eq!(reader.read(&mut &b"+OK\r\n"[..]), Ok(Some(simple("OK"))));
        }
    }

    fn written(reply: &Reply, out: &mut Vec<u8>) {
        let mut line = |kind: char, text: &[u8]| {
            out.extend_from_slice(kind.to_string().as_bytes());
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        };
        match reply {
            Reply::Simple(text) => line('+', text),
            Reply::Error(text) => line('-', text),
            Reply::Integer(number) => line(':', number.to_string().as_bytes()),
            Reply::Null => line('$', b"-1"),
            Reply::Bulk(bytes) => {
                line('$', bytes.len().to_string().as_bytes());
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Reply::Array(items) => {
                line('*', items.len().to_string().as_bytes());
                items.iter().for_each(|item| written(item, out));
            }
        }
    }

    fn any_reply() -> impl Strategy<Value = Reply> {
        let line = || "[^\r\n]{0,20}".prop_map(String::into_bytes);
        let leaf = prop_oneof![
            line().prop_map(Reply::Simple),
            line().prop_map(Reply::Error),
            any::<i64>().prop_map(Reply::Integer),
            proptest::collection::vec(any::<u8>(), 0..40).prop_map(Reply::Bulk),
            Just(Reply::Null),
        ];
        leaf.prop_recursive(4, 24, 6, |inner| proptest::collection::vec(inner, 0..6).prop_map(Reply::Array))
    }

    proptest! {
        #[test]
        fn replies_in_any_pieces_are_the_same(
            replies in proptest::collection::vec(any_reply(), 1..4),
            pieces in proptest::collection::vec(1_usize..9, 1..50),
        ) {
            let mut bytes = Vec::new();
            replies.iter().for_each(|reply| written(reply, &mut bytes));
            prop_assert_eq!(read_all(&bytes), Ok(replies.clone()));
            let mut reader = Reader::new(BYTES_MAX);
            let (mut rest, mut found) = (&bytes[..], Vec::new());
            for length in pieces.into_iter().cycle() {
                let (mut piece, behind) = rest.split_at(length.min(rest.len()));
                rest = behind;
                while !piece.is_empty() {
                    found.extend(reader.read(&mut piece).unwrap());
                }
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(found, replies);
        }

        #[test]
        fn no_bytes_make_the_reader_panic_or_keep_more_than_its_bound(
            bytes in proptest::collection::vec(prop_oneof![Just(b'*'), Just(b'$'), Just(b':'), Just(b'1'), Just(b'\r'),
                Just(b'\n'), any::<u8>()], 0..300),
        ) {
            let mut reader = Reader::new(64);
            let mut rest = &bytes[..];
            while !rest.is_empty() && reader.read(&mut rest).is_ok() {}
            prop_assert!(reader.bytes_left <= 64);
        }
    }
}
