//! One side of a session: its wire form, what it has said, and what it is still to be told.

use crate::io::Errno;
use crate::session::Turn;
use crate::session::coalescer::{FlushReason, Threshold};
use crate::session::queue::SendQueue;
use crate::session::transport::{SealError, Transport};

/// How far a peer's byte stream towards us has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// More may come.
    Open,
    /// The peer has said that nothing more comes, but its socket has not ended: what still arrives is dropped.
    Ended,
    /// The socket has ended, in whatever way.
    Eof,
}

/// How far our byte stream towards a peer has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// More may go.
    Open,
    /// What is queued goes, then FIN.
    Closing,
    /// FIN has gone.
    Ended,
    /// The peer takes nothing any more.
    Broken,
}

/// One side of a session.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) transport: Transport,
    pub(super) queue: SendQueue,
    pub(super) input: Input,
    pub(super) output: Output,
    /// The last send ended before its data did.
    pub(super) cut_short: bool,
    /// Nothing has been received on this connection.
    pub(super) is_silent: bool,
    /// Plaintext has been received on this connection.
    pub(super) has_spoken: bool,
    /// The engine holds complete records that it was not allowed to open yet.
    pub(super) out_of_budget: bool,
    /// The socket has ended, and those records come first.
    pub(super) end_due: Option<Option<Errno>>,
    /// Receiving from this side is paused until the other side's queue has drained to half its high-water mark.
    pub(super) paused: bool,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
}

impl Leg {
    pub(super) const fn new(transport: Transport, threshold: Threshold) -> Self {
        Self {
            transport,
            queue: SendQueue::new(threshold),
            input: Input::Open,
            output: Output::Open,
            cut_short: false,
            is_silent: true,
            has_spoken: false,
            out_of_budget: false,
            end_due: None,
            paused: false,
            received_bytes: 0,
            sent_bytes: 0,
        }
    }

    /// A side that is not connected yet: what is said to it waits.
    pub(super) const fn unconnected(threshold: Threshold) -> Self {
        let mut leg = Self::new(Transport::Plain, threshold);
        leg.queue.hold();
        leg
    }

    /// The side is connected. What is said to it goes on waiting until [`Leg::open_output`].
    pub(super) fn connect(&mut self, transport: Transport) {
        self.transport = transport;
        self.is_silent = true;
        self.has_spoken = false;
    }

    /// The side is not connected any more and is going to be again, to another peer. What is said to it waits.
    pub(super) fn disconnect(&mut self, turn: &mut Turn<'_>) {
        if let Transport::Tls(engine) = &mut self.transport {
            engine.release(turn.pool);
        }
        self.transport = Transport::Plain;
        self.queue.discard_ready(turn.pool);
        self.out_of_budget = false;
        self.end_due = None;
        self.cut_short = false;
    }

    /// From here on what is said to the side leaves; if its end has been decided on meanwhile, that follows.
    pub(super) fn open_output(&mut self, turn: &mut Turn<'_>) -> Result<(), SealError> {
        self.queue.open(&mut self.transport, turn.pool)?;
        if self.output == Output::Closing {
            self.say_last(true, turn);
        }
        Ok(())
    }

    /// Takes plaintext for this side; drops it when the side takes no more.
    pub(super) fn push(&mut self, plaintext: &[u8], turn: &mut Turn<'_>) -> Result<(), SealError> {
        if self.output != Output::Open {
            return Ok(());
        }
        self.queue.push(plaintext, &mut self.transport, turn.pool, turn.tally)
    }

    /// Ends a received chunk of plaintext.
    pub(super) fn end_chunk(&mut self, turn: &mut Turn<'_>) -> Result<(), SealError> {
        self.queue.end_chunk(&mut self.transport, turn.pool, turn.tally)
    }

    /// Queues what TLS itself wants to say: handshake messages, tickets, alerts. It may be said until FIN has gone.
    pub(super) fn queue_replies(&mut self, turn: &mut Turn<'_>) {
        if let Transport::Tls(engine) = &mut self.transport
            && engine.has_replies()
        {
            let replies = engine.take_replies();
            if matches!(self.output, Output::Open | Output::Closing) {
                self.queue.push_raw(&replies, turn.pool);
            }
        }
    }

    /// Lets what is queued go, then FIN; behind a close_notify when the end is `orderly`. A side that is not connected
    /// yet gets all of that in good order when it is.
    pub(super) fn end_output(&mut self, orderly: bool, turn: &mut Turn<'_>) {
        if self.output != Output::Open {
            return;
        }
        self.output = Output::Closing;
        if !self.queue.is_holding() {
            self.say_last(orderly, turn);
        }
    }

    fn say_last(&mut self, orderly: bool, turn: &mut Turn<'_>) {
        // A cork that cannot be sealed is lost with the keys; TLS has queued its close_notify by then.
        let _ = self.queue.flush(FlushReason::Close, &mut self.transport, turn.pool, turn.tally);
        if orderly && let Transport::Tls(engine) = &mut self.transport {
            engine.close_notify();
        }
        self.queue_replies(turn);
    }

    /// Gives up on this side's output: what is queued is dropped.
    pub(super) fn break_output(&mut self, turn: &mut Turn<'_>) {
        self.output = Output::Broken;
        self.queue.discard(turn.pool);
    }

    /// Waits for nothing more of this side.
    pub(super) fn give_up(&mut self, turn: &mut Turn<'_>) {
        self.input = Input::Eof;
        if self.output != Output::Ended {
            self.break_output(turn);
        }
    }

    /// Whether a TLS handshake is to be completed before the side can be spoken to.
    pub(super) fn is_handshaking(&self) -> bool {
        matches!(&self.transport, Transport::Tls(engine) if engine.is_handshaking())
    }

    /// Whether nothing more goes to this side or comes from it.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self.input, Input::Eof) && self.is_output_over()
    }

    /// Whether a send has met a failed connection. The kernel tells of a failure once: what then looks like FIN is none.
    pub(super) const fn has_failed(&self) -> bool {
        matches!(self.output, Output::Broken) || self.cut_short
    }

    /// Whether nothing more goes to this side.
    pub(super) const fn is_output_over(&self) -> bool {
        matches!(self.output, Output::Ended | Output::Broken)
    }
}
