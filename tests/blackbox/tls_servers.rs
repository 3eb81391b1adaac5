//! Servers that speak TLS: who is trusted, what a server is shown, and each way that its handshake fails.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::certificates::Certificates;
use crate::client::End;
use crate::ringwall::{Ringwall, Setup};
use crate::scripted::Scripted;
use crate::server::Server;

const ANY_CLIENT: [&str; 2] = ["--tls-auth-clients", "no"];

/// ringwall in front of `server`, with these keys of the backend's `tls`, for clients without TLS.
fn before(server: &str, tls: &str) -> Setup {
    Setup::before(server).plain().backend(&format!("tls = {{ {tls} }}"))
}

fn trusting(certificates: &Certificates) -> String {
    format!("ca = {:?}", certificates.ca_file())
}

/// A client is told that no server can be reached, for this reason, and so is the log.
fn assert_refused(ringwall: &Ringwall, why: &str) {
    let mut client = ringwall.plain_client();
    client.send(b"PING\r\n");
    let (refusal, end) = client.rest();
    let refusal = String::from_utf8(refusal).unwrap();
    assert!(refusal.starts_with("-ERR ringwall cannot reach the server: backend 'server': "), "{refusal}");
    assert!(refusal.contains(why) && refusal.lines().count() == 1, "{refusal}");
    assert_eq!(end, End::Orderly);
    drop(client);
    let line = ringwall.session_ended("backend_handshake_failed");
    assert!(line.contains(why), "{line}");
    ringwall.process.line(|line| line.contains("WARN") && line.contains(why));
}

#[test]
fn a_server_that_wants_a_certificate_is_shown_it() {
    let certificates = Certificates::new();
    certificates.certify("proxy", |_| {});
    let folder = certificates.folder().display();
    let keys = format!(
        "{}, certificate = \"{folder}/proxy.crt\", private_key = \"{folder}/proxy.key\"",
        trusting(&certificates)
    );
    for version in ["TLSv1.2", "TLSv1.3"] {
        let server = Server::with_tls(&certificates, &["--tls-protocols", version]);
        let ringwall = before(&server.address(), &keys).start();
        assert_eq!(ringwall.plain_client().call(&["PING"]), b"+PONG\r\n");
        let line = ringwall.session_ended("client_closed");
        assert!(line.contains(&format!("\"server_tls_version\":\"{version}\"")), "{line}");
    }
}

#[test]
fn a_server_that_wants_a_certificate_and_gets_none_is_named_with_its_alert() {
    let certificates = Certificates::new();
    for (version, alert) in [("TLSv1.2", "handshake_failure"), ("TLSv1.3", "certificate_required")] {
        let server = Server::with_tls(&certificates, &["--tls-protocols", version]);
        let ringwall = before(&server.address(), &trusting(&certificates)).start();
        assert_refused(&ringwall, &format!("TLS: the server sent the fatal alert {alert}"));
    }
}

#[test]
fn a_server_of_another_authority_is_refused() {
    let server = Server::with_tls(&Certificates::new(), &ANY_CLIENT);
    let others = Certificates::new().with_server(|params| params.distinguished_name = rcgen::DistinguishedName::new());
    let ringwall = before(&server.address(), &trusting(&others)).start();
    assert_refused(&ringwall, "TLS: a signature of the server or in its certificate is wrong");
}

#[test]
fn a_server_with_another_name_is_refused_unless_names_are_not_verified() {
    let certificates = Certificates::new();
    let server = Server::with_tls(&certificates, &ANY_CLIENT);
    let other = format!("{}, server_name = \"other.test\"", trusting(&certificates));
    let ringwall = before(&server.address(), &other).start();
    assert_refused(&ringwall, "TLS: the server's certificate is for another name than other.test");
    let ringwall = before(&server.address(), &format!("{other}, verify = \"ca\"")).start();
    assert_eq!(ringwall.plain_client().call(&["PING"]), b"+PONG\r\n");
}

#[test]
fn a_server_whose_certificate_has_expired_is_refused_unless_nobody_looks() {
    let certificates = Certificates::new().with_server(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    let server = Server::with_tls(&certificates, &ANY_CLIENT);
    let ringwall = before(&server.address(), &trusting(&certificates)).start();
    assert_refused(&ringwall, "TLS: the server's certificate has expired");
    let ringwall = before(&server.address(), "verify = \"none\"").start();
    assert_eq!(ringwall.plain_client().call(&["PING"]), b"+PONG\r\n");
    ringwall.process.line(|line| line.contains("WARN") && line.contains("verify = \\\"none\\\""));
}

#[test]
fn a_server_that_shares_no_version_is_refused() {
    let certificates = Certificates::new();
    let server = Server::with_tls(&certificates, &["--tls-auth-clients", "no", "--tls-protocols", "TLSv1.2"]);
    let keys = format!("{}, min_version = \"1.3\"", trusting(&certificates));
    let ringwall = before(&server.address(), &keys).start();
    assert_refused(&ringwall, "TLS: the server offers no TLS version that this backend accepts");
}

#[test]
fn a_server_without_tls_is_waited_for_no_longer_than_the_connect_timeout() {
    // A real server takes the hello for the start of a command and waits for its end.
    let server = Server::on_tcp();
    let limits = "[limits]\nconnect_timeout = \"300ms\"\n";
    let ringwall = before(&server.address(), &trusting(&Certificates::new())).sections(limits).start();
    assert_refused(&ringwall, "TLS: no handshake within the connect timeout: does the server speak TLS on this port?");
    server.wait_for_clients(0);
}

#[test]
fn a_server_that_answers_in_plain_text_is_recognised() {
    let backend = Scripted::new(|mut connection| {
        connection.write_all(b"-ERR unknown command\r\n").unwrap();
        connection.read_to_end(&mut Vec::new()).ok();
    });
    let ringwall = before(&backend.address.to_string(), &trusting(&Certificates::new())).start();
    assert_refused(&ringwall, "TLS: the server answers in plain text: is this its TLS port?");
}

#[test]
fn a_server_that_hangs_up_in_its_handshake_is_named_for_it() {
    let backend = Scripted::new(|mut connection| {
        let mut hello = [0; 5];
        connection.read_exact(&mut hello).unwrap();
        connection.shutdown(std::net::Shutdown::Write).unwrap();
        connection.read_to_end(&mut Vec::new()).ok();
        hello
    });
    let ringwall = before(&backend.address.to_string(), &trusting(&Certificates::new())).start();
    assert_refused(&ringwall, "TLS: the server ended the connection in the handshake");
    // A handshake record (RFC 8446, section 5.1).
    assert_eq!(backend.result()[0], 0x16);
}

#[test]
fn after_a_failed_handshake_the_next_server_gets_everything() {
    let (good, bad) = (Certificates::new(), Certificates::new());
    let (server, stranger) = (Server::with_tls(&good, &ANY_CLIENT), Server::with_tls(&bad, &ANY_CLIENT));
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let ringwall = before(&stranger.address(), &trusting(&good))
        .and(nobody.to_string())
        .and(server.address())
        .sections("[runtime]\nshards = 1\n")
        .start();
    let files = ringwall.process.open_files();
    for number in 0..12 {
        let mut client = ringwall.plain_client();
        assert_eq!(client.call(&["SADD", "set", &number.to_string()]), b":1\r\n");
        client.end_writing();
        client.end();
    }
    ringwall.wait_for_ended_sessions(12);
    ringwall.nth_session_ended(12, "client_closed");
    server.wait_for_clients(0);
    stranger.wait_for_clients(0);
    assert_eq!(ringwall.process.open_files(), files);
}

#[test]
fn the_next_connection_to_a_server_resumes() {
    let certificates = Certificates::new();
    for version in ["TLSv1.3", "TLSv1.2"] {
        let server = Server::with_tls(&certificates, &["--tls-auth-clients", "no", "--tls-protocols", version]);
        let setup = before(&server.address(), &trusting(&certificates)).sections("[runtime]\nshards = 1\n");
        let ringwall = setup.start();
        for (number, resumed) in [(1, false), (2, true), (3, true)] {
            let mut client = ringwall.plain_client();
            assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
            client.end_writing();
            client.end();
            let line = ringwall.nth_session_ended(number, "client_closed");
            assert!(line.contains(&format!("\"server_resumed\":{resumed}")), "{version} {number}: {line}");
        }
    }
}

/// The configuration of a rustls server with the certificate that `certificates` has for one.
fn server_config(certificates: &Certificates) -> Arc<ServerConfig> {
    let file = |name: &str| certificates.folder().join(name);
    let chain = vec![CertificateDer::from_pem_file(file("server.crt")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
    Arc::new(ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap())
}

type TlsStream<S> = StreamOwned<ServerConnection, S>;

/// A server at a unix socket that hands its first connection to a script.
fn at_unix_socket<T: Send + 'static>(
    certificates: &Certificates,
    script: impl FnOnce(TlsStream<UnixStream>) -> T + Send + 'static,
) -> (String, JoinHandle<T>) {
    let path = certificates.folder().join("tls.sock");
    let (listener, config) = (UnixListener::bind(&path).unwrap(), server_config(certificates));
    let thread = thread::spawn(move || {
        let socket = listener.accept().unwrap().0;
        script(StreamOwned::new(ServerConnection::new(config).unwrap(), socket))
    });
    (format!("unix:{}", path.display()), thread)
}

/// As [`at_unix_socket`], at a TCP port.
fn at_tcp_port<T: Send + 'static>(
    certificates: &Certificates,
    script: impl FnOnce(TlsStream<TcpStream>) -> T + Send + 'static,
) -> Scripted<T> {
    let config = server_config(certificates);
    Scripted::new(move |socket| script(StreamOwned::new(ServerConnection::new(config).unwrap(), socket)))
}

#[test]
fn a_server_with_tls_at_a_unix_socket_is_asked_for_by_the_backend_s_name() {
    let certificates = Certificates::new();
    let (address, server) = at_unix_socket(&certificates, |mut stream| {
        let mut request = [0; 6];
        stream.read_exact(&mut request).unwrap();
        stream.write_all(b"+PONG\r\n").unwrap();
        let name = stream.conn.server_name().map(ToOwned::to_owned);
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        (request, name)
    });
    let keys = format!("{}, server_name = \"localhost\"", trusting(&certificates));
    let ringwall = before(&address, &keys).start();
    let mut client = ringwall.plain_client();
    client.send(b"PING\r\n");
    assert_eq!(client.rest(), (b"+PONG\r\n".to_vec(), End::Orderly));
    assert_eq!(server.join().unwrap(), (*b"PING\r\n", Some("localhost".to_owned())));
    drop(client);
    ringwall.session_ended("backend_closed");
}

#[test]
fn what_a_server_said_before_it_was_cut_arrives_and_the_cut_shows() {
    let certificates = Certificates::new();
    let backend = at_tcp_port(&certificates, |mut stream| {
        stream.read_exact(&mut [0; 6]).unwrap();
        stream.write_all(&vec![b'z'; 3_000_000]).unwrap();
        // FIN without close_notify.
    });
    let ringwall =
        Setup::before(backend.address.to_string()).backend(&format!("tls = {{ {} }}", trusting(&certificates))).start();
    let mut client = ringwall.client();
    client.send(b"PING\r\n");
    let (reply, end) = client.rest();
    assert_eq!((reply.len(), end), (3_000_000, End::Cut));
    drop(client);
    ringwall.session_ended("backend_truncated");
}

#[test]
fn replies_that_begin_after_a_half_close_arrive_whole_and_the_server_sees_a_close_notify() {
    let certificates = Certificates::new();
    let backend = at_tcp_port(&certificates, |mut stream| {
        let mut request = Vec::new();
        // Without the close_notify this is an error.
        stream.read_to_end(&mut request).unwrap();
        stream.write_all(&vec![b'r'; 20_000_000]).unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        request
    });
    let ringwall =
        Setup::before(backend.address.to_string()).backend(&format!("tls = {{ {} }}", trusting(&certificates))).start();
    let mut client = ringwall.client();
    client.send(b"question");
    client.end_writing();
    let (reply, end) = client.rest();
    assert_eq!((reply.len(), end), (20_000_000, End::Orderly));
    assert_eq!(backend.result(), b"question");
    drop(client);
    ringwall.session_ended("client_closed");
}
