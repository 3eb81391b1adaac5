//! The programs and libraries that people use: redis-cli, redis-benchmark, redis-py, ioredis, node-redis, BullMQ, redis-rs.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::thread;

use redis::Commands as _;

use crate::process::run;
use crate::ringwall::{Ringwall, Setup};
use crate::server::Server;

/// `program` of the server's package with the arguments that lead through ringwall.
pub(crate) fn through(program: &str, ringwall: &Ringwall) -> Command {
    let mut command = Command::new(program);
    command.args(["--tls", "--cacert"]).arg(ringwall.ca_file());
    command.args(["-h", "localhost", "-p", &ringwall.address.port().to_string()]);
    command
}

fn redis_cli(ringwall: &Ringwall, arguments: &[&str], input: &[u8]) -> String {
    let mut command = through("redis-cli", ringwall);
    command.args(arguments);
    let (success, output) = run(command, input);
    assert!(success, "redis-cli {arguments:?}: {output}");
    output
}

fn pair() -> (Server, Ringwall) {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    (server, ringwall)
}

#[test]
fn redis_cli_sets_and_gets() {
    let (_server, ringwall) = pair();
    assert_eq!(redis_cli(&ringwall, &["PING"], b""), "PONG\n");
    assert_eq!(redis_cli(&ringwall, &["SET", "key", "value"], b""), "OK\n");
    assert_eq!(redis_cli(&ringwall, &["GET", "key"], b""), "value\n");
    assert_eq!(redis_cli(&ringwall, &[], b"INCR n\nINCR n\nGET n\n"), "1\n2\n2\n");
}

#[test]
fn redis_cli_inserts_100_000_commands_in_one_pipe() {
    let (server, ringwall) = pair();
    let mut commands = String::new();
    for number in 0..100_000 {
        write!(commands, "*3\r\n$3\r\nSET\r\n$9\r\nkey{number:06}\r\n$9\r\nval{number:06}\r\n").unwrap();
    }
    let output = redis_cli(&ringwall, &["--pipe"], commands.as_bytes());
    assert!(output.contains("errors: 0, replies: 100000"), "{output}");
    assert_eq!(server.client().call(&["DBSIZE"]), b":100000\r\n");
    assert_eq!(server.client().call(&["GET", "key099999"]), b"$9\r\nval099999\r\n");
}

#[test]
fn redis_cli_copies_the_whole_data_set_as_a_replica_does() {
    let (server, ringwall) = pair();
    server.client().call(&[b"SET".as_slice(), b"big", &vec![b'b'; 5_000_000]]);
    server.client().call(&["SET", "small", "s"]);
    let file = ringwall.folder().join("copy.rdb");
    let output = redis_cli(&ringwall, &["--rdb", &file.to_string_lossy()], b"");
    let copy = std::fs::read(&file).unwrap_or_else(|error| panic!("{error}: {output}"));
    assert!(copy.starts_with(b"REDIS") && copy.windows(5).any(|window| window == b"small"));
}

/// Bytes that a benchmark moves at most, so that large values do not take long.
const BYTES_MAX: u64 = 192 << 20;
/// Bytes that may be outstanding: clients, times pipeline, times value.
const OUTSTANDING_MAX: u64 = 256 << 20;

/// Runs `redis-benchmark` with so many clients over all pipelines and value sizes that are not too large together.
fn benchmark(clients: u64) {
    let (_server, ringwall) = pair();
    for pipeline in [1, 16, 256_u64] {
        for bytes in [3, 16 << 10, 1 << 20_u64] {
            if clients * pipeline * bytes > OUTSTANDING_MAX {
                continue;
            }
            let requests = match (clients, pipeline) {
                // redis-benchmark leaves Nagle on: a request of more than one record then waits 40 ms for an
                // acknowledgement, whoever serves it.
                (1, 1) if bytes > 3 => 50,
                (_, 1) => 20_000,
                _ => 100_000,
            };
            // Every client gets something to do, and no pipeline is cut short: redis-benchmark sends it whole, counts more
            // replies than it was asked for and may take its own end for a loss of all clients.
            let requests = requests.min(BYTES_MAX / bytes).max(clients * pipeline).next_multiple_of(pipeline);
            let mut command = through("redis-benchmark", &ringwall);
            command.args(["-t", "set,get", "--csv", "-r", "100"]);
            for (name, number) in [("-c", clients), ("-P", pipeline), ("-d", bytes), ("-n", requests)] {
                command.args([name, &number.to_string()]);
            }
            let (success, output) = run(command, b"");
            let what = format!("{clients} clients, pipeline {pipeline}, {bytes} bytes");
            assert!(success && !output.to_lowercase().contains("error"), "{what}: {output}");
            assert!(output.contains("\"SET\",") && output.contains("\"GET\","), "{what}: {output}");
            println!("{what}: {}", output.lines().skip(1).collect::<Vec<_>>().join(" "));
        }
    }
}

#[test]
fn redis_benchmark_finishes_with_1_client() {
    benchmark(1);
}

#[test]
fn redis_benchmark_finishes_with_500_clients() {
    benchmark(500);
}

/// Runs a script of tests/clients with its interpreter from where tests/run.sh installs the libraries.
fn client_library(mut command: Command, script: &str, ringwall: &Ringwall) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    command.arg(root.join("tests/clients").join(script));
    command.arg(ringwall.address.port().to_string()).arg(ringwall.ca_file());
    command.env("NODE_PATH", root.join("target/clients/node/node_modules"));
    let (success, output) = run(command, b"");
    assert!(success && output.trim_end().ends_with("all well"), "{script} (see tests/run.sh):\n{output}");
}

pub(crate) fn redis_py(ringwall: &Ringwall) {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/clients/python/bin/python");
    client_library(Command::new(python), "redis_py.py", ringwall);
}

pub(crate) fn ioredis(ringwall: &Ringwall) {
    client_library(Command::new("node"), "ioredis.js", ringwall);
}

pub(crate) fn node_redis(ringwall: &Ringwall) {
    client_library(Command::new("node"), "node_redis.js", ringwall);
}

pub(crate) fn bullmq(ringwall: &Ringwall) {
    client_library(Command::new("node"), "bullmq.js", ringwall);
}

/// What people do with redis-rs, without TLS.
pub(crate) fn redis_rs(ringwall: &Ringwall) {
    for protocol in ["resp2", "resp3"] {
        let client = redis::Client::open(format!("redis://{}/?protocol={protocol}", ringwall.address)).unwrap();
        let mut connection = client.get_connection().unwrap();
        let () = connection.set("key", "value").unwrap();
        assert_eq!(connection.get::<_, String>("key").unwrap(), "value");
        let big = vec![b'b'; 5_000_000];
        let () = connection.set("big", &big).unwrap();
        assert!(connection.get::<_, Vec<u8>>("big").unwrap() == big);

        let mut pipe = redis::pipe();
        pipe.del("n").ignore();
        for _ in 0..1_000 {
            pipe.incr("n", 1);
        }
        assert_eq!(pipe.query::<Vec<i64>>(&mut connection).unwrap()[999], 1_000);

        // The first attempt meets a write of another's.
        let mut attempts = 0;
        let mut other = client.get_connection().unwrap();
        let (n,): (i64,) = redis::transaction(&mut connection, &["n"], |connection, pipe| {
            attempts += 1;
            if attempts == 1 {
                let () = other.incr("n", 1).unwrap();
            }
            pipe.incr("n", 1).query(connection)
        })
        .unwrap();
        assert_eq!((n, attempts), (1_002, 2));

        let script = redis::Script::new("return redis.call('GET', KEYS[1]) .. ARGV[1]");
        assert_eq!(
            script.key("key").arg(protocol).invoke::<String>(&mut connection).unwrap(),
            format!("value{protocol}")
        );

        let mut subscription = other.as_pubsub();
        subscription.subscribe("news").unwrap();
        assert_eq!(connection.publish::<_, _, i64>("news", "hello").unwrap(), 1);
        assert_eq!(subscription.get_message().unwrap().get_payload::<String>().unwrap(), "hello");

        let () = redis::cmd("DEL").arg("queue").arg("counted").query(&mut connection).unwrap();
        thread::scope(|scope| {
            let mut blocked = client.get_connection().unwrap();
            let popped = scope.spawn(move || blocked.blpop::<_, (String, String)>("queue", 20.0).unwrap());
            let () = connection.rpush("queue", "work").unwrap();
            assert_eq!(popped.join().unwrap(), ("queue".to_owned(), "work".to_owned()));
        });
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut connection = client.get_connection().unwrap();
                    (0..200).for_each(|_| connection.incr("counted", 1).unwrap());
                });
            }
        });
        assert_eq!(connection.get::<_, i64>("counted").unwrap(), 1_600);
    }
}

#[test]
fn redis_py_works() {
    let (_server, ringwall) = pair();
    redis_py(&ringwall);
}

#[test]
fn ioredis_works() {
    let (_server, ringwall) = pair();
    ioredis(&ringwall);
}

#[test]
fn node_redis_works() {
    let (_server, ringwall) = pair();
    node_redis(&ringwall);
}

#[test]
fn bullmq_works() {
    let (_server, ringwall) = pair();
    bullmq(&ringwall);
}

#[test]
fn redis_rs_works() {
    let server = Server::on_unix_socket();
    redis_rs(&Setup::before(server.address()).plain().start());
}
