//! The listening sockets: how accepting on each stands, and how each is closed, opened again, and given up in the end.
//!
//! A client in the queue of a socket that is closed would be reset, so whoever has connected is taken first.

use std::sync::Arc;
use std::sync::mpsc;

use super::news::Denied;
use super::{DRAIN_QUIET, Dispatcher, NO_ONE, Phase};
use crate::events::Event;
use crate::io::{Driver, Errno, Fd, Op, OpId};
use crate::ledger::Ledger;
use crate::shard::Order;
use crate::time::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepting {
    /// To be armed.
    Idle,
    Armed(OpId),
    Cancelled,
    /// The system gave no more; armed again at this time.
    Paused(Time),
    /// The socket refuses clients.
    Closed,
}

/// A listening socket, and how accepting on it stands.
#[derive(Debug)]
pub(super) struct ListenerState {
    pub(super) socket: Fd,
    pub(super) backlog: u32,
    pub(super) ledger: Arc<Ledger>,
    pub(super) accepting: Accepting,
    pub(super) denied: Denied,
    /// The log has been told that accepting is paused.
    pub(super) told: bool,
    /// It is to be closed, and this told then.
    pub(super) closing: Option<mpsc::Sender<Result<(), Errno>>>,
    /// The configuration that comes next has no use for the socket.
    pub(super) leaves: bool,
}

impl ListenerState {
    pub(super) fn new(socket: Fd, backlog: u32, ledger: Arc<Ledger>) -> Self {
        Self {
            socket,
            backlog,
            ledger,
            accepting: Accepting::Idle,
            denied: Denied::default(),
            told: false,
            closing: None,
            leaves: false,
        }
    }

    /// Whether a completion of an accept is still to come.
    pub(super) const fn is_busy(&self) -> bool {
        matches!(self.accepting, Accepting::Armed(_) | Accepting::Cancelled)
    }

    /// Whether nothing is to be accepted any more.
    pub(super) const fn ends(&self) -> bool {
        self.closing.is_some() || self.leaves
    }

    /// Has no accept stay in flight.
    pub(super) fn cancel<D: Driver>(&mut self, driver: &mut D) {
        if let Accepting::Armed(op) = self.accepting {
            driver.push(NO_ONE, Op::Cancel { op });
            self.accepting = Accepting::Cancelled;
        }
    }
}

impl<D: Driver> Dispatcher<D> {
    /// Closes a listener as soon as no accept is in flight.
    pub(super) fn begin_closing(&mut self, listener: &Ledger, done: mpsc::Sender<Result<(), Errno>>) {
        let Some(state) = self.listeners.iter_mut().find(|state| *state.ledger == *listener) else { return };
        state.cancel(&mut self.driver);
        state.closing = Some(done);
    }

    /// Closes those that are to be closed and have no accept in flight.
    pub(super) fn finish_closing(&mut self) {
        for listener in 0..self.listeners.len() {
            let state = &mut self.listeners[listener];
            if state.is_busy() {
                continue;
            }
            let Some(done) = state.closing.take() else { continue };
            let was_open = std::mem::replace(&mut state.accepting, Accepting::Closed) != Accepting::Closed;
            if was_open {
                let (socket, ledger) = (state.socket, Arc::clone(&state.ledger));
                self.take_waiting(listener);
                self.driver.close_listener(socket);
                self.order_all(|| Order::DrainListener { listener: Arc::clone(&ledger), quiet: DRAIN_QUIET });
            }
            // Whoever asked for it may have given up.
            let _ = done.send(Ok(()));
        }
    }

    /// Opens a listener that was closed, or calls its closing off.
    pub(super) fn open_listener(&mut self, listener: &Ledger, done: &mpsc::Sender<Result<(), Errno>>) {
        let Some(state) = self.listeners.iter_mut().find(|state| *state.ledger == *listener) else { return };
        if self.phase != Phase::Accepting {
            return;
        }
        state.closing = None;
        let opened = match state.accepting {
            Accepting::Closed => self.driver.open_listener(state.socket, state.backlog),
            Accepting::Idle | Accepting::Armed(_) | Accepting::Cancelled | Accepting::Paused(_) => Ok(()),
        };
        if state.accepting == Accepting::Closed && opened.is_ok() {
            state.accepting = Accepting::Idle;
        }
        let _ = done.send(opened);
    }

    /// Takes the clients of a listener that have connected already.
    pub(super) fn take_waiting(&mut self, index: usize) {
        let socket = self.listeners[index].socket;
        let listener = u16::try_from(index).expect("listeners are numbered with 16 bits");
        while let Some(client) = self.driver.accept_waiting(socket) {
            self.admit(client, listener);
        }
    }

    /// Gives up all listeners.
    pub(super) fn stop_listening(&mut self) {
        for index in 0..self.listeners.len() {
            if self.listeners[index].accepting != Accepting::Closed {
                self.take_waiting(index);
            }
            self.driver.close(self.listeners[index].socket);
        }
        self.links.events.send(Event::Draining);
        self.flush_backlog_into_unsent();
        self.order_all(|| Order::Drain { quiet: DRAIN_QUIET });
    }

    /// For orders that whoever still waits for a mailbox must go before: the last word to a shard, and other listeners.
    pub(super) fn flush_backlog_into_unsent(&mut self) {
        let count = self.shards.len();
        for (index, handoff) in self.backlog.drain(..).enumerate() {
            let shard = &mut self.shards[index % count];
            shard.handed += 1;
            shard.unsent.push_back(Order::Serve(handoff));
        }
    }
}
