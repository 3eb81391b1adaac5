//! Where clients come from, and a slot for each source that must be remembered.
//!
//! A look-up takes the same few steps, however many sources there are: nothing grows, and the slots of sources that need
//! none any more are taken back a few at a time by a hand that goes round.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

/// Slots that the hand passes at each look-up.
const PASSED: usize = 4;

/// What counts as one client's address: an IPv4 address, or an IPv6 network of 64 bits, which is what one host is given
/// and chooses its addresses from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Source(u64);

impl Source {
    pub(super) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            // A network of multicast addresses, which nobody connects from.
            IpAddr::V4(address) => Self(0xffff_ffff_0000_0000 | u64::from(address.to_bits())),
            IpAddr::V6(address) => Self((address.to_bits() >> 64) as u64),
        }
    }
}

/// Slots of sources, numbered from zero and used again.
#[derive(Debug)]
pub(super) struct Slots<K> {
    by_source: HashMap<K, u32>,
    holders: Vec<Option<K>>,
    free: Vec<u32>,
    hand: usize,
    slots_max: usize,
}

impl<K: Copy + Eq + Hash> Slots<K> {
    /// At most `slots_max` slots. Room for all of them is taken at once, which costs addresses until sources come.
    pub(super) fn new(slots_max: usize) -> Self {
        Self {
            by_source: HashMap::with_capacity(slots_max),
            holders: Vec::with_capacity(slots_max),
            free: Vec::with_capacity(slots_max),
            hand: 0,
            slots_max,
        }
    }

    /// The slot of `source`, which is given one when it has none; `None` when all are taken. `is_idle` says which slots
    /// may be taken back.
    ///
    /// Where at most half of the slots are in use at any time, one is always to be had: the hand comes round within
    /// `slots_max / PASSED` look-ups, and no more than so many slots can have been used and left since.
    pub(super) fn slot(&mut self, source: K, is_idle: impl Fn(u32) -> bool) -> Option<u32> {
        self.pass(is_idle);
        if let Some(&slot) = self.by_source.get(&source) {
            return Some(slot);
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.holders.len() < self.slots_max => {
                self.holders.push(None);
                u32::try_from(self.holders.len() - 1).expect("slots are numbered with 32 bits")
            }
            None => return None,
        };
        self.holders[slot as usize] = Some(source);
        self.by_source.insert(source, slot);
        Some(slot)
    }

    /// Moves the hand on, and takes back what it finds idle.
    fn pass(&mut self, is_idle: impl Fn(u32) -> bool) {
        for _ in 0..PASSED.min(self.holders.len()) {
            self.hand = (self.hand + 1) % self.holders.len();
            let slot = u32::try_from(self.hand).expect("slots are numbered with 32 bits");
            if let Some(source) = self.holders[self.hand].take_if(|_| is_idle(slot)) {
                self.by_source.remove(&source);
                self.free.push(slot);
            }
        }
    }

    /// Sources that have a slot.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_source.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_source_is_an_ipv4_address_or_an_ipv6_network_of_64_bits() {
        let source = |text: &str| Source::of(text.parse().unwrap());
        assert_eq!(source("192.0.2.1"), source("::ffff:192.0.2.1"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:2"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_ne!(source("192.0.2.1"), source("::192.0.2.1"));
    }

    #[test]
    fn a_source_keeps_its_slot_until_it_is_idle() {
        let mut slots = Slots::new(2);
        let busy = |_| false;
        assert_eq!((slots.slot('a', busy), slots.slot('b', busy), slots.slot('c', busy)), (Some(0), Some(1), None));
        assert_eq!((slots.slot('a', busy), slots.slot('b', busy)), (Some(0), Some(1)));
        assert_eq!(slots.slot('c', |slot| slot == 1), Some(1));
        assert_eq!((slots.slot('b', busy), slots.slot('a', busy), slots.len()), (None, Some(0), 2));
    }

    proptest! {
        /// Connections come and go; each source has at most one count, and a slot is to be had for each that comes.
        #[test]
        fn with_twice_as_many_slots_as_connections_there_is_one_for_everybody(
            steps in prop::collection::vec((0..100_u32, any::<bool>()), 0..2_000),
        ) {
            let (mut slots, mut open, mut connections) = (Slots::new(16), vec![0_u32; 16], Vec::new());
            for (source, comes) in steps {
                if !comes || connections.len() == 8 {
                    let Some(slot) = connections.pop() else { continue };
                    open[slot] -= 1;
                    continue;
                }
                let slot = slots.slot(source, |slot| open[slot as usize] == 0).expect("a slot") as usize;
                prop_assert!(open[slot] == 0 || connections.contains(&slot));
                open[slot] += 1;
                connections.insert(usize::try_from(source).unwrap() % (connections.len() + 1), slot);
                prop_assert!(slots.len() <= 16);
            }
        }
    }
}
