//! What is logged, for whom, and that its reader stalls nobody.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};

use rcgen::KeyPair;
use rustix::process::{Pid, Signal, kill_process};

use crate::certificates::Certificates;
use crate::client::{Dial, End};
use crate::process::{PATIENCE, now, text_with};
use crate::ringwall::{Ringwall, Setup, binary, ringwall};
use crate::server::Server;

/// A child whose output the test reads itself, ended when it is dropped.
struct Unread(Child);

impl Drop for Unread {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn a_log_that_nobody_reads_stalls_nobody() {
    let server = Server::on_unix_socket();
    let setup = Setup::before(server.address());
    let folder = setup.certificates.folder();
    let manager = UnixDatagram::bind(folder.join("notify")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = Command::new(binary());
    command.arg("run").arg("--config").arg(setup.write()).env("NOTIFY_SOCKET", folder.join("notify"));
    let mut child = Unread(command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    manager.recv(&mut [0; 512]).unwrap();
    // The line that says where it listens is read, and nothing after it.
    let mut log = BufReader::with_capacity(1, child.0.stderr.take().unwrap()).lines();
    let start = log.find_map(|line| line.unwrap().split("public on ").nth(1).map(str::to_owned)).unwrap();
    let address = start.split(' ').next().unwrap().parse().unwrap();
    // A pipe holds 64 KiB; each session is a line of some 400 bytes.
    let dial = Dial::new(address, setup.certificates.roots());
    for _ in 0..1_000 {
        let mut client = dial.connect().unwrap();
        assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    }
    let begin = now();
    kill_process(Pid::from_child(&child.0), Signal::TERM).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
}

#[test]
fn a_log_file_is_appended_to_and_opened_anew_when_it_has_been_renamed() {
    let server = Server::on_unix_socket();
    let setup = Setup::before(server.address());
    let folder = setup.certificates.folder().to_owned();
    let (path, aside) = (folder.join("ringwall.log"), folder.join("ringwall.log.1"));
    let setup = setup.sections(&format!("target = {path:?}\n"));
    let mut command = Command::new(binary());
    command.arg("run").arg("--config").arg(setup.write()).env_remove("RINGWALL_LOG");
    let mut child = Unread(command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    text_with(&path, "\"started\"");
    let pid = Pid::from_child(&child.0);
    fs::rename(&path, &aside).unwrap();
    kill_process(pid, Signal::USR1).unwrap();
    text_with(&path, "log file reopened");
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    let is_ended = |path| fs::read_to_string(path).unwrap().contains("\"message\":\"ended\"");
    assert!(is_ended(&path) && !is_ended(&aside));
    let mut complaints = String::new();
    child.0.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
    assert_eq!(complaints, "");
}

#[test]
fn a_log_that_cannot_be_written_is_told_at_the_start() {
    let setup = Setup::before("127.0.0.1:1").sections("target = \"/nowhere/ringwall.log\"\n");
    let (success, output) = ringwall(&["run", "--config", &setup.write().display().to_string()]);
    let expected =
        "ringwall: log.target /nowhere/ringwall.log: cannot be opened to append to it: No such file or directory";
    assert!(!success && output.contains(expected), "{output}");
}

/// What a key looks like in a log: its lines of PEM, and its bytes as Rust and as hexadecimal dumps show them.
fn forms(pem: &str) -> Vec<String> {
    let key = KeyPair::from_pem(pem).unwrap().serialize_der();
    let mut forms: Vec<_> = pem.lines().filter(|line| !line.starts_with('-')).map(str::to_owned).collect();
    // The private number of a P-256 key in PKCS#8 stands behind 36 bytes, and is random from there on.
    forms.extend(dumps(&key[36..68]));
    forms
}

fn dumps(secret: &[u8]) -> [String; 2] {
    let hex = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let list: Vec<_> = secret[..8].iter().map(ToString::to_string).collect();
    [hex, list.join(", ")]
}

#[test]
fn no_payload_and_no_key_is_ever_logged() {
    let server = Server::on_unix_socket();
    let setup = Setup::before(server.address()).tls("ticket_secret = \"tickets.secret\"").argument("--unsafe-key-log");
    let secret: Vec<u8> = (0xa0..0xc0).collect();
    fs::write(setup.certificates.folder().join("tickets.secret"), &dumps(&secret)[0]).unwrap();
    let ringwall = setup.sections("level = \"trace\"\nkey_log = \"keys.log\"\n").start();
    let read = |name: &str| fs::read_to_string(ringwall.folder().join(name)).unwrap();
    let mut secrets: Vec<_> = ["sesame-opens", "private-key-name", "private-value"].map(str::to_owned).into();
    secrets.extend(dumps(&secret));
    secrets.extend(forms(&read("server.key")));
    let mut client = ringwall.client();
    client.call(&["AUTH", "sesame-opens"]);
    client.call(&["SET", "private-key-name", "private-value"]);
    client.call(&["GET", "private-key-name"]);
    client.end_writing();
    assert_eq!(client.end(), End::Orderly);
    ringwall.session_ended("client_closed");

    // Through reloads, good and bad, and another client.
    ringwall.certificates.replace_server();
    ringwall.process.line(|line| line.contains("\"reloaded\""));
    secrets.extend(forms(&read("server.key")));
    ringwall.assert_serves();
    fs::write(ringwall.folder().join("tickets.secret"), &dumps(&secret)[0][1..]).unwrap();
    ringwall.process.line(|line| line.contains("reload failed"));
    let half_key = read("server.key").replacen("-----END", "-----", 1);
    fs::write(ringwall.folder().join("server.key"), half_key).unwrap();
    ringwall.process.nth_line(2, |line| line.contains("reload failed"));
    ringwall.wait_for_ended_sessions(2);
    let key_log = read("keys.log");
    let logged = key_log.lines().map(|line| line.rsplit(' ').next().unwrap().to_owned());
    secrets.extend(logged);
    assert!(secrets.len() >= 3 + 2 + 2 * (2 + 3) + 2 * 5, "{}", secrets.len());
    secrets.push(dumps(&secret)[0][1..].to_owned());
    for line in ringwall.process.lines() {
        for secret in &secrets {
            assert!(!line.contains(secret), "{secret} in {line}");
        }
    }
}

#[test]
fn text_is_the_format_for_people_and_the_environment_wins_over_the_level() {
    let server = Server::on_unix_socket();
    let certificates = Certificates::new();
    let path = certificates.folder().join("ringwall.toml");
    let text = format!(
        "[[listener]]\nbind = \"127.0.0.1:0\"\nbackend = \"server\"\n\
         tls = {{ certificate = \"server.crt\", private_key = \"server.key\" }}\n\
         [[backend]]\nname = \"server\"\nservers = [{:?}]\n[log]\nlevel = \"error\"\n",
        server.address()
    );
    fs::write(&path, text).unwrap();
    let mut command = Command::new(binary());
    command.arg("run").arg("--config").arg(&path).env("RINGWALL_LOG", "info").env_remove("NOTIFY_SOCKET");
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let mut child = Unread(command.spawn().unwrap());
    let mut lines = BufReader::new(child.0.stderr.take().unwrap()).lines();
    let start = lines.find_map(|line| line.ok().filter(|line| line.contains("started"))).unwrap();
    assert!(start.contains("INFO started version=") && start.contains("shards="), "{start}");
}

#[test]
fn sessions_can_be_left_out_of_the_log() {
    let server = Server::on_unix_socket();
    let mut ringwall = Setup::before(server.address()).sections("sessions = false\n").start();
    ringwall.assert_serves();
    ringwall.terminate();
    assert_eq!(ringwall.wait().1.code(), Some(0));
    assert!(ringwall.process.lines().iter().all(|line| !line.contains("session closed")));
}

#[test]
fn the_line_at_start_tells_version_kernel_shards_listeners_and_budgets() {
    let server = Server::on_unix_socket();
    let ringwall = Ringwall::before(server.address());
    let line = ringwall.process.line(|line| line.contains("\"started\""));
    for field in ["version", "kernel", "shards", "listeners", "max_connections", "session_memory_max", "shard_memory"] {
        assert!(line.contains(&format!("\"{field}\":")), "{field} is not in {line}");
    }
}

#[test]
fn at_level_debug_a_session_is_named_as_soon_as_its_server_is_reached() {
    let server = Server::on_tcp();
    let ringwall = Setup::before(server.address()).sections("level = \"debug\"\n").start();
    let mut client = ringwall.client();
    let listed = client.call(&["CLIENT", "LIST"]);
    let port =
        String::from_utf8_lossy(&listed).split_once("addr=127.0.0.1:").unwrap().1.split(' ').next().unwrap().to_owned();
    let line = ringwall.process.line(|line| line.contains("session's server connected"));
    assert!(line.contains("\"DEBUG\"") && line.contains(&format!("\"server_local_port\":{port}")), "{line}");
    assert!(line.contains(&format!("\"server\":\"{}\"", server.address())), "{line}");
}

#[test]
fn the_story_of_a_session_that_found_its_second_server_does_not_tell_of_the_first() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before("unix:/nowhere/server.sock").and(server.address()).start();
    let mut client = ringwall.client();
    assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    client.end_writing();
    client.end();
    let line = ringwall.session_ended("client_closed");
    assert!(!line.contains("\"detail\""), "{line}");
}
