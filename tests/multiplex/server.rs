//! A small server that keeps what each connection stands at and answers at once: what the tests measure a multiplexer
//! against, and what it talks to.

use std::collections::{BTreeMap, VecDeque};

use ringwall::multiplex::route::arguments;
use ringwall::wire::frame::RequestFramer;

/// The password of each user but the default one, which needs none unless [`Server::needs_login`].
const USERS: [(&str, &str); 2] = [("alice", "wonder"), ("bob", "builder")];

#[derive(Default)]
pub(crate) struct Connection {
    input: Vec<u8>,
    /// What has not been fetched.
    pub(crate) output: Vec<u8>,
    pub(crate) user: Option<String>,
    /// The default user wanted no password when the connection was made, or reset.
    is_let_in: bool,
    pub(crate) resp3: bool,
    pub(crate) database: u32,
    pub(crate) name: String,
    transaction: Option<Vec<Vec<String>>>,
    is_spoilt: bool,
    /// Keys, and what they were when they were watched.
    watched: Vec<((u32, String), Option<String>)>,
    /// It waits for an element of this list.
    blocked_on: Option<(u32, String)>,
    pub(crate) subscribed: bool,
    pub(crate) closed: bool,
    pub(crate) is_open: bool,
    /// Requests answered so far.
    pub(crate) answered: usize,
}

#[derive(Default)]
pub(crate) struct Server {
    pub(crate) connections: Vec<Connection>,
    strings: BTreeMap<(u32, String), String>,
    lists: BTreeMap<(u32, String), VecDeque<String>>,
    pub(crate) needs_login: bool,
    /// Most connections at a time.
    pub(crate) room: Option<usize>,
    /// Who may not run what.
    pub(crate) forbidden: Vec<(String, String)>,
    /// The last argument of each command that was run.
    pub(crate) log: Vec<String>,
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

impl Server {
    pub(crate) fn connect(&mut self) -> usize {
        let open = self.connections.iter().filter(|connection| connection.is_open).count();
        let is_full = self.room.is_some_and(|room| open >= room);
        let output = if is_full { "-ERR max number of clients reached\r\n" } else { "" }.into();
        let is_let_in = !self.needs_login;
        self.connections.push(Connection {
            is_open: true,
            is_let_in,
            output,
            closed: is_full,
            ..Connection::default()
        });
        self.connections.len() - 1
    }

    /// No request with a tag has run twice.
    pub(crate) fn assert_each_ran_once(&self) {
        let mut tags: Vec<_> = self.log.iter().filter(|last| last.starts_with("tag:")).collect();
        let runs = tags.len();
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), runs, "a request ran twice");
    }

    /// Takes bytes of a connection and runs what is complete in them.
    pub(crate) fn receive(&mut self, at: usize, bytes: &[u8]) {
        self.connections[at].input.extend_from_slice(bytes);
        while self.connections[at].blocked_on.is_none() && !self.connections[at].closed {
            let input = &self.connections[at].input;
            let Some(request) = RequestFramer::new().advance(input).expect("nothing malformed reaches the server")
            else {
                return;
            };
            let words: Vec<String> = arguments(&input[..request.end], request.form)
                .map(|argument| String::from_utf8(argument.to_vec()).unwrap())
                .collect();
            self.connections[at].input.drain(..request.end);
            if let Some(reply) = self.run(at, &words) {
                self.say(at, &reply);
            }
        }
    }

    fn say(&mut self, at: usize, reply: &str) {
        self.connections[at].output.extend_from_slice(reply.as_bytes());
        self.connections[at].answered += 1;
    }

    /// Somebody pushes to every list that is waited for.
    pub(crate) fn feed(&mut self) -> bool {
        let blocked: Vec<_> = (0..self.connections.len())
            .filter(|&at| self.connections[at].blocked_on.is_some() && self.connections[at].is_open)
            .collect();
        for &at in &blocked {
            let (_, key) = self.connections[at].blocked_on.take().unwrap();
            self.say(at, &format!("*2\r\n{}{}", bulk(&key), bulk("fed")));
            self.receive(at, b"");
        }
        !blocked.is_empty()
    }

    fn run(&mut self, at: usize, words: &[String]) -> Option<String> {
        if words.is_empty() {
            return None;
        }
        let name = words[0].to_ascii_uppercase();
        let connection = &mut self.connections[at];
        let user = connection.user.clone().unwrap_or_else(|| "default".to_owned());
        let is_stranger = self.needs_login && connection.user.is_none() && !connection.is_let_in;
        if is_stranger && !["AUTH", "HELLO", "QUIT", "RESET"].contains(&&*name) {
            return Some("-NOAUTH Authentication required.\r\n".to_owned());
        }
        if self.forbidden.contains(&(user, name.clone())) {
            connection.is_spoilt |= connection.transaction.is_some();
            return Some(format!("-NOPERM this user has no permissions to run the '{}' command\r\n", words[0]));
        }
        if !["MULTI", "EXEC", "DISCARD", "WATCH", "RESET", "QUIT"].contains(&&*name)
            && let Some(queued) = &mut connection.transaction
        {
            queued.push(words.to_vec());
            return Some("+QUEUED\r\n".to_owned());
        }
        self.log.push(words.last().unwrap().clone());
        self.execute(at, &name, words)
    }

    fn null(&self, at: usize) -> String {
        if self.connections[at].resp3 { "_\r\n" } else { "$-1\r\n" }.to_owned()
    }

    fn execute(&mut self, at: usize, name: &str, words: &[String]) -> Option<String> {
        let word = |n: usize| words.get(n).map_or("", String::as_str);
        let key = (self.connections[at].database, word(1).to_owned());
        let ok = || Some("+OK\r\n".to_owned());
        match name {
            "PING" => Some("+PONG\r\n".to_owned()),
            "ECHO" => Some(bulk(word(1))),
            // Who the server takes the client for, and the tag of the request.
            "GETEX" => {
                let connection = &self.connections[at];
                let user = connection.user.as_deref().unwrap_or("default");
                Some(bulk(&format!("{user} {} {} {}", connection.database, connection.resp3, word(1))))
            }
            "GET" => Some(self.strings.get(&key).map_or_else(|| self.null(at), |value| bulk(value))),
            "SET" => {
                self.strings.insert(key, word(2).to_owned());
                ok()
            }
            "GETRANGE" => Some(bulk(&"x".repeat(word(2).parse().unwrap()))),
            "INCR" => {
                let value = self.strings.get(&key).map_or(0, |value| value.parse().unwrap_or(0)) + 1;
                self.strings.insert(key, value.to_string());
                Some(format!(":{value}\r\n"))
            }
            "RPUSH" => {
                self.lists.entry(key).or_default().push_back(word(2).to_owned());
                Some(":1\r\n".to_owned())
            }
            "BLPOP" => match self.lists.get_mut(&key).and_then(VecDeque::pop_front) {
                Some(value) => Some(format!("*2\r\n{}{}", bulk(&key.1), bulk(&value))),
                None => {
                    self.connections[at].blocked_on = Some(key);
                    None
                }
            },
            "SWAPDB" => ok(),
            "WAIT" => Some(":1\r\n".to_owned()),
            "SUBSCRIBE" => {
                self.connections[at].subscribed = true;
                let mark = if self.connections[at].resp3 { '>' } else { '*' };
                Some(format!("{mark}3\r\n{}{}:1\r\n", bulk("subscribe"), bulk(word(1))))
            }
            "DISCARD" if words.len() > 1 => Some("-ERR wrong number of arguments for 'discard' command\r\n".to_owned()),
            "MULTI" | "EXEC" | "DISCARD" | "WATCH" | "UNWATCH" => Some(self.transact(at, name, key)),
            _ => self.change(at, name, words),
        }
    }

    fn transact(&mut self, at: usize, name: &str, key: (u32, String)) -> String {
        let connection = &mut self.connections[at];
        match (name, connection.transaction.take()) {
            ("MULTI", None) => {
                connection.transaction = Some(Vec::new());
                "+OK\r\n".to_owned()
            }
            ("MULTI", Some(queued)) => {
                connection.transaction = Some(queued);
                "-ERR MULTI calls can not be nested\r\n".to_owned()
            }
            ("WATCH", None) => {
                let value = self.strings.get(&key).cloned();
                connection.watched.push((key, value));
                "+OK\r\n".to_owned()
            }
            ("WATCH", Some(queued)) => {
                connection.transaction = Some(queued);
                "-ERR WATCH inside MULTI is not allowed\r\n".to_owned()
            }
            ("UNWATCH", _) => {
                connection.watched.clear();
                "+OK\r\n".to_owned()
            }
            ("DISCARD", Some(_)) => {
                connection.watched.clear();
                "+OK\r\n".to_owned()
            }
            ("EXEC", Some(queued)) => {
                let watched = std::mem::take(&mut connection.watched);
                if std::mem::take(&mut connection.is_spoilt) {
                    return "-EXECABORT Transaction discarded because of previous errors.\r\n".to_owned();
                }
                if watched.iter().any(|(key, value)| self.strings.get(key) != value.as_ref()) {
                    return if connection.resp3 { "_\r\n" } else { "*-1\r\n" }.to_owned();
                }
                let replies: Vec<_> = queued
                    .iter()
                    .map(|words| {
                        self.log.push(words.last().unwrap().clone());
                        self.execute(at, &words[0].to_ascii_uppercase(), words).expect("nothing blocks here")
                    })
                    .collect();
                format!("*{}\r\n{}", replies.len(), replies.concat())
            }
            (_, None) => format!("-ERR {name} without MULTI\r\n"),
            (_, Some(_)) => unreachable!("{name}"),
        }
    }

    /// What changes where a connection stands.
    fn change(&mut self, at: usize, name: &str, words: &[String]) -> Option<String> {
        let word = |n: usize| words.get(n).map_or("", String::as_str);
        let allowed = |user: &str, password: &str| user == "default" || USERS.contains(&(user, password));
        let needs_login = self.needs_login;
        let connection = &mut self.connections[at];
        let is_stranger = needs_login && connection.user.is_none() && !connection.is_let_in;
        let reply = match name {
            "AUTH" if words.len() == 3 && !allowed(word(1), word(2)) => "-WRONGPASS invalid username-password pair\r\n",
            "AUTH" => {
                connection.user = Some(if words.len() == 3 { word(1) } else { "default" }.to_owned());
                "+OK\r\n"
            }
            "HELLO" if word(2) == "AUTH" && !allowed(word(3), word(4)) => {
                "-WRONGPASS invalid username-password pair\r\n"
            }
            "HELLO" if word(2) != "AUTH" && is_stranger => {
                "-NOAUTH HELLO must be called with the client already authenticated\r\n"
            }
            "HELLO" => {
                if word(2) == "AUTH" {
                    connection.user = Some(word(3).to_owned());
                }
                connection.resp3 = word(1) == "3" || connection.resp3 && words.len() == 1;
                if connection.resp3 { "%1\r\n$5\r\nproto\r\n:3\r\n" } else { "*2\r\n$5\r\nproto\r\n:2\r\n" }
            }
            "SELECT" => match word(1).parse() {
                Ok(database) if database < 16 => {
                    connection.database = database;
                    "+OK\r\n"
                }
                _ => "-ERR DB index is out of range\r\n",
            },
            "CLIENT" if word(1).eq_ignore_ascii_case("SETNAME") => {
                word(2).clone_into(&mut connection.name);
                "+OK\r\n"
            }
            "CLIENT" if word(1).eq_ignore_ascii_case("GETNAME") => {
                return Some(if connection.name.is_empty() { self.null(at) } else { bulk(&connection.name) });
            }
            "CLIENT" => "+OK\r\n",
            "RESET" => {
                let fresh = Connection { is_open: true, is_let_in: !needs_login, ..Connection::default() };
                let old = std::mem::replace(connection, fresh);
                (connection.input, connection.output, connection.answered) = (old.input, old.output, old.answered);
                "+RESET\r\n"
            }
            "QUIT" => {
                connection.closed = true;
                "+OK\r\n"
            }
            _ => return Some(format!("-ERR unknown command '{}'\r\n", words[0])),
        };
        Some(reply.to_owned())
    }
}
