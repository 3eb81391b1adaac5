//! Places with names that are never given twice: who asks for one that is gone gets nothing, and not its successor.

use slab::Slab;

/// The name of one place's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    /// The place; given again.
    pub slot: u32,
    /// What tells its contents apart; 2^32 of them make one that is still remembered impossible.
    pub serial: u32,
}

/// Contents by [`Id`].
#[derive(Debug)]
pub struct Slots<T> {
    slab: Slab<(u32, T)>,
    next_serial: u32,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Slots<T> {
    /// Without contents.
    #[must_use]
    pub const fn new() -> Self {
        Self { slab: Slab::new(), next_serial: 0 }
    }

    /// Gives `content` a place.
    pub fn insert(&mut self, content: T) -> Id {
        let serial = self.next_serial;
        self.next_serial = serial.wrapping_add(1);
        Id { slot: slot_number(self.slab.insert((serial, content))), serial }
    }

    /// The content of that name, if it is still there.
    #[must_use]
    pub fn at(&self, id: Id) -> Option<&T> {
        let (serial, content) = self.slab.get(id.slot as usize)?;
        (*serial == id.serial).then_some(content)
    }

    /// The same, to be changed.
    pub fn at_mut(&mut self, id: Id) -> Option<&mut T> {
        let (serial, content) = self.slab.get_mut(id.slot as usize)?;
        (*serial == id.serial).then_some(content)
    }

    /// Takes it out.
    pub fn remove(&mut self, id: Id) -> Option<T> {
        self.at(id)?;
        Some(self.slab.remove(id.slot as usize).1)
    }

    /// How many contents there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// The names of all contents.
    pub fn ids(&self) -> impl Iterator<Item = Id> {
        self.slab.iter().map(|(slot, &(serial, _))| Id { slot: slot_number(slot), serial })
    }
}

fn slot_number(slot: usize) -> u32 {
    u32::try_from(slot).expect("fewer contents than 2^32")
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
        assert!(slots.ids().eq([second]));
    }
}
