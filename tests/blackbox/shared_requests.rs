//! What is seen of requests over shared connections: how long they take, which were slow, who is where and why.

use std::collections::BTreeMap;
use std::fs;

use rustix::process::Signal;

use crate::admin::{Admin, Metrics};
use crate::client::Client;
use crate::process::{PATIENCE, now};
use crate::ringwall::{Ringwall, Setup, ringwall};
use crate::server::{Server, free_port};

/// A multiplexed listener with these keys in front of `server`, on one shard.
fn before(server: &Server, keys: &str) -> Setup {
    let setup = Setup::before(server.address()).listener(&format!("mode = \"multiplex\"\n{keys}"));
    setup.sections("[runtime]\nshards = 1\n").admin("allow_changes = true\n")
}

/// Answered requests by family.
fn families(metrics: &Metrics) -> BTreeMap<String, f64> {
    let counted = metrics.nonzero("ringwall_multiplex_request_duration_seconds_count").into_iter();
    let family =
        |labels: &str| labels.strip_prefix("listener=\"public\",family=\"")?.strip_suffix('"').map(str::to_owned);
    counted.map(|(labels, count)| (family(labels).unwrap_or_else(|| panic!("{labels}")), count)).collect()
}

/// Waits until `/sessions` says that nothing has moved for 20 ms.
fn wait_until_quiet(admin: &Admin) {
    let deadline = now() + PATIENCE;
    let quiet = || {
        let sessions = admin.get("/sessions").body;
        let idle = sessions.split("\"idle_seconds\":").skip(1);
        idle.filter_map(|rest| rest.split(',').next()?.parse::<f64>().ok()).all(|seconds| seconds >= 0.02)
    };
    while !quiet() {
        assert!(now() < deadline, "it never becomes quiet");
    }
}

/// Has the server stand still for 20 ms or more while clients ask, one behind the other.
fn while_it_stands_still(server: &Server, ringwall: &Ringwall, clients: &mut [(&mut Client, &[&str])]) {
    server.process.signal(Signal::STOP);
    for (client, request) in &mut *clients {
        let before = requests(&ringwall.admin().metrics());
        client.send_request(request);
        Metrics::until(&ringwall.admin(), |metrics| requests(metrics) > before);
    }
    wait_until_quiet(&ringwall.admin());
    server.process.signal(Signal::CONT);
    for (client, _) in clients {
        client.reply();
    }
}

fn requests(metrics: &Metrics) -> f64 {
    metrics.sum("ringwall_multiplex_requests_total")
}

fn slow(ringwall: &Ringwall) -> Vec<String> {
    ringwall.process.lines().into_iter().filter(|line| line.contains("\"slow request\"")).collect()
}

#[test]
fn answered_requests_are_counted_by_the_family_of_their_command() {
    let server = Server::on_unix_socket();
    let ringwall = before(&server, "").start();
    let mut client = ringwall.client();
    for request in [
        "SETBIT bits 7 1",
        "DBSIZE",
        "INFO server",
        "CLUSTER KEYSLOT a",
        "PING",
        "ECHO hi",
        "SELECT 0",
        "EXISTS a",
        "EXPIRE a 9",
        "TTL a",
        "GEOADD places 13.4 52.5 berlin",
        "HSET hash f v",
        "HGET hash f",
        "HGETALL hash",
        "HDEL hash f",
        "PFADD about a",
        "RPUSH list x y",
        "LRANGE list 0 -1",
        "PUBLISH news hi",
        "EVAL return(1) 0",
        "SADD set a",
        "SCARD set",
        "ZADD scores 1 a",
        "ZRANGE scores 0 -1",
        "ZSCORE scores a",
        "XADD stream * a 1",
        "XREAD COUNT 1 STREAMS stream 0",
        "SET a 1",
        "GET a",
        "INCR a",
        "MGET a b",
        "APPEND a 0",
        "WATCH a",
        "MULTI",
        "GET a",
        "EXEC",
        // One that has something to give, and one that blocks until its time is over.
        "BLPOP list 0",
        "XREAD BLOCK 1 STREAMS stream $",
        // Errors take time as well.
        "GET a b c",
        // Nobody counts what is passed on unread.
        "CLIENT ID",
        "GET a",
    ] {
        client.call(&request.split(' ').collect::<Vec<_>>());
    }
    let metrics = ringwall.admin().metrics();
    let expected = [
        ("bitmap", 1.0),
        ("blocking", 2.0),
        ("cluster", 1.0),
        ("connection", 3.0),
        ("generic", 3.0),
        ("geo", 1.0),
        ("hash", 4.0),
        ("hyperloglog", 1.0),
        ("list", 2.0),
        ("pubsub", 1.0),
        ("scripting", 1.0),
        ("server", 2.0),
        ("set", 2.0),
        ("sorted_set", 3.0),
        ("stream", 2.0),
        ("string", 6.0),
        ("transactions", 4.0),
    ];
    assert_eq!(families(&metrics), expected.map(|(family, count)| (family.to_owned(), count)).into());
    assert_eq!(requests(&metrics), 39.0);
    let of = |part: &str| {
        metrics.value(&format!(
            "ringwall_multiplex_request_duration_seconds_{part}{{listener=\"public\",family=\"string\"}}"
        ))
    };
    assert!(of("sum") > 0.0 && of("sum") < 6.0, "{}", of("sum"));
    let most = "ringwall_multiplex_request_duration_seconds_bucket{listener=\"public\",family=\"string\",le=\"10.0\"}";
    assert_eq!(metrics.value(most), 6.0);
}

#[test]
fn a_slow_request_has_a_line_with_its_command_and_nothing_of_what_it_asks() {
    let server = Server::on_unix_socket();
    let ringwall = before(&server, "slow_log = \"10ms\"").start();
    let (mut client, mut other, mut watcher) = (ringwall.client(), ringwall.client(), ringwall.client());
    let script = "for i = 1, 20000000 do end return ARGV[1]";
    assert_eq!(client.call(&["eVaL", script, "0", "secret-word"]), b"$11\r\nsecret-word\r\n");
    let line = ringwall.process.line(|line| line.contains("\"slow request\""));
    for part in [
        "\"level\":\"WARN\"",
        "\"target\":\"ringwall::session\"",
        &format!("\"client\":\"{}\"", client.socket().local_addr().unwrap()),
        "\"listener\":\"public\"",
        "\"session\":\"0-",
        "\"command\":\"eval\"",
        "\"duration_ms\":",
        "\"connection\":\"shared\"",
        "\"in_front\":0",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert_eq!(watcher.call(&["WATCH", "a"]), b"+OK\r\n");
    let asked: &mut [(&mut Client, &[&str])] = &mut [
        (&mut client, &["GET", "secret-key"]),
        (&mut other, &["object", "encoding", "secret-key"]),
        (&mut watcher, &["SET", "secret-key", "secret-value"]),
    ];
    while_it_stands_still(&server, &ringwall, asked);
    for (command, connection, in_front) in [("get", "shared", 0), ("object|encoding", "shared", 1), ("set", "own", 0)] {
        let fields = format!("\"connection\":\"{connection}\",\"in_front\":{in_front}");
        let line = ringwall.process.line(|line| line.contains(&format!("\"command\":\"{command}\"")));
        assert!(line.contains(&fields), "{fields} is not in {line}");
    }
    // What waits for others is not slow.
    let mut blocked = ringwall.client();
    blocked.send_request(&["BLPOP", "list", "0"]);
    while_it_stands_still(&server, &ringwall, &mut [(&mut client, &["PING"])]);
    assert_eq!(client.call(&["RPUSH", "list", "x"]), b":1\r\n");
    assert_eq!(blocked.reply(), b"*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
    drop((client, other, watcher, blocked));
    ringwall.wait_for_ended_sessions(4);
    let lines = ringwall.process.lines();
    assert!(!lines.iter().any(|line| line.contains("secret")), "{lines:#?}");
    assert_eq!(slow(&ringwall).iter().filter(|line| line.contains("blpop")).count(), 0);
}

#[test]
fn slow_requests_beyond_the_rate_are_counted_and_a_reload_changes_what_is_slow_for_those_who_are_there() {
    let server = Server::on_unix_socket();
    let setup = before(&server, "slow_log = \"10ms\"").on_port(free_port());
    let config = setup.certificates.folder().join("ringwall.toml");
    let of = setup.start();
    let mut clients: Vec<Client> = (0..6).map(|_| of.client()).collect();
    // From here on there is the connection that they share.
    clients.iter_mut().for_each(|client| assert_eq!(client.call(&["GET", "a"]), b"$-1\r\n"));
    let change = |before: &str, after: &str, reloads: usize| {
        let text = fs::read_to_string(&config).unwrap();
        assert!(text.contains(before), "{text}");
        fs::write(&config, text.replace(before, after)).unwrap();
        of.process.signal(Signal::HUP);
        of.process.nth_line(reloads, |line| line.contains("\"reloaded\""));
    };
    change("failures_per_second = 100000", "failures_per_second = 2", 1);
    let mut all = |of: &Ringwall| {
        let mut asked: Vec<_> = clients.iter_mut().map(|client| (client, ["GET", "a"])).collect();
        let mut asked: Vec<_> = asked.iter_mut().map(|(client, request)| (&mut **client, &request[..])).collect();
        while_it_stands_still(&server, of, &mut asked);
    };
    all(&of);
    let line = of.process.line(|line| line.contains("slow requests were left out"));
    assert!(line.contains("\"requests\":4"), "{line}");
    assert_eq!(slow(&of).len(), 2);
    change("slow_log = \"10ms\"", "slow_log = \"off\"", 2);
    all(&of);
    change("slow_log = \"off\"", "slow_log = \"11ms\"", 3);
    all(&of);
    of.process.nth_line(2, |line| line.contains("slow requests were left out"));
    assert_eq!(slow(&of).len(), 4);
    // It took no other connection for that.
    let list = server.client().text(&["CLIENT", "LIST"]);
    assert_eq!(list.lines().filter(|line| !line.contains("cmd=client")).count(), 1, "{list}");
}

#[test]
fn a_shard_tells_of_a_thousand_slow_requests_in_a_second_and_counts_the_others() {
    let server = Server::on_unix_socket();
    let listener = |name: &str| {
        format!(
            "[[listener]]\nname = \"{name}\"\nbind = \"127.0.0.1:{}\"\nplain = true\nbackend = \"server\"\n\
             mode = \"multiplex\"\nslow_log = \"10ms\"\n",
            free_port()
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock").display().to_string();
    let text = format!(
        "{}{}[[backend]]\nname = \"server\"\nservers = [{:?}]\n[runtime]\nshards = 1\n\
         [log]\nformat = \"json\"\nfailures_per_second = 100000\n[admin]\nlisten = \"unix:{socket}\"\n",
        listener("one"),
        listener("other"),
        server.address(),
    );
    let of = Setup::of_text(text.clone()).start_with("one");
    let plain = |name: &str| Client::plain(of.dial_to(name).socket().unwrap());
    // As many as may be under way at a time, by one client and over one connection.
    let mut clients: Vec<_> =
        ["one", "other"].into_iter().flat_map(|name| (0..8).map(move |_| name)).map(plain).collect();
    for client in &mut clients {
        assert_eq!(client.call(&["GET", "a"]), b"$-1\r\n");
    }
    server.process.signal(Signal::STOP);
    for client in &mut clients {
        client.send(&b"GET a\r\nTTL a\r\n".repeat(64));
    }
    let admin = of.admin_at(&text);
    Metrics::until(&admin, |metrics| requests(metrics) == 16.0 + 2_048.0);
    wait_until_quiet(&admin);
    server.process.signal(Signal::CONT);
    for client in &mut clients {
        for _ in 0..64 {
            assert_eq!((client.reply(), client.reply()), (b"$-1\r\n".to_vec(), b":-2\r\n".to_vec()));
        }
    }
    let line = of.process.line(|line| line.contains("slow requests were left out"));
    assert!(line.contains("\"requests\":1024"), "{line}");
    assert_eq!(slow(&of).len(), 1_024);
}

#[test]
fn it_is_told_which_connections_there_are_and_who_is_where_for_what() {
    let server = Server::on_unix_socket();
    let of = before(&server, "").start();
    let config = of.folder().join("ringwall.toml").display().to_string();
    let ctl = |command: &str| {
        let (success, output) = ringwall(&["ctl", "--config", &config, command]);
        assert!(success, "{output}");
        output
    };
    let cells = |table: &str, name: &str| {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {table}"));
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let status = cells(&ctl("status"), "public ");
    assert_eq!(status, ["public", &of.address.to_string(), "server", "multiplex", "open", "0", "0", "0"]);
    let (mut sharing, mut watching, mut subscribed) = (of.client(), of.client(), of.client());
    sharing.call(&["GET", "a"]);
    watching.call(&["WATCH", "a"]);
    watching.call(&["GET", "a"]);
    // On the connection that it has for the one, it stays for the other.
    subscribed.call(&["WATCH", "a"]);
    subscribed.call(&["SUBSCRIBE", "news"]);
    let status = cells(&ctl("status"), "public ");
    assert_eq!(status[3..], ["multiplex", "open", "3", "1", "2"]);
    let metrics = of.admin().metrics();
    let connections = |kind: &str| {
        metrics.value(&format!("ringwall_multiplex_connections{{listener=\"public\",shard=\"0\",kind=\"{kind}\"}}"))
    };
    assert_eq!((connections("shared"), connections("own")), (1.0, 2.0));
    let sessions = ctl("sessions");
    for (client, connection) in [(&sharing, "shared"), (&watching, "own, watch"), (&subscribed, "own, subscribe")] {
        let address = client.socket().local_addr().unwrap().to_string();
        let line = sessions.lines().find(|line| line.contains(&address)).unwrap();
        assert!(line.contains(&format!("  {connection}  ")), "{connection}:\n{sessions}");
    }
    let json = of.admin().get("/sessions").body;
    assert!(json.contains("\"connection\":\"own\",\"own_for\":\"watch\""), "{json}");
    assert!(json.contains("\"connection\":\"shared\",\"own_for\":null"), "{json}");
    watching.call(&["UNWATCH"]);
    watching.call(&["GET", "a"]);
    let address = watching.socket().local_addr().unwrap().to_string();
    let sessions = ctl("sessions");
    let line = sessions.lines().find(|line| line.contains(&address)).unwrap();
    assert!(line.contains("  shared  "), "{sessions}");
}

#[test]
fn a_transparent_listener_tells_nothing_of_sharing() {
    let server = Server::on_unix_socket();
    let of = Setup::before(server.address()).admin("").start();
    let mut client = of.client();
    client.call(&["GET", "a"]);
    let status = of.admin().get("/status").body;
    assert!(
        status.contains("\"mode\":\"transparent\",\"shared_connections\":null,\"own_connections\":null"),
        "{status}"
    );
    let sessions = of.admin().get("/sessions").body;
    assert!(sessions.contains("\"connection\":null,\"own_for\":null"), "{sessions}");
    let metrics = of.admin().metrics();
    assert!(!metrics.samples.keys().any(|name| name.starts_with("ringwall_multiplex_")), "{metrics:?}");
}
