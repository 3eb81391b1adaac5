//! Who runs where: proxy, clients and backend on cores of their own, as far as there are that many.

use core_affinity::CoreId;

/// The cores of a bench.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cores {
    /// The proxy's; never shared where there are two.
    pub(crate) proxy: usize,
    /// The clients'.
    pub(crate) clients: usize,
    /// The backend's; the clients' as well, where there is no third.
    pub(crate) backend: usize,
}

impl Cores {
    /// The first cores that the process may use. To be asked before a thread is pinned.
    pub(crate) fn of_this_process() -> Self {
        let mut cores: Vec<usize> =
            core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect();
        cores.sort_unstable();
        let proxy = cores.first().copied().unwrap_or(0);
        let clients = cores.get(1).copied().unwrap_or(proxy);
        let backend = cores.get(2).copied().unwrap_or(clients);
        Self { proxy, clients, backend }
    }
}

impl std::fmt::Display for Cores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "proxy on core {}, clients on core {}, backend on core {}", self.proxy, self.clients, self.backend)
    }
}

/// Keeps the calling thread, and what it starts from here on, on `core`.
pub(crate) fn pin(core: usize) {
    // Where this is forbidden, figures are less steady and no less true.
    core_affinity::set_for_current(CoreId { id: core });
}
