//! What a listener says of whom it lets in and of its own sessions: what is accepted, and what each mistake is told.

use std::time::Duration;

use ringwall::config::{Admission, Coalesce, Config, SessionLimits, Unreachable};
use ringwall::dispatcher::Rates;

mod config_support;
use config_support::{MINIMAL, machine, parse_on, refusal};

/// The minimal file with `keys` of its listener, from line 5 on.
fn with(keys: &str) -> String {
    MINIMAL.replacen("\n[[backend]]", &format!("{keys}\n\n[[backend]]"), 1)
}

fn parse(text: &str) -> Config {
    parse_on(&machine(), text).unwrap_or_else(|error| panic!("{error}\nin: {text}"))
}

fn warnings(keys: &str) -> Vec<String> {
    parse(&with(keys)).warnings
}

/// Every key of a listener that is looked at here, each with another value than its default.
const KEYS: &str = r#"max_connections = 7
max_connections_per_source = 5
connection_rate = 100
connection_rate_per_source = 10
handshake_rate = 1000000
handshake_rate_per_source = 1
allow = ["10.0.0.0/8", "::1"]
deny = ["10.1.0.0/16", "10.2.0.1"]
listen_backlog = 65535
idle_timeout = "168h"
half_close_timeout = "100ms"
max_lifetime = "1h"
tcp_user_timeout = "1s"
send_buffer = "16MiB"
coalesce = "unbounded"
unreachable = "close""#;

#[test]
fn every_key_of_a_listener_takes_what_the_reference_says() {
    let config = parse(&with(KEYS));
    let listener = &config.listeners[0];
    let networks = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
    assert_eq!(
        listener.admission,
        Admission {
            max_connections: 7,
            max_connections_per_source: Some(5),
            connection_rates: Rates { total: Some(100), per_source: Some(10) },
            handshake_rates: Rates { total: Some(1_000_000), per_source: Some(1) },
            allow: networks(&["10.0.0.0/8", "::1/128"]),
            deny: networks(&["10.1.0.0/16", "10.2.0.1/32"]),
        }
    );
    assert_eq!((listener.unreachable, listener.listen_backlog), (Unreachable::Close, 65_535));
    assert_eq!(
        listener.session,
        SessionLimits {
            idle_timeout: Some(Duration::from_secs(604_800)),
            half_close_timeout: Duration::from_millis(100),
            max_lifetime: Some(Duration::from_secs(3_600)),
            tcp_user_timeout: Some(Duration::from_secs(1)),
            send_buffer: 16_777_216,
            coalesce: Coalesce::Unbounded,
        }
    );
    // Twice the buffer and 304 KiB.
    assert_eq!(config.session_memory_max(), 33_865_728);
}

#[test]
fn what_a_listener_turns_off_is_off_whatever_holds_for_all() {
    let keys = "idle_timeout = \"off\"\nmax_lifetime = \"off\"\ntcp_user_timeout = \"off\"";
    let sections = "[limits]\nidle_timeout = \"1m\"\nmax_lifetime = \"8760h\"\n";
    let config = parse(&format!("{}{sections}", with(keys)));
    assert_eq!(config.limits.max_lifetime, Some(Duration::from_secs(31_536_000)));
    let session = config.listeners[0].session;
    assert_eq!((session.idle_timeout, session.max_lifetime, session.tcp_user_timeout), (None, None, None));
}

#[test]
fn a_value_of_a_listener_out_of_bounds_is_told_the_bounds() {
    for (key, value, bounds) in [
        ("max_connections_per_source", "0", "1 to 1000000"),
        ("connection_rate", "0", "1 to 1000000"),
        ("connection_rate_per_source", "1000001", "1 to 1000000"),
        ("handshake_rate", "-1", "1 to 1000000"),
        ("handshake_rate_per_source", "1000001", "1 to 1000000"),
        ("listen_backlog", "65536", "1 to 65535"),
        ("idle_timeout", "\"169h\"", "1s to 168h, or \"off\""),
        ("half_close_timeout", "\"99ms\"", "100ms to 1h"),
        ("max_lifetime", "\"999ms\"", "1s to 8760h, or \"off\""),
        ("tcp_user_timeout", "\"2h\"", "1s to 1h, or \"off\""),
        ("send_buffer", "\"17MiB\"", "64KiB to 16MiB"),
        ("coalesce", "1023", "1KiB to 1MiB, or \"off\", or \"unbounded\""),
    ] {
        assert_eq!(
            refusal(&with(&format!("{key} = {value}"))),
            format!("5: listener.{key}: {value} is out of bounds: {bounds}")
        );
    }
    assert_eq!(
        refusal(&format!("{MINIMAL}[limits]\nmax_lifetime = \"0s\"")),
        "10: limits.max_lifetime: \"0s\" is out of bounds: 1s to 8760h, or \"off\""
    );
}

#[test]
fn one_source_cannot_have_more_connections_than_all() {
    let text = with("max_connections = 10\nmax_connections_per_source = 11");
    let problem = "6: listener.max_connections_per_source: 11 is more than the listener's max_connections, which is 10";
    assert_eq!(refusal(&text), problem);
    assert_eq!(
        refusal(&format!("{}[limits]\nmax_connections = 9\n", with("max_connections_per_source = 10"))),
        "5: listener.max_connections_per_source: 10 is more than the listener's max_connections, which is 9"
    );
    assert!(parse_on(&machine(), &with("max_connections = 10\nmax_connections_per_source = 10")).is_ok());
}

#[test]
fn what_is_no_network_is_told_how_to_write_one() {
    for (value, problem) in [
        ("\"10.0.0.0/8\"", "is not a list of networks, such as [\"192.0.2.0/24\", \"2001:db8::/32\"]"),
        ("[]", "is empty: write a list of networks, such as [\"192.0.2.0/24\", \"2001:db8::/32\"]"),
    ] {
        assert_eq!(refusal(&with(&format!("allow = {value}"))), format!("5: listener.allow: {value} {problem}"));
    }
    for (network, problem) in [
        (
            "\"example\"",
            "is not a network: write an address, \"192.0.2.1\", or a network and its prefix, \"192.0.2.0/24\" or \
             \"2001:db8::/32\"",
        ),
        ("\"10.0.0.1/8\"", "has bits behind its prefix: write \"10.0.0.0/8\""),
        ("\"10.0.0.0/33\"", "has a prefix of 33 bits; that of IPv4 has 0 to 32"),
        ("\"::ffff:10.0.0.0/104\"", "is an IPv4 network in the form of IPv6: write \"10.0.0.0/8\""),
        ("10", "is not a text; deny is a list of networks, such as [\"192.0.2.0/24\", \"2001:db8::/32\"]"),
    ] {
        let text = with(&format!("deny = [\n  \"192.0.2.1\",\n  {network},\n]"));
        assert_eq!(refusal(&text), format!("7: listener.deny: {network} {problem}"));
    }
    let networks: Vec<_> = (0..=4_096_u32).map(|n| format!("\"10.0.{}.{}\"", n >> 8, n & 255)).collect();
    assert_eq!(
        refusal(&with(&format!("deny = [{}]", networks.join(", ")))),
        "5: listener.deny: \"10.0.16.0\" is one too many; there may be 4096"
    );
}

#[test]
fn a_network_that_is_allowed_and_denied_is_a_mistake() {
    let problem = "6: listener.deny: \"10.0.0.0/8\" is in allow as well: leave it in one of the two lists";
    assert_eq!(refusal(&with("allow = [\"10.0.0.0/8\"]\ndeny = [\"10.0.0.0/8\"]")), problem);
    let problem = "5: listener.deny: \"192.0.2.1/32\" is in allow as well: leave it in one of the two lists";
    assert_eq!(refusal(&with("deny = [\"192.0.2.1/32\"]\nallow = [\"192.0.2.1\"]")), problem);
}

#[test]
fn a_network_that_another_of_its_list_contains_is_a_mistake() {
    for (keys, problem) in [
        ("deny = [\"10.1.0.0/16\", \"10.0.0.0/8\"]", "\"10.1.0.0/16\" lies in 10.0.0.0/8"),
        ("deny = [\"192.0.2.1\", \"192.0.2.1/32\"]", "\"192.0.2.1/32\" lies in 192.0.2.1/32"),
        ("deny = [\"::/0\", \"10.0.0.0/8\", \"2001:db8::1\"]", "\"2001:db8::1\" lies in ::/0"),
    ] {
        let problem = format!("5: listener.deny: {problem}, which is in the list already: leave out one of the two");
        assert_eq!(refusal(&with(keys)), problem);
    }
    assert_eq!(
        refusal(&with("allow = [\"10.0.0.0/8\", \"10.0.0.0/8\"]")),
        "5: listener.allow: \"10.0.0.0/8\" is listed twice"
    );
    // With one of the other list between them both count.
    let keys = "allow = [\"10.0.0.0/8\", \"10.1.2.0/24\", \"127.0.0.1\"]\ndeny = [\"10.1.0.0/16\"]";
    assert_eq!(warnings(keys), [""; 0]);
}

#[test]
fn a_denied_network_that_nobody_was_let_in_from_anyway_is_a_warning() {
    assert_eq!(
        warnings("allow = [\"10.0.0.0/8\", \"127.0.0.1\"]\ndeny = [\"192.0.2.0/24\", \"10.1.0.0/16\"]"),
        [
            "/etc/ringwall.toml:6: listener.deny: \"192.0.2.0/24\" changes nothing: it lies in no network of allow, and who \
             is in none is not let in"
        ]
    );
    assert_eq!(warnings("deny = [\"192.0.2.0/24\"]"), [""; 0]);
}

#[test]
fn a_listener_s_send_buffer_fits_the_memory_of_a_shard() {
    let text = format!("{}[limits]\nshard_memory = \"16MiB\"\n", with("send_buffer = \"8MiB\""));
    assert_eq!(
        refusal(&text),
        "5: listener.send_buffer: \"8MiB\" does not fit: with it one session may hold 17088512 bytes, and \
         limits.shard_memory is 16MiB"
    );
    let config = parse(&text.replace("8MiB", "4MiB"));
    // Twice the buffer and 304 KiB.
    assert_eq!(config.session_memory_max(), 8_699_904);
}

#[test]
fn what_clients_see_without_a_server_is_one_of_two_words() {
    let problem = "5: listener.unreachable: \"cut\" is none of \"error\", \"close\"";
    assert_eq!(refusal(&with("unreachable = \"cut\"")), problem);
}

#[test]
fn what_a_listener_leaves_out_is_as_under_limits() {
    let sections =
        "[limits]\nidle_timeout = \"1m\"\nlisten_backlog = 7\nsend_buffer = \"1MiB\"\n[coalesce]\nbytes = \"off\"\n";
    let of_all = parse(&format!("{MINIMAL}{sections}")).listeners.remove(0);
    let same = with("idle_timeout = \"1m\"\nlisten_backlog = 7\nsend_buffer = \"1MiB\"\ncoalesce = \"off\"");
    assert_eq!(parse(&same).listeners.remove(0), of_all);
}
