//! The receive buffers of a simulated driver: as many as it has, and lent one by one.

use std::collections::VecDeque;

use ringwall::io::{BufferGroup, Lease};

pub(crate) struct SimBuffers {
    group: BufferGroup,
    storage: Vec<Vec<u8>>,
    /// Bytes lent per buffer; 0 while the buffer is the kernel's.
    lent: Vec<u32>,
    /// In the order they are taken.
    free: VecDeque<u16>,
    /// Free again once they are published.
    recycled: Vec<u16>,
}

impl SimBuffers {
    pub(crate) fn new(group: BufferGroup, count: u16, bytes: usize) -> Self {
        let storage = (0..count).map(|_| vec![0; bytes]).collect();
        let lent = vec![0; usize::from(count)];
        Self { group, storage, lent, free: (0..count).collect(), recycled: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// Bytes of the buffer that is taken next.
    pub(crate) fn room(&self) -> usize {
        self.storage.first().map_or(0, Vec::len)
    }

    /// Takes the next buffer for `bytes`.
    pub(crate) fn lend(&mut self, bytes: &[u8]) -> Lease {
        let id = self.free.pop_front().expect("the caller has seen that a buffer is free");
        let len = u32::try_from(bytes.len()).expect("at most the room of a buffer");
        self.storage[usize::from(id)][..bytes.len()].copy_from_slice(bytes);
        self.lent[usize::from(id)] = len;
        Lease { group: self.group, id, len }
    }

    pub(crate) fn bytes_mut(&mut self, lease: &Lease) -> &mut [u8] {
        self.assert_lent(lease);
        &mut self.storage[usize::from(lease.id)][..lease.len as usize]
    }

    /// Takes a buffer back, and spoils it: whoever still reads it finds out.
    pub(crate) fn recycle(&mut self, lease: Lease) {
        self.bytes_mut(&lease).fill(0xdd);
        self.lent[usize::from(lease.id)] = 0;
        self.recycled.push(lease.id);
    }

    pub(crate) fn publish(&mut self) {
        self.free.extend(self.recycled.drain(..));
    }

    fn assert_lent(&self, lease: &Lease) {
        let lent = self.lent.get(usize::from(lease.id)).copied().unwrap_or(0);
        assert!(lent != 0 && lent == lease.len, "broken duty: {lease:?} is not lent");
    }
}
