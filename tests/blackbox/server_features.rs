//! What a server can do, it can do through ringwall: nothing of it is parsed, so nothing of it is lost.

use crate::client::{Client, End};
use crate::resp::{payload, request};
use crate::ringwall::Ringwall;
use crate::server::Server;

fn pair() -> (Server, Ringwall) {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    (server, ringwall)
}

#[test]
fn a_subscriber_gets_every_message_in_order() {
    let (server, ringwall) = pair();
    let mut subscriber = ringwall.client();
    assert_eq!(subscriber.call(&["SUBSCRIBE", "news"]), b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    let mut publisher = server.client();
    for number in 0..1000 {
        assert_eq!(publisher.call(&["PUBLISH", "news", &number.to_string()]), b":1\r\n");
    }
    for number in 0..1000_u32 {
        let text = number.to_string();
        let expected = format!("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n${}\r\n{text}\r\n", text.len());
        assert_eq!(subscriber.reply(), expected.as_bytes());
    }
    assert_eq!(subscriber.call(&["UNSUBSCRIBE", "news"]), b"*3\r\n$11\r\nunsubscribe\r\n$4\r\nnews\r\n:0\r\n");
    assert_eq!(subscriber.call(&["PING"]), b"+PONG\r\n");
}

#[test]
fn a_blocked_client_is_woken_by_another() {
    let (server, ringwall) = pair();
    let mut blocked = ringwall.client();
    blocked.send_request(&["BLPOP", "queue", "0"]);
    let mut direct = server.client();
    // The server says when the client is blocked.
    while !direct.text(&["INFO", "clients"]).contains("blocked_clients:1") {}
    let mut pusher = ringwall.client();
    assert_eq!(pusher.call(&["RPUSH", "queue", "work"]), b":1\r\n");
    assert_eq!(blocked.reply(), b"*2\r\n$5\r\nqueue\r\n$4\r\nwork\r\n");
}

#[test]
fn a_transaction_is_executed_or_discarded_as_a_whole() {
    let (_server, ringwall) = pair();
    let mut client = ringwall.client();
    assert_eq!(client.call(&["MULTI"]), b"+OK\r\n");
    assert_eq!(client.call(&["INCR", "counter"]), b"+QUEUED\r\n");
    assert_eq!(client.call(&["INCRBY", "counter", "10"]), b"+QUEUED\r\n");
    assert_eq!(client.call(&["EXEC"]), b"*2\r\n:1\r\n:11\r\n");
    // A watched key that another client changes.
    assert_eq!(client.call(&["WATCH", "counter"]), b"+OK\r\n");
    assert_eq!(ringwall.client().call(&["INCR", "counter"]), b":12\r\n");
    assert_eq!(client.call(&["MULTI"]), b"+OK\r\n");
    assert_eq!(client.call(&["SET", "counter", "0"]), b"+QUEUED\r\n");
    assert_eq!(client.call(&["EXEC"]), b"*-1\r\n");
    assert_eq!(client.call(&["GET", "counter"]), b"$2\r\n12\r\n");
}

#[test]
fn a_value_of_100_mb_passes_both_ways_byte_for_byte() {
    let (server, ringwall) = pair();
    // Not periodic in anything that a buffer's size could be.
    let value: Vec<u8> = (0..100_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut client = ringwall.client();
    assert_eq!(client.call(&[b"SET".as_slice(), b"big", &value]), b"+OK\r\n");
    assert!(payload(&server.client().call(&["GET", "big"])) == value, "changed on the way in");
    assert!(payload(&client.call(&["GET", "big"])) == value, "changed on the way out");
}

#[test]
fn a_monitor_sees_every_command() {
    let (server, ringwall) = pair();
    let mut monitor = ringwall.client();
    assert_eq!(monitor.call(&["MONITOR"]), b"+OK\r\n");
    let mut direct = server.client();
    for number in 0..500 {
        direct.call(&["SET", "key", &number.to_string()]);
    }
    for number in 0..500 {
        let line = monitor.reply();
        let line = String::from_utf8_lossy(&line).into_owned();
        assert!(line.ends_with(&format!("\"SET\" \"key\" \"{number}\"\r\n")), "{line}");
    }
}

#[test]
fn a_client_side_cache_is_told_of_changes_in_resp3() {
    let (server, ringwall) = pair();
    let mut client = ringwall.client();
    assert!(client.call(&["HELLO", "3"]).starts_with(b"%"));
    assert_eq!(client.call(&["CLIENT", "TRACKING", "ON"]), b"+OK\r\n");
    assert_eq!(client.call(&["GET", "cached"]), b"_\r\n");
    assert_eq!(server.client().call(&["SET", "cached", "new"]), b"+OK\r\n");
    assert_eq!(client.reply(), b">2\r\n$10\r\ninvalidate\r\n*1\r\n$6\r\ncached\r\n");
}

#[test]
fn a_pipeline_is_answered_in_order_whatever_its_sizes() {
    let (_server, ringwall) = pair();
    let mut client = ringwall.client();
    let sizes = [0_usize, 1, 100, 16_383, 16_384, 16_385, 65_536, 1_000_000, 3];
    let values: Vec<_> = sizes.iter().map(|&size| vec![b'v'; size]).collect();
    client.send(&values.iter().flat_map(|value| request(&[b"ECHO".as_slice(), value])).collect::<Vec<_>>());
    for value in &values {
        assert!(payload(&client.reply()) == value, "the reply of {} bytes", value.len());
    }
}

#[test]
fn a_client_that_quits_gets_its_ok_and_an_orderly_end() {
    let (server, ringwall) = pair();
    let mut client = ringwall.client();
    assert_eq!(client.call(&["QUIT"]), b"+OK\r\n");
    assert_eq!(client.end(), End::Orderly);
    drop(client);
    ringwall.session_ended("backend_closed");
    server.wait_for_clients(0);
}

#[test]
fn a_killed_client_sees_an_orderly_end() {
    let (server, ringwall) = pair();
    let mut client = ringwall.client();
    let id = client.text(&["CLIENT", "ID"]);
    assert_eq!(server.client().call(&["CLIENT", "KILL", "ID", &id]), b":1\r\n");
    assert_eq!(client.end(), End::Orderly);
}

#[test]
fn the_log_names_the_port_under_which_the_server_knows_the_client() {
    let server = Server::on_tcp();
    let ringwall = Ringwall::before(server.address());
    let mut client = ringwall.client();
    let info = client.text(&["CLIENT", "INFO"]);
    let port = info.split("addr=127.0.0.1:").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let local = client.socket().local_addr().unwrap();
    quit(&mut client);
    let line = ringwall.session_ended("client_closed");
    assert!(line.contains(&format!("\"server_local_port\":{port}")), "{line}");
    assert!(line.contains(&format!("\"client\":\"{local}\"")), "{line}");
    for field in ["\"listener\":\"public\"", "\"backend\":\"server\"", "\"tls_version\":\"TLSv1.3\"", "\"shard\":"] {
        assert!(line.contains(field), "{field} is not in {line}");
    }
}

fn quit(client: &mut Client) {
    client.end_writing();
    assert_eq!(client.end(), End::Orderly);
}
