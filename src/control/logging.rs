//! Sets up tracing: which lines, in which form, and where they go.

use std::fmt;
use std::io::{self, Write};

use tracing::level_filters::LevelFilter;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt;

use super::log_queue::LogQueue;
use crate::config::{Log, LogFormat, LogLevel};

/// The environment variable that wins over `log.level`.
pub const FILTER_VARIABLE: &str = "RINGWALL_LOG";

/// What the name of each target of this program begins with.
const TARGET_PREFIX: &str = "ringwall";

/// The log of this thread for as long as it lives; what is logged is written when it is dropped, at the latest.
pub struct Logging {
    queue: LogQueue,
    _default: DefaultGuard,
}

impl Logging {
    /// Sets up the calling thread's log. `filter` is the value of [`FILTER_VARIABLE`], where it is set.
    ///
    /// # Errors
    ///
    /// When `filter` is none, or no thread can be had for writing.
    pub fn start(log: &Log, filter: Option<&str>, output: impl Write + Send + 'static) -> Result<Self, LoggingError> {
        let targets = match filter.map(str::trim) {
            None | Some("") => Targets::new().with_target(TARGET_PREFIX, level(log.level)),
            Some(filter) => parse_filter(filter)?,
        };
        let queue = LogQueue::start(output).map_err(LoggingError::Thread)?;
        let lines = layer().with_writer(queue.clone()).with_ansi(false);
        let lines = match log.format {
            LogFormat::Text => lines.with_target(false).boxed(),
            LogFormat::Json => lines.json().flatten_event(true).boxed(),
        };
        let subscriber = tracing_subscriber::registry().with(lines.with_filter(targets));
        Ok(Self { queue, _default: tracing::subscriber::set_default(subscriber) })
    }

    pub(super) const fn queue(&self) -> &LogQueue {
        &self.queue
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        self.queue.finish();
    }
}

impl fmt::Debug for Logging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logging").finish_non_exhaustive()
    }
}

const fn level(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// Reads levels and `target=level` pairs. Stricter than the library, for which a misspelt level is a target.
fn parse_filter(filter: &str) -> Result<Targets, LoggingError> {
    let wrong = |part: &str| LoggingError::Filter { filter: filter.to_owned(), part: part.to_owned() };
    let mut targets = Targets::new();
    for part in filter.split(',').map(str::trim) {
        let (target, level) = part.split_once('=').unwrap_or((TARGET_PREFIX, part));
        let known = target.strip_prefix(TARGET_PREFIX).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
        let level = level_named(level).filter(|_| known).ok_or_else(|| wrong(part))?;
        targets = targets.with_target(target, level);
    }
    Ok(targets)
}

fn level_named(name: &str) -> Option<LevelFilter> {
    ["off", "error", "warn", "info", "debug", "trace"]
        .contains(&name.to_ascii_lowercase().as_str())
        .then(|| name.parse().ok())
        .flatten()
}

/// Why there is no log.
#[derive(Debug)]
pub enum LoggingError {
    /// The environment variable's value is no filter.
    Filter {
        /// The value.
        filter: String,
        /// The part of it that is wrong.
        part: String,
    },
    /// No thread can be had.
    Thread(io::Error),
}

impl fmt::Display for LoggingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filter { filter, part } => write!(
                f,
                "{FILTER_VARIABLE}={filter:?}: {part:?} is neither a level (off, error, warn, info, debug, trace) nor a \
                 target and its level, such as \"warn,ringwall::session=info\""
            ),
            Self::Thread(error) => write!(f, "no thread for writing the log: {error}"),
        }
    }
}

impl std::error::Error for LoggingError {}
