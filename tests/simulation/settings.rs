//! How large and how rough the simulated world is.

use std::time::Duration;

use super::Rng;

/// Chances are in thousandths.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// What all random choices come from.
    pub(crate) seed: u64,
    /// Receive buffers per driver.
    pub(crate) small_buffers: u16,
    pub(crate) small_buffer_bytes: usize,
    pub(crate) large_buffers: u16,
    pub(crate) large_buffer_bytes: usize,
    /// Operations a driver queues before it starts them by itself.
    pub(crate) submissions: usize,
    /// Operations a driver works on per enter; the others wait for the next.
    pub(crate) work_per_enter_max: usize,
    /// Bytes that have arrived and are not read, per socket.
    pub(crate) receive_bytes_max: usize,
    /// Bytes that were written and have not arrived, per socket.
    pub(crate) send_bytes_max: usize,
    /// Bytes that travel together.
    pub(crate) segment_bytes_max: usize,
    /// Connections a listener holds until they are accepted.
    pub(crate) backlog: usize,
    /// File descriptors the process under test may have open.
    pub(crate) open_files_max: usize,
    /// Time on the way, per segment and connection attempt.
    pub(crate) network_delay_max: Duration,
    /// Time from readiness to completion.
    pub(crate) kernel_delay_max: Duration,
    /// A segment is shorter than it could be.
    pub(crate) short_segment: u16,
    /// A receive takes less than is there and fits.
    pub(crate) short_receive: u16,
    /// A send stops midway and goes on later.
    pub(crate) partial_send: u16,
    /// A multishot operation ends although nothing is wrong.
    pub(crate) multishot_end: u16,
    /// A receive finds no buffer although one is free.
    pub(crate) no_buffers: u16,
    /// An accept fails although a connection is there.
    pub(crate) accept_error: u16,
    /// A cancel takes effect later.
    pub(crate) late_cancel: u16,
    /// What was sent just before a reset does not arrive, although there was room for it.
    pub(crate) reset_loses_data: u16,
    /// A wait ends although nothing has happened.
    pub(crate) interrupted_wait: u16,
    /// Whether `enter` moves time when it has to wait.
    pub(crate) enter_advances_time: bool,
    /// Whether a lease that is out when `enter` is called is a broken duty.
    pub(crate) leases_home_each_turn: bool,
}

impl Settings {
    /// Nothing fails, and everything happens at once.
    pub(crate) const fn calm(seed: u64) -> Self {
        Self {
            seed,
            small_buffers: 64,
            small_buffer_bytes: 4096,
            large_buffers: 4,
            large_buffer_bytes: 69_632,
            submissions: 1024,
            work_per_enter_max: 1024,
            receive_bytes_max: 128 * 1024,
            send_bytes_max: 128 * 1024,
            segment_bytes_max: 64 * 1024,
            backlog: 128,
            open_files_max: 1024,
            network_delay_max: Duration::ZERO,
            kernel_delay_max: Duration::ZERO,
            short_segment: 0,
            short_receive: 0,
            partial_send: 0,
            multishot_end: 0,
            no_buffers: 0,
            accept_error: 0,
            late_cancel: 0,
            reset_loses_data: 0,
            interrupted_wait: 0,
            enter_advances_time: false,
            leases_home_each_turn: true,
        }
    }

    /// Sizes and rates drawn from the seed: some worlds are slow, some cramped, some lossy, a few calm.
    pub(crate) fn rough(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x5e77_1265);
        let rng = &mut rng;
        let mut rate =
            |max: u16| if rng.chance(500) { u16::try_from(rng.below(u64::from(max))).unwrap_or(0) } else { 0 };
        let rates = [rate(700), rate(400), rate(400), rate(100), rate(100), rate(100), rate(700), rate(500), rate(200)];
        let delay = |rng: &mut Rng, micros: u64| {
            if rng.chance(800) { Duration::from_micros(rng.below(micros)) } else { Duration::ZERO }
        };
        Self {
            small_buffers: 1 << rng.below(7),
            small_buffer_bytes: 64 << rng.below(7),
            large_buffers: 1 << rng.below(3),
            large_buffer_bytes: 1024 << rng.below(7),
            submissions: rng.size(64),
            work_per_enter_max: rng.size(64),
            receive_bytes_max: 256 << rng.below(10),
            send_bytes_max: 256 << rng.below(10),
            segment_bytes_max: 1 << rng.below(17),
            backlog: rng.size(32),
            network_delay_max: delay(rng, 5_000),
            kernel_delay_max: delay(rng, 1_000),
            short_segment: rates[0],
            short_receive: rates[1],
            partial_send: rates[2],
            multishot_end: rates[3],
            no_buffers: rates[4],
            accept_error: rates[5],
            late_cancel: rates[6],
            reset_loses_data: rates[7],
            interrupted_wait: rates[8],
            ..Self::calm(seed)
        }
    }
}
