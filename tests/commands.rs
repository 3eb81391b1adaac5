//! The table of commands against what a server tells of its own: every command goes the way its flags demand.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "multiplex/redis.rs"]
mod redis;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};

use ringwall::multiplex::Family;
use ringwall::multiplex::route::{Command, Effect, Route, arguments, is_plain_line, look_up, names, route};
use ringwall::wire::frame::Form;

#[derive(Debug)]
enum Reply {
    Text(String),
    Array(Vec<Self>),
}

impl Reply {
    fn read(stream: &mut impl BufRead) -> Self {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let rest = line[1..].trim_end();
        match &line[..1] {
            "*" | "~" => Self::Array((0..rest.parse().unwrap()).map(|_| Self::read(stream)).collect()),
            "$" => {
                let mut text = vec![0; rest.parse::<usize>().unwrap() + 2];
                stream.read_exact(&mut text).unwrap();
                text.truncate(text.len() - 2);
                Self::Text(String::from_utf8(text).unwrap())
            }
            "+" | ":" => Self::Text(rest.to_owned()),
            _ => panic!("no part of a reply to COMMAND: {line}"),
        }
    }

    fn items(&self) -> &[Self] {
        match self {
            Self::Array(items) => items,
            Self::Text(text) => panic!("not an array: {text}"),
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Array(_) => panic!("not a text"),
        }
    }
}

/// Flags and categories of each command and subcommand.
type Flags = BTreeMap<String, Vec<String>>;

fn collect(commands: &[Reply], found: &mut Flags) {
    for command in commands.iter().map(Reply::items) {
        let name = command[0].text().to_owned();
        let flags = command[2].items().iter().chain(command[6].items()).map(|flag| flag.text().to_owned());
        let subcommands = command[9].items();
        collect(subcommands, found);
        // A container does nothing itself, but for COMMAND.
        if subcommands.is_empty() || name == "command" {
            found.insert(name, flags.collect());
        }
    }
}

/// The way that a command's flags demand.
fn demanded(name: &str, flags: &[String]) -> Route {
    let has = |flag: &str| flags.iter().any(|have| have == flag);
    match name {
        "auth" => Route::Own(Effect::Auth),
        "hello" => Route::Own(Effect::Hello),
        "select" => Route::Own(Effect::Select),
        "client|setname" => Route::Own(Effect::SetName),
        "client|setinfo" => Route::Own(Effect::SetInfo),
        "client|getname" => Route::Own(Effect::Nothing),
        "readonly" => Route::Own(Effect::ReadOnly),
        "readwrite" => Route::Own(Effect::ReadWrite),
        "asking" => Route::Own(Effect::Asking),
        "reset" => Route::Own(Effect::Reset),
        "multi" => Route::Own(Effect::Multi),
        "exec" | "discard" => Route::Own(Effect::EndMulti),
        "watch" => Route::Own(Effect::Watch),
        "unwatch" => Route::Own(Effect::Unwatch),
        "wait" | "waitaof" => Route::Wait,
        "quit" => Route::Quit,
        // What clients say when they connect, or to stay connected: of the connection it tells and changes nothing.
        "ping" | "echo" | "info" | "client|help" => Route::Shared,
        _ if name == "command" || name.starts_with("command|") => Route::Shared,
        // It makes the connection one with a debugger.
        "script|debug" => Route::Pinned,
        _ if ["admin", "module", "@admin", "@dangerous", "@connection", "@transaction"]
            .iter()
            .any(|flag| has(flag)) =>
        {
            Route::Pinned
        }
        _ if has("@pubsub") && has("noscript") => Route::Pinned,
        // They take the word BLOCK.
        "xread" | "xreadgroup" => Route::Shared,
        _ if has("blocking") => Route::Own(Effect::Nothing),
        // They are for a server that is held up by a script, and must not wait behind it.
        _ if has("allow_busy") => Route::Own(Effect::Nothing),
        _ => Route::Shared,
    }
}

/// The group of each command and subcommand, as a server documents it.
fn groups(documented: &Reply, found: &mut BTreeMap<String, String>) {
    for pair in documented.items().chunks(2) {
        let facts = pair[1].items();
        let fact = |wanted: &str| facts.chunks(2).find(|fact| fact[0].text() == wanted).map(|fact| &fact[1]);
        if let Some(subcommands) = fact("subcommands") {
            groups(subcommands, found);
        }
        found.insert(pair[0].text().to_owned(), fact("group").unwrap().text().replace('-', "_"));
    }
}

fn command(name: &str) -> Option<Command> {
    look_up(name.split('|').map(str::as_bytes)).map(|(command, _)| command)
}

#[test]
fn every_command_is_of_the_family_that_the_server_names_unless_it_may_block() {
    let server = redis::Redis::start();
    let (mut documented, mut flags) = (BTreeMap::new(), Flags::new());
    for question in [&b"COMMAND DOCS\r\n"[..], b"COMMAND\r\n"] {
        let mut stream = server.connect();
        stream.write_all(question).unwrap();
        let answer = Reply::read(&mut BufReader::new(stream));
        if question == b"COMMAND\r\n" { collect(answer.items(), &mut flags) } else { groups(&answer, &mut documented) }
    }
    let blocks = |name: &str| flags.get(name).is_some_and(|flags| flags.iter().any(|flag| flag == "blocking"));
    let mut checked = 0;
    let wrong: Vec<_> = documented
        .iter()
        .filter_map(|(name, group)| {
            let family = command(name)?.family().label();
            checked += 1;
            // They take the word BLOCK.
            let may_block = blocks(name) && !["xread", "xreadgroup", "wait", "waitaof"].contains(&&**name);
            let wanted = if may_block { "blocking" } else { group };
            (family != wanted).then(|| format!("{name}: {wanted}, and not {family}\n"))
        })
        .collect();
    assert!(wrong.is_empty(), "src/multiplex/commands.rs must have\n{}", wrong.concat());
    assert!(checked > 250, "{checked}");
}

#[test]
fn a_command_has_its_name_in_the_table_and_is_of_those_that_block_when_it_asks_to() {
    assert_eq!(command("GeT").map(|of| (of.name(), of.family())), Some(("get", Family::String)));
    assert_eq!(command("Object|Encoding|k").map(Command::name), Some("object|encoding"));
    assert_eq!(command("zunion").map(|of| (of.name(), of.family())), Some(("zunion", Family::SortedSet)));
    assert_eq!(command("xread|streams|s|0").map(Command::family), Some(Family::Stream));
    let blocking = command("xread|block|0|streams|s|$");
    assert_eq!(blocking.map(|of| (of.name(), of.family())), Some(("xread", Family::Blocking)));
    assert_eq!((command("client"), command("ft.search"), command("object|")), (None, None, None));
}

fn of(name: &str) -> Route {
    route(name.split('|').map(str::as_bytes))
}

#[test]
fn every_command_of_the_server_goes_the_way_its_flags_demand() {
    let server = redis::Redis::start();
    let mut commands = Flags::new();
    let mut stream = server.connect();
    stream.write_all(b"COMMAND\r\n").unwrap();
    collect(Reply::read(&mut BufReader::new(stream)).items(), &mut commands);
    assert!(commands.len() > 300, "a server tells of all its commands");
    let wrong: Vec<_> = commands
        .iter()
        .map(|(name, flags)| (name, demanded(name, flags)))
        .filter(|(name, demanded)| of(name) != *demanded)
        .map(|(name, demanded)| format!("(\"{name}\", Route::{demanded:?}), and not {:?}\n", of(name)))
        .collect();
    assert!(wrong.is_empty(), "src/multiplex/commands.rs must have\n{}", wrong.concat());
}

#[test]
fn the_table_is_in_order_and_names_each_command_once() {
    let names: Vec<_> = names().collect();
    assert!(names.is_sorted_by(|a, b| a < b));
    assert!(names.iter().all(|name| name.to_ascii_lowercase() == **name));
}

#[test]
fn names_are_found_in_any_case_and_only_whole() {
    assert_eq!(of("GeT"), Route::Shared);
    assert_eq!(of("client|SETINFO|lib-name|x"), Route::Own(Effect::SetInfo));
    assert_eq!(of("ge"), Route::Pinned);
    assert_eq!(of("gett"), Route::Pinned);
    assert_eq!(of("get\0"), Route::Pinned);
    assert_eq!(of("bgrewriteaof"), Route::Pinned);
    assert_eq!(of("ZREVRANGEBYSCORE"), Route::Shared);
    assert_eq!(of("client"), Route::Pinned);
    assert_eq!(of("client|"), Route::Pinned);
    assert_eq!(of(""), Route::Pinned);
    assert_eq!(of("ft.search"), Route::Pinned);
    assert_eq!(of("get|set"), Route::Shared);
    assert_eq!(of(&"a".repeat(100)), Route::Pinned);
    // No server takes this for a subcommand.
    assert_eq!(route([b"client|setname".as_slice()].into_iter()), Route::Pinned);
}

#[test]
fn a_stream_is_read_over_a_shared_connection_unless_it_may_block() {
    assert_eq!(of("xread|count|1|streams|s|0"), Route::Shared);
    assert_eq!(of("xread|block|0|streams|s|$"), Route::Own(Effect::Nothing));
    assert_eq!(of("xreadgroup|group|streams|c|Block|0|streams|s|>"), Route::Own(Effect::Nothing));
}

#[test]
fn arguments_are_those_that_were_sent() {
    let request = b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\n\r\n*1\r\n";
    let found: Vec<_> = arguments(request, Form::Array(3)).collect();
    assert_eq!(found, [b"SET".as_slice(), b"", b"\r\n*1"]);
    let found: Vec<_> = arguments(b"  SET\ta  b\r\n", Form::Inline).collect();
    assert_eq!(found, [b"SET".as_slice(), b"a", b"b"]);
    assert_eq!(arguments(b"\r\n", Form::Inline).next(), None);
    assert!(is_plain_line(b"SET a b\r\n") && !is_plain_line(b"SET a \"b c\"\r\n") && !is_plain_line(b"SET a\0 b\n"));
}
