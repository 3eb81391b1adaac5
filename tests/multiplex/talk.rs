//! What clients say to a multiplexer, and what they must hear: random requests, and the replies of a server that a client is
//! alone with.

use crate::server::Server;

/// Numbers that depend on a seed alone.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn draw(&mut self, below: usize) -> usize {
        // SplitMix64 (Steele, Lea, Flood, 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) >> 33).unwrap() % below
    }

    pub(crate) fn choose<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.draw(from.len())]
    }
}

/// Requests of one client, in the order in which it says them. Its keys are its own, so that what others do changes
/// nothing for it; each request has a tag that no other has.
pub(crate) fn script(client: usize, length: usize, rng: &mut Rng) -> Vec<String> {
    let mut requests = Vec::new();
    let mut in_multi = false;
    for n in 0..length {
        let tag = format!("tag:{client}:{n}");
        let key = format!("key:{client}:{}", rng.draw(2));
        let (user, password) = *rng.choose(&[("alice", "wonder"), ("bob", "builder"), ("bob", "wrong")]);
        let database = rng.draw(3);
        let size = *rng.choose(&[0, 10, 3_000, 3_000, 20_000]);
        let shared = [
            format!("GETEX {tag}"),
            format!("ECHO {tag}"),
            format!("GETEX {tag}"),
            format!("INCR {key}"),
            format!("SET {key} {n}"),
            format!("GET {key}"),
            format!("GETRANGE {tag} {size}"),
            "NOSUCH".to_owned(),
        ];
        let rare = [
            format!("SELECT {database}"),
            format!("AUTH {user} {password}"),
            format!("HELLO {} AUTH {user} {password}", 2 + rng.draw(2)),
            "HELLO 3".to_owned(),
            "SELECT 99".to_owned(),
            format!("CLIENT SETNAME name{n}"),
            "CLIENT GETNAME".to_owned(),
            "RESET".to_owned(),
            format!("MULTI\r\nINCR {key}\r\nECHO {tag}\r\nEXEC"),
            format!("MULTI\r\nINCR {key}\r\nSELECT {database}\r\nEXEC"),
            "MULTI".to_owned(),
            format!("WATCH {key}"),
            "UNWATCH".to_owned(),
            format!("BLPOP list:{client}:{n} 0"),
            "WAIT 0 0".to_owned(),
            "EXEC".to_owned(),
        ];
        let request = match rng.draw(10) {
            0..=6 => rng.choose(&shared).clone(),
            _ if in_multi => rng.choose(&["EXEC", "DISCARD", "SELECT 1", "WATCH k", "MULTI"]).to_string(),
            _ => rng.choose(&rare).clone(),
        };
        for line in request.split("\r\n") {
            let name = line.split(' ').next().unwrap();
            in_multi = match name {
                "MULTI" => true,
                "EXEC" | "DISCARD" | "RESET" => false,
                _ => in_multi,
            };
            requests.push(encoded(line));
        }
    }
    if in_multi {
        requests.push(encoded("DISCARD"));
    }
    requests
}

pub(crate) fn encoded(line: &str) -> String {
    let words: Vec<_> = line.split(' ').collect();
    let arguments: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{arguments}", words.len())
}

/// What a server answers to each of these requests over one connection that nothing else comes between.
pub(crate) fn alone(requests: &[String]) -> Vec<String> {
    let mut server = Server::default();
    let connection = server.connect();
    requests
        .iter()
        .map(|request| {
            server.receive(connection, request.as_bytes());
            server.feed();
            String::from_utf8(std::mem::take(&mut server.connections[connection].output)).unwrap()
        })
        .collect()
}

/// A request whose reply does not depend on what others of the client did, but for where it stands.
pub(crate) fn lossy_request(client: usize, n: usize, rng: &mut Rng) -> String {
    let tag = format!("tag:{client}:{n}");
    let lines = [
        format!("ECHO {tag}"),
        format!("GETEX {tag}"),
        format!("GETEX {tag}"),
        format!("GETEX {tag}"),
        format!("GETRANGE {tag} 5000"),
        format!("BLPOP list:{client}:{n} 0"),
        format!("SELECT {}", rng.draw(3)),
        "AUTH alice wonder".to_owned(),
        "AUTH bob wrong".to_owned(),
        "HELLO 3 AUTH bob builder".to_owned(),
    ];
    encoded(rng.choose(&lines).as_str())
}

/// How errors of the proxy's begin: about a connection, and about all of them.
const ERRORS: [&str; 2] = ["-ERR the ", "-ERR ringwall "];

/// Each reply is the expected one or an error of the proxy's; only a client that was closed may miss the last ones, of
/// which the first may be cut.
pub(crate) fn check(received: &str, expected: &[String], is_whole: bool) {
    let mut rest = received;
    for expected in expected {
        if let Some(error) = ERRORS.iter().find_map(|start| rest.strip_prefix(start)) {
            let Some((_, after)) = error.split_once("\r\n") else {
                return assert!(!is_whole, "a part of an error");
            };
            rest = after;
        } else if let Some(after) = rest.strip_prefix(expected.as_str()) {
            rest = after;
        } else {
            let is_part = expected.starts_with(rest) || ERRORS.iter().any(|start| start.starts_with(rest));
            assert!(!is_whole && is_part, "{rest:?} where {expected:?} was expected");
            return;
        }
    }
    // What a client is told at its end may follow everything that it has asked for.
    let is_error = ERRORS.iter().any(|start| rest.starts_with(start) || start.starts_with(rest));
    assert!(rest.is_empty() || !is_whole && is_error, "{rest:?} behind everything");
}
