//! The record protection of an open connection (RFC 8446, section 5; RFC 5246, section 6.2.3.3).
//!
//! The handshake's keys are the library's; those of the traffic are here, so that a record is opened where it was
//! received and sealed from where its plaintext lies straight to where it is sent from: no allocation, and no copy but
//! the cipher's own pass.
//!
//! ```text
//! TLS 1.3:            | header, 5 | content, its type, zeros (sealed)  | tag, 16 |
//! TLS 1.2, AES-GCM:   | header, 5 | nonce, 8 | content (sealed)        | tag, 16 |
//! TLS 1.2, ChaCha20:  | header, 5 | content (sealed)                   | tag, 16 |
//! ```
//!
//! Nothing here knows what a message means, answers anything or keeps bytes: see `traffic.rs` for that.
//!
//! Invariants: no nonce is used twice under one key, because the sequence number is the only thing that changes in it
//! and only grows; what the peer sends is read after its tag is found right, never before.

mod form;
mod header;
mod keys;
mod opener;
mod sealer;

pub(super) use form::Form;
pub(super) use header::{
    ALERT, APPLICATION_DATA, HANDSHAKE, HEADER_LEN, PLAINTEXT_MAX, check_header, has_record, record_len,
};
pub(super) use keys::Keys;
pub(super) use opener::Opener;
pub(super) use sealer::Sealer;

#[cfg(test)]
mod tests {
    use aws_lc_rs::aead::{AES_128_GCM, CHACHA20_POLY1305};

    use super::opener::Content;
    use super::*;
    use crate::tls::alert::Fault;
    use crate::tls::policy::Version;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<_> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(&String::from_iter(pair), 16).unwrap()).collect()
    }

    /// The application traffic keys of RFC 8448, section 3.
    fn client_keys(sequence: u64) -> Keys {
        let iv = bytes("5b 78 92 3d ee 08 57 90 33 e5 23 d9").try_into().unwrap();
        Keys::new(&AES_128_GCM, &bytes("17 42 2d da 59 6e d5 d9 ac d8 90 e3 c6 3f 50 51"), iv, sequence)
    }

    fn server_keys(sequence: u64) -> Keys {
        let iv = bytes("cf 78 2b 88 dd 83 54 9a ad f1 e9 84").try_into().unwrap();
        Keys::new(&AES_128_GCM, &bytes("9f 02 28 3b 6c 9c 07 ef c2 6b b9 f2 ac 92 e3 56"), iv, sequence)
    }

    const CLIENT_DATA: &str = "17 03 03 00 43 a2 3f 70 54 b6 2c 94 d0 af fa fe 82 28 ba 55 cb ef ac ea 42 f9 14 aa 66 \
        bc ab 3f 2b 98 19 a8 a5 b4 6b 39 5b d5 4a 9a 20 44 1e 2b 62 97 4e 1f 5a 62 92 a2 97 70 14 bd 1e 3d ea e6 3a ee bb \
        21 69 49 15 e4";
    const SERVER_DATA: &str = "17 03 03 00 43 2e 93 7e 11 ef 4a c7 40 e5 38 ad 36 00 5f c4 a4 69 32 fc 32 25 d0 5f 82 \
        aa 1b 36 e3 0e fa f9 7d 90 e6 df fc 60 2d cb 50 1a 59 a8 fc c4 9c 4b f2 e5 f0 a2 1c 00 47 c2 ab f3 32 54 0d d0 32 \
        e1 67 c2 95 5d";
    const CLIENT_CLOSE: &str = "17 03 03 00 13 c9 87 27 60 65 56 66 b7 4d 7f f1 15 3e fd 6d b6 d0 b0 e3";
    const SERVER_CLOSE: &str = "17 03 03 00 13 b5 8f d6 71 66 eb f5 99 d2 47 20 cf be 7e fa 7a 88 64 a9";

    fn payload() -> Vec<u8> {
        (0..50).collect()
    }

    fn seal(sealer: &mut Sealer, kind: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![0; sealer.sealed_len(content.len())];
        assert_eq!(sealer.seal(kind, content, &mut out), out.len());
        out
    }

    #[test]
    fn records_of_tls13_are_those_of_rfc_8448() {
        // The server has sent a ticket before.
        for (keys, data, close) in
            [(client_keys(0), CLIENT_DATA, CLIENT_CLOSE), (server_keys(1), SERVER_DATA, SERVER_CLOSE)]
        {
            let mut sealer = Sealer::new(keys, Form::Tls13, u64::MAX);
            assert_eq!(seal(&mut sealer, APPLICATION_DATA, &payload()), bytes(data));
            assert_eq!(seal(&mut sealer, ALERT, &[1, 0]), bytes(close));
        }
        for (keys, data, close) in
            [(client_keys(0), CLIENT_DATA, CLIENT_CLOSE), (server_keys(1), SERVER_DATA, SERVER_CLOSE)]
        {
            let mut opener = Opener::new(keys, Form::Tls13);
            let (mut data, mut close) = (bytes(data), bytes(close));
            assert_eq!(opener.open(&mut data), Ok(Content { kind: APPLICATION_DATA, bytes: &payload() }));
            assert_eq!(opener.open(&mut close), Ok(Content { kind: ALERT, bytes: &[1, 0] }));
        }
    }

    #[test]
    fn a_record_that_comes_twice_out_of_order_or_changed_does_not_open() {
        let bad = Err(Fault::bad_record());
        let mut opener = Opener::new(client_keys(0), Form::Tls13);
        assert_eq!(opener.open(&mut bytes(CLIENT_CLOSE)), bad);
        assert!(opener.open(&mut bytes(CLIENT_DATA)).is_ok());
        assert_eq!(opener.open(&mut bytes(CLIENT_DATA)), bad);
        for bit in 0..bytes(CLIENT_CLOSE).len() * 8 {
            let mut changed = bytes(CLIENT_CLOSE);
            changed[bit / 8] ^= 1 << (bit % 8);
            let mut opener = Opener::new(client_keys(1), Form::Tls13);
            // The header is judged elsewhere: the tag is over what it should be.
            assert_eq!(opener.open(&mut changed).is_ok(), bit / 8 < HEADER_LEN, "bit {bit}");
        }
        for len in HEADER_LEN..bytes(CLIENT_CLOSE).len() {
            assert_eq!(Opener::new(client_keys(1), Form::Tls13).open(&mut bytes(CLIENT_CLOSE)[..len]), bad, "{len}");
        }
    }

    #[test]
    fn tls12_has_its_type_and_version_in_the_header_and_the_length_of_the_content_under_the_tag() {
        let keys = |form, sequence| match form {
            Form::Tls12 => Keys::new(&CHACHA20_POLY1305, &[7; 32], [9; 12], sequence),
            Form::Tls12ExplicitNonce | Form::Tls13 => client_keys(sequence),
        };
        for (form, overhead) in [(Form::Tls12, 21), (Form::Tls12ExplicitNonce, 29)] {
            let mut sealer = Sealer::new(keys(form, 3), form, u64::MAX);
            let sealed = seal(&mut sealer, ALERT, &[1, 0]);
            assert_eq!(sealed[..HEADER_LEN], [ALERT, 3, 3, 0, overhead - 5 + 2]);
            // As RFC 7905 has it, the sequence number is in the nonce: the last of these bytes is 0xd9 ^ 3.
            if form == Form::Tls12ExplicitNonce {
                assert_eq!(sealed[5..13], [0xee, 0x08, 0x57, 0x90, 0x33, 0xe5, 0x23, 0xda]);
            }
            let opened = |changed: usize| {
                let mut record = sealed.clone();
                record[changed] ^= 1;
                Opener::new(keys(form, 3), form).open(&mut record).is_ok()
            };
            assert!((0..sealed.len()).all(|at| opened(at) == (3..5).contains(&at)), "{form:?}");
            let mut record = sealed.clone();
            let mut opener = Opener::new(keys(form, 3), form);
            assert_eq!(opener.open(&mut record), Ok(Content { kind: ALERT, bytes: &[1, 0] }));
            assert!(opener.open(&mut sealed.clone()).is_err(), "the sequence number has changed");
        }
    }

    #[test]
    fn a_record_with_nothing_but_zeros_in_it_is_out_of_place() {
        // Sealed as content of type 0, zeros are padding without a content in front.
        for zeros in [0, 1, 1000] {
            let mut record = seal(&mut Sealer::new(client_keys(0), Form::Tls13, 2), 0, &vec![0; zeros]);
            assert_eq!(Opener::new(client_keys(0), Form::Tls13).open(&mut record), Err(Fault::unexpected()));
        }
    }

    #[test]
    fn a_header_is_judged_as_soon_as_it_tells_enough() {
        let (unexpected, malformed, overflow) = (Fault::unexpected(), Fault::malformed(), Fault::overflow());
        let table: &[(Version, &[u8], Result<(), Fault>)] = &[
            (Version::Tls13, &[], Ok(())),
            (Version::Tls13, &[23], Ok(())),
            (Version::Tls13, &[22], Err(unexpected)),
            (Version::Tls13, &[0], Err(unexpected)),
            (Version::Tls13, &[20, 3, 3, 0, 1], Err(unexpected)),
            // Its receiver ignores the version (RFC 8446, section 5.1).
            (Version::Tls13, &[23, 9, 9, 0, 20], Ok(())),
            // 2^14 + 256 is 0x4100, 2^14 + 2,048 is 0x4800.
            (Version::Tls13, &[23, 3, 3, 0x41, 0x00], Ok(())),
            (Version::Tls13, &[23, 3, 3, 0x41, 0x01], Err(overflow)),
            (Version::Tls12, &[], Ok(())),
            (Version::Tls12, &[21], Ok(())),
            (Version::Tls12, &[22, 3], Ok(())),
            (Version::Tls12, &[23, 4], Err(malformed)),
            (Version::Tls12, &[20, 3, 3, 0, 1], Err(unexpected)),
            (Version::Tls12, &[24], Err(unexpected)),
            (Version::Tls12, &[23, 3, 3, 0x48, 0x00], Ok(())),
            (Version::Tls12, &[23, 3, 3, 0x48, 0x01], Err(overflow)),
        ];
        for (version, header, judged) in table {
            assert_eq!(check_header(*version, header), *judged, "{version} {header:?}");
        }
    }
}
