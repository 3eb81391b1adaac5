//! Chance that keeps checks apart: those of many servers, and those of many proxies.

use std::time::Duration;

use crate::tls;

/// A cheap generator: spread is all that is asked of it.
#[derive(Debug)]
pub(super) struct Jitter(u64);

impl Jitter {
    pub(super) fn new() -> Self {
        Self::seeded(tls::random_seed())
    }

    const fn seeded(seed: u64) -> Self {
        // A zero would stay one.
        Self(seed | 1)
    }

    /// A time that is up to a tenth shorter or longer.
    pub(super) fn spread(&mut self, time: Duration) -> Duration {
        // xorshift64 (Marsaglia, 2003).
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let fifth = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) / 5;
        time.mul_f64(0.9) + Duration::from_nanos(self.0 % fifth.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_spread_over_a_tenth_either_way() {
        for seed in [0, 1, u64::MAX, 0x1234_5678] {
            let mut jitter = Jitter::seeded(seed);
            let times: Vec<_> = (0..1_000).map(|_| jitter.spread(Duration::from_secs(1))).collect();
            let (least, most) = (*times.iter().min().unwrap(), *times.iter().max().unwrap());
            assert!(least >= Duration::from_millis(900) && most <= Duration::from_millis(1_100), "{least:?} {most:?}");
            assert!(least < Duration::from_millis(910) && most > Duration::from_millis(1_090), "{least:?} {most:?}");
        }
    }
}
