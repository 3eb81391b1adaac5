//! Where requests and replies end in a stream of RESP that comes in any pieces.
//!
//! A framer copies no byte and looks at each once, at those of a short frame of which a part is missing twice: between two pieces it keeps a state of a few words, whatever the
//! size of what it is in the middle of. It says where a frame ends and of what kind it is; what the frame means is not
//! its concern. Nested replies need no stack: it is enough to count the items that are still owed.
//!
//! It is as strict as the format (RESP2, and RESP3 as of <https://github.com/redis/redis-specifications>) and stricter
//! than the servers, which pass over two bytes behind a length without looking at them: a stream that this framer and a
//! server could cut differently is an error here. Streamed strings and aggregates (`$?`, `*?`) are part of RESP3 and sent
//! by no server; they are errors, too.
//!
//! Read `tests/frames.rs` first: any pieces give the same frames, and the same as a plain recursive reading.

/// Most bytes of a line that is an inline request (`PROTO_INLINE_MAX_SIZE` of the servers).
pub const INLINE_BYTES_MAX: u32 = 64 * 1024;

/// Most arguments of a request (1024 × 1024, the servers' bound before they raised it).
pub const ARGUMENTS_MAX: u64 = 1024 * 1024;

/// Most bytes of one argument (the servers' default of `proto-max-bulk-len`).
pub const ARGUMENT_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Most items of one aggregate of a reply (the servers count them with 32 bits), and most bytes of one of its strings.
const LENGTH_MAX: u64 = u32::MAX as u64;

/// Longest number in front of a length: one digit more than any bound above needs, and far from an overflow.
const DIGITS_MAX: u8 = 11;

/// What in a stream is not RESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The length of a string or of an aggregate is no number, or not written as one.
    Length,
    /// A length is beyond its bound.
    TooLong,
    /// An argument does not begin with `$`.
    Argument,
    /// No item begins with this byte.
    Type(u8),
    /// A line or a string does not end with CR LF where it must.
    LineEnd,
    /// An inline request is longer than [`INLINE_BYTES_MAX`].
    Inline,
    /// A push stands inside another reply.
    NestedPush,
}

impl Malformed {
    /// What is wrong, to complete a sentence. No byte of the stream is in it but a type.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Length => "invalid length",
            Self::TooLong => "length out of bounds",
            Self::Argument => "expected '$'",
            Self::Type(_) => "unknown type",
            Self::LineEnd => "expected CR LF",
            Self::Inline => "too big inline request",
            Self::NestedPush => "push inside a reply",
        }
    }
}

/// A length on its way in: decimal digits, and CR LF behind them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Length {
    value: u64,
    digits: u8,
    negative: bool,
    ended: bool,
}

impl Length {
    /// Reads on, moving `at` over what it has looked at. `true` when the line is complete.
    ///
    /// Numbers are written as the servers read them: no plus sign, no leading zero, no -0.
    fn read(&mut self, bytes: &[u8], at: &mut usize) -> Result<bool, Malformed> {
        let mut length = *self;
        while let Some(&byte) = bytes.get(*at) {
            *at += 1;
            match byte {
                b'0'..=b'9' if !length.ended => {
                    if length.digits == DIGITS_MAX {
                        return Err(Malformed::TooLong);
                    }
                    if length.value == 0 && length.digits > 0 {
                        return Err(Malformed::Length);
                    }
                    length.value = length.value * 10 + u64::from(byte - b'0');
                    length.digits += 1;
                }
                b'-' if length.digits == 0 && !length.negative => length.negative = true,
                b'\r' if length.digits > 0 && !length.ended => length.ended = true,
                b'\n' if length.ended => {
                    *self = length;
                    return if length.negative && length.value == 0 { Err(Malformed::Length) } else { Ok(true) };
                }
                _ if length.ended => return Err(Malformed::LineEnd),
                _ => return Err(Malformed::Length),
            }
        }
        *self = length;
        Ok(false)
    }
}

/// The length that stands here and how many bytes it takes with its line end, if it has few digits and all of it is there:
/// most lengths are such.
pub(crate) fn short_length(bytes: &[u8]) -> Option<(usize, usize)> {
    let digit = |byte: u8| usize::from(byte - b'0');
    match *bytes {
        [ones @ b'0'..=b'9', b'\r', b'\n', ..] => Some((digit(ones), 3)),
        [tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] => Some((digit(tens) * 10 + digit(ones), 4)),
        [hundreds @ b'1'..=b'9', tens @ b'0'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] => {
            Some((digit(hundreds) * 100 + digit(tens) * 10 + digit(ones), 5))
        }
        _ => None,
    }
}

/// What follows the string that begins here, if all of it is there and it is short.
fn behind_string(bytes: &[u8]) -> Option<&[u8]> {
    let bytes = bytes.strip_prefix(b"$")?;
    let (length, line) = short_length(bytes)?;
    bytes.get(line + length..)?.strip_prefix(b"\r\n")
}

/// The request that begins here, if all of it is there and everything in it is short, as nearly always: its arguments and
/// where it ends. Of all others the framer tells more.
fn whole_request(bytes: &[u8]) -> Option<(usize, usize)> {
    let (arguments, line) = short_length(bytes.strip_prefix(b"*")?)?;
    let rest = (0..arguments).try_fold(&bytes[1 + line..], |rest, _| behind_string(rest))?;
    Some((arguments, bytes.len() - rest.len()))
}

/// Passes over a string and the CR LF behind it, of which `left` bytes are still to come. `true` when it is complete.
fn skip_string(left: &mut u64, bytes: &[u8], at: &mut usize) -> Result<bool, Malformed> {
    while *left > 2 {
        let here = (bytes.len() - *at) as u64;
        let skipped = here.min(*left - 2);
        if skipped == 0 {
            return Ok(false);
        }
        *left -= skipped;
        // No more than what is here, which is a `usize`.
        *at += usize::try_from(skipped).unwrap_or(usize::MAX);
    }
    while let Some(&byte) = bytes.get(*at) {
        let expected = if *left == 2 { b'\r' } else { b'\n' };
        if byte != expected {
            return Err(Malformed::LineEnd);
        }
        *at += 1;
        *left -= 1;
        if *left == 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A complete request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// How many of the bytes given last belong to it.
    pub end: usize,
    /// Its shape.
    pub form: Form,
}

/// How a request is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An array of so many strings. A server does not answer one of none.
    Array(u64),
    /// A line. A server does not answer one of blanks.
    Inline,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RequestState {
    #[default]
    Start,
    /// Behind the `*`.
    Count(Length),
    /// In front of the `$` of an argument.
    Argument,
    /// Behind the `$`.
    Bytes(Length),
    /// So many bytes of the argument and its line end are still to come.
    Body(u64),
    /// So many bytes of the line have come.
    Inline(u32),
}

/// Finds the ends of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFramer {
    state: RequestState,
    arguments: u64,
    arguments_left: u64,
}

impl RequestFramer {
    /// A framer at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it is between two requests.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.state == RequestState::Start
    }

    /// Bytes that are known to be missing until the request is complete.
    #[must_use]
    pub const fn missing(&self) -> u64 {
        match self.state {
            RequestState::Body(left) => left,
            RequestState::Start
            | RequestState::Count(_)
            | RequestState::Argument
            | RequestState::Bytes(_)
            | RequestState::Inline(_) => 0,
        }
    }

    /// Looks at bytes it has not seen. `None`: all of them belong to a request that goes on. After an error the stream
    /// cannot be cut any more.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<Option<Request>, Malformed> {
        if self.is_between()
            && let Some((arguments, end)) = whole_request(bytes)
        {
            return Ok(Some(Request { end, form: Form::Array(arguments as u64) }));
        }
        let mut at = 0;
        loop {
            match &mut self.state {
                RequestState::Start => match bytes.get(at) {
                    None => return Ok(None),
                    Some(b'*') => {
                        at += 1;
                        self.state = RequestState::Count(Length::default());
                    }
                    Some(_) => self.state = RequestState::Inline(0),
                },
                RequestState::Count(length) => {
                    if !length.read(bytes, &mut at)? {
                        return Ok(None);
                    }
                    // As for the servers, fewer than none is none.
                    self.arguments = if length.negative { 0 } else { length.value };
                    if self.arguments > ARGUMENTS_MAX {
                        return Err(Malformed::TooLong);
                    }
                    self.arguments_left = self.arguments;
                    if self.arguments == 0 {
                        return Ok(Some(self.complete(at, Form::Array(0))));
                    }
                    self.state = RequestState::Argument;
                }
                RequestState::Argument => match bytes.get(at) {
                    None => return Ok(None),
                    Some(b'$') => {
                        at += 1;
                        self.state = RequestState::Bytes(Length::default());
                    }
                    Some(_) => return Err(Malformed::Argument),
                },
                RequestState::Bytes(length) => {
                    if !length.read(bytes, &mut at)? {
                        return Ok(None);
                    }
                    if length.negative {
                        return Err(Malformed::Length);
                    }
                    if length.value > ARGUMENT_BYTES_MAX {
                        return Err(Malformed::TooLong);
                    }
                    self.state = RequestState::Body(length.value + 2);
                }
                RequestState::Body(left) => {
                    if !skip_string(left, bytes, &mut at)? {
                        return Ok(None);
                    }
                    self.arguments_left -= 1;
                    if self.arguments_left == 0 {
                        return Ok(Some(self.complete(at, Form::Array(self.arguments))));
                    }
                    self.state = RequestState::Argument;
                }
                RequestState::Inline(seen) => {
                    let seen = *seen;
                    return self.advance_inline(seen, &bytes[at..]);
                }
            }
        }
    }

    fn advance_inline(&mut self, seen: u32, bytes: &[u8]) -> Result<Option<Request>, Malformed> {
        let room = (INLINE_BYTES_MAX - seen) as usize;
        let near = &bytes[..bytes.len().min(room)];
        if let Some(end) = near.iter().position(|&byte| byte == b'\n') {
            return Ok(Some(self.complete(end + 1, Form::Inline)));
        }
        if bytes.len() >= room {
            return Err(Malformed::Inline);
        }
        self.state = RequestState::Inline(seen + u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        Ok(None)
    }

    const fn complete(&mut self, end: usize, form: Form) -> Request {
        self.state = RequestState::Start;
        Request { end, form }
    }
}

/// What a reply is, as far as its first byte tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A simple string, `+`.
    Status,
    /// An error, `-` or `!`.
    Error,
    /// A message that answers no request, `>`.
    Push,
    /// Anything else.
    Value,
}

/// A complete reply, with the attributes in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// How many of the bytes given last belong to it.
    pub end: usize,
    /// What it is.
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ReplyState {
    #[default]
    Type,
    /// In a line, whose CR may have come.
    Line { ended: bool },
    /// Behind the type of something with a length.
    Length(u8, Length),
    /// So many bytes of a string and its line end are still to come.
    Body(u64),
}

/// Finds the ends of replies and pushes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyFramer {
    state: ReplyState,
    /// Items that are still owed until the reply is complete, itself included; 0 between replies.
    owed: u64,
    /// What the reply is, once its own type has come: attributes may stand in front of it.
    kind: Option<Kind>,
}

impl ReplyFramer {
    /// A framer at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it is between two replies.
    #[must_use]
    pub const fn is_between(&self) -> bool {
        self.owed == 0
    }

    /// What the reply is that it is in the middle of, once that is known.
    #[must_use]
    pub const fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// Looks at bytes it has not seen. `None`: all of them belong to a reply that goes on. After an error the stream
    /// cannot be cut any more.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<Option<Reply>, Malformed> {
        if self.is_between()
            && let Some(rest) = behind_string(bytes)
        {
            return Ok(Some(Reply { end: bytes.len() - rest.len(), kind: Kind::Value }));
        }
        let mut at = 0;
        loop {
            let item_complete = match &mut self.state {
                ReplyState::Type => {
                    let Some(&byte) = bytes.get(at) else { return Ok(None) };
                    at += 1;
                    self.begin_item(byte)?;
                    false
                }
                ReplyState::Line { ended } => match skip_line(ended, bytes, &mut at)? {
                    true => true,
                    false => return Ok(None),
                },
                ReplyState::Length(byte, length) => {
                    if !length.read(bytes, &mut at)? {
                        return Ok(None);
                    }
                    let (byte, length) = (*byte, *length);
                    self.measure_item(byte, length)?
                }
                ReplyState::Body(left) => match skip_string(left, bytes, &mut at)? {
                    true => true,
                    false => return Ok(None),
                },
            };
            if item_complete {
                self.state = ReplyState::Type;
                self.owed -= 1;
                if self.owed == 0 {
                    let kind = self.kind.take().unwrap_or(Kind::Value);
                    return Ok(Some(Reply { end: at, kind }));
                }
            }
        }
    }

    /// The type of an item has come.
    fn begin_item(&mut self, byte: u8) -> Result<(), Malformed> {
        self.owed = self.owed.max(1);
        // Among the items of attributes more than one is owed.
        let is_reply = self.kind.is_none() && self.owed == 1;
        if is_reply {
            self.kind = match byte {
                b'|' => None,
                b'+' => Some(Kind::Status),
                b'-' | b'!' => Some(Kind::Error),
                b'>' => Some(Kind::Push),
                _ => Some(Kind::Value),
            };
        }
        self.state = match byte {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => ReplyState::Line { ended: false },
            b'>' if !is_reply => return Err(Malformed::NestedPush),
            b'$' | b'*' | b'%' | b'~' | b'>' | b'|' | b'=' | b'!' => ReplyState::Length(byte, Length::default()),
            _ => return Err(Malformed::Type(byte)),
        };
        Ok(())
    }

    /// The length of an item has come. `true` when that was all of it.
    fn measure_item(&mut self, byte: u8, length: Length) -> Result<bool, Malformed> {
        if length.negative {
            let is_null = length.value == 1 && matches!(byte, b'$' | b'*');
            return if is_null { Ok(true) } else { Err(Malformed::Length) };
        }
        if length.value > LENGTH_MAX {
            return Err(Malformed::TooLong);
        }
        self.state = ReplyState::Type;
        let items = match byte {
            b'*' | b'~' | b'>' => length.value,
            b'%' | b'|' => 2 * length.value,
            _ => {
                self.state = ReplyState::Body(length.value + 2);
                return Ok(false);
            }
        };
        self.owed = self.owed.checked_add(items).ok_or(Malformed::TooLong)?;
        // Attributes stand in front of an item and are none themselves.
        if byte == b'|' {
            return Ok(false);
        }
        Ok(true)
    }
}

/// Passes over a line. `true` when it is complete.
fn skip_line(ended: &mut bool, bytes: &[u8], at: &mut usize) -> Result<bool, Malformed> {
    if !*ended {
        let Some(len) = bytes[*at..].iter().position(|&byte| byte == b'\r' || byte == b'\n') else {
            *at = bytes.len();
            return Ok(false);
        };
        *at += len;
        if bytes[*at] == b'\n' {
            return Err(Malformed::LineEnd);
        }
        *at += 1;
        *ended = true;
    }
    match bytes.get(*at) {
        None => Ok(false),
        Some(b'\n') => {
            *at += 1;
            Ok(true)
        }
        Some(_) => Err(Malformed::LineEnd),
    }
}
