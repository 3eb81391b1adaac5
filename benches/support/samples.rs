//! Repeated measurements of one thing.
#![allow(dead_code, reason = "each bench uses a part of it")]

/// Measurements in the order they were taken.
#[derive(Clone, Debug)]
pub(crate) struct Samples(Vec<f64>);

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(samples: I) -> Self {
        Self(samples.into_iter().collect())
    }
}

impl Samples {
    /// All of them, in the order they were taken.
    pub(crate) fn values(&self) -> &[f64] {
        &self.0
    }

    /// The middle one, or the mean of the middle two.
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        if sorted.len() % 2 == 1 { sorted[middle] } else { sorted[middle - 1].midpoint(sorted[middle]) }
    }

    /// The smallest.
    pub(crate) fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The largest.
    pub(crate) fn max(&self) -> f64 {
        self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// Each divided by the one taken in the same round of `base`.
    pub(crate) fn relative_to(&self, base: &Self) -> Self {
        Self(self.0.iter().zip(&base.0).map(|(sample, base)| sample / base).collect())
    }

    /// Each less the one taken in the same round of `base`.
    pub(crate) fn less(&self, base: &Self) -> Self {
        Self(self.0.iter().zip(&base.0).map(|(sample, base)| sample - base).collect())
    }

    /// Whether `value` is from the smallest to the largest.
    pub(crate) fn spans(&self, value: f64) -> bool {
        self.min() <= value && value <= self.max()
    }
}
