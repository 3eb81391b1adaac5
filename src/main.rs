//! The program: arguments, configuration, log, run, exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use ringwall::cli::{Cli, Command, ConfigFile, Ctl, Doctor, Plan, Top, documents};
use ringwall::config::{Config, Keyring, Machine, raise_open_files};
use ringwall::control::{LogFilter, LogOutput, Logging, Notifier};
use ringwall::doctor::{self, Verdict};
use ringwall::io::sys;
use ringwall::secrecy::keep_memory_private;
use ringwall::server::{self, StartError};
use ringwall::takeover::{Excuse, Predecessor};

/// The configuration, the machine or the program failed; what is wrong with arguments is 2, which clap uses.
const FAILED: u8 = 1;
/// The doctor has found something that needs attention.
const ATTENTION: u8 = 2;
/// io_uring is not available: `EX_CONFIG` of `sysexits.h`, since it takes another kernel, sysctl or seccomp profile.
const NO_IO_URING: u8 = 78;

fn main() -> ExitCode {
    sys::survive_full_files();
    let mut excuse = None;
    let done = match Cli::parse().command {
        Command::Run(file) => run(&file, &mut excuse),
        Command::Check(file) => check(&file),
        Command::Doctor(arguments) => match examine(&arguments) {
            Ok(verdict) => return ExitCode::from(verdict),
            Err(failure) => Err(failure),
        },
        Command::Completions { shell } => put_out(&documents::completions(shell)),
        Command::Man => put_out(&documents::manual_page()),
        Command::Ctl(ctl) => ask(&ctl),
        Command::Top(top) => watch(&top),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, text }) => {
            complain(&format!("ringwall: {text}\n"));
            if let Some(excuse) = &excuse {
                excuse.give(&text);
            }
            ExitCode::from(code)
        }
    }
}

/// Why the program ends, and its exit code.
struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    fn of(error: impl std::fmt::Display) -> Self {
        Self { code: FAILED, text: error.to_string() }
    }
}

/// To be called before the first secret is there. Who asks for a key log debugs, and gives all secrets away already: that
/// process stays open to debuggers.
fn keep_private(file: &ConfigFile) -> Result<(), Failure> {
    if file.unsafe_key_log {
        return Ok(());
    }
    keep_memory_private().map_err(|error| Failure::of(format!("core files cannot be switched off: {error}")))
}

/// Reads the configuration and what it names, as far as the command line allows it.
fn load(file: &ConfigFile) -> Result<(Config, Keyring), Failure> {
    let loaded = Config::load(&file.config, &Machine::of_this_process()).map_err(Failure::of)?;
    loaded.0.check_key_log(file.unsafe_key_log).map_err(Failure::of)?;
    Ok(loaded)
}

fn check(file: &ConfigFile) -> Result<(), Failure> {
    keep_private(file)?;
    let (config, _) = load(file)?;
    LogFilter::from_environment().map_err(Failure::of)?;
    // It may be checked on another machine than the one that it is for, and before the servers are there.
    for warning in config.warnings.iter().chain(&config.to_be_probed).chain(&config.warnings_for_check()) {
        complain(&format!("ringwall: warning: {warning}\n"));
    }
    if let Err(error) = server::check_sources(&config) {
        complain(&format!("ringwall: warning: {error}\n"));
    }
    put_out(&format!("{}: valid\n{}", file.config.display(), Plan(&config)))
}

/// Prints what was asked for. Whoever reads no further has seen enough.
fn put_out(text: &str) -> Result<(), Failure> {
    match print(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::of(format!("standard output cannot be written: {error}")))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Prints a diagnosis, and gives the exit code of its verdict.
fn examine(arguments: &Doctor) -> Result<u8, Failure> {
    let diagnosis = keep_memory_private()
        .and_then(|()| match &arguments.config {
            Some(config) if arguments.live => doctor::examine_running(config),
            config => doctor::examine(config.as_deref()),
        })
        .map_err(|error| Failure::of(format!("the system gives no file descriptor or memory: {error}")))?;
    put_out(&if arguments.json { diagnosis.to_json() } else { diagnosis.to_string() })?;
    Ok(match diagnosis.verdict() {
        Verdict::Good => 0,
        Verdict::Bad => FAILED,
        Verdict::Attention => ATTENTION,
    })
}

fn ask(ctl: &Ctl) -> Result<(), Failure> {
    let text = ctl.run().map_err(Failure::of)?;
    put_out(&text)
}

fn watch(top: &Top) -> Result<(), Failure> {
    match top.run().map_err(Failure::of)? {
        Some(frame) => put_out(&frame),
        None => Ok(()),
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut output = io::stdout();
    output.write_all(text.as_bytes())?;
    output.flush()
}

/// Runs, in the place of the process that started this one for that, if one did. `excuse` is the way to tell that one why
/// this fails.
fn run(file: &ConfigFile, excuse: &mut Option<Excuse>) -> Result<(), Failure> {
    keep_private(file)?;
    let predecessor = Predecessor::from_environment()
        .map_err(|error| Failure::of(format!("what the running process hands over does not come: {error}")))?;
    *excuse = predecessor.as_ref().map(Predecessor::excuse);
    let (config, keyring) = load(file)?;
    let filter = LogFilter::from_environment().map_err(Failure::of)?;
    let notifier = Notifier::from_environment().map_err(|error| Failure::of(format!("NOTIFY_SOCKET: {error}")))?;
    raise_open_files(config.open_files_max())
        .map_err(|error| Failure::of(format!("the limit of open files cannot be raised: {error}")))?;
    let output = LogOutput::open(&config.log.target).map_err(Failure::of)?;
    let logging = Logging::start(&config.log, filter, output)
        .map_err(|error| Failure::of(StartError::Thread { name: "log".to_owned(), error }))?;
    let ending = server::run(&config, keyring, &logging, notifier, predecessor).map_err(|error| match error {
        StartError::Unavailable(_) => Failure { code: NO_IO_URING, text: error.to_string() },
        StartError::Bind { .. }
        | StartError::Beside { .. }
        | StartError::Inherited(_)
        | StartError::Source { .. }
        | StartError::Admin { .. }
        | StartError::AdminMode { .. }
        | StartError::Tls { .. }
        | StartError::KeyLog { .. }
        | StartError::Thread { .. }
        | StartError::System(_) => Failure::of(error),
    })?;
    match ending.failure {
        None => Ok(()),
        Some(failure) => Err(Failure::of(failure)),
    }
}

/// Writes to where errors go. When that fails there is no place left to say so.
fn complain(text: &str) {
    drop(io::stderr().write_all(text.as_bytes()));
}
