//! What the kernel has been asked and has not fully answered, and the memory lent with it.
//!
//! Invariants: an operation stays here until its last completion, and with it the memory the kernel reads. An
//! [`OpId`] is a slot and how often that slot has been used, so an id that is over never names a later operation.

use super::sys::SockAddr;
use super::{BufferGroup, Fd, OpId, Token};
use crate::pool::SendBuf;

/// Bits of an [`OpId`] that name the slot: 4 million operations at a time.
const SLOT_BITS: u32 = 22;
const SLOTS_MAX: usize = 1 << SLOT_BITS;
/// The next 41 bits count the uses of the slot, enough for 25 days of a million uses a second.
const USES_MAX: u64 = (1 << (63 - SLOT_BITS)) - 1;

/// An operation the kernel works on.
pub(super) struct Flight {
    pub(super) token: Token,
    pub(super) work: Work,
}

/// What it is, and the memory it keeps.
pub(super) enum Work {
    Accept,
    Receive(Receive),
    Send(SendBuf),
    Connect(#[expect(dead_code, reason = "held for the kernel, which reads it")] Box<SockAddr>),
}

/// A receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receive {
    pub(super) socket: Fd,
    pub(super) group: BufferGroup,
    /// Whether it goes on after a buffer.
    pub(super) many: bool,
    /// Its user wants it to end.
    pub(super) cancelled: bool,
    /// We have cancelled it, to go on with single receives.
    pub(super) interrupted: bool,
}

struct Slot {
    /// At least 1, so that ids below `SLOTS_MAX`, and those with the highest bit set, name no operation.
    uses: u64,
    flight: Option<Flight>,
}

/// The table of operations in flight.
pub(super) struct InFlight {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

impl InFlight {
    /// A table that holds `capacity` operations before it allocates again.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { slots: Vec::with_capacity(capacity), free: Vec::with_capacity(capacity) }
    }

    pub(super) fn insert(&mut self, flight: Flight) -> OpId {
        let slot = self.free.pop().unwrap_or_else(|| {
            assert!(self.slots.len() < SLOTS_MAX, "{SLOTS_MAX} operations in flight");
            self.slots.push(Slot { uses: 0, flight: None });
            self.slots.len() - 1
        });
        let place = &mut self.slots[slot];
        place.uses = if place.uses == USES_MAX { 1 } else { place.uses + 1 };
        place.flight = Some(flight);
        OpId(place.uses << SLOT_BITS | slot as u64)
    }

    pub(super) fn get_mut(&mut self, op: OpId) -> Option<&mut Flight> {
        let (slot, uses) = Self::split(op);
        let place = self.slots.get_mut(slot)?;
        place.flight.as_mut().filter(|_| place.uses == uses)
    }

    pub(super) fn remove(&mut self, op: OpId) -> Option<Flight> {
        let (slot, uses) = Self::split(op);
        let place = self.slots.get_mut(slot).filter(|place| place.uses == uses)?;
        let flight = place.flight.take()?;
        self.free.push(slot);
        Some(flight)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Flight> {
        self.slots.iter_mut().filter_map(|slot| slot.flight.as_mut())
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.slots.len() == self.free.len()
    }

    #[expect(clippy::cast_possible_truncation, reason = "masked to 22 bits")]
    const fn split(op: OpId) -> (usize, u64) {
        ((op.0 & (SLOTS_MAX as u64 - 1)) as usize, op.0 >> SLOT_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(flights: &mut InFlight, op: OpId) -> bool {
        flights.get_mut(op).is_some()
    }

    fn accept(token: u64) -> Flight {
        Flight { token: Token(token), work: Work::Accept }
    }

    #[test]
    fn a_flight_is_found_by_its_id_until_it_is_removed() {
        let mut flights = InFlight::with_capacity(2);
        let first = flights.insert(accept(1));
        let second = flights.insert(accept(2));
        assert_eq!(flights.get_mut(first).map(|flight| flight.token), Some(Token(1)));
        assert_eq!(flights.remove(second).map(|flight| flight.token), Some(Token(2)));
        assert!(!contains(&mut flights, second));
        assert!(flights.remove(second).is_none());
        assert!(!flights.is_empty());
        assert!(flights.remove(first).is_some());
        assert!(flights.is_empty());
    }

    #[test]
    fn an_old_id_never_names_the_next_user_of_its_slot() {
        let mut flights = InFlight::with_capacity(1);
        let mut ids = Vec::new();
        for token in 0..100 {
            let id = flights.insert(accept(token));
            assert!(ids.iter().all(|&old| !contains(&mut flights, old)));
            assert!(flights.remove(id).is_some());
            ids.push(id);
        }
        assert_eq!(flights.slots.len(), 1);
    }

    #[test]
    fn small_ids_and_made_up_ones_name_nothing() {
        let mut flights = InFlight::with_capacity(1);
        let id = flights.insert(accept(1));
        for op in [0, 1, SLOTS_MAX as u64 - 1, u64::MAX, id.0 + 1] {
            assert!(!contains(&mut flights, OpId(op)));
            assert!(flights.remove(OpId(op)).is_none());
        }
        assert!(contains(&mut flights, id));
    }

    #[test]
    fn the_count_of_uses_wraps_without_reaching_zero() {
        let mut flights = InFlight::with_capacity(1);
        let first = flights.insert(accept(1));
        flights.remove(first);
        flights.slots[0].uses = USES_MAX;
        assert_eq!(flights.insert(accept(2)), OpId(1 << SLOT_BITS));
    }
}
