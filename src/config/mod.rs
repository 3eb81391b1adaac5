//! The configuration: what the operator wrote, resolved and checked.
//!
//! `raw` mirrors the file, this module makes a [`Config`] of it: every default filled in, every value within its
//! bounds, every name known, every address resolved. Whoever holds a [`Config`] that was loaded need not check
//! anything again. Loading starts nothing and binds nothing; it reads files and looks host names up.
//!
//! `config/ringwall.toml` documents each key for operators. Read `tests/config_files.rs` first.

mod address;
mod admin;
mod admission;
mod backend;
mod backend_edge;
mod backend_tls;
mod cert_dir;
mod changes;
mod check_secrets;
mod client_auth;
mod credential;
mod duration;
mod error;
mod fixed;
mod health_check;
mod limits;
mod listener;
mod listener_edge;
mod machine;
mod multiplex;
mod network;
mod policy;
mod raw;

mod runtime;
mod section;
mod security;
mod sentinel;
mod server;
mod session_limits;
mod size;
mod tls;
mod tls_files;
mod value;
mod warnings;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;

pub use self::admin::Admin;
pub use self::admission::Admission;
pub use self::backend::Backend;
pub use self::backend_tls::BackendTls;
pub use self::changes::{Changes, Named};
pub use self::check_secrets::CheckSecrets;
pub use self::error::ConfigError;
pub use self::fixed::RestartNeeded;
pub use self::health_check::{CheckKind, HealthCheck, Login, OnDemotion, WantedRole};
pub use self::limits::Limits;
pub use self::listener::{Listener, Unreachable};
pub use self::listener_edge::{ListenerEdge, User};
pub use self::machine::{Machine, raise_open_files};
pub use self::multiplex::Multiplex;
pub use self::runtime::Runtime;
pub use self::security::Security;
pub use self::sentinel::Sentinel;
pub use self::server::Entry;
pub use self::session_limits::SessionLimits;
pub use self::tls::{Pair, Tls};
pub use self::tls_files::TlsFiles;
pub use crate::roster::Server;

pub use self::duration::{parse as parse_duration, show as show_duration};
pub use self::size::show as show_size;

use self::backend_tls::load_backend_credentials;
use self::error::Source;
use self::raw::{RawConfig, Value};
use self::section::{Section, is_word};
use crate::secret::Secret;
use crate::tls::{BackendCredentials, Credentials};

/// Most listeners, backends, and servers of one backend: far above any use, and within the records' 16-bit indices.
pub(crate) const ENTRIES_MAX: usize = 1_024;

/// Everything that `ringwall run` needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients connect; at least one. Records name a listener by its index here.
    pub listeners: Vec<Listener>,
    /// Where their bytes go; at least one. Records name a backend by its index here.
    pub backends: Vec<Backend>,
    /// Threads and cores.
    pub runtime: Runtime,
    /// Bounds on time, memory and numbers.
    pub limits: Limits,
    /// How strict it is with the machine around it.
    pub security: Security,
    /// How long small writes are gathered into one record.
    pub coalesce: Coalesce,
    /// What is logged, and how.
    pub log: Log,
    /// Where administrators and Prometheus connect; without it nothing listens for them.
    pub admin: Option<Admin>,
    /// A file for the secrets of every connection; see [`Config::check_key_log`].
    pub key_log: Option<PathBuf>,
    /// What is allowed and probably not meant, each one line that names file and line.
    pub warnings: Vec<String>,
    /// Listeners that strangers can reach without a certificate, each one line that names file and line: what their
    /// servers are like is known only once they are asked.
    pub to_be_probed: Vec<String>,
    /// Whether `limits.max_connections` is written, and not made to fit the machine.
    connections_written: bool,
    /// What it was read from.
    source: Arc<Source>,
}

/// What the files hold that a configuration names: certificates, keys, revocation lists.
#[derive(Debug)]
pub struct Keyring {
    /// Of each listener, in their order; none where it is plain.
    pub listeners: Vec<Option<Credentials>>,
    /// Of each backend, in their order; none where it is plain.
    pub backends: Vec<Option<BackendCredentials>>,
    /// Of the users of each listener, in their order.
    pub passwords: Vec<Vec<Secret>>,
    /// What each backend's checks need, in their order.
    pub checks: Vec<CheckSecrets>,
}

/// How long small writes are gathered into one record and one send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coalesce {
    /// Each chunk received leaves by itself.
    Off,
    /// What is written during one pass of the loop leaves together, up to this many bytes.
    Bytes(usize),
    /// What is written during one pass of the loop leaves together, however much it is.
    Unbounded,
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Where it goes.
    pub target: LogTarget,
    /// The form of a line.
    pub format: LogFormat,
    /// The least important level that is logged; the environment variable `RINGWALL_LOG` wins over it.
    pub level: LogLevel,
    /// Whether closed sessions are lines.
    pub sessions: bool,
    /// One of so many sessions that ended in good order is a line.
    pub sample: u32,
    /// Lines a second about sessions that did not; more are counted.
    pub failures_per_second: u32,
}

/// Where the log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard error.
    Stderr,
    /// systemd's journal, with fields of its own.
    Journal,
    /// The end of this file.
    File(PathBuf),
}

impl fmt::Display for LogTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stderr => f.write_str("stderr"),
            Self::Journal => f.write_str("journal"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Lines a second about sessions that failed, where the file does not say: with some 400 bytes each, 700 MB a day.
const FAILURES_PER_SECOND: u32 = 20;

/// How important a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Something failed that should not.
    Error,
    /// Something needs attention.
    Warn,
    /// Start, stop, and each session.
    Info,
    /// Single steps.
    Debug,
    /// Everything.
    Trace,
}

impl Config {
    /// Reads and checks a file and the files it names.
    ///
    /// # Errors
    ///
    /// The first thing wrong in the file, or that it or a file it names cannot be used.
    pub fn load(file: &Path, machine: &Machine) -> Result<(Self, Keyring), ConfigError> {
        let source = Arc::new(Source::read(file)?);
        let raw = raw::parse(&source)?;
        let mut config = resolve(&source, &raw, machine)?;
        let (keyring, warnings) = config.load_keyring(&raw)?;
        config.warnings.extend(warnings);
        Ok((config, keyring))
    }

    /// Reads its file again, as it is by now.
    ///
    /// # Errors
    ///
    /// As of [`Config::load`].
    pub fn load_again(&self, machine: &Machine) -> Result<(Self, Keyring), ConfigError> {
        Self::load(self.source.file(), machine)
    }

    /// Reads again the files that it names, whatever its own file holds meanwhile; also what is allowed there and probably
    /// not meant.
    ///
    /// # Errors
    ///
    /// What is wrong with one of them.
    pub fn load_files_again(&self) -> Result<(Keyring, Vec<String>), ConfigError> {
        self.load_keyring(&raw::parse(&self.source)?)
    }

    /// Reads the files that it names in `raw`, which it was made of.
    fn load_keyring(&self, raw: &RawConfig) -> Result<(Keyring, Vec<String>), ConfigError> {
        let (source, security, mut warnings) = (&self.source, self.security, Vec::new());
        let (mut listeners, mut backends, mut passwords, mut checks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (listener, raw) in self.listeners.iter().zip(&raw.listener) {
            let tls = listener.tls.as_ref().zip(raw.get_ref().tls.as_ref());
            let load = |(tls, raw)| tls::load_credentials(source, tls, raw, security, &mut warnings);
            listeners.push(tls.map(load).transpose()?);
            let (users, tables) = (&listener.edge.users, &raw.get_ref().user);
            passwords.push(listener_edge::load_passwords(source, users, tables, security, &mut warnings)?);
        }
        for (backend, raw) in self.backends.iter().zip(&raw.backend) {
            let tls = backend.tls.as_ref().zip(raw.get_ref().tls.as_ref());
            let section = Section { source, name: "backend.tls" };
            let load = |(tls, raw)| load_backend_credentials(&section, tls, raw, security, &mut warnings);
            backends.push(tls.map(load).transpose()?);
            checks.push(CheckSecrets::load(source, backend, raw.get_ref(), security, &mut warnings)?);
        }
        Ok((Keyring { listeners, backends, passwords, checks }, warnings))
    }

    /// What it was made of.
    fn written(&self) -> RawConfig {
        raw::parse(&self.source).expect("a text that was read once can be read again")
    }

    /// As [`Config::load`], of text already read, and without reading the files it names. `file` is where the text
    /// is from: messages name it, and relative paths are relative to its folder.
    ///
    /// # Errors
    ///
    /// The first thing wrong in the text.
    pub fn parse(text: &[u8], file: &Path, machine: &Machine) -> Result<Self, ConfigError> {
        let source = Arc::new(Source::new(file, text)?);
        let raw = raw::parse(&source)?;
        resolve(&source, &raw, machine)
    }

    /// A key log must be asked for twice, here and on the command line, where `allowed` is from: one alone is a mistake,
    /// perhaps a file that was copied from a test.
    ///
    /// # Errors
    ///
    /// When it was asked for once.
    pub fn check_key_log(&self, allowed: bool) -> Result<(), ConfigError> {
        let problem = match (&self.key_log, allowed) {
            (None, false) | (Some(_), true) => return Ok(()),
            (Some(_), false) => "is given, and --unsafe-key-log is not on the command line",
            (None, true) => "is not given, and --unsafe-key-log is on the command line",
        };
        let meaning = "whoever reads a key log can read all traffic, so it takes both";
        Err(ConfigError::of_file(self.source.file(), format!("log.key_log: {problem}: {meaning}")))
    }

    /// Warnings that only `check` gives, since they are no news to a program that starts: ports that the kernel chooses,
    /// and unix sockets of servers that are not there at the moment. They may come later, or be on another machine.
    #[must_use]
    pub fn warnings_for_check(&self) -> Vec<String> {
        warnings::for_check(&self.source, &self.written(), self)
    }

    /// The most bytes that one session may hold, on the listener where that is most.
    #[must_use]
    pub fn session_memory_max(&self) -> usize {
        let of_listener = |listener: &Listener| {
            let shared = listener.multiplex.as_ref().map_or(0, Multiplex::session_memory_max);
            limits::session_memory_max(listener.session.send_buffer) + shared
        };
        let most = self.listeners.iter().map(of_listener).max();
        most.unwrap_or_else(|| limits::session_memory_max(self.limits.send_buffer))
    }

    /// How many file descriptors a process with this configuration may need at once.
    #[must_use]
    pub fn open_files_max(&self) -> u64 {
        limits::open_files(self.limits.max_connections, self.listeners.len(), self.runtime.cores.len())
    }
}

/// Makes a configuration of what is written.
fn resolve(source: &Arc<Source>, raw: &RawConfig, machine: &Machine) -> Result<Config, ConfigError> {
    let mut warnings = Vec::new();
    let runtime = Runtime::read(source, &raw.runtime, machine)?;
    let threads = runtime.cores.len();
    let limits = Limits::read(source, &raw.limits, machine, raw.listener.len(), threads, &mut warnings)?;
    let backends = backend::read_backends(source, &raw.backend, machine)?;
    let section = Section { source, name: "coalesce" };
    let coalesce = Coalesce::read(&section, "bytes", raw.coalesce.bytes.as_ref())?;
    let bounds = (&limits, coalesce);
    let listeners = listener::read_listeners(source, &raw.listener, &backends, bounds, machine, &mut warnings)?;
    backend::check_servers(source, &raw.backend, &backends, &listeners)?;
    let admin = Admin::read(source, raw.admin.as_ref(), machine, &listeners)?;
    let key_log = read_key_log(source, raw, &mut warnings)?;
    let mut config = Config {
        to_be_probed: to_be_probed(source, raw, &listeners),
        listeners,
        backends,
        runtime,
        limits,
        security: Security::read(source, &raw.security)?,
        coalesce,
        log: Log::read(source, raw)?,
        admin,
        key_log,
        warnings,
        connections_written: raw.limits.max_connections.is_some(),
        source: Arc::clone(source),
    };
    config.warnings.extend(warnings::of(source, raw, &config));
    Ok(config)
}

fn to_be_probed(source: &Source, raw: &RawConfig, listeners: &[Listener]) -> Vec<String> {
    let section = Section { source, name: "listener" };
    let meaning = "can be reached by strangers, who need no certificate: servers are asked whether they want a password, \
                   and no client is let at one that does not. Should that be meant, write allow_unauthenticated = true";
    let probed = raw.listener.iter().zip(listeners).filter(|(_, listener)| {
        listener.is_open_to_strangers() && !listener.edge.allow_unauthenticated && listener.edge.users.is_empty()
    });
    probed
        .filter_map(|(raw, _)| Some(section.error("bind", raw.get_ref().bind.as_ref()?, meaning).to_string()))
        .collect()
}

impl Coalesce {
    fn read(section: &Section<'_>, key: &str, raw: Option<&Spanned<Value>>) -> Result<Self, ConfigError> {
        if raw.is_some_and(|value| is_word(value, "off")) {
            return Ok(Self::Off);
        }
        if raw.is_some_and(|value| is_word(value, "unbounded")) {
            return Ok(Self::Unbounded);
        }
        section.size(key, raw, "64KiB", "1KiB"..="1MiB", ", or \"off\", or \"unbounded\"").map(Self::Bytes)
    }
}

impl LogTarget {
    fn read(section: &Section<'_>, raw: Option<&Spanned<Value>>) -> Result<Self, ConfigError> {
        const TARGETS: &str = "is neither \"stderr\" nor \"journal\" nor the path of a file, which begins with /";
        match raw.map(|value| (value, value.get_ref())) {
            None => Ok(Self::Stderr),
            Some((_, Value::Text(text))) if text == "stderr" => Ok(Self::Stderr),
            Some((_, Value::Text(text))) if text == "journal" => Ok(Self::Journal),
            Some((_, Value::Text(path))) if path.starts_with('/') && !path.ends_with('/') && !path.contains('\0') => {
                Ok(Self::File(path.into()))
            }
            Some((value, _)) => Err(section.error("target", value, TARGETS)),
        }
    }
}

impl Log {
    fn read(source: &Source, raw: &RawConfig) -> Result<Self, ConfigError> {
        let section = Section { source, name: "log" };
        let raw = &raw.log;
        let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
        let levels = [
            ("error", LogLevel::Error),
            ("warn", LogLevel::Warn),
            ("info", LogLevel::Info),
            ("debug", LogLevel::Debug),
            ("trace", LogLevel::Trace),
        ];
        Ok(Self {
            target: LogTarget::read(&section, raw.target.as_ref())?,
            format: section.choice("format", raw.format.as_ref(), LogFormat::Text, &formats)?,
            level: section.choice("level", raw.level.as_ref(), LogLevel::Info, &levels)?,
            sessions: section.flag("sessions", raw.sessions.as_ref(), true)?,
            sample: section.count("sample", raw.sample.as_ref(), 1..=1_000_000)?.unwrap_or(1),
            failures_per_second: section
                .count("failures_per_second", raw.failures_per_second.as_ref(), 1..=100_000)?
                .unwrap_or(FAILURES_PER_SECOND),
        })
    }
}

fn read_key_log(source: &Source, raw: &RawConfig, warnings: &mut Vec<String>) -> Result<Option<PathBuf>, ConfigError> {
    let (section, value) = (Section { source, name: "log" }, raw.log.key_log.as_ref());
    let path = tls::read_path(&section, "key_log", value, "a file that may be written")?;
    if let Some(value) = value {
        let meaning = "gets the secrets of every connection: whoever reads the file can read all traffic";
        warnings.push(section.error("key_log", value, meaning).to_string());
    }
    Ok(path)
}

fn check_entries<T>(source: &Source, name: &str, entries: &[Spanned<T>]) -> Result<(), ConfigError> {
    if entries.is_empty() {
        return Err(ConfigError::of_file(source.file(), format!("has no [[{name}]]; at least one is needed")));
    }
    match entries.get(ENTRIES_MAX) {
        None => Ok(()),
        Some(entry) => {
            let problem = format!("is one too many; there may be {ENTRIES_MAX}");
            Err(source.error(entry.span(), name, problem))
        }
    }
}

/// The known word that was probably meant.
fn closest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|word| (strsim::damerau_levenshtein(given, word), word))
        .filter(|(distance, word)| *distance <= 1 + word.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// A number of digits; the largest there is for one that is larger. `None` when it is empty.
fn saturating_number(digits: &str) -> Option<u64> {
    if digits.is_empty() { None } else { Some(digits.parse().unwrap_or(u64::MAX)) }
}

/// A size as a 64-bit number, which no machine's size is wider than.
fn wide(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}
