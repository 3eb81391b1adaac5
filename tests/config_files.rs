//! Each mistake in a configuration file and what it is told, word for word; and that no bytes make the reader panic.
//! What is accepted is in `config_meaning.rs`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proptest::prelude::*;
use ringwall::config::{Config, Keyring, Machine};
use tempfile::TempDir;

mod config_support;
use config_support::{MINIMAL, REFERENCE, machine, parse_on, refusal, refusal_of_minimal_with};

/// The refusal of the minimal file, which has 8 lines, with `lines` below it.
fn refusal_of_minimal_and(lines: &str) -> String {
    refusal(&format!("{MINIMAL}{lines}"))
}

#[test]
fn an_unknown_key_is_told_the_nearest_known_one() {
    for (text, message) in [
        (
            "[limits]\nhandshake_timeuot = \"5s\"",
            "10: limits.handshake_timeuot: unknown key; did you mean \"handshake_timeout\"?",
        ),
        ("[limit]\nx = 1", "9: limit: unknown key; did you mean \"limits\"?"),
        ("[coalesce]\nfoo = 1", "10: coalesce.foo: unknown key; known here: bytes"),
        (
            "[log]\ncolour = true",
            "10: log.colour: unknown key; known here: target, format, level, sessions, sample, failures_per_second, key_log",
        ),
        (
            "weights = [1]",
            "9: backend.weights: unknown key; known here: name, servers, balance, retries, max_queue, \
             queue_timeout, source_addresses, resolve_interval, send_proxy, client_name, client_info, tls, \
             health_check, sentinel",
        ),
    ] {
        assert_eq!(refusal_of_minimal_and(text), message);
    }
    assert_eq!(
        refusal_of_minimal_with("private_key", "privatekey"),
        "4: listener.tls.privatekey: unknown key; did you mean \"private_key\"?"
    );
}

#[test]
fn what_is_not_toml_is_shown_with_its_line() {
    for (text, message) in [
        (
            "[limits]\nconnect_timeout = 5s",
            "10: is not TOML: string values must be quoted, expected literal string: connect_timeout = 5s",
        ),
        ("[log]\nlevel =", "10: is not TOML: string values must be quoted, expected literal string: level ="),
        ("[log]\nlevel = \"info\"\nlevel = \"warn\"", "11: log.level: is given twice, first in line 10"),
        ("[log]\nlevel = \"info\"\n\"level\" = \"warn\"", "11: log.level: is given twice, first in line 10"),
        ("[log]\n\n[log]", "11: log: is given twice, first in line 9"),
        ("[listener]", "9: listener: is given twice, first in line 1"),
        ("servers = []", "9: backend.servers: is given twice, first in line 8"),
        ("[limits]\n[runtime]\nshards = 1\n[log]\n[limits]", "13: limits: is given twice, first in line 9"),
    ] {
        assert_eq!(refusal_of_minimal_and(text), message);
    }
    assert_eq!(
        refusal_of_minimal_with(
            "private_key",
            "certificates = [{ certificate = \"a\" }], certificate = \"b\", private_key"
        ),
        "4: listener.tls.certificate: is given twice, first in line 4"
    );
    let error = Config::parse(b"# \xc3\xa9\n# \xff", Path::new("f.toml"), &machine()).unwrap_err();
    assert_eq!(error.to_string(), "f.toml:2: is not UTF-8 text");
}

#[test]
fn something_else_where_a_table_belongs_is_told_so() {
    for (text, message) in [
        ("runtime = 3\n", "1: runtime: 3 must be a table"),
        (
            "[listener]\nbind = \"127.0.0.1:6380\"\n",
            "1: listener: [listener] must be an array of tables, each under its own header in double brackets: [[...]]",
        ),
        ("listener = [1]\n", "1: listener: 1 must be a table"),
        ("[[listener]]\ntls = \"server.pem\"\n", "2: listener.tls: \"server.pem\" must be a table"),
        ("[[limits]]\n", "1: limits: [[limits]] must be a table"),
        ("log = [\"json\", \"info\", true]\n", "1: log: [\"json\", \"info\", true] must be a table"),
    ] {
        assert_eq!(refusal(text), message);
    }
}

#[test]
fn a_value_out_of_bounds_is_told_the_bounds() {
    for (table, key, value, bounds) in [
        ("limits", "handshake_timeout", "\"0s\"", "100ms to 10m"),
        ("limits", "handshake_timeout", "\"11m\"", "100ms to 10m"),
        ("limits", "connect_timeout", "\"3m\"", "10ms to 2m"),
        ("limits", "idle_timeout", "\"10ms\"", "1s to 168h, or \"off\""),
        ("limits", "half_close_timeout", "\"2h\"", "100ms to 1h"),
        ("limits", "shutdown_timeout", "\"25h\"", "0s to 24h"),
        ("limits", "tcp_keepalive", "\"10h\"", "1s to 9h, or \"off\""),
        ("limits", "tcp_user_timeout", "\"0s\"", "1s to 1h, or \"off\""),
        ("limits", "send_buffer", "\"1KiB\"", "64KiB to 16MiB"),
        ("limits", "send_buffer", "-1", "64KiB to 16MiB"),
        ("limits", "shard_memory", "0", "16MiB to 1024GiB"),
        ("limits", "max_connections", "0", "1 to 1000000"),
        ("limits", "max_connections", "999999999999999999999999", "1 to 1000000"),
        ("limits", "listen_backlog", "70000", "1 to 65535"),
        ("limits", "max_handshakes", "15", "16 to 65536"),
        ("runtime", "shards", "0", "1 to 1024"),
        ("coalesce", "bytes", "\"2MiB\"", "1KiB to 1MiB, or \"off\", or \"unbounded\""),
    ] {
        assert_eq!(
            refusal_of_minimal_and(&format!("[{table}]\n{key} = {value}")),
            format!("10: {table}.{key}: {value} is out of bounds: {bounds}")
        );
    }
    let error = Config::parse(
        format!("{MINIMAL}[limits]\nhandshake_timeout = \"0s\"").as_bytes(),
        Path::new("config/ringwall.toml"),
        &machine(),
    );
    assert_eq!(
        error.unwrap_err().to_string(),
        "config/ringwall.toml:10: limits.handshake_timeout: \"0s\" is out of bounds: 100ms to 10m"
    );
}

#[test]
fn a_value_of_the_wrong_type_is_told_what_is_allowed() {
    for (table, key, value, problem) in [
        ("limits", "handshake_timeout", "10", "is not a duration, a whole number and ms, s, m or h such as \"10m\""),
        (
            "limits",
            "idle_timeout",
            "false",
            "is not a duration, a whole number and ms, s, m or h such as \"168h\", or \"off\"",
        ),
        (
            "limits",
            "send_buffer",
            "\"256KB\"",
            "is not a size, a whole number of bytes or of KiB, MiB or GiB such as \"16MiB\"",
        ),
        (
            "coalesce",
            "bytes",
            "\"none\"",
            "is not a size, a whole number of bytes or of KiB, MiB or GiB such as \"1MiB\", or \"off\", or \
             \"unbounded\"",
        ),
        ("limits", "max_connections", "\"10\"", "is not a whole number"),
        ("limits", "max_connections", "1.5", "is not a whole number"),
        ("limits", "max_connections", "{ a = 1 }", "is not a whole number"),
        ("log", "sessions", "\"yes\"", "is neither true nor false"),
        ("log", "format", "\"xml\"", "is none of \"text\", \"json\""),
        ("log", "level", "\"fatal\"", "is none of \"error\", \"warn\", \"info\", \"debug\", \"trace\""),
        (
            "log",
            "level",
            "\"Info\"",
            "is none of \"error\", \"warn\", \"info\", \"debug\", \"trace\"; did you mean \"info\"?",
        ),
        ("runtime", "cores", "2", "is not a list of core numbers, such as [0, 1]"),
        ("runtime", "cores", "[]", "is empty: write a list of core numbers, such as [0, 1]"),
    ] {
        assert_eq!(
            refusal_of_minimal_and(&format!("[{table}]\n{key} = {value}")),
            format!("10: {table}.{key}: {value} {problem}")
        );
    }
}

#[test]
fn cores_are_those_the_process_may_use_each_once() {
    for (line, message) in [
        ("cores = [0, 7]", "runtime.cores: 7 is not a core this process may use; those are 0-3"),
        ("cores = [1, 1]", "runtime.cores: 1 is listed twice; each shard has a core of its own"),
        ("cores = [\"0\"]", "runtime.cores: \"0\" is not the number of a core"),
        ("dispatcher_core = -1", "runtime.dispatcher_core: -1 is not a core this process may use; those are 0-3"),
        (
            "shards = 3\ncores = [0, 1]",
            "runtime.shards: 3 does not fit runtime.cores, which lists 2: leave one of them out",
        ),
    ] {
        assert_eq!(refusal_of_minimal_and(&format!("[runtime]\n{line}")), format!("10: {message}"));
    }
}

#[test]
fn values_must_fit_each_other() {
    assert_eq!(
        refusal_of_minimal_and("[limits]\ntcp_keepalive = \"1500ms\""),
        "10: limits.tcp_keepalive: \"1500ms\" is not a number of whole seconds, which the kernel wants"
    );
    assert_eq!(
        refusal_of_minimal_and("[limits]\nsend_buffer = \"16MiB\"\nshard_memory = \"16MiB\""),
        "11: limits.shard_memory: \"16MiB\" does not fit: with send_buffer 16MiB one session may hold 33865728 bytes, \
         and shard_memory is 16MiB"
    );
    let text = MINIMAL.replacen("\n[[backend]]", "max_connections = 11\n[[backend]]", 1);
    assert_eq!(
        refusal(&format!("{text}[limits]\nmax_connections = 10\n")),
        "5: listener.max_connections: 11 is more than limits.max_connections, which is 10"
    );
}

#[test]
fn what_a_listener_or_backend_lacks_is_named_at_its_header() {
    for (missing, message) in [
        (
            "bind = \"127.0.0.1:6380\"",
            "1: listener.bind: is missing: the address to listen on, such as \"0.0.0.0:6380\"",
        ),
        ("backend = \"valkey\"", "1: listener.backend: is missing: the name of a [[backend]]"),
        (
            "tls = { certificate = \"server.crt\", private_key = \"server.key\" }",
            "1: listener.tls: is missing: { certificate = \"server.crt\", private_key = \"server.key\" }; or write plain = true \
             for clients that speak no TLS",
        ),
        (", private_key = \"server.key\"", "4: listener.tls.private_key: is missing: a file in PEM form"),
        ("name = \"valkey\"", "6: backend.name: is missing: the word that listeners use for it, such as \"valkey\""),
        (
            "servers = [\"127.0.0.1:6379\"]",
            "6: backend.servers: is missing: a list of addresses, such as [\"127.0.0.1:6379\"]",
        ),
    ] {
        assert_eq!(refusal_of_minimal_with(missing, ""), message);
    }
    assert_eq!(refusal(""), "has no [[backend]]; at least one is needed");
    assert_eq!(
        refusal("[[backend]]\nname = \"valkey\"\nservers = [\"unix:/s\"]\n"),
        "has no [[listener]]; at least one is needed"
    );
}

#[test]
fn where_a_listener_cannot_listen_is_refused() {
    for (bind, problem) in [
        ("6380", "is not an address: write \"host:port\" or \"[v6]:port\", for example \"0.0.0.0:6380\""),
        ("unix:/run/x", "is a unix socket; a listener takes TCP: \"host:port\" or \"[v6]:port\""),
        (
            "pair.example:6380",
            "resolves to 2 addresses, a listener has one: write \"10.0.0.1:6380\" or \"10.0.0.2:6380\"",
        ),
    ] {
        assert_eq!(refusal_of_minimal_with("127.0.0.1:6380", bind), format!("2: listener.bind: \"{bind}\" {problem}"));
    }
}

#[test]
fn listeners_do_not_overlap() {
    let text = |first: &str, second: &str| {
        let listener = |name: &str, bind: &str| {
            let tls = "tls = { certificate = \"a\", private_key = \"b\" }";
            format!("[[listener]]\nname = \"{name}\"\nbind = \"{bind}\"\nbackend = \"valkey\"\n{tls}\n")
        };
        let backend = "[[backend]]\nname = \"valkey\"\nservers = [\"unix:/s\"]\n";
        format!("{}{}{backend}", listener("first", first), listener("second", second))
    };
    for (first, second) in [
        ("127.0.0.1:6380", "0.0.0.0:6380"),
        ("0.0.0.0:6380", "127.0.0.1:6380"),
        ("[::1]:6380", "[::]:6380"),
        ("[::]:6380", "[::1]:6380"),
    ] {
        assert_eq!(
            refusal(&text(first, second)),
            format!(
                "8: listener.bind: \"{second}\" overlaps {first}, which listener \"first\" is bound to: write addresses that \
                 do not contain each other, or other ports"
            )
        );
    }
    // An IPv6 socket of ringwall takes no IPv4.
    for (first, second) in [
        ("0.0.0.0:6380", "[::]:6380"),
        ("127.0.0.1:6380", "[::]:6380"),
        ("127.0.0.1:6380", "127.0.0.2:6380"),
        ("127.0.0.1:6380", "0.0.0.0:6381"),
        ("127.0.0.1:0", "0.0.0.0:0"),
        ("127.0.0.1:0", "127.0.0.1:0"),
    ] {
        assert!(parse_on(&machine(), &text(first, second)).is_ok(), "{first} {second}");
    }
}

#[test]
fn servers_that_cannot_be_are_refused() {
    let form =
        "is not an address: write \"host:port\", \"[v6]:port\" or \"unix:/path\", for example \"127.0.0.1:6379\"";
    let list = "a list of addresses, such as [\"127.0.0.1:6379\"]";
    for (servers, message) in [
        ("[\"127.0.0.1\"]", format!("\"127.0.0.1\" {form}")),
        ("[\"nobody.example:1\"]", "\"nobody.example:1\" cannot be resolved: no such name".to_owned()),
        ("[\"unix:run/s\"]", "\"unix:run/s\" is not an absolute path; write \"unix:/path/to/socket\"".to_owned()),
        ("[6379]", format!("6379 is neither a text nor a table; servers is {list}")),
        ("\"127.0.0.1:6379\"", format!("\"127.0.0.1:6379\" is not {list}")),
        ("[]", format!("[] is empty: write {list}")),
    ] {
        let refusal = refusal_of_minimal_with("[\"127.0.0.1:6379\"]", servers);
        assert_eq!(refusal, format!("8: backend.servers: {message}"));
    }
}

#[test]
fn a_server_that_is_a_listener_is_refused() {
    for (bind, server) in [
        ("127.0.0.1:6380", "127.0.0.1:6380"),
        ("0.0.0.0:6380", "127.0.0.1:6380"),
        ("0.0.0.0:6380", "[::ffff:127.0.0.1]:6380"),
        ("127.0.0.1:6380", "0.0.0.0:6380"),
        ("[::]:6380", "[::1]:6380"),
        ("[::1]:6380", "[::]:6380"),
        ("10.0.0.2:6380", "pair.example:6380"),
    ] {
        let text = MINIMAL.replacen("127.0.0.1:6380", bind, 1);
        assert_eq!(
            refusal(&text.replacen("\"127.0.0.1:6379\"", &format!("\"unix:/s\", \"{server}\""), 1)),
            format!(
                "8: backend.servers: \"{server}\" leads to listener \"{bind}\" of this file, which takes clients; write \
                 where the Valkey or Redis server is"
            )
        );
    }
    for (bind, server) in [
        ("0.0.0.0:6380", "127.0.0.1:6379"),
        ("0.0.0.0:6380", "10.0.0.1:6380"),
        ("0.0.0.0:6380", "[::1]:6380"),
        ("[::]:6380", "127.0.0.1:6380"),
        ("127.0.0.1:6380", "127.0.0.2:6380"),
        ("127.0.0.1:6380", "unix:/run/6380"),
    ] {
        let text = MINIMAL.replacen("127.0.0.1:6380", bind, 1).replacen("127.0.0.1:6379", server, 1);
        assert!(parse_on(&machine(), &text).is_ok(), "{bind} {server}");
    }
}

#[test]
fn names_are_unique_and_known() {
    assert_eq!(
        refusal_of_minimal_with("backend = \"valkey\"", "backend = \"valky\""),
        "3: listener.backend: \"valky\" is the name of no [[backend]]; did you mean \"valkey\"?"
    );
    assert_eq!(
        refusal_of_minimal_with("backend = \"valkey\"", "backend = \"other\""),
        "3: listener.backend: \"other\" is the name of no [[backend]]; there are: valkey"
    );
    assert_eq!(
        refusal_of_minimal_with("name = \"valkey\"", "name = \"\""),
        "7: backend.name: \"\" is not a name of 1 to 64 bytes without blanks and quotes"
    );
    assert_eq!(
        refusal_of_minimal_and("[[backend]]\nname = \"valkey\"\nservers = [\"unix:/s\"]"),
        "10: backend.name: \"valkey\" is the name of another backend already"
    );
    let listener = |name: &str, bind: &str| {
        let tls = "tls = { certificate = \"a\", private_key = \"b\" }";
        format!("[[listener]]\nname = \"{name}\"\nbind = \"{bind}\"\nbackend = \"valkey\"\n{tls}\n")
    };
    assert_eq!(
        refusal_of_minimal_and(&listener("again", "127.0.0.1:6380")),
        "11: listener.bind: \"127.0.0.1:6380\" is bound by listener \"127.0.0.1:6380\" already"
    );
    assert_eq!(
        refusal_of_minimal_and(&listener("127.0.0.1:6380", "127.0.0.1:6381")),
        "10: listener.name: \"127.0.0.1:6380\" is the name of another listener already"
    );
}

#[test]
fn the_limit_of_open_files_refuses_a_written_number_and_lowers_the_default() {
    let machine = Machine { open_files_max: 1_145, ..machine() };
    let config = parse_on(&machine, MINIMAL).unwrap();
    assert_eq!((config.limits.max_connections, config.open_files_max()), (500, 1_145));
    assert_eq!(
        config.warnings,
        [
            "/etc/ringwall.toml: limits.max_connections: lowered from its default 10000 to 500: it needs 20145 open files, \
          2 per connection, and the hard limit RLIMIT_NOFILE is 1145; raise it (LimitNOFILE= of the systemd unit, \
          ulimit -Hn)"
        ]
    );
    assert!(parse_on(&machine, &format!("{MINIMAL}[limits]\nmax_connections = 500\n")).is_ok());
    assert_eq!(
        parse_on(&machine, &format!("{MINIMAL}[limits]\nmax_connections = 501\n")).unwrap_err(),
        "/etc/ringwall.toml:10: limits.max_connections: 501 needs 1147 open files, 2 per connection, and the hard limit \
         RLIMIT_NOFILE is 1145: raise it (LimitNOFILE= of the systemd unit, ulimit -Hn) or write at most 500"
    );
    let machine = Machine { open_files_max: 100, ..machine };
    assert_eq!(
        parse_on(&machine, MINIMAL).unwrap_err(),
        "/etc/ringwall.toml: limits.max_connections: the hard limit RLIMIT_NOFILE is 100, and one connection needs 147 \
         open files: raise it (LimitNOFILE= of the systemd unit, ulimit -Hn)"
    );
}

/// A folder that holds the minimal file as `ringwall.toml`.
fn folder_with_minimal() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("ringwall.toml"), MINIMAL).expect("the folder takes a file");
    folder
}

fn load_from(folder: &TempDir) -> Result<(Config, Keyring), String> {
    Config::load(&folder.path().join("ringwall.toml"), &machine()).map_err(|error| error.to_string())
}

/// Writes a fresh certificate and its key into `folder`.
fn write_identity(folder: &Path) {
    let made = rcgen::generate_simple_self_signed(vec!["ringwall.example".to_owned()]).expect("a certificate");
    std::fs::write(folder.join("server.crt"), made.cert.pem()).expect("the folder takes a file");
    std::fs::write(folder.join("server.key"), made.signing_key.serialize_pem()).expect("the folder takes a file");
    std::fs::set_permissions(folder.join("server.key"), Permissions::from_mode(0o600)).expect("own file");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = Config::load(Path::new("/nowhere/ringwall.toml"), &machine()).unwrap_err();
    assert_eq!(error.to_string(), "/nowhere/ringwall.toml: cannot be read: No such file or directory (os error 2)");
    let error = Config::load(Path::new("/dev/zero"), &machine()).unwrap_err();
    assert_eq!(error.to_string(), "/dev/zero: cannot be read: it is a character device, and must be a regular file");
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("long.toml");
    std::fs::write(&long, [b'\n'; 1_048_577]).unwrap();
    let error = Config::load(&long, &machine()).unwrap_err();
    let problem = "cannot be read: it is larger than 1048576 bytes, the most that is read";
    assert_eq!(error.to_string(), format!("{}: {problem}", long.display()));
}

#[test]
fn the_files_that_the_configuration_names_are_loaded() {
    let folder = folder_with_minimal();
    write_identity(folder.path());
    let (config, keyring) = load_from(&folder).unwrap();
    assert_eq!((config.warnings.len(), keyring.listeners.len()), (0, 1), "{:?}", config.warnings);
    assert!(keyring.listeners[0].is_some() && keyring.backends[0].is_none());
}

#[test]
fn a_key_that_everybody_may_read_is_a_warning() {
    let folder = folder_with_minimal();
    write_identity(folder.path());
    std::fs::set_permissions(folder.path().join("server.key"), Permissions::from_mode(0o644)).unwrap();
    let at = folder.path().display();
    assert_eq!(
        load_from(&folder).unwrap().0.warnings,
        [format!(
            "{at}/ringwall.toml:4: listener.tls: private_key {at}/server.key: everybody on this machine may read or \
             change it; restrict it with `chmod o-rw {at}/server.key`"
        )]
    );
}

#[test]
fn files_that_cannot_be_used_are_refused_where_they_are_named() {
    let folder = folder_with_minimal();
    let at = folder.path().display();
    let crt = folder.path().join("server.crt");
    assert_eq!(
        load_from(&folder).unwrap_err(),
        format!(
            "{at}/ringwall.toml:4: listener.tls: certificate {at}/server.crt: cannot be read: No such file or directory \
             (os error 2); it must be a file that ringwall's user may read"
        )
    );
    write_identity(folder.path());
    std::fs::remove_file(folder.path().join("server.key")).unwrap();
    assert_eq!(
        load_from(&folder).unwrap_err(),
        format!(
            "{at}/ringwall.toml:4: listener.tls: private_key {at}/server.key: cannot be read: No such file or directory \
             (os error 2); it must be a file that ringwall's user may read"
        )
    );
    write_identity(folder.path());
    let own = std::fs::read(&crt).unwrap();
    write_identity(folder.path());
    std::fs::write(&crt, own).unwrap();
    assert_eq!(
        load_from(&folder).unwrap_err(),
        format!(
            "{at}/ringwall.toml:4: listener.tls: private_key {at}/server.key: the key does not belong to certificate \
             {at}/server.crt (subject CN=rcgen self signed cert); it must be the one that the certificate was made for"
        )
    );
}

#[test]
fn a_ticket_secret_is_64_hexadecimal_digits_that_others_may_not_read() {
    let one = "private_key = \"server.key\"";
    let folder = tempfile::tempdir().unwrap();
    let text = MINIMAL.replacen(one, &format!("{one}, ticket_secret = \"tickets.secret\""), 1);
    std::fs::write(folder.path().join("ringwall.toml"), text).unwrap();
    write_identity(folder.path());
    let (at, secret) = (folder.path().display(), folder.path().join("tickets.secret"));
    let named = format!("{at}/ringwall.toml:4: listener.tls: ticket_secret {at}/tickets.secret: ");
    let form = "it must hold 64 hexadecimal digits, which `openssl rand -hex 32` makes";
    let missing =
        "cannot be read: No such file or directory (os error 2); it must be a file that ringwall's user may read";
    assert_eq!(load_from(&folder).unwrap_err(), format!("{named}{missing}"));
    let digits = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";
    for (text, problem) in [
        (" \n".to_owned(), format!("found 0 bytes of something else; {form}")),
        (digits[1..].to_owned(), format!("found 63 bytes of something else; {form}")),
        (digits.replace('A', "x"), format!("found 64 bytes of something else; {form}")),
        (format!("{digits}\n{digits}\n"), format!("found 129 bytes of something else; {form}")),
        (digits.repeat(5), "cannot be read: it is larger than 256 bytes, the most that is read".to_owned()),
    ] {
        std::fs::write(&secret, text).unwrap();
        assert_eq!(load_from(&folder).unwrap_err(), format!("{named}{problem}"));
    }
    std::fs::write(&secret, format!("{digits}\n")).unwrap();
    std::fs::set_permissions(&secret, Permissions::from_mode(0o640)).unwrap();
    assert_eq!(load_from(&folder).unwrap().0.warnings, [""; 0]);
    std::fs::set_permissions(&secret, Permissions::from_mode(0o604)).unwrap();
    assert_eq!(
        load_from(&folder).unwrap().0.warnings,
        [format!(
            "{named}everybody on this machine may read or change it; restrict it with `chmod o-rw {at}/tickets.secret`"
        )]
    );
}

#[test]
fn a_folder_of_certificates_says_what_it_lacks() {
    let one = "certificate = \"server.crt\", private_key = \"server.key\"";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ringwall.toml");
    std::fs::write(&file, MINIMAL.replacen(one, "cert_dir = \"certs\"", 1)).unwrap();
    let (at, certs) = (folder.path().display(), folder.path().join("certs"));
    let expect = |problem: &str| {
        let message = format!("{at}/ringwall.toml:4: listener.tls.cert_dir: {problem}");
        assert_eq!(load_from(&folder).unwrap_err(), message.replace("FOLDER", &at.to_string()));
    };
    expect("FOLDER/certs: cannot be read: No such file or directory (os error 2)");
    std::fs::create_dir(&certs).unwrap();
    std::fs::write(certs.join(".hidden.crt"), "").unwrap();
    std::fs::write(certs.join("notes.txt"), "").unwrap();
    expect("FOLDER/certs: holds no certificate: NAME.crt (or .cer, .pem) with NAME.key, or NAME.pem with both");
    write_identity(&certs);
    assert_eq!(load_from(&folder).unwrap().1.listeners.len(), 1);
    std::fs::rename(certs.join("server.key"), certs.join("another.key")).unwrap();
    expect("FOLDER/certs/server.crt: its key is not there: FOLDER/certs/server.key");
    std::fs::rename(certs.join("server.crt"), certs.join("server.pem")).unwrap();
    expect(
        "private_key FOLDER/certs/server.pem: found CERTIFICATE, and no private key; it must hold one as -----BEGIN PRIVATE \
         KEY----- (PKCS#8), RSA PRIVATE KEY (PKCS#1) or EC PRIVATE KEY (SEC1) (are certificate and private_key exchanged?)",
    );
}

#[test]
fn cipher_suites_that_fit_no_certificate_are_refused_and_those_that_leave_out_tls_1_2_are_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ringwall.toml");
    write_identity(folder.path());
    let rsa = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["ringwall.example".to_owned()]).unwrap();
    std::fs::write(folder.path().join("rsa.pem"), certificate.self_signed(&rsa).unwrap().pem() + &rsa.serialize_pem())
        .unwrap();
    std::fs::set_permissions(folder.path().join("rsa.pem"), Permissions::from_mode(0o600)).unwrap();
    let at = folder.path().display().to_string();
    let loaded = |pairs: &str, keys: &str| {
        let one = "certificate = \"server.crt\", private_key = \"server.key\"";
        std::fs::write(&file, MINIMAL.replacen(one, &format!("{pairs}, {keys}"), 1)).unwrap();
        let loaded = load_from(&folder).map(|(config, _)| config.warnings);
        loaded.map_err(|error| error.replace(&at, "AT")).map(|all| all.join("\n").replace(&at, "AT"))
    };
    let ecdsa = "certificate = \"server.crt\", private_key = \"server.key\"";
    let rsa = "certificate = \"rsa.pem\", private_key = \"rsa.pem\"";
    let both = &format!("{ecdsa}, certificates = [{{ {rsa} }}]");
    let for_ecdsa = "\"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256\"";
    let for_rsa = "\"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\"";
    let only = |suites: &str| format!("max_version = \"1.2\", cipher_suites = [{suites}]");
    let with_13 = |suites: &str| format!("cipher_suites = [\"TLS_AES_128_GCM_SHA256\", {suites}]");
    let key = "AT/ringwall.toml:4: listener.tls.cipher_suites: certificate";
    let hopeless = "and TLS 1.3, whose suites fit every key, is not accepted: no client could shake hands; add one that \
                    begins with";
    assert_eq!(
        loaded(ecdsa, &only(for_rsa)),
        Err(format!(
            "{key} AT/server.crt: no cipher suite fits its ECDSA or Ed25519 key, {hopeless} TLS_ECDHE_ECDSA_ or write \
             max_version = \"1.3\""
        ))
    );
    assert_eq!(
        loaded(rsa, &only(for_ecdsa)),
        Err(format!(
            "{key} AT/rsa.pem: no cipher suite fits its RSA key, {hopeless} TLS_ECDHE_RSA_ or write max_version = \"1.3\""
        ))
    );
    let warning = format!(
        "{key} AT/server.crt: no cipher suite of TLS 1.2 fits its ECDSA or Ed25519 key: clients that speak no TLS 1.3 are \
         not shown it; add one that begins with TLS_ECDHE_ECDSA_ or write min_version = \"1.3\""
    );
    assert_eq!(loaded(ecdsa, &with_13(for_rsa)), Ok(warning.clone()));
    assert_eq!(loaded(both, &only(for_rsa)), Ok(warning));
    for (pairs, keys) in [
        (ecdsa, only(for_ecdsa)),
        (rsa, only(for_rsa)),
        (both, with_13(&format!("{for_ecdsa}, {for_rsa}"))),
        (ecdsa, "min_version = \"1.3\", cipher_suites = [\"TLS_AES_128_GCM_SHA256\"]".to_owned()),
        (rsa, "max_version = \"1.2\"".to_owned()),
    ] {
        assert_eq!(loaded(pairs, &keys), Ok(String::new()), "{pairs} {keys}");
    }
}

/// The reference with a few bytes replaced, removed or put in.
fn mutated_reference() -> impl Strategy<Value = Vec<u8>> {
    let edit = (0..REFERENCE.len(), 0..12_usize, proptest::collection::vec(any::<u8>(), 0..6));
    proptest::collection::vec(edit, 1..8).prop_map(|edits| {
        let mut text = REFERENCE.as_bytes().to_vec();
        for (at, removed, put) in edits {
            let start = at.min(text.len());
            let end = (start + removed).min(text.len());
            text.splice(start..end, put);
        }
        text
    })
}

/// Some lines of the reference that are no comments, in any order.
fn shuffled_reference() -> impl Strategy<Value = Vec<u8>> {
    let bare = REFERENCE.lines().map(|line| line.trim_start_matches("# "));
    let lines: Vec<&str> = bare.filter(|line| line.contains(['=', '['])).collect();
    let most = lines.len();
    proptest::sample::subsequence(lines, 0..most).prop_shuffle().prop_map(|lines| lines.join("\n").into_bytes())
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..400)
}

#[test]
fn each_mistake_about_administrators_is_told() {
    for (text, message) in [
        (
            "listen = 9121",
            "10: admin.listen: 9121 is not a text; \"unix:/path\" or an address of loopback, such as \"127.0.0.1:9121\"",
        ),
        (
            "listen = \"0.0.0.0:9121\"",
            "10: admin.listen: \"0.0.0.0:9121\" is not a loopback address, and what is told here is not for everyone: write a \
             unix socket, or \"127.0.0.1:port\", and put a proxy in front of it for other hosts",
        ),
        (
            "listen = \"127.0.0.1:6380\"",
            "10: admin.listen: \"127.0.0.1:6380\" is bound by listener \"127.0.0.1:6380\" already",
        ),
        (
            "listen = \"unix:a.sock\"",
            "10: admin.listen: \"unix:a.sock\" is not an absolute path; write \"unix:/path/to/socket\"",
        ),
        (
            "socket_mode = \"0640\"",
            "10: admin.socket_mode: \"0640\" is none of \"0600\", \"0660\", \"0666\"; did you mean \"0600\"?",
        ),
        (
            "listen = \"[::1]:9121\"\nsocket_mode = \"0600\"",
            "11: admin.socket_mode: \"0600\" is of no use: admin.listen is not a unix socket",
        ),
        ("allow_changes = 1", "10: admin.allow_changes: 1 is neither true nor false"),
        (
            "listen = \"127.0.0.1:9121\"\nallow_changes = true",
            "11: admin.allow_changes: true lets every process of this host, browsers too, close connections and more: a TCP \
             port has no permissions, so write a unix socket in admin.listen",
        ),
        ("port = 1", "10: admin.port: unknown key; known here: listen, socket_mode, allow_changes"),
    ] {
        assert_eq!(refusal_of_minimal_and(&format!("[admin]\n{text}")), message);
    }
}

#[test]
fn the_log_goes_to_standard_error_the_journal_or_a_file() {
    let refused = "is neither \"stderr\" nor \"journal\" nor the path of a file, which begins with /";
    for value in ["\"syslog\"", "\"ringwall.log\"", "\"/var/log/\"", "\"\"", "true"] {
        let message = refusal_of_minimal_and(&format!("[log]\ntarget = {value}"));
        assert_eq!(message, format!("10: log.target: {value} {refused}"));
    }
}

#[test]
fn numbers_of_lines_are_within_their_bounds() {
    for (text, message) in [
        ("sample = 0", "10: log.sample: 0 is out of bounds: 1 to 1000000"),
        ("sample = \"all\"", "10: log.sample: \"all\" is not a whole number"),
        ("failures_per_second = 0", "10: log.failures_per_second: 0 is out of bounds: 1 to 100000"),
        ("failures_per_second = 100001", "10: log.failures_per_second: 100001 is out of bounds: 1 to 100000"),
    ] {
        assert_eq!(refusal_of_minimal_and(&format!("[log]\n{text}")), message);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(text in prop_oneof![mutated_reference(), shuffled_reference(), any_bytes()]) {
        if let Err(error) = Config::parse(&text, Path::new("f.toml"), &machine()) {
            let message = error.to_string();
            prop_assert!(message.starts_with("f.toml:"), "{}", message);
            prop_assert_eq!(message.lines().count(), 1, "{}", message);
        }
    }
}
