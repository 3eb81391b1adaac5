//! So many a second, and how many there were beyond.

use std::time::Duration;

use crate::time::Time;

const SECOND: Duration = Duration::from_secs(1);

/// Admits so many a second, and counts what it leaves out, which is told once a second.
#[derive(Clone, Debug)]
pub struct Quota {
    per_second: u32,
    second_ends: Time,
    admitted: u32,
    left_out: u64,
}

impl Quota {
    /// One that has admitted none.
    #[must_use]
    pub const fn new(per_second: u32) -> Self {
        Self { per_second, second_ends: Time::from_nanos(0), admitted: 0, left_out: 0 }
    }

    /// Whether one more is admitted.
    pub fn admits(&mut self, now: Time) -> bool {
        self.begin_second(now);
        let is_admitted = self.admitted < self.per_second;
        if is_admitted {
            self.admitted += 1;
        } else {
            self.left_out += 1;
        }
        is_admitted
    }

    /// Counts what somebody else has left out.
    pub fn count_left_out(&mut self, more: u64, now: Time) {
        self.begin_second(now);
        self.left_out += more;
    }

    /// What was left out is told first, and begins the next second.
    fn begin_second(&mut self, now: Time) {
        if now >= self.second_ends && self.left_out == 0 {
            self.second_ends = now + SECOND;
            self.admitted = 0;
        }
    }

    /// When there is something to tell, if ever.
    #[must_use]
    pub fn due(&self) -> Option<Time> {
        (self.left_out > 0).then_some(self.second_ends)
    }

    /// How many were left out, when their second is over.
    pub fn take_left_out(&mut self, now: Time) -> Option<u64> {
        self.due().filter(|&due| due <= now)?;
        self.second_ends = now + SECOND;
        self.admitted = 0;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn admitted(quota: &mut Quota, now: Time, count: usize) -> usize {
        (0..count).filter(|_| quota.admits(now)).count()
    }

    #[test]
    fn what_is_beyond_the_quota_is_counted_and_told_once_a_second() {
        let mut quota = Quota::new(2);
        assert_eq!(admitted(&mut quota, at(5_000), 5), 2);
        assert_eq!((quota.due(), quota.take_left_out(at(5_000))), (Some(at(6_000)), None));
        assert_eq!(admitted(&mut quota, at(5_500), 4), 0);
        assert_eq!(quota.take_left_out(at(6_000)), Some(7));
        assert_eq!((quota.due(), admitted(&mut quota, at(6_000), 3)), (None, 2));
        assert_eq!(quota.take_left_out(at(7_000)), Some(1));
        assert_eq!(admitted(&mut quota, at(10_000), 2), 2);
        assert_eq!(quota.due(), None);
    }

    #[test]
    fn what_others_have_left_out_is_told_with_it_within_a_second() {
        let mut quota = Quota::new(1);
        quota.count_left_out(5, at(3_000));
        assert_eq!(admitted(&mut quota, at(3_100), 2), 1);
        assert_eq!((quota.due(), quota.take_left_out(at(3_900))), (Some(at(4_000)), None));
        assert_eq!(quota.take_left_out(at(4_000)), Some(6));
    }
}
