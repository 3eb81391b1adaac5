//! Which shard a client goes to: the less loaded of two drawn at random.
//!
//! Two choices keep the load nearly as even as asking every shard would, without the herd that all-see-the-least
//! makes of loads that are a little old (Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing").

use crate::load::Load;

/// A shard as placement sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Sessions handed to it that have not ended.
    pub sessions: u64,
    /// What it says of itself.
    pub load: Load,
}

/// What a session whose bytes are held weighs, in sessions: it has work waiting right now.
const PENDING_WEIGHT: u64 = 8;

/// What a handshake in flight weighs, in sessions: about a thousand requests' worth of CPU is to come.
const HANDSHAKE_WEIGHT: u64 = 4;

impl Candidate {
    /// The shard's load in thousandths of a session, where `mean` is the mean number of sessions. Being busy weighs as
    /// much as having as many sessions again as the mean shard has.
    fn cost(self, mean: u64) -> u64 {
        let Load { pending, handshakes, busy_permille } = self.load;
        (self.sessions + PENDING_WEIGHT * u64::from(pending) + HANDSHAKE_WEIGHT * u64::from(handshakes)) * 1000
            + u64::from(busy_permille) * mean
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

    /// The index of the less loaded of two different candidates. Panics when there is none.
    pub fn choose(&mut self, candidates: &[Candidate]) -> usize {
        let count = candidates.len();
        assert!(count > 0, "a dispatcher has shards");
        if count == 1 {
            return 0;
        }
        let first = self.draw(count);
        let second = (first + 1 + self.draw(count - 1)) % count;
        let mean = candidates.iter().map(|candidate| candidate.sessions).sum::<u64>() / count as u64;
        let cost = |index: usize| candidates[index].cost(mean);
        if cost(second) < cost(first) { second } else { first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(sessions: u64, pending: u32, handshakes: u32, busy_permille: u32) -> Candidate {
        Candidate { sessions, load: Load { pending, handshakes, busy_permille } }
    }

    #[test]
    fn the_less_loaded_of_two_shards_is_always_chosen() {
        let mut placement = Placement::new(1);
        for _ in 0..100 {
            assert_eq!(placement.choose(&[candidate(10, 0, 0, 0), candidate(9, 0, 0, 0)]), 1);
            assert_eq!(placement.choose(&[candidate(10, 0, 0, 0), candidate(10, 1, 0, 0)]), 0);
            assert_eq!(placement.choose(&[candidate(10, 0, 0, 900), candidate(12, 0, 0, 100)]), 1);
        }
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
