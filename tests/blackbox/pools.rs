//! Several servers behind one listener: which one a client gets, what happens when they are full, and when they come and go.

use std::fs;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::certificates::Certificates;
use crate::client::{Client, End};
use crate::process::{PATIENCE, now};
use crate::ringwall::{Ringwall, Setup};
use crate::server::{Server, free_port};

/// One shard: with several, each takes its own turns.
const ONE_SHARD: &str = "[runtime]\nshards = 1\n";

/// ringwall for clients without TLS in front of `servers`, each an address or a table, with these keys of the backend.
fn before(servers: &[String], backend: &str) -> Ringwall {
    let mut all = servers.iter();
    let setup = Setup::before(all.next().unwrap()).plain().backend(backend).sections(ONE_SHARD);
    all.fold(setup, |setup, server| setup.and(server)).start()
}

fn table(server: &Server, keys: &str) -> String {
    format!("{{ address = {:?}, {keys} }}", server.address())
}

/// Clients that have been served.
fn served(ringwall: &Ringwall, count: usize) -> Vec<Client> {
    let mut clients: Vec<_> = (0..count).map(|_| ringwall.plain_client()).collect();
    for client in &mut clients {
        assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    }
    clients
}

/// What a client is told that gets no server.
fn told(mut client: Client) -> String {
    client.send(b"PING\r\n");
    let (refusal, end) = client.rest();
    assert_eq!(end, End::Orderly);
    String::from_utf8(refusal).unwrap()
}

#[test]
fn servers_get_clients_by_their_weights() {
    let (heavy, light) = (Server::on_unix_socket(), Server::on_tcp());
    for (balance, shares) in [("roundrobin", [6, 2]), ("leastconn", [6, 2]), ("first", [8, 0])] {
        let servers = [table(&heavy, "weight = 3"), table(&light, "weight = 1")];
        let ringwall = before(&servers, &format!("balance = \"{balance}\""));
        let clients = served(&ringwall, 8);
        heavy.wait_for_clients(shares[0]);
        light.wait_for_clients(shares[1]);
        drop(clients);
        heavy.wait_for_clients(0);
        light.wait_for_clients(0);
    }
}

#[test]
fn a_client_s_address_leads_to_one_server_and_to_another_when_that_is_gone() {
    let mut servers = vec![Server::on_tcp(), Server::on_tcp(), Server::on_tcp()];
    let addresses: Vec<_> = servers.iter().map(Server::address).collect();
    let ringwall = before(&addresses, "balance = \"source\"");
    let held = |servers: &[Server]| {
        servers.iter().position(|server| server.client().text(&["CLIENT", "LIST"]).contains("cmd=ping"))
    };
    let clients = served(&ringwall, 6);
    let chosen = held(&servers).unwrap();
    servers[chosen].wait_for_clients(6);
    drop(clients);
    drop(servers.remove(chosen));
    let _clients = served(&ringwall, 6);
    servers[held(&servers).unwrap()].wait_for_clients(6);
}

#[test]
fn a_backup_serves_only_while_no_other_server_can_be_reached() {
    let port = free_port();
    let (first, backup) = (Server::on_port(port), Server::on_tcp());
    let ringwall = before(&[table(&backup, "backup = true"), first.address()], "");
    let clients = served(&ringwall, 4);
    first.wait_for_clients(4);
    drop(first);
    drop(clients);
    let _clients = served(&ringwall, 2);
    backup.wait_for_clients(2);
    let first = Server::on_port(port);
    let _more = served(&ringwall, 2);
    first.wait_for_clients(2);
}

#[test]
fn a_client_waits_for_a_place_and_is_served_when_one_is_free() {
    let server = Server::on_unix_socket();
    let mut ringwall = before(&[table(&server, "max_connections = 2")], "queue_timeout = \"1m\"");
    let mut clients = served(&ringwall, 2);
    // They are served in the order in which they came.
    let mut waiting: Vec<_> = (0..2).map(|_| ringwall.plain_client()).collect();
    waiting.iter_mut().for_each(|client| client.send(b"PING\r\n"));
    server.wait_for_clients(2);
    drop(clients.remove(0));
    assert_eq!(waiting[0].reply(), b"+PONG\r\n");
    server.wait_for_clients(2);
    drop(waiting.remove(0));
    assert_eq!(waiting[0].reply(), b"+PONG\r\n");
    drop((clients, waiting));
    ringwall.terminate();
    ringwall.wait();
    ringwall.process.line(|line| line.contains("\"totals\"") && line.contains("\"queued\":2"));
}

#[test]
fn a_client_that_waits_too_long_or_with_too_many_is_told() {
    let server = Server::on_unix_socket();
    let keys = "queue_timeout = \"2s\"\nmax_queue = 1";
    let ringwall = before(&[table(&server, "max_connections = 1")], keys);
    let _client = served(&ringwall, 1);
    let mut waits = ringwall.plain_client();
    waits.send(b"PING\r\n");
    let full = "-ERR ringwall cannot reach the server: backend 'server': every server that is up has its max_connections, and ";
    assert_eq!(told(ringwall.plain_client()), format!("{full}as many sessions wait as may (max_queue)\r\n"));
    ringwall.session_ended("queue_full");
    let timeout = format!("{full}no place became free in time (queue_timeout)\r\n");
    assert_eq!(waits.rest(), (timeout.into_bytes(), End::Orderly));
    ringwall.session_ended("queue_timeout");
}

#[test]
fn connections_leave_from_each_source_address_in_turn() {
    let server = Server::on_tcp();
    let ringwall = before(&[server.address()], "source_addresses = [\"127.0.0.2\", \"127.0.0.3\"]");
    let _clients = served(&ringwall, 6);
    let list = server.client().text(&["CLIENT", "LIST"]);
    for source in ["127.0.0.2", "127.0.0.3"] {
        assert_eq!(list.matches(&format!(" addr={source}:")).count(), 3, "{list}");
    }
}

#[test]
fn a_source_address_of_another_machine_is_a_mistake_at_start() {
    let path = Setup::before("127.0.0.1:1").backend("source_addresses = [\"192.0.2.1\"]");
    let file = path.write();
    let (success, output) = crate::ringwall::ringwall(&["run", "--config", file.to_str().unwrap()]);
    assert!(
        !success && output.contains("backend \"server\": cannot connect from 192.0.2.1 of source_addresses"),
        "{output}"
    );
    assert!(output.contains("no interface of this machine has that address"), "{output}");
}

#[test]
fn a_server_that_comes_and_goes_a_hundred_times_leaves_nobody_without_an_answer_and_nothing_behind() {
    let port = free_port();
    let mut server = Some(Server::on_port(port));
    let ringwall = before(&[format!("127.0.0.1:{port}")], "");
    drop(served(&ringwall, 1));
    ringwall.wait_for_ended_sessions(1);
    let files = ringwall.process.open_files();
    let (over, answered, refused) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let load = || {
        while !over.load(Ordering::Relaxed) {
            let mut client = Client::plain(TcpStream::connect(ringwall.address).unwrap());
            client.send(b"PING\r\n");
            match client.try_reply() {
                Ok(reply) if reply == b"+PONG\r\n" => answered.fetch_add(1, Ordering::Relaxed),
                Ok(reply) if reply.starts_with(b"-ERR ringwall cannot reach the server") => {
                    refused.fetch_add(1, Ordering::Relaxed)
                }
                Ok(reply) => panic!("{}", String::from_utf8_lossy(&reply)),
                // The server ended while it had the request: without TLS, an end is all there is to say.
                Err(End::Orderly) => 0,
                Err(end) => panic!("{end:?}"),
            };
        }
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(load);
        }
        // Each time somebody must have seen it go, and come back.
        let grows = |count: &AtomicUsize| {
            let before = count.load(Ordering::Relaxed);
            while count.load(Ordering::Relaxed) == before {
                thread::yield_now();
            }
        };
        for _ in 0..100 {
            drop(server.take());
            grows(&refused);
            server = Some(Server::on_port(port));
            grows(&answered);
        }
        over.store(true, Ordering::Relaxed);
    });
    server.as_ref().unwrap().wait_for_clients(0);
    // The log may tell of some only as a number, so the descriptors themselves say when all are gone.
    let deadline = now() + PATIENCE;
    while ringwall.process.open_files() > files {
        assert!(now() < deadline, "{} files are open, {files} before", ringwall.process.open_files());
        thread::yield_now();
    }
}

#[test]
fn a_certificate_for_servers_is_exchanged_while_clients_are_connected() {
    let (certificates, strangers) = (Certificates::new(), Certificates::new());
    strangers.certify("proxy", |params| params.distinguished_name = rcgen::DistinguishedName::new());
    let folder = certificates.folder();
    for ending in ["crt", "key"] {
        let name = format!("proxy.{ending}");
        fs::copy(strangers.folder().join(&name), folder.join(&name)).unwrap();
    }
    let server = Server::with_tls(&certificates, &[]);
    let shown = folder.display();
    let keys = format!(
        "tls = {{ ca = \"{shown}/ca.crt\", certificate = \"{shown}/proxy.crt\", private_key = \"{shown}/proxy.key\" }}"
    );
    let ringwall = before(&[server.address()], &keys);
    let refusal = told(ringwall.plain_client());
    assert!(refusal.contains("TLS: the server sent the fatal alert"), "{refusal}");

    certificates.certify("proxy", |_| {});
    ringwall.process.line(|line| line.contains("\"reloaded\""));
    let mut old = served(&ringwall, 1);
    // An authority that none of its servers has: who is connected stays, and nobody else is.
    fs::copy(strangers.ca_file(), certificates.ca_file()).unwrap();
    ringwall.process.nth_line(2, |line| line.contains("\"reloaded\""));
    assert!(told(ringwall.plain_client()).contains("'server': "));
    assert_eq!(old[0].call(&["PING"]), b"+PONG\r\n");
    // A file that cannot be used changes nothing.
    fs::write(folder.join("proxy.key"), "no key").unwrap();
    ringwall.process.line(|line| line.contains("reload failed"));
    assert_eq!(old[0].call(&["PING"]), b"+PONG\r\n");
}
