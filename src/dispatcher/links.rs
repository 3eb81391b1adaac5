//! The dispatcher's ties to the rest of the program.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use super::Renewal;
use crate::events::EventSender;
use crate::io::{Errno, Fd, RingHandle};
use crate::ledger::Ledger;
use crate::load::LoadCell;
use crate::mailbox::{Doorbell, PendingReader, Receiver, Sender};
use crate::metrics::Tally;
use crate::pulse::Ping;
use crate::roster::{BackendId, Member, Roster};
use crate::shard::{Dismissal, Order};
use crate::sources::SourceCounts;

/// What the control plane tells the dispatcher.
#[derive(Debug)]
pub enum Command {
    /// Have these listeners from now on, and pass the rest on to the shards.
    Renew(Box<Renewal>),
    /// Have the shards send the sessions that follow to these servers.
    Roster {
        /// Which.
        backend: BackendId,
        /// All its servers from now on.
        roster: Roster,
    },
    /// Have the shards let no session stay at this server.
    Dismiss {
        /// The server, whose standing says already that it gets no new sessions.
        member: Arc<Member>,
        /// Why and how.
        dismissal: Dismissal,
    },
    /// Answer the last of these, and pass the others on to the shards, one to each in their order.
    Ping(Vec<Ping>),
    /// Pass an order on to the shard with this number.
    Pass(u16, Order),
    /// Accept no more clients of this listener, and have the shards close its sessions once they are owed nothing.
    CloseListener {
        /// Which.
        listener: Arc<Ledger>,
        /// Told when it is closed.
        done: mpsc::Sender<Result<(), Errno>>,
    },
    /// Accept clients of this listener again.
    OpenListener {
        /// Which.
        listener: Arc<Ledger>,
        /// Told when it is open, or why it cannot be.
        done: mpsc::Sender<Result<(), Errno>>,
    },
    /// Stop accepting and have the shards close their sessions, those that are still owed something after `timeout`.
    Drain {
        /// How long sessions that are owed something may go on.
        timeout: Duration,
    },
    /// Have the shards drop their sessions at once.
    Stop,
    /// Every shard has ended.
    End,
}

/// A shard as the dispatcher reaches it.
#[derive(Debug)]
pub struct Port {
    /// Orders to it.
    pub mailbox: Sender<Order>,
    /// How it is woken.
    pub ring: RingHandle,
    /// What it says of its load.
    pub load: Arc<LoadCell>,
    /// Its pending flags.
    pub pending: PendingReader,
}

/// The dispatcher's ties to the control plane and its own doorbell.
#[derive(Debug)]
pub struct Links {
    /// The control plane's commands.
    pub commands: Receiver<Command>,
    /// A stream socket on which one byte arrives for each command.
    pub wake: Fd,
    /// What shards look at before they ring.
    pub doorbell: Doorbell,
    /// Open connections of each source, where a listener limits them: of [`source_counts`](super::source_counts).
    pub sources: SourceCounts,
    /// What the log should say.
    pub events: EventSender,
    /// What it counts.
    pub tally: Arc<Tally>,
}
