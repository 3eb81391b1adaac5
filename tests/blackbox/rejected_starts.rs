//! What cannot start says what is wrong and what to do, starts nothing, and ends with the exit code of its kind.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use crate::certificates::Certificates;
use crate::process::run;
use crate::ringwall::{Setup, binary, ringwall};

/// The least that starts, before the change that a test makes to it.
const LEAST: &str = r#"[[listener]]
bind = "127.0.0.1:0"
backend = "valkey"
tls = { certificate = "server.crt", private_key = "server.key" }

[[backend]]
name = "valkey"
servers = ["127.0.0.1:6379"]
"#;

/// The exit code and output of `ringwall COMMAND` with `text` as configuration beside valid certificates.
fn start(command: &str, text: &str) -> (Option<i32>, String) {
    let certificates = Certificates::new();
    let stranger = Certificates::new();
    fs::copy(stranger.folder().join("server.key"), certificates.folder().join("other.key")).unwrap();
    fs::write(certificates.folder().join("empty.pem"), "").unwrap();
    let path = certificates.folder().join("ringwall.toml");
    fs::write(&path, text).unwrap();
    let output = Command::new(binary()).arg(command).arg("--config").arg(path).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn the_least_configuration_is_valid_and_check_says_what_it_would_do() {
    let (code, output) = start("check", LEAST);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("127.0.0.1:0") && output.contains("valkey"), "{output}");
}

#[test]
fn each_mistake_in_a_configuration_is_named_with_file_line_and_remedy() {
    // What is exchanged in the least configuration, for what, the line, and words that the message must hold.
    const MISTAKES: &[(&str, &str, u32, &[&str])] = &[
        ("bind = \"127.0.0.1:0\"", "bnd = \"127.0.0.1:0\"", 2, &["bnd", "bind"]),
        ("bind = \"127.0.0.1:0\"", "bind = 6380", 2, &["bind"]),
        ("bind = \"127.0.0.1:0\"", "bind = \"127.0.0.1\"", 2, &["bind", "127.0.0.1"]),
        ("bind = \"127.0.0.1:0\"", "bind = \"127.0.0.1:70000\"", 2, &["bind", "70000"]),
        ("backend = \"valkey\"", "backend = \"velkey\"", 3, &["backend", "velkey", "valkey"]),
        ("server.crt", "nowhere.crt", 4, &["nowhere.crt", "No such file"]),
        ("server.key", "nowhere.key", 4, &["nowhere.key", "No such file"]),
        ("server.key", "other.key", 4, &["other.key", "server.crt"]),
        ("server.key", "empty.pem", 4, &["empty.pem"]),
        ("server.crt", "empty.pem", 4, &["empty.pem"]),
        ("servers = [\"127.0.0.1:6379\"]", "servers = []", 8, &["servers"]),
        ("servers = [\"127.0.0.1:6379\"]", "servers = [\"127.0.0.1\"]", 8, &["servers", "127.0.0.1"]),
        ("servers = [\"127.0.0.1:6379\"]", "servers = [\"unix:\"]", 8, &["servers", "unix:"]),
        ("servers = [\"127.0.0.1:6379\"]", "servers = [\"127.0.0.1:6379\"", 8, &[]),
        ("[[backend]]", "[limits]\nhandshake_timeout = \"10\"\n[[backend]]", 7, &["handshake_timeout", "10"]),
        ("[[backend]]", "[limits]\nhandshake_timeout = \"1h\"\n[[backend]]", 7, &["handshake_timeout", "1h", "10m"]),
        ("[[backend]]", "[limits]\nmax_connections = 0\n[[backend]]", 7, &["max_connections", "0", "1000000"]),
        ("[[backend]]", "[limits]\nmax_conections = 1\n[[backend]]", 7, &["max_conections", "max_connections"]),
        ("[[backend]]", "[coalesce]\nbytes = \"1GiB\"\n[[backend]]", 7, &["bytes", "1GiB", "1MiB"]),
        ("[[backend]]", "[log]\nlevel = \"loud\"\n[[backend]]", 7, &["level", "loud", "info"]),
        ("[[backend]]", "[runtime]\nshards = 0\n[[backend]]", 7, &["shards", "0"]),
        ("[[backend]]", "[nonsense]\n[[backend]]", 6, &["nonsense"]),
    ];
    for (old, new, line, words) in MISTAKES {
        let text = LEAST.replacen(old, new, 1);
        assert!(text != LEAST, "{old} is not there");
        for command in ["check", "run"] {
            let (code, output) = start(command, &text);
            assert_eq!(code, Some(1), "{command} with {new}: {output}");
            let place = format!("ringwall.toml:{line}");
            assert!(output.contains(&place), "{command} with {new}: {place} is not in {output}");
            for word in *words {
                assert!(output.contains(word), "{command} with {new}: {word} is not in {output}");
            }
        }
    }
}

#[test]
fn a_configuration_that_is_not_there_is_named() {
    let (success, output) = ringwall(&["run", "--config", "/nowhere/ringwall.toml"]);
    assert!(!success && output.contains("/nowhere/ringwall.toml") && output.contains("No such file"), "{output}");
}

#[test]
fn an_address_in_use_is_named_and_nothing_is_started() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, output) = start("run", &LEAST.replacen("127.0.0.1:0", &address, 1));
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains(&address) && output.contains("in use"), "{output}");
    // Whether an address can be bound is not for `check` to say.
    assert_eq!(start("check", &LEAST.replacen("127.0.0.1:0", &address, 1)).0, Some(0));
}

#[test]
fn the_version_is_that_of_the_package() {
    let (success, output) = ringwall(&["--version"]);
    assert!(success);
    assert_eq!(output.trim(), format!("ringwall {}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn an_unknown_command_shows_the_known_ones() {
    let (success, output) = ringwall(&["serve"]);
    assert!(!success && output.contains("serve"), "{output}");
    let (success, output) = ringwall(&["--help"]);
    assert!(success && output.contains("run") && output.contains("check"), "{output}");
}

#[test]
fn without_io_uring_it_says_why_and_ends_with_code_78() {
    let setup = Setup::before("127.0.0.1:1");
    let path = setup.write();
    // What io_uring_setup(2) answers, and a word of the probable cause.
    for (errno, cause) in [("ENOSYS", "kernel"), ("EPERM", "policy"), ("ENOMEM", "memory")] {
        let mut traced = Command::new("strace");
        traced.args(["-f", "-q", "-o", "/dev/null", "-e", "trace=io_uring_setup"]);
        traced.arg("-e").arg(format!("inject=io_uring_setup:error={errno}"));
        traced.arg(binary()).arg("run").arg("--config").arg(&path);
        let output = traced.output().expect("strace is not installed; tests/run.sh installs it");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(78), "{errno}: {text}");
        assert!(text.contains("io_uring is not available") && text.contains(cause), "{errno}: {text}");
    }
}

#[test]
fn a_key_that_others_may_read_is_warned_about() {
    use std::os::unix::fs::PermissionsExt;
    let certificates = Certificates::new();
    let key = certificates.folder().join("server.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let path = certificates.folder().join("ringwall.toml");
    fs::write(&path, LEAST).unwrap();
    let mut command = Command::new(binary());
    command.arg("check").arg("--config").arg(path);
    let (success, output) = run(command, b"");
    assert!(success && output.contains("server.key") && output.contains("read"), "{output}");
}
