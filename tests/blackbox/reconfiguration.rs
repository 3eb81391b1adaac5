//! Reloads of the whole configuration: listeners and backends come, go and change, and who is connected stays.

use std::fs;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::changing::{Changing, assert_refuses, assert_serves, backend, connect, entry, listener};
use crate::client::{Client, End};
use crate::server::{Server, free_port};

/// The name that a server has been given.
fn name_of(client: &mut Client) -> String {
    client.text(&["GET", "name"])
}

/// A server that knows its name.
fn named(name: &str) -> Server {
    let server = Server::on_unix_socket();
    server.client().call(&["SET", "name", name]);
    server
}

#[test]
fn a_listener_that_is_added_serves_and_one_that_is_removed_drains_its_sessions_and_refuses_clients() {
    let server = Server::on_unix_socket();
    let [first, second] = [free_port(), free_port()];
    let backend = backend("b", &[&entry(&server)], "");
    let program = Changing::start("first", &(listener("first", first, "b", "") + &backend));
    let mut idle = connect(first);
    assert_eq!(idle.call(&["PING"]), b"+PONG\r\n");
    let mut blocked = connect(first);
    blocked.send_request(&["BLPOP", "queue", "0"]);
    let mut direct = server.client();
    while !direct.text(&["INFO", "clients"]).contains("blocked_clients:1") {}

    let both = listener("first", first, "b", "") + &listener("second", second, "b", "");
    assert_eq!(program.change(&listener("first", first, "b", ""), &both), "listeners added: second");
    assert_serves(second);
    assert_serves(first);
    assert_eq!(idle.call(&["PING"]), b"+PONG\r\n");

    assert_eq!(program.change(&listener("first", first, "b", ""), ""), "listeners removed: first");
    assert_refuses(first);
    assert_serves(second);
    // Who is owed nothing goes, who is owed something gets it first.
    assert_eq!(idle.end(), End::Orderly);
    direct.call(&["RPUSH", "queue", "work"]);
    assert_eq!(blocked.reply(), b"*2\r\n$5\r\nqueue\r\n$4\r\nwork\r\n");
    assert_eq!(blocked.end(), End::Orderly);
    let line = program.ringwall.nth_session_ended(2, "listener_drained");
    assert!(line.contains("\"listener\":\"first\"") && line.contains("\"backend\":\"b\""), "{line}");
    let metrics = program.ringwall.admin_at(&program.text()).metrics();
    assert_eq!(metrics.value("ringwall_connections_total{listener=\"second\"}"), 2.0);
    assert!(!metrics.samples.contains_key("ringwall_connections_total{listener=\"first\"}"));
    // One of the same name begins anew.
    let back = listener("second", second, "b", "") + &listener("first", first, "b", "");
    program.change(&listener("second", second, "b", ""), &back);
    assert_serves(first);
    let metrics = program.ringwall.admin_at(&program.text()).metrics();
    assert_eq!(metrics.value("ringwall_connections_total{listener=\"first\"}"), 1.0);
    assert_eq!(metrics.value("ringwall_connections_total{listener=\"second\"}"), 2.0);
}

#[test]
fn a_listener_moves_to_another_address_and_keeps_its_sessions_and_two_exchange_theirs() {
    let (one, other) = (named("one"), named("other"));
    let [here, there] = [free_port(), free_port()];
    let backends = backend("one", &[&entry(&one)], "") + &backend("other", &[&entry(&other)], "");
    let program = Changing::start("a", &(listener("a", here, "one", "") + &backends));
    let mut client = connect(here);
    assert_eq!(name_of(&mut client), "one");
    assert_eq!(program.change(&format!("127.0.0.1:{here}"), &format!("127.0.0.1:{there}")), "listeners changed: a");
    assert_refuses(here);
    assert_eq!(name_of(&mut connect(there)), "one");
    assert_eq!(name_of(&mut client), "one");

    program.change("[[backend]]\nname = \"one\"", &(listener("b", here, "other", "") + "[[backend]]\nname = \"one\""));
    let text = program.text();
    let swapped = text.replace(&here.to_string(), "HERE").replace(&there.to_string(), &here.to_string());
    let swapped = swapped.replace("HERE", &there.to_string());
    assert_eq!(program.change_to(&swapped), "listeners changed: a, b");
    assert_eq!((name_of(&mut connect(here)), name_of(&mut connect(there))), ("one".to_owned(), "other".to_owned()));
    assert_eq!(name_of(&mut client), "one");
    // A new name on the same address is another listener, on the same socket.
    assert_eq!(program.change("name = \"a\"", "name = \"c\""), "listeners added: c; listeners removed: a");
    assert_eq!(client.end(), End::Orderly);
    assert_eq!(name_of(&mut connect(here)), "one");
}

#[test]
fn an_address_that_is_taken_changes_nothing_and_is_told() {
    let server = Server::on_unix_socket();
    let (port, other) = (free_port(), TcpListener::bind("127.0.0.1:0").unwrap());
    let taken = other.local_addr().unwrap().port();
    let text = listener("a", port, "b", "") + &backend("b", &[&entry(&server)], "");
    let program = Changing::start("a", &text);
    let mut client = connect(port);
    client.call(&["PING"]);
    let before = program.ringwall.process.open_files();
    let added = listener("a", port, "gone", "max_connections = 1") + &listener("new", taken, "gone", "");
    let wanted = added + &backend("gone", &["\"127.0.0.1:1\""], "");
    (0..9).for_each(|_| drop(program.refused(&text, &wanted)));
    let why = program.refused(&text, &wanted);
    assert!(why.starts_with(&format!("listener \\\"new\\\": cannot listen on 127.0.0.1:{taken}: ")), "{why}");
    assert_serves(port);
    assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    let metrics = program.ringwall.admin_at(&program.text()).metrics();
    assert_eq!(metrics.value("ringwall_reload_success"), 0.0);
    assert_eq!(metrics.value("ringwall_reloads_total{result=\"failed\"}"), 10.0);
    program.ringwall.nth_session_ended(1, "client_closed");
    // One that is asked for metrics may not be closed yet.
    assert!(program.ringwall.process.open_files() <= before + 2);
    assert_eq!(program.change("[log]", "# good\n[log]"), "none");
    let metrics = program.ringwall.admin_at(&program.text()).metrics();
    assert_eq!(metrics.value("ringwall_reload_success"), 1.0);
}

#[test]
fn what_takes_a_restart_is_refused_by_name_and_nothing_changes() {
    let server = Server::on_unix_socket();
    let port = free_port();
    let text = listener("a", port, "b", "") + &backend("b", &[&entry(&server)], "");
    let program = Changing::start("a", &(text + "[limits]\nmax_connections = 50\n[runtime]\nshards = 2\n"));
    let remedy = "; send SIGUSR2, by which a new process takes over without closing a listener, or restart";
    for (before, after, named) in [
        ("shards = 2", "shards = 1", "runtime.shards cannot change without a restart: it is 2, and the file says 1"),
        (
            "max_connections = 50",
            "max_connections = 51",
            "limits.max_connections cannot grow beyond 50 without a restart, since tables are made for as many at the start, \
             and the file says 51",
        ),
        (
            "format = \"json\"",
            "format = \"json\"\nkey_log = \"/k\"",
            "log.key_log cannot change without a restart: it is not given, and the file says /k",
        ),
    ] {
        // What could change does not either.
        let text = program.text().replace("name = \"b\"", "name = \"c\"").replace("backend = \"b\"", "backend = \"c\"");
        let why = program.refused(&program.text(), &text.replace(before, after));
        assert!(why.ends_with(&format!("ringwall.toml: {named}{remedy}")), "{why}");
    }
    let why = program.refused("shards = 2", "shards = 2\ndispatcher_core = 0");
    assert!(
        why.contains("runtime.dispatcher_core cannot change without a restart: it is not given, and the file says 0")
    );
    let admin = program.ringwall.admin_at(&program.text());
    assert!(admin.get("/status").body.contains("\"backend\":\"b\""));
    let answer = admin.post("/reload");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_serves(port);
}

#[test]
fn servers_follow_the_file_and_those_that_are_described_otherwise_go_on() {
    let (one, two, three) = (named("one"), named("two"), named("three"));
    let port = free_port();
    let text = |servers: &[&str], keys: &str| listener("a", port, "b", "") + &backend("b", servers, keys);
    let [first, second, third] = [&one, &two, &three].map(entry);
    // Of one shard it is known whose turn it is.
    let program = Changing::start("a", &(text(&[&first, &second], "") + "[runtime]\nshards = 1\n"));
    let mut clients = [connect(port), connect(port)];
    let mut names = clients.each_mut().map(name_of);
    names.sort();
    assert_eq!(names, ["one", "two"]);
    let heavy = format!("{{ address = {first}, weight = 7, max_connections = 2 }}");
    let changed =
        program.change(&text(&[&first, &second], ""), &text(&[&heavy, &third], "balance = \"first\"\nmax_queue = 0"));
    assert_eq!(changed, "backends changed: b");
    // The one that it has counts on.
    let mut more = [connect(port), connect(port), connect(port)];
    assert_eq!(more.each_mut().map(name_of), ["one", "three", "three"]);
    clients.iter_mut().for_each(|client| assert_eq!(client.call(&["PING"]), b"+PONG\r\n"));
    assert!(
        program
            .change(&text(&[&heavy, &third], "balance = \"first\"\nmax_queue = 0"), &text(&[&third], ""))
            .contains("b")
    );
    assert_eq!([connect(port), connect(port)].each_mut().map(name_of), ["three", "three"]);
    clients.iter_mut().chain(&mut more).for_each(|client| assert_eq!(client.call(&["PING"]), b"+PONG\r\n"));
}

#[test]
fn a_backend_that_is_removed_drains_its_sessions_and_a_listener_goes_over_to_another() {
    let (one, two) = (named("one"), named("two"));
    let port = free_port();
    let (first, second) = (backend("one", &[&entry(&one)], ""), backend("two", &[&entry(&two)], ""));
    let program = Changing::start("a", &(listener("a", port, "one", "") + &first));
    let mut client = connect(port);
    assert_eq!(name_of(&mut client), "one");
    let both = first.clone() + &second;
    program.change(&first, &both);
    assert_eq!(program.change("backend = \"one\"", "backend = \"two\""), "listeners changed: a");
    assert_eq!(name_of(&mut connect(port)), "two");
    // Its backend is there still.
    assert_eq!(name_of(&mut client), "one");
    assert_eq!(program.change(&first, ""), "backends removed: one");
    assert_eq!(client.end(), End::Orderly);
    let line = program.ringwall.session_ended("server_drained");
    assert!(line.contains("\"backend\":\"one\""), "{line}");
    assert_eq!(name_of(&mut connect(port)), "two");
    // Others of the same number, and the same name again.
    program.change(&second, &(second.clone() + &first));
    program.change("backend = \"two\"", "backend = \"one\"");
    assert_eq!(name_of(&mut connect(port)), "one");
}

#[test]
fn limits_networks_and_time_limits_hold_for_those_that_come_next() {
    let server = Server::on_unix_socket();
    let port = free_port();
    let text = |keys: &str| listener("a", port, "b", keys);
    let program = Changing::start("a", &(text("") + &backend("b", &[&entry(&server)], "") + "[limits]\n"));
    let mut first = connect(port);
    first.call(&["PING"]);
    program.change(&text(""), &text("max_connections = 2"));
    let mut second = connect(port);
    second.call(&["PING"]);
    assert_eq!(connect(port).reply(), b"-ERR max number of clients reached\r\n");
    program.change(&text("max_connections = 2"), &text("deny = [\"127.0.0.1/32\"]"));
    assert_ne!(connect(port).end(), End::TlsError);
    program.ringwall.process.line(|line| line.contains("clients denied"));
    program.change(&text("deny = [\"127.0.0.1/32\"]"), &text("max_connections_per_source = 1"));
    let mut third = connect(port);
    assert_eq!(third.call(&["PING"]), b"+PONG\r\n");
    assert!(connect(port).reply().starts_with(b"-ERR "));
    assert_eq!(program.change("[limits]\n", "[limits]\nmax_connections = 4\n"), "changed: limits");
    program.change(&text("max_connections_per_source = 1"), &text("idle_timeout = \"1s\""));
    let mut idle = connect(port);
    idle.call(&["PING"]);
    assert_eq!(connect(port).reply(), b"-ERR max number of clients reached\r\n");
    assert_eq!(idle.end(), End::Orderly);
    program.ringwall.session_ended("idle_timeout");
    [first, second, third].iter_mut().for_each(|client| assert_eq!(client.call(&["PING"]), b"+PONG\r\n"));
}

#[test]
fn health_checks_begin_change_and_end_with_the_file() {
    let server = named("one");
    let [port, dead] = [free_port(), free_port()];
    let dead = format!("\"127.0.0.1:{dead}\"");
    let text = |keys: &str| backend("b", &[&entry(&server), &dead], keys);
    let program = Changing::start("a", &(listener("a", port, "b", "") + &text("")));
    let admin = program.ringwall.admin_at(&program.text());
    let up = |address: &str, role: &str| {
        format!("ringwall_backend_up{{backend=\"b\",server=\"{address}\",role=\"{role}\"}}")
    };
    let (good, bad) = (server.address(), dead.trim_matches('"').to_owned());
    assert_eq!(admin.metrics().value(&up(&bad, "unknown")), 1.0);
    let ping = "health_check = { type = \"ping\", interval = \"100ms\" }";
    assert_eq!(program.change(&text(""), &text(ping)), "backends changed: b");
    crate::admin::Metrics::until(&admin, |metrics| metrics.value(&up(&bad, "unknown")) == 0.0);
    let role = "health_check = { type = \"role\", interval = \"100ms\" }";
    program.change(&text(ping), &text(role));
    let metrics = crate::admin::Metrics::until(&admin, |metrics| metrics.samples.contains_key(&up(&good, "primary")));
    assert_eq!((metrics.value(&up(&good, "primary")), metrics.value(&up(&bad, "unknown"))), (1.0, 0.0));
    let checks = format!("ringwall_health_checks_total{{backend=\"b\",server=\"{good}\",result=\"answered\"}}");
    let before = admin.metrics().value(&checks);
    // What has nothing to do with them leaves them alone.
    program.change("[log]", "# nothing\n[log]");
    assert!(admin.metrics().value(&checks) >= before);
    program.change(&text(role), &text(""));
    let metrics = crate::admin::Metrics::until(&admin, |metrics| metrics.value(&up(&bad, "unknown")) == 1.0);
    assert!(!metrics.samples.contains_key(&checks));
}

#[test]
fn the_log_and_the_rights_of_administrators_follow() {
    let server = Server::on_unix_socket();
    let port = free_port();
    let program = Changing::start("a", &(listener("a", port, "b", "") + &backend("b", &[&entry(&server)], "")));
    assert_eq!(program.change("[log]\n", "[log]\nlevel = \"debug\"\n"), "changed: log");
    assert_serves(port);
    program.ringwall.process.line(|line| line.contains("session's server connected"));
    let admin = program.ringwall.admin_at(&program.text());
    assert!(admin.get("/status").body.contains("\"log_level\":\"ringwall=debug\""));
    // What an operator says holds until the file says something else.
    admin.post("/log-level?level=info");
    program.change("[log]\n", "[log]\nsample = 1000\n");
    assert!(admin.get("/status").body.contains("\"log_level\":\"ringwall=info\""));
    assert_eq!(program.change("allow_changes = true", "allow_changes = false"), "changed: admin");
    assert_eq!(admin.post("/reload").status, 403);
    assert!(admin.get("/status").body.contains("\"changes_allowed\":false"));
    program.change("allow_changes = false", "allow_changes = true");
    assert_eq!(admin.post("/reload").status, 200);
    // That one has been told of, too.
    program.done.set(program.done.get() + 1);
    // Under "warn" nothing is told of a reload; one that ends that is.
    let quiet = program.text().replace("level = \"debug\"", "level = \"warn\"");
    fs::write(program.ringwall.folder().join("ringwall.toml"), quiet).unwrap();
    assert_eq!(admin.post("/reload").status, 200);
    let added = program.text().replace("level = \"warn\"", "level = \"info\"") + &listener("z", free_port(), "b", "");
    assert_eq!(program.change_to(&added), "listeners added: z; changed: log");
}

#[test]
fn an_administrator_who_reloads_is_told_what_has_changed_and_what_is_refused() {
    let server = Server::on_unix_socket();
    let text = listener("a", free_port(), "b", "") + &backend("b", &[&entry(&server)], "");
    let program = Changing::start("a", &(text.clone() + "[runtime]\nshards = 1\n[limits]\nmax_connections = 9\n"));
    let (admin, file) = (program.ringwall.admin_at(&program.text()), program.ringwall.folder().join("ringwall.toml"));
    let before = program.text();
    let changed = before.replace("name = \"a\"", "name = \"z\"").replace("max_connections = 9", "max_connections = 8");
    fs::write(&file, changed).unwrap();
    let answer = admin.post("/reload");
    assert_eq!(
        (answer.status, &*answer.body),
        (
            200,
            "{\"done\":\"reloaded\",\"changes\":{\"listeners\":{\"added\":[\"z\"],\"removed\":[\"a\"],\"changed\":[]},\
             \"backends\":{\"added\":[],\"removed\":[],\"changed\":[]},\"sections\":[\"limits\"]}}\n"
        )
    );
    fs::write(&file, before.replace("shards = 1", "shards = 2").replace("= 9", "= 10")).unwrap();
    let answer = admin.post("/reload");
    assert_eq!(answer.status, 409);
    assert!(answer.body.ends_with(",\"refused\":[\"runtime.shards\",\"limits.max_connections\"]}\n"), "{answer:?}");
    let line = program.ringwall.process.line(|line| line.contains("reload failed"));
    assert!(line.contains("\"refused\":\"runtime.shards, limits.max_connections\""), "{line}");
    fs::write(&file, "[[listener]]\n").unwrap();
    let answer = admin.post("/reload");
    assert!(answer.status == 409 && !answer.body.contains("refused\":"), "{answer:?}");
}

#[test]
fn a_warning_is_told_once() {
    let server = Server::on_unix_socket();
    let spare = |name: &str| backend(name, &["\"127.0.0.1:1\""], "");
    let text = listener("a", free_port(), "b", "") + &backend("b", &[&entry(&server)], "") + &spare("x");
    let program = Changing::start("a", &text);
    let told = |name: &str| {
        let about = format!("\\\"{name}\\\" is used by no listener");
        program.ringwall.process.lines().iter().filter(|line| line.contains(&about)).count()
    };
    program.change("[log]", "# nothing\n[log]");
    program.change("[log]", &(spare("y") + "[log]"));
    program.change("[log]", "# nothing\n[log]");
    assert_eq!((told("x"), told("y")), (1, 1));
}

#[test]
fn a_closed_listener_stays_closed_through_reloads_and_is_enabled_again() {
    let server = Server::on_unix_socket();
    let port = free_port();
    let text = listener("a", port, "b", "");
    let program = Changing::start("a", &(text.clone() + &backend("b", &[&entry(&server)], "")));
    let admin = program.ringwall.admin_at(&program.text());
    assert_eq!(admin.post("/drain?listener=a").status, 200);
    assert_refuses(port);
    program.change(&text, &listener("a", port, "b", "listen_backlog = 7"));
    assert_refuses(port);
    assert!(admin.get("/status").body.contains("\"state\":\"drained\""));
    assert_eq!(admin.post("/enable?listener=a").status, 200);
    assert_serves(port);
    // Under another name it is another listener, which nobody has closed.
    assert_eq!(admin.post("/drain?listener=a").status, 200);
    assert_refuses(port);
    program.change("name = \"a\"", "name = \"c\"");
    assert_serves(port);
    assert!(admin.get("/status").body.contains("\"state\":\"open\""));
}

#[test]
fn a_listener_that_a_reload_has_added_is_handed_over_to_the_next_process() {
    let server = Server::on_unix_socket();
    let [first, second] = [free_port(), free_port()];
    let text = listener("a", first, "b", "");
    let program = Changing::start("a", &(text.clone() + &backend("b", &[&entry(&server)], "")));
    program.change(&text, &listener("new", second, "b", ""));
    program.ringwall.process.signal(Signal::USR2);
    let line = program.ringwall.process.nth_line(2, |line| line.contains("\"started\""));
    assert!(line.contains(&format!("new on 127.0.0.1:{second} to b")), "{line}");
    program.ringwall.process.line(|line| line.contains("\"ended\""));
    let line = program.ringwall.process.line(|line| line.contains("taken over: the next version serves"));
    let pid = line.split("\"pid\":").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
    assert_serves(second);
    assert_refuses(first);
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// Pings without a pause until told to end; how often.
fn ping_all_the_while(mut client: Client, ended: &AtomicBool) -> usize {
    let mut pings = 0;
    while !ended.load(Ordering::Relaxed) {
        assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
        pings += 1;
    }
    pings
}

/// One configuration of many: the listener `public` and the backend `main` are always there, and everything about them,
/// the servers but for one, and what else there is changes from one round to the next.
fn nth(round: usize, ports: [u16; 3], servers: [&str; 2], admin: &str) -> String {
    let weight = 1 + round % 7;
    let first = format!("{{ address = {}, weight = {weight} }}", servers[0]);
    let list: &[&str] = if round.is_multiple_of(2) { &[&first] } else { &[&first, servers[1]] };
    let keys = [
        "balance = \"leastconn\"\nhealth_check = { type = \"ping\", interval = \"1s\" }",
        "max_queue = 9",
        "client_name = \"rw:{client_addr}\"",
    ][round % 3];
    let own = ["idle_timeout = \"1h\"", "coalesce = \"off\"", "max_connections_per_source = 90", "listen_backlog = 99"]
        [round % 4];
    let mut text = listener("public", ports[0], "main", own) + &backend("main", list, keys);
    if round % 5 < 3 {
        text += &listener("more", ports[1 + round % 2], if round.is_multiple_of(2) { "side" } else { "main" }, "");
    }
    if round % 5 < 3 && round.is_multiple_of(2) {
        text += &backend("side", &[servers[1]], "");
    }
    format!("{text}[limits]\nmax_connections = {}\nshard_memory = \"{}MiB\"\n{admin}", 100 - round % 3, 64 + round % 4)
}

#[test]
fn five_hundred_reloads_of_everything_under_load_disturb_nobody_and_leave_nothing_behind() {
    const WARM_UP_ROUNDS: usize = 100;
    const ROUNDS: usize = 500;
    let (one, two) = (Server::on_unix_socket(), Server::on_unix_socket());
    let ports = [free_port(), free_port(), free_port()];
    let (first, second) = (entry(&one), entry(&two));
    let config = |round, admin: &str| nth(round, ports, [&first, &second], admin);
    let program = Changing::start("public", &config(0, ""));
    let admin = program.text();
    let admin = admin[admin.find("[log]").unwrap()..].replace("[log]\n", "[log]\nsessions = false\n");
    let ended = AtomicBool::new(false);
    let measure = || (program.ringwall.process.memory_kib("VmRSS"), program.ringwall.process.open_files());
    let clients = [0; 4].map(|_| connect(ports[0]));
    thread::scope(|scope| {
        let pingers = clients.map(|client| scope.spawn(|| ping_all_the_while(client, &ended)));
        // New clients all the while.
        let visitor = scope.spawn(|| {
            let mut visits = 0;
            while !ended.load(Ordering::Relaxed) {
                assert_serves(ports[0]);
                visits += 1;
            }
            visits
        });
        let mut after_warm_up = (0, 0);
        for round in 1..=ROUNDS {
            program.change_to(&config(round, &admin));
            if round == WARM_UP_ROUNDS {
                after_warm_up = measure();
            }
            // Somebody is on what comes and goes, and leaves with it at the latest.
            if round % 5 < 3 {
                assert_serves(ports[1 + round % 2]);
            }
        }
        let at_end = measure();
        ended.store(true, Ordering::Relaxed);
        let pings: usize = pingers.into_iter().map(|pinger| pinger.join().unwrap()).sum();
        assert!(pings > 1_000 && visitor.join().unwrap() > 100);
        // KiB. What a shard is told of in one reload has some 3 of them, on each of two shards, and so has what others hold.
        assert!(at_end.0 < after_warm_up.0 + 4_000, "{after_warm_up:?} {at_end:?}");
        // The visitors come and go, each with two descriptors, and so does a health check.
        assert!(at_end.1.abs_diff(after_warm_up.1) <= 6, "{after_warm_up:?} {at_end:?}");
    });
    let metrics = program.ringwall.admin_at(&admin).metrics();
    assert_eq!(metrics.value("ringwall_reloads_total{result=\"done\"}"), 500.0);
    assert_eq!(metrics.value("ringwall_reloads_total{result=\"failed\"}"), 0.0);
    let unwanted = |line: &&String| line.contains("\"ERROR\"") || line.contains("dropped");
    assert_eq!(program.ringwall.process.lines().iter().find(unwanted), None);
}

#[test]
fn clients_that_share_connections_stay_through_reloads_and_their_backend_s_end() {
    let (one, two) = (named("one"), named("two"));
    let port = free_port();
    let (first, second) = (backend("one", &[&entry(&one)], ""), backend("two", &[&entry(&two)], ""));
    let shared = |backend: &str, keys: &str| listener("a", port, backend, &format!("mode = \"multiplex\"\n{keys}"));
    let program = Changing::start("a", &(shared("one", "") + &first));
    let mut client = connect(port);
    assert_eq!(name_of(&mut client), "one");
    program.change(&shared("one", ""), &shared("one", "idle_timeout = \"1h\""));
    assert_eq!((name_of(&mut client), name_of(&mut connect(port))), ("one".to_owned(), "one".to_owned()));
    program.change("idle_timeout = \"1h\"", "client_requests_max = 1");
    let mut newcomer = connect(port);
    newcomer.send(&b"PING\r\n".repeat(50));
    assert_eq!((0..50).filter(|_| newcomer.reply() == b"+PONG\r\n").count(), 50);
    let metrics = program.ringwall.admin_at(&program.text()).metrics();
    assert!(metrics.sum("ringwall_multiplex_batch_requests_count") >= 50.0);
    drop(newcomer);
    program.change(&(shared("one", "client_requests_max = 1") + &first), &(shared("two", "") + &second));
    assert_eq!(client.end(), End::Orderly);
    assert_eq!(name_of(&mut connect(port)), "two");
    program.change(&(shared("two", "") + &second), &(shared("one", "") + &first));
    assert_eq!(name_of(&mut connect(port)), "one");
}
