//! Instructions per operation of the parts on the data path, counted by valgrind's callgrind.
//!
//! Each case runs in a process of its own: some operations that warm up, then those that are counted. What prepares them
//! is not counted, so a figure moves by a few parts in a thousand at most unless the code changes. `--time` measures
//! nanoseconds instead.

#[path = "micro/baseline.rs"]
mod baseline;
#[path = "micro/cases.rs"]
mod cases;
#[path = "micro/connected.rs"]
mod connected;
#[path = "support/credentials.rs"]
mod credentials;
#[path = "support/samples.rs"]
mod samples;
#[path = "support/tls_client.rs"]
mod tls_client;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Parser;
use ringwall::io::sys::now;

use crate::baseline::{Baseline, Change};
use crate::cases::{Case, cases};
use crate::samples::Samples;

/// Operations that let everything grow to its size.
const WARMING: u64 = 100;
/// Operations that are counted.
const COUNTED: u64 = 500;
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
    /// Compares with the counts in this file, and fails where there are more
    #[arg(long, conflicts_with = "time")]
    baseline: Option<PathBuf>,
    /// Writes the counts to this file
    #[arg(long, conflicts_with_all = ["time", "baseline", "case"])]
    record: Option<PathBuf>,
    /// Runs one case and prints nothing: what valgrind is given to run
    #[arg(long, hide = true)]
    counted: bool,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let cases = cases();
    if arguments.counted {
        let case = cases.iter().find(|case| case.name == arguments.case).expect("one of the cases");
        let mut operation = (case.prepare)(WARMING + COUNTED);
        (0..WARMING).for_each(|_| operation());
        measured(&mut *operation, COUNTED);
        return ExitCode::SUCCESS;
    }
    let chosen: Vec<_> = cases.iter().filter(|case| case.name.contains(&arguments.case)).collect();
    let printed = if arguments.time {
        print_times(&chosen);
        Ok(())
    } else {
        print_instructions(&chosen, &arguments)
    };
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

fn print_instructions(cases: &[&Case], arguments: &Arguments) -> Result<(), String> {
    let baseline = arguments.baseline.as_deref().map(Baseline::read).transpose()?;
    println!("{:<56}{:>12}", "", "instructions");
    let (mut counts, mut failed) = (Vec::new(), Vec::new());
    for case in cases {
        let count = count(case.name)?;
        print!("{:<56}{count:>12.1}", case.name);
        if let Some((name, of)) = case.beside.and_then(|name| counts.iter().find(|(other, _)| *other == name)) {
            print!("   {:.4} of \"{name}\"", count / of);
        }
        if let Some(baseline) = &baseline {
            let before = baseline.count(case.name).unwrap_or(f64::NAN);
            match baseline.compare(case.name, count) {
                Change::Within => {}
                Change::Less => print!("   was {before:.1}: fewer, record them"),
                change @ (Change::More | Change::New) => {
                    print!("   was {before:.1}: {}", if change == Change::More { "MORE" } else { "NEW" });
                    failed.push(case.name);
                }
            }
        }
        println!();
        counts.push((case.name, count));
    }
    if let Some(path) = &arguments.record {
        Baseline::write(path, &counts)?;
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!(
        "more instructions than the baseline has, or none there: {}. Where that is meant to be, say so in the commit and \
         record the counts with benches/regress.sh --record",
        failed.join("; ")
    ))
}

/// The instructions of an operation of a case.
fn count(case: &str) -> Result<f64, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = folder.path().join("callgrind");
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--toggle-collect=micro::measured"]);
    command.arg(format!("--callgrind-out-file={}", file.display()));
    command.arg(program).arg(case).arg("--counted");
    let output = command.output().map_err(|error| {
        format!("valgrind cannot be run ({error}): install it (apt-get install valgrind), or measure time with --time")
    })?;
    let counted = std::fs::read_to_string(&file).unwrap_or_default();
    let total = counted.lines().find_map(|line| line.strip_prefix("totals: ")?.parse::<u64>().ok());
    let total = total.filter(|&total| output.status.success() && total > 0).ok_or_else(|| {
        format!("valgrind has counted nothing of \"{case}\":\n{}", String::from_utf8_lossy(&output.stderr))
    })?;
    Ok(total as f64 / COUNTED as f64)
}

fn print_times(cases: &[&Case]) {
    println!("{:<56}{:>16}{:>24}", "", "ns, median", "smallest and largest");
    for case in cases {
        let runs: Samples = (0..TIMED_RUNS)
            .map(|_| {
                let mut operation = (case.prepare)(case.timed);
                let started = now();
                measured(&mut *operation, case.timed);
                now().since(started).as_nanos() as f64 / case.timed as f64
            })
            .collect();
        println!("{:<56}{:>16.1}{:>12.1}{:>12.1}", case.name, runs.median(), runs.min(), runs.max());
    }
}
