//! The plaintext that one peer has still to be sent: a send queue whose side speaks no TLS.

use crate::pool::SendBuf;
use crate::session::Turn;
use crate::session::coalescer::Threshold;
use crate::session::queue::SendQueue;
use crate::session::transport::Transport;

/// Outgoing bytes.
#[derive(Debug)]
pub(super) struct Outbox {
    queue: SendQueue,
    transport: Transport,
}

impl Outbox {
    pub(super) const fn new(threshold: Threshold) -> Self {
        Self { queue: SendQueue::new(threshold), transport: Transport::Plain }
    }

    pub(super) fn push(&mut self, bytes: &[u8], turn: &mut Turn<'_>) {
        let pushed = self.queue.push(bytes, &mut self.transport, turn.pool, turn.tally);
        debug_assert!(pushed.is_ok(), "plain bytes need no keys");
    }

    pub(super) fn next(&mut self, turn: &mut Turn<'_>) -> Option<SendBuf> {
        self.queue.next(&mut self.transport, turn.pool, turn.tally).ok().flatten()
    }

    /// Takes back a buffer of which the first `sent` bytes have left.
    pub(super) fn sent(&mut self, buffer: SendBuf, sent: usize, turn: &mut Turn<'_>) {
        self.queue.sent(buffer, sent, turn.pool);
    }

    pub(super) fn weight(&self) -> usize {
        self.queue.weight()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Drops everything but what is in flight.
    pub(super) fn discard(&mut self, turn: &mut Turn<'_>) {
        self.queue.discard(turn.pool);
    }
}
