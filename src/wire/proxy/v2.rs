//! Version 2: binary.
//!
//! ```text
//! | signature: 12 | version, command: 1 | family, transport: 1 | length of the rest: 2 | addresses | TLVs |
//! ```

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::checksum::crc32c;
use super::{Addresses, HEADER_BYTES_MAX, Header, HeaderError};

/// What it begins with.
pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes in front of the addresses.
const FIXED_BYTES: usize = 16;

const VERSION: u8 = 0x20;
const LOCAL: u8 = 0x0;
const PROXY: u8 = 0x1;

const UNSPECIFIED: u8 = 0x00;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;

const ALPN: u8 = 0x01;
const AUTHORITY: u8 = 0x02;
const CRC32C: u8 = 0x03;
const SSL: u8 = 0x20;
const SSL_VERSION: u8 = 0x21;
const SSL_CN: u8 = 0x22;
const SSL_CIPHER: u8 = 0x23;

/// The client has connected over TLS; it has shown a certificate on this connection; in this session.
const CLIENT_SSL: u8 = 0x01;
const CLIENT_CERT_CONN: u8 = 0x02;
const CLIENT_CERT_SESS: u8 = 0x04;

/// A TLV's type and length.
const TLV_HEAD_BYTES: usize = 3;

/// The longest name that is passed on. A common name has at most 64 characters (RFC 5280, appendix A.1), a server name 255
/// bytes. One that is longer is left out and not cut: a part of it may be the name of somebody else.
const NAME_BYTES_MAX: usize = 256;

pub(super) fn parse(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    let Some(&[version_command, ..]) = bytes.get(SIGNATURE.len()..) else { return Ok(None) };
    if version_command & 0xf0 != VERSION {
        return Err(HeaderError::Version);
    }
    let is_local = match version_command & 0x0f {
        LOCAL => true,
        PROXY => false,
        _ => return Err(HeaderError::Command),
    };
    let Some(&[family, high, low]) = bytes.get(13..FIXED_BYTES) else { return Ok(None) };
    let len = FIXED_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if len > HEADER_BYTES_MAX {
        return Err(HeaderError::TooLong);
    }
    let Some(header) = bytes.get(..len) else { return Ok(None) };
    // Of LOCAL, the family and all behind it are to be ignored.
    let addresses = if is_local { None } else { relayed(header, family)? };
    Ok(Some(Header { len, addresses }))
}

/// The addresses of a connection that was relayed, where it is TCP. What the specification calls valid beside that, datagrams
/// and unix sockets, a receiver may treat as UNSPEC (section 2.2): the connection is taken, and is from whoever has made it.
fn relayed(header: &[u8], family: u8) -> Result<Option<Addresses>, HeaderError> {
    let addresses_bytes = match (family >> 4, family & 0x0f) {
        // What stands in the place of addresses has no known form.
        (0, 0..=2) => return Ok(None),
        (1, 0..=2) => 12,
        (2, 0..=2) => 36,
        (3, 0..=2) => 216,
        _ => return Err(HeaderError::Family),
    };
    let (addresses, _) = header[FIXED_BYTES..].split_at_checked(addresses_bytes).ok_or(HeaderError::TooShort)?;
    check_tlvs(header, FIXED_BYTES + addresses_bytes)?;
    Ok(match family {
        TCP_OVER_IPV4 => ends::<4>(addresses, |ip| Ipv4Addr::from(ip).into()),
        TCP_OVER_IPV6 => ends::<16>(addresses, |ip| Ipv6Addr::from(ip).into()),
        _ => None,
    })
}

/// Two addresses of `N` bytes each, and their ports.
fn ends<const N: usize>(bytes: &[u8], ip: impl Fn([u8; N]) -> std::net::IpAddr) -> Option<Addresses> {
    let (source, rest) = bytes.split_first_chunk()?;
    let (destination, rest) = rest.split_first_chunk()?;
    let (source_port, rest) = rest.split_first_chunk()?;
    let (destination_port, _) = rest.split_first_chunk()?;
    Some(Addresses {
        source: SocketAddr::new(ip(*source), u16::from_be_bytes(*source_port)),
        destination: SocketAddr::new(ip(*destination), u16::from_be_bytes(*destination_port)),
    })
}

/// Passes over the TLVs from `at` on, and verifies the checksum where there is one.
fn check_tlvs(header: &[u8], mut at: usize) -> Result<(), HeaderError> {
    while at < header.len() {
        let Some(&[kind, high, low]) = header.get(at..at + TLV_HEAD_BYTES) else { return Err(HeaderError::Tlv) };
        let value = at + TLV_HEAD_BYTES..at + TLV_HEAD_BYTES + usize::from(u16::from_be_bytes([high, low]));
        let bytes = header.get(value.clone()).ok_or(HeaderError::Tlv)?;
        if kind == CRC32C {
            let told: [u8; 4] = bytes.try_into().map_err(|_| HeaderError::Tlv)?;
            // It is that of the header with zeros in its own place.
            let without = (0..).zip(header).map(|(place, &byte)| if value.contains(&place) { 0 } else { byte });
            if crc32c(without) != u32::from_be_bytes(told) {
                return Err(HeaderError::Checksum);
            }
        }
        at = value.end;
    }
    Ok(())
}

/// What a header tells of a connection beside its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tlvs<'a> {
    /// The name that the client has asked for (PP2_TYPE_AUTHORITY).
    pub server_name: Option<&'a str>,
    /// The application protocol that was agreed on (PP2_TYPE_ALPN).
    pub alpn: Option<&'a str>,
    /// What its TLS was, where it spoke it (PP2_TYPE_SSL).
    pub tls: Option<Tls<'a>>,
}

/// What a header tells of a client's TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tls<'a> {
    /// Its version, such as `TLSv1.3`.
    pub version: &'a str,
    /// The cipher suite.
    pub cipher: &'a str,
    /// Whether the client has shown a certificate, which then was good.
    pub has_certificate: bool,
    /// Whether it has shown it when the session began, and not on this connection.
    pub resumed: bool,
    /// The common name in it.
    pub common_name: Option<&'a str>,
}

pub(super) fn write(out: &mut Vec<u8>, addresses: Option<Addresses>, tlvs: &Tlvs<'_>) {
    let start = out.len();
    out.extend_from_slice(SIGNATURE);
    out.push(VERSION | PROXY);
    match addresses.map(|Addresses { source, destination }| (source, destination)) {
        Some((SocketAddr::V4(source), SocketAddr::V4(destination))) => {
            out.extend_from_slice(&[TCP_OVER_IPV4, 0, 0]);
            out.extend_from_slice(&source.ip().octets());
            out.extend_from_slice(&destination.ip().octets());
            write_ports(out, source.port(), destination.port());
        }
        Some((SocketAddr::V6(source), SocketAddr::V6(destination))) => {
            out.extend_from_slice(&[TCP_OVER_IPV6, 0, 0]);
            out.extend_from_slice(&source.ip().octets());
            out.extend_from_slice(&destination.ip().octets());
            write_ports(out, source.port(), destination.port());
        }
        None | Some(_) => out.extend_from_slice(&[UNSPECIFIED, 0, 0]),
    }
    for (kind, text) in [(ALPN, tlvs.alpn), (AUTHORITY, tlvs.server_name)] {
        write_text(out, kind, text);
    }
    if let Some(tls) = &tlvs.tls {
        write_tls(out, tls);
    }
    let len = u16::try_from(out.len() - start - FIXED_BYTES).expect("each part is bounded to far less");
    out[start + FIXED_BYTES - 2..start + FIXED_BYTES].copy_from_slice(&len.to_be_bytes());
}

fn write_ports(out: &mut Vec<u8>, source: u16, destination: u16) {
    out.extend_from_slice(&source.to_be_bytes());
    out.extend_from_slice(&destination.to_be_bytes());
}

fn write_text(out: &mut Vec<u8>, kind: u8, text: Option<&str>) {
    if let Some(text) = text.filter(|text| text.len() <= NAME_BYTES_MAX) {
        write_tlv(out, kind, text.as_bytes());
    }
}

fn write_tlv(out: &mut Vec<u8>, kind: u8, value: &[u8]) {
    out.push(kind);
    out.extend_from_slice(&u16::try_from(value.len()).expect("values are bounded to far less").to_be_bytes());
    out.extend_from_slice(value);
}

fn write_tls(out: &mut Vec<u8>, tls: &Tls<'_>) {
    let certificate = match (tls.has_certificate, tls.resumed) {
        (true, false) => CLIENT_CERT_CONN | CLIENT_CERT_SESS,
        (true, true) => CLIENT_CERT_SESS,
        (false, _) => 0,
    };
    // Zero says that a certificate was shown and is good.
    let verify = u32::from(!tls.has_certificate);
    let mut value = vec![CLIENT_SSL | certificate];
    value.extend_from_slice(&verify.to_be_bytes());
    write_text(&mut value, SSL_VERSION, Some(tls.version));
    write_text(&mut value, SSL_CN, tls.common_name);
    write_text(&mut value, SSL_CIPHER, Some(tls.cipher));
    write_tlv(out, SSL, &value);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header of version 2 with this command, family and rest.
    fn made(version_command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let len = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [SIGNATURE, &[version_command, family], &len, rest].concat()
    }

    fn read(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
        super::super::parse(bytes)
    }

    fn addresses(source: &str, destination: &str) -> Option<Addresses> {
        Some(Addresses { source: source.parse().unwrap(), destination: destination.parse().unwrap() })
    }

    /// 192.0.2.7:56324 to 192.0.2.1:6380.
    const IPV4: [u8; 12] = [192, 0, 2, 7, 192, 0, 2, 1, 0xdc, 0x04, 0x18, 0xec];

    #[test]
    fn tcp_connections_have_their_ends() {
        let header = made(0x21, 0x11, &IPV4);
        let expected = Header { len: 28, addresses: addresses("192.0.2.7:56324", "192.0.2.1:6380") };
        assert_eq!(read(&header), Ok(Some(expected)));
        assert_eq!(read(&[&header[..], b"PING\r\n"].concat()), Ok(Some(expected)));
        let mut rest = [0; 36];
        rest[..2].copy_from_slice(&[0x20, 0x01]);
        (rest[15], rest[31], rest[33], rest[35]) = (7, 1, 80, 81);
        let expected = Header { len: 52, addresses: addresses("[2001::7]:80", "[::1]:81") };
        assert_eq!(read(&made(0x21, 0x21, &rest)), Ok(Some(expected)));
    }

    #[test]
    fn connections_of_other_kinds_and_the_proxys_own_have_none() {
        let none = |len| Ok(Some(Header { len, addresses: None }));
        // LOCAL, with whatever family and whatever behind it.
        assert_eq!(read(&made(0x20, 0x00, &[])), none(16));
        assert_eq!(read(&made(0x20, 0x11, &IPV4)), none(28));
        assert_eq!(read(&made(0x20, 0xff, &[1, 2, 3])), none(19));
        // UNSPEC, datagrams, unix sockets.
        assert_eq!(read(&made(0x21, 0x00, &[])), none(16));
        assert_eq!(read(&made(0x21, 0x00, &[1, 2, 3])), none(19));
        assert_eq!(read(&made(0x21, 0x12, &IPV4)), none(28));
        assert_eq!(read(&made(0x21, 0x22, &[0; 36])), none(52));
        assert_eq!(read(&made(0x21, 0x32, &[0; 216])), none(232));
        assert_eq!(read(&made(0x21, 0x31, &[0; 216])), none(232));
    }

    #[test]
    fn what_is_malformed_is_named() {
        for (header, error) in [
            (made(0x11, 0x11, &IPV4), HeaderError::Version),
            (made(0x31, 0x11, &IPV4), HeaderError::Version),
            (made(0x22, 0x11, &IPV4), HeaderError::Command),
            (made(0x21, 0x13, &IPV4), HeaderError::Family),
            (made(0x21, 0x41, &IPV4), HeaderError::Family),
            (made(0x21, 0x11, &IPV4[..11]), HeaderError::TooShort),
            (made(0x21, 0x21, &IPV4), HeaderError::TooShort),
            (made(0x21, 0x31, &[0; 215]), HeaderError::TooShort),
            (made(0x21, 0x11, &[&IPV4[..], &[4]].concat()), HeaderError::Tlv),
            (made(0x21, 0x11, &[&IPV4[..], &[4, 0]].concat()), HeaderError::Tlv),
            (made(0x21, 0x11, &[&IPV4[..], &[4, 0, 1]].concat()), HeaderError::Tlv),
            (made(0x21, 0x11, &[&IPV4[..], &[4, 0, 1, 0, 0]].concat()), HeaderError::Tlv),
            (made(0x21, 0x11, &[&IPV4[..], &[3, 0, 1, 0]].concat()), HeaderError::Tlv),
        ] {
            assert_eq!(read(&header), Err(error), "{header:02x?}");
        }
        assert_eq!(read(b"\r\n\r\n\0\r\nQUIT\r"), Err(HeaderError::Absent));
    }

    #[test]
    fn tlvs_are_passed_over() {
        let header = made(0x21, 0x11, &[&IPV4[..], &[4, 0, 0], &[0xea, 0, 2, 1, 2], &[0x20, 0, 1, 1]].concat());
        assert_eq!(read(&header).unwrap().unwrap().len, 40);
    }

    #[test]
    fn a_header_is_as_long_as_its_bound_and_no_longer() {
        let noop = |bytes: usize| {
            let len = u16::try_from(bytes - 28 - 3).unwrap().to_be_bytes();
            made(0x21, 0x11, &[&IPV4[..], &[4], &len, &vec![0; bytes - 31]].concat())
        };
        assert_eq!(read(&noop(4096)).unwrap().unwrap().len, 4096);
        assert_eq!(read(&noop(4096)[..4095]), Ok(None));
        // Said as soon as the length is there.
        assert_eq!(read(&noop(4097)[..16]), Err(HeaderError::TooLong));
    }

    /// The checksum was computed by another program. HAProxy's are taken, too: `tests/blackbox/proxy_protocol.rs`.
    #[test]
    fn a_checksum_is_verified() {
        let header = made(0x21, 0x11, &[&IPV4[..], &[3, 0, 4], &0xffc3_0a6b_u32.to_be_bytes()].concat());
        assert_eq!(read(&header).unwrap().unwrap().len, 35);
        for at in 16..35 {
            let mut changed = header.clone();
            changed[at] ^= 1;
            assert!(matches!(read(&changed), Err(HeaderError::Checksum | HeaderError::Tlv) | Ok(_)), "{at}");
            assert_eq!(read(&changed).is_ok(), at == 28, "{at}: a TLV of another type is none to verify");
        }
    }

    #[test]
    fn what_is_known_of_a_client_is_written() {
        let tls = Tls {
            version: "TLSv1.3",
            cipher: "TLS_AES_128_GCM_SHA256",
            has_certificate: true,
            resumed: false,
            common_name: Some("worker"),
        };
        let mut out = Vec::new();
        let tlvs = Tlvs { server_name: Some("valkey.example"), alpn: Some("redis"), tls: Some(tls) };
        write(&mut out, addresses("192.0.2.7:56324", "192.0.2.1:6380"), &tlvs);
        let ssl = [
            &[0x20, 0, 49, 0x07, 0, 0, 0, 0][..],
            &[0x21, 0, 7],
            b"TLSv1.3",
            &[0x22, 0, 6],
            b"worker",
            &[0x23, 0, 22],
            b"TLS_AES_128_GCM_SHA256",
        ];
        let rest = [&IPV4[..], &[1, 0, 5], b"redis", &[2, 0, 14], b"valkey.example", &ssl.concat()].concat();
        assert_eq!(out, made(0x21, 0x11, &rest));
    }

    #[test]
    fn a_client_without_a_certificate_and_one_that_resumed_are_told_apart() {
        let flags = |has_certificate, resumed| {
            let tls = Tls { version: "", cipher: "", has_certificate, resumed, common_name: None };
            let mut out = Vec::new();
            write(&mut out, None, &Tlvs { tls: Some(tls), ..Tlvs::default() });
            assert_eq!((out[13], &out[16..19]), (0x00, &[0x20, 0, 11][..]));
            out[19..24].to_vec()
        };
        assert_eq!(flags(false, false), [0x01, 0, 0, 0, 1]);
        assert_eq!(flags(true, false), [0x07, 0, 0, 0, 0]);
        assert_eq!(flags(true, true), [0x05, 0, 0, 0, 0]);
    }

    #[test]
    fn a_name_that_is_too_long_is_left_out_and_not_cut() {
        let written = |bytes| {
            let mut out = Vec::new();
            write(&mut out, None, &Tlvs { server_name: Some(&"x".repeat(bytes)), ..Tlvs::default() });
            out.len()
        };
        assert_eq!((written(256), written(257)), (16 + 3 + 256, 16));
    }
}
