//! Many sessions that say nothing, and one that says much: what they cost.

use std::time::Duration;

use crate::process::{Process, now, run};
use crate::ringwall::{Ringwall, Setup};
use crate::server::Server;

#[test]
fn two_thousand_idle_sessions_stay_alive_and_cost_little_memory_and_no_time() {
    const SESSIONS: u64 = 2_000;
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    ringwall.assert_serves();
    let before = ringwall.process.memory_kib("VmRSS");
    let mut clients: Vec<_> = (0..SESSIONS).map(|_| ringwall.client()).collect();
    for client in &mut clients {
        assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    }
    let each = (ringwall.process.memory_kib("VmRSS") - before) / SESSIONS;
    assert!(each < 64, "{each} KiB for each idle session");
    let ticks = ringwall.process.cpu_ticks();
    clients[0].fill_until_quiet(Duration::from_secs(2));
    let used = ringwall.process.cpu_ticks() - ticks;
    assert!(used < 20, "{used} hundredths of a second of processor time in two idle seconds");
    for client in &mut clients {
        assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    }
    drop(clients);
    ringwall.wait_for_ended_sessions(usize::try_from(SESSIONS).unwrap() + 1);
    server.wait_for_clients(0);
}

/// Runs `redis-benchmark` with 50 clients in the background, `strace -c` over a part of it, and returns the count of
/// each system call with the number of requests served meanwhile.
fn traced_load(ringwall: &Ringwall, server: &Server) -> (Vec<(String, u64)>, u64) {
    let mut load = std::process::Command::new("redis-benchmark");
    load.args(["--tls", "--cacert"]).arg(ringwall.ca_file());
    load.args(["-h", "localhost", "-p", &ringwall.address.port().to_string()]);
    load.args(["-c", "50", "-n", "100000000", "-t", "get", "-q"]);
    let load = Process::start(load, || {});
    let served = || {
        let info = server.client().text(&["INFO", "stats"]);
        let count = info.split("total_commands_processed:").nth(1).unwrap().lines().next().unwrap();
        count.parse::<u64>().unwrap()
    };
    let deadline = now() + crate::process::PATIENCE;
    while served() < 20_000 {
        assert!(now() < deadline, "the load does not start: {:?}", load.lines());
    }
    let mut trace = std::process::Command::new("timeout");
    trace.args(["--signal", "INT", "3", "strace", "-f", "-c", "-p"]);
    trace.arg(ringwall.process.pid().as_raw_nonzero().to_string());
    let before = served();
    let (_, table) = run(trace, b"");
    let requests = served() - before;
    // Columns: % time, seconds, usecs/call, calls, and the name at the end.
    let calls = table.lines().filter_map(|line| {
        let columns: Vec<_> = line.split_whitespace().collect();
        Some(((*columns.last()?).to_owned(), columns.get(3)?.parse().ok()?))
    });
    (calls.collect(), requests)
}

#[test]
fn a_loaded_window_has_no_futex_call() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).sections("[runtime]\nshards = 1\n").start();
    let (calls, requests) = traced_load(&ringwall, &server);
    println!("{requests} requests: {calls:?}");
    let count = |name: &str| calls.iter().find(|call| call.0 == name).map_or(0, |call| call.1);
    assert!(requests > 0 && count("io_uring_enter") > 0, "{requests} requests: {calls:?}");
    assert_eq!(count("futex"), 0, "{calls:?}");
}
