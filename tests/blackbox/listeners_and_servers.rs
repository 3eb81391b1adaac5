//! Which server a client reaches, and where the shards run.

use std::fs;

use crate::client::End;
use crate::ringwall::Setup;
use crate::server::{Server, free_port};

#[test]
fn each_listener_leads_to_its_own_backend() {
    let (one, two) = (Server::on_unix_socket(), Server::on_tcp());
    one.client().call(&["SET", "who", "one"]);
    two.client().call(&["SET", "who", "two"]);
    let second = format!(
        "[[listener]]\nname = \"second\"\nbind = \"[::1]:0\"\nbackend = \"other\"\n\
         tls = {{ certificate = \"server.crt\", private_key = \"server.key\" }}\n\
         [[backend]]\nname = \"other\"\nservers = [{:?}]\n",
        two.address()
    );
    let ringwall = Setup::before(one.address()).sections(&second).start();
    assert_eq!(ringwall.client().call(&["GET", "who"]), b"$3\r\none\r\n");
    let mut client = ringwall.dial_to("second").connect().unwrap();
    assert_eq!(client.call(&["GET", "who"]), b"$3\r\ntwo\r\n");
    client.end_writing();
    assert_eq!(client.end(), End::Orderly);
    let line = ringwall.session_ended("client_closed");
    for field in ["\"listener\":\"second\"", "\"backend\":\"other\"", &format!("\"server\":\"{}\"", two.address())] {
        assert!(line.contains(field), "{field} is not in {line}");
    }
}

#[test]
fn the_servers_of_a_backend_share_its_clients() {
    let (one, two) = (Server::on_unix_socket(), Server::on_unix_socket());
    let ringwall = Setup::before(one.address()).and(two.address()).start();
    let mut clients: Vec<_> = (0..20).map(|_| ringwall.client()).collect();
    for client in &mut clients {
        assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    }
    for server in [&one, &two] {
        let list = server.client().text(&["CLIENT", "LIST"]);
        let count = list.matches("id=").count() - 1;
        assert!((5..=15).contains(&count), "{count} of 20 clients");
    }
}

#[test]
fn a_server_that_cannot_be_reached_is_passed_over() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(format!("127.0.0.1:{}", free_port())).and(server.address()).start();
    for _ in 0..10 {
        assert_eq!(ringwall.client().call(&["PING"]), b"+PONG\r\n");
    }
}

#[test]
fn each_shard_is_pinned_to_its_core() {
    let server = Server::on_unix_socket();
    let cores = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = cores.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let core: u32 = allowed.split(['-', ',']).next().unwrap().parse().unwrap();
    let ringwall = Setup::before(server.address()).sections(&format!("[runtime]\ncores = [{core}]\n")).start();
    ringwall.assert_serves();
    let tasks = format!("/proc/{}/task", ringwall.process.pid().as_raw_nonzero());
    let statuses =
        fs::read_dir(tasks).unwrap().map(|task| fs::read_to_string(task.unwrap().path().join("status")).unwrap());
    let shards: Vec<_> = statuses.filter(|status| status.starts_with("Name:\tshard-")).collect();
    assert_eq!(shards.len(), 1);
    assert!(shards[0].contains(&format!("Cpus_allowed_list:\t{core}\n")), "{}", shards[0]);
}
