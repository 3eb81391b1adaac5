//! TLS on a line: what the multiplexer says is sealed, and what the server says is opened.

use crate::io::Errno;
use crate::multiplex::Multiplexer;
use crate::pool::{Pool, SendBuf};
use crate::session::Turn;
use crate::session::coalescer::{FlushReason, Threshold};
use crate::session::queue::SendQueue;
use crate::session::transport::{SealError, Transport};
use crate::slots::Id;
use crate::tls::{Engine, Failure, OpenStatus, Role};

/// Records opened in one go; there is no other work in between.
const RECORDS_MAX: usize = 256;

/// The TLS of a line.
#[derive(Debug)]
pub(super) struct Secure {
    transport: Transport,
    queue: SendQueue,
    /// What the multiplexer has given to be sent, which goes back to it when all of it has left.
    given: Option<SendBuf>,
    /// The handshake is complete, and the multiplexer knows.
    is_complete: bool,
    /// Nothing more is said; FIN follows what is queued.
    ends: bool,
}

/// What is to be done next for what is to be sent.
pub(super) enum Next {
    /// Send this.
    Send(SendBuf),
    /// Give this back to the multiplexer: it has left.
    Left(SendBuf),
    /// Send FIN.
    End,
    Nothing,
    /// It could not be sealed.
    Failed,
}

/// How far a line is after bytes have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    GoesOn,
    /// The handshake has just been completed.
    Completed,
    /// The server has said that it ends.
    Ended,
    /// It failed, in the handshake or behind it.
    Failed(Failure),
}

impl Secure {
    pub(super) fn new(transport: Transport, threshold: Threshold) -> Self {
        let queue = SendQueue::new(threshold);
        Self { transport, queue, given: None, is_complete: false, ends: false }
    }

    /// Whether the handshake goes on.
    pub(super) const fn is_handshaking(&self) -> bool {
        !self.is_complete
    }

    const fn engine(&mut self) -> Option<&mut Engine> {
        match &mut self.transport {
            Transport::Tls(engine) => Some(engine),
            Transport::Plain => None,
        }
    }

    /// Takes bytes of the server: what they say goes to the multiplexer as coming from `link`.
    pub(super) fn receive(
        &mut self,
        mut bytes: &mut [u8],
        multiplexer: &mut Multiplexer,
        link: Id,
        turn: &mut Turn<'_>,
    ) -> Progress {
        let was_complete = self.is_complete;
        let mut knows = was_complete;
        let (now, tally) = (turn.now, turn.tally);
        let Some(engine) = self.engine() else { return Progress::GoesOn };
        let status = loop {
            let opened = engine.open(bytes, RECORDS_MAX, turn.pool, |pool, plaintext| {
                let turn = &mut Turn { now, pool, tally };
                // What comes behind the end of the handshake in one read must find the connection made.
                if !std::mem::replace(&mut knows, true) {
                    multiplexer.handle_connected(link, turn);
                }
                multiplexer.handle_link_received(link, plaintext, turn);
            });
            tally.records_opened.add(opened.records as u64);
            bytes = &mut [];
            if opened.status != OpenStatus::Budget {
                break opened.status;
            }
        };
        let is_complete = !engine.is_handshaking();
        if is_complete && !knows {
            multiplexer.handle_connected(link, turn);
        }
        self.is_complete = is_complete;
        self.queue_replies(turn.pool);
        match status {
            OpenStatus::Failed(failure) => Progress::Failed(failure),
            OpenStatus::Closed => Progress::Ended,
            OpenStatus::Drained | OpenStatus::Budget if is_complete && !was_complete => Progress::Completed,
            OpenStatus::Drained | OpenStatus::Budget => Progress::GoesOn,
        }
    }

    /// Takes what the multiplexer says.
    pub(super) fn say(&mut self, buffer: SendBuf, turn: &mut Turn<'_>) -> Result<(), SealError> {
        let said = self.queue.push(buffer.data(), &mut self.transport, turn.pool, turn.tally);
        self.given = Some(buffer);
        said
    }

    /// Nothing more is said.
    pub(super) fn end(&mut self, turn: &mut Turn<'_>) {
        // What cannot be sealed is lost with the keys; TLS has queued its close_notify by then.
        let _ = self.queue.flush(FlushReason::Close, &mut self.transport, turn.pool, turn.tally);
        if let Some(engine) = self.engine() {
            engine.close_notify();
        }
        self.queue_replies(turn.pool);
        self.ends = true;
    }

    /// Queues what TLS itself wants to say.
    pub(super) fn queue_replies(&mut self, pool: &mut Pool) {
        let Some(engine) = self.engine().filter(|engine| engine.has_replies()) else { return };
        let replies = engine.take_replies();
        self.queue.push_raw(&replies, pool);
    }

    pub(super) fn next(&mut self, turn: &mut Turn<'_>) -> Next {
        match self.queue.next(&mut self.transport, turn.pool, turn.tally) {
            Ok(Some(buffer)) => Next::Send(buffer),
            Err(_) => Next::Failed,
            Ok(None) if !self.queue.is_empty() => Next::Nothing,
            Ok(None) => match self.given.take() {
                Some(buffer) => Next::Left(buffer),
                None if std::mem::take(&mut self.ends) => Next::End,
                None => Next::Nothing,
            },
        }
    }

    /// Takes back a buffer of which the first `sent` bytes have left. After an error, what the multiplexer had given.
    pub(super) fn sent(&mut self, buffer: SendBuf, sent: Result<usize, Errno>, pool: &mut Pool) -> Option<SendBuf> {
        self.queue.sent(buffer, sent.unwrap_or(0), pool);
        sent.is_err().then(|| self.given.take().unwrap_or_default())
    }

    /// Gives all buffers back. No send may be in flight.
    pub(super) fn release(&mut self, pool: &mut Pool) {
        self.queue.discard(pool);
        if let Some(given) = self.given.take() {
            pool.give(given);
        }
        if let Some(engine) = self.engine() {
            engine.release(pool);
        }
    }
}

/// What is told of a failure of TLS with a server.
pub(super) fn in_words(failure: Failure) -> String {
    format!("TLS: {}", failure.in_words(Role::Client))
}
