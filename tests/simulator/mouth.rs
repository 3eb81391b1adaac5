//! When a peer reads, and how much.

use ringwall::time::Time;

use crate::script::Appetite;

/// What is read in one go at most.
const BITE: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Mouth {
    appetite: Appetite,
    since: Time,
    next: Time,
}

impl Mouth {
    pub(crate) const fn new(appetite: Appetite, since: Time) -> Self {
        Self { appetite, since, next: since }
    }

    /// How much may be read.
    pub(crate) fn room(&self, now: Time) -> usize {
        match self.appetite {
            Appetite::Prompt => BITE,
            Appetite::Slow { bytes, .. } if self.next <= now => bytes,
            Appetite::Late(wait) if self.since + wait <= now => BITE,
            Appetite::Slow { .. } | Appetite::Late(_) | Appetite::Never => 0,
        }
    }

    /// Something has been read.
    pub(crate) fn swallow(&mut self, now: Time) {
        if let Appetite::Slow { every, .. } = self.appetite {
            self.next = now + every;
        }
    }

    /// When reading becomes possible, if it is not.
    pub(crate) fn opens_at(&self, now: Time) -> Option<Time> {
        let at = match self.appetite {
            Appetite::Slow { .. } => self.next,
            Appetite::Late(wait) => self.since + wait,
            Appetite::Prompt | Appetite::Never => return None,
        };
        (at > now).then_some(at)
    }
}
