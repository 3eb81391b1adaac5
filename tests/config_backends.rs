//! The keys of `[[backend]]` about several servers: what they mean, their bounds, and what is refused.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ringwall::config::{Backend, Server};
use ringwall::io::Address;
use ringwall::roster::balance::Balance;

mod config_support;
use config_support::{MINIMAL, machine, parse_on, refusal};

const SERVERS: &str = "servers = [\"127.0.0.1:6379\"]";

/// The minimal file with these lines in the place of its servers, the first of them in line 8.
fn text_with(lines: &str) -> String {
    MINIMAL.replacen(SERVERS, lines, 1)
}

fn backend(lines: &str) -> Backend {
    parse_on(&machine(), &text_with(lines)).unwrap_or_else(|error| panic!("{lines}: {error}")).backends.remove(0)
}

fn tcp(text: &str) -> Address {
    Address::Tcp(text.parse::<SocketAddr>().expect("an address"))
}

#[test]
fn a_server_is_a_text_or_a_table() {
    let backend = backend(
        r#"servers = [
  "127.0.0.1:6379",
  { address = "pair.example:6379", name = "pair", weight = 10, max_connections = 1000 },
  { address = "unix:/run/valkey.sock", backup = true },
]"#,
    );
    let pair = |at| Server { name: "pair".into(), weight: 10, connections_max: Some(1_000), ..Server::at(tcp(at)) };
    let expected = [
        Server::at(tcp("127.0.0.1:6379")),
        pair("10.0.0.1:6379"),
        pair("10.0.0.2:6379"),
        Server { backup: true, ..Server::at(Address::Unix("/run/valkey.sock".into())) },
    ];
    assert_eq!(backend.servers().collect::<Vec<_>>(), expected);
    assert_eq!(backend.entries.iter().map(|entry| entry.is_name()).collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn tables_may_stand_under_their_own_headers() {
    let text = format!(
        "{}[[backend.servers]]\naddress = \"10.0.0.1:1\"\nweight = 256\n[[backend.servers]]\naddress = \"10.0.0.2:2\"\n",
        text_with("")
    );
    let backend = parse_on(&machine(), &text).expect("it is valid").backends.remove(0);
    let weights: Vec<_> = backend.servers().map(|server| (server.name.to_string(), server.weight)).collect();
    assert_eq!(weights, [("10.0.0.1:1".to_owned(), 256), ("10.0.0.2:2".to_owned(), 1)]);
}

#[test]
fn a_server_is_asked_for_its_own_name_before_the_backend_s() {
    let name = |lines: &str| {
        let mut servers = backend(lines).servers().collect::<Vec<_>>();
        servers.remove(0).server_name.map(|name| name.to_string())
    };
    let servers = r#"servers = [{ address = "10.0.0.1:1", server_name = "one.example" }]"#;
    let tls = r#"tls = { ca = "ca.pem", server_name = "all.example" }"#;
    assert_eq!(name(&format!("{servers}\n{tls}")).as_deref(), Some("one.example"));
    let servers = r#"servers = [{ address = "valkey.example:1", weight = 2 }]"#;
    assert_eq!(name(&format!("{servers}\n{tls}")).as_deref(), Some("all.example"));
    assert_eq!(name(&format!("{servers}\ntls = {{ ca = \"ca.pem\" }}")).as_deref(), Some("valkey.example"));
    let unix = r#"servers = [{ address = "unix:/s", server_name = "one.example" }]"#;
    assert_eq!(name(&format!("{unix}\ntls = {{ ca = \"ca.pem\" }}")).as_deref(), Some("one.example"));
}

#[test]
fn each_key_means_what_it_says() {
    for (word, balance) in [
        ("roundrobin", Balance::RoundRobin),
        ("leastconn", Balance::LeastConn),
        ("first", Balance::First),
        ("random", Balance::Random),
        ("source", Balance::Source),
    ] {
        assert_eq!(backend(&format!("{SERVERS}\nbalance = \"{word}\"")).options.balance, balance);
    }
    let given = backend(
        r#"servers = ["valkey.example:6379", "[::1]:6379"]
retries = 2
max_queue = 7
queue_timeout = "250ms"
source_addresses = ["127.0.0.2", "::1"]
resolve_interval = "30s""#,
    );
    let sources: Vec<IpAddr> = vec!["127.0.0.2".parse().expect("v4"), "::1".parse().expect("v6")];
    assert_eq!((given.options.retries, given.queue_max, &given.options.sources), (Some(2), 7, &sources));
    assert_eq!(given.options.queue_timeout, Duration::from_millis(250));
    assert_eq!(given.resolve_interval, Some(Duration::from_secs(30)));
    assert_eq!(backend(&format!("{SERVERS}\nresolve_interval = \"off\"")).resolve_interval, None);
    assert_eq!(backend(&format!("{SERVERS}\nretries = 0\nmax_queue = 0")).options.retries, Some(0));
}

#[test]
fn what_a_key_does_not_take_is_refused() {
    for (lines, message) in [
        (
            "balance = \"leastcon\"",
            "9: backend.balance: \"leastcon\" is none of \"roundrobin\", \"leastconn\", \"first\", \"random\", \"source\"; \
             did you mean \"leastconn\"?",
        ),
        ("retries = 1025", "9: backend.retries: 1025 is out of bounds: 0 to 1024"),
        ("max_queue = -1", "9: backend.max_queue: -1 is out of bounds: 0 to 1000000"),
        ("queue_timeout = \"11m\"", "9: backend.queue_timeout: \"11m\" is out of bounds: 10ms to 10m"),
        ("resolve_interval = \"1ms\"", "9: backend.resolve_interval: \"1ms\" is out of bounds: 1s to 24h, or \"off\""),
        (
            "resolve_interval = \"1m\"",
            "9: backend.resolve_interval: \"1m\" is of no use: no server of this backend has a host name",
        ),
        (
            "source_addresses = [\"eth0\"]",
            "9: backend.source_addresses: \"eth0\" is not an IP address; it takes a list of this machine's own IP addresses, \
             such as [\"10.0.0.5\", \"10.0.0.6\"]",
        ),
        (
            "source_addresses = [\"0.0.0.0\"]",
            "9: backend.source_addresses: \"0.0.0.0\" is not the address of one machine",
        ),
        (
            "source_addresses = [\"127.0.0.2\", \"127.0.0.2\"]",
            "9: backend.source_addresses: \"127.0.0.2\" is listed twice",
        ),
        (
            "source_addresses = [\"::1\"]",
            "9: backend.source_addresses: [\"::1\"] is of no use: no server of this backend is reached over TCP from an \
             address of its family",
        ),
    ] {
        assert_eq!(refusal(&text_with(&format!("{SERVERS}\n{lines}"))), message);
    }
}

#[test]
fn what_a_server_s_table_does_not_take_is_refused() {
    for (server, message) in [
        ("{ weight = 1 }", "backend.servers.address: is missing: where the server is, such as \"127.0.0.1:6379\""),
        ("{ address = \"10.0.0.1:1\", wieght = 1 }", "backend.servers.wieght: unknown key; did you mean \"weight\"?"),
        (
            "{ address = \"10.0.0.1:1\", colour = 1 }",
            "backend.servers.colour: unknown key; known here: address, name, weight, backup, max_connections, server_name",
        ),
        ("{ address = \"10.0.0.1:1\", weight = 0 }", "backend.servers.weight: 0 is out of bounds: 1 to 256"),
        ("{ address = \"10.0.0.1:1\", weight = 257 }", "backend.servers.weight: 257 is out of bounds: 1 to 256"),
        ("{ address = \"10.0.0.1:1\", weight = \"9\" }", "backend.servers.weight: \"9\" is not a whole number"),
        ("{ address = \"10.0.0.1:1\", backup = 1 }", "backend.servers.backup: 1 is neither true nor false"),
        (
            "{ address = \"10.0.0.1:1\", max_connections = 0 }",
            "backend.servers.max_connections: 0 is out of bounds: 1 to 1000000",
        ),
        (
            "{ address = \"10.0.0.1:1\", name = \"a b\" }",
            "backend.servers.name: \"a b\" is not a name of 1 to 64 bytes without blanks and quotes",
        ),
        (
            "{ address = \"10.0.0.1:1\", server_name = \"a.example\" }",
            "backend.servers.server_name: \"a.example\" is of no use: the backend has no tls, so nobody is asked for it",
        ),
        (
            "{ address = \"10.0.0.1\" }",
            "backend.servers.address: \"10.0.0.1\" is not an address: write \"host:port\", \"[v6]:port\" or \"unix:/path\", \
             for example \"127.0.0.1:6379\"",
        ),
        (
            "{ address = 6379 }",
            "backend.servers.address: 6379 is not a text; where the server is, such as \"127.0.0.1:6379\"",
        ),
        (
            "{ address = \"10.0.0.1:1\", name = \"a\" }, { address = \"10.0.0.2:1\", name = \"a\" }",
            "backend.servers.name: \"a\" is the name of another server of this backend already",
        ),
        (
            "{ address = \"127.0.0.1:6380\", name = \"a\" }",
            "backend.servers: \"127.0.0.1:6380\" leads to listener \"127.0.0.1:6380\" of this file, which takes clients; write \
             where the Valkey or Redis server is",
        ),
    ] {
        assert_eq!(refusal(&text_with(&format!("servers = [{server}]"))), format!("8: {message}"));
    }
    let tls = "servers = [{ address = \"10.0.0.1:1\", server_name = \"a b\" }]\ntls = { ca = \"ca.pem\" }";
    let message = "is not a DNS name or an IP address, such as \"valkey.example\"";
    assert_eq!(refusal(&text_with(tls)), format!("8: backend.servers.server_name: \"a b\" {message}"));
}

#[test]
fn a_host_name_is_looked_up_again_and_keeps_its_servers_where_that_fails() {
    let mut backend = backend("servers = [{ address = \"pair.example:1\", weight = 3 }]");
    let addresses = |backend: &Backend| backend.servers().map(|server| server.address.to_string()).collect::<Vec<_>>();
    let mut later = machine();
    later.resolve =
        |_, port| Ok(vec![SocketAddr::from(([10, 0, 0, 2], port)), SocketAddr::from(([10, 0, 0, 3], port))]);
    assert_eq!(backend.entries[0].look_up(&later), Ok(()));
    assert_eq!(addresses(&backend), ["10.0.0.2:1", "10.0.0.3:1"]);
    assert!(backend.servers().all(|server| server.weight == 3 && &*server.name == "pair.example:1"));
    later.resolve = |_, _| Err(std::io::Error::other("no name server"));
    let problem = "pair.example:1 cannot be resolved: no name server".to_owned();
    assert_eq!(backend.entries[0].look_up(&later), Err(problem));
    assert_eq!(addresses(&backend), ["10.0.0.2:1", "10.0.0.3:1"]);
}
