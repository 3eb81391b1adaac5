//! What the metrics say is what was done.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::admin::{Metrics, answer};
use crate::client::End;
use crate::process::run;
use crate::ringwall::{Ringwall, Setup, ringwall};
use crate::server::{Server, free_port};

/// The number in this field of a line of the log.
fn field(line: &str, name: &str) -> f64 {
    let rest = line.split(&format!("\"{name}\":")).nth(1).unwrap_or_else(|| panic!("no {name} in {line}"));
    rest.split([',', '}']).next().unwrap().parse().unwrap()
}

/// Connects with `openssl s_client`, whatever comes of it.
fn openssl(ringwall: &Ringwall, arguments: &[&str]) {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &ringwall.address.to_string(), "-quiet"]).args(arguments);
    run(command, b"");
}

/// The failed handshakes that are counted, by reason.
fn failures(metrics: &Metrics) -> Vec<(&str, f64)> {
    metrics.nonzero("ringwall_handshake_failures_total").into_iter().collect()
}

#[test]
fn connections_handshakes_and_bytes_are_counted_exactly() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin("").start();
    let dial = ringwall.dial();
    let mut open = dial.connect().unwrap();
    open.call(&["SET", "key", "value"]);
    let metrics = ringwall.admin().metrics();
    assert_eq!(metrics.value("ringwall_connections_total{listener=\"public\"}"), 1.0);
    assert_eq!(metrics.sum("ringwall_connections_active"), 1.0);
    // Before the session ends: what was relayed is counted as it moves.
    assert_eq!(metrics.value("ringwall_received_bytes_total{side=\"backend\"}"), 5.0);
    let sent = metrics.value("ringwall_sent_bytes_total{side=\"backend\"}");
    assert_eq!(sent, "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n".len() as f64);
    for _ in 0..4 {
        let mut client = dial.connect().unwrap();
        client.call(&["GET", "key"]);
        client.end_writing();
        assert_eq!(client.end(), End::Orderly);
    }
    open.end_writing();
    assert_eq!(open.end(), End::Orderly);
    ringwall.wait_for_ended_sessions(5);

    let metrics = ringwall.admin().metrics();
    assert_eq!(metrics.value("ringwall_connections_total{listener=\"public\"}"), 5.0);
    assert_eq!(metrics.sum("ringwall_connections_active"), 0.0);
    let ended = metrics.nonzero("ringwall_connections_closed_total");
    assert_eq!(ended, BTreeMap::from([("reason=\"client_closed\"", 5.0)]));
    let kind = |resumed: &str| format!("version=\"TLSv1.3\",group=\"X25519MLKEM768\",resumed=\"{resumed}\"");
    let handshakes = metrics.nonzero("ringwall_handshakes_total");
    assert_eq!((handshakes[&*kind("false")], handshakes[&*kind("true")]), (1.0, 4.0), "{handshakes:?}");
    assert_eq!(metrics.value("ringwall_handshake_duration_seconds_count"), 5.0);
    assert_eq!(metrics.value("ringwall_backend_connect_duration_seconds_count"), 5.0);
    assert_eq!(failures(&metrics), []);
    let lines = ringwall.process.lines();
    let logged = |name: &str| {
        lines.iter().filter(|line| line.contains("session closed")).map(|line| field(line, name)).sum::<f64>()
    };
    for (metric, name) in [
        ("ringwall_received_bytes_total{side=\"client\"}", "client_rx_bytes"),
        ("ringwall_sent_bytes_total{side=\"client\"}", "client_tx_bytes"),
        ("ringwall_received_bytes_total{side=\"backend\"}", "server_rx_bytes"),
        ("ringwall_sent_bytes_total{side=\"backend\"}", "server_tx_bytes"),
    ] {
        assert_eq!(metrics.value(metric), logged(name), "{metric}");
    }
    assert_eq!(metrics.sum("ringwall_handshakes_in_flight"), 0.0);
    assert_eq!(metrics.sum("ringwall_pending_sessions"), 0.0);
    assert!(metrics.sum("ringwall_enters_total") >= 5.0);
}

#[test]
fn each_kind_of_bad_client_is_counted_under_its_reason() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).tls("strict_sni = true, min_version = \"1.3\"").admin("").start();
    let dial = ringwall.dial();
    let mut plaintext = dial.socket().unwrap();
    plaintext.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
    plaintext.read_to_end(&mut Vec::new()).unwrap();
    let mut garbage = dial.socket().unwrap();
    garbage.write_all(&[0xff; 64]).unwrap();
    drop(garbage.read_to_end(&mut Vec::new()));
    drop(dial.socket().unwrap());
    dial.socket().unwrap().write_all(&dial.client_hello()[..40]).unwrap();
    let name = ["-servername", "localhost"];
    for arguments in [
        &["-tls1_2"][..],
        &["-ciphersuites", "TLS_AES_128_CCM_SHA256"],
        &["-groups", "P-521"],
        // Trusts no certificate of the test's.
        &["-verify_return_error"],
    ] {
        openssl(&ringwall, &[arguments, &name].concat());
    }
    openssl(&ringwall, &["-servername", "other.example"]);
    openssl(&ringwall, &["-noservername"]);
    ringwall.wait_for_ended_sessions(10);
    let metrics = ringwall.admin().metrics();
    let expected = [
        ("reason=\"alert_unknown_ca\"", 1.0),
        ("reason=\"closed\"", 2.0),
        ("reason=\"malformed\"", 1.0),
        ("reason=\"no_server_name\"", 1.0),
        ("reason=\"no_shared_cipher\"", 1.0),
        ("reason=\"no_shared_group\"", 1.0),
        ("reason=\"no_shared_version\"", 1.0),
        ("reason=\"plaintext\"", 1.0),
        ("reason=\"unknown_server_name\"", 1.0),
    ];
    assert_eq!(failures(&metrics), expected);
    assert_eq!(metrics.sum("ringwall_connections_total"), 10.0);
    assert_eq!(metrics.sum("ringwall_connections_closed_total"), 10.0);
    assert_eq!(metrics.sum("ringwall_handshakes_total"), 0.0);
}

#[test]
fn clients_without_a_certificate_and_clients_without_a_word_are_counted_under_their_reasons() {
    let server = Server::on_unix_socket();
    let setup = Setup::before(server.address()).tls("client_auth = \"required\", client_ca = \"ca.crt\"");
    let ringwall = setup.sections("[limits]\nhandshake_timeout = \"200ms\"\n").admin("").start();
    let mut silent = ringwall.dial().socket().unwrap();
    silent.read_to_end(&mut Vec::new()).unwrap();
    // TLS 1.3 lets a client go on before its certificate is judged.
    openssl(&ringwall, &["-servername", "localhost"]);
    drop(silent);
    ringwall.wait_for_ended_sessions(2);
    let metrics = ringwall.admin().metrics();
    let expected = [("reason=\"client_certificate_missing\"", 1.0), ("reason=\"timeout\"", 1.0)];
    assert_eq!(failures(&metrics), expected);
}

#[test]
fn servers_that_cannot_be_reached_and_clients_at_a_limit_are_counted_under_their_reasons() {
    let setup = Setup::before(format!("127.0.0.1:{}", free_port())).and("unix:/nowhere/server.sock");
    let ringwall = setup.sections("[limits]\nmax_connections = 1\n").admin("").start();
    assert!(ringwall.client().reply().starts_with(b"-ERR ringwall cannot reach"));
    ringwall.wait_for_ended_sessions(1);
    let open = ringwall.dial().socket().unwrap();
    assert!(ringwall.client().reply().starts_with(b"-ERR max number of clients"));
    drop(open);
    ringwall.wait_for_ended_sessions(3);
    let metrics = ringwall.admin().metrics();
    let failed = metrics.nonzero("ringwall_backend_connect_failures_total");
    assert_eq!(failed, BTreeMap::from([("reason=\"refused\"", 1.0), ("reason=\"socket\"", 1.0)]));
    let rejected = metrics.nonzero("ringwall_connections_rejected_total");
    assert_eq!(rejected, BTreeMap::from([("reason=\"refused_at_limit\"", 1.0)]));
    let ended = metrics.nonzero("ringwall_connections_closed_total");
    assert_eq!(ended["reason=\"backend_unreachable\""], 1.0);
    assert_eq!(ended["reason=\"too_many_connections\""], 1.0);
}

#[test]
fn no_counter_goes_backwards_under_load() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin("").start();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let mut client = ringwall.client();
                    for _ in 0..50 {
                        client.call(&["PING"]);
                    }
                }
            });
        }
        let mut before = ringwall.admin().metrics();
        for _ in 0..50 {
            let metrics = ringwall.admin().metrics();
            for (sample, &value) in before.samples.iter().filter(|(sample, _)| before.is_counter(sample)) {
                assert!(metrics.value(sample) >= value, "{sample} was {value} and is {}", metrics.value(sample));
            }
            before = metrics;
        }
        stop.store(true, Ordering::Relaxed);
    });
    Metrics::until(&ringwall.admin(), |metrics| metrics.sum("ringwall_connections_active") == 0.0);
}

#[test]
fn another_implementation_reads_both_forms() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin("").start();
    ringwall.assert_serves();
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/clients/python/bin/python");
    for (accept, script) in [
        ("text/plain", "from prometheus_client.parser import text_string_to_metric_families as parse\n"),
        (
            "application/openmetrics-text;version=1.0.0",
            "from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse\n",
        ),
    ] {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: ringwall\r\nAccept: {accept}\r\n\r\n");
        let exposed = ringwall.admin().answer(&request);
        assert!(
            exposed.head.contains(&format!("content-type: {}", accept.split(';').next().unwrap())),
            "{}",
            exposed.head
        );
        let script = format!("import sys\n{script}print(sum(len(f.samples) for f in parse(sys.stdin.read())))");
        let mut command = Command::new(&python);
        command.arg("-c").arg(script);
        let (success, output) = run(command, exposed.body.as_bytes());
        assert!(success, "{output}");
        let samples = exposed.body.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(output.trim(), samples.to_string());
    }
}

#[test]
fn certificates_are_told_with_their_ends_and_whether_the_files_still_hold_them() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin("").start();
    let told = |metrics: &Metrics| {
        let ends = metrics.nonzero("ringwall_certificate_not_after_timestamp_seconds");
        assert_eq!(ends.len(), 1, "{ends:?}");
        let (labels, end) = ends.first_key_value().map(|(labels, end)| ((*labels).to_owned(), *end)).unwrap();
        assert!(labels.starts_with("listener=\"public\",name=\"localhost\",serial=\""), "{labels}");
        (labels.clone(), end, metrics.value(&format!("ringwall_certificate_matches_disk{{{labels}}}")))
    };
    let (serial, end, matches) = told(&ringwall.admin().metrics());
    // rcgen's own end of validity: 4096-01-01.
    assert_eq!((end, matches), (67_090_118_400.0, 1.0));
    // A key that is damaged keeps what is in use.
    fs::write(ringwall.folder().join("server.key"), "none").unwrap();
    ringwall.process.line(|line| line.contains("reload failed"));
    let metrics = Metrics::until(&ringwall.admin(), |metrics| metrics.value("ringwall_reload_success") == 0.0);
    assert_eq!(metrics.value("ringwall_reloads_total{result=\"failed\"}"), 1.0);
    fs::write(ringwall.folder().join("server.crt"), "none").unwrap();
    assert_eq!(told(&ringwall.admin().metrics()), (serial.clone(), end, 0.0));
    ringwall.certificates.replace_server();
    let metrics = Metrics::until(&ringwall.admin(), |metrics| metrics.value("ringwall_reload_success") == 1.0);
    let (renewed, _, matches) = told(&metrics);
    assert!(renewed != serial && matches == 1.0, "{renewed}");
}

#[test]
fn the_process_and_what_runs_are_told() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin("").start();
    let metrics = ringwall.admin().metrics();
    // The connections of this test to it are open for a moment longer than their answers are read.
    let open = metrics.value("process_open_fds") - ringwall.process.open_files() as f64;
    assert!((0.0..=2.0).contains(&open), "{open}");
    assert!(metrics.value("process_max_fds") > metrics.value("process_open_fds"));
    assert!(metrics.value("process_resident_memory_bytes") > 1e6);
    assert!(metrics.value("process_cpu_seconds_total") < 60.0);
    assert!(metrics.value("process_start_time_seconds") > 1.6e9);
    let info = metrics.nonzero("ringwall_build_info");
    let labels = info.keys().next().unwrap();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(*labels, format!("version=\"0.1.0\",kernel=\"{}\",provider=\"aws-lc-rs\"", kernel.trim()));
}

#[test]
fn nothing_listens_for_administrators_unless_it_is_asked_for_and_then_for_the_user_alone() {
    let server = Server::on_unix_socket();
    let without = Ringwall::before(server.address());
    let threads = without.process.threads();
    assert!(threads.iter().all(|thread| thread != "admin"), "{threads:?}");
    let with = Setup::before(server.address()).admin("").start();
    assert!(with.process.threads().contains(&"admin".to_owned()));
    let mode = fs::metadata(with.folder().join("admin.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let shared = Setup::before(server.address()).admin("socket_mode = \"0660\"\n").start();
    let mode = fs::metadata(shared.folder().join("admin.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
}

#[test]
fn a_port_of_loopback_serves_the_same() {
    let server = Server::on_unix_socket();
    let port = free_port();
    let setup = Setup::before(server.address()).sections(&format!("[admin]\nlisten = \"127.0.0.1:{port}\"\n"));
    let _ringwall = setup.start();
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let healthy = answer(TcpStream::connect(("127.0.0.1", port)).unwrap(), request);
    assert_eq!((healthy.status, &*healthy.body), (200, "ok\n"));
    // Nobody can allow what is not allowed there.
    let (success, output) = ringwall(&["ctl", "--socket", &format!("127.0.0.1:{port}"), "reload"]);
    assert!(!success);
    assert_eq!(
        output,
        "ringwall: changes are not allowed over a TCP port, which has no permissions: write a unix socket in admin.listen, \
         and admin.allow_changes = true\n"
    );
}

#[test]
fn a_program_that_drains_is_healthy_and_not_ready() {
    let server = Server::on_unix_socket();
    let mut ringwall = Setup::before(server.address()).admin("").start();
    let ready = |ringwall: &Ringwall| ringwall.admin().get("/readyz").status;
    assert_eq!(ready(&ringwall), 200);
    let mut client = ringwall.client();
    // Who waits in it is owed something, so the drain waits.
    client.send_request(&["BLPOP", "never", "0"]);
    server.wait_for_clients(1);
    ringwall.terminate();
    ringwall.process.line(|line| line.contains("draining"));
    assert_eq!((ready(&ringwall), ringwall.admin().get("/healthz").status), (503, 200));
    ringwall.terminate();
    ringwall.wait();
    assert!(!ringwall.folder().join("admin.sock").exists());
}

#[test]
fn requests_that_are_no_use_are_told_so() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin("").start();
    let admin = ringwall.admin();
    assert_eq!(admin.get("/nothing").status, 404);
    let refused = admin.post("/metrics");
    assert_eq!(refused.status, 405);
    assert!(refused.head.contains("allow: GET, HEAD"), "{}", refused.head);
    assert_eq!(admin.answer("nonsense\r\n\r\n").status, 400);
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000));
    let mut stream = UnixStream::connect(ringwall.folder().join("admin.sock")).unwrap();
    // It may be refused before all of it is sent.
    let _ = stream.write_all(long.as_bytes());
    assert_eq!(admin.get("/healthz").status, 200);
}

#[test]
fn a_probe_is_answered_at_once_whatever_idle_connections_do() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin("").start();
    let path = ringwall.folder().join("admin.sock");
    // Half of them have begun to ask, which tells nobody whether there will be more.
    let silent: Vec<_> = (0..40)
        .map(|number| {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(if number % 2 == 0 { b"" } else { b"GET /healthz HTTP/1.1\r\n" }).unwrap();
            stream
        })
        .collect();
    // Behind all of them in the queue.
    assert_eq!(ringwall.admin().get("/healthz").status, 200);
    // Those that came last are there still: no time-out has made room.
    let is_open = |mut stream: &UnixStream| {
        stream.set_nonblocking(true).unwrap();
        stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    let open: Vec<_> = silent.iter().map(is_open).collect();
    assert!(open[25..].iter().all(|open| *open) && !open[0], "{open:?}");
}

#[test]
fn what_a_shard_counted_before_it_fell_asleep_is_there() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin("").start();
    drop(ringwall.client());
    ringwall.wait_for_ended_sessions(1);
    let metrics = ringwall.admin().metrics();
    assert_eq!(metrics.sum("ringwall_connections_closed_total"), 1.0);
    assert_eq!((metrics.sum("ringwall_handshakes_total"), metrics.sum("ringwall_connections_active")), (1.0, 0.0));
}

/// The names of metrics in a text, without the suffixes of histograms.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_ours = |word: &&str| word.starts_with("ringwall_") || word.starts_with("process_");
    let family = |word: &str| {
        let suffixes = ["_bucket", "_count", "_sum"];
        suffixes.iter().find_map(|suffix| word.strip_suffix(suffix)).unwrap_or(word).to_owned()
    };
    words.filter(is_ours).map(family).collect()
}

#[test]
fn dashboard_and_alerts_name_what_is_exported() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin("").start();
    let exported = ringwall.admin().metrics();
    let deploy = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(name);
    for name in ["grafana-dashboard.json", "prometheus-alerts.yml"] {
        let names = named(&fs::read_to_string(deploy(name)).unwrap());
        let unknown: Vec<_> = names.iter().filter(|&of| !exported.kinds.contains_key(of)).collect();
        assert!(names.len() >= 10 && unknown.is_empty(), "{name}: {unknown:?}");
    }
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/clients/python/bin/python");
    let mut command = Command::new(python);
    command.args(["-c", "import json, sys; print(len(json.load(open(sys.argv[1]))['panels']))"]);
    command.arg(deploy("grafana-dashboard.json"));
    let (success, output) = run(command, b"");
    assert!(success && output.trim().parse::<u32>().unwrap() >= 10, "{output}");
}
