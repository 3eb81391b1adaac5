//! When small writes are gathered and when they leave: the byte threshold.
//!
//! The cork of a send queue gathers the small chunks of one pass of the event loop. This file only decides; the queue
//! moves the bytes. The rule is nbdkit's "cork with a cap": gathering pays for small sends and costs for large ones,
//! so a chunk that is large in itself never waits in a cork.

/// A chunk of this size or more passes the cork: it fills a TLS record (2^14 bytes, RFC 8446 section 5.1) by itself,
/// so gathering it would cost a copy and save nothing.
pub const PASS_BYTES_MIN: usize = 16 * 1024;

/// The byte threshold of write coalescing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// Nothing is gathered: each chunk received leaves as a record and a send of its own.
    Off,
    /// At most this many bytes are gathered.
    Bytes(usize),
    /// Everything is gathered until the end of the batch, however large.
    Unbounded,
}

/// Why gathered bytes left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushReason {
    /// The batch of completions is over and the socket is free.
    BatchEnd,
    /// The next chunk would have passed the threshold or needs no gathering.
    Threshold,
    /// The side is about to end.
    Close,
}

/// Where a chunk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Into the cork.
    Cork,
    /// Into the cork, after the cork has been flushed.
    FlushThenCork,
    /// Past the cork, after it has been flushed.
    FlushThenPass,
}

impl Threshold {
    /// Decides on a chunk of `new` bytes while `corked` bytes are gathered.
    #[must_use]
    pub const fn place(self, corked: usize, new: usize) -> Verdict {
        match self {
            Self::Unbounded => Verdict::Cork,
            Self::Bytes(_) | Self::Off if new >= PASS_BYTES_MIN => Verdict::FlushThenPass,
            Self::Bytes(max) if new > max => Verdict::FlushThenPass,
            Self::Bytes(max) if corked + new > max => Verdict::FlushThenCork,
            Self::Bytes(_) | Self::Off => Verdict::Cork,
        }
    }

    /// Whether what is gathered leaves at the end of each received chunk, on its own.
    #[must_use]
    pub const fn is_off(self) -> bool {
        matches!(self, Self::Off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_chunks_are_gathered_up_to_the_threshold_and_not_beyond() {
        let threshold = Threshold::Bytes(65_536);
        assert_eq!(threshold.place(0, 512), Verdict::Cork);
        assert_eq!(threshold.place(65_024, 512), Verdict::Cork);
        assert_eq!(threshold.place(65_025, 512), Verdict::FlushThenCork);
    }

    #[test]
    fn a_chunk_that_fills_a_record_passes_the_cork() {
        assert_eq!(Threshold::Bytes(65_536).place(0, 16_383), Verdict::Cork);
        assert_eq!(Threshold::Bytes(65_536).place(0, 16_384), Verdict::FlushThenPass);
        assert_eq!(Threshold::Bytes(65_536).place(100, 65_536), Verdict::FlushThenPass);
    }

    #[test]
    fn a_chunk_larger_than_a_small_threshold_passes() {
        assert_eq!(Threshold::Bytes(1_024).place(0, 1_025), Verdict::FlushThenPass);
    }

    #[test]
    fn unbounded_gathers_everything() {
        assert_eq!(Threshold::Unbounded.place(1 << 30, 1 << 20), Verdict::Cork);
    }
}
