//! How fast clients may come: a listener's rate, and one for each address they come from.
//!
//! Both are the generic cell rate algorithm (ITU-T I.371, annex A): each client pushes a point in time forward by one
//! interval, and is refused when that point is more than a second away. So a burst of one second's worth passes after
//! a quiet time, and no counter needs a timer.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use crate::time::Time;

/// What may come at once after a quiet time, in seconds of the rate.
const BURST: Duration = Duration::from_secs(1);

/// Addresses remembered at once, 32 bytes each. Only those that came within the last second count; if there are more
/// of them, those that come on top are bounded by the listener's rate alone.
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
    sources: HashMap<IpAddr, Time>,
}

impl Meter {
    pub(super) fn new(rates: Rates) -> Self {
        Self { rates, total: Time::default(), sources: HashMap::new() }
    }

    /// Whether it matters where clients come from.
    pub(super) const fn wants_source(&self) -> bool {
        self.rates.per_source.is_some()
    }

    /// Whether a client that has come from `source` is within the rates. Only then it counts.
    pub(super) fn admit(&mut self, source: Option<IpAddr>, now: Time) -> bool {
        let source = source.map(network).filter(|_| self.rates.per_source.is_some());
        let total = advance(self.total, self.rates.total, now);
        let seen = source.and_then(|source| self.sources.get(&source)).copied().unwrap_or_default();
        let (Some(total), Some(seen)) = (total, advance(seen, self.rates.per_source, now)) else {
            return false;
        };
        self.total = total;
        if let Some(source) = source {
            self.remember(source, seen, now);
        }
        true
    }

    fn remember(&mut self, source: IpAddr, seen: Time, now: Time) {
        if self.sources.len() >= SOURCES_MAX {
            self.sources.retain(|_, seen| *seen > now);
        }
        if self.sources.len() < SOURCES_MAX || self.sources.contains_key(&source) {
            self.sources.insert(source, seen);
        }
    }
}

/// The point in time of a meter that one more client has come to at `now`; `None` when that is one too many.
fn advance(point: Time, rate: Option<u32>, now: Time) -> Option<Time> {
    let Some(rate) = rate else { return Some(point) };
    let next = point.max(now) + BURST / rate;
    (next <= now + BURST).then_some(next)
}

/// The address, or of IPv6 the network that a host chooses its addresses from.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Time {
        Time::from_nanos(60_000_000_000 + millis * 1_000_000)
    }

    fn admitted(meter: &mut Meter, source: &str, clients: usize, now: Time) -> usize {
        (0..clients).filter(|_| meter.admit(source.parse().ok(), now)).count()
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
        assert!(meter.sources.is_empty());
    }

    #[test]
    fn addresses_are_remembered_up_to_a_bound_and_forgotten_when_their_time_has_passed() {
        let mut meter = Meter::new(Rates { total: None, per_source: Some(1) });
        let source = |index: u32| Some(IpAddr::from(index.to_be_bytes()));
        assert!((0..70_000).all(|index| meter.admit(source(index), at(0))));
        assert_eq!(meter.sources.len(), 65_536);
        assert!(!meter.admit(source(0), at(999)));
        assert!(meter.admit(source(70_000), at(1_000)));
        assert_eq!(meter.sources.len(), 1);
    }
}
