//! How fast clients may come: a listener's rate, and one for each address they come from.
//!
//! Both are the generic cell rate algorithm (ITU-T I.371, annex A): each client pushes a point in time forward by one
//! interval, and is refused when that point is more than a second away. So a burst of one second's worth passes after
//! a quiet time, and no counter needs a timer.

use std::time::Duration;

use super::sources::{Slots, Source};
use crate::time::Time;

/// What may come at once after a quiet time, in seconds of the rate.
const BURST: Duration = Duration::from_secs(1);

/// Sources remembered at once for each rate, at most 100 bytes each. Only those that came within the last second count; if
/// there are more of them, those that come on top are bounded by the listener's rate alone.
const SOURCES_MAX: usize = 65_536;

/// Clients per second beyond which further ones are refused, `None`: however many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Of all clients together.
    pub total: Option<u32>,
    /// Of the clients of one IPv4 address or IPv6 network of 64 bits, which is what one host is given.
    pub per_source: Option<u32>,
}

/// What has come to one listener lately.
#[derive(Debug)]
pub(super) struct Meter {
    rates: Rates,
    total: Time,
    slots: Slots<Source>,
    /// The point in time of each source, by its slot.
    sources: Vec<Time>,
}

impl Meter {
    pub(super) fn new(rates: Rates) -> Self {
        let slots = if rates.per_source.is_some() { SOURCES_MAX } else { 0 };
        Self { rates, total: Time::default(), slots: Slots::new(slots), sources: Vec::with_capacity(slots) }
    }

    /// Whether it matters where clients come from.
    pub(super) const fn wants_source(&self) -> bool {
        self.rates.per_source.is_some()
    }

    /// Whether a client that has come from `source` is within the rates. Only then it counts.
    pub(super) fn admit(&mut self, source: Option<Source>, now: Time) -> bool {
        let Some(total) = advance(self.total, self.rates.total, now) else { return false };
        if let (Some(source), Some(rate)) = (source, self.rates.per_source)
            && let Some(point) = self.point(source, now)
        {
            let Some(next) = advance(*point, Some(rate), now) else { return false };
            *point = next;
        }
        self.total = total;
        true
    }

    /// The source's point in time; `None` when there are too many sources.
    fn point(&mut self, source: Source, now: Time) -> Option<&mut Time> {
        let slot = self.slots.slot(source, |slot| self.sources[slot as usize] <= now)? as usize;
        if slot == self.sources.len() {
            self.sources.push(Time::default());
        }
        Some(&mut self.sources[slot])
    }
}

/// The point in time of a meter that one more client has come to at `now`; `None` when that is one too many.
fn advance(point: Time, rate: Option<u32>, now: Time) -> Option<Time> {
    let Some(rate) = rate else { return Some(point) };
    let next = point.max(now) + BURST / rate;
    (next <= now + BURST).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Time {
        Time::from_nanos(60_000_000_000 + millis * 1_000_000)
    }

    fn admitted(meter: &mut Meter, source: &str, clients: usize, now: Time) -> usize {
        let source = Source::of(source.parse().unwrap());
        (0..clients).filter(|_| meter.admit(Some(source), now)).count()
    }

    #[test]
    fn a_second_is_let_in_at_once_and_then_one_at_each_interval() {
        let mut meter = Meter::new(Rates { total: Some(10), per_source: None });
        assert_eq!(admitted(&mut meter, "192.0.2.1", 25, at(0)), 10);
        assert_eq!(admitted(&mut meter, "192.0.2.2", 25, at(99)), 0);
        assert_eq!(admitted(&mut meter, "192.0.2.2", 25, at(100)), 1);
        assert_eq!(admitted(&mut meter, "192.0.2.3", 25, at(350)), 2);
        assert_eq!(admitted(&mut meter, "192.0.2.3", 25, at(10_000)), 10);
    }

    #[test]
    fn each_address_has_its_own_rate_and_ipv6_counts_by_network() {
        let mut meter = Meter::new(Rates { total: None, per_source: Some(2) });
        assert_eq!(admitted(&mut meter, "192.0.2.1", 5, at(0)), 2);
        assert_eq!(admitted(&mut meter, "192.0.2.2", 5, at(0)), 2);
        assert_eq!(admitted(&mut meter, "::ffff:192.0.2.2", 5, at(0)), 0);
        assert_eq!(admitted(&mut meter, "2001:db8::1", 5, at(0)), 2);
        assert_eq!(admitted(&mut meter, "2001:db8::ffff:2", 5, at(0)), 0);
        assert_eq!(admitted(&mut meter, "2001:db8:0:1::1", 5, at(0)), 2);
    }

    #[test]
    fn who_is_refused_uses_up_nothing() {
        let mut meter = Meter::new(Rates { total: Some(3), per_source: Some(1) });
        assert_eq!(admitted(&mut meter, "192.0.2.1", 100, at(0)), 1);
        assert_eq!(admitted(&mut meter, "192.0.2.2", 100, at(0)), 1);
        assert_eq!(admitted(&mut meter, "192.0.2.3", 100, at(0)), 1);
        assert_eq!(admitted(&mut meter, "192.0.2.4", 100, at(0)), 0);
    }

    #[test]
    fn without_rates_everybody_is_let_in_and_nobody_remembered() {
        let mut meter = Meter::new(Rates::default());
        assert_eq!(admitted(&mut meter, "192.0.2.1", 100_000, at(0)), 100_000);
        assert_eq!(meter.slots.len(), 0);
    }

    #[test]
    fn sources_are_remembered_up_to_a_bound_and_forgotten_when_their_time_has_passed() {
        let mut meter = Meter::new(Rates { total: None, per_source: Some(1) });
        let source = |index: u32| Some(Source::of(index.to_be_bytes().into()));
        assert!((0..70_000).all(|index| meter.admit(source(index), at(0))));
        assert_eq!(meter.slots.len(), 65_536);
        assert!(!meter.admit(source(0), at(999)));
        // Each that comes makes room for some more.
        assert!((70_000..90_000).all(|index| meter.admit(source(index), at(1_000))));
        assert_eq!(meter.slots.len(), 20_000);
        assert!(!meter.admit(source(89_999), at(1_999)));
    }
}
