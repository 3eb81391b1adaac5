//! Questions and orders to shards and the dispatcher, and the wait for their answers.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tokio::task::spawn_blocking;

use super::Desk;
use crate::dispatcher::Command;
use crate::io::Errno;
use crate::ledger::Ledger;
use crate::shard::listing::{Filter, Listing, Page};
use crate::shard::{Order, SessionId};

/// How often it is looked whether whoever is asked has ended, and gives no answer.
const LOOK: Duration = Duration::from_millis(20);
/// How often that is done before an answer is given up: for two seconds.
const LOOKS: u32 = 100;

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

    /// Gives the dispatcher a command and waits for the answer, which goes where `command` is told. None when `gone` says
    /// that whoever was to answer has ended.
    async fn ask<A: Send + 'static>(
        &self,
        command: impl FnOnce(mpsc::Sender<A>) -> Command,
        gone: impl Fn() -> bool + Send + 'static,
    ) -> Result<Option<A>, NoAnswer> {
        if gone() {
            return Ok(None);
        }
        let (answer, answers) = mpsc::channel();
        self.send(command(answer))?;
        let wait = move || {
            for _ in 0..LOOKS {
                // In this order: the last thing that somebody did may have been to answer.
                let is_gone = gone();
                match answers.recv_timeout(LOOK) {
                    Ok(answer) => return Ok(Some(answer)),
                    Err(_) if is_gone => return Ok(None),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            Err(NoAnswer::Silence)
        };
        spawn_blocking(wait).await.unwrap_or(Err(NoAnswer::Silence))
    }

    /// The same for a shard, which ends before the others when it is drained and has no sessions left.
    async fn ask_shard<A: Send + 'static>(
        &self,
        shard: u16,
        order: impl FnOnce(mpsc::Sender<A>) -> Order,
    ) -> Result<Option<A>, NoAnswer> {
        let Some(watched) = self.watched.shards.get(usize::from(shard)) else { return Ok(None) };
        let pulse = watched.pulse.clone();
        self.ask(|answer| Command::Pass(shard, order(answer)), move || pulse.has_ended()).await
    }

    /// The same for the dispatcher, which ends last.
    async fn ask_dispatcher<A: Send + 'static>(
        &self,
        command: impl FnOnce(mpsc::Sender<A>) -> Command,
    ) -> Result<A, NoAnswer> {
        self.ask(command, || false).await?.ok_or(NoAnswer::Silence)
    }

    /// A page of a shard's sessions, from this slot on. A shard that has ended has none.
    pub(super) async fn list(&self, shard: u16, filter: Filter, from: u32, rows_max: usize) -> Result<Page, NoAnswer> {
        let listing = |answer| Box::new(Listing { filter, from, rows_max, answer });
        Ok(self.ask_shard(shard, |answer| Order::List(listing(answer))).await?.unwrap_or_default())
    }

    /// Closes a session; false when it is not there.
    pub(super) async fn end(&self, shard: u16, id: SessionId) -> Result<bool, NoAnswer> {
        Ok(self.ask_shard(shard, |answer| Order::End { id, answer }).await?.unwrap_or_default())
    }

    pub(super) async fn close_listener(&self, listener: Arc<Ledger>) -> Result<Result<(), Errno>, NoAnswer> {
        self.ask_dispatcher(|done| Command::CloseListener { listener, done }).await
    }

    pub(super) async fn open_listener(&self, listener: Arc<Ledger>) -> Result<Result<(), Errno>, NoAnswer> {
        self.ask_dispatcher(|done| Command::OpenListener { listener, done }).await
    }

    /// Has every shard tell, or not, when a session's server is connected.
    pub(super) fn tell_reached(&self, tells: bool) -> Result<(), NoAnswer> {
        let mut shards = (0..).zip(&self.watched.shards).filter(|(_, shard)| !shard.pulse.has_ended());
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
