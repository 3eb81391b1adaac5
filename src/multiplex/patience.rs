//! How long those who share a connection wait for clients that do not read.
//!
//! All such clients together may make the others wait no longer than one alone, and then a tenth of the time. Else
//! many who take turns would have nobody else be served. Each has a moment even so: others may have used up the rest, and
//! who reads at once must not pay for them.

use std::time::Duration;

use crate::time::Time;

/// It comes back so many times more slowly than it is used up.
const RECOVERY: u32 = 10;

/// What each client has at least is so many times less than all of it.
const MOMENT: u32 = 20;

/// One connection's.
#[derive(Debug)]
pub(super) struct Patience {
    most: Duration,
    used: Duration,
    /// When so much was used.
    as_of: Time,
    waiting_since: Option<Time>,
}

impl Patience {
    pub(super) fn new(most: Duration) -> Self {
        Self { most, used: Duration::ZERO, as_of: Time::default(), waiting_since: None }
    }

    /// The wait for a client begins; when it has been long enough.
    pub(super) fn begin(&mut self, now: Time) -> Time {
        self.used = self.used.saturating_sub(now.since(self.as_of) / RECOVERY);
        (self.as_of, self.waiting_since) = (now, Some(now));
        now + (self.most - self.used).max(self.most / MOMENT)
    }

    /// The wait is over, if there was one.
    pub(super) fn end(&mut self, now: Time) {
        if let Some(since) = self.waiting_since.take() {
            self.used = self.most.min(self.used + now.since(since));
            self.as_of = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_client_has_used_up_the_next_has_not_and_it_comes_back_slowly() {
        let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
        let mut patience = Patience::new(Duration::from_secs(1));
        assert_eq!(patience.begin(at(10_000)), at(11_000));
        patience.end(at(10_400));
        assert_eq!(patience.begin(at(10_400)), at(11_000));
        patience.end(at(11_000));
        patience.end(at(11_500));
        assert_eq!(patience.begin(at(11_000)), at(11_050));
        patience.end(at(11_000));
        // A second later a tenth of a second is there again, after ten all of it, and never more.
        assert_eq!(patience.begin(at(12_000)), at(12_100));
        patience.end(at(12_100));
        assert_eq!(patience.begin(at(22_100)), at(23_100));
        patience.end(at(22_100));
        assert_eq!(patience.begin(at(99_000)), at(100_000));
    }
}
