//! Places with names that are never given twice: who asks for one that is gone gets nothing, and not its successor.

use slab::Slab;

/// The name of one place's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    /// The place; given again.
    pub slot: u32,
    /// What tells its contents apart; 2^32 of them make one that is still remembered impossible.
    serial: u32,
}

/// Contents by [`Id`].
#[derive(Debug)]
pub(super) struct Slots<T> {
    slab: Slab<(u32, T)>,
    next_serial: u32,
}

impl<T> Slots<T> {
    pub(super) const fn new() -> Self {
        Self { slab: Slab::new(), next_serial: 0 }
    }

    pub(super) fn insert(&mut self, content: T) -> Id {
        let serial = self.next_serial;
        self.next_serial = serial.wrapping_add(1);
        let slot = u32::try_from(self.slab.insert((serial, content))).expect("fewer sockets than 2^32");
        Id { slot, serial }
    }

    pub(super) fn at(&self, id: Id) -> Option<&T> {
        let (serial, content) = self.slab.get(id.slot as usize)?;
        (*serial == id.serial).then_some(content)
    }

    pub(super) fn at_mut(&mut self, id: Id) -> Option<&mut T> {
        let (serial, content) = self.slab.get_mut(id.slot as usize)?;
        (*serial == id.serial).then_some(content)
    }

    pub(super) fn remove(&mut self, id: Id) -> Option<T> {
        self.at(id)?;
        Some(self.slab.remove(id.slot as usize).1)
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_outlives_its_content_and_names_nothing_else() {
        let mut slots = Slots::new();
        let first = slots.insert('a');
        assert_eq!(slots.at(first), Some(&'a'));
        assert_eq!(slots.remove(first), Some('a'));
        let second = slots.insert('b');
        assert_eq!(second.slot, first.slot);
        assert_eq!(slots.at(first), None);
        assert_eq!(slots.at_mut(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!((slots.at(second), slots.len()), (Some(&'b'), 1));
    }
}
