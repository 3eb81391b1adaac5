//! TLS 1.2 and 1.3 with other people's TLS library, both kinds of keys, key updates and resumption.

use std::io::Write;
use std::process::{Command, Stdio};

use rcgen::{KeyPair, PKCS_RSA_SHA256, RsaKeySize};

use crate::certificates::Certificates;
use crate::client::{Dial, End};
use crate::process::run;
use crate::resp::payload;
use crate::ringwall::{Ringwall, Setup};
use crate::server::Server;

/// `openssl s_client` against ringwall, verifying its certificate.
fn s_client(ringwall: &Ringwall, arguments: &[&str]) -> Command {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &ringwall.address.to_string(), "-servername", "localhost"]);
    command.arg("-CAfile").arg(ringwall.ca_file()).args(["-verify_return_error"]).args(arguments);
    command
}

/// Sends PING and QUIT with `openssl s_client` and expects both answers.
fn assert_openssl_talks(ringwall: &Ringwall, arguments: &[&str]) {
    let (success, output) = run(s_client(ringwall, &[arguments, &["-quiet"]].concat()), b"PING\r\nQUIT\r\n");
    assert!(success && output.contains("+PONG") && output.contains("+OK"), "{output}");
}

#[test]
fn openssl_talks_tls_1_3_and_the_log_tells_what_was_agreed() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    assert_openssl_talks(&ringwall, &["-tls1_3"]);
    let line = ringwall.process.line(|line| line.contains("session closed"));
    for field in ["\"tls_version\":\"TLSv1.3\"", "\"cipher\":\"TLS_AES_", "\"group\":\"", "\"sni\":\"localhost\""] {
        assert!(line.contains(field), "{field} is not in {line}");
    }
}

#[test]
fn openssl_talks_tls_1_2() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    assert_openssl_talks(&ringwall, &["-tls1_2"]);
    let line = ringwall.process.line(|line| line.contains("session closed"));
    assert!(line.contains("\"tls_version\":\"TLSv1.2\""), "{line}");
}

#[test]
fn tls_1_2_prefers_chacha20_whose_keys_outlive_any_connection() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    assert_openssl_talks(
        &ringwall,
        &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305"],
    );
    let line = ringwall.process.line(|line| line.contains("session closed"));
    assert!(line.contains("CHACHA20"), "{line}");
}

#[test]
fn an_rsa_key_serves_both_versions() {
    let server = Server::on_unix_socket();
    let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
    let ringwall = Setup::before(server.address()).certificates(Certificates::with_key(&key)).start();
    assert_openssl_talks(&ringwall, &["-tls1_3"]);
    assert_openssl_talks(&ringwall, &["-tls1_2"]);
}

#[test]
fn a_version_older_than_1_2_is_refused_with_an_alert() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let (success, output) = run(s_client(&ringwall, &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]), b"PING\r\n");
    assert!(!success && output.contains("SSL alert number"), "{output}");
    ringwall.session_ended("handshake_failed");
}

/// An interactive `openssl s_client`: lines that are a single letter are commands to it.
#[test]
fn keys_are_updated_both_ways_with_openssl() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let mut command = s_client(&ringwall, &["-tls1_3", "-msg"]);
    let log = ringwall.folder().join("s_client.log");
    let output = std::fs::File::create(&log).unwrap();
    command.stdin(Stdio::piped()).stdout(output.try_clone().unwrap()).stderr(output);
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let seen = |what: &str, times: usize| {
        let deadline = crate::process::now() + crate::process::PATIENCE;
        loop {
            let text = std::fs::read_to_string(&log).unwrap();
            if text.matches(what).count() >= times {
                return;
            }
            assert!(crate::process::now() < deadline, "{what} was not seen {times} times:\n{text}");
            std::thread::yield_now();
        }
    };
    seen("Verify return code: 0", 1);
    stdin.write_all(b"PING\r\n").unwrap();
    seen("+PONG", 1);
    // K: update our keys and ask the peer to update its own; its answer is a message of its own.
    // The answer may wait for the next reply, in front of which it must be.
    stdin.write_all(b"K\n").unwrap();
    seen("KeyUpdate", 1);
    stdin.write_all(b"PING\r\n").unwrap();
    seen("+PONG", 2);
    seen("KeyUpdate", 2);
    // k: update our keys alone.
    stdin.write_all(b"k\n").unwrap();
    seen("KeyUpdate", 3);
    stdin.write_all(b"PING\r\n").unwrap();
    seen("+PONG", 3);
    drop(stdin);
    child.wait().unwrap();
}

#[test]
fn keys_are_updated_in_the_middle_of_large_transfers() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let mut client = ringwall.client();
    let value: Vec<u8> = (0..2_000_000_u32).map(|at| (at % 253) as u8).collect();
    for _ in 0..5 {
        client.session().refresh_traffic_keys().unwrap();
        client.send_request(&[b"ECHO".as_slice(), &value]);
        client.bytes(500_000);
        client.session().refresh_traffic_keys().unwrap();
        client.flush().unwrap();
        let head = "$2000000\r\n".len();
        let rest = client.bytes(head + value.len() + 2 - 500_000);
        assert!(rest[..rest.len() - 2] == value[500_000 - head..]);
    }
    client.end_writing();
    assert_eq!(client.end(), End::Orderly);
}

#[test]
fn a_second_connection_resumes_the_first() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let dial = Dial::with_versions(ringwall.address, ringwall.certificates.roots(), &[version]);
        for expected in [rustls::HandshakeKind::Full, rustls::HandshakeKind::Resumed] {
            let mut client = dial.connect().unwrap();
            // The ticket comes before the first reply.
            assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
            assert_eq!(client.session().handshake_kind(), Some(expected), "{version:?}");
            client.end_writing();
            assert_eq!(client.end(), End::Orderly);
        }
    }
    ringwall.process.line(|line| line.contains("\"resumed\":true"));
}

#[test]
fn a_client_that_offers_a_post_quantum_group_gets_it() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    ringwall.assert_serves();
    let line = ringwall.process.line(|line| line.contains("session closed"));
    assert!(line.contains("\"group\":\"X25519MLKEM768\""), "{line}");
}

#[test]
fn a_client_that_does_not_trust_the_certificate_is_a_failed_handshake() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let stranger = Certificates::new();
    assert!(Dial::new(ringwall.address, stranger.roots()).connect().is_err());
    let line = ringwall.session_ended("handshake_failed");
    assert!(line.contains("alert"), "the client's alert is not in {line}");
}

#[test]
fn every_record_size_arrives_whole() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let mut client = ringwall.client();
    for length in [0_usize, 1, 4_070, 4_096, 8_192, 16_360, 16_384, 16_400, 32_768, 65_535, 65_536, 262_144] {
        let value = vec![b'r'; length];
        assert!(payload(&client.call(&[b"ECHO".as_slice(), &value])) == value, "{length} bytes");
    }
}
