//! Many clients over few connections: what they get, what the server sees, and what becomes of them when it fails.

use rustix::process::Signal;

use crate::admin::Metrics;
use crate::certificates::Certificates;
use crate::client::{Client, End};
use crate::process::run;
use crate::real_clients::{bullmq, ioredis, node_redis, redis_py, redis_rs, through};
use crate::ringwall::{Ringwall, Setup};
use crate::server::{Server, free_port};

const LOST: &[u8] = b"-ERR the server has closed the connection; whether the command ran is unknown\r\n";

/// One shard, so that the number of connections is known.
const ONE_SHARD: &str = "[runtime]\nshards = 1\n";

/// A multiplexed listener in front of `server`.
fn before(server: &Server) -> Setup {
    let setup = Setup::before(server.address()).listener("mode = \"multiplex\"");
    setup.sections(ONE_SHARD).admin("allow_changes = true\n")
}

fn pair() -> (Server, Ringwall) {
    let server = Server::on_unix_socket();
    let ringwall = before(&server).start();
    (server, ringwall)
}

/// How the server sees the connection that it gets `command` over, as CLIENT LIST tells it.
fn seen_by(server: &Server) -> Vec<String> {
    let list = server.client().text(&["CLIENT", "LIST"]);
    list.lines().filter(|line| !line.contains("cmd=client")).map(str::to_owned).collect()
}

/// Whether the server sees one connection, or another one on which it was asked about clients that came late.
fn assert_shared(server: &Server) {
    assert!(seen_by(server).len() <= 2, "{:#?}", seen_by(server));
}

/// Waits until so many requests have been passed on.
fn wait_for_requests(ringwall: &Ringwall, count: f64) {
    Metrics::until(&ringwall.admin(), |metrics| metrics.sum("ringwall_multiplex_requests_total") >= count);
}

#[test]
fn redirects_of_a_cluster_reach_the_client_as_they_are() {
    let (server, ringwall) = pair();
    let mut client = ringwall.client();
    for redirect in ["MOVED 3999 10.0.0.1:7002", "ASK 3999 10.0.0.1:7002"] {
        let script = format!("return redis.error_reply('{redirect}')");
        assert_eq!(client.call(&["EVAL", &script, "0"]), format!("-{redirect}\r\n").as_bytes());
    }
    assert_eq!(seen_by(&server).len(), 1);
}

#[test]
fn a_thousand_clients_share_one_connection() {
    let (server, ringwall) = pair();
    let dial = ringwall.dial();
    let mut clients: Vec<_> = (0..1_000).map(|_| dial.connect().unwrap()).collect();
    for round in 0..3 {
        for (number, client) in clients.iter_mut().enumerate() {
            client.send_request(&["SET", &format!("key:{number}"), &format!("{number} in {round}")]);
            client.send_request(&["GET", &format!("key:{number}")]);
        }
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.reply(), b"+OK\r\n");
            let value = format!("{number} in {round}");
            assert_eq!(client.reply(), format!("${}\r\n{value}\r\n", value.len()).as_bytes());
        }
    }
    assert_shared(&server);
    let metrics = ringwall.admin().metrics();
    assert_eq!(metrics.value("ringwall_multiplex_requests_total{listener=\"public\",connection=\"shared\"}"), 6_000.0);
    assert_eq!(metrics.value("ringwall_multiplex_requests_total{listener=\"public\",connection=\"own\"}"), 0.0);
    assert_eq!(metrics.sum("ringwall_multiplex_batch_requests_sum"), 6_000.0);
    // Requests of many have left together.
    assert!(metrics.sum("ringwall_multiplex_batch_requests_count") < 6_000.0);
    drop(clients);
    ringwall.wait_for_ended_sessions(1_000);
    let line = ringwall.session_ended("client_truncated");
    assert!(line.contains("\"mode\":\"multiplex\""), "{line}");
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let (_server, ringwall) = pair();
    let mut client = ringwall.client();
    let mut other = ringwall.client();
    let requests: Vec<u8> =
        (0..5_000).flat_map(|number| crate::resp::request(&["ECHO".to_owned(), format!("{number}")])).collect();
    client.send(&requests);
    for number in 0..5_000 {
        assert_eq!(client.reply(), format!("${}\r\n{number}\r\n", number.to_string().len()).as_bytes());
        if number % 1_000 == 0 {
            assert_eq!(other.call(&["PING"]), b"+PONG\r\n");
        }
    }
}

#[test]
fn watched_keys_are_watched_while_others_write() {
    let (server, ringwall) = pair();
    let (mut one, mut other) = (ringwall.client(), ringwall.client());
    assert_eq!(one.call(&["WATCH", "a"]), b"+OK\r\n");
    assert_eq!(other.call(&["SET", "a", "1"]), b"+OK\r\n");
    assert_eq!(one.call(&["MULTI"]), b"+OK\r\n");
    assert_eq!(one.call(&["INCR", "a"]), b"+QUEUED\r\n");
    assert_eq!(one.call(&["EXEC"]), b"*-1\r\n");
    for reply in [b":2\r\n", b":3\r\n"] {
        assert_eq!(one.call(&["WATCH", "a"]), b"+OK\r\n");
        assert_eq!(one.call(&["MULTI"]), b"+OK\r\n");
        assert_eq!(other.call(&["GET", "b"]), b"$-1\r\n");
        assert_eq!(one.call(&["INCR", "a"]), b"+QUEUED\r\n");
        assert_eq!(one.call(&["EXEC"]), [b"*1\r\n".as_slice(), reply].concat());
    }
    // The connections of transactions are kept for whoever needs one next.
    assert!(seen_by(&server).len() <= 3, "{:#?}", seen_by(&server));
    let departures = ringwall.admin().metrics();
    assert_eq!(departures.value("ringwall_multiplex_departures_total{listener=\"public\",command=\"watch\"}"), 3.0);
}

#[test]
fn a_client_that_blocks_holds_up_nobody() {
    let (_server, ringwall) = pair();
    let (mut blocked, mut other) = (ringwall.client(), ringwall.client());
    blocked.send_request(&["SET", "a", "1"]);
    blocked.send_request(&["BLPOP", "list", "0"]);
    blocked.send_request(&["GET", "a"]);
    assert_eq!(blocked.reply(), b"+OK\r\n");
    assert_eq!(other.call(&["GET", "a"]), b"$1\r\n1\r\n");
    assert_eq!(other.call(&["RPUSH", "list", "x"]), b":1\r\n");
    assert_eq!(blocked.reply(), b"*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
    assert_eq!(blocked.reply(), b"$1\r\n1\r\n");
}

#[test]
fn subscribers_hear_what_is_published() {
    let (server, ringwall) = pair();
    let (mut subscriber, mut other) = (ringwall.client(), ringwall.client());
    assert_eq!(subscriber.call(&["SUBSCRIBE", "news"]), b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    assert_eq!(other.call(&["PUBLISH", "news", "hi"]), b":1\r\n");
    assert_eq!(subscriber.reply(), b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n");
    subscriber.end_writing();
    assert_eq!(subscriber.end(), End::Orderly);
    server.wait_for_clients(1);
}

#[test]
fn users_protocols_and_databases_are_kept_apart() {
    let server = Server::with(&["--requirepass secret", "--user alice on >wonder ~alice:* &* +@all"]);
    let ringwall = before(&server).start();
    let mut stranger = ringwall.client();
    assert_eq!(stranger.call(&["GET", "a"]), b"-NOAUTH Authentication required.\r\n");
    let mut clients: Vec<_> = (0..40).map(|_| ringwall.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let hello = match number % 4 {
            0 => client.call(&["AUTH", "secret"]),
            1 => client.call(&["AUTH", "alice", "wonder"]),
            2 => client.call(&["HELLO", "3", "AUTH", "default", "secret"]),
            _ => client.call(&["HELLO", "3", "AUTH", "alice", "wonder", "SETNAME", "app"]),
        };
        assert!(hello.starts_with(if number % 4 < 2 { b"+OK" } else { b"%7\r" }), "{number}: {hello:?}");
        let database = (number % 8 / 4).to_string();
        assert_eq!(client.call(&["SELECT", &database]), b"+OK\r\n");
        assert_eq!(client.call(&["CLIENT", "SETNAME", "test"]), b"+OK\r\n");
    }
    for client in &mut clients {
        client.send_request(&["ACL", "WHOAMI"]);
        client.send_request(&["SET", "alice:a", "1"]);
        client.send_request(&["SET", "a", "1"]);
        client.send_request(&["GET", "no"]);
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let is_alice = number % 2 == 1;
        let user = if is_alice { "alice" } else { "default" };
        assert_eq!(client.reply(), format!("${}\r\n{user}\r\n", user.len()).as_bytes());
        assert_eq!(client.reply(), b"+OK\r\n");
        let written = client.reply();
        let read = client.reply();
        if is_alice {
            assert!(written.starts_with(b"-NOPERM") && read.starts_with(b"-NOPERM"));
        } else {
            assert_eq!(written, b"+OK\r\n");
            assert_eq!(read, if number % 4 < 2 { b"$-1\r\n".as_slice() } else { b"_\r\n" });
        }
    }
    assert!(stranger.call(&["GET", "a"]).starts_with(b"-NOAUTH"));
    // One for each user, protocol and database; the stranger's own; four that are kept.
    assert!(seen_by(&server).len() <= 13, "{:#?}", seen_by(&server));
}

#[test]
fn a_client_certificate_makes_a_client_its_user_here_too() {
    let server = Server::with(&["--requirepass secret", "--user worker on >correct ~* &* +@all"]);
    let setup = before(&server).tls("client_auth = \"required\", client_ca = \"ca.crt\"");
    for name in ["worker", "other"] {
        setup.certificates.certify(name, |params| params.distinguished_name.push(rcgen::DnType::CommonName, name));
    }
    std::fs::write(setup.certificates.folder().join("password"), "correct\n").unwrap();
    let user = "[[listener.user]]\ncn = \"worker\"\nname = \"worker\"\npassword_file = \"password\"\n";
    let ringwall = setup.listener(&format!("mode = \"multiplex\"\n{user}")).start();
    let client = |name| ringwall.dial().with_certificate(&ringwall.certificates, name).connect().unwrap();
    let mut clients: Vec<_> = (0..5).map(|_| client("worker")).collect();
    for client in &mut clients {
        assert_eq!(client.call(&["ACL", "WHOAMI"]), b"$6\r\nworker\r\n");
    }
    assert!(client("other").reply().starts_with(b"-NOAUTH ringwall: this listener has no user"));
}

#[test]
fn wait_speaks_for_what_was_written_over_shared_connections() {
    let server = Server::on_tcp();
    let replica = server.replica();
    let ringwall = before(&server).start();
    let mut client = ringwall.client();
    assert_eq!(client.call(&["SET", "a", "1"]), b"+OK\r\n");
    assert_eq!(client.call(&["WAIT", "1", "0"]), b":1\r\n");
    replica.process.signal(Signal::STOP);
    let mut other = ringwall.client();
    assert_eq!(other.call(&["SET", "a", "2"]), b"+OK\r\n");
    assert_eq!(other.call(&["WAIT", "1", "100"]), b":0\r\n");
    replica.process.signal(Signal::CONT);
    assert_eq!(other.call(&["WAIT", "1", "0"]), b":1\r\n");
}

#[test]
fn scripts_run_and_are_killed_while_they_hold_up_the_others() {
    let (_server, ringwall) = pair();
    let (mut one, mut other) = (ringwall.client(), ringwall.client());
    assert_eq!(one.call(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", "n"]), b":1\r\n");
    let sha = one.text(&["SCRIPT", "LOAD", "return ARGV[1]"]);
    assert_eq!(other.call(&["EVALSHA", &sha, "0", "x"]), b"$1\r\nx\r\n");
    one.send_request(&["EVAL", "while true do end", "0"]);
    // It cannot be killed before the server has begun it.
    loop {
        match other.call(&["SCRIPT", "KILL"]) {
            reply if reply == b"+OK\r\n" => break,
            reply => assert!(reply.starts_with(b"-NOTBUSY"), "{reply:?}"),
        }
    }
    let killed = one.reply();
    assert!(killed.starts_with(b"-ERR") && String::from_utf8_lossy(&killed).contains("killed"), "{killed:?}");
    assert_eq!(one.call(&["PING"]), b"+PONG\r\n");
}

#[test]
fn large_values_pass_and_others_go_on() {
    let (server, ringwall) = pair();
    let (mut large, mut other) = (ringwall.client(), ringwall.client());
    let value: Vec<u8> = (0..5_000_000_u32).map(|at| (at % 251) as u8).collect();
    let expected = [b"$5000000\r\n".as_slice(), &value, b"\r\n"].concat();
    for _ in 0..3 {
        assert_eq!(large.call(&[b"SET".as_slice(), b"large", &value]), b"+OK\r\n");
        assert_eq!(other.call(&["PING"]), b"+PONG\r\n");
        assert!(large.call(&["GET", "large"]) == expected);
        // By the first reply that was too large for sharing it has become one with a connection of its own.
        assert!(other.call(&["GET", "large"]) == expected);
        assert_eq!(other.call(&["PING"]), b"+PONG\r\n");
    }
    assert_eq!(seen_by(&server).iter().filter(|line| line.contains(" cmd=")).count(), 3);
}

#[test]
fn who_does_not_read_a_large_reply_is_closed_and_others_go_on() {
    let (server, ringwall) = pair();
    server.client().call(&[b"SET".as_slice(), b"large", &vec![b'x'; 20_000_000]]);
    let (mut slow, mut other) = (ringwall.client(), ringwall.client());
    assert_eq!(other.call(&["PING"]), b"+PONG\r\n");
    slow.send_request(&["GET", "large"]);
    ringwall.session_ended("slow_client");
    assert_eq!(other.call(&["PING"]), b"+PONG\r\n");
    assert!(matches!(slow.rest().1, End::Cut | End::Reset));
}

#[test]
fn requests_under_way_at_a_server_that_dies_get_an_error_and_later_ones_a_fresh_connection() {
    let port = free_port();
    let server = Server::on_port(port);
    let ringwall = before(&server).start();
    let mut clients: Vec<_> = (0..10).map(|_| ringwall.client()).collect();
    for client in &mut clients {
        assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    }
    server.process.signal(Signal::STOP);
    for client in &mut clients[..8] {
        client.send_request(&["INCR", "n"]);
    }
    wait_for_requests(&ringwall, 18.0);
    server.process.signal(Signal::KILL);
    for client in &mut clients[..8] {
        let reply = client.reply();
        let reset = b"-ERR the connection to the server is lost; whether the command ran is unknown\r\n".as_slice();
        assert!(reply == LOST || reply == reset, "{}", String::from_utf8_lossy(&reply));
    }
    drop(server);
    let _server = Server::on_port(port);
    for client in &mut clients {
        assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    }
}

#[test]
fn a_server_that_cannot_be_reached_is_told_of() {
    let port = free_port();
    let ringwall = Setup::before(format!("127.0.0.1:{port}")).listener("mode = \"multiplex\"").start();
    for _ in 0..2 {
        let (said, end) = ringwall.client().rest();
        let said = String::from_utf8(said).unwrap();
        let start =
            format!("-ERR ringwall cannot reach the server: backend 'server': 127.0.0.1:{port}: Connection refused");
        assert!(said.starts_with(&start), "{said}");
        assert_eq!(end, End::Orderly);
    }
    let line = ringwall.session_ended("backend_unreachable");
    assert!(line.contains("Connection refused"), "{line}");
}

#[test]
fn the_next_server_is_tried_when_one_cannot_be_reached() {
    let (dead, server) = (free_port(), Server::on_tcp());
    let ringwall = Setup::before(format!("127.0.0.1:{dead}")).and(server.address()).listener("mode = \"multiplex\"");
    let ringwall = ringwall.sections(ONE_SHARD).start();
    let mut clients: Vec<_> = (0..6).map(|_| ringwall.client()).collect();
    for client in &mut clients {
        assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    }
    assert_shared(&server);
}

#[test]
fn clients_leave_a_server_that_is_drained_and_what_they_shared_is_closed() {
    let (first, second) = (Server::on_tcp(), Server::on_tcp());
    let ringwall = before(&first).and(second.address()).start();
    let mut clients: Vec<_> = (0..8).map(|_| ringwall.client()).collect();
    for client in &mut clients {
        assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    }
    let drained = ringwall.admin().post(&format!("/drain?backend=server&server={}", first.address()));
    assert_eq!(drained.status, 200, "{drained:?}");
    for n in 1..=4 {
        ringwall.nth_session_ended(n, "server_drained");
    }
    assert_eq!(ringwall.client().call(&["PING"]), b"+PONG\r\n");
    let mut go_on = 0;
    for client in &mut clients {
        go_on += u32::from(client.try_send(b"PING\r\n").is_ok() && client.try_reply().is_ok());
    }
    assert_eq!(go_on, 4);
}

#[test]
fn a_drain_waits_for_what_clients_are_owed() {
    let (server, mut ringwall) = pair();
    let (mut idle, mut busy) = (ringwall.client(), ringwall.client());
    assert_eq!(idle.call(&["PING"]), b"+PONG\r\n");
    assert_eq!(busy.call(&["PING"]), b"+PONG\r\n");
    busy.send_request(&["BLPOP", "list", "0"]);
    server.wait_for_clients(2);
    ringwall.terminate();
    assert_eq!(idle.end(), End::Orderly);
    server.client().call(&["RPUSH", "list", "x"]);
    assert_eq!(busy.reply(), b"*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
    assert_eq!(busy.end(), End::Orderly);
    let (_, status) = ringwall.wait();
    assert!(status.success());
    server.wait_for_clients(0);
}

#[test]
fn what_is_no_request_ends_its_client_alone() {
    let (_server, ringwall) = pair();
    let (mut bad, mut other) = (ringwall.client(), ringwall.client());
    bad.send(b"PING\r\n*1\r\n$x\r\n");
    assert_eq!(bad.rest(), (b"+PONG\r\n-ERR Protocol error: invalid length\r\n".to_vec(), End::Orderly));
    assert_eq!(other.call(&["PING"]), b"+PONG\r\n");
    let line = ringwall.session_ended("protocol_error");
    assert!(line.contains("invalid length"), "{line}");
}

#[test]
fn a_client_that_quits_is_closed_in_good_order() {
    let (_server, ringwall) = pair();
    let mut client = ringwall.client();
    client.send(b"PING\r\nQUIT\r\n");
    assert_eq!(client.rest(), (b"+PONG\r\n+OK\r\n".to_vec(), End::Orderly));
    ringwall.session_ended("client_closed");
}

#[test]
fn redis_py_works_over_shared_connections() {
    let (_server, ringwall) = pair();
    redis_py(&ringwall);
}

#[test]
fn ioredis_works_over_shared_connections() {
    let (_server, ringwall) = pair();
    ioredis(&ringwall);
}

#[test]
fn node_redis_works_over_shared_connections() {
    let (_server, ringwall) = pair();
    node_redis(&ringwall);
}

#[test]
fn bullmq_works_over_shared_connections() {
    let (_server, ringwall) = pair();
    bullmq(&ringwall);
}

#[test]
fn redis_rs_works_over_shared_connections() {
    let server = Server::on_unix_socket();
    redis_rs(&before(&server).plain().start());
}

#[test]
fn redis_benchmark_finishes_its_whole_list_of_tests() {
    let (_server, ringwall) = pair();
    for pipeline in ["1", "16"] {
        let mut command = through("redis-benchmark", &ringwall);
        command.args(["-q", "-n", "4000", "-c", "50", "-P", pipeline]);
        let (success, output) = run(command, b"");
        assert!(success && !output.to_lowercase().contains("error"), "{output}");
        assert!(output.contains("PING_INLINE") && output.contains("MSET (10 keys)"), "{output}");
    }
}

#[test]
fn clients_without_tls_share_connections_too() {
    let server = Server::on_unix_socket();
    let ringwall = before(&server).plain().start();
    let mut clients: Vec<Client> = (0..20).map(|_| ringwall.plain_client()).collect();
    for client in &mut clients {
        assert_eq!(client.call(&["INCR", "n"])[0], b':');
    }
    assert_shared(&server);
}

#[test]
fn a_server_that_speaks_tls_is_shared_as_well() {
    let certificates = Certificates::new();
    let server = Server::with_tls(&certificates, &["--tls-auth-clients", "no"]);
    let ringwall = before(&server).backend(&format!("tls = {{ ca = {:?} }}", certificates.ca_file())).start();
    let mut clients: Vec<Client> = (0..50).map(|_| ringwall.client()).collect();
    for round in 0..20 {
        for client in &mut clients {
            client.send_request(&["INCR", "n"]);
        }
        for client in &mut clients {
            assert_eq!(client.reply()[0], b':', "round {round}");
        }
    }
    assert_eq!(server.client().call(&["GET", "n"]), b"$4\r\n1000\r\n");
    assert_shared(&server);
    let value = vec![b'x'; 3_000_000];
    assert_eq!(clients[0].call(&[b"SET".as_slice(), b"large", &value]), b"+OK\r\n");
    assert_eq!(clients[1].call(&["GET", "large"]).len(), 3_000_000 + 12);
    // A connection of its own, on which the client ends first.
    assert_eq!(clients[2].call(&["SUBSCRIBE", "news"]), b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    assert_eq!(clients[3].call(&["PUBLISH", "news", "hi"]), b":1\r\n");
    assert_eq!(clients[2].reply(), b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n");
    clients[2].end_writing();
    assert_eq!(clients[2].end(), End::Orderly);
    assert!(ringwall.admin().metrics().value("ringwall_backend_handshakes_total") >= 2.0);
    server.process.signal(Signal::STOP);
    let before = ringwall.admin().metrics().sum("ringwall_multiplex_requests_total");
    clients[4].send_request(&["PING"]);
    wait_for_requests(&ringwall, before + 1.0);
    server.process.signal(Signal::KILL);
    assert!(clients[4].reply().starts_with(b"-ERR the connection to the server is lost"));
}

#[test]
fn a_server_whose_certificate_is_not_trusted_gets_nobody() {
    let server = Server::with_tls(&Certificates::new(), &["--tls-auth-clients", "no"]);
    let others = Certificates::new().with_server(|params| params.distinguished_name = rcgen::DistinguishedName::new());
    let ringwall = before(&server).backend(&format!("tls = {{ ca = {:?} }}", others.ca_file())).start();
    let (said, end) = ringwall.client().rest();
    let said = String::from_utf8(said).unwrap();
    let why = "TLS: a signature of the server or in its certificate is wrong";
    assert!(
        said.starts_with("-ERR ringwall cannot reach the server: backend 'server': ") && said.contains(why),
        "{said}"
    );
    assert_eq!(end, End::Orderly);
    assert_eq!(ringwall.admin().metrics().value("ringwall_backend_connect_failures_total{reason=\"tls\"}"), 1.0);
}
