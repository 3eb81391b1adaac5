//! The key log: what it holds, who may read it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use rustix::process::Signal;

use crate::program::{Folder, Program};

const PAIR: &str = "certificate = \"server.crt\"\nprivate_key = \"server.key\"\n";
const KEY_LOG: &str = "[log]\nkey_log = \"keys.log\"\n";

/// The lines of a key log in the order of the alphabet, comments left out.
fn lines(folder: &Folder, name: &str) -> Vec<String> {
    let text = fs::read_to_string(folder.path().join(name)).unwrap();
    let mut lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).map(ToOwned::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn it_has_the_secrets_that_the_client_has_and_its_owner_alone_may_read_it() {
    let (folder, _) = Folder::with_server();
    // Of an earlier run, and open to all.
    fs::write(folder.path().join("keys.log"), "").unwrap();
    fs::set_permissions(folder.path().join("keys.log"), Permissions::from_mode(0o644)).unwrap();
    let mut program = Program::start_with(&folder, PAIR, KEY_LOG, &["--unsafe-key-log"]);
    let [warning] = &program.warnings[..] else { panic!("{:?}", program.warnings) };
    let meaning = "WARN ringwall.toml:13: log.key_log: \"keys.log\" gets the secrets of every connection: whoever reads the \
                   file can read all traffic";
    assert!(warning.ends_with(meaning), "{warning}");
    program.s_client(&["-tls1_3", "-keylogfile", "client.log"]);
    program.closed();
    let ours = lines(&folder, "keys.log");
    assert_eq!(ours, lines(&folder, "client.log"));
    let labels: Vec<_> = ours.iter().map(|line| line.split(' ').next().unwrap()).collect();
    let expected = [
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        "CLIENT_TRAFFIC_SECRET_0",
        "EXPORTER_SECRET",
        "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        "SERVER_TRAFFIC_SECRET_0",
    ];
    assert_eq!(labels, expected);
    // A reload goes on with it.
    program.signal(Signal::HUP);
    program.line_with("INFO reloaded");
    program.s_client(&["-tls1_2", "-keylogfile", "client.log"]);
    program.closed();
    let ours = lines(&folder, "keys.log");
    assert_eq!(ours, lines(&folder, "client.log"));
    assert_eq!(ours.iter().filter(|line| line.starts_with("CLIENT_RANDOM ")).count(), 1);
    let mode = fs::metadata(folder.path().join("keys.log")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// What the program says instead of starting.
fn refusal(folder: &Folder, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringwall"));
    command.current_dir(folder.path()).args(arguments).env_remove("RINGWALL_LOG").env_remove("NOTIFY_SOCKET");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn it_takes_the_key_and_the_argument_and_no_link() {
    let (folder, _) = Folder::with_server();
    let text = format!(
        "[[listener]]\nbind = \"127.0.0.1:0\"\nbackend = \"a\"\n[listener.tls]\n{PAIR}\
         [[backend]]\nname = \"a\"\nservers = [\"127.0.0.1:1\"]\n[limits]\nmax_connections = 100\n"
    );
    folder.write("without.toml", &text);
    folder.write("with.toml", &format!("{text}{KEY_LOG}"));
    let both = "whoever reads a key log can read all traffic, so it takes both";
    for command in ["run", "check"] {
        assert_eq!(
            refusal(&folder, &[command, "--config", "with.toml"]),
            format!(
                "ringwall: with.toml: log.key_log: is given, and --unsafe-key-log is not on the command line: {both}\n"
            )
        );
        assert_eq!(
            refusal(&folder, &[command, "--config", "without.toml", "--unsafe-key-log"]),
            format!(
                "ringwall: without.toml: log.key_log: is not given, and --unsafe-key-log is on the command line: {both}\n"
            )
        );
    }
    assert!(!folder.path().join("keys.log").exists());
    folder.write("elsewhere", "");
    symlink("elsewhere", folder.path().join("keys.log")).unwrap();
    assert_eq!(
        refusal(&folder, &["run", "--config", "with.toml", "--unsafe-key-log"]),
        "ringwall: log.key_log keys.log: cannot be opened: Too many levels of symbolic links (os error 40)\n"
    );
}
