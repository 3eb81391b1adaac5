//! `ringwall ctl`: asks a running ringwall over its admin socket.

mod shown;

use std::fmt;

use clap::{ArgGroup, Args, Subcommand};
use form_urlencoded::Serializer;

use super::place::Place;
use crate::config::ConfigError;
use crate::control::admin::api::{Outcome, Sessions, Status};
use crate::control::admin::client::{self, Answer};
use crate::io::Address;

/// What to ask a running ringwall.
#[derive(Debug, Args)]
pub struct Ctl {
    /// Where to ask.
    #[command(flatten)]
    pub place: Place,

    /// Print JSON as it was answered, and no table
    #[arg(long, global = true)]
    pub json: bool,

    /// What to ask
    #[command(subcommand)]
    pub question: Question,
}

/// What to ask a running ringwall.
#[derive(Debug, Subcommand)]
pub enum Question {
    /// Listeners, shards, backends with their servers, certificates
    Status,
    /// Open sessions, a page at a time
    Sessions(Wanted),
    /// Close a session, by its id in `sessions`
    Close {
        /// The id
        session: String,
    },
    /// Close a listener to new clients, or give a server no more sessions; sessions end when they are owed nothing
    #[command(
        override_usage = "ringwall ctl drain --listener NAME\n       ringwall ctl drain --backend NAME --server NAME"
    )]
    Drain(Target),
    /// Open a drained listener or server again
    #[command(
        override_usage = "ringwall ctl enable --listener NAME\n       ringwall ctl enable --backend NAME --server NAME"
    )]
    Enable(Target),
    /// Seal tickets with new keys from now on; each client makes one full handshake
    RotateTickets,
    /// Log at this level, or by these filters, until the next change or restart
    LogLevel {
        /// error, warn, info, debug, trace, or filters as in RINGWALL_LOG
        level: String,
    },
    /// Read the configuration and all its files again, as SIGHUP does, and wait for the result
    Reload,
    /// All metrics, as Prometheus reads them
    Metrics,
}

/// Which sessions.
#[derive(Debug, Default, Args)]
pub struct Wanted {
    /// Of this listener
    #[arg(long)]
    pub listener: Option<String>,
    /// Of this backend
    #[arg(long)]
    pub backend: Option<String>,
    /// From this address
    #[arg(long, value_name = "ADDRESS")]
    pub client: Option<String>,
    /// At least this old, such as 10s or 5m
    #[arg(long, value_name = "DURATION")]
    pub min_age: Option<String>,
    /// With at least so many bytes received and sent, on both sides together
    #[arg(long, value_name = "BYTES")]
    pub min_bytes: Option<u64>,
    /// Only those that hold bytes which could not be served yet
    #[arg(long)]
    pub pending: bool,
    /// Sessions of a page, 1 to 1000 [default: 100]
    #[arg(long, value_name = "COUNT")]
    pub limit: Option<u32>,
    /// The page behind this place, which the page before has told
    #[arg(long, value_name = "PLACE")]
    pub after: Option<String>,
}

/// A listener, or a server of a backend.
#[derive(Debug, Args)]
#[group(skip)]
#[command(group(ArgGroup::new("target").required(true)))]
pub struct Target {
    /// The listener's name
    #[arg(long, value_name = "NAME", group = "target", conflicts_with = "server")]
    pub listener: Option<String>,
    /// The backend's name
    #[arg(long, value_name = "NAME", group = "target", requires = "server")]
    pub backend: Option<String>,
    /// The server's name or address
    #[arg(long, value_name = "NAME", requires = "backend")]
    pub server: Option<String>,
}

/// Why there is no answer to print.
#[derive(Debug)]
pub enum CtlError {
    /// The configuration says nothing of where to ask.
    Config(ConfigError),
    /// The same, in words.
    Place(String),
    /// ringwall could not be asked: where, and why.
    Unreachable(Address, std::io::Error),
    /// It has refused, or said what makes no sense.
    Refused(String),
}

impl fmt::Display for CtlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use std::io::ErrorKind;
        let (address, error) = match self {
            Self::Config(error) => return error.fmt(f),
            Self::Place(text) | Self::Refused(text) => return f.write_str(text),
            Self::Unreachable(address, error) => (address, error),
        };
        write!(f, "{address}: {error}; ")?;
        f.write_str(match (error.kind(), address) {
            (ErrorKind::NotFound, _) => {
                "ringwall does not run, or its configuration has no [admin] table, or it is elsewhere: --config FILE or \
                 --socket PATH say where"
            }
            (ErrorKind::ConnectionRefused, _) => "nobody listens there: ringwall does not run, or it is elsewhere",
            (ErrorKind::PermissionDenied, Address::Unix(_)) => {
                "the socket is for the user that runs ringwall: become that user (sudo), or let its group in with \
                 admin.socket_mode = \"0660\""
            }
            (ErrorKind::TimedOut, _) => "ringwall is there and does not answer",
            _ => "ringwall could not be asked",
        })
    }
}

impl std::error::Error for CtlError {}

impl Ctl {
    /// Asks, and gives what is to be printed.
    ///
    /// # Errors
    /// Why there is nothing to print.
    pub fn run(&self) -> Result<String, CtlError> {
        let address = self.place.address()?;
        let (method, path) = self.question.request();
        let answer = client::ask(&address, method, &path).map_err(|error| CtlError::Unreachable(address, error))?;
        self.shown(answer)
    }

    fn shown(&self, answer: Answer) -> Result<String, CtlError> {
        let Answer { ok, body } = answer;
        let parsed = |what| move |error| CtlError::Refused(format!("the answer is no {what}: {error}"));
        if !ok {
            let outcome: Outcome = serde_json::from_str(&body).unwrap_or_default();
            return Err(CtlError::Refused(outcome.error.unwrap_or(body)));
        }
        if self.json || matches!(self.question, Question::Metrics) {
            return Ok(body);
        }
        match &self.question {
            Question::Status => {
                let status: Status = serde_json::from_str(&body).map_err(parsed("status"))?;
                Ok(shown::status(&status))
            }
            Question::Sessions(_) => {
                let sessions: Sessions = serde_json::from_str(&body).map_err(parsed("list of sessions"))?;
                Ok(shown::sessions(&sessions))
            }
            Question::Close { .. }
            | Question::Drain(_)
            | Question::Enable(_)
            | Question::RotateTickets
            | Question::LogLevel { .. }
            | Question::Reload
            | Question::Metrics => {
                let outcome: Outcome = serde_json::from_str(&body).map_err(parsed("outcome"))?;
                let changes = outcome.changes.as_ref().map(shown::changes);
                Ok(outcome.done.unwrap_or_default() + "\n" + &changes.unwrap_or_default())
            }
        }
    }
}

impl Question {
    /// The method, and the path with its query.
    fn request(&self) -> (&'static str, String) {
        match self {
            Self::Status => ("GET", "/status".to_owned()),
            Self::Metrics => ("GET", "/metrics".to_owned()),
            Self::Sessions(wanted) => ("GET", query("/sessions", &wanted.pairs())),
            Self::Close { session } => ("POST", query("/close", &[("session", session.clone())])),
            Self::Drain(target) => ("POST", query("/drain", &target.pairs())),
            Self::Enable(target) => ("POST", query("/enable", &target.pairs())),
            Self::RotateTickets => ("POST", "/rotate-tickets".to_owned()),
            Self::LogLevel { level } => ("POST", query("/log-level", &[("level", level.clone())])),
            Self::Reload => ("POST", "/reload".to_owned()),
        }
    }
}

impl Wanted {
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let pairs = [
            ("listener", self.listener.clone()),
            ("backend", self.backend.clone()),
            ("client", self.client.clone()),
            ("min_age", self.min_age.clone()),
            ("min_bytes", self.min_bytes.map(|bytes| bytes.to_string())),
            ("pending", self.pending.then(|| "true".to_owned())),
            ("limit", self.limit.map(|limit| limit.to_string())),
            ("after", self.after.clone()),
        ];
        pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

impl Target {
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let pairs = [("listener", &self.listener), ("backend", &self.backend), ("server", &self.server)];
        pairs.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }
}

/// The path with these names and values behind it.
pub(super) fn query(path: &str, pairs: &[(&str, String)]) -> String {
    let query = Serializer::new(String::new()).extend_pairs(pairs).finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}
