//! The rights of clients that share connections, while users and passwords of a real server change; and what they share when
//! it has no room for more.

use rustix::process::Signal;

use crate::admin::Metrics;
use crate::client::Client;
use crate::ringwall::{Ringwall, Setup};
use crate::server::Server;

/// One shard, so that the number of connections is known.
const ONE_SHARD: &str = "[runtime]\nshards = 1\n";

const NO_LOGIN: &[u8] = b"-NOAUTH Authentication required.\r\n";

/// A multiplexed listener without TLS in front of `server`, of which `keys` say more.
fn before(server: &Server, keys: &str) -> Ringwall {
    let setup = Setup::before(server.address()).plain().listener(&format!("mode = \"multiplex\"\n{keys}"));
    setup.sections(ONE_SHARD).admin("").start()
}

/// A client that has been served over a shared connection.
fn served(ringwall: &Ringwall) -> Client {
    let mut client = ringwall.plain_client();
    assert_eq!(client.call(&["SET", "a", "1"]), b"+OK\r\n");
    client
}

/// Connections of others than the one that asks.
fn connections(asking: &mut Client) -> usize {
    asking.text(&["CLIENT", "LIST"]).matches("id=").count() - 1
}

#[test]
fn whatever_closes_the_default_user_keeps_newcomers_out_and_nobody_who_is_in() {
    for closing in [
        ["CONFIG", "SET", "requirepass", "secret"].as_slice(),
        &["ACL", "SETUSER", "default", ">secret"],
        &["ACL", "SETUSER", "default", "resetpass"],
        &["ACL", "SETUSER", "default", "off"],
    ] {
        let server = Server::on_unix_socket();
        let ringwall = before(&server, "");
        let mut direct = server.client();
        assert_eq!(direct.call(&["ACL", "SETUSER", "alice", "on", ">wonder", "~*", "&*", "+@all"]), b"+OK\r\n");
        let (mut first, mut second) = (served(&ringwall), served(&ringwall));
        assert_eq!(direct.call(closing), b"+OK\r\n");
        let mut late: Vec<_> = (0..10).map(|_| ringwall.plain_client()).collect();
        for client in &mut late {
            client.send_request(&["GET", "a"]);
            client.send_request(&["WATCH", "a"]);
        }
        for client in &mut late {
            assert_eq!((client.reply().as_slice(), client.reply().as_slice()), (NO_LOGIN, NO_LOGIN), "{closing:?}");
        }
        // Neither does a connection of its own let anybody in.
        assert_eq!(ringwall.plain_client().call(&["SELECT", "1"]), NO_LOGIN);
        assert_eq!(ringwall.plain_client().call(&["SUBSCRIBE", "news"]), NO_LOGIN);
        assert!(ringwall.plain_client().call(&["HELLO", "3"]).starts_with(b"-NOAUTH"));
        for client in [&mut first, &mut second] {
            assert_eq!(client.call(&["GET", "a"]), b"$1\r\n1\r\n", "{closing:?}");
        }
        assert_eq!(late[0].call(&["AUTH", "alice", "wonder"]), b"+OK\r\n");
        assert_eq!(late[0].call(&["ACL", "WHOAMI"]), b"$5\r\nalice\r\n");

        assert_eq!(direct.call(&["ACL", "SETUSER", "default", "on", "nopass"]), b"+OK\r\n");
        let mut again = ringwall.plain_client();
        for client in [&mut first, &mut late[1], &mut again] {
            assert_eq!(client.call(&["GET", "a"]), b"$1\r\n1\r\n", "{closing:?}");
        }
    }
}

#[test]
fn a_password_that_has_changed_is_the_one_that_counts() {
    let server = Server::with(&["--user alice on >old ~* &* +@all"]);
    let ringwall = before(&server, "");
    let mut direct = server.client();
    let mut first = ringwall.plain_client();
    assert_eq!(first.call(&["AUTH", "alice", "old"]), b"+OK\r\n");
    assert_eq!(first.call(&["SET", "a", "1"]), b"+OK\r\n");
    assert_eq!(direct.call(&["ACL", "SETUSER", "alice", "resetpass", ">new"]), b"+OK\r\n");
    let mut late = ringwall.plain_client();
    let wrong = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    assert_eq!(late.call(&["AUTH", "alice", "old"]), wrong);
    assert_eq!(late.call(&["HELLO", "3", "AUTH", "alice", "old"]), wrong);
    assert_eq!(late.call(&["ACL", "WHOAMI"]), b"$7\r\ndefault\r\n");
    assert_eq!(late.call(&["AUTH", "alice", "new"]), b"+OK\r\n");
    assert_eq!(late.call(&["ACL", "WHOAMI"]), b"$5\r\nalice\r\n");
    assert_eq!(first.call(&["GET", "a"]), b"$1\r\n1\r\n");

    // With a user go its connections, and nobody is it any more.
    assert_eq!(direct.call(&["ACL", "DELUSER", "alice"]), b":1\r\n");
    assert!(ringwall.plain_client().call(&["AUTH", "alice", "new"]).starts_with(b"-WRONGPASS"));
    for client in [&mut first, &mut late] {
        let said = client.call(&["GET", "a"]);
        assert!(said.starts_with(b"-ERR the "), "{}", String::from_utf8_lossy(&said));
    }
    assert_eq!(served(&ringwall).call(&["ACL", "WHOAMI"]), b"$7\r\ndefault\r\n");
}

#[test]
fn clients_that_only_share_are_served_by_a_server_that_takes_no_more_connections() {
    let server = Server::with(&["--user alice on >wonder ~* &* +@all"]);
    let ringwall = before(&server, "");
    let mut direct = server.client();
    let mut first = served(&ringwall);
    let mut second = ringwall.plain_client();
    assert_eq!(second.call(&["AUTH", "alice", "wonder"]), b"+OK\r\n");
    assert_eq!(second.call(&["GET", "a"]), b"$1\r\n1\r\n");
    assert_eq!(direct.call(&["CONFIG", "SET", "maxclients", "6"]), b"+OK\r\n");
    let mut blocked: Vec<_> = (0..5).map(|_| ringwall.plain_client()).collect();
    for client in &mut blocked {
        client.send_request(&["BLPOP", "list", "0"]);
    }
    while connections(&mut direct) < 5 {}
    let mut clients: Vec<_> = (0..20).map(|_| ringwall.plain_client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        if number % 2 == 0 {
            client.send_request(&["AUTH", "alice", "wonder"]);
        }
        client.send_request(&["GET", "a"]);
    }
    for (number, client) in clients.iter_mut().enumerate() {
        if number % 2 == 0 {
            assert_eq!(client.reply(), b"+OK\r\n", "{number}");
        }
        assert_eq!(client.reply(), b"$1\r\n1\r\n", "{number}");
    }
    assert_eq!((first.call(&["GET", "a"]), second.call(&["GET", "a"])), (b"$1\r\n1\r\n".into(), b"$1\r\n1\r\n".into()));
    assert_eq!(connections(&mut direct), 5);
}

#[test]
fn clients_that_need_their_own_connections_leave_places_to_those_that_share() {
    let server = Server::with(&["--user alice on >wonder ~* &* +@all"]);
    let table = format!("{{ address = {:?}, max_connections = 6 }}", server.address());
    let setup = Setup::before(table).plain().listener("mode = \"multiplex\"");
    let ringwall = setup.sections(ONE_SHARD).start();
    let mut blocked: Vec<_> = (0..4).map(|_| ringwall.plain_client()).collect();
    for client in &mut blocked {
        client.send_request(&["BLPOP", "list", "0"]);
    }
    // The one that has reached the server, and these.
    server.wait_for_clients(5);
    let mut refused = ringwall.plain_client();
    refused.send_request(&["BLPOP", "list", "0"]);
    let said = String::from_utf8(refused.rest().0).unwrap();
    assert!(
        said.starts_with("-ERR the server cannot be reached: the connections that it may still have are"),
        "{said}"
    );
    let mut clients: Vec<_> = (0..20).map(|_| ringwall.plain_client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.call(&["AUTH", "alice", "wonder"]), b"+OK\r\n", "{number}");
        assert_eq!(client.call(&["GET", "a"]), b"$-1\r\n", "{number}");
    }
    server.wait_for_clients(6);
    for _ in &blocked {
        assert_eq!(server.client().call(&["RPUSH", "list", "x"]), b":1\r\n");
    }
    for client in &mut blocked {
        assert_eq!(client.reply(), b"*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
    }
}

#[test]
fn five_hundred_clients_are_a_few_connections_at_the_server() {
    let server = Server::on_unix_socket();
    let setup = Setup::before(server.address()).plain().listener("mode = \"multiplex\"");
    let ringwall = setup.sections("[runtime]\nshards = 2\n").start();
    let mut clients: Vec<_> = (0..500).map(|_| ringwall.plain_client()).collect();
    for round in 0..3 {
        for client in &mut clients {
            client.send_request(&["INCR", "n"]);
        }
        for client in &mut clients {
            assert_eq!(client.reply()[0], b':', "round {round}");
        }
        // A shared one for each shard, and one to ask whether newcomers are let in.
        assert!(connections(&mut server.client()) <= 4, "{}", server.client().text(&["CLIENT", "LIST"]));
    }
    assert_eq!(server.client().call(&["GET", "n"]), b"$4\r\n1500\r\n");
}

#[test]
fn no_more_requests_are_under_way_than_the_configuration_says() {
    let server = Server::on_unix_socket();
    let ringwall = before(&server, "client_requests_max = 2");
    let mut client = ringwall.plain_client();
    client.send(&b"PING\r\n".repeat(100));
    for _ in 0..100 {
        assert_eq!(client.reply(), b"+PONG\r\n");
    }
    let writes = ringwall.admin().metrics().sum("ringwall_multiplex_batch_requests_count");
    assert!(writes >= 50.0, "{writes} writes");

    let ringwall = before(&server, "connection_requests_max = 4");
    let name = "ringwall_multiplex_requests_total{listener=\"public\",connection=\"shared\"}";
    let shared = |metrics: &Metrics| metrics.value(name);
    let mut clients: Vec<_> = (0..10).map(|_| served(&ringwall)).collect();
    server.process.signal(Signal::STOP);
    for client in &mut clients {
        client.send(&b"PING\r\n".repeat(3));
    }
    Metrics::until(&ringwall.admin(), |metrics| shared(metrics) >= 14.0);
    // No server is needed for this, and what came before it has been served.
    assert_eq!(ringwall.plain_client().call(&["QUIT"]), b"+OK\r\n");
    let under_way = shared(&ringwall.admin().metrics());
    server.process.signal(Signal::CONT);
    assert_eq!(under_way, 14.0);
    for client in &mut clients {
        assert_eq!((0..3).filter(|_| client.reply() == b"+PONG\r\n").count(), 3);
    }
}
