//! Another configuration: which sockets there are to accept on, whom each lets in, and what the shards are told.
//!
//! A hand-off names its listener by the number that the shard knows it by, so all that was handed over before goes before
//! the order that changes the numbers. A socket that is left is closed when nothing of it is in flight and whoever has
//! connected was taken; those clients are the listener's that goes.

use std::mem;
use std::sync::Arc;

use super::listeners::{Accepting, ListenerState};
use super::{Dispatcher, Listener, Phase};
use crate::io::Driver;
use crate::shard::{self, Order};

/// What the data plane is from the next client on.
#[derive(Debug)]
pub struct Renewal {
    /// As [`Options::connections_max`](super::Options::connections_max).
    pub connections_max: u64,
    /// All listeners, as the shards are told of them. Their sockets listen; those that none of them has are closed.
    pub listeners: Vec<Listener>,
    /// For each shard, in their order.
    pub shards: Vec<shard::Renewal>,
}

impl<D: Driver> Dispatcher<D> {
    /// Has nothing be accepted any more on the sockets that are left. Dropped, which whoever waits for it notices, once the
    /// listeners are given up.
    pub(super) fn begin_renewing(&mut self, renewal: Box<Renewal>) {
        if !matches!(self.phase, Phase::Accepting | Phase::Stopping { .. }) {
            return;
        }
        for state in &mut self.listeners {
            state.leaves = !renewal.listeners.iter().any(|listener| listener.socket == state.socket);
            if state.leaves {
                state.cancel(&mut self.driver);
            }
        }
        self.renewal = Some(renewal);
    }

    /// Exchanges everything as soon as the sockets that are left are at rest.
    pub(super) fn finish_renewing(&mut self) {
        if self.listeners.iter().any(|state| state.leaves && state.is_busy()) {
            return;
        }
        let Some(renewal) = self.renewal.take() else { return };
        let Renewal { connections_max, listeners, shards } = *renewal;
        self.leave_sockets();
        self.flush_backlog_into_unsent();
        for (shard, renewal) in self.shards.iter_mut().zip(shards) {
            shard.unsent.push_back(Order::Renew(Box::new(renewal)));
        }
        self.send_unsent();
        let limits = listeners.iter().map(|listener| (Arc::clone(&listener.ledger), listener.limits.clone()));
        self.admission.renew(connections_max, limits.collect());
        self.exchange_listeners(listeners);
    }

    fn leave_sockets(&mut self) {
        for index in 0..self.listeners.len() {
            if !self.listeners[index].leaves {
                continue;
            }
            if self.listeners[index].accepting != Accepting::Closed {
                self.take_waiting(index);
                // At once: whoever waits for the change finds that nobody listens there any more.
                self.driver.close_listener(self.listeners[index].socket);
            }
            let ListenerState { socket, ledger, denied, closing, .. } = &mut self.listeners[index];
            self.driver.close(*socket);
            denied.tell(ledger, self.now, true, &mut self.links.events);
            if let Some(done) = closing.take() {
                // It is closed, and more than that.
                let _ = done.send(Ok(()));
            }
        }
        self.listeners.retain(|state| !state.leaves);
    }

    /// Accepts on these sockets from now on; those that stay go on as they are, closed ones too.
    fn exchange_listeners(&mut self, listeners: Vec<Listener>) {
        let mut before = mem::take(&mut self.listeners);
        for Listener { ledger, socket, backlog, limits: _ } in listeners {
            let known = before.iter().position(|state| state.socket == socket);
            let Some(mut state) = known.map(|index| before.swap_remove(index)) else {
                self.listeners.push(ListenerState::new(socket, backlog, ledger));
                continue;
            };
            // Of a listener that is closed it stays closed, unless it is another's from now on.
            let is_open = state.accepting != Accepting::Closed;
            if if is_open { state.backlog != backlog } else { state.ledger != ledger } {
                // A socket that listens takes another number, whatever it is, and one that is bound can listen.
                let _ = self.driver.open_listener(socket, backlog);
                if !is_open {
                    state.accepting = Accepting::Idle;
                }
            }
            state.backlog = backlog;
            if state.ledger != ledger {
                mem::take(&mut state.denied).tell(&state.ledger, self.now, true, &mut self.links.events);
                state.ledger = ledger;
            }
            self.listeners.push(state);
        }
    }
}
