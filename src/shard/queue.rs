//! Sessions that wait for a place at a server, because each that could be used has as many connections as it may.
//!
//! Invariants: who has come first on a shard is served first, where it could be served as well as who comes later; who waits is told when its time is over; a place that was
//! given back on this shard is offered within the turn, one from another shard within [`LOOK_AGAIN`].

use std::collections::VecDeque;
use std::time::Duration;

use super::backends::Offer;
use super::token::SessionId;
use super::{Shard, Upstream};
use crate::io::Driver;
use crate::roster::waiting::Waiter;
use crate::session::Turn;
use crate::session::close::CloseReason;
use crate::time::Time;

/// How often places that another shard has given back are looked for while somebody waits.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Sessions that wait no more and may stay in a queue, beside as many as wait.
const STALE_MAX: usize = 64;

/// The sessions of one shard that wait for one backend. It may name some that are served or gone.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Those that have tried no server, the first in front: who comes later waits behind them.
    fresh: VecDeque<(Time, SessionId)>,
    /// Those that could not reach a server which may have room, and that nobody else has to wait for.
    again: VecDeque<(Time, SessionId)>,
}

/// One of the two in a [`Queue`], in the order in which they are served.
#[derive(Clone, Copy, Debug)]
enum Line {
    Again,
    Fresh,
}

impl Queue {
    /// Whether nobody waits that others would pass by.
    pub(super) fn has_nobody_fresh(&self) -> bool {
        self.fresh.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.again.is_empty()
    }

    /// Entries, those of sessions that wait no more among them.
    pub(super) fn len(&self) -> usize {
        self.fresh.len() + self.again.len()
    }

    const fn line_mut(&mut self, line: Line) -> &mut VecDeque<(Time, SessionId)> {
        match line {
            Line::Again => &mut self.again,
            Line::Fresh => &mut self.fresh,
        }
    }
}

impl<D: Driver> Shard<D> {
    /// When the shard must look for places again though nothing happens.
    pub(super) fn look_again_at(&self) -> Option<Time> {
        (self.queued > 0).then(|| self.now + LOOK_AGAIN)
    }

    /// Has a session wait for a place, or tells its client that too many do.
    pub(super) fn begin_waiting(&mut self, id: SessionId) {
        let Some(entry) = self.table.entry(id) else { return };
        let backend = entry.rules.backend;
        let upstream = &mut self.backends[backend];
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        let Some(waiter) = Waiter::new(&upstream.waiting) else {
            let why = upstream.full_text("as many sessions wait as may (max_queue)");
            entry.session.handle_no_place(&why, CloseReason::QueueFull, turn);
            entry.detail = Some(why.into());
            return;
        };
        turn.tally.queued.add(1);
        entry.waiter = Some(waiter);
        entry.session.handle_queued(turn.now + upstream.options.queue_timeout);
        let line = if entry.tried.is_empty() { Line::Fresh } else { Line::Again };
        upstream.queue.line_mut(line).push_back((self.now, id));
        self.queued += 1;
        self.prune(backend, line);
    }

    /// Forgets those that do not wait any more, when they are the most.
    fn prune(&mut self, backend: usize, line: Line) {
        let Upstream { queue, waiting, .. } = &mut self.backends[backend];
        let sessions = queue.line_mut(line);
        let before = sessions.len();
        if before > 2 * waiting.total() as usize + STALE_MAX {
            sessions.retain(|&(_, id)| self.table.entry(id).is_some_and(|entry| entry.waiter.is_some()));
            self.queued -= before - sessions.len();
        }
    }

    /// The time of a session that waits is over.
    pub(super) fn end_waiting(&mut self, id: SessionId) {
        let Some(entry) = self.table.entry(id) else { return };
        if entry.waiter.take().is_none() {
            return;
        }
        let upstream = &self.backends[entry.rules.backend];
        let why = upstream.full_text("no place became free in time (queue_timeout)");
        let turn = &mut Turn { now: self.now, pool: &mut self.pool, tally: &self.tally };
        entry.session.handle_no_place(&why, CloseReason::QueueTimeout, turn);
        entry.detail = Some(why.into());
    }

    /// Serves those that wait, as far as there are places.
    pub(super) fn serve_queues(&mut self) {
        if self.queued == 0 {
            return;
        }
        for backend in 0..self.backends.capacity() {
            if self.backends.get(backend).is_none_or(|upstream| upstream.queue.is_empty()) {
                continue;
            }
            self.serve_line(backend, Line::Again);
            self.serve_line(backend, Line::Fresh);
            let upstream = &self.backends[backend];
            upstream.waiting.publish(self.options.id, upstream.queue.fresh.front().map(|&(since, _)| since));
        }
    }

    fn serve_line(&mut self, backend: usize, line: Line) {
        while let Some((since, id)) = self.first_waiting(backend, line) {
            if !self.serve_waiting(backend, line, since, id) {
                return;
            }
            self.touch(id);
        }
    }

    /// Who has waited longest; passes over those that do not wait any more.
    fn first_waiting(&mut self, backend: usize, line: Line) -> Option<(Time, SessionId)> {
        let sessions = self.backends[backend].queue.line_mut(line);
        while let Some(&(since, id)) = sessions.front() {
            if self.table.entry(id).is_some_and(|entry| entry.waiter.is_some()) {
                return Some((since, id));
            }
            sessions.pop_front();
            self.queued -= 1;
        }
        None
    }

    /// Offers the first of a line what there is. `false` when it must go on waiting.
    fn serve_waiting(&mut self, backend: usize, line: Line, since: Time, id: SessionId) -> bool {
        let Some(entry) = self.table.entry(id) else { return false };
        let upstream: &mut Upstream = &mut self.backends[backend];
        if upstream.waiting.passes_by(self.options.id, since) {
            return false;
        }
        let offer = upstream.offer(&entry.tried, entry.client_address.map(|address| address.ip()));
        if matches!(offer, Offer::Full) {
            return false;
        }
        entry.waiter = None;
        upstream.queue.line_mut(line).pop_front();
        self.queued -= 1;
        entry.session.handle_dequeued(self.now);
        self.take_offer(id, offer);
        true
    }
}
