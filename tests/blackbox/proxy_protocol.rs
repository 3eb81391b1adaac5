//! The PROXY protocol on both sides, with HAProxy as the other end of it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::certificates::Certificates;
use crate::client::{Client, Dial, End};
use crate::haproxy::Haproxy;
use crate::ringwall::{Ringwall, Setup};
use crate::scripted::{Scripted, read_exactly, write};
use crate::server::Server;

const TRUSTING: &str = "accept_proxy = true\ntrusted_proxies = [\"127.0.0.0/8\"]";

/// A field of a log line in JSON.
fn field(line: &str, name: &str) -> Option<String> {
    let rest = line.split(&format!("\"{name}\":\"")).nth(1)?;
    rest.split('"').next().map(ToOwned::to_owned)
}

#[test]
fn clients_behind_haproxy_are_logged_by_their_own_addresses() {
    let server = Server::on_unix_socket();
    for words in ["send-proxy", "send-proxy-v2", "send-proxy-v2 proxy-v2-options crc32c,unique-id"] {
        let ringwall = Setup::before(server.address()).listener(TRUSTING).start();
        let haproxy = Haproxy::start("", "%ci", &format!("{} {words}", ringwall.address));
        let mut client = Dial::new(haproxy.address, ringwall.certificates.roots()).connect().unwrap();
        let own = client.socket().local_addr().unwrap().to_string();
        assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
        client.end_writing();
        client.end();
        drop(client);
        let line = ringwall.session_ended("client_closed");
        assert_eq!(field(&line, "client"), Some(own.clone()), "{words}: {line}");
        let proxy = field(&line, "proxy").unwrap();
        assert!(proxy.starts_with("127.0.0.1:") && proxy != own, "{words}: {line}");
    }
}

#[test]
fn plain_clients_behind_haproxy_are_served_in_full_also_when_they_end_at_once() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).plain().listener(TRUSTING).start();
    let haproxy = Haproxy::start("", "%ci", &format!("{} send-proxy-v2", ringwall.address));
    for _ in 0..20 {
        let mut client = Client::plain(TcpStream::connect(haproxy.address).unwrap());
        client.send(b"PING\r\nECHO all\r\n");
        client.end_writing();
        assert_eq!(client.rest(), (b"+PONG\r\n$3\r\nall\r\n".to_vec(), End::Orderly));
    }
    ringwall.nth_session_ended(20, "client_closed");
}

/// HAProxy resets the connection of a check as soon as it is established.
#[test]
fn the_checks_of_haproxy_alarm_nobody() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).plain().listener(TRUSTING).start();
    let haproxy = Haproxy::start("", "%ci", &format!("{} send-proxy-v2 check inter 50ms", ringwall.address));
    ringwall.wait_for_ended_sessions(5);
    drop(haproxy);
    let mut client = ringwall.plain_client();
    client.send(b"PROXY TCP4 192.0.2.7 192.0.2.1 56324 6380\r\nPING\r\n");
    assert_eq!(client.reply(), b"+PONG\r\n");
    let lines = ringwall.process.lines();
    assert!(!lines.iter().any(|line| line.contains("ringwall::shard")), "{lines:#?}");
}

#[test]
fn a_header_in_single_bytes_is_one() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).plain().listener(TRUSTING).start();
    let mut socket = TcpStream::connect(ringwall.address).unwrap();
    socket.set_nodelay(true).unwrap();
    for byte in b"PROXY TCP6 2001:db8::7 ::1 56324 6380\r\nPING\r\n" {
        socket.write_all(&[*byte]).unwrap();
    }
    assert_eq!(read_exactly(&mut socket, 7), b"+PONG\r\n");
    drop(socket);
    let line = ringwall.session_ended("client_closed");
    assert_eq!(field(&line, "client").as_deref(), Some("[2001:db8::7]:56324"), "{line}");
}

/// What a connection that says `bytes` gets until it ends.
fn answer(ringwall: &Ringwall, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(ringwall.address).unwrap();
    socket.write_all(bytes).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    let mut got = Vec::new();
    socket.read_to_end(&mut got).unwrap();
    got
}

#[test]
fn whoever_is_not_a_trusted_proxy_is_closed_without_a_word() {
    let server = Server::on_unix_socket();
    let keys = "accept_proxy = true\ntrusted_proxies = [\"192.0.2.0/24\"]";
    let ringwall = Setup::before(server.address()).plain().listener(keys).start();
    assert_eq!(answer(&ringwall, b"PROXY TCP4 192.0.2.7 192.0.2.1 56324 6380\r\nPING\r\n"), b"");
    let line = ringwall.session_ended("proxy_untrusted");
    assert!(field(&line, "client").unwrap().starts_with("127.0.0.1:"), "{line}");
    ringwall.process.line(|line| line.contains("WARN") && line.contains("trusted_proxies"));
}

#[test]
fn a_connection_without_a_good_header_is_closed_without_a_word_and_named() {
    let server = Server::on_unix_socket();
    let limits = "[limits]\nhandshake_timeout = \"200ms\"\n";
    let ringwall = Setup::before(server.address()).listener(TRUSTING).sections(limits).start();
    for (bytes, detail) in [
        (&ringwall.dial().client_hello()[..], "does not begin with a PROXY header"),
        (b"PROXY TCP4 192.0.2.7\r\n", "the PROXY line of version 1 is malformed"),
        (b"\r\n\r\n\0\r\nQUIT\n\x31\x11\x00\x0c", "of a version other than 1 and 2"),
    ] {
        assert_eq!(answer(&ringwall, bytes), b"");
        ringwall.process.line(|line| line.contains("\"reason\":\"proxy_header_invalid\"") && line.contains(detail));
        ringwall.process.line(|line| line.contains("WARN") && line.contains(detail));
    }
    let mut silent = TcpStream::connect(ringwall.address).unwrap();
    silent.write_all(b"PROXY TCP4 ").unwrap();
    assert_eq!(silent.read(&mut [0; 8]).unwrap(), 0);
    drop(silent);
    ringwall.session_ended("proxy_header_timeout");
}

#[test]
fn haproxy_behind_sees_the_address_of_the_client() {
    let server = Server::on_tcp();
    for version in ["v1", "v2"] {
        let format = "client=%ci:%cp authority=%[fc_pp_authority]";
        let haproxy = Haproxy::start("accept-proxy", format, &server.address());
        let setup = Setup::before(haproxy.address.to_string());
        let ringwall = setup.backend(&format!("send_proxy = \"{version}\"")).start();
        let mut client = ringwall.client();
        let own = client.socket().local_addr().unwrap();
        assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
        client.end_writing();
        client.end();
        let authority = if version == "v1" { "-" } else { "localhost" };
        haproxy.process.line(|line| line == format!("client={own} authority={authority}"));
    }
}

#[test]
fn the_header_goes_out_in_front_of_tls_to_the_server() {
    let (server, certificates) = (Server::on_tcp(), Certificates::new());
    let path = certificates.folder().join("both.pem");
    let part = |name| std::fs::read_to_string(certificates.folder().join(name)).unwrap();
    std::fs::write(&path, part("server.crt") + &part("server.key")).unwrap();
    let bind = format!("accept-proxy ssl crt {}", path.display());
    let haproxy = Haproxy::start(&bind, "client=%ci:%cp tls=%sslv", &server.address());
    let keys = format!("send_proxy = \"v2\"\ntls = {{ ca = {:?} }}", certificates.ca_file());
    let ringwall = Setup::before(haproxy.address.to_string()).plain().backend(&keys).start();
    let socket = TcpStream::connect(ringwall.address).unwrap();
    let own = socket.local_addr().unwrap();
    let mut client = Client::plain(socket);
    assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    client.end_writing();
    client.end();
    haproxy.process.line(|line| line == format!("client={own} tls=TLSv1.3"));
}

#[test]
fn a_header_passes_on_who_a_proxy_in_front_has_announced() {
    let backend = Scripted::new(|mut connection| {
        let line = read_exactly(&mut connection, 43);
        write(&mut connection, b"+OK\r\n");
        connection.read_to_end(&mut Vec::new()).ok();
        line
    });
    let setup = Setup::before(backend.address.to_string()).plain().listener(TRUSTING);
    let ringwall = setup.backend("send_proxy = \"v1\"").start();
    let mut client = ringwall.plain_client();
    client.send(b"PROXY TCP4 192.0.2.7 192.0.2.1 56324 6380\r\n");
    assert_eq!(client.reply(), b"+OK\r\n");
    drop(client);
    assert_eq!(backend.result(), b"PROXY TCP4 192.0.2.7 192.0.2.1 56324 6380\r\n");
}

#[test]
fn a_header_of_version_2_tells_of_the_clients_certificate() {
    let backend = Scripted::new(|mut connection| {
        let fixed = read_exactly(&mut connection, 16);
        let rest = read_exactly(&mut connection, usize::from(u16::from_be_bytes([fixed[14], fixed[15]])));
        write(&mut connection, b"+OK\r\n");
        connection.read_to_end(&mut Vec::new()).ok();
        rest
    });
    let setup = Setup::before(backend.address.to_string()).tls("client_auth = \"required\", client_ca = \"ca.crt\"");
    setup.certificates.certify("worker", |params| {
        params.distinguished_name.push(rcgen::DnType::CommonName, "worker 7");
    });
    let ringwall = setup.backend("send_proxy = \"v2\"").start();
    let dial = ringwall.dial().with_certificate(&ringwall.certificates, "worker");
    let mut client = dial.connect().unwrap();
    assert_eq!(client.reply(), b"+OK\r\n");
    let own = client.socket().local_addr().unwrap().port().to_be_bytes();
    drop(client);
    let rest = backend.result();
    assert_eq!(rest[8..10], own);
    let has = |tlv: &[u8]| rest.windows(tlv.len()).any(|window| window == tlv);
    // PP2_TYPE_AUTHORITY; PP2_TYPE_SSL's flags and verification; its version and common name.
    assert!(has(b"\x02\0\x09localhost"), "{rest:?}");
    assert!(has(b"\x07\0\0\0\0\x21\0\x07TLSv1.3\x22\0\x08worker 7"), "{rest:?}");
}
