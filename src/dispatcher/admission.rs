//! Who is let in: the connection limits, and how many may be told that they are reached.

use std::sync::Arc;

use crate::load::LoadCell;
use crate::session::Refusal;

/// Clients that may be in the middle of being told that a limit is reached. Telling them takes a handshake each;
/// beyond this they are closed without a word.
pub const REFUSALS_MAX: u64 = 64;

/// What becomes of an accepted client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Admit,
    Refuse(Refusal),
    Drop,
}

/// Counts of open connections, and their limits.
#[derive(Debug)]
pub(super) struct Admission {
    connections_max: u64,
    /// Per listener; what has been handed to shards since the start, then the same for refusals.
    listeners_max: Vec<u64>,
    handed: Vec<u64>,
    cells: Vec<Arc<LoadCell>>,
}

impl Admission {
    pub(super) fn new(connections_max: u64, listeners_max: Vec<u64>, cells: Vec<Arc<LoadCell>>) -> Self {
        let handed = vec![0; listeners_max.len() + 1];
        Self { connections_max, listeners_max, handed, cells }
    }

    fn open(&self, counter: usize) -> u64 {
        let ended: u64 = self.cells.iter().map(|cell| cell.ended(counter)).sum();
        self.handed[counter].saturating_sub(ended)
    }

    /// Judges a client of `listener` and counts it unless it is dropped.
    pub(super) fn admit(&mut self, listener: u16) -> Verdict {
        let listener = usize::from(listener);
        let refusals = self.listeners_max.len();
        let open: u64 = (0..refusals).map(|counter| self.open(counter)).sum();
        if open < self.connections_max && self.open(listener) < self.listeners_max[listener] {
            self.handed[listener] += 1;
            Verdict::Admit
        } else if self.open(refusals) < REFUSALS_MAX {
            self.handed[refusals] += 1;
            Verdict::Refuse(Refusal::TooManyConnections)
        } else {
            Verdict::Drop
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_hold_globally_and_per_listener_and_an_end_makes_room() {
        let cell = Arc::new(LoadCell::new(3));
        let mut admission = Admission::new(3, vec![2, 10], vec![Arc::clone(&cell)]);
        let refused = Verdict::Refuse(Refusal::TooManyConnections);
        let verdicts: Vec<_> = [0, 0, 0, 1, 1].map(|listener| admission.admit(listener)).into();
        assert_eq!(verdicts, [Verdict::Admit, Verdict::Admit, refused, Verdict::Admit, refused]);
        cell.count_ended(0);
        assert_eq!(admission.admit(1), Verdict::Admit);
    }

    #[test]
    fn at_most_sixty_four_are_being_told_at_once() {
        let cell = Arc::new(LoadCell::new(2));
        let mut admission = Admission::new(0, vec![10], vec![Arc::clone(&cell)]);
        for _ in 0..64 {
            assert_eq!(admission.admit(0), Verdict::Refuse(Refusal::TooManyConnections));
        }
        assert_eq!(admission.admit(0), Verdict::Drop);
        cell.count_ended(1);
        assert_eq!(admission.admit(0), Verdict::Refuse(Refusal::TooManyConnections));
    }
}
