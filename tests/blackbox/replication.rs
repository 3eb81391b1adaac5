//! A replica that follows its primary through ringwall over TLS: a whole data set, and then every write.
//!
//! `RINGWALL_REPLICATION_MB=1000` runs it with a data set of a gigabyte in place of 100 MB; it needs three times that of
//! memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::client::Client;
use crate::process::{PATIENCE, now};
use crate::ringwall::{Ringwall, Setup};
use crate::server::Server;

/// Writes in one pipeline of the load.
const PIPELINE: usize = 100;

/// Megabytes of the data set.
fn megabytes() -> usize {
    let text = std::env::var("RINGWALL_REPLICATION_MB");
    text.map_or(100, |text| text.parse().expect("RINGWALL_REPLICATION_MB is a number"))
}

/// A primary with so many megabytes, which it sends as they are.
fn primary(megabytes: usize) -> Server {
    let primary = Server::with(&[
        "--enable-debug-command yes",
        "--rdbcompression no",
        "--repl-diskless-sync-delay 0",
        "--client-output-buffer-limit replica 0 0 0",
    ]);
    // Values of a thousand bytes.
    let keys = (megabytes * 1000).to_string();
    assert_eq!(primary.client().call(&["DEBUG", "POPULATE", &keys, "key", "1000"]), b"+OK\r\n");
    primary
}

/// A replica that speaks TLS to its primary, and trusts who has certified ringwall.
fn replica(ringwall: &Ringwall) -> Server {
    let file = |name: &str| ringwall.folder().join(name).display().to_string();
    Server::with(&[
        "--enable-debug-command yes",
        "--tls-replication yes",
        &format!("--tls-ca-cert-file {}", file("ca.crt")),
        // It wants one though it is nobody's server with TLS.
        &format!("--tls-cert-file {}", file("server.crt")),
        &format!("--tls-key-file {}", file("server.key")),
    ])
}

/// A field of INFO.
fn info(client: &mut Client, section: &str, field: &str) -> String {
    let info = client.text(&["INFO", section]);
    let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {field} in {info}")).to_owned()
}

/// Waits until the replica has all that the primary had when it asked.
fn wait_for_link(replica: &mut Client, megabytes: usize) {
    let deadline = now() + PATIENCE + PATIENCE * u32::try_from(megabytes / 100).unwrap();
    while info(replica, "replication", "master_link_status") != "up" {
        assert!(now() < deadline, "the replica is not in sync:\n{}", replica.text(&["INFO", "replication"]));
        thread::yield_now();
    }
}

/// One pipeline of writes of several kinds, and their replies.
fn write(client: &mut Client, round: usize) {
    let value = format!("{round:0200}");
    for n in 0..PIPELINE {
        let key = format!("load:{}", (round * 7919 + n * 104_729) % 10_000);
        match n % 5 {
            0 | 1 => client.send_request(&["SET", &key, &value]),
            2 => client.send_request(&["INCR", "load:count"]),
            3 => client.send_request(&["DEL", &key]),
            _ => client.send_request(&["LPUSH", &format!("list:{}", n % 10), &value]),
        }
    }
    for _ in 0..PIPELINE {
        let reply = client.reply();
        assert!(!reply.starts_with(b"-"), "{}", String::from_utf8_lossy(&reply));
    }
}

#[test]
fn a_replica_gets_the_whole_data_set_and_every_write_after_it() {
    let megabytes = megabytes();
    let primary = primary(megabytes);
    let ringwall = Setup::before(primary.address())
        .listener("idle_timeout = \"off\"\ntcp_user_timeout = \"1h\"\nsend_buffer = \"4MiB\"\n")
        .start();
    let replica = replica(&ringwall);
    let start = now();
    let mut follower = replica.client();
    let in_sync = AtomicBool::new(false);
    thread::scope(|scope| {
        // Writes go through ringwall as well, from before the replica asks until long after it is in sync.
        let load = scope.spawn(|| {
            let mut client = ringwall.client();
            let (mut round, mut after) = (0, 0);
            while after < 1_000 {
                after += usize::from(in_sync.load(Ordering::Relaxed));
                write(&mut client, round);
                round += 1;
            }
            // Until the replica has said that it has all of it.
            assert_eq!(client.call(&["WAIT", "1", "0"]), b":1\r\n");
            round * PIPELINE
        });
        let port = ringwall.address.port().to_string();
        assert_eq!(follower.call(&["REPLICAOF", "localhost", &port]), b"+OK\r\n");
        wait_for_link(&mut follower, megabytes);
        println!("{megabytes} MB in sync after {} ms", start.elapsed().as_millis());
        in_sync.store(true, Ordering::Relaxed);
        println!("{} writes", load.join().unwrap());
    });
    let mut leader = primary.client();
    let offset = |client: &mut Client| info(client, "replication", "master_repl_offset").parse::<u64>().unwrap();
    // The primary pings its replicas now and then, which is all that may come in between.
    let (before, followed, after) = (offset(&mut leader), offset(&mut follower), offset(&mut leader));
    assert!(followed + 1_000 > before && followed <= after, "{followed} of {before} to {after}");
    assert_eq!(follower.call(&["DEBUG", "DIGEST"]), leader.call(&["DEBUG", "DIGEST"]));
    assert_eq!(follower.call(&["DBSIZE"]), leader.call(&["DBSIZE"]));
    // On one connection, from the first to the last byte.
    assert_eq!(info(&mut leader, "stats", "sync_full"), "1");
    assert_eq!(info(&mut leader, "stats", "sync_partial_ok"), "0");
    let peak = ringwall.process.memory_kib("VmHWM");
    assert!(peak < 150 * 1024, "{peak} KiB, of a data set that is none of ringwall's business");
    assert_eq!(follower.call(&["REPLICAOF", "NO", "ONE"]), b"+OK\r\n");
    let line = ringwall.process.line(|line| {
        let bytes =
            line.split("\"server_rx_bytes\":").nth(1).and_then(|rest| rest.split(',').next()?.parse::<usize>().ok());
        line.contains("session closed") && bytes.is_some_and(|bytes| bytes > megabytes * 1_000_000)
    });
    assert!(line.contains("\"reason\":\"client_"), "{line}");
}
