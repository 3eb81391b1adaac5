//! A backend whose primary Sentinels name: failovers under load, and Sentinels that are dead, late, or know nothing.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustix::process::Signal;

use crate::certificates::Certificates;
use crate::client::End;
use crate::process::{PATIENCE, now};
use crate::resp::request;
use crate::ringwall::{Ringwall, Setup};
use crate::sentinel::{NAME, Sentinel, three};
use crate::server::{Server, free_port};

/// ringwall in front of whatever these Sentinels name, for clients without TLS.
fn behind(addresses: &[String], keys: &str) -> Setup {
    let addresses: Vec<_> = addresses.iter().map(|address| format!("{address:?}")).collect();
    let sentinel = format!("sentinel = {{ addresses = [{}], {keys} }}", addresses.join(", "));
    Setup::before_sentinels(&sentinel).plain()
}

fn behind_all(sentinels: &[Sentinel]) -> Setup {
    behind(&sentinels.iter().map(Sentinel::address).collect::<Vec<_>>(), &format!("name = \"{NAME}\""))
}

fn line(ringwall: &Ringwall, n: usize, what: &str) -> String {
    ringwall.process.nth_line(n, |line| line.contains("ringwall::health") && line.contains(what))
}

fn is_up(ringwall: &Ringwall, n: usize) -> String {
    line(ringwall, n, "\"server is up\"")
}

/// A client that writes one key after the other, over another connection whenever one ends.
struct Writer {
    /// Keys whose write was acknowledged, with the number of the connection.
    written: Arc<Mutex<Vec<(u32, u32)>>>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Writer {
    fn start(to: SocketAddr) -> Self {
        let (written, over) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<AtomicBool>::default());
        let (of_thread, is_over) = (Arc::clone(&written), Arc::clone(&over));
        let thread = thread::spawn(move || {
            let (mut key, mut connection) = (0, 0);
            while !is_over.load(Ordering::Relaxed) {
                connection += 1;
                let mut socket = TcpStream::connect(to).unwrap();
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    key += 1;
                    let mut reply = [0; 5];
                    let told = socket.write_all(&request(&["SET", &key.to_string(), "x"]));
                    if told.and_then(|()| socket.read_exact(&mut reply)).is_err() || &reply != b"+OK\r\n" {
                        break;
                    }
                    of_thread.lock().unwrap().push((connection, key));
                }
            }
        });
        Self { written, over, thread }
    }

    /// Waits until so many keys are written over connections after number `connection`; gives the number of the last.
    fn wait_for(&self, count: usize, connection: u32) -> u32 {
        let deadline = now() + PATIENCE;
        loop {
            let written = self.written.lock().unwrap();
            if written.iter().filter(|(of, _)| *of > connection).count() >= count {
                return written.last().unwrap().0;
            }
            assert!(now() < deadline, "{} keys are written", written.len());
            drop(written);
            thread::yield_now();
        }
    }

    /// Stops; all keys that were written over connections after number `connection`.
    fn stop(self, connection: u32) -> BTreeSet<String> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        let written = self.written.lock().unwrap();
        written.iter().filter(|(of, _)| *of > connection).map(|(_, key)| key.to_string()).collect()
    }
}

/// What is missing of `keys` at a server.
fn missing<'k>(server: &Server, keys: &'k BTreeSet<String>) -> Vec<&'k String> {
    let mut client = server.client();
    keys.iter().filter(|key| client.call(&["EXISTS", key]) != b":1\r\n").collect()
}

#[test]
fn a_failover_under_load_loses_no_write_that_was_acknowledged_after_it_whoever_dies_first() {
    let primary = Server::on_tcp();
    let replica = primary.replica();
    let mut sentinels = three(&primary);
    let ringwall = behind_all(&sentinels).start();
    is_up(&ringwall, 1);
    let writer = Writer::start(ringwall.address);
    let before = writer.wait_for(100, 0);
    // The first of the list, and then the primary that it can tell nothing about any more.
    sentinels[0].process.signal(Signal::KILL);
    sentinels[0].process.wait();
    line(&ringwall, 1, "\"Sentinel is of no use\"");
    assert_eq!(writer.wait_for(200, before - 1), before, "the death of a Sentinel moves nobody");
    primary.process.signal(Signal::KILL);
    let switch = line(&ringwall, 2, "\"Sentinels name the primary\"");
    for field in [format!("\"from\":\"{}\"", primary.address()), format!("\"to\":\"{}\"", replica.address())] {
        assert!(switch.contains(&field), "{field} in {switch}");
    }
    is_up(&ringwall, 2);
    writer.wait_for(500, before);
    let keys = writer.stop(before);
    assert!(keys.len() >= 500);
    assert_eq!(missing(&replica, &keys), Vec::<&String>::new());
}

#[test]
fn after_a_switch_no_client_stays_at_the_old_primary() {
    let primary = Server::on_tcp();
    let replica = primary.replica();
    let sentinels = three(&primary);
    let ringwall = behind_all(&sentinels).start();
    is_up(&ringwall, 1);
    let mut client = ringwall.plain_client();
    assert_eq!(client.call(&["SET", "key", "1"]), b"+OK\r\n");
    assert_eq!(sentinels[0].client().call(&["SENTINEL", "FAILOVER", NAME]), b"+OK\r\n");
    assert_eq!(client.end(), End::Orderly);
    line(&ringwall, 2, "\"Sentinels name the primary\"");
    is_up(&ringwall, 2);
    let mut client = ringwall.plain_client();
    assert_eq!(client.call(&["SET", "key", "2"]), b"+OK\r\n");
    assert_eq!(replica.client().call(&["GET", "key"]), b"$1\r\n2\r\n");
}

#[test]
fn a_server_that_sentinels_have_replaced_loses_its_clients_though_it_is_as_it_was() {
    let (before, after) = (Server::on_tcp(), Server::on_tcp());
    let sentinel = Sentinel::of(&before, 1);
    let ringwall = behind_all(std::slice::from_ref(&sentinel)).start();
    is_up(&ringwall, 1);
    let mut client = ringwall.plain_client();
    assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    let mut operator = sentinel.client();
    assert_eq!(operator.call(&["SENTINEL", "REMOVE", NAME]), b"+OK\r\n");
    // Nobody knows another, so this one is kept.
    line(&ringwall, 1, "the last one that they named is kept");
    assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    let port = after.port().to_string();
    assert_eq!(operator.call(&["SENTINEL", "MONITOR", NAME, "127.0.0.1", &port, "1"]), b"+OK\r\n");
    assert_eq!(client.end(), End::Orderly);
    ringwall.session_ended("server_demoted");
    is_up(&ringwall, 2);
    assert_eq!(ringwall.plain_client().call(&["SET", "key", "1"]), b"+OK\r\n");
    assert_eq!(after.client().call(&["EXISTS", "key"]), b":1\r\n");
}

#[test]
fn without_a_sentinel_clients_are_told_so_until_one_answers() {
    let primary = Server::on_tcp();
    let (nobody, later) = (free_port(), free_port());
    let addresses = [nobody, later].map(|port| format!("127.0.0.1:{port}"));
    let ringwall = behind(&addresses, &format!("name = \"{NAME}\"")).admin("").start();
    let plight = line(&ringwall, 1, "\"Sentinels name no primary\"");
    assert!(plight.contains("none of them answers") && plight.contains("ERROR"), "{plight}");
    let (refusal, end) = ringwall.plain_client().rest();
    let refusal = String::from_utf8(refusal).unwrap();
    assert!(refusal.starts_with("-ERR ringwall cannot reach the server: backend 'server': "), "{refusal}");
    assert_eq!(end, End::Orderly);
    let status = ringwall.admin().get("/status").body;
    assert!(status.contains("\"primary\":null") && status.contains("\"problem\":\"none of them answers\""), "{status}");
    let known = "ringwall_sentinel_primary_known{backend=\"server\"}";
    assert_eq!(ringwall.admin().metrics().value(known), 0.0);
    let _sentinel = Sentinel::at_port(later, &primary, 1);
    line(&ringwall, 1, "\"Sentinels name a primary again\"");
    is_up(&ringwall, 1);
    let metrics = ringwall.admin().metrics();
    let up =
        |address: &str| metrics.value(&format!("ringwall_sentinel_up{{backend=\"server\",sentinel=\"{address}\"}}"));
    assert_eq!((metrics.value(known), up(&addresses[0]), up(&addresses[1])), (1.0, 0.0, 1.0));
    assert_eq!(metrics.value("ringwall_sentinel_switches_total{backend=\"server\"}"), 0.0);
    let status = ringwall.admin().get("/status").body;
    let primary_is = format!("\"primary\":\"{}\"", primary.address());
    assert!(status.contains(&primary_is) && status.contains("\"state\":\"trouble\""), "{status}");
    assert_eq!(ringwall.plain_client().call(&["PING"]), b"+PONG\r\n");
}

#[test]
fn a_name_that_no_sentinel_knows_is_an_error() {
    let primary = Server::on_tcp();
    let sentinel = Sentinel::of(&primary, 1);
    let ringwall = behind(&[sentinel.address()], "name = \"mymasterr\"").start();
    let plight = line(&ringwall, 1, "\"Sentinels name no primary\"");
    let problem =
        "none of them knows a primary called \\\"mymasterr\\\": compare sentinel.name with their `sentinel monitor`";
    assert!(plight.contains(problem) && plight.contains("ERROR"), "{plight}");
    assert!(ringwall.plain_client().rest().0.starts_with(b"-ERR ringwall cannot reach the server"));
    // Whoever watches it from now on makes the name known.
    let port = primary.port().to_string();
    assert_eq!(sentinel.client().call(&["SENTINEL", "MONITOR", "mymasterr", "127.0.0.1", &port, "1"]), b"+OK\r\n");
    is_up(&ringwall, 1);
    assert_eq!(ringwall.plain_client().call(&["PING"]), b"+PONG\r\n");
}

#[test]
fn a_server_that_sentinels_name_and_that_is_no_primary_gets_no_sessions() {
    let primary = Server::on_tcp();
    let sentinel = Sentinel::of(&primary, 1);
    // Without another server there is nothing to fail over to, and the Sentinel goes on naming this one.
    assert_eq!(primary.client().call(&["REPLICAOF", "127.0.0.1", "1"]), b"+OK\r\n");
    let ringwall = behind_all(std::slice::from_ref(&sentinel)).start();
    assert!(line(&ringwall, 1, "\"state\":\"wrong_role\"").contains("it is a replica"));
    let refusal = String::from_utf8(ringwall.plain_client().rest().0).unwrap();
    assert!(refusal.contains("it is a replica, and the backend wants a primary"), "{refusal}");
    assert_eq!(primary.client().call(&["REPLICAOF", "NO", "ONE"]), b"+OK\r\n");
    is_up(&ringwall, 1);
}

#[test]
fn sentinels_are_logged_in_to_and_spoken_to_with_tls() {
    let primary = Server::on_tcp();
    let certificates = Certificates::new();
    let folder = certificates.folder().display().to_string();
    let (plain, secure) = (free_port(), free_port());
    let sentinel = Sentinel::with(
        plain,
        &primary,
        &format!(
            "port {plain}\ntls-port {secure}\ntls-auth-clients no\ntls-cert-file {folder}/server.crt\n\
             tls-key-file {folder}/server.key\ntls-ca-cert-file {folder}/ca.crt\nrequirepass correct-horse\n"
        ),
        "correct-horse",
    );
    let setup = |keys: &str| {
        let keys = format!("name = \"{NAME}\", tls = {{ ca = {:?} }}{keys}", certificates.ca_file());
        behind(&[format!("127.0.0.1:{secure}")], &keys)
    };
    let ringwall = setup("").start();
    assert!(line(&ringwall, 1, "\"Sentinel is of no use\"").contains("(NOAUTH): write sentinel.password_file"));
    let with_password = setup(", password_file = \"password\"");
    std::fs::write(with_password.certificates.folder().join("password"), "correct-horse").unwrap();
    let ringwall = with_password.start();
    is_up(&ringwall, 1);
    assert_eq!(ringwall.plain_client().call(&["PING"]), b"+PONG\r\n");
    drop(sentinel);
    line(&ringwall, 1, "none of them answers");
    assert_eq!(ringwall.plain_client().call(&["PING"]), b"+PONG\r\n");
}
