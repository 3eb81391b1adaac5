//! Questions and orders to shards and the dispatcher, and the wait for their answers.

use std::fmt;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tokio::task::spawn_blocking;

use super::Desk;
use crate::dispatcher::Command;
use crate::io::Errno;
use crate::shard::listing::{Filter, Listing, Page};
use crate::shard::{Order, SessionId};

/// How long an answer may take. A shard that has ended gives none.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The dispatcher takes no command.
    NotTaken,
    /// Nothing came back.
    Silence,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotTaken => "the dispatcher takes no command: it is about to end, or far behind",
            Self::Silence => "the data plane has not answered: it is about to end, or far behind",
        })
    }
}

impl Desk {
    /// Gives the dispatcher a command that is not answered.
    pub(super) fn send(&self, command: Command) -> Result<(), NoAnswer> {
        (self.way.0)(command).map_err(|_| NoAnswer::NotTaken)
    }

    /// Gives the dispatcher a command and waits for the answer, which goes where `command` is told.
    async fn ask<A: Send + 'static>(&self, command: impl FnOnce(mpsc::Sender<A>) -> Command) -> Result<A, NoAnswer> {
        let (answer, answers) = mpsc::channel();
        self.send(command(answer))?;
        let wait = move || match answers.recv_timeout(ANSWER_TIMEOUT) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(NoAnswer::Silence),
        };
        spawn_blocking(wait).await.unwrap_or(Err(NoAnswer::Silence))
    }

    /// A page of a shard's sessions, from this slot on.
    pub(super) async fn list(&self, shard: u16, filter: Filter, from: u32, rows_max: usize) -> Result<Page, NoAnswer> {
        let listing = |answer| Box::new(Listing { filter, from, rows_max, answer });
        self.ask(|answer| Command::Pass(shard, Order::List(listing(answer)))).await
    }

    /// Closes a session; false when it is not there.
    pub(super) async fn end(&self, shard: u16, id: SessionId) -> Result<bool, NoAnswer> {
        self.ask(|answer| Command::Pass(shard, Order::End { id, answer })).await
    }

    pub(super) async fn close_listener(&self, listener: u16) -> Result<Result<(), Errno>, NoAnswer> {
        self.ask(|done| Command::CloseListener { listener, done }).await
    }

    pub(super) async fn open_listener(&self, listener: u16) -> Result<Result<(), Errno>, NoAnswer> {
        let backlog = self.watched.config.limits.listen_backlog;
        self.ask(|done| Command::OpenListener { listener, backlog, done }).await
    }

    /// Has every shard tell, or not, when a session's server is connected.
    pub(super) fn tell_reached(&self, tells: bool) -> Result<(), NoAnswer> {
        let mut shards = (0..).zip(&self.watched.shards);
        shards.try_for_each(|(shard, _)| self.send(Command::Pass(shard, Order::TellReached(tells))))
    }
}

/// The way to the dispatcher.
pub struct Way(Box<dyn Fn(Command) -> Result<(), Command> + Send + Sync>);

impl Way {
    /// `send` gives the dispatcher a command, or gives it back when there is no room for it.
    pub fn new(send: impl Fn(Command) -> Result<(), Command> + Send + Sync + 'static) -> Self {
        Self(Box::new(send))
    }
}
