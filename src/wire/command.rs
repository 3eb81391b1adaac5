//! A command as servers read it: an array of bulk strings (RESP, "Sending commands to a Redis server").

use std::fmt;

use zeroize::Zeroizing;

/// An encoded command. It may hold a password, so it is wiped when dropped and shows none of its bytes.
#[derive(Clone)]
pub struct Command(Zeroizing<Vec<u8>>);

impl Command {
    /// Encodes a command's name and arguments.
    #[must_use]
    pub fn new(arguments: &[&[u8]]) -> Self {
        // The final capacity at once: no reallocation leaves a copy behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(encoded_len(arguments)));
        encode(arguments, &mut bytes);
        Self(bytes)
    }

    /// What goes over the wire.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Command({} bytes)", self.0.len())
    }
}

/// Appends the encoded command to `out`, which grows at most once.
pub fn encode(arguments: &[&[u8]], out: &mut Vec<u8>) {
    out.reserve(encoded_len(arguments));
    head(out, b'*', arguments.len());
    for argument in arguments {
        head(out, b'$', argument.len());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

fn head(out: &mut Vec<u8>, kind: u8, count: usize) {
    out.push(kind);
    out.extend_from_slice(count.to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn encoded_len(arguments: &[&[u8]]) -> usize {
    let head_len = |count: usize| 1 + count.checked_ilog10().map_or(1, |digits| digits as usize + 1) + 2;
    head_len(arguments.len()) + arguments.iter().map(|of| head_len(of.len()) + of.len() + 2).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_of_bulk_strings() {
        // From the specification of RESP.
        assert_eq!(Command::new(&[b"LLEN", b"mylist"]).bytes(), b"*2\r\n$4\r\nLLEN\r\n$6\r\nmylist\r\n");
        assert_eq!(Command::new(&[b"AUTH", b"", b"a\r\nb"]).bytes(), b"*3\r\n$4\r\nAUTH\r\n$0\r\n\r\n$4\r\na\r\nb\r\n");
    }

    #[test]
    fn its_room_is_known_before_it_is_written() {
        for length in [0, 1, 9, 10, 99, 100, 101, 99_999, 100_000] {
            let argument = vec![b'x'; length];
            let mut out = Vec::new();
            encode(&[b"GET", &argument], &mut out);
            assert_eq!(encoded_len(&[b"GET", &argument]), out.len(), "{length}");
        }
        let many = vec![&b"x"[..]; 12];
        assert_eq!(encoded_len(&many), Command::new(&many).bytes().len());
    }

    #[test]
    fn a_password_is_not_shown() {
        assert_eq!(format!("{:?}", Command::new(&[b"AUTH", b"hunter2"])), "Command(27 bytes)");
    }
}
