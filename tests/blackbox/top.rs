//! `ringwall top` in a real terminal, in front of a running ringwall.

use rustix::process::Signal;

use crate::client::{Client, End};
use crate::ringwall::{Ringwall, Setup, ringwall};
use crate::server::{Server, free_port};
use crate::terminal::Terminal;

fn watch(of: &Ringwall) -> Terminal {
    Terminal::watching(&of.folder().join("admin.sock").display().to_string(), "")
}

fn address(client: &Client) -> String {
    client.socket().local_addr().unwrap().to_string()
}

#[test]
fn sessions_are_seen_sorted_filtered_and_closed_and_listeners_drained() {
    let server = Server::on_tcp();
    let of = Setup::before(server.address()).on_port(free_port()).admin("allow_changes = true\n").start();
    let (mut doomed, mut other) = (of.client(), of.client());
    assert_eq!(doomed.call(&["PING"]), b"+PONG\r\n");
    assert_eq!(other.call(&["PING"]), b"+PONG\r\n");
    let terminal = watch(&of);
    let screen = terminal.until("both sessions", |screen| {
        screen.contains(&address(&doomed)) && screen.contains(&address(&other)) && screen.contains("B/s")
    });
    for text in ["ringwall 0.1.0: serving", "Sessions 2,", "  public ", &server.address(), "2 sessions   stalled, then"]
    {
        assert!(screen.contains(text), "{text}:\n{screen}");
    }
    assert!(screen.trim_end().ends_with("x close  d drain  e enable"), "{screen}");
    terminal.press(&["s"]);
    terminal.shows("2 sessions   oldest first");
    terminal.press(&["/"]);
    terminal.press(&["-l", &address(&doomed)]);
    terminal.press(&["Enter"]);
    terminal.until("one session", |screen| screen.contains("1 sessions") && !screen.contains(&address(&other)));
    terminal.press(&["Down", "x"]);
    terminal.until("the question", |screen| screen.contains(&format!(" of {}? y/n", address(&doomed))));
    terminal.press(&["n"]);
    terminal.shows("q quit");
    assert_eq!(doomed.call(&["PING"]), b"+PONG\r\n");
    terminal.press(&["x", "y"]);
    assert_eq!(doomed.end(), End::Orderly);
    of.session_ended("operator");
    terminal.shows(" closed");
    assert_eq!(other.call(&["PING"]), b"+PONG\r\n");
    terminal.press(&["Escape"]);
    terminal.shows("1 sessions   oldest first");
    terminal.press(&["Tab", "Tab", "Down", "d"]);
    terminal.shows("Drain listener public? y/n");
    terminal.press(&["y"]);
    terminal.shows(" drained ");
    assert_eq!(other.end(), End::Orderly);
    terminal.press(&["e"]);
    terminal.shows(" open ");
    of.assert_serves();
    terminal.press(&["q"]);
    terminal.assert_given_back();
}

#[test]
fn a_listener_whose_clients_share_connections_has_a_pane_of_its_own() {
    let server = Server::on_unix_socket();
    let setup = Setup::before(server.address()).listener("mode = \"multiplex\"").sections("[runtime]\nshards = 1\n");
    let of = setup.admin("").start();
    let (mut client, mut watcher) = (of.client(), of.client());
    assert_eq!(watcher.call(&["WATCH", "a"]), b"+OK\r\n");
    let terminal = watch(&of);
    terminal.shows(" MULTIPLEXED ");
    // What was asked between two looks is told until the next, so it is asked until it is seen.
    let deadline = crate::process::now() + crate::process::PATIENCE;
    let row = loop {
        for _ in 0..100 {
            assert_eq!(client.call(&["GET", "a"]), b"$-1\r\n");
        }
        let screen = terminal.screen();
        let below = screen.lines().skip_while(|line| !line.contains(" MULTIPLEXED ")).nth(1).unwrap_or_default();
        let row: Vec<_> = below.split_whitespace().map(str::to_owned).collect();
        if row.get(4).is_some_and(|share| share == "100") {
            assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
            break row;
        }
        assert!(crate::process::now() < deadline, "waited in vain:\n{screen}");
    };
    assert_eq!(row[..3], ["public", "1", "1"]);
    assert!(row[3].parse::<f64>().unwrap() > 0.0 && row[5..7] == ["%", "1.0"], "{row:?}");
    assert!(["us", "ms"].contains(&&*row[8]), "{row:?}");
    terminal.press(&["q"]);
    terminal.assert_given_back();
}

#[test]
fn without_permission_nothing_is_changed_and_a_signal_gives_the_terminal_back() {
    let server = Server::on_unix_socket();
    let of = Setup::before(server.address()).admin("").start();
    let client = of.client();
    for signal in [Signal::TERM, Signal::INT] {
        let terminal = watch(&of);
        terminal.until("the session", |screen| screen.contains(&address(&client)));
        assert!(terminal.screen().contains("changes are off, every 200ms"));
        terminal.press(&["Down", "x"]);
        terminal.shows("Changes are off: admin.allow_changes = true would allow them");
        terminal.signal(signal);
        terminal.assert_given_back();
    }
}

#[test]
fn a_terminal_that_is_resized_is_filled_again_and_control_c_ends() {
    let server = Server::on_unix_socket();
    let of = Setup::before(server.address()).admin("").start();
    let terminal = watch(&of);
    terminal.shows("  public ");
    terminal.tmux(&["resize-window", "-x", "50", "-y", "18"]);
    terminal.until("18 lines", |screen| {
        screen.lines().count() == 18 && screen.lines().nth(17).is_some_and(|line| line.starts_with("q quit  ? help"))
    });
    terminal.press(&["?"]);
    terminal.shows("Any key goes back");
    terminal.press(&["C-c"]);
    terminal.assert_given_back();
}

#[test]
fn a_ringwall_that_comes_and_goes_is_found_again() {
    let server = Server::on_unix_socket();
    let setup = Setup::before(server.address()).admin("");
    let socket = setup.certificates.folder().join("admin.sock").display().to_string();
    let terminal = Terminal::watching(&socket, "");
    terminal.shows("NO ANSWER for ");
    let mut of = setup.start();
    terminal.shows("  public ");
    of.terminate();
    of.wait();
    let screen = terminal.shows("NO ANSWER for ");
    assert!(screen.contains("  public "), "{screen}");
    terminal.press(&["q"]);
    terminal.assert_given_back();
}

#[test]
fn there_is_no_colour_where_none_is_wanted() {
    let server = Server::on_unix_socket();
    let of = Setup::before(server.address()).admin("").start();
    let socket = of.folder().join("admin.sock").display().to_string();
    for (variables, coloured) in [("", true), ("NO_COLOR=1", false)] {
        let terminal = Terminal::watching(&socket, variables);
        terminal.shows(" unchecked ");
        let screen = terminal.tmux(&["capture-pane", "-p", "-e"]);
        // Green, in the two forms that versions of tmux give it back.
        let green = ["\u{1b}[32m", "\u{1b}[38;5;2m"].iter().any(|green| screen.contains(green));
        assert_eq!(green, coloured, "{screen:?}");
        terminal.press(&["q"]);
        terminal.assert_given_back();
    }
}

#[test]
fn one_frame_is_printed_for_scripts() {
    let server = Server::on_unix_socket();
    let of = Setup::before(server.address()).admin("").start();
    let client = of.client();
    let config = of.folder().join("ringwall.toml").display().to_string();
    let (success, frame) = ringwall(&["top", "--config", &config, "--interval", "200ms", "--once"]);
    assert!(success, "{frame}");
    assert_eq!(frame.lines().count(), 24, "{frame}");
    assert!(frame.contains("Sessions 1, 0.0 new/s") && frame.contains(&address(&client)), "{frame}");
    let (success, said) = ringwall(&["top", "--config", &config]);
    assert!(!success, "{said}");
    assert_eq!(said, "ringwall: standard input and output are no terminal: --once prints one frame as text\n");
    let (success, said) = ringwall(&["top", "--socket", "/nowhere/admin.sock", "--once"]);
    assert!(!success && said.contains("--config FILE or --socket PATH say where"), "{said}");
}
