//! What is said to a Sentinel and what its answers mean, without a connection.
//!
//! Two connections lead to each: one for questions, one for the messages that it publishes, on which RESP2 takes no
//! questions. The address comes from `SENTINEL GET-MASTER-ADDR-BY-NAME`, which names the new primary in the middle of a
//! failover already; the configuration epoch, by which one answer is newer than another, from `SENTINEL MASTER`.

use std::fmt;
use std::net::Ipv6Addr;

use super::answer::repeatable;
use crate::wire::{Command, Reply};

/// The channel on which a Sentinel tells that another server is the primary, once it knows.
const SWITCHES: &str = "+switch-master";

/// Longest host that is taken from a Sentinel: that of the domain name system.
const HOST_BYTES_MAX: usize = 255;

/// Where a server is, in a Sentinel's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// An address, or a name where Sentinels announce names.
    pub host: Box<str>,
    /// Its port; of TLS, where the server speaks that alone.
    pub port: u16,
}

impl Whereabouts {
    fn new(host: &str, port: &str) -> Option<Self> {
        let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
        let port = port.parse().ok().filter(|&port: &u16| port != 0)?;
        let fits = !host.is_empty() && host.len() <= HOST_BYTES_MAX && host.chars().all(is_fit);
        fits.then(|| Self { host: host.into(), port })
    }
}

impl fmt::Display for Whereabouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.parse::<Ipv6Addr>().is_ok() { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// What a Sentinel has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Where the primary is, and since which epoch of its configuration; 0 where that is not told.
    Primary { at: Whereabouts, epoch: u64 },
    /// It knows no primary by this name.
    UnknownName,
    /// Nothing of use: why.
    Trouble(String),
}

/// What a Sentinel has said of its own accord, and that it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Another server is the primary.
    Switched,
    /// Nothing that matters: another primary's switch, or the answer to a ping.
    Nothing,
    /// It does not let us listen: why.
    Trouble(String),
}

/// What is asked, in this order.
pub(super) fn questions(name: &str) -> [Command; 2] {
    [
        Command::new(&[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name.as_bytes()]),
        Command::new(&[b"SENTINEL", b"MASTER", name.as_bytes()]),
    ]
}

/// What both answers together say.
pub(super) fn read_answers(address: &Reply, details: &Reply) -> Told {
    match address {
        Reply::Null => Told::UnknownName,
        Reply::Error(error) => Told::Trouble(trouble(error)),
        Reply::Array(items) => match items.as_slice() {
            [host, port] => match place(host, port) {
                Some(at) => Told::Primary { at, epoch: epoch(details) },
                None => Told::Trouble("it names a primary by no address".to_owned()),
            },
            _ => Told::Trouble("its answer is none that a Sentinel gives".to_owned()),
        },
        Reply::Simple(_) | Reply::Integer(_) | Reply::Bulk(_) => {
            Told::Trouble("its answer is none that a Sentinel gives".to_owned())
        }
    }
}

/// Where the primary is, by a Sentinel's answer to `SENTINEL GET-MASTER-ADDR-BY-NAME`; `None` where it knows none by that
/// name.
///
/// # Errors
/// Why the answer is of no use, in one line.
pub fn named_primary(reply: &Reply) -> Result<Option<Whereabouts>, String> {
    match read_answers(reply, &Reply::Null) {
        Told::Primary { at, .. } => Ok(Some(at)),
        Told::UnknownName => Ok(None),
        Told::Trouble(why) => Err(why),
    }
}

fn place(host: &Reply, port: &Reply) -> Option<Whereabouts> {
    Whereabouts::new(host.text()?, port.text()?)
}

/// The value behind `config-epoch` in a list of names and values.
fn epoch(details: &Reply) -> u64 {
    let pairs = details.items().unwrap_or_default().chunks_exact(2);
    let mut epochs = pairs.filter(|pair| pair[0].text() == Some("config-epoch")).map(|pair| pair[1].text());
    epochs.next().flatten().and_then(|epoch| epoch.parse().ok()).unwrap_or(0)
}

/// An error in words, with what to do.
fn trouble(error: &[u8]) -> String {
    let said = repeatable(error);
    match said.split(' ').next() {
        Some("NOAUTH") => "it asks for a password (NOAUTH): write sentinel.password_file".to_owned(),
        Some("NOPERM") => format!("it answers \"{said}\": give the user +sentinel, +subscribe, +ping, &{SWITCHES}"),
        Some("ERR") if said.contains("unknown command") => {
            format!("it is no Sentinel, it answers \"{said}\": write the port of the Sentinel")
        }
        _ => format!("it answers \"{said}\""),
    }
}

/// What begins the messages.
pub(super) fn subscribe() -> Command {
    Command::new(&[b"SUBSCRIBE", SWITCHES.as_bytes()])
}

/// What asks for a sign of life between the messages.
pub(super) fn ping() -> Command {
    Command::new(&[b"PING"])
}

/// What came on the connection for messages, where `name` is the primary that matters.
pub(super) fn read_message(reply: &Reply, name: &str) -> Heard {
    if let Reply::Error(error) = reply {
        return Heard::Trouble(trouble(error));
    }
    let words: Vec<_> = reply.items().unwrap_or_default().iter().map(|item| item.text().unwrap_or_default()).collect();
    match words[..] {
        // What else it says, the old address and the new one, has no epoch: the answer to the next question has.
        ["message", SWITCHES, message] if message.split(' ').next() == Some(name) => Heard::Switched,
        _ => Heard::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Reader;

    fn reply(bytes: &str) -> Reply {
        Reader::new(8_192).read(&mut bytes.as_bytes()).unwrap().unwrap()
    }

    fn at(host: &str, port: u16) -> Whereabouts {
        Whereabouts { host: host.into(), port }
    }

    /// As a Sentinel of Redis 7.0 answers SENTINEL MASTER, cut short.
    const DETAILS: &str = "*8\r\n$4\r\nname\r\n$8\r\nmymaster\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n$12\r\nconfig-epoch\r\n\
                           $2\r\n12\r\n$6\r\nquorum\r\n$1\r\n2\r\n";

    #[test]
    fn a_primary_is_told_with_its_epoch() {
        let address = reply("*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n");
        let told = |epoch| Told::Primary { at: at("127.0.0.1", 6379), epoch };
        assert_eq!(read_answers(&address, &reply(DETAILS)), told(12));
        // Where the second question may not be asked.
        assert_eq!(read_answers(&address, &reply("-NOPERM no\r\n")), told(0));
    }

    #[test]
    fn a_name_that_it_does_not_know_is_a_null() {
        let details = reply("-ERR No such master with that name\r\n");
        assert_eq!(read_answers(&reply("*-1\r\n"), &details), Told::UnknownName);
        assert_eq!(read_answers(&reply("$-1\r\n"), &details), Told::UnknownName);
    }

    #[test]
    fn what_is_no_answer_of_a_sentinel_is_told_with_what_to_do() {
        let told = |address: &str| {
            let told = read_answers(&reply(address), &Reply::Null);
            if let Told::Trouble(why) = told { why } else { panic!("{told:?}") }
        };
        assert_eq!(
            told("-ERR unknown command 'SENTINEL', with args beginning with: 'GET-MASTER-ADDR-BY-NAME' 'x' \r\n"),
            "it is no Sentinel, it answers \"ERR unknown command 'SENTINEL', with args beginning with: \
             'GET-MASTER-ADDR-BY-NAME' 'x' \": write the port of the Sentinel"
        );
        let noauth = "it asks for a password (NOAUTH): write sentinel.password_file";
        assert_eq!(told("-NOAUTH Authentication required.\r\n"), noauth);
        assert!(told("-NOPERM this user has no permissions\r\n").contains("&+switch-master"));
        for strange in ["+OK\r\n", ":1\r\n", "*1\r\n$1\r\na\r\n", "*0\r\n"] {
            assert_eq!(told(strange), "its answer is none that a Sentinel gives", "{strange}");
        }
        for (host, port) in [("", "6379"), ("a b", "6379"), ("a", "0"), ("a", "65536"), ("a", "x"), ("a\n", "1")] {
            let address = format!("*2\r\n${}\r\n{host}\r\n${}\r\n{port}\r\n", host.len(), port.len());
            assert_eq!(told(&address), "it names a primary by no address", "{host:?} {port:?}");
        }
    }

    #[test]
    fn a_switch_of_this_primary_is_heard_and_no_other() {
        let message = |text: &str| {
            reply(&format!("*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n${}\r\n{text}\r\n", text.len()))
        };
        let heard = read_message(&message("mymaster 127.0.0.1 6379 127.0.0.1 6380"), "mymaster");
        assert_eq!(heard, Heard::Switched);
        for other in ["mymaster2 127.0.0.1 6379 127.0.0.1 6380", "my mymaster 1 b 2", ""] {
            assert_eq!(read_message(&message(other), "mymaster"), Heard::Nothing, "{other}");
        }
        let subscribed = reply("*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n");
        assert_eq!(read_message(&subscribed, "mymaster"), Heard::Nothing);
        assert_eq!(read_message(&reply("*2\r\n$4\r\npong\r\n$0\r\n\r\n"), "mymaster"), Heard::Nothing);
        let refused = read_message(&reply("-NOPERM no permissions to access a channel\r\n"), "mymaster");
        assert!(matches!(refused, Heard::Trouble(why) if why.contains("&+switch-master")));
    }

    #[test]
    fn whereabouts_are_written_as_addresses_are() {
        let shown = ["10.0.0.1", "::1", "valkey-1.example"].map(|host| at(host, 6379).to_string());
        assert_eq!(shown, ["10.0.0.1:6379", "[::1]:6379", "valkey-1.example:6379"]);
    }

    #[test]
    fn it_is_asked_in_its_own_words() {
        let [address, details] = questions("mymaster");
        let expected = b"*3\r\n$8\r\nSENTINEL\r\n$23\r\nGET-MASTER-ADDR-BY-NAME\r\n$8\r\nmymaster\r\n";
        assert_eq!(address.bytes(), expected);
        assert_eq!(details.bytes(), b"*3\r\n$8\r\nSENTINEL\r\n$6\r\nMASTER\r\n$8\r\nmymaster\r\n");
        assert_eq!(subscribe().bytes(), b"*2\r\n$9\r\nSUBSCRIBE\r\n$14\r\n+switch-master\r\n");
    }
}
