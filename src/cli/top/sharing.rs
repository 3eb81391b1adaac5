//! What comes of the requests of a listener whose clients share connections.

use super::counters::Requests;

/// Rates and means between two samples; none where nothing happened in between.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sharing {
    /// Requests over shared connections in a second.
    pub(super) shared_rate: Option<f64>,
    /// Their share of all that are counted.
    pub(super) share: Option<f64>,
    /// Requests that left together.
    pub(super) batch: Option<f64>,
    /// Seconds that answered requests took, but for those that may block.
    pub(super) duration: Option<f64>,
}

impl Sharing {
    /// Where `before` was counted so many seconds before. What one process counts only grows: what shrinks is another's.
    pub(super) fn between(before: &Requests, now: &Requests, seconds: f64) -> Self {
        let grown = |of: fn(&Requests) -> f64| Some(of(now) - of(before)).filter(|grown| *grown >= 0.0);
        let ratio = |part: Option<f64>, whole: Option<f64>| Some(part? / whole.filter(|whole| *whole > 0.0)?);
        let (shared, own) = (grown(|of| of.shared), grown(|of| of.own));
        Self {
            shared_rate: shared.map(|shared| shared / seconds),
            share: ratio(shared, shared.zip(own).map(|(shared, own)| shared + own)),
            batch: ratio(grown(|of| of.batched), grown(|of| of.batches)),
            duration: ratio(grown(|of| of.seconds), grown(|of| of.answered)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Requests =
        Requests { shared: 100.0, own: 10.0, batches: 20.0, batched: 100.0, answered: 110.0, seconds: 0.5 };

    #[test]
    fn rates_and_means_are_of_what_came_since() {
        let now = Requests { shared: 400.0, own: 110.0, batches: 80.0, batched: 400.0, answered: 510.0, seconds: 0.7 };
        let sharing = Sharing::between(&BEFORE, &now, 2.0);
        assert_eq!((sharing.shared_rate, sharing.share, sharing.batch), (Some(150.0), Some(0.75), Some(5.0)));
        assert!((sharing.duration.unwrap() - 0.0005).abs() < 1e-9, "{sharing:?}");
    }

    #[test]
    fn nothing_is_told_of_what_did_not_happen_or_was_counted_by_another() {
        let idle = Sharing { shared_rate: Some(0.0), ..Sharing::default() };
        assert_eq!(Sharing::between(&BEFORE, &BEFORE, 1.0), idle);
        assert_eq!(Sharing::between(&BEFORE, &Requests::default(), 1.0), Sharing::default());
    }
}
