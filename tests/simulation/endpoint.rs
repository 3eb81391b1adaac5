//! One end of a connection: what has arrived, what is on the way to it, and how it ends.
//!
//! The rules are those of TCP on Linux. What has arrived stays readable whatever happens. After a FIN comes an end of
//! stream. A reset is an error once, for whoever asks first, sender or receiver; after that a receive sees an end of
//! stream and a send `EPIPE`.

use std::collections::VecDeque;
use std::net::SocketAddr;

use ringwall::io::{Errno, OpId};
use ringwall::time::Time;

use super::sim::DriverId;

/// An operation that waits for an endpoint or a listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub(crate) driver: DriverId,
    pub(crate) op: OpId,
    /// Whether its driver has been told already.
    pub(crate) woken: bool,
}

/// What travels.
#[derive(Debug)]
pub(crate) enum Segment {
    Data(Vec<u8>),
    End,
    Reset,
}

impl Segment {
    const fn len(&self) -> usize {
        match self {
            Self::Data(bytes) => bytes.len(),
            Self::End | Self::Reset => 0,
        }
    }
}

/// What a receive finds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Bytes(Vec<u8>),
    Nothing,
    End,
    Failed(Errno),
}

/// What became of the segments whose time has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Quietly,
    /// Data came for an endpoint that is closed: the sender must be told by a reset.
    AnswerReset,
}

#[derive(Debug, Default)]
pub(crate) struct Endpoint {
    arrived: VecDeque<u8>,
    /// Bytes that have ever arrived.
    arrived_total: u64,
    /// In order; each with the time of its arrival.
    transit: VecDeque<(Time, Segment)>,
    /// Bytes of data in `transit`.
    transit_bytes: usize,
    /// Something has happened here since somebody last asked.
    pub(crate) changed: bool,
    ended: bool,
    reset: bool,
    error: Option<Errno>,
    pub(crate) write_shut: bool,
    pub(crate) closed: bool,
    pub(crate) fin_sent: bool,
    pub(crate) reset_sent: bool,
    pub(crate) receiver: Option<Waiter>,
    pub(crate) sender: Option<Waiter>,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) remote: Option<SocketAddr>,
}

impl Endpoint {
    pub(crate) fn new(local: Option<SocketAddr>, remote: Option<SocketAddr>) -> Self {
        Self { local, remote, ..Self::default() }
    }

    /// Puts a segment on the way; it arrives at `at`, or with the one before it when that is later.
    pub(crate) fn send_here(&mut self, at: Time, segment: Segment) -> Time {
        let at = self.transit.back().map_or(at, |&(before, _)| before.max(at));
        self.transit_bytes += segment.len();
        self.transit.push_back((at, segment));
        at
    }

    /// Bytes on the way and arrived.
    pub(crate) fn outstanding(&self) -> usize {
        self.arrived.len() + self.transit_bytes
    }

    /// Bytes that have ever arrived, read or not.
    pub(crate) const fn arrived_total(&self) -> u64 {
        self.arrived_total
    }

    /// Lets what is due arrive, as far as `receive_bytes_max` lets it.
    pub(crate) fn settle(&mut self, now: Time, receive_bytes_max: usize) -> Settled {
        let mut settled = Settled::Quietly;
        while let Some((at, segment)) = self.transit.front_mut() {
            if *at > now {
                break;
            }
            match segment {
                Segment::Data(bytes) if self.closed || self.reset => {
                    self.transit_bytes -= bytes.len();
                    settled = Settled::AnswerReset;
                }
                Segment::Data(bytes) => {
                    let room = receive_bytes_max.saturating_sub(self.arrived.len()).min(bytes.len());
                    self.arrived.extend(&bytes[..room]);
                    bytes.drain(..room);
                    self.arrived_total += room as u64;
                    self.transit_bytes -= room;
                    if !bytes.is_empty() {
                        break;
                    }
                }
                Segment::End => self.ended = true,
                Segment::Reset => {
                    self.reset = true;
                    self.error = Some(Errno(if self.ended { libc::EPIPE } else { libc::ECONNRESET }));
                }
            }
            self.transit.pop_front();
        }
        settled
    }

    /// A reset is about to be sent here: what the sender still holds back for lack of room is lost, and so is what is on
    /// the way when `all` says so.
    pub(crate) fn lose_transit(&mut self, receive_bytes_max: usize, all: bool) {
        let mut room = if all { 0 } else { receive_bytes_max.saturating_sub(self.arrived.len()) };
        let kept = self.transit.iter().take_while(|(_, segment)| match segment {
            Segment::Data(bytes) => {
                let fits = bytes.len() <= room;
                room = room.saturating_sub(bytes.len());
                fits
            }
            Segment::End => !all,
            Segment::Reset => true,
        });
        let kept = kept.count();
        let lost = self.transit.drain(kept..).map(|(_, segment)| segment.len()).sum::<usize>();
        self.transit_bytes -= lost;
    }

    /// Takes up to `max` bytes.
    pub(crate) fn read(&mut self, max: usize) -> Found {
        if !self.arrived.is_empty() {
            let len = self.arrived.len().min(max);
            let bytes = self.arrived.make_contiguous()[..len].to_vec();
            self.arrived.drain(..len);
            return Found::Bytes(bytes);
        }
        if self.ended {
            return Found::End;
        }
        match self.error.take() {
            Some(error) => Found::Failed(error),
            None if self.reset => Found::End,
            None => Found::Nothing,
        }
    }

    /// Whether a send would fail, and how. Takes the error.
    pub(crate) fn send_error(&mut self) -> Option<Errno> {
        let broken = self.reset || self.write_shut;
        self.error.take().or_else(|| broken.then_some(Errno(libc::EPIPE)))
    }

    pub(crate) fn is_readable(&self) -> bool {
        !self.arrived.is_empty() || self.ended || self.reset
    }

    /// Whether a send would end at once instead of waiting for room.
    pub(crate) const fn is_broken(&self) -> bool {
        self.reset || self.write_shut
    }

    pub(crate) fn has_unread(&self) -> bool {
        !self.arrived.is_empty()
    }

    pub(crate) const fn is_reset(&self) -> bool {
        self.reset
    }
    /// Whether a FIN has come.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended
    }
}
