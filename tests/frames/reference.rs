//! RESP read the plain way: recursively, from a whole stream.

/// Why reading stopped.
enum Stop {
    /// More bytes could make it well-formed.
    Short,
    Malformed,
}

type Read<T> = Result<T, Stop>;

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Read<u8> {
        let (&first, rest) = self.rest.split_first().ok_or(Stop::Short)?;
        self.rest = rest;
        Ok(first)
    }

    fn expect(&mut self, expected: &[u8]) -> Read<()> {
        for &byte in expected {
            if self.byte()? != byte {
                return Err(Stop::Malformed);
            }
        }
        Ok(())
    }

    /// Up to CR LF, neither of which stands alone.
    fn line(&mut self) -> Read<&'a [u8]> {
        let end = self.rest.iter().position(|byte| b"\r\n".contains(byte)).ok_or(Stop::Short)?;
        let line = &self.rest[..end];
        self.rest = &self.rest[end..];
        self.expect(b"\r\n")?;
        Ok(line)
    }

    /// A number that is its own canonical form, not above `max`.
    fn length(&mut self, max: i64) -> Read<i64> {
        let digits = self.rest.iter().position(|byte| !b"-0123456789".contains(byte)).unwrap_or(self.rest.len());
        let text = std::str::from_utf8(&self.rest[..digits]).expect("ASCII");
        let canonical = |text: &str| text.parse::<i64>().is_ok_and(|number| number.to_string() == text);
        if self.rest.len() == digits {
            // What may still become a number is not wrong yet.
            let is_prefix = ["", "-", "0", "-0"].contains(&text) || canonical(text);
            return Err(if is_prefix && text.trim_start_matches('-').len() <= 11 {
                Stop::Short
            } else {
                Stop::Malformed
            });
        }
        self.rest = &self.rest[digits..];
        if !canonical(text) && text != "-0" {
            return Err(Stop::Malformed);
        }
        self.expect(b"\r\n")?;
        let number = if text == "-0" { return Err(Stop::Malformed) } else { text.parse().expect("canonical") };
        if number > max { Err(Stop::Malformed) } else { Ok(number) }
    }

    fn string(&mut self, length: i64) -> Read<()> {
        let length = usize::try_from(length).map_err(|_| Stop::Malformed)?;
        self.rest = self.rest.get(length..).ok_or(Stop::Short)?;
        self.expect(b"\r\n")
    }

    fn request(&mut self) -> Read<()> {
        if self.rest.first() != Some(&b'*') {
            let end = self.rest.iter().position(|&byte| byte == b'\n').ok_or(Stop::Short)?;
            self.rest = &self.rest[end + 1..];
            return Ok(());
        }
        self.byte()?;
        for _ in 0..self.length(1024 * 1024)? {
            self.expect(b"$")?;
            let length = self.length(512 * 1024 * 1024)?;
            self.string(length)?;
        }
        Ok(())
    }

    fn reply(&mut self, is_outermost: bool) -> Read<()> {
        match self.byte()? {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => self.line().map(|_| ()),
            kind @ (b'$' | b'=' | b'!') => match self.length(u32::MAX.into())? {
                -1 if kind == b'$' => Ok(()),
                length => self.string(length),
            },
            b'>' if !is_outermost => Err(Stop::Malformed),
            b'|' => {
                self.items(2)?;
                self.reply(is_outermost)
            }
            b'%' => self.items(2),
            b'*' if self.rest.starts_with(b"-1\r\n") => self.expect(b"-1\r\n"),
            b'*' if b"-1\r\n".starts_with(self.rest) => Err(Stop::Short),
            b'*' | b'~' | b'>' => self.items(1),
            _ => Err(Stop::Malformed),
        }
    }

    fn items(&mut self, each: i64) -> Read<()> {
        let length = self.length(u32::MAX.into())?;
        if length < 0 {
            return Err(Stop::Malformed);
        }
        for _ in 0..length * each {
            self.reply(false)?;
        }
        Ok(())
    }
}

fn ends(stream: &[u8], mut read: impl FnMut(&mut Reader<'_>) -> Read<()>) -> (Vec<usize>, bool) {
    let mut reader = Reader { rest: stream };
    let mut ends = Vec::new();
    while !reader.rest.is_empty() {
        match read(&mut reader) {
            Ok(()) => ends.push(stream.len() - reader.rest.len()),
            Err(Stop::Short) => break,
            Err(Stop::Malformed) => return (ends, true),
        }
    }
    (ends, false)
}

/// Where the requests of a stream end, and whether it goes on with something that is none.
pub(crate) fn request_ends(stream: &[u8]) -> (Vec<usize>, bool) {
    ends(stream, |reader| reader.request())
}

/// Where the replies of a stream end, and whether it goes on with something that is none.
pub(crate) fn reply_ends(stream: &[u8]) -> (Vec<usize>, bool) {
    ends(stream, |reader| reader.reply(true))
}
