//! Sets up tracing: which lines, in which form, and where they go.

use std::cell::Cell;
use std::fmt;
use std::io;

use tracing::Level;
use tracing::dispatcher::{self, Dispatch};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry, reload};

use super::journal::JournalLayer;
use super::log_output::LogOutput;
use super::log_queue::LogQueue;
use crate::config::{Log, LogFormat, LogLevel};

/// The environment variable that wins over `log.level`.
const FILTER_VARIABLE: &str = "RINGWALL_LOG";

/// What the name of each target of this program begins with.
const TARGET_PREFIX: &str = "ringwall";

/// Which lines are written: levels, and `target=level` pairs.
#[derive(Clone, Debug)]
pub struct LogFilter(Targets);

impl LogFilter {
    /// The filter in the environment, if it has one.
    ///
    /// # Errors
    ///
    /// When the variable's value is none.
    pub fn from_environment() -> Result<Option<Self>, LogFilterError> {
        match std::env::var_os(FILTER_VARIABLE) {
            None => Ok(None),
            Some(filter) if filter.is_empty() => Ok(None),
            Some(filter) => Self::parse(&filter.to_string_lossy()).map(Some),
        }
    }

    /// Reads a filter. Stricter than the library, for which a misspelt level is a target.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub fn parse(filter: &str) -> Result<Self, LogFilterError> {
        let mut targets = Targets::new();
        for part in filter.split(',').map(str::trim) {
            let (target, level) = part.split_once('=').unwrap_or((TARGET_PREFIX, part));
            let known =
                target.strip_prefix(TARGET_PREFIX).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
            let Some(level) = level_named(level).filter(|_| known) else {
                return Err(LogFilterError { filter: filter.to_owned(), part: part.to_owned() });
            };
            targets = targets.with_target(target, level);
        }
        Ok(Self(targets))
    }

    /// Of a level for everything.
    fn of(wanted: LogLevel) -> Self {
        Self(Targets::new().with_target(TARGET_PREFIX, level(wanted)))
    }

    /// Whether the line of [`Event::Reached`](crate::events::Event::Reached) is written.
    pub(super) fn tells_reached(&self) -> bool {
        self.0.would_enable("ringwall::session", &Level::DEBUG)
    }
}

fn level_named(name: &str) -> Option<LevelFilter> {
    let name = name.to_ascii_lowercase();
    let known = ["off", "error", "warn", "info", "debug", "trace"].contains(&name.as_str());
    if known { name.parse().ok() } else { None }
}

/// Why a text is no filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilterError {
    filter: String,
    part: String,
}

impl fmt::Display for LogFilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (filter, problem) = (&self.filter, self.problem());
        write!(f, "{FILTER_VARIABLE}={filter:?}: {problem}")
    }
}

impl LogFilterError {
    /// What is wrong, without the place where it is from.
    #[must_use]
    pub fn problem(&self) -> String {
        let part = &self.part;
        format!(
            "{part:?} is neither a level (off, error, warn, info, debug, trace) nor a \
             target and its level, such as \"warn,ringwall::session=info\""
        )
    }
}

impl std::error::Error for LogFilterError {}

/// What makes records of events.
type Lines = Box<dyn Layer<Registry> + Send + Sync>;

/// What records look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Lines(LogFormat),
    /// The journal's own, whatever the format of lines is.
    Journal,
}

impl Form {
    const fn of(format: LogFormat, is_journal: bool) -> Self {
        if is_journal { Self::Journal } else { Self::Lines(format) }
    }

    fn layer(self, queue: &LogQueue) -> Lines {
        let lines = layer().with_writer(queue.clone()).with_ansi(false);
        match self {
            Self::Journal => JournalLayer::new(queue.clone()).boxed(),
            Self::Lines(LogFormat::Text) => lines.with_target(false).boxed(),
            Self::Lines(LogFormat::Json) => lines.json().flatten_event(true).boxed(),
        }
    }
}

/// The log of this thread for as long as it lives; what is logged is written when it is dropped, at the latest.
pub struct Logging {
    queue: LogQueue,
    form: Cell<Form>,
    lines: reload::Handle<Lines, Registry>,
    levels: LogLevels,
    /// What the configuration says, where it has a say.
    configured: Cell<Option<LogLevel>>,
    _default: dispatcher::DefaultGuard,
}

impl Logging {
    /// Sets up the calling thread's log. A filter wins over the level in `log`.
    ///
    /// # Errors
    ///
    /// When no thread can be had for writing.
    pub fn start(log: &Log, filter: Option<LogFilter>, output: LogOutput) -> io::Result<Self> {
        let configured = Cell::new(filter.is_none().then_some(log.level));
        let LogFilter(targets) = filter.unwrap_or_else(|| LogFilter::of(log.level));
        let form = Form::of(log.format, output.is_journal());
        let queue = LogQueue::start(output)?;
        let (layer, lines) = reload::Layer::new(form.layer(&queue));
        let (targets, handle) = reload::Layer::new(targets);
        let subscriber = tracing_subscriber::registry().with(layer.with_filter(targets));
        let dispatch = Dispatch::new(subscriber);
        let default = dispatcher::set_default(&dispatch);
        let (form, levels) = (Cell::new(form), LogLevels { handle, dispatch });
        Ok(Self { queue, form, lines, levels, configured, _default: default })
    }

    /// Goes over to another form and, where there is one, another output: from the next line on.
    pub(super) fn exchange(&self, format: LogFormat, output: Option<LogOutput>) {
        let was_journal = self.form.get() == Form::Journal;
        let form = Form::of(format, output.as_ref().map_or(was_journal, LogOutput::is_journal));
        if let Some(output) = output {
            self.queue.exchange(output);
        }
        if self.form.replace(form) != form {
            // It is there for as long as this is.
            let _ = self.lines.reload(form.layer(&self.queue));
        }
    }

    /// What is logged, for others to change.
    pub(super) fn levels(&self) -> LogLevels {
        self.levels.clone()
    }

    /// Goes over to the level of another configuration, where that is another than before and no filter wins over it; what
    /// an operator has set meanwhile stays else. Whether lines of [`Event::Reached`](crate::events::Event::Reached) are
    /// written from here on, when it has.
    pub(super) fn follow(&self, log: &Log) -> Option<bool> {
        let before = self.configured.get()?;
        if before == log.level {
            return None;
        }
        self.configured.set(Some(log.level));
        let filter = LogFilter::of(log.level);
        let tells_reached = filter.tells_reached();
        self.levels.set(filter).is_ok().then_some(tells_reached)
    }

    pub(super) const fn queue(&self) -> &LogQueue {
        &self.queue
    }
}

/// Which lines are written, while the program runs. Any thread may change it.
#[derive(Clone, Debug)]
pub(super) struct LogLevels {
    handle: reload::Handle<Targets, Registry>,
    dispatch: Dispatch,
}

impl LogLevels {
    /// From the next line on.
    pub(super) fn set(&self, filter: LogFilter) -> Result<(), String> {
        // What each place of the program that logs has found out about its level is found out anew by the subscriber of the
        // calling thread.
        let reload = || self.handle.reload(filter.0);
        dispatcher::with_default(&self.dispatch, reload).map_err(|error| error.to_string())
    }

    /// In the words of the environment variable.
    pub(super) fn shown(&self) -> String {
        self.handle.with_current(ToString::to_string).unwrap_or_default()
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
