//! Looking into a ClientHello before a connection is made for it: which tickets it offers.
//!
//! This is a guess for scheduling and decides nothing about security; rustls reads every hello again, in full.

/// Extension numbers (RFC 5077, section 3.2; RFC 8446, section 4.2.11).
const SESSION_TICKET: u16 = 35;
const PRE_SHARED_KEY: u16 = 41;

/// Content type and message type (RFC 8446, sections 5.1 and 4).
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;

/// The ticket that a client offers, the first if there are several: of TLS 1.3, or else of TLS 1.2.
///
/// `first` is what the client has sent so far. `None` also when that is no whole ClientHello in one record.
pub(super) fn ticket_offered(first: &[u8]) -> Option<&[u8]> {
    let mut extensions = extensions(first)?;
    let mut of_tls12 = None;
    while let Some(number) = extensions.u16() {
        let content = extensions.counted_u16()?;
        match number {
            // The list of identities, each a ticket and an age of 32 bits, comes before the binders.
            PRE_SHARED_KEY => return Reader(Reader(content).counted_u16()?).counted_u16(),
            SESSION_TICKET if !content.is_empty() => of_tls12 = Some(content),
            _ => {}
        }
    }
    of_tls12
}

/// The extensions of the ClientHello (RFC 8446, section 4.1.2).
fn extensions(first: &[u8]) -> Option<Reader<'_>> {
    let mut stream = Reader(first);
    if stream.u8()? != HANDSHAKE {
        return None;
    }
    let _version = stream.u16()?;
    let mut record = Reader(stream.counted_u16()?);
    if record.u8()? != CLIENT_HELLO {
        return None;
    }
    let len = u32::from(record.u8()?) << 16 | u32::from(record.u16()?);
    let mut hello = Reader(record.take(usize::try_from(len).ok()?)?);
    let _version_and_random = hello.take(2 + 32)?;
    let _session_id = hello.counted_u8()?;
    let _cipher_suites = hello.counted_u16()?;
    let _compression_methods = hello.counted_u8()?;
    Some(Reader(hello.counted_u16()?))
}

/// Reads from the front; `None` when that is not there.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn u16(&mut self) -> Option<u16> {
        let bytes = self.take(2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn counted_u8(&mut self) -> Option<&'a [u8]> {
        let len = self.u8()?;
        self.take(usize::from(len))
    }

    fn counted_u16(&mut self) -> Option<&'a [u8]> {
        let len = self.u16()?;
        self.take(usize::from(len))
    }
}

#[cfg(test)]
mod tests {
    use super::ticket_offered;

    /// A ClientHello with these extensions, in one record.
    fn hello(extensions: &[u8]) -> Vec<u8> {
        let body = [
            &[3, 3][..],
            &[7; 32],
            &[0],
            &[0, 2, 0x13, 0x01],
            &[1, 0],
            &u16::try_from(extensions.len()).unwrap().to_be_bytes(),
            extensions,
        ]
        .concat();
        let len = u8::try_from(body.len()).unwrap();
        [&[22, 3, 1, 0, len + 4, 1, 0, 0, len][..], &body].concat()
    }

    /// supported_versions, a session ticket "old", a pre_shared_key with the identities "new" and "x" and a binder.
    const VERSIONS: &[u8] = &[0, 43, 0, 3, 2, 3, 4];
    const TICKET: &[u8] = &[0, 35, 0, 3, b'o', b'l', b'd'];
    const PSK: &[u8] =
        &[0, 41, 0, 22, 0, 16, 0, 3, b'n', b'e', b'w', 0, 0, 0, 1, 0, 1, b'x', 0, 0, 0, 2, 0, 4, 3, 9, 9, 9];

    #[test]
    fn the_ticket_of_either_version_is_found_and_tls_13_comes_first() {
        assert_eq!(ticket_offered(&hello(&[VERSIONS, TICKET].concat())), Some(&b"old"[..]));
        assert_eq!(ticket_offered(&hello(&[VERSIONS, PSK].concat())), Some(&b"new"[..]));
        assert_eq!(ticket_offered(&hello(&[TICKET, PSK].concat())), Some(&b"new"[..]));
    }

    #[test]
    fn a_hello_without_a_ticket_or_with_an_empty_one_offers_none() {
        assert_eq!(ticket_offered(&hello(VERSIONS)), None);
        assert_eq!(ticket_offered(&hello(&[0, 35, 0, 0])), None);
        assert_eq!(ticket_offered(b"*1\r\n$4\r\nPING\r\n"), None);
    }

    #[test]
    fn a_hello_that_is_cut_or_changed_anywhere_is_read_without_fear() {
        let whole = hello(&[VERSIONS, TICKET, PSK].concat());
        for len in 0..whole.len() {
            assert_eq!(ticket_offered(&whole[..len]), None, "{len} bytes");
        }
        for (at, change) in (0..whole.len()).flat_map(|at| [1, 0x7f, 0xff].map(|change| (at, change))) {
            let mut changed = whole.clone();
            changed[at] ^= change;
            let _ = ticket_offered(&changed);
        }
    }
}
