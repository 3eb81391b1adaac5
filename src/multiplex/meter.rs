//! How long requests take: from the turn in which each was said to a server to the turn in which its reply was complete.
//!
//! The time of a turn is known, so no clock is read for it. What a request waits before it is said, for a connection or for
//! room, is not in it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::family::Family;
use super::link::Owed;
use super::route::Command;
use crate::metrics::Sharing;
use crate::slots::Id;
use crate::time::Time;

/// A request that took longer than [`Multiplexer::tell_slower_than`](super::Multiplexer::tell_slower_than) says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// Whose it is. It may have left.
    pub client: Id,
    /// The name of its command, a subcommand's behind a bar.
    pub command: &'static str,
    /// From its way to the server to its complete reply.
    pub took: Duration,
    /// Whether it went over a shared connection.
    pub is_shared: bool,
    /// Replies that were awaited over that connection when it was said.
    pub in_front: u16,
}

/// Measures requests.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) counts: Arc<Sharing>,
    /// Requests that take longer are told.
    pub(super) slow_from: Option<Duration>,
    /// Those not told yet: of what was under way, so bounded by that.
    slow: VecDeque<SlowRequest>,
}

/// Replies that are complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered<'o> {
    pub(super) client: Id,
    pub(super) command: Command,
    pub(super) owed: &'o Owed,
    /// So many of those that were owed.
    pub(super) replies: u16,
    pub(super) is_shared: bool,
    /// They say only that commands are queued, or end a transaction.
    pub(super) in_multi: bool,
}

impl Meter {
    pub(super) const fn new(counts: Arc<Sharing>) -> Self {
        Self { counts, slow_from: None, slow: VecDeque::new() }
    }

    pub(super) fn answered(&mut self, answered: Answered<'_>, now: Time) {
        let Answered { client, command, owed, replies, is_shared, in_multi } = answered;
        let family = if in_multi { Family::Transactions } else { command.family() };
        let micros = now.as_nanos().saturating_sub(owed.since.as_nanos()) / 1_000;
        self.counts.request_micros[family.index()].observe_many(micros, replies.into());
        let Some(slow_from) = self.slow_from else { return };
        let took = Duration::from_micros(micros);
        // What was said in one piece is told once. What blocks takes what it wants to take.
        if took > slow_from && owed.replies == replies && family != Family::Blocking {
            let (command, in_front) = (command.name(), owed.in_front);
            self.slow.push_back(SlowRequest { client, command, took, is_shared, in_front });
        }
    }

    /// One that has not been told.
    pub(super) fn next_slow(&mut self) -> Option<SlowRequest> {
        self.slow.pop_front()
    }
}
