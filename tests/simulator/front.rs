//! What stands in front of words: PROXY headers on either side, and greetings with servers' answers to them.

use ringwall::networks::AddressSet;
use ringwall::shard::{BackendEdge, ListenerEdge};
use ringwall::wire::Template;
use ringwall::wire::proxy::{self, Addresses, Version, write_v1, write_v2};

use crate::simulation::Rng;

/// What a run's listeners and backends wish for.
#[derive(Clone, Debug)]
pub(crate) struct Edges {
    /// Of each listener: whether clients come through a proxy, and whether servers must not be open.
    pub(crate) listeners: Vec<(bool, bool)>,
    /// Of each backend: whether servers are told of clients, and whether connections have names.
    pub(crate) backends: Vec<(Option<Version>, bool)>,
}

impl Edges {
    /// What `seed` stands for, apart from all else that it stands for. Most runs have none.
    pub(crate) fn draw(seed: u64, listeners: usize, backends: usize) -> Self {
        let rng = &mut Rng::new(seed ^ 0x000e_d9e5);
        let rate = if rng.chance(500) { 0 } else { 400 };
        let versions = [Some(Version::V1), Some(Version::V2)];
        Self {
            listeners: (0..listeners).map(|_| (rng.chance(rate), rng.chance(rate))).collect(),
            backends: (0..backends)
                .map(|_| (if rng.chance(rate) { versions[rng.index(2)] } else { None }, rng.chance(rate)))
                .collect(),
        }
    }

    pub(crate) fn listener(&self, number: usize) -> ListenerEdge {
        let (behind_proxy, guards_servers) = self.listeners[number];
        let proxies = behind_proxy.then(|| AddressSet::of(&["10.0.0.0/8".parse().unwrap()]));
        ListenerEdge { proxies, guards_servers, ..ListenerEdge::default() }
    }

    pub(crate) fn backend(&self, number: usize) -> BackendEdge {
        let (send_proxy, named) = self.backends[number];
        let client_name = named.then(|| Template::parse("c:{client_addr}").unwrap());
        BackendEdge { send_proxy, client_name, client_info: None }
    }
}

/// The header of a proxy in front of client `number`, and the address that it names.
pub(crate) fn introduction(number: u16) -> (Vec<u8>, std::net::SocketAddr) {
    let source = std::net::SocketAddr::from(([192, 0, 2, 7], number));
    let addresses = Some(Addresses { source, destination: ([192, 0, 2, 1], 6380).into() });
    let mut header = Vec::new();
    if number.is_multiple_of(2) {
        write_v1(&mut header, addresses);
    } else {
        write_v2(&mut header, addresses, &proxy::Tlvs::default());
    }
    (header, source)
}

/// How a server answers whoever has not authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manners {
    Closed,
    Open,
    /// As no server does.
    Odd,
}

impl Manners {
    pub(crate) fn draw(rng: &mut Rng, calm: bool) -> Self {
        match rng.below(10) {
            8 if !calm => Self::Open,
            9 if !calm => Self::Odd,
            _ => Self::Closed,
        }
    }
}

/// What a server takes off the front of what it hears, and what it says to it.
#[derive(Debug)]
pub(crate) struct Front {
    expects_header: bool,
    /// Commands may come in front of words.
    pub(crate) expects_greeting: bool,
    manners: Manners,
    header: Vec<u8>,
    commands: Vec<u8>,
    /// Answers that are still to be said.
    pub(crate) answers: Vec<u8>,
}

impl Front {
    pub(crate) fn new(expects_header: bool, expects_greeting: bool, manners: Manners) -> Self {
        let (header, commands, answers) = (Vec::new(), Vec::new(), Vec::new());
        Self { expects_header, expects_greeting, manners, header, commands, answers }
    }

    /// Whether nothing can have been said to it that is no word.
    pub(crate) const fn is_bare(&self) -> bool {
        !self.expects_header && !self.expects_greeting && self.header.is_empty()
    }

    /// Takes a header off; gives what is behind it.
    pub(crate) fn take_header<'w>(&mut self, wire: &'w [u8]) -> &'w [u8] {
        if !self.expects_header {
            return wire;
        }
        let before = self.header.len();
        self.header.extend_from_slice(wire);
        match proxy::parse(&self.header).expect("the proxy writes good headers") {
            None => &[],
            Some(header) => {
                assert!(header.addresses.is_some(), "the proxy knows its clients");
                self.expects_header = false;
                &wire[header.len - before..]
            }
        }
    }

    /// Takes commands off and answers them; gives the words behind them. No word begins like a command.
    pub(crate) fn take_commands(&mut self, plaintext: &[u8]) -> Vec<u8> {
        if !self.expects_greeting {
            return plaintext.to_vec();
        }
        self.commands.extend_from_slice(plaintext);
        while let Some(&first) = self.commands.first() {
            if first != b'*' {
                self.expects_greeting = false;
                return std::mem::take(&mut self.commands);
            }
            let Some(len) = command_len(&self.commands) else { break };
            let answer: &[u8] = match (&self.commands[..len], self.manners) {
                (_, Manners::Odd) => b"HTTP/1.1 400 Bad Request\r\n",
                (b"*1\r\n$4\r\nPING\r\n", Manners::Open) => b"+PONG\r\n",
                (_, Manners::Closed) => b"-NOAUTH Authentication required.\r\n",
                (_, Manners::Open) => b"+OK\r\n",
            };
            self.answers.extend_from_slice(answer);
            self.commands.drain(..len);
        }
        Vec::new()
    }
}

/// How long the command at the front is, once it is whole: a line for the array, and two for each of its parts.
fn command_len(bytes: &[u8]) -> Option<usize> {
    let mut ends = bytes.windows(2).enumerate().filter(|(_, pair)| *pair == b"\r\n").map(|(at, _)| at + 2);
    let first = ends.next()?;
    let parts: usize = str::from_utf8(&bytes[1..first - 2]).unwrap().parse().unwrap();
    ends.nth(2 * parts - 1)
}
