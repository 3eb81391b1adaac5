//! Random draws that are the same in each run, so that everybody who is measured meets the same load.

use std::time::Duration;

/// A sequence of draws that depends on its seed alone.
#[derive(Clone, Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// splitmix64 (Steele, Lea, Flood, 2014).
    const fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// From 0, which it may be, to 1, which it is not.
    pub(crate) fn share(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// An index below `count`.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a count is below it")]
    pub(crate) fn below(&mut self, count: usize) -> usize {
        (self.share() * count as f64) as usize
    }

    /// The time to the next of arrivals that do not know of each other, so many a second: an exponential distribution.
    pub(crate) fn gap(&mut self, per_second: f64) -> Duration {
        Duration::from_secs_f64(-(1.0 - self.share()).ln() / per_second)
    }

    /// Brings `items` into another order, each as likely as any other.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// Draws of ranks of which the k-th comes in proportion to 1 / k^exponent.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    /// The share of all ranks up to each.
    cumulative: Vec<f64>,
}

impl Zipf {
    pub(crate) fn new(ranks: usize, exponent: f64) -> Self {
        let weights = (1..=ranks).map(|rank| (rank as f64).powf(-exponent));
        let total: f64 = weights.clone().sum();
        let up_to = |sum: &mut f64, weight: f64| {
            *sum += weight / total;
            Some(*sum)
        };
        Self { cumulative: weights.scan(0.0, up_to).collect() }
    }

    /// The share of the rank with that index, the first being the greatest.
    pub(crate) fn share(&self, index: usize) -> f64 {
        self.cumulative[index] - if index == 0 { 0.0 } else { self.cumulative[index - 1] }
    }

    /// The index of a rank.
    pub(crate) fn draw(&self, draws: &mut Draws) -> usize {
        let share = draws.share();
        self.cumulative.partition_point(|&up_to| up_to <= share).min(self.cumulative.len() - 1)
    }
}
