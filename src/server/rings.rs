//! How large each thread's ring is.

use crate::config::Config;
use crate::dispatcher;
use crate::io::uring::{Unavailable, Uring, UringOptions};

/// The dispatcher's ring: it accepts, rings and hears one byte per command. It sends and receives nothing else.
pub(super) const DISPATCHER_RING: UringOptions = UringOptions {
    submissions: 256,
    completions: 4096,
    in_flight: 64,
    small_buffers: 4,
    small_buffer_bytes: 64,
    large_buffers: 0,
    large_buffer_bytes: 0,
};

/// Room for what the sessions of a shard can complete at once: a send and an end of stream on each side. Beyond the
/// bound the kernel queues on its own, more slowly and counted.
pub(super) fn shard_ring(slots: u32) -> UringOptions {
    let completions = slots.saturating_mul(4).clamp(8 * 1024, 64 * 1024).next_power_of_two();
    UringOptions { completions, ..UringOptions::default() }
}

/// Sessions that a shard has room for: placement may send every client to one, and those that are refused come on top.
pub(super) fn slots(config: &Config) -> u32 {
    let refusals = u32::try_from(dispatcher::REFUSALS_MAX).unwrap_or(u32::MAX);
    config.limits.max_connections.saturating_add(refusals)
}

/// Makes all rings that a process with this configuration has, and lets them go again.
///
/// # Errors
/// When one cannot be had, as for want of memory that may be locked.
pub fn try_rings(config: &Config) -> Result<(), Unavailable> {
    let shards = config.runtime.cores.iter().map(|_| shard_ring(slots(config)));
    let rings = shards.chain([DISPATCHER_RING]).map(|options| Uring::new(&options));
    rings.collect::<Result<Vec<_>, _>>().map(drop)
}
