//! `mode = "multiplex"`: what is read, and what does not go with it.

mod config_support;

use std::time::Duration;

use config_support::{MINIMAL, machine, parse_on, refusal};
use ringwall::cli::Plan;
use ringwall::config::Multiplex;

/// The minimal file with more keys of the listener and of the backend.
fn with(listener: &str, backend: &str) -> String {
    let text = MINIMAL.replacen("[[backend]]", &format!("{listener}\n[[backend]]"), 1);
    format!("{text}\n{backend}\n")
}

#[test]
fn listeners_are_transparent_unless_they_say_otherwise() {
    for listener in ["", "mode = \"transparent\""] {
        assert_eq!(parse_on(&machine(), &with(listener, "")).unwrap().listeners[0].multiplex, None);
    }
}

#[test]
fn a_multiplexed_listener_has_its_defaults_or_what_is_written() {
    let config = parse_on(&machine(), &with("mode = \"multiplex\"", "")).unwrap();
    let defaults = Multiplex {
        bytes_max: 1_048_576,
        connections_per_shard: 1,
        client_requests_max: 128,
        connection_requests_max: 1_024,
        slow_log: None,
    };
    assert_eq!(config.listeners[0].multiplex, Some(defaults));
    // 816 KiB as ever, three times the bytes, and one receive.
    assert_eq!(config.session_memory_max(), 835_584 + 3 * 1_048_576 + 73_728);
    let keys = "mode = \"multiplex\"\nmultiplex_bytes_max = \"64KiB\"\nconnections_per_shard = 3\n\
                client_requests_max = 7\nconnection_requests_max = 65535\nslow_log = \"10ms\"";
    let config = parse_on(&machine(), &with(keys, "")).unwrap();
    let written = Multiplex {
        bytes_max: 65_536,
        connections_per_shard: 3,
        client_requests_max: 7,
        connection_requests_max: 65_535,
        slow_log: Some(Duration::from_millis(10)),
    };
    assert_eq!(config.listeners[0].multiplex, Some(written));
    let plan = Plan(&config).to_string();
    for row in [
        "mode",
        "multiplex_bytes_max",
        "connections_per_shard",
        "client_requests_max",
        "connection_requests_max",
        "slow_log",
    ] {
        assert!(plan.lines().any(|line| line.trim_start().starts_with(row)), "{plan}");
    }
}

#[test]
fn a_client_has_no_more_requests_under_way_than_a_connection() {
    let config = parse_on(&machine(), &with("mode = \"multiplex\"\nconnection_requests_max = 20", "")).unwrap();
    assert_eq!(config.listeners[0].multiplex.unwrap().client_requests_max, 20);
    let refused = refusal(&with("mode = \"multiplex\"\nclient_requests_max = 1025", ""));
    let problem = "listener.client_requests_max: 1025 is more than connection_requests_max, which is 1024";
    assert!(refused.contains(problem), "{refused}");
}

#[test]
fn what_does_not_go_with_a_mode_is_refused_by_its_name() {
    let mode = "mode = \"multiplex\"";
    for (listener, backend, problem) in [
        (
            "multiplex_bytes_max = \"64KiB\"",
            "",
            "listener.multiplex_bytes_max: \"64KiB\" is of no use without mode = \"multiplex\"",
        ),
        (
            "mode = \"transparent\"\nconnections_per_shard = 2",
            "",
            "listener.connections_per_shard: 2 is of no use without mode = \"multiplex\"",
        ),
        ("client_requests_max = 5", "", "listener.client_requests_max: 5 is of no use without mode = \"multiplex\""),
        (
            "connection_requests_max = 5000",
            "",
            "listener.connection_requests_max: 5000 is of no use without mode = \"multiplex\"",
        ),
        ("mode = \"multiplexed\"", "", "is none of \"transparent\", \"multiplex\"; did you mean \"multiplex\"?"),
        (
            mode,
            "send_proxy = \"v2\"",
            "\"multiplex\" does not go with send_proxy of backend \"valkey\": a connection that",
        ),
        (mode, "client_name = \"{client_addr}\"", "does not go with client_name of backend \"valkey\""),
        (mode, "client_info = \"{client_addr}\"", "does not go with client_info of backend \"valkey\""),
        (
            "mode = \"multiplex\"\nmultiplex_bytes_max = \"64MiB\"",
            "[limits]\nshard_memory = \"64MiB\"",
            "listener.mode: \"multiplex\" does not fit: with multiplex_bytes_max 64MiB one session may hold 202235904 bytes, \
             and limits.shard_memory is 64MiB",
        ),
        ("slow_log = \"10ms\"", "", "listener.slow_log: \"10ms\" is of no use without mode = \"multiplex\""),
        ("mode = \"multiplex\"\nslow_log = \"0s\"", "", "\"0s\" is out of bounds: 1ms to 1h, or \"off\""),
        ("mode = \"multiplex\"\nconnections_per_shard = 0", "", "0 is out of bounds: 1 to 64"),
        ("mode = \"multiplex\"\nclient_requests_max = 0", "", "0 is out of bounds: 1 to 65535"),
        ("mode = \"multiplex\"\nconnection_requests_max = 65536", "", "65536 is out of bounds: 1 to 65535"),
        ("mode = \"multiplex\"\nmultiplex_bytes_max = \"1KiB\"", "", "\"1KiB\" is out of bounds: 16KiB to 64MiB"),
    ] {
        let refused = refusal(&with(listener, backend));
        assert!(refused.contains(problem), "{refused}");
    }
}
