//! Files with OCSP responses: what is taken, and what is said about each that is not.

use std::path::PathBuf;

use ringwall::tls::Identity;

use crate::support::{Authority, Folder, KeyKind, openssl, server_params};

/// A certificate whose serial number is 5001h, and what its authority's responder says.
struct Responder {
    folder: Folder,
}

impl Responder {
    fn new() -> Self {
        let (folder, authority, key) = (Folder::new(), Authority::new("Test Authority"), KeyKind::Ecdsa.generate());
        let mut params = server_params(&["redis.test"]);
        params.serial_number = Some(0x5001_u64.into());
        folder.write("ca.pem", authority.certificate.pem());
        folder.write("ca.key", authority.key_pem());
        folder.write("server.crt", authority.certify(&params, &key).pem());
        folder.write("server.key", key.serialize_pem());
        folder.write("index.txt", "V\t491231235959Z\t\t5001\tunknown\t/CN=redis.test\n");
        Self { folder }
    }

    /// The answer about a serial number, good for a week, or without an end.
    fn answer(&self, serial: &str, limited: bool) -> PathBuf {
        let path = |name: &str| self.folder.path(name).display().to_string();
        let (ca, key, index, out) = (path("ca.pem"), path("ca.key"), path("index.txt"), path("server.ocsp"));
        let mut arguments = vec!["ocsp", "-index", &index, "-CA", &ca, "-rsigner", &ca, "-rkey", &key, "-issuer", &ca];
        arguments.extend(["-serial", serial, "-noverify", "-respout", &out]);
        arguments.extend(limited.then_some(["-ndays", "7"]).into_iter().flatten());
        openssl(&arguments);
        self.folder.path("server.ocsp")
    }

    fn load(&self, response: impl AsRef<[u8]>) -> Result<Identity, String> {
        let response = self.folder.write("server.ocsp", response);
        let identity = Identity::load(&self.folder.path("server.crt"), &self.folder.path("server.key")).unwrap();
        let shown = |error: String| error.replace(&self.folder.path("").display().to_string(), "/etc/ringwall/");
        identity.with_ocsp(&response).map_err(|error| shown(error.to_string()))
    }
}

#[test]
fn a_response_is_good_until_its_end() {
    let responder = Responder::new();
    let warnings = |identity: &Identity, unix_time| {
        let warnings = identity.warnings(unix_time).into_iter().map(|warning| warning.to_string());
        warnings.filter(|warning| warning.starts_with("ocsp ")).collect::<Vec<_>>()
    };
    let response = std::fs::read(responder.answer("0x5001", true)).unwrap();
    let identity = responder.load(&response).unwrap();
    assert_eq!(warnings(&identity, ringwall::tls::unix_time()), [""; 0]);
    let [warning] = &warnings(&identity, 4_000_000_000)[..] else { panic!("not one warning") };
    let (head, rest) = warning.split_once("the response expired on ").unwrap();
    assert_eq!(head, format!("ocsp {}: ", responder.folder.path("server.ocsp").display()));
    assert!(rest.ends_with("; clients that look at it will refuse the certificate"), "{rest}");
    // One without an end has none.
    let response = std::fs::read(responder.answer("0x5001", false)).unwrap();
    assert_eq!(warnings(&responder.load(&response).unwrap(), 4_000_000_000), [""; 0]);
}

#[test]
fn a_response_that_is_of_no_use_is_refused() {
    let responder = Responder::new();
    let good = std::fs::read(responder.answer("0x5001", true)).unwrap();
    let other = std::fs::read(responder.answer("0x5002", true)).unwrap();
    let named = "ocsp /etc/ringwall/server.ocsp: ";
    let none = "this is no OCSP response in DER, or it is damaged; `openssl ocsp -respout` writes one";
    for (response, problem) in [
        (&b""[..], none),
        // RFC 6960, section 4.2.1: an OCSPResponse with nothing but a status of 3 and of 6.
        (&[0x30, 3, 10, 1, 3], "the responder gave no answer but \"tryLater\"; ask it again"),
        (&[0x30, 3, 10, 1, 6], "the responder gave no answer but \"unauthorized\"; ask it again"),
        // Successful, and no answer.
        (&[0x30, 3, 10, 1, 0], none),
        (b"-----BEGIN OCSP RESPONSE-----", none),
        (&good[..good.len() / 2], none),
        (
            &other,
            "the response is not about the certificate, whose serial number is 5001; ask for it with `openssl ocsp -cert`",
        ),
    ] {
        assert_eq!(responder.load(response).unwrap_err(), format!("{named}{problem}"));
    }
}

#[test]
fn no_bytes_of_a_response_make_its_reader_panic() {
    let responder = Responder::new();
    let good = std::fs::read(responder.answer("0x5001", true)).unwrap();
    for length in 0..good.len() {
        assert!(responder.load(&good[..length]).is_err(), "{length} bytes");
    }
    for at in 0..good.len() {
        for change in [1, 0x80, 0xff] {
            let mut forged = good.clone();
            forged[at] ^= change;
            // Taken or refused: either is fine.
            let _ = responder.load(&forged);
        }
    }
}
