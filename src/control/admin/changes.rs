//! What changes something: allowed where the configuration says so, and each a line of the log.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use tokio::sync::oneshot;

use super::Desk;
use super::api::Changes;
use super::asking::NoAnswer;
use super::sessions::{backend, listener, named};
use crate::control::LogFilter;
use crate::control::reload::{Cause, NotReloaded, Request};
use crate::control::standing::Phase;
use crate::ledger::Ledger;
use crate::roster::{Member, Standing};
use crate::shard::Dismissal;

/// The shortest time a session must have been quiet to be closed when its server or listener is drained.
const DRAIN_QUIET: Duration = Duration::from_millis(100);

/// Why something was not done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) why: String,
    /// The keys of the configuration that would have to change and cannot.
    pub(super) refused: Vec<&'static str>,
}

impl Refusal {
    fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self { status, why: why.into(), refused: Vec::new() }
    }

    fn bad(why: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, why)
    }

    fn conflict(why: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, why)
    }
}

impl From<NoAnswer> for Refusal {
    fn from(why: NoAnswer) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, why.to_string())
    }
}

/// What was done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Done {
    /// In one line.
    pub(super) text: String,
    /// What has changed in the configuration, where that was read again.
    pub(super) changes: Option<Changes>,
}

impl From<String> for Done {
    fn from(text: String) -> Self {
        Self { text, changes: None }
    }
}

/// The values of a query by their names.
pub(super) type Values = BTreeMap<String, String>;

/// The one value of a query, which has no other.
fn only<'v>(values: &'v Values, name: &str) -> Result<&'v str, Refusal> {
    match values.get(name) {
        Some(value) if values.len() == 1 => Ok(value),
        Some(_) | None => Err(Refusal::bad(format!("it takes {name} and nothing else"))),
    }
}

/// What is drained or enabled.
enum Target {
    /// And where it is to listen.
    Listener(Arc<Ledger>, SocketAddr),
    Servers(Vec<Arc<Member>>),
}

impl Desk {
    /// Does what was asked for. None when there is no such change.
    pub(super) async fn change(&self, path: &str, values: &Values) -> Option<Result<Done, Refusal>> {
        let serves = self.standing.read().phase == Phase::Serving;
        let done = match path {
            "/close" => self.close(values).await.map(Done::from),
            "/log-level" => self.set_log_level(values).map(Done::from),
            "/drain" | "/enable" | "/rotate-tickets" | "/reload" if !serves => {
                Err(Refusal::conflict("ringwall is ending"))
            }
            "/drain" => self.drain(values).await.map(Done::from),
            "/enable" => self.enable(values).await.map(Done::from),
            "/rotate-tickets" => self.reload(Cause::Tickets, "ticket keys rotated").await,
            "/reload" => self.reload(Cause::Administrator, "reloaded").await,
            _ => return None,
        };
        Some(done)
    }

    async fn close(&self, values: &Values) -> Result<String, Refusal> {
        let name = only(values, "session")?;
        let (shard, id) = named(name).ok_or_else(|| Refusal::bad(format!("{name} is not a session's id")))?;
        let not_there = || Refusal::new(StatusCode::NOT_FOUND, format!("there is no open session {name}"));
        if usize::from(shard) >= self.watched.shards.len() || !self.end(shard, id).await? {
            return Err(not_there());
        }
        Ok(format!("session {name} closed"))
    }

    fn target(&self, values: &Values) -> Result<Target, Refusal> {
        let (running, backends) = (self.watched.in_force.read(), self.watched.rosters.all());
        let takes = || Refusal::bad("it takes a listener, or a backend and a server");
        match (values.get("listener"), values.get("backend"), values.get("server"), values.len()) {
            (Some(name), None, None, 1) => {
                let (written, running) = listener(&running, name).map_err(Refusal::bad)?;
                Ok(Target::Listener(Arc::clone(&running.ledger), written.bind))
            }
            (None, Some(of), Some(name), 2) => {
                let roster = &backend(&backends, of).map_err(Refusal::bad)?.roster;
                let meant = |member: &&Arc<Member>| *member.name == **name || member.address.to_string() == **name;
                let servers: Vec<_> = roster.iter().filter(meant).cloned().collect();
                if servers.is_empty() {
                    let all: Vec<_> = roster.iter().map(|member| member.address.to_string()).collect();
                    let all = all.join(", ");
                    return Err(Refusal::bad(format!("backend {of} has no server {name}; it has {all}")));
                }
                Ok(Target::Servers(servers))
            }
            _ => Err(takes()),
        }
    }

    async fn drain(&self, values: &Values) -> Result<String, Refusal> {
        match self.target(values)? {
            Target::Listener(listener, bind) => {
                if bind.port() == 0 {
                    // A socket that stops listening keeps a port that was asked for, and no other.
                    let name = listener.name();
                    return Err(Refusal::conflict(format!(
                        "the kernel has chosen the port of listener {name} and would choose another: write one in its bind"
                    )));
                }
                let closed = self.close_listener(Arc::clone(&listener)).await?;
                closed.map_err(|errno| Refusal::conflict(errno.to_string()))?;
                self.note_drained(&listener, true);
                Ok("listener drained: it refuses clients, and its sessions end when they are owed nothing".to_owned())
            }
            Target::Servers(servers) => {
                for server in &servers {
                    self.watched.rosters.set_standing(server, Standing::Drained, "an operator has said so");
                    let dismissal = Dismissal::Drained { quiet: DRAIN_QUIET };
                    self.watched.rosters.dismiss(server, dismissal).map_err(|_| NoAnswer::NotTaken)?;
                }
                Ok("server drained: it gets no new sessions, and those that it has end when they are owed nothing"
                    .to_owned())
            }
        }
    }

    async fn enable(&self, values: &Values) -> Result<String, Refusal> {
        match self.target(values)? {
            Target::Listener(listener, _) => {
                let opened = self.open_listener(Arc::clone(&listener)).await?;
                opened.map_err(|errno| Refusal::conflict(format!("it cannot listen again: {errno}")))?;
                self.note_drained(&listener, false);
                Ok("listener enabled".to_owned())
            }
            Target::Servers(servers) => {
                servers.iter().for_each(|server| server.enable());
                // Of a name with several addresses, the first that gets no sessions is told.
                Ok(match servers.iter().find(|server| server.standing() != Standing::Up) {
                    None => "server enabled".to_owned(),
                    Some(server) => {
                        let stands = server.standing_in_words();
                        format!("server enabled, and gets no new sessions before its checks allow it: {stands}")
                    }
                })
            }
        }
    }

    /// Takes a filter in the words of `RINGWALL_LOG`.
    fn set_log_level(&self, values: &Values) -> Result<String, Refusal> {
        let filter = only(values, "level")?;
        let filter = LogFilter::parse(filter).map_err(|error| Refusal::bad(error.problem()))?;
        let tells_reached = filter.tells_reached();
        self.log_levels.set(filter).map_err(Refusal::conflict)?;
        self.tell_reached(tells_reached)?;
        Ok(format!("log level: {}", self.log_levels.shown()))
    }

    async fn reload(&self, cause: Cause, done: &str) -> Result<Done, Refusal> {
        let (answer, answered) = oneshot::channel();
        let request = Request { cause, answer: Some(answer) };
        let busy = |_| Refusal::conflict("other reloads are waiting");
        self.reloads.try_send(request).map_err(busy)?;
        match answered.await {
            Ok(Ok(changes)) => Ok(Done { text: done.to_owned(), changes: changes.map(Changes::from) }),
            Ok(Err(NotReloaded { why, refused })) => {
                Err(Refusal { refused, ..Refusal::conflict(format!("what was in use stays: {why}")) })
            }
            Err(_) => Err(Refusal::conflict("ringwall is ending")),
        }
    }
}
