//! Reloads that have listeners, the log and administrators go elsewhere.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};
use rustix::process::{Pid, Signal, kill_process};

use crate::admin::{Admin, answer};
use crate::changing::{Changing, assert_serves, backend, connect, entry, listener};
use crate::process::{Process, text_with};
use crate::server::{Server, free_port};

#[test]
fn the_log_goes_over_to_another_file_and_another_form_in_order_and_stays_where_that_fails() {
    let server = Server::on_unix_socket();
    let port = free_port();
    let program = Changing::start("a", &(listener("a", port, "b", "") + &backend("b", &[&entry(&server)], "")));
    let process = &program.ringwall.process;
    let path = program.ringwall.folder().join("ringwall.log");
    let why = program.refused("[log]\n", "[log]\ntarget = \"/nowhere/r.log\"\n");
    assert!(why.starts_with("log.target /nowhere/r.log: cannot be opened to append to it: No such file"), "{why}");
    assert_eq!(program.change("[log]\n", "# nothing\n[log]\n"), "none");
    let to_file = format!("[log]\ntarget = {path:?}\n");
    program.write(&program.text().replace("[log]\n", &to_file));
    let text = text_with(&path, "\"reloaded\"");
    assert!(text.lines().next().unwrap().contains("\"changes\":\"changed: log\""), "{text}");
    let last = process.line(|line| line.contains("the log goes on elsewhere"));
    assert!(last.contains(&format!("\"to\":{path:?}")), "{last}");
    assert_serves(port);
    text_with(&path, "\"session closed\"");
    // Renamed, and opened anew where it is by now.
    fs::rename(&path, path.with_extension("1")).unwrap();
    process.signal(Signal::USR1);
    text_with(&path, "log file reopened");
    program.write(&program.text().replace("format = \"json\"", "format = \"text\""));
    text_with(&path, "INFO reloaded cause=SIGHUP changes=changed: log ");
    assert_eq!(process.lines().last(), Some(&last));
    program.write(&program.text().replace(&to_file, "[log]\n"));
    process.line(|line| line.contains("INFO reloaded cause=SIGHUP changes=changed: log "));
    assert!(text_with(&path, "elsewhere").ends_with("INFO the log goes on elsewhere to=stderr\n"));
}

/// A program with an admin socket, and the lines of the configuration that say where that is.
fn administered(server: &Server) -> (Changing, String) {
    let text = listener("a", free_port(), "b", "") + &backend("b", &[&entry(server)], "");
    let program = Changing::start("a", &text);
    let text = program.text();
    let place = text[text.find("listen = ").unwrap()..].to_owned();
    (program, place)
}

fn at_socket(path: &Path) -> String {
    format!("listen = \"unix:{}\"\nallow_changes = true\n", path.display())
}

/// The path in these lines.
fn socket_of(place: &str) -> &Path {
    Path::new(place.split("unix:").nth(1).unwrap().split('"').next().unwrap())
}

#[test]
fn administrators_go_to_another_socket_and_who_has_come_to_the_one_before_is_served() {
    let server = Server::on_unix_socket();
    let (program, place) = administered(&server);
    let (here, there) = (socket_of(&place), program.ringwall.folder().join("there.sock"));
    let mut early = UnixStream::connect(here).unwrap();
    early.write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
    assert_eq!(program.change(&place, &at_socket(&there)), "changed: admin");
    assert!(!here.exists(), "the one before is left behind");
    assert_eq!(answer(early, "Host: ringwall\r\n\r\n").body, "ok\n");
    let admin = Admin::at(there.clone());
    let state = |admin: &Admin| admin.get("/status").body.contains("\"state\":\"drained\"");
    assert_eq!(admin.post("/drain?listener=a").status, 200);
    // What an operator has done is known wherever he asks.
    assert_eq!(program.change(&at_socket(&there), &place), "changed: admin");
    assert!(!there.exists() && state(&Admin::at(here.to_owned())));
    let mode = || fs::metadata(here).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(), 0o600);
    assert_eq!(program.change("allow_changes", "socket_mode = \"0660\"\nallow_changes"), "changed: admin");
    assert_eq!(mode(), 0o660);
    // Nowhere, and back again.
    let table = format!("[admin]\n{}", place.replace("allow_changes", "socket_mode = \"0660\"\nallow_changes"));
    assert_eq!(program.change(&table, ""), "changed: admin");
    assert!(!here.exists());
    assert_eq!(program.change_to(&(program.text() + &table)), "changed: admin");
    assert!(mode() == 0o660 && state(&Admin::at(here.to_owned())));
}

#[test]
fn a_place_for_administrators_that_cannot_be_had_changes_nothing() {
    let server = Server::on_unix_socket();
    let (program, place) = administered(&server);
    let admin = Admin::at(socket_of(&place).to_owned());
    let nowhere = at_socket(Path::new("/nowhere/admin.sock"));
    let why = program.refused(&place, &nowhere);
    assert!(why.starts_with("admin.listen: cannot listen on unix:/nowhere/admin.sock: No such file"), "{why}");
    assert_eq!(admin.get("/healthz").body, "ok\n");
    let precious = program.ringwall.folder().join("precious");
    fs::write(&precious, "x").unwrap();
    let why = program.refused(&place, &at_socket(&precious));
    assert!(why.ends_with("there is something else than a socket"), "{why}");
    assert_eq!((admin.get("/healthz").body, fs::read(&precious).unwrap()), ("ok\n".to_owned(), b"x".to_vec()));
}

#[test]
fn who_came_to_a_port_may_change_nothing_though_administrators_go_to_a_socket_that_allows_it() {
    let server = Server::on_unix_socket();
    let (program, place) = administered(&server);
    let port = free_port();
    let at_port = format!("listen = \"127.0.0.1:{port}\"\n");
    assert_eq!(program.change(&place, &at_port), "changed: admin");
    let connect = || TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
    assert_eq!(answer(connect(), "GET /healthz HTTP/1.1\r\nHost: ringwall\r\n\r\n").body, "ok\n");
    let mut early = connect();
    early.write_all(b"POST /log-level?level=debug HTTP/1.1\r\n").unwrap();
    assert_eq!(program.change(&at_port, &place), "changed: admin");
    assert_eq!(answer(early, "Host: ringwall\r\n\r\n").status, 403);
    assert_eq!(Admin::at(socket_of(&place).to_owned()).post("/log-level?level=debug").status, 200);
}

/// The number of the process that has taken over.
fn heir(process: &Process) -> Pid {
    let line = process.line(|line| line.contains("taken over: the next version serves"));
    let pid = line.split("\"pid\":").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
    Pid::from_raw(pid).unwrap()
}

#[test]
fn the_next_process_has_the_socket_that_a_reload_has_brought() {
    let server = Server::on_unix_socket();
    let (program, place) = administered(&server);
    let there = program.ringwall.folder().join("there.sock");
    program.change(&place, &at_socket(&there));
    let inode = || std::os::unix::fs::MetadataExt::ino(&fs::metadata(&there).unwrap());
    let before = inode();
    program.ringwall.process.signal(Signal::USR2);
    let pid = heir(&program.ringwall.process);
    program.ringwall.process.line(|line| line.contains("\"ended\""));
    assert_eq!((Admin::at(there.clone()).get("/healthz").body, inode()), ("ok\n".to_owned(), before));
    kill_process(pid, Signal::KILL).unwrap();
}

/// Whoever connects to all addresses may be a stranger to ringwall.
const OPEN: &str = "allow_unauthenticated = true";

/// The addresses of a port between which a listener moves.
fn narrow_and_wide(port: u16) -> [String; 2] {
    [format!("\"127.0.0.1:{port}\""), format!("\"0.0.0.0:{port}\"")]
}

/// Whether another program of this user could share the port, if it wanted to.
fn lets_others_in(port: u16) -> bool {
    let other = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseport(&other, true).unwrap();
    match bind(&other, &SocketAddr::from((Ipv4Addr::LOCALHOST, port))) {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error, Errno::ADDRINUSE);
            false
        }
    }
}

/// Set when this is dropped, also by a test that fails: whoever looks at it would go on for ever.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_listener_goes_to_all_addresses_of_its_port_and_back_and_no_client_is_refused() {
    const MOVES: usize = 20;
    let server = Server::on_unix_socket();
    let port = free_port();
    let program = Changing::start("a", &(listener("a", port, "b", OPEN) + &backend("b", &[&entry(&server)], "")));
    let mut client = connect(port);
    client.call(&["PING"]);
    let [narrow, wide] = narrow_and_wide(port);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let visitor = scope.spawn(|| {
            let mut visits = 0;
            while !ended.load(Ordering::Relaxed) {
                assert_serves(port);
                visits += 1;
            }
            visits
        });
        let at_end = AtEnd(&ended);
        for _ in 0..MOVES {
            assert_eq!(program.change(&narrow, &wide), "listeners changed: a");
            assert!(!lets_others_in(port));
            assert_eq!(program.change(&wide, &narrow), "listeners changed: a");
            assert!(!lets_others_in(port));
        }
        drop(at_end);
        assert!(visitor.join().unwrap() > MOVES);
    });
    assert_eq!(client.call(&["PING"]), b"+PONG\r\n");
    let elsewhere = SocketAddr::from(([127, 0, 0, 2], port));
    TcpStream::connect(elsewhere).unwrap_err();
    program.change(&narrow, &wide);
    TcpStream::connect(elsewhere).unwrap();
}

#[test]
fn an_address_beside_one_of_ringwall_s_own_that_another_program_has_is_told_as_that_and_changes_nothing() {
    let server = Server::on_unix_socket();
    let port = free_port();
    let program = Changing::start("a", &(listener("a", port, "b", OPEN) + &backend("b", &[&entry(&server)], "")));
    let other = TcpListener::bind(SocketAddr::from(([127, 0, 0, 2], port))).unwrap();
    let [narrow, wide] = narrow_and_wide(port);
    let why = program.refused(&narrow, &wide);
    let expected = format!(
        "listener \\\"a\\\": cannot listen on 0.0.0.0:{port} while ringwall still listens on 127.0.0.1:{port}: Address already \
         in use (os error 98); another program listens there, too"
    );
    assert!(why.starts_with(&expected), "{why}");
    assert_serves(port);
    assert!(!lets_others_in(port));
    drop(other);
    assert_eq!(program.change(&narrow, &wide), "listeners changed: a");
    assert_serves(port);
}

#[test]
fn the_next_process_listens_to_all_addresses_of_a_port_of_which_the_one_before_has_one() {
    let server = Server::on_unix_socket();
    let port = free_port();
    let program = Changing::start("a", &(listener("a", port, "b", OPEN) + &backend("b", &[&entry(&server)], "")));
    let [narrow, wide] = narrow_and_wide(port);
    let text = program.text();
    fs::write(program.ringwall.folder().join("ringwall.toml"), text.replace(&narrow, &wide)).unwrap();
    program.ringwall.process.signal(Signal::USR2);
    let pid = heir(&program.ringwall.process);
    program.ringwall.process.line(|line| line.contains("\"ended\""));
    assert_serves(port);
    TcpStream::connect(SocketAddr::from(([127, 0, 0, 2], port))).unwrap();
    assert!(!lets_others_in(port));
    kill_process(pid, Signal::KILL).unwrap();
}
