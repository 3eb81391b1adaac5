//! Version 1: one line of text, such as `PROXY TCP4 192.0.2.7 192.0.2.1 56324 6380` and CR LF.

use std::net::{IpAddr, SocketAddr};

use super::{Addresses, Header, HeaderError};

/// What it begins with.
pub(super) const SIGNATURE: &[u8] = b"PROXY ";

/// The longest line, its end included: UNKNOWN with two IPv6 addresses written out.
const LINE_BYTES_MAX: usize = 107;

pub(super) fn parse(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    let within = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = within.iter().position(|&byte| byte == b'\n') else {
        return if within.len() < LINE_BYTES_MAX { Ok(None) } else { Err(HeaderError::LineTooLong) };
    };
    let line = within[..end].strip_suffix(b"\r").and_then(|line| str::from_utf8(line).ok());
    let addresses = addresses(line.ok_or(HeaderError::Line)?).ok_or(HeaderError::Line)?;
    Ok(Some(Header { len: end + 1, addresses }))
}

/// What the line says; `None` when it is malformed.
fn addresses(line: &str) -> Option<Option<Addresses>> {
    let mut words = line.split(' ');
    let (_, family) = (words.next()?, words.next()?);
    if family == "UNKNOWN" {
        // Whatever follows is to be ignored.
        return Some(None);
    }
    let is_family = |ip: IpAddr| match family {
        "TCP4" => ip.is_ipv4(),
        "TCP6" => ip.is_ipv6(),
        _ => false,
    };
    let mut ip = || words.next()?.parse().ok().filter(|&ip| is_family(ip));
    let (source, destination) = (ip()?, ip()?);
    let (source_port, destination_port) = (port(words.next()?)?, port(words.next()?)?);
    let addresses = Addresses {
        source: SocketAddr::new(source, source_port),
        destination: SocketAddr::new(destination, destination_port),
    };
    words.next().is_none().then_some(Some(addresses))
}

/// A decimal number without a sign and without leading zeros.
fn port(word: &str) -> Option<u16> {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    let leads = word.starts_with('0') && word.len() > 1;
    (digits && !leads).then(|| word.parse().ok()).flatten()
}

pub(super) fn write(out: &mut Vec<u8>, addresses: Option<Addresses>) {
    let family = addresses.and_then(|Addresses { source, destination }| match (source, destination) {
        (SocketAddr::V4(_), SocketAddr::V4(_)) => Some("TCP4"),
        (SocketAddr::V6(_), SocketAddr::V6(_)) => Some("TCP6"),
        (SocketAddr::V4(_), SocketAddr::V6(_)) | (SocketAddr::V6(_), SocketAddr::V4(_)) => None,
    });
    let line = match (addresses, family) {
        (Some(Addresses { source, destination }), Some(family)) => {
            let (from, to) = (source.ip(), destination.ip());
            format!("PROXY {family} {from} {to} {} {}\r\n", source.port(), destination.port())
        }
        _ => "PROXY UNKNOWN\r\n".to_owned(),
    };
    out.extend_from_slice(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[u8]) -> Result<Option<Header>, HeaderError> {
        super::super::parse(line)
    }

    fn header(len: usize, source: &str, destination: &str) -> Result<Option<Header>, HeaderError> {
        let addresses = Addresses { source: source.parse().unwrap(), destination: destination.parse().unwrap() };
        Ok(Some(Header { len, addresses: Some(addresses) }))
    }

    /// The first two are the specification's examples of the longest lines.
    #[test]
    fn lines_of_the_specification_are_read() {
        let line = b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n";
        assert_eq!(read(line), header(56, "255.255.255.255:65535", "255.255.255.255:65535"));
        let line = b"PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n";
        let ones = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535";
        assert_eq!(read(line), header(104, ones, ones));
        let line = b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\nGET / HTTP/1.1\r\n";
        assert_eq!(read(line), header(47, "192.168.0.1:56324", "192.168.0.11:443"));
        assert_eq!(read(b"PROXY TCP6 ::1 2001:db8::1 0 1\r\n"), header(32, "[::1]:0", "[2001:db8::1]:1"));
    }

    #[test]
    fn an_unknown_connection_has_no_addresses_whatever_the_line_goes_on_with() {
        let unknown = |len| Ok(Some(Header { len, addresses: None }));
        assert_eq!(read(b"PROXY UNKNOWN\r\n"), unknown(15));
        let line = b"PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n";
        assert_eq!((line.len(), read(line)), (107, unknown(107)));
    }

    #[test]
    fn what_is_no_line_of_the_protocol_is_refused() {
        for line in [
            &b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\n"[..],
            b"PROXY TCP4 10.0.0.1 10.0.0.2 1\r\n",
            b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2 3\r\n",
            b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2 \r\n",
            b"PROXY TCP4  10.0.0.1 10.0.0.2 1 2\r\n",
            b"PROXY TCP4 10.0.0.1 10.0.0.2 01 2\r\n",
            b"PROXY TCP4 10.0.0.1 10.0.0.2 +1 2\r\n",
            b"PROXY TCP4 10.0.0.1 10.0.0.2 65536 2\r\n",
            b"PROXY TCP4 10.0.0.1 10.0.0.2  2\r\n",
            b"PROXY TCP4 10.0.0.01 10.0.0.2 1 2\r\n",
            b"PROXY TCP4 10.0.1 10.0.0.2 1 2\r\n",
            b"PROXY TCP4 ::1 10.0.0.2 1 2\r\n",
            b"PROXY TCP6 ::1 10.0.0.2 1 2\r\n",
            b"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
            b"PROXY UDP4 10.0.0.1 10.0.0.2 1 2\r\n",
            b"PROXY UNKNOWNS\r\n",
            b"PROXY \r\n",
            b"PROXY TCP4 \xff 10.0.0.2 1 2\r\n",
        ] {
            assert_eq!(read(line), Err(HeaderError::Line), "{}", String::from_utf8_lossy(line));
        }
        assert_eq!(read(b"PING\r\n"), Err(HeaderError::Absent));
        assert_eq!(read(b"PROXY\tTCP4"), Err(HeaderError::Absent));
        assert_eq!(read(b"proxy TCP4"), Err(HeaderError::Absent));
    }

    #[test]
    fn a_line_ends_within_its_107_bytes() {
        let mut line = b"PROXY UNKNOWN ".to_vec();
        line.resize(106, b'x');
        assert_eq!(read(&line), Ok(None));
        line.push(b'x');
        assert_eq!(read(&line), Err(HeaderError::LineTooLong));
    }

    #[test]
    fn a_line_is_written_as_the_specification_has_it() {
        let written = |source: &str, destination: &str| {
            let mut out = Vec::new();
            let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
            write(&mut out, Some(Addresses { source, destination }));
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written("192.0.2.7:56324", "192.0.2.1:6380"), "PROXY TCP4 192.0.2.7 192.0.2.1 56324 6380\r\n");
        assert_eq!(written("[2001:db8::7]:1", "[::1]:2"), "PROXY TCP6 2001:db8::7 ::1 1 2\r\n");
        assert_eq!(written("[2001:db8::7]:1", "127.0.0.1:2"), "PROXY UNKNOWN\r\n");
        let mut out = Vec::new();
        write(&mut out, None);
        assert_eq!(out, b"PROXY UNKNOWN\r\n");
    }
}
