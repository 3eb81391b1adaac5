//! System calls of a running process, counted by strace(1).

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// How often each system call was made.
pub(crate) type Calls = BTreeMap<String, u64>;

/// Counts the system calls of all threads of process `id` while `work` is done. `folder` takes a file.
///
/// # Errors
/// What strace says when it cannot be run or may not attach.
pub(crate) fn during(id: u32, folder: &Path, work: impl FnOnce()) -> Result<Calls, String> {
    let file = folder.join("strace");
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-o"]).arg(&file).args(["-p", &id.to_string()]);
    let mut strace =
        command.stderr(Stdio::piped()).spawn().map_err(|error| format!("strace cannot be run: {error}"))?;
    let mut said = String::new();
    let mut lines = BufReader::new(strace.stderr.take().expect("its standard error is a pipe"));
    // It speaks when it has attached to every thread, or when it may not.
    lines.read_line(&mut said).map_err(|error| error.to_string())?;
    if !said.contains(" attached") {
        return Err(said);
    }
    work();
    kill_process(Pid::from_child(&strace), Signal::INT).map_err(|error| error.to_string())?;
    strace.wait().map_err(|error| error.to_string())?;
    let table = fs::read_to_string(&file).map_err(|error| format!("strace has written nothing: {error}"))?;
    Ok(table.lines().filter_map(row).collect())
}

/// A row of the table: share of the time, seconds, microseconds a call, calls, errors if there were any, name.
fn row(text: &str) -> Option<(String, u64)> {
    let columns: Vec<_> = text.split_whitespace().collect();
    let calls = columns.get(3)?.parse().ok()?;
    let name = *columns.last()?;
    (name != "total").then(|| (name.to_owned(), calls))
}
