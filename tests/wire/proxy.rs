//! PROXY headers: what is written is read, at any cut; what is arbitrary ends in a header, an error or a bounded wait.

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;
use ringwall::wire::proxy::{Addresses, HEADER_BYTES_MAX, Header, Tls, Tlvs, parse, write_v1, write_v2};

/// Addresses of one family.
fn addresses() -> impl Strategy<Value = Addresses> {
    let ends = |(source, from, destination, to): (IpAddr, u16, IpAddr, u16)| Addresses {
        source: SocketAddr::new(source, from),
        destination: SocketAddr::new(destination, to),
    };
    let v4 = || any::<[u8; 4]>().prop_map(IpAddr::from);
    let v6 = || any::<[u8; 16]>().prop_map(IpAddr::from);
    prop_oneof![
        (v4(), any::<u16>(), v4(), any::<u16>()).prop_map(ends),
        (v6(), any::<u16>(), v6(), any::<u16>()).prop_map(ends),
    ]
}

fn header(addresses: Option<Addresses>, version_1: bool, name: &str, has_certificate: bool) -> Vec<u8> {
    let mut out = Vec::new();
    if version_1 {
        write_v1(&mut out, addresses);
    } else {
        let tls = Tls {
            version: "TLSv1.3",
            cipher: "TLS_AES_128_GCM_SHA256",
            has_certificate,
            resumed: false,
            common_name: has_certificate.then_some(name),
        };
        write_v2(&mut out, addresses, &Tlvs { server_name: Some(name), alpn: None, tls: Some(tls) });
    }
    out
}

/// Bytes that look like a header for a while.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    const STARTS: &[&[u8]] = &[
        b"PROXY ",
        b"PROXY TCP4 1",
        b"PROXY UNKNOWN",
        b"\r\n\r\n\0\r\nQUIT\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x20",
        b"",
    ];
    let rest = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        "[ 0-9.:a-fTCP\r\n]{0,120}".prop_map(String::into_bytes),
        prop::collection::vec(0_u8..4, 0..5_000),
    ];
    (prop::sample::select(STARTS), rest).prop_map(|(start, rest)| [start, &rest].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_and_nothing_behind_it(
        addresses in prop::option::of(addresses()),
        version_1 in any::<bool>(),
        name in "\\PC{0,80}",
        has_certificate in any::<bool>(),
        behind in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let written = header(addresses, version_1, &name, has_certificate);
        let all = [&written[..], &behind].concat();
        prop_assert_eq!(parse(&all), Ok(Some(Header { len: written.len(), addresses })));
    }

    #[test]
    fn a_header_cut_at_any_byte_needs_more(
        addresses in prop::option::of(addresses()),
        version_1 in any::<bool>(),
        name in "[a-z.]{0,80}",
    ) {
        let written = header(addresses, version_1, &name, true);
        for len in 0..written.len() {
            prop_assert_eq!(parse(&written[..len]), Ok(None), "{} of {} bytes", len, written.len());
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_never_wait_beyond_the_bound(bytes in nearly()) {
        match parse(&bytes) {
            Ok(Some(header)) => prop_assert!(header.len <= bytes.len().min(HEADER_BYTES_MAX)),
            Ok(None) => prop_assert!(bytes.len() < HEADER_BYTES_MAX),
            Err(_) => {}
        }
    }

    /// More bytes never change what was said of fewer.
    #[test]
    fn a_verdict_stands(bytes in nearly(), behind in prop::collection::vec(any::<u8>(), 0..20)) {
        let verdict = parse(&bytes);
        if verdict != Ok(None) {
            prop_assert_eq!(parse(&[&bytes[..], &behind].concat()), verdict);
        }
    }
}
