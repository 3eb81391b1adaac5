//! Random numbers from a seed.

use std::time::Duration;

/// `SplitMix64`: small, and every seed gives a good sequence.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is at least 1. The bias is below `bound` in 2^64.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// An index below `len`, which is at least 1.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("below a usize")
    }

    /// A size from 1 to `max`, which is at least 1.
    pub(crate) fn size(&mut self, max: usize) -> usize {
        1 + self.index(max)
    }

    /// True in `thousandths` of 1,000 cases. Draws nothing when the answer is certain.
    pub(crate) const fn chance(&mut self, thousandths: u16) -> bool {
        match thousandths {
            0 => false,
            1000.. => true,
            _ => self.below(1000) < thousandths as u64,
        }
    }

    /// From zero to `max`; draws nothing when that is zero.
    pub(crate) fn duration(&mut self, max: Duration) -> Duration {
        let nanos = u64::try_from(max.as_nanos()).expect("a delay of centuries");
        if nanos == 0 { Duration::ZERO } else { Duration::from_nanos(self.below(nanos + 1)) }
    }
}
