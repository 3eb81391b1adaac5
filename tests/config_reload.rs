//! What a reload makes of a configuration that has changed: what it tells of it, and what it refuses.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use ringwall::config::{Changes, Config, Machine};

mod config_support;
use config_support::{MINIMAL, machine};

const TWO: &str = r#"
[[listener]]
name = "public"
bind = "127.0.0.1:6380"
backend = "first"
plain = true
[[listener]]
name = "private"
bind = "127.0.0.1:6381"
backend = "second"
plain = true
[[backend]]
name = "first"
servers = ["127.0.0.1:6379"]
[[backend]]
name = "second"
servers = ["valkey.example:6379"]
[limits]
max_connections = 100
"#;

fn parse_on(machine: &Machine, text: &str) -> Config {
    Config::parse(text.as_bytes(), Path::new("f.toml"), machine).unwrap()
}

fn parse(text: &str) -> Config {
    parse_on(&machine(), text)
}

/// One of its listeners.
const PRIVATE: &str =
    "[[listener]]\nname = \"private\"\nbind = \"127.0.0.1:6381\"\nbackend = \"second\"\nplain = true\n";

/// What a reload tells of `TWO` with some texts replaced.
fn changes(replaced: &[(&str, &str)]) -> String {
    let text = replaced.iter().fold(TWO.to_owned(), |text, (before, after)| {
        assert!(text.contains(before), "{before}");
        text.replacen(before, after, 1)
    });
    Changes::between(&parse(TWO), &parse(&text)).to_string()
}

#[test]
fn what_has_come_gone_or_changed_is_told_in_one_line() {
    assert_eq!(changes(&[]), "none");
    assert_eq!(changes(&[("[limits]", "# a remark\n[limits]")]), "none");
    assert_eq!(changes(&[(PRIVATE, "")]), "listeners removed: private");
    assert_eq!(
        changes(&[("name = \"private\"", "name = \"other\"")]),
        "listeners added: other; listeners removed: private"
    );
    assert_eq!(changes(&[("127.0.0.1:6381", "127.0.0.1:6382")]), "listeners changed: private");
    assert_eq!(
        changes(&[("servers = [\"127.0.0.1:6379\"]", "servers = [\"127.0.0.1:6378\"]")]),
        "backends changed: first"
    );
    assert_eq!(
        changes(&[
            (
                "max_connections = 100",
                "max_connections = 99\n[log]\nlevel = \"warn\"\n[admin]\nlisten = \"unix:/run/a\""
            ),
            ("backend = \"second\"", "backend = \"first\""),
        ]),
        "listeners changed: private; changed: limits, log, admin"
    );
}

#[test]
fn what_follows_from_something_else_is_told_where_that_is_written() {
    // What is not written of a listener is as the limits say.
    assert_eq!(changes(&[("max_connections = 100", "max_connections = 99")]), "changed: limits");
    assert_eq!(
        changes(&[("max_connections = 100", "idle_timeout = \"1h\"\nmax_connections = 100")]),
        "changed: limits"
    );
    let own = [("[[backend]]", "max_connections = 7\n[[backend]]"), ("max_connections = 100", "max_connections = 99")];
    assert_eq!(changes(&own), "listeners changed: private; changed: limits");
    // How many connections fit the machine depends on how many listeners there are.
    let small = Machine { open_files_max: 1_001, ..machine() };
    let two = TWO.replace("max_connections = 100\n", "");
    let one = two.replace(PRIVATE, "");
    let (two, one) = (parse_on(&small, &two), parse_on(&small, &one));
    assert_ne!(two.limits.max_connections, one.limits.max_connections);
    assert_eq!(Changes::between(&two, &one).to_string(), "listeners removed: private");
    assert_eq!(Changes::between(&one, &two).to_string(), "listeners added: private");
}

#[test]
fn the_same_in_other_words_is_no_change() {
    assert_eq!(changes(&[("plain = true", "plain = true\nidle_timeout = \"off\"")]), "none");
    assert_eq!(changes(&[("[limits]", "[limits]\nconnect_timeout = \"5000ms\"")]), "none");
}

#[test]
fn a_backend_in_another_place_of_the_file_changes_no_listener() {
    let (first, second) = TWO.split_once("[[backend]]\nname = \"second\"").unwrap();
    let (before, first_backend) = first.split_once("[[backend]]").unwrap();
    let (second_backend, limits) = second.split_once("[limits]").unwrap();
    let turned =
        format!("{before}[[backend]]\nname = \"second\"{second_backend}[[backend]]{first_backend}[limits]{limits}");
    assert_ne!(turned, TWO);
    assert_eq!(Changes::between(&parse(TWO), &parse(&turned)).to_string(), "none");
}

#[test]
fn a_name_that_leads_elsewhere_is_a_change() {
    let moved = Machine { resolve: |_, port| Ok(vec![([10, 0, 0, 9], port).into()]), ..machine() };
    assert_eq!(Changes::between(&parse(TWO), &parse_on(&moved, TWO)).to_string(), "backends changed: second");
}

/// Why a process that runs with the minimal file and these lines does not go over to those.
fn refusal(running: &str, wanted: &str) -> Option<String> {
    let with = |lines: &str| parse(&format!("{MINIMAL}\n{lines}"));
    with(wanted).check_reload(&with(running), 100).err().map(|error| error.to_string())
}

#[test]
fn keys_that_take_a_restart_are_named_with_both_values_and_all_at_once() {
    const LIMITS: &str = "[limits]\nmax_connections = 100\n";
    let refusal = |running: &str, wanted: &str| refusal(&format!("{LIMITS}{running}"), &format!("{LIMITS}{wanted}"));
    let cannot = |what: &str| {
        Some(format!(
            "f.toml: {what}; send SIGUSR2, by which a new process takes over without closing a listener, or restart"
        ))
    };
    assert_eq!(refusal("", ""), None);
    assert_eq!(
        refusal("[runtime]\nshards = 2", "[runtime]\nshards = 4"),
        cannot("runtime.shards cannot change without a restart: it is 2, and the file says 4")
    );
    assert_eq!(
        refusal("[runtime]\ncores = [0, 1]", "[runtime]\ncores = [2, 3]"),
        cannot("runtime.cores cannot change without a restart: it is [0, 1], and the file says [2, 3]")
    );
    assert_eq!(
        refusal("[runtime]\nshards = 3", "[runtime]\nshards = 3\ncores = [0, 1, 2]\ndispatcher_core = 3"),
        cannot("runtime.dispatcher_core cannot change without a restart: it is not given, and the file says 3")
    );
    assert_eq!(
        refusal("", "[log]\nkey_log = \"/var/log/k\""),
        cannot("log.key_log cannot change without a restart: it is not given, and the file says /var/log/k")
    );
    assert_eq!(refusal("", "[log]\ntarget = \"/l\"\nformat = \"json\"\n[admin]\nlisten = \"unix:/run/a\""), None);
}

#[test]
fn a_number_of_connections_that_fits_the_machine_and_is_not_written_stays_within_that_of_the_start() {
    let small = Machine { open_files_max: 1_000, ..machine() };
    let unwritten = TWO.replace("max_connections = 100\n", "");
    let (running, mut fewer) = (parse_on(&small, &unwritten), parse_on(&small, &unwritten.replace(PRIVATE, "")));
    let at_the_start = running.limits.max_connections;
    fewer.limits.max_connections = at_the_start + 1;
    assert!(fewer.check_reload(&running, at_the_start).is_err());
    fewer.fit_connections(at_the_start);
    assert_eq!(fewer.check_reload(&running, at_the_start), Ok(()));
    let mut written = parse(TWO);
    written.fit_connections(50);
    assert_eq!(written.limits.max_connections, 100);
}

#[test]
fn fewer_connections_than_at_the_start_are_taken_and_more_are_not() {
    let limit = |max| format!("[limits]\nmax_connections = {max}");
    assert_eq!(refusal(&limit(100), &limit(1)), None);
    assert_eq!(refusal(&limit(1), &limit(100)), None);
    assert_eq!(
        refusal(&limit(50), &limit(101)).unwrap(),
        "f.toml: limits.max_connections cannot grow beyond 100 without a restart, since tables are made for as many at the \
         start, and the file says 101; send SIGUSR2, by which a new process takes over without closing a listener, or restart"
    );
}

#[test]
fn a_warning_is_told_by_the_reload_that_brings_it() {
    let spare = |name: &str| format!("[[backend]]\nname = \"{name}\"\nservers = [\"unix:/s\"]\n");
    let (none, one) = (parse(TWO), parse(&(TWO.to_owned() + &spare("x"))));
    let both = parse(&(TWO.to_owned() + &spare("x") + &spare("y")));
    assert_eq!(one.warnings_beyond(&none), ["f.toml:20: backend: \"x\" is used by no listener; leave it out"]);
    assert_eq!(one.warnings_beyond(&one), [""; 0]);
    assert_eq!(both.warnings_beyond(&one), ["f.toml:23: backend: \"y\" is used by no listener; leave it out"]);
    assert_eq!(one.warnings_beyond(&both), [""; 0]);
}

#[test]
fn that_fewer_connections_fit_is_told_again_when_it_is_another_number() {
    let unwritten = TWO.replace("max_connections = 100\n", "");
    let on = |files, text: &str| parse_on(&Machine { open_files_max: files, ..machine() }, text);
    let told = |config: &Config, running: &Config| {
        config
            .warnings_beyond(running)
            .iter()
            .filter(|warning| warning.contains("limits.max_connections: lowered"))
            .count()
    };
    let (running, mut one_more_fits) = (on(1_001, &unwritten), on(1_001, &unwritten.replace(PRIVATE, "")));
    assert_eq!(told(&one_more_fits, &running), 1);
    one_more_fits.fit_connections(running.limits.max_connections);
    assert_eq!(told(&one_more_fits, &running), 0);
    assert_eq!(told(&on(901, &unwritten), &running), 1);
    assert_eq!(told(&running, &parse(TWO)), 1);
}
