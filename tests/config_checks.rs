//! A backend's `health_check` and `sentinel` tables, word for word.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringwall::config::{Backend, CheckKind, Config, HealthCheck, Keyring, Login, OnDemotion, Sentinel, WantedRole};
use ringwall::tls::ServerAuth;
use tempfile::TempDir;

mod config_support;
use config_support::{MINIMAL, machine, parse_on, refusal_of_minimal_with};

/// What the minimal file's backend says of servers.
const SERVERS: &str = "servers = [\"127.0.0.1:6379\"]";

fn backend(keys: &str) -> Backend {
    parse_on(&machine(), &MINIMAL.replacen(SERVERS, keys, 1)).expect("a valid configuration").backends.remove(0)
}

fn check(keys: &str) -> HealthCheck {
    backend(&format!("{SERVERS}\nhealth_check = {{ {keys} }}")).health_check.unwrap()
}

fn sentinel(keys: &str) -> Sentinel {
    backend(&format!("sentinel = {{ {keys} }}")).sentinel.unwrap()
}

/// The refusals of keys of a backend, which begin with the line and the key.
fn assert_refused(cases: &[(&str, &str)]) {
    for (keys, message) in cases {
        assert_eq!(refusal_of_minimal_with(SERVERS, keys), *message, "{keys}");
    }
}

/// As [`assert_refused`], of keys of `health_check`.
fn assert_check_refused(cases: &[(&str, &str)]) {
    for (keys, message) in cases {
        let keys = format!("{SERVERS}\nhealth_check = {{ {keys} }}");
        assert_eq!(refusal_of_minimal_with(SERVERS, &keys), format!("9: backend.health_check{message}"), "{keys}");
    }
}

const MASTER: &str = "addresses = [\"10.0.0.1:26379\"], name = \"mymaster\"";

/// As [`assert_refused`], of keys of `sentinel`.
fn assert_sentinel_refused(cases: &[(&str, &str)]) {
    for (keys, message) in cases {
        let keys = format!("sentinel = {{ {keys} }}");
        assert_eq!(refusal_of_minimal_with(SERVERS, &keys), format!("8: backend.sentinel{message}"), "{keys}");
    }
}

#[test]
fn a_backend_has_no_checks_unless_it_says_so() {
    let backend = backend(SERVERS);
    assert_eq!((backend.health_check, backend.sentinel), (None, None));
}

#[test]
fn a_check_needs_a_type_and_nothing_else() {
    let expected = HealthCheck {
        kind: CheckKind::Ping,
        interval: Duration::from_secs(2),
        timeout: Duration::from_secs(1),
        rise: 2,
        fall: 3,
        login: None,
        on_demotion: OnDemotion::Close,
    };
    assert_eq!(check("type = \"ping\""), expected);
    assert_eq!(check("type = \"tcp\""), HealthCheck { kind: CheckKind::Tcp, ..expected.clone() });
    assert_eq!(check("type = \"role\"").kind, CheckKind::Role(WantedRole::Primary));
    assert_eq!(check("type = \"role\", role = \"replica\"").kind, CheckKind::Role(WantedRole::Replica));
    assert_eq!(check("type = \"role\", role = \"any\"").kind, CheckKind::Role(WantedRole::Any));
}

#[test]
fn every_key_of_a_check_is_taken() {
    let keys = "type = \"role\", interval = \"100ms\", timeout = \"1m\", rise = 1, fall = 100, username = \"probe\", \
                password_file = \"probe.password\", on_demotion = \"drain\"";
    let password_file = PathBuf::from("/etc/probe.password");
    let expected = HealthCheck {
        kind: CheckKind::Role(WantedRole::Primary),
        interval: Duration::from_millis(100),
        timeout: Duration::from_secs(60),
        rise: 1,
        fall: 100,
        login: Some(Login { username: Some("probe".into()), password_file }),
        on_demotion: OnDemotion::Drain,
    };
    assert_eq!(check(keys), expected);
    assert_eq!(check("type = \"role\", on_demotion = \"keep\"").on_demotion, OnDemotion::Keep);
}

#[test]
fn values_of_a_check_are_within_their_bounds() {
    assert_check_refused(&[
        ("interval = \"2s\"", ".type: is missing: \"tcp\", \"ping\" or \"role\""),
        ("type = \"pings\"", ".type: \"pings\" is none of \"tcp\", \"ping\", \"role\"; did you mean \"ping\"?"),
        ("type = \"role\", role = \"master\"", ".role: \"master\" is none of \"primary\", \"replica\", \"any\""),
        ("type = \"ping\", interval = \"99ms\"", ".interval: \"99ms\" is out of bounds: 100ms to 1h"),
        ("type = \"ping\", interval = \"2h\"", ".interval: \"2h\" is out of bounds: 100ms to 1h"),
        ("type = \"ping\", timeout = \"9ms\"", ".timeout: \"9ms\" is out of bounds: 10ms to 1m"),
        ("type = \"ping\", timeout = \"2m\"", ".timeout: \"2m\" is out of bounds: 10ms to 1m"),
        ("type = \"ping\", rise = 0", ".rise: 0 is out of bounds: 1 to 100"),
        ("type = \"ping\", fall = 101", ".fall: 101 is out of bounds: 1 to 100"),
        (
            "type = \"ping\", port = 6380",
            ".port: unknown key; known here: type, role, interval, timeout, rise, fall, \
          username, password_file, on_demotion",
        ),
        ("type = \"role\", on_demotion = \"kill\"", ".on_demotion: \"kill\" is none of \"close\", \"keep\", \"drain\""),
    ]);
}

#[test]
fn keys_that_would_do_nothing_are_refused() {
    assert_check_refused(&[
        (
            "type = \"ping\", role = \"replica\"",
            ".role: \"replica\" is of no use with type = \"ping\": write type = \"role\"",
        ),
        ("type = \"tcp\", role = \"any\"", ".role: \"any\" is of no use with type = \"tcp\": write type = \"role\""),
        ("type = \"ping\", on_demotion = \"close\"", ".on_demotion: \"close\" is of no use with type = \"ping\""),
        ("type = \"tcp\", password_file = \"p\"", ".password_file: \"p\" is of no use with type = \"tcp\""),
        (
            "type = \"ping\", username = \"probe\"",
            ".username: \"probe\" is given without password_file, which it needs",
        ),
        ("type = \"ping\", username = \"\", password_file = \"p\"", ".username: \"\" is not a name of 1 to 256 bytes"),
        ("type = \"ping\", password_file = \"\"", ".password_file: \"\" is not a path; a file that holds a password"),
    ]);
}

#[test]
fn sentinels_stand_in_the_place_of_servers() {
    let backend = backend(&format!("sentinel = {{ {MASTER} }}"));
    assert_eq!(backend.servers().count(), 0);
    // Their word is verified, whether or not that is written.
    assert_eq!(backend.health_check.unwrap().kind, CheckKind::Role(WantedRole::Primary));
    assert_refused(&[
        (
            &format!("{SERVERS}\nsentinel = {{ {MASTER} }}"),
            "8: backend.servers: [\"127.0.0.1:6379\"] are given, and so is sentinel, which finds the server: leave one of \
             the two out",
        ),
        (
            &format!("sentinel = {{ {MASTER} }}\nhealth_check = {{ type = \"ping\" }}"),
            "9: backend.health_check.type: \"ping\" does not fit sentinel, whose word is verified: write \"role\"",
        ),
        (
            &format!("sentinel = {{ {MASTER} }}\nhealth_check = {{ role = \"any\" }}"),
            "9: backend.health_check.role: \"any\" does not fit sentinel, which names a primary: write \"primary\"",
        ),
    ]);
    let keys = format!("sentinel = {{ {MASTER} }}\nhealth_check = {{ interval = \"1s\", on_demotion = \"keep\" }}");
    let check = self::backend(&keys).health_check.unwrap();
    assert_eq!((check.interval, check.on_demotion), (Duration::from_secs(1), OnDemotion::Keep));
}

#[test]
fn every_key_of_a_sentinel_is_taken() {
    let sentinel = sentinel(
        "addresses = [\"pair.example:26379\", \"10.0.0.9:26379\"], name = \"my-master.1_a\", username = \"ringwall\", \
         password_file = \"sentinel.password\", tls = { ca = \"ca.pem\" }",
    );
    let addresses: Vec<_> = sentinel.addresses.iter().map(|server| server.address.to_string()).collect();
    assert_eq!(addresses, ["10.0.0.1:26379", "10.0.0.2:26379", "10.0.0.9:26379"]);
    let names: Vec<_> =
        sentinel.addresses.iter().map(|server| server.server_name.as_ref().unwrap().to_string()).collect();
    assert_eq!(names, ["pair.example", "pair.example", "10.0.0.9"]);
    assert_eq!(&*sentinel.name, "my-master.1_a");
    let password_file = "/etc/sentinel.password".into();
    assert_eq!(sentinel.login, Some(Login { username: Some("ringwall".into()), password_file }));
    assert_eq!(sentinel.tls.unwrap().auth, ServerAuth::Full("/etc/ca.pem".into()));
}

#[test]
fn what_a_sentinel_lacks_or_has_too_much_of_is_named() {
    let addresses: Vec<_> = (1..=33).map(|host| format!("\"10.0.0.{host}:26379\"")).collect();
    let too_many = format!("addresses = [{}], name = \"a\"", addresses.join(", "));
    let text = refusal_of_minimal_with(SERVERS, &format!("sentinel = {{ {too_many} }}"));
    assert!(text.ends_with("has 33 addresses; there are at most 32"), "{text}");
    assert_sentinel_refused(&[
        (
            "addresses = [\"10.0.0.1:26379\"]",
            ".name: is missing: the name of the primary, as in Sentinel's \"sentinel monitor NAME ...\"",
        ),
        (
            "name = \"mymaster\"",
            ".addresses: is missing: a list of the Sentinels' addresses, such as [\"10.0.0.1:26379\", \"10.0.0.2:26379\"]",
        ),
        (
            "addresses = [], name = \"a\"",
            ".addresses: [] is empty: write a list of the Sentinels' addresses, such as [\"10.0.0.1:26379\", \"10.0.0.2:26379\"]",
        ),
        ("addresses = [\"10.0.0.1:1\", \"10.0.0.1:1\"], name = \"a\"", ".addresses: \"10.0.0.1:1\" is listed twice"),
        (
            "addresses = [\"10.0.0.1\"], name = \"a\"",
            ".addresses: \"10.0.0.1\" is not an address: write \"host:port\", \"[v6]:port\" or \"unix:/path\", for example \
             \"127.0.0.1:6379\"",
        ),
        (
            "addresses = [\"10.0.0.1:1\"], name = \"my master\"",
            ".name: \"my master\" is not a name of 1 to 256 letters, digits, dots, hyphens and underscores",
        ),
        (&format!("{MASTER}, username = \"a\""), ".username: \"a\" is given without password_file, which it needs"),
        (
            &format!("{MASTER}, tls = {{ verify = \"none\", ca = \"a\" }}"),
            ".tls.ca: \"a\" is of no use with verify = \"none\"",
        ),
        (
            &format!("{MASTER}, quorum = 2"),
            ".quorum: unknown key; known here: addresses, name, username, password_file, tls",
        ),
    ]);
}

/// A folder that holds the minimal file, plain and with these keys of its backend, as `ringwall.toml`.
fn folder_with(keys: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tls = "tls = { certificate = \"server.crt\", private_key = \"server.key\" }";
    assert!(MINIMAL.contains(tls));
    let text = MINIMAL.replacen(tls, "plain = true", 1).replacen(SERVERS, keys, 1);
    fs::write(folder.path().join("ringwall.toml"), text).unwrap();
    folder
}

fn load(folder: &Path) -> Result<(Config, Keyring), String> {
    let at = folder.display().to_string();
    Config::load(&folder.join("ringwall.toml"), &machine()).map_err(|error| error.to_string().replace(&at, "AT"))
}

#[test]
fn passwords_are_read_at_start_and_those_that_cannot_be_are_named() {
    let check = format!("{SERVERS}\nhealth_check = {{ type = \"ping\", password_file = \"password\" }}");
    let sentinel = format!("sentinel = {{ {MASTER}, password_file = \"password\" }}");
    for (keys, line, table) in [(&check, 9, "health_check"), (&sentinel, 8, "sentinel")] {
        let folder = folder_with(keys);
        let named =
            |problem: &str| format!("AT/ringwall.toml:{line}: backend.{table}.password_file: AT/password{problem}");
        let missing = " cannot be read: No such file or directory (os error 2)";
        assert_eq!(load(folder.path()).unwrap_err(), named(missing));
        let path = folder.path().join("password");
        fs::write(&path, "\n").unwrap();
        assert_eq!(load(folder.path()).unwrap_err(), named(" is empty; it must hold the password"));
        fs::write(&path, "correct-horse\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let (config, keyring) = load(folder.path()).unwrap();
        let secrets = &keyring.checks[0];
        let password = secrets.health_check.as_ref().or(secrets.sentinel.as_ref()).unwrap();
        assert_eq!(password.bytes(), b"correct-horse");
        assert!(!format!("{config:?} {keyring:?}").contains("correct-horse"));
        assert_eq!(config.warnings, Vec::<String>::new());
    }
}

#[test]
fn a_password_that_everybody_may_read_is_a_warning_or_refused() {
    let keys = format!("{SERVERS}\nhealth_check = {{ type = \"ping\", password_file = \"password\" }}");
    let folder = folder_with(&keys);
    let path = folder.path().join("password");
    fs::write(&path, "correct-horse\n").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let warning = "AT/ringwall.toml:9: backend.health_check.password_file: AT/password: everybody on this machine may read \
                   or change it; restrict it with `chmod o-rw AT/password`";
    let warnings = load(folder.path()).unwrap().0.warnings;
    let at = folder.path().display().to_string();
    assert_eq!(warnings.iter().map(|warning| warning.replace(&at, "AT")).collect::<Vec<_>>(), [warning]);
    let file = folder.path().join("ringwall.toml");
    let text = fs::read_to_string(&file).unwrap() + "\n[security]\nstrict_key_permissions = true\n";
    fs::write(&file, text).unwrap();
    let refusal = load(folder.path()).unwrap_err();
    assert_eq!(refusal, format!("{warning}; security.strict_key_permissions refuses such a file"));
}
