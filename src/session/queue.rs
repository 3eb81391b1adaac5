//! The bytes one side of a session still has to send, and the order in which they leave.
//!
//! ```text
//!   push ──► cork (plaintext) ──flush──► ready (as on the wire) ──next──► the kernel (one send in flight)
//!      └────── large chunks ──────────────────►
//! ```
//!
//! While its side cannot be spoken to yet, plaintext is held back; only what is as on the wire already, a handshake,
//! passes.
//!
//! Invariants:
//! - At most one send is in flight; what arrives meanwhile is the natural cork and leaves with the next one.
//! - Bytes leave in the order they were pushed, whatever the threshold.
//! - `bytes()` counts everything that is held, in flight included; an empty queue holds no buffer.

use std::collections::VecDeque;

use crate::metrics::Tally;
use crate::pool::{LARGE_BYTES, Pool, SendBuf};
use crate::session::coalescer::{FlushReason, Threshold, Verdict};
use crate::session::transport::{SealError, Transport};

/// One side's outgoing bytes.
#[derive(Debug)]
pub struct SendQueue {
    threshold: Threshold,
    holding: bool,
    /// Plaintext that is held back, in front of what is in the cork.
    held: Vec<SendBuf>,
    cork: Option<SendBuf>,
    ready: VecDeque<SendBuf>,
    ready_bytes: usize,
    in_flight_bytes: usize,
}

impl SendQueue {
    /// An empty queue that gathers small chunks up to `threshold`.
    #[must_use]
    pub const fn new(threshold: Threshold) -> Self {
        Self {
            threshold,
            holding: false,
            held: Vec::new(),
            cork: None,
            ready: VecDeque::new(),
            ready_bytes: 0,
            in_flight_bytes: 0,
        }
    }

    /// Bytes held, those in flight included. What is held back or in the cork counts as plaintext.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.held.iter().map(SendBuf::len).sum::<usize>() + self.corked() + self.ready_bytes + self.in_flight_bytes
    }

    /// What counts against the high-water mark: of what waits behind the send in flight, the buffers and not only the
    /// bytes in them.
    #[must_use]
    pub fn weight(&self) -> usize {
        let waiting = self.held.iter().chain(&self.ready);
        self.corked() + waiting.map(SendBuf::capacity).sum::<usize>() + self.in_flight_bytes
    }

    /// Whether everything has been sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Whether a send is in flight.
    #[must_use]
    pub const fn is_sending(&self) -> bool {
        self.in_flight_bytes > 0
    }

    /// Holds plaintext back until [`SendQueue::open`].
    pub const fn hold(&mut self) {
        self.holding = true;
    }

    /// Lets plaintext go.
    pub fn open(&mut self, transport: &mut Transport, pool: &mut Pool) -> Result<(), SealError> {
        self.holding = false;
        for buffer in std::mem::take(&mut self.held) {
            if transport.is_plain() {
                self.ready_bytes += buffer.len();
                self.ready.push_back(buffer);
            } else {
                let sealed = self.seal(buffer.data(), transport, pool);
                pool.give(buffer);
                sealed?;
            }
        }
        Ok(())
    }

    /// Whether plaintext is held back.
    #[must_use]
    pub const fn is_holding(&self) -> bool {
        self.holding
    }

    /// Whether all that is as on the wire has left.
    #[must_use]
    pub fn has_nothing_ready(&self) -> bool {
        self.ready.is_empty() && !self.is_sending()
    }

    fn corked(&self) -> usize {
        self.cork.as_ref().map_or(0, SendBuf::len)
    }

    /// Adds plaintext. Several calls may make up one received chunk; [`SendQueue::end_chunk`] ends it.
    pub fn push(
        &mut self,
        plaintext: &[u8],
        transport: &mut Transport,
        pool: &mut Pool,
        tally: &Tally,
    ) -> Result<(), SealError> {
        let verdict = if self.holding { Verdict::Cork } else { self.threshold.place(self.corked(), plaintext.len()) };
        if verdict != Verdict::Cork {
            self.flush(FlushReason::Threshold, transport, pool, tally)?;
        }
        if verdict == Verdict::FlushThenPass {
            tally.chunks_passed.add(1);
            return self.seal(plaintext, transport, pool);
        }
        tally.chunks_corked.add(1);
        self.gather(plaintext, pool);
        Ok(())
    }

    fn gather(&mut self, plaintext: &[u8], pool: &mut Pool) {
        let cork = self.cork.get_or_insert_with(|| pool.take(plaintext.len()));
        pool.grow(cork, plaintext.len());
        cork.append(plaintext);
    }

    /// Ends a received chunk: with coalescing off it leaves on its own.
    pub fn end_chunk(&mut self, transport: &mut Transport, pool: &mut Pool, tally: &Tally) -> Result<(), SealError> {
        if self.threshold.is_off() {
            return self.flush(FlushReason::Threshold, transport, pool, tally);
        }
        Ok(())
    }

    /// Makes the gathered plaintext ready to leave.
    pub fn flush(
        &mut self,
        reason: FlushReason,
        transport: &mut Transport,
        pool: &mut Pool,
        tally: &Tally,
    ) -> Result<(), SealError> {
        if self.holding {
            return Ok(());
        }
        let Some(cork) = self.cork.take() else { return Ok(()) };
        tally.flushed_bytes.observe(cork.len() as u64);
        match reason {
            FlushReason::BatchEnd => tally.flushes_batch_end.add(1),
            FlushReason::Threshold => tally.flushes_threshold.add(1),
            FlushReason::Close => tally.flushes_close.add(1),
        }
        if transport.is_plain() {
            self.ready_bytes += cork.len();
            match self.ready.back_mut() {
                Some(last) if last.room() >= cork.len() && !self.threshold.is_off() => {
                    last.append(cork.data());
                    pool.give(cork);
                }
                Some(_) | None => self.ready.push_back(cork),
            }
            return Ok(());
        }
        let sealed = self.seal(cork.data(), transport, pool);
        pool.give(cork);
        sealed
    }

    /// Adds bytes that are already as they go on the wire, behind what is ready. The caller has flushed the cork if
    /// its bytes must come first.
    pub fn push_raw(&mut self, bytes: &[u8], pool: &mut Pool) {
        if bytes.is_empty() {
            return;
        }
        self.ready_with_room(bytes.len(), pool).append(bytes);
        self.ready_bytes += bytes.len();
    }

    /// Adds plaintext in front of all that is held back, behind what is ready. It is not held back itself.
    pub fn push_ahead(
        &mut self,
        plaintext: &[u8],
        transport: &mut Transport,
        pool: &mut Pool,
    ) -> Result<(), SealError> {
        self.seal(plaintext, transport, pool)
    }

    fn seal(&mut self, plaintext: &[u8], transport: &mut Transport, pool: &mut Pool) -> Result<(), SealError> {
        let buffer = self.ready_with_room(transport.sealed_len_max(plaintext.len()), pool);
        let before = buffer.len();
        let sealed = transport.seal(plaintext, buffer);
        let added = buffer.len() - before;
        self.ready_bytes += added;
        // A seal that failed may leave the buffer that was taken for it: nothing is no send.
        if before + added == 0
            && let Some(unused) = self.ready.pop_back()
        {
            pool.give(unused);
        }
        sealed
    }

    /// The last ready buffer when it has room for `bytes` more, else a new one behind it. With coalescing off every
    /// addition has a buffer, and so a send, of its own, made to measure.
    fn ready_with_room(&mut self, bytes: usize, pool: &mut Pool) -> &mut SendBuf {
        let joins = !self.threshold.is_off()
            && self.ready.back_mut().is_some_and(|last| {
                if last.len() + bytes <= LARGE_BYTES {
                    pool.grow(last, bytes);
                }
                last.room() >= bytes
            });
        if !joins {
            // A small addition would weigh many times its bytes; for a large one the pool's sizes fit well enough.
            let to_measure = self.threshold.is_off() && bytes <= LARGE_BYTES / 4;
            let buffer = if to_measure { pool.take_exactly(bytes) } else { pool.take(bytes) };
            self.ready.push_back(buffer);
        }
        let last = self.ready.len() - 1;
        &mut self.ready[last]
    }

    /// The next buffer to send, unless a send is in flight or nothing is held. The cork leaves only when nothing else
    /// is ready: that is the end of the batch for it.
    pub fn next(
        &mut self,
        transport: &mut Transport,
        pool: &mut Pool,
        tally: &Tally,
    ) -> Result<Option<SendBuf>, SealError> {
        if self.is_sending() {
            return Ok(None);
        }
        if self.ready.is_empty() {
            self.flush(FlushReason::BatchEnd, transport, pool, tally)?;
        }
        let Some(buffer) = self.ready.pop_front() else { return Ok(None) };
        self.ready_bytes -= buffer.len();
        self.in_flight_bytes = buffer.len();
        Ok(Some(buffer))
    }

    /// Takes back a buffer of which the first `sent` bytes have left; the rest is the next to leave.
    pub fn sent(&mut self, mut buffer: SendBuf, sent: usize, pool: &mut Pool) {
        self.in_flight_bytes = 0;
        buffer.consume(sent);
        if buffer.is_empty() {
            pool.give(buffer);
        } else {
            self.ready_bytes += buffer.len();
            self.ready.push_front(buffer);
        }
    }

    /// Drops everything but what is in flight: nobody will take it any more.
    pub fn discard(&mut self, pool: &mut Pool) {
        for buffer in self.held.drain(..).chain(self.cork.take()) {
            pool.give(buffer);
        }
        self.discard_ready(pool);
    }

    /// Drops what is as on the wire and not in flight; plaintext stays.
    pub fn discard_ready(&mut self, pool: &mut Pool) {
        for buffer in self.ready.drain(..) {
            pool.give(buffer);
        }
        self.ready_bytes = 0;
    }
}
