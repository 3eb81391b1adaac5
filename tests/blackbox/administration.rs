//! What administrators are told of sessions and servers, and what they change.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use crate::admin::{Answer, Metrics};
use crate::changing::{Changing, assert_serves, backend, connect, entry, listener};
use crate::client::{Client, End};
use crate::ringwall::{Ringwall, Setup};
use crate::server::{Server, free_port};

const CHANGES: &str = "allow_changes = true\n";

/// A field's value in a JSON text, as it is written; the first of that name.
fn field<'t>(text: &'t str, name: &str) -> &'t str {
    let rest = text.split(&format!("\"{name}\":")).nth(1).unwrap_or_else(|| panic!("no {name} in {text}"));
    rest.split([',', '}', ']']).next().unwrap().trim_matches('"')
}

fn count(answer: &Answer) -> usize {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body.matches("\"id\":").count()
}

fn done(answer: &Answer) -> &str {
    assert_eq!(answer.status, 200, "{answer:?}");
    field(&answer.body, "done")
}

fn refused(answer: &Answer, status: u16) -> String {
    assert_eq!(answer.status, status, "{answer:?}");
    answer.body.trim().strip_prefix("{\"error\":\"").unwrap().strip_suffix("\"}").unwrap().to_owned()
}

/// The address of a client as it is listed.
fn own_address(client: &Client) -> String {
    client.socket().local_addr().unwrap().to_string()
}

#[test]
fn sessions_are_listed_with_who_they_are_and_what_they_moved() {
    let server = Server::on_tcp();
    let ringwall = Setup::before(server.address()).admin("").start();
    let mut client = ringwall.client();
    client.call(&["SET", "key", "value"]);
    let listed = ringwall.admin().get("/sessions");
    assert_eq!(count(&listed), 1);
    for (name, value) in [
        ("client", &*own_address(&client)),
        ("listener", "public"),
        ("backend", "server"),
        ("server", &*server.address()),
        ("state", "relaying"),
        ("pending", "false"),
        ("tls_version", "TLSv1.3"),
        ("server_rx_bytes", "5"),
        ("next", "null"),
    ] {
        assert_eq!(field(&listed.body, name), value, "{}", listed.body);
    }
    let clients = server.client().text(&["CLIENT", "LIST"]);
    assert!(clients.contains(&format!("127.0.0.1:{}", field(&listed.body, "server_local_port"))), "{clients}");
}

#[test]
fn sessions_are_filtered() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin("").start();
    let mut talker = ringwall.client();
    talker.call(&[b"SET".as_slice(), b"big", &vec![b'x'; 100_000]]);
    let mut quiet = ringwall.client();
    quiet.call(&["PING"]);
    let matches = |query: &str| count(&ringwall.admin().get(&format!("/sessions?{query}")));
    assert_eq!(matches(""), 2);
    assert_eq!(matches("listener=public&backend=server&client=127.0.0.1&pending=false&min_age=0s"), 2);
    assert_eq!(matches("client=127.0.0.2"), 0);
    assert_eq!(matches("min_age=1h"), 0);
    assert_eq!(matches("pending=true"), 0);
    let big = ringwall.admin().get("/sessions?min_bytes=200000");
    assert_eq!((count(&big), field(&big.body, "client")), (1, &*own_address(&talker)));
    for (query, why) in [
        ("listener=other", "no listener is called other; there are public"),
        ("backend=other", "no backend is called other; there are server"),
        ("client=localhost", "client=localhost: it must be an address without a port"),
        ("min_age=long", "min_age=long: it must be a duration such as 10s"),
        ("limit=0", "limit=0: it must be 1 to 1000"),
        ("after=x", "after=x: it must be the `next` of another page"),
        ("colour=red", "colour: there are listener, backend, client, min_age, min_bytes, pending, limit, after"),
    ] {
        assert_eq!(refused(&ringwall.admin().get(&format!("/sessions?{query}")), 400), why);
    }
}

#[test]
fn pages_tell_each_session_once() {
    const SESSIONS: usize = 25;
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin("").start();
    let clients: Vec<_> = (0..SESSIONS).map(|_| ringwall.client()).collect();
    let (mut seen, mut after) = (Vec::new(), "0-0".to_owned());
    while after != "null" {
        let page = ringwall.admin().get(&format!("/sessions?limit=4&after={after}"));
        assert!(count(&page) <= 4, "{}", page.body);
        seen.extend(page.body.split("\"client\":\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()));
        after = field(&page.body, "next").to_owned();
    }
    let mut expected: Vec<_> = clients.iter().map(own_address).collect();
    expected.sort();
    seen.sort();
    assert_eq!(seen, expected);
}

#[test]
fn a_session_is_closed_in_good_order_and_only_that_one() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin(CHANGES).start();
    let (mut doomed, mut other) = (ringwall.client(), ringwall.client());
    assert_eq!(doomed.call(&["PING"]), b"+PONG\r\n");
    let listed = ringwall.admin().get("/sessions").body;
    let of_doomed = listed.split("{\"id\"").find(|text| text.contains(&own_address(&doomed))).unwrap();
    let id = of_doomed.trim_start_matches(":\"").split('"').next().unwrap();
    assert_eq!(done(&ringwall.admin().post(&format!("/close?session={id}"))), format!("session {id} closed"));
    assert_eq!(doomed.end(), End::Orderly);
    ringwall.session_ended("operator");
    assert_eq!(other.call(&["PING"]), b"+PONG\r\n");
    let again = ringwall.admin().post(&format!("/close?session={id}"));
    assert_eq!(refused(&again, 404), format!("there is no open session {id}"));
    assert_eq!(refused(&ringwall.admin().post("/close?session=9-0-0"), 404), "there is no open session 9-0-0");
    assert_eq!(refused(&ringwall.admin().post("/close?session=x"), 400), "x is not a session's id");
    assert_eq!(refused(&ringwall.admin().post("/close"), 400), "it takes session and nothing else");
    let line = ringwall.process.line(|line| line.contains("changed by an administrator"));
    assert!(line.contains(&format!("/close?session={id}")), "{line}");
}

#[test]
fn a_drained_listener_refuses_clients_ends_quiet_sessions_and_comes_back() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).on_port(free_port()).admin(CHANGES).start();
    let mut quiet = ringwall.client();
    assert_eq!(quiet.call(&["PING"]), b"+PONG\r\n");
    for _ in 0..2 {
        done(&ringwall.admin().post("/drain?listener=public"));
        assert!(TcpStream::connect(ringwall.address).is_err());
        assert_eq!(field(&ringwall.admin().get("/status").body, "state"), "drained");
    }
    assert_eq!(quiet.end(), End::Orderly);
    ringwall.session_ended("listener_drained");
    // Nobody can come in any more.
    let ready = ringwall.admin().get("/readyz");
    assert_eq!((ready.status, &*ready.body), (503, "drained: public\n"));
    for _ in 0..2 {
        assert_eq!(done(&ringwall.admin().post("/enable?listener=public")), "listener enabled");
        ringwall.assert_serves();
        assert_eq!(field(&ringwall.admin().get("/status").body, "state"), "open");
        assert_eq!(ringwall.admin().get("/readyz").body, "ready\n");
    }
    let unknown = ringwall.admin().post("/drain?listener=other");
    assert_eq!(refused(&unknown, 400), "no listener is called other; there are public");
    assert_eq!(refused(&ringwall.admin().post("/drain"), 400), "it takes a listener, or a backend and a server");
}

#[test]
fn a_listener_whose_port_the_kernel_has_chosen_is_not_drained_because_it_would_get_another() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin(CHANGES).start();
    let why = refused(&ringwall.admin().post("/drain?listener=public"), 409);
    assert_eq!(
        why,
        "the kernel has chosen the port of listener public and would choose another: write one in its bind"
    );
    ringwall.assert_serves();
}

#[test]
fn ringwall_ends_in_good_order_with_a_drained_listener() {
    let server = Server::on_unix_socket();
    let mut ringwall = Setup::before(server.address()).on_port(free_port()).admin(CHANGES).start();
    done(&ringwall.admin().post("/drain?listener=public"));
    ringwall.terminate();
    assert_eq!(ringwall.wait().1.code(), Some(0));
}

#[test]
fn a_drained_server_gets_no_sessions_until_it_is_enabled() {
    let (first, second) = (Server::on_unix_socket(), Server::on_tcp());
    let ringwall =
        Setup::before(first.address()).and(second.address()).backend("balance = \"first\"\n").admin(CHANGES).start();
    let mut quiet = ringwall.client();
    assert_eq!(quiet.call(&["PING"]), b"+PONG\r\n");
    first.wait_for_clients(1);
    let drain = format!("/drain?backend=server&server={}", first.address());
    assert!(done(&ringwall.admin().post(&drain)).starts_with("server drained"));
    assert_eq!(quiet.end(), End::Orderly);
    ringwall.session_ended("server_drained");
    let up = |server: &Server| {
        format!("ringwall_backend_up{{backend=\"server\",server=\"{}\",role=\"unknown\"}}", server.address())
    };
    let metrics = ringwall.admin().metrics();
    assert_eq!((metrics.value(&up(&first)), metrics.value(&up(&second))), (0.0, 1.0));
    let clients: Vec<_> = (0..4).map(|_| ringwall.client()).collect();
    second.wait_for_clients(4);
    let open = format!("ringwall_backend_connections{{backend=\"server\",server=\"{}\"}}", second.address());
    assert_eq!(ringwall.admin().metrics().value(&open), 4.0);
    drop(clients);
    assert!(ringwall.admin().get("/status").body.contains("drained: an operator has said so"));
    let enable = format!("/enable?backend=server&server={}", first.address());
    assert_eq!(done(&ringwall.admin().post(&enable)), "server enabled");
    let _clients: Vec<_> = (0..4).map(|_| ringwall.client()).collect();
    let open = format!("ringwall_backend_connections{{backend=\"server\",server=\"{}\"}}", first.address());
    Metrics::until(&ringwall.admin(), |metrics| metrics.value(&open) >= 1.0);
    let unknown = ringwall.admin().post("/drain?backend=server&server=x");
    let all = format!("{}, {}", first.address(), second.address());
    assert_eq!(refused(&unknown, 400), format!("backend server has no server x; it has {all}"));
}

/// A server that is checked often, on this port.
fn checked(server: &Server, keys: &str) -> Setup {
    let check = format!("health_check = {{ {keys}, interval = \"100ms\", timeout = \"200ms\", rise = 1, fall = 1 }}");
    Setup::before(server.address()).plain().backend(&check).admin(CHANGES)
}

#[test]
fn a_server_that_went_down_while_it_was_drained_is_down_when_it_is_enabled() {
    let mut server = Server::on_tcp();
    let ringwall = checked(&server, "type = \"ping\"").start();
    ringwall.process.line(|line| line.contains("\"server is up\""));
    let target = format!("backend=server&server={}", server.address());
    done(&ringwall.admin().post(&format!("/drain?{target}")));
    let port = server.port();
    server.process.signal(rustix::process::Signal::KILL);
    server.process.wait();
    ringwall.process.line(|line| line.contains("\"server is down"));
    // What checks say does not undo what the operator has said.
    let status = ringwall.admin().get("/status").body;
    assert_eq!((field(&status, "why"), field(&status, "result")), ("drained: an operator has said so", "failed"));
    let told = ringwall.admin().post(&format!("/enable?{target}"));
    let expected = "server enabled, and gets no new sessions before its checks allow it: down: Connection refused";
    assert!(told.status == 200 && told.body.contains(expected), "{told:?}");
    let refusal = ringwall.plain_client().rest().0;
    assert!(String::from_utf8_lossy(&refusal).contains("down: Connection refused"), "{refusal:?}");
    let up = format!("ringwall_backend_up{{backend=\"server\",server=\"{}\",role=\"unknown\"}}", server.address());
    let metrics = ringwall.admin().metrics();
    assert_eq!(metrics.value(&up), 0.0);
    let failed = format!("backend=\"server\",server=\"{}\",result=\"failed\"", server.address());
    assert!(metrics.value(&format!("ringwall_health_checks_total{{{failed}}}")) >= 1.0);
    let _again = Server::on_port(port);
    Metrics::until(&ringwall.admin(), |metrics| metrics.value(&up) == 1.0);
    assert_eq!(ringwall.plain_client().call(&["PING"]), b"+PONG\r\n");
}

#[test]
fn a_servers_role_is_told_as_its_last_check_has_found_it() {
    let server = Server::on_tcp();
    let ringwall = checked(&server, "type = \"role\"").start();
    let up = |role: &str| {
        format!("ringwall_backend_up{{backend=\"server\",server=\"{}\",role=\"{role}\"}}", server.address())
    };
    let tells = |metrics: &Metrics, role: &str| metrics.samples.get(&up(role)).copied();
    Metrics::until(&ringwall.admin(), |metrics| tells(metrics, "primary") == Some(1.0));
    assert_eq!(server.client().call(&["REPLICAOF", "127.0.0.1", "1"]), b"+OK\r\n");
    let metrics = Metrics::until(&ringwall.admin(), |metrics| tells(metrics, "replica") == Some(0.0));
    assert_eq!(tells(&metrics, "primary"), None);
    let status = ringwall.admin().get("/status").body;
    for (name, value) in [("role", "replica"), ("result", "answered"), ("queue", "0"), ("sentinel", "null")] {
        assert_eq!(field(&status, name), value, "{status}");
    }
    let problem = "it is a replica, and the backend wants a primary";
    assert!(status.contains(&format!("\"problem\":\"{problem}\",\"state\":\"wrong_role\"")), "{status}");
}

#[test]
fn rotated_ticket_keys_cost_each_client_one_full_handshake() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin(CHANGES).start();
    let dial = ringwall.dial();
    let resumed = |count: f64| {
        let mut client = dial.connect().unwrap();
        client.call(&["PING"]);
        let handshakes = ringwall.admin().metrics();
        let resumed: f64 = handshakes
            .nonzero("ringwall_handshakes_total")
            .iter()
            .filter(|(labels, _)| labels.contains("resumed=\"true\""))
            .map(|(_, value)| value)
            .sum();
        assert_eq!(resumed, count);
    };
    resumed(0.0);
    resumed(1.0);
    assert_eq!(done(&ringwall.admin().post("/rotate-tickets")), "ticket keys rotated");
    resumed(1.0);
    resumed(2.0);
}

#[test]
fn the_log_level_is_another_from_the_next_line_on() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin(CHANGES).start();
    assert_eq!(done(&ringwall.admin().post("/log-level?level=debug")), "log level: ringwall=debug");
    drop(ringwall.client());
    ringwall.process.line(|line| line.contains("session's server connected"));
    ringwall.wait_for_ended_sessions(1);
    done(&ringwall.admin().post("/log-level?level=error"));
    drop(ringwall.client());
    Metrics::until(&ringwall.admin(), |metrics| metrics.sum("ringwall_connections_closed_total") == 2.0);
    done(&ringwall.admin().post("/log-level?level=warn,ringwall::session%3Dinfo"));
    drop(ringwall.client());
    ringwall.wait_for_ended_sessions(2);
    let told = ringwall.process.lines().iter().filter(|line| line.contains("server connected")).count();
    assert_eq!(told, 1);
    assert_eq!(
        refused(&ringwall.admin().post("/log-level?level=loud"), 400),
        "\\\"loud\\\" is neither a level (off, error, warn, info, debug, trace) nor a target and its level, such as \
         \\\"warn,ringwall::session=info\\\""
    );
}

#[test]
fn a_reload_is_answered_with_its_result() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin(CHANGES).start();
    assert_eq!(done(&ringwall.admin().post("/reload")), "reloaded");
    let line = ringwall.process.line(|line| line.contains("\"reloaded\""));
    assert!(line.contains("\"cause\":\"administrator\""), "{line}");
    std::fs::write(ringwall.folder().join("ringwall.toml"), "nothing = true").unwrap();
    let failed = refused(&ringwall.admin().post("/reload"), 409);
    assert!(failed.starts_with("what was in use stays: ") && failed.contains("unknown key"), "{failed}");
    ringwall.assert_serves();
}

#[test]
fn a_request_that_breaks_off_is_not_obeyed() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin(CHANGES).start();
    let mut stream = UnixStream::connect(ringwall.folder().join("admin.sock")).unwrap();
    stream.write_all(b"POST /reload HTTP/1.1\r\nHost: ringwall\r\nContent-Length: 100\r\n\r\nhalf").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("the request is not complete, and nothing was done: "), "{answer}");
    let metrics = ringwall.admin().metrics();
    assert_eq!(metrics.sum("ringwall_reloads_total"), 0.0);
}

#[test]
fn nothing_is_changed_unless_that_is_allowed() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin("").start();
    for change in
        ["/close?session=0-0-0", "/drain?listener=public", "/enable", "/rotate-tickets", "/log-level", "/reload"]
    {
        let why = refused(&ringwall.admin().post(change), 403);
        assert_eq!(why, "changes are not allowed: admin.allow_changes = true of the configuration allows them");
        assert_eq!(refused(&ringwall.admin().get(change), 405), "it takes POST");
    }
    ringwall.assert_serves();
}

#[test]
fn listing_does_not_disturb_what_is_relayed() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin("").start();
    std::thread::scope(|scope| {
        let listing = scope.spawn(|| (0..100).map(|_| count(&ringwall.admin().get("/sessions"))).sum::<usize>());
        let mut client = ringwall.client();
        for _ in 0..1_000 {
            assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
        }
        assert!(listing.join().unwrap() <= 100);
    });
}

#[test]
fn a_draining_ringwall_lists_its_sessions_sets_its_log_level_and_closes_what_holds_it_up() {
    let server = Server::on_unix_socket();
    // Two of the three have no session.
    let sections = "[runtime]\nshards = 3\n[limits]\nshutdown_timeout = \"1h\"\n";
    let mut ringwall = Setup::before(server.address()).sections(sections).admin(CHANGES).start();
    let mut blocked = ringwall.client();
    blocked.send_request(&["BLPOP", "queue", "0"]);
    let mut direct = server.client();
    while !direct.text(&["INFO", "clients"]).contains("blocked_clients:1") {}
    ringwall.terminate();
    let shards =
        |ringwall: &Ringwall| ringwall.process.threads().iter().filter(|thread| thread.starts_with("shard-")).count();
    while shards(&ringwall) > 1 {}
    let admin = ringwall.admin();
    assert_eq!(field(&admin.get("/status").body, "phase"), "draining");
    let listed = admin.get("/sessions");
    assert_eq!((count(&listed), field(&listed.body, "next")), (1, "null"));
    assert_eq!(done(&admin.post("/log-level?level=info")), "log level: ringwall=info");
    let id = field(&listed.body, "id").to_owned();
    let (shard, of_shard) = id.split_once('-').unwrap();
    for other in ["0", "1", "2"].into_iter().filter(|other| *other != shard) {
        let name = format!("{other}-{of_shard}");
        let why = refused(&admin.post(&format!("/close?session={name}")), 404);
        assert_eq!(why, format!("there is no open session {name}"));
    }
    assert_eq!(done(&admin.post(&format!("/close?session={id}"))), format!("session {id} closed"));
    assert_eq!(blocked.end(), End::Orderly);
    assert_eq!(ringwall.wait().1.code(), Some(0));
}

#[test]
fn readiness_is_of_any_listener_or_of_the_one_that_is_asked_for() {
    let server = Server::on_unix_socket();
    let text = |name: &str| listener(name, free_port(), "b", "");
    let program = Changing::start("a", &(text("a") + &text("z") + &backend("b", &[&entry(&server)], "")));
    let admin = program.ringwall.admin_at(&program.text());
    let ready = |query: &str| {
        let answer = admin.get(&format!("/readyz{query}"));
        (answer.status, answer.body)
    };
    let is = |status: u16, body: &str| (status, body.to_owned());
    assert_eq!([ready(""), ready("?listener=a"), ready("?listener=z")], [(); 3].map(|()| is(200, "ready\n")));
    done(&admin.post("/drain?listener=a"));
    assert_eq!(ready(""), is(200, "ready, but drained: a\n"));
    assert_eq!((ready("?listener=a"), ready("?listener=z")), (is(503, "drained: a\n"), is(200, "ready\n")));
    done(&admin.post("/drain?listener=z"));
    assert_eq!(ready(""), is(503, "drained: a, z\n"));
    let unknown = admin.get("/readyz?listener=x");
    assert!(unknown.status == 400 && unknown.body.contains("no listener is called x; there are a, z"), "{unknown:?}");
    for query in ["?backend=b", "?listener=a&listener=z"] {
        assert_eq!(refused(&admin.get(&format!("/readyz{query}")), 400), "it takes a listener, or nothing");
    }
    // What is gone from the configuration is not waited for.
    program.change(program.text().split("[[backend]]").next().unwrap(), &text("new"));
    assert_eq!(ready(""), is(200, "ready\n"));
}

#[test]
fn a_server_that_nobody_checks_is_unchecked_with_the_last_failure_to_reach_it() {
    let dead = free_port();
    let server = Server::on_unix_socket();
    let of = |servers: &[&str]| listener("a", free_port(), "b", "") + &backend("b", servers, "balance = \"first\"");
    let dead_entry = format!("\"127.0.0.1:{dead}\"");
    let program = Changing::start("a", &of(&[&dead_entry, &entry(&server)]));
    let admin = program.ringwall.admin_at(&program.text());
    let status = || admin.get("/status").body;
    assert_eq!(status().matches("\"state\":\"unchecked\",\"why\":\"unchecked\"").count(), 2, "{}", status());
    assert_eq!(status().matches("\"failure\":null").count(), 2);
    let port = program.text().split("127.0.0.1:").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
    assert_serves(port);
    let told = status();
    let refused = "\"state\":\"unchecked\",\"why\":\"unchecked: Connection refused (os error 111)\"";
    assert!(told.contains(refused) && told.contains("\"problem\":\"Connection refused (os error 111)\""), "{told}");
    assert_eq!(told.matches("\"failure\":null").count(), 1);
    // Once it can be reached, there is no failure.
    let revived = TcpListener::bind(("127.0.0.1", dead)).unwrap();
    let _client = connect(port);
    revived.accept().unwrap();
    while status().contains("Connection refused") {}
    assert_eq!(status().matches("\"state\":\"unchecked\"").count(), 2);
    // A check knows better.
    drop(revived);
    let check = "balance = \"first\"\nhealth_check = { type = \"ping\", interval = \"100ms\", fall = 1 }";
    program.change("balance = \"first\"", check);
    while status().contains("\"unchecked\"") {}
    assert!(status().contains("\"state\":\"up\"") && status().contains("\"state\":\"down\""), "{}", status());
}
