//! Replies through ringwall are, byte for byte, those of a direct connection.

use std::sync::Barrier;
use std::thread;

use crate::client::Client;
use crate::resp::request;
use crate::ringwall::Ringwall;
use crate::server::Server;

/// A seeded sequence of numbers; good enough to choose with.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Requests of one client on keys of its own: replies of every type, errors among them.
fn requests(client: u64, count: usize, value_bytes_max: u64) -> Vec<Vec<u8>> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (client + 1));
    let key = |name: &str| format!("{name}:{client}").into_bytes();
    (0..count)
        .map(|_| {
            let length = usize::try_from(random.below(value_bytes_max)).unwrap();
            let letters = (b'a'..=b'z').cycle().skip(usize::try_from(client % 26).unwrap());
            let value: Vec<u8> = letters.take(length).collect();
            let field = random.below(16).to_string().into_bytes();
            let arguments: Vec<Vec<u8>> = match random.below(12) {
                0 | 1 => vec![b"SET".to_vec(), key("string"), value],
                2 | 3 => vec![b"GET".to_vec(), key("string")],
                4 => vec![b"INCR".to_vec(), key("counter")],
                5 => vec![b"RPUSH".to_vec(), key("list"), value],
                6 => vec![b"LRANGE".to_vec(), key("list"), b"-3".to_vec(), b"-1".to_vec()],
                7 => vec![b"HSET".to_vec(), key("hash"), field, value],
                8 => vec![b"HGETALL".to_vec(), key("hash")],
                9 => vec![b"LPUSH".to_vec(), key("string"), value],
                10 => vec![b"NONSENSE".to_vec()],
                _ => vec![b"GET".to_vec(), key("absent")],
            };
            request(&arguments)
        })
        .collect()
}

/// Sends `requests` with `pipeline` of them outstanding; all replies, one after the other.
fn replies(client: &mut Client, requests: &[Vec<u8>], pipeline: usize) -> Vec<u8> {
    let mut replies = Vec::new();
    for batch in requests.chunks(pipeline) {
        client.send(&batch.concat());
        for _ in batch {
            replies.extend(client.reply());
        }
    }
    replies
}

/// Runs `clients` at once through ringwall, each on keys of its own, and compares with a direct connection that sends
/// the same to another database.
fn compare(clients: u64, count: usize, pipeline: usize, value_bytes_max: u64) {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let everybody = Barrier::new(usize::try_from(clients).unwrap());
    let compare_one = &|number| {
        let requests = requests(number, count, value_bytes_max);
        let mut client = ringwall.client();
        // All are connected before the first one talks.
        everybody.wait();
        let through = replies(&mut client, &requests, pipeline);
        let mut direct = server.client();
        assert_eq!(direct.call(&["SELECT", "1"]), b"+OK\r\n");
        let expected = replies(&mut direct, &requests, pipeline);
        assert!(through == expected, "client {number} got other replies than a direct connection");
        client.end_writing();
        assert_eq!(client.rest().0, b"");
    };
    thread::scope(|scope| {
        for number in 0..clients {
            scope.spawn(move || compare_one(number));
        }
    });
    ringwall.nth_session_ended(usize::try_from(clients).unwrap(), "client_closed");
}

#[test]
fn five_hundred_clients_get_the_same_bytes_as_a_direct_connection() {
    compare(500, 200, 1, 1_000);
}

#[test]
fn fifty_pipelining_clients_get_the_same_bytes_as_a_direct_connection() {
    compare(50, 2_000, 100, 2_000);
}

#[test]
fn a_few_clients_with_large_values_get_the_same_bytes_as_a_direct_connection() {
    compare(4, 60, 10, 2_000_000);
}
