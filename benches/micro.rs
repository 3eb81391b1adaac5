//! Instructions per operation of the parts on the data path, counted by valgrind's callgrind.
//!
//! Each case runs in two processes of its own, with few and with many operations; the difference over the number of
//! operations between them is what one costs. Only the operations are counted, not what prepares them, so a figure moves
//! by a few parts in a thousand at most unless the code changes. `--time` measures nanoseconds instead.

#[path = "micro/cases.rs"]
mod cases;
#[path = "support/credentials.rs"]
mod credentials;
#[path = "support/samples.rs"]
mod samples;
#[path = "support/tls_client.rs"]
mod tls_client;

use std::process::{Command, ExitCode};

use clap::Parser;
use ringwall::io::sys::now;

use crate::cases::{Case, cases};
use crate::samples::Samples;

/// Operations of the two counted runs.
const FEW: u64 = 100;
const MANY: u64 = 600;
/// Timed runs of a case.
const TIMED_RUNS: usize = 15;

/// Instructions per operation (callgrind), or nanoseconds.
#[derive(Debug, Parser)]
struct Arguments {
    /// Only the cases whose name contains this
    #[arg(default_value = "")]
    case: String,
    /// Measures wall-clock time, without valgrind
    #[arg(long)]
    time: bool,
    /// Runs one case this many times and prints nothing: what valgrind is given to run
    #[arg(long, hide = true)]
    operations: Option<u64>,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let cases = cases();
    if let Some(operations) = arguments.operations {
        let case = cases.iter().find(|case| case.name == arguments.case).expect("one of the cases");
        measured(&mut *(case.prepare)(operations), operations);
        return ExitCode::SUCCESS;
    }
    let chosen: Vec<_> = cases.iter().filter(|case| case.name.contains(&arguments.case)).collect();
    let printed = if arguments.time { print_times(&chosen) } else { print_instructions(&chosen) };
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The one place whose instructions are counted: callgrind is told its name.
#[inline(never)]
fn measured(operation: &mut dyn FnMut(), times: u64) {
    for _ in 0..times {
        operation();
    }
}

fn print_instructions(cases: &[&Case]) -> Result<(), String> {
    println!("{:<44}{:>16}", "", "instructions");
    for case in cases {
        let (few, many) = (count(case.name, FEW)?, count(case.name, MANY)?);
        println!("{:<44}{:>16.1}", case.name, (many - few) as f64 / (MANY - FEW) as f64);
    }
    Ok(())
}

/// The instructions of `operations` operations of a case.
fn count(case: &str, operations: u64) -> Result<u64, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = folder.path().join("callgrind");
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--toggle-collect=micro::measured"]);
    command.arg(format!("--callgrind-out-file={}", file.display()));
    command.arg(program).arg(case).args(["--operations", &operations.to_string()]);
    let output = command.output().map_err(|error| {
        format!("valgrind cannot be run ({error}): install it (apt-get install valgrind), or measure time with --time")
    })?;
    let counted = std::fs::read_to_string(&file).unwrap_or_default();
    let total = counted.lines().find_map(|line| line.strip_prefix("totals: ")?.parse().ok());
    total.filter(|&total| output.status.success() && total > 0).ok_or_else(|| {
        format!("valgrind has counted nothing of \"{case}\":\n{}", String::from_utf8_lossy(&output.stderr))
    })
}

fn print_times(cases: &[&Case]) -> Result<(), String> {
    println!("{:<44}{:>16}{:>24}", "", "ns, median", "smallest and largest");
    for case in cases {
        let runs: Samples = (0..TIMED_RUNS)
            .map(|_| {
                let mut operation = (case.prepare)(case.timed);
                let started = now();
                measured(&mut *operation, case.timed);
                now().since(started).as_nanos() as f64 / case.timed as f64
            })
            .collect();
        println!("{:<44}{:>16.1}{:>12.1}{:>12.1}", case.name, runs.median(), runs.min(), runs.max());
    }
    Ok(())
}
