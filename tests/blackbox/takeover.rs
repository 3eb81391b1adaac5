//! SIGUSR2: the next version takes the place of the running one, and no client is refused.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::client::End;
use crate::process::PATIENCE;
use crate::ringwall::{Ringwall, Setup};
use crate::server::{Server, free_port};

/// Has ringwall run from a file of its own in the test's folder, so that the file can be replaced.
const FROM_OWN_FILE: &str = "own=\"$(dirname \"$3\")/ringwall\"; cp \"$0\" \"$own\"; exec \"$own\" \"$@\"";

/// The process that has taken over, ended when this is dropped.
struct Heir(Pid);

impl Heir {
    /// Waits until the service manager has been told which it is.
    fn of(ringwall: &Ringwall) -> Self {
        let told = told(ringwall);
        let pid = told.strip_prefix("MAINPID=").unwrap_or_else(|| panic!("told {told}")).trim();
        Self(Pid::from_raw(pid.parse().unwrap()).unwrap())
    }

    /// Has ringwall be taken over, and waits until that is done.
    fn take_over(ringwall: &Ringwall) -> Self {
        ringwall.process.signal(Signal::USR2);
        assert!(told(ringwall).ends_with("; the next version starts\n"));
        let heir = Self::of(ringwall);
        assert_is_ready(&told(ringwall));
        heir
    }

    fn folder(&self) -> PathBuf {
        format!("/proc/{}", self.0).into()
    }
}

impl Drop for Heir {
    fn drop(&mut self) {
        // It may have ended.
        kill_process(self.0, Signal::KILL).ok();
    }
}

/// What the service manager is told next, signs of life left out.
fn told(ringwall: &Ringwall) -> String {
    std::iter::repeat_with(|| ringwall.told()).find(|told| told != "WATCHDOG=1\n").unwrap()
}

fn assert_is_ready(told: &str) {
    assert!(told.starts_with("READY=1\nSTATUS=serving"), "{told}");
}

/// The line that a process logs at its start, of the `n`th process.
fn started(ringwall: &Ringwall, n: usize) -> String {
    ringwall.process.nth_line(n, |line| line.contains("\"started\""))
}

/// Waits until the process that was taken over has ended; its last line.
fn last_words(ringwall: &Ringwall) -> String {
    ringwall.process.line(|line| line.contains("\"ended\""))
}

fn config_of(ringwall: &Ringwall) -> (PathBuf, String) {
    let path = ringwall.folder().join("ringwall.toml");
    let text = fs::read_to_string(&path).unwrap();
    (path, text)
}

/// Puts another program where ringwall's is, as an upgrade does: by renaming.
fn replace_program(folder: &Path, script: &str) {
    fs::rename(folder.join("ringwall"), folder.join("before")).unwrap();
    let next = folder.join("next");
    fs::write(&next, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&next, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(next, folder.join("ringwall")).unwrap();
}

/// The children of a process, also those that have ended and were not waited for.
fn children_of(pid: Pid) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|task| task.unwrap().path());
    tasks.map(|task| fs::read_to_string(task.join("children")).unwrap_or_default()).collect()
}

/// What a process has open, without what tells two of a kind apart.
fn open_kinds(process: &Path) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for entry in fs::read_dir(process.join("fd")).unwrap() {
        let Ok(target) = fs::read_link(entry.unwrap().path()) else { continue };
        let target = target.to_string_lossy().into_owned();
        let kind = target.split(":[").next().unwrap();
        let kind = if kind == "anon_inode" { target.clone() } else { kind.to_owned() };
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

fn ping_in_plain(address: SocketAddr) {
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
}

const PLAIN_TOO: &str =
    "[[listener]]\nname = \"plain\"\nbind = \"127.0.0.1:0\"\nbackend = \"server\"\nplain = true\n[limits]\n";

#[test]
fn of_ten_thousand_connections_over_the_switch_none_is_refused_and_each_is_answered() {
    let server = Server::on_unix_socket();
    let sections = format!("sessions = false\n{PLAIN_TOO}shutdown_timeout = \"20s\"\n");
    let ringwall = Setup::before(server.address()).sections(&sections).start();
    let (plain, dial) = (ringwall.dial_to("plain").address(), ringwall.dial());
    let (answered, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let wait_for = |count: usize| {
        while answered.load(Ordering::SeqCst) < count && !over.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        let repeat = |connect: &dyn Fn()| {
            while !over.load(Ordering::SeqCst) {
                connect();
                answered.fetch_add(1, Ordering::SeqCst);
            }
        };
        let clients = [
            scope.spawn(move || repeat(&|| ping_in_plain(plain))),
            scope.spawn(move || repeat(&|| assert_eq!(dial.connect().unwrap().call(&["PING"]), b"+PONG\r\n"))),
        ];
        wait_for(4_000);
        let heir = Heir::take_over(&ringwall);
        let at_the_switch = answered.load(Ordering::SeqCst);
        wait_for(10_000.max(at_the_switch + 2_000));
        over.store(true, Ordering::SeqCst);
        for client in clients {
            client.join().unwrap();
        }
        assert!(last_words(&ringwall).contains("\"sessions_cut_off\":0"));
        drop(heir);
    });
}

#[test]
fn sessions_go_on_in_the_old_process_until_they_are_owed_nothing_and_new_ones_are_the_new_one_s() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).sections("[limits]\nshutdown_timeout = \"60s\"\n").start();
    let mut blocked = ringwall.client();
    blocked.send_request(&["BLPOP", "queue", "0"]);
    let mut direct = server.client();
    while !direct.text(&["INFO", "clients"]).contains("blocked_clients:1") {}
    let mut idle = ringwall.client();
    assert_eq!(idle.call(&["PING"]), b"+PONG\r\n");
    let _heir = Heir::take_over(&ringwall);
    assert_eq!(idle.rest(), (Vec::new(), End::Orderly));
    ringwall.assert_serves();
    // One that is draining is not taken over, and does not begin anew.
    ringwall.process.signal(Signal::USR2);
    ringwall.process.line(|line| line.contains("not taken over while sessions end"));
    direct.call(&["RPUSH", "queue", "work"]);
    assert_eq!(blocked.reply(), b"*2\r\n$5\r\nqueue\r\n$4\r\nwork\r\n");
    assert_eq!(blocked.rest(), (Vec::new(), End::Orderly));
    assert!(last_words(&ringwall).contains("\"sessions_cut_off\":0"));
    ringwall.assert_serves();
}

#[test]
fn the_new_process_takes_over_the_admin_socket_and_tickets_and_is_taken_over_in_turn() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin("").start();
    let dial = ringwall.dial();
    dial.connect().unwrap().call(&["PING"]);
    let mut heirs = vec![Heir::take_over(&ringwall)];
    for generation in 2..=3 {
        ringwall.process.nth_line(generation - 1, |line| line.contains("\"ended\""));
        // The file is the new process's, whose counts begin at none.
        assert_eq!(ringwall.admin().get("/readyz").status, 200);
        dial.connect().unwrap().call(&["PING"]);
        let metrics = ringwall.admin().metrics();
        let handshakes = metrics.nonzero("ringwall_handshakes_total");
        assert!(handshakes.keys().all(|labels| labels.contains("resumed=\"true\"")), "{handshakes:?}");
        assert_eq!(metrics.sum("ringwall_handshakes_total"), 1.0);
        if generation == 2 {
            kill_process(heirs[0].0, Signal::USR2).unwrap();
            assert!(ringwall.told().ends_with("; the next version starts\n"));
            heirs.push(Heir::of(&ringwall));
            assert_is_ready(&ringwall.told());
        }
    }
    kill_process(heirs[1].0, Signal::TERM).unwrap();
    ringwall.process.nth_line(3, |line| line.contains("\"ended\""));
    assert!(!ringwall.folder().join("admin.sock").exists(), "the last one leaves it behind");
}

#[test]
fn the_new_process_follows_the_configuration_as_it_is_then() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).sections(&format!("sessions = true\n{PLAIN_TOO}")).start();
    let gone = ringwall.dial_to("plain").address();
    ping_in_plain(gone);
    let (path, text) = config_of(&ringwall);
    fs::write(path, text.replace("name = \"plain\"\nbind = \"127.0.0.1:0\"", "name = \"new\"\nbind = \"[::1]:0\""))
        .unwrap();
    let _heir = Heir::take_over(&ringwall);
    let line = started(&ringwall, 2);
    assert!(line.contains(&format!("public on {} to server", ringwall.address)), "{line}");
    let new = line.split("new on ").nth(1).unwrap().split(' ').next().unwrap();
    ping_in_plain(new.parse().unwrap());
    last_words(&ringwall);
    assert!(TcpStream::connect(gone).is_err(), "a listener that is gone from the configuration is closed");
}

#[test]
fn the_new_process_has_open_what_a_start_opens_and_may_run_where_the_old_one_might() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin("").start();
    let old = PathBuf::from(format!("/proc/{}", ringwall.process.pid()));
    let before = open_kinds(&old);
    let allowed = |process: &Path| {
        let status = fs::read_to_string(process.join("status")).unwrap();
        status.lines().find(|line| line.starts_with("Cpus_allowed:")).unwrap().to_owned()
    };
    let may_run = allowed(&old);
    let heir = Heir::take_over(&ringwall);
    assert_eq!(open_kinds(&heir.folder()), before);
    assert_eq!(allowed(&heir.folder()), may_run);
}

#[test]
fn the_new_process_gives_the_signs_of_life_that_the_old_one_was_asked_for() {
    let server = Server::on_unix_socket();
    let watched = "export WATCHDOG_PID=$$ WATCHDOG_USEC=1000000000";
    let ringwall = Setup::before(server.address()).after(watched).start();
    let _heir = Heir::take_over(&ringwall);
    // The old one is silent by then.
    assert_eq!(ringwall.told(), "WATCHDOG=1\n");
}

#[test]
fn a_new_process_that_fails_is_gone_and_the_old_one_serves_as_before() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin("").after(FROM_OWN_FILE).start();
    let mut client = ringwall.client();
    let (path, text) = config_of(&ringwall);
    let mut failures = 0;
    let mut assert_fails = |why: &str| {
        failures += 1;
        ringwall.process.signal(Signal::USR2);
        assert!(ringwall.told().ends_with("; the next version starts\n"));
        let status = ringwall.told();
        assert!(status.starts_with("STATUS=serving, ") && status.contains(why), "{status}");
        let line = ringwall.process.nth_line(failures, |line| line.contains("takeover failed"));
        assert!(line.contains("\"level\":\"ERROR\"") && line.contains(&why.replace('"', "\\\"")), "{line}");
        assert_eq!(children_of(ringwall.process.pid()), "");
        assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
        ringwall.assert_serves();
        assert_eq!(ringwall.admin().get("/readyz").status, 200);
    };
    fs::write(&path, text.replace("backend = \"server\"", "backend = \"sever\"")).unwrap();
    assert_fails("listener.backend: ");
    fs::write(&path, text.replace("127.0.0.1:0", "192.0.2.1:6380")).unwrap();
    assert_fails("listener \"public\": cannot listen on 192.0.2.1:6380: ");
    fs::write(&path, text).unwrap();
    replace_program(ringwall.folder(), "exit 7");
    assert_fails("it ended without saying why (exit status: 7)");
    replace_program(ringwall.folder(), "kill -SEGV $$");
    assert_fails("it ended without saying why (signal: 11 (SIGSEGV)");
    fs::remove_file(ringwall.folder().join("ringwall")).unwrap();
    assert_fails("/ringwall cannot be started: No such file or directory");
}

#[test]
fn a_listener_that_an_operator_has_closed_is_open_again_after_a_takeover() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).on_port(free_port()).admin("allow_changes = true\n").start();
    assert_eq!(ringwall.admin().post("/drain?listener=public").status, 200);
    assert!(TcpStream::connect(ringwall.address).is_err(), "a closed listener refuses clients");
    let _heir = Heir::take_over(&ringwall);
    ringwall.assert_serves();
}

/// A next version that waits until the file `go` is there, and then is the one before.
const WAITS: &str = "cd \"$(dirname \"$0\")\"; echo \"waiting as $$\" >&2; while ! [ -e go ]; do sleep 0.01; done; exec ./before \"$@\"";

#[test]
fn signals_during_a_takeover_are_obeyed() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).after(FROM_OWN_FILE).start();
    replace_program(ringwall.folder(), WAITS);
    ringwall.process.signal(Signal::USR2);
    ringwall.process.line(|line| line.contains("waiting as"));
    ringwall.told();
    // A second takeover is none.
    ringwall.process.signal(Signal::USR2);
    ringwall.process.line(|line| line.contains("a takeover is under way already"));
    // What is read again meanwhile, the next version reads again as well.
    ringwall.process.signal(Signal::HUP);
    assert!(ringwall.told().starts_with("RELOADING=1\n"));
    assert!(ringwall.told().ends_with("; reloaded\n"));
    ringwall.assert_serves();
    fs::write(ringwall.folder().join("go"), "").unwrap();
    let _heir = Heir::of(&ringwall);
    assert_is_ready(&ringwall.told());
    assert!(ringwall.told().starts_with("RELOADING=1\n"));
    assert!(ringwall.told().ends_with("; reloaded\n"));
    last_words(&ringwall);
    ringwall.assert_serves();
}

#[test]
fn a_takeover_is_called_off_when_ticket_keys_are_rotated_meanwhile() {
    let server = Server::on_unix_socket();
    let ringwall = Setup::before(server.address()).admin("allow_changes = true\n").after(FROM_OWN_FILE).start();
    replace_program(ringwall.folder(), WAITS);
    ringwall.process.signal(Signal::USR2);
    ringwall.process.line(|line| line.contains("waiting as"));
    ringwall.told();
    assert_eq!(ringwall.admin().post("/rotate-tickets").status, 200);
    ringwall.process.line(|line| line.contains("takeover failed") && line.contains("ticket keys were rotated"));
    ringwall.assert_serves();
}

#[test]
fn a_takeover_is_called_off_when_the_process_is_to_end() {
    let server = Server::on_unix_socket();
    let mut ringwall = Setup::before(server.address()).after(FROM_OWN_FILE).start();
    replace_program(ringwall.folder(), WAITS);
    ringwall.process.signal(Signal::USR2);
    let line = ringwall.process.line(|line| line.contains("waiting as "));
    let next = Pid::from_raw(line.rsplit(' ').next().unwrap().parse().unwrap()).unwrap();
    ringwall.terminate();
    // Both have ended when this returns, since both write to where the test reads.
    let (last, status) = ringwall.wait();
    assert_eq!(status.code(), Some(0), "{last}");
    ringwall.process.line(|line| line.contains("the takeover is called off"));
    // Whoever has adopted it may not have collected it yet.
    let stat = fs::read_to_string(format!("/proc/{}/stat", next.as_raw_nonzero())).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "the next version is gone: {stat}");
}

#[test]
fn a_new_process_whose_predecessor_is_killed_ends() {
    let server = Server::on_unix_socket();
    let mut ringwall = Setup::before(server.address()).after(FROM_OWN_FILE).start();
    replace_program(ringwall.folder(), WAITS);
    ringwall.process.signal(Signal::USR2);
    ringwall.process.line(|line| line.contains("waiting as "));
    ringwall.process.signal(Signal::KILL);
    fs::write(ringwall.folder().join("go"), "").unwrap();
    let (last, _) = ringwall.wait();
    assert!(last.contains("the running process keeps its place") || last.contains("Broken pipe"), "{last}");
}
