//! Reloads that have listeners, the log and administrators go elsewhere.

use std::fs;

use rustix::process::Signal;

use crate::changing::{Changing, assert_serves, backend, entry, listener};
use crate::process::text_with;
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
