//! What one thread of the data plane counts.
//!
//! A [`Tally`] belongs to the shard or dispatcher that counts in it: no locks, no globals, and no cache line that another
//! thread writes. Each of its numbers has one writer, so counting is a plain load, an addition and a plain store; any
//! other thread may read at any moment, and finds no number smaller than the last time. Numbers of one reading belong to
//! neighbouring moments, not to one.
//!
//! What concerns requests over shared connections is counted by listener, in a [`Sharing`] of each shard.
//!
//! Each counter is named once, in the tables below. How they are called outside, `control::admin` knows.

use std::marker::PhantomData;
use std::ops::{AddAssign, Index};
use std::sync::atomic::{AtomicU64, Ordering};

/// Ways for a session to end that there is room for.
pub const CLOSE_REASONS_MAX: usize = 56;
/// Ways for TLS to fail that there is room for.
pub const FAILURES_MAX: usize = 48;
/// TLS alerts that there is room for.
pub const ALERTS_MAX: usize = 40;
/// Kinds of completed handshakes that there is room for.
pub const HANDSHAKE_KINDS_MAX: usize = 40;
/// Ways for a connection to a server to fail that there is room for.
pub const CONNECT_FAILURES_MAX: usize = 8;
/// Families of commands that there is room for.
pub const FAMILIES_MAX: usize = 20;
/// Reasons for a client to leave the connections that it shares that there is room for.
pub const DEPARTURES_MAX: usize = 48;

/// A number that one thread writes and any thread may read.
#[derive(Debug, Default)]
pub struct Number(AtomicU64);

impl Number {
    /// Adds to it. To be called by its one writer only.
    pub fn add(&self, more: u64) {
        // No read-modify-write: this thread is the only one that writes.
        self.0.store(self.0.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }

    /// Sets it. To be called by its one writer only.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Its value, or one it had a moment ago.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A part of a [`Tally`].
pub trait Part {
    /// What is read of it.
    type Total;

    /// Reads it.
    fn total(&self) -> Self::Total;

    /// Adds what was read of the same part of another tally.
    fn sum(total: &mut Self::Total, other: &Self::Total);
}

impl Part for Number {
    type Total = u64;

    fn total(&self) -> u64 {
        self.get()
    }

    fn sum(total: &mut u64, other: &u64) {
        *total += other;
    }
}

/// One number for each value of a label, by the value's position among all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labelled<T, const N: usize>([T; N]);

impl<T: Default, const N: usize> Default for Labelled<T, N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| T::default()))
    }
}

impl<const N: usize> Labelled<u64, N> {
    /// All of them together.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl<T, const N: usize> Index<usize> for Labelled<T, N> {
    type Output = T;

    fn index(&self, position: usize) -> &T {
        &self.0[position]
    }
}

impl<P: Part, const N: usize> Part for Labelled<P, N> {
    type Total = Labelled<P::Total, N>;

    fn total(&self) -> Self::Total {
        Labelled(std::array::from_fn(|position| self[position].total()))
    }

    fn sum(total: &mut Self::Total, other: &Self::Total) {
        total.0.iter_mut().zip(&other.0).for_each(|(total, other)| P::sum(total, other));
    }
}

/// Upper bounds of a histogram's buckets.
pub trait Bounds {
    /// Ascending, at most 15; one more bucket is for what is larger.
    const BOUNDS: &'static [u64];
}

/// From half a millisecond to ten seconds, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Micros;

impl Bounds for Micros {
    const BOUNDS: &'static [u64] = &[
        250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
        5_000_000, 10_000_000,
    ];
}

/// From the smallest reply to the largest cork.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes;

impl Bounds for Bytes {
    const BOUNDS: &'static [u64] = &[64, 256, 1_024, 4_096, 16_384, 65_536, 262_144];
}

/// From one request alone to what a shared connection may have under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests;

impl Bounds for Requests {
    const BOUNDS: &'static [u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];
}

/// How often values came that lie between bounds, and their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram<T, B> {
    buckets: Labelled<T, 16>,
    /// Of all values.
    pub sum: T,
    bounds: PhantomData<B>,
}

impl<B: Bounds> Histogram<Number, B> {
    /// Counts a value. To be called by its one writer only.
    pub fn observe(&self, value: u64) {
        self.observe_many(value, 1);
    }

    /// The same for a value that came so many times.
    pub fn observe_many(&self, value: u64, times: u64) {
        let bucket = B::BOUNDS.iter().position(|&bound| value <= bound).unwrap_or(B::BOUNDS.len());
        self.buckets[bucket].add(times);
        self.sum.add(value * times);
    }
}

impl<B: Bounds> Histogram<u64, B> {
    /// Each bound, and how many values were not above it.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut values = 0;
        B::BOUNDS.iter().enumerate().map(move |(bucket, &bound)| {
            values += self.buckets[bucket];
            (bound, values)
        })
    }

    /// How many values there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.sum()
    }
}

impl<B> Part for Histogram<Number, B> {
    type Total = Histogram<u64, B>;

    fn total(&self) -> Self::Total {
        Histogram { buckets: self.buckets.total(), sum: self.sum.get(), bounds: PhantomData }
    }

    fn sum(total: &mut Self::Total, other: &Self::Total) {
        <Labelled<Number, 16> as Part>::sum(&mut total.buckets, &other.buckets);
        total.sum += other.sum;
    }
}

macro_rules! tally {
    (
        $(#[$tally_doc:meta])* $tally:ident,
        $(#[$totals_doc:meta])* $totals:ident,
        $($(#[$doc:meta])* $name:ident: $part:ty,)*
    ) => {
        $(#[$tally_doc])*
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct $tally {
            $($(#[$doc])* pub $name: $part,)*
        }

        $(#[$totals_doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $totals {
            $($(#[$doc])* pub $name: <$part as Part>::Total,)*
        }

        impl $tally {
            /// All its numbers, each as it is now.
            #[must_use]
            pub fn totals(&self) -> $totals {
                $totals { $($name: self.$name.total(),)* }
            }
        }

        impl AddAssign<&Self> for $totals {
            fn add_assign(&mut self, other: &Self) {
                $(<$part as Part>::sum(&mut self.$name, &other.$name);)*
            }
        }
    };
}

tally! {
    /// What one shard, or the dispatcher, counts. It alone writes.
    Tally,
    /// What was read of one [`Tally`], or of several.
    Totals,
    /// Sessions taken over from the dispatcher, among them those that are only told of a limit.
    sessions: Number,
    /// Those of them that have ended.
    sessions_ended: Number,
    /// The same, by their reason.
    ended: Labelled<Number, CLOSE_REASONS_MAX>,
    /// Clients that came while a limit of connections was reached and are told so.
    refused_at_limit: Number,
    /// The same, closed without a word.
    closed_at_limit: Number,
    /// Clients that came while their source had as many connections as it may have, and are told so.
    refused_at_source_limit: Number,
    /// The same, closed without a word.
    closed_at_source_limit: Number,
    /// Clients that came faster than the listener's rate of connections allows, and are told so.
    refused_at_rate: Number,
    /// Clients that came faster than the listener's rates allow, closed without a word.
    closed_at_rate: Number,
    /// Clients from networks that may not connect, closed without a word.
    denied: Number,
    /// Handshakes with clients completed.
    handshakes: Number,
    /// The same, by kind.
    handshakes_by: Labelled<Number, HANDSHAKE_KINDS_MAX>,
    /// How long those took, from accept on, in microseconds.
    handshake_micros: Histogram<Number, Micros>,
    /// Handshakes with clients failed in TLS, by what failed.
    handshakes_failed: Labelled<Number, FAILURES_MAX>,
    /// Those that the client ended with an alert, by alert.
    handshake_alerts: Labelled<Number, ALERTS_MAX>,
    /// Handshakes not begun, because the client was gone or its time was over when their turn came.
    handshakes_abandoned: Number,
    /// Handshakes ended to make room for newer ones.
    handshakes_displaced: Number,
    /// Handshakes with servers completed.
    backend_handshakes: Number,
    /// Sessions that had to wait for a place at a server.
    queued: Number,
    /// Greetings that servers have answered.
    greetings: Number,
    /// Commands of greetings that servers have refused, and that change nothing: names of connections.
    greetings_refused: Number,
    /// Clients refused because a server lets in whoever has no password.
    refused_at_open_server: Number,
    /// Clients refused because no user is for their certificate, or the server does not take it.
    users_refused: Number,
    /// How long it took until a server was connected, in microseconds.
    connect_micros: Histogram<Number, Micros>,
    /// Attempts to reach a server that failed, by reason.
    connects_failed: Labelled<Number, CONNECT_FAILURES_MAX>,
    /// Bytes received, as on the wire: from clients, from servers.
    received_bytes: Labelled<Number, 2>,
    /// Bytes sent, as on the wire: to clients, to servers.
    sent_bytes: Labelled<Number, 2>,
    /// TLS records opened.
    records_opened: Number,
    /// Flushes of a cork at the end of a batch of completions.
    flushes_batch_end: Number,
    /// Flushes because the cork would have passed the byte threshold, or because a large chunk came behind it.
    flushes_threshold: Number,
    /// Flushes because the side is about to end.
    flushes_close: Number,
    /// Bytes that left a cork together.
    flushed_bytes: Histogram<Number, Bytes>,
    /// Chunks that joined others in a cork.
    chunks_corked: Number,
    /// Chunks large enough to pass the cork.
    chunks_passed: Number,
    /// Sends started.
    sends: Number,
    /// Receives completed with data.
    receives: Number,
    /// Receives that found no free buffer and were armed again.
    receives_without_buffer: Number,
    /// Receive buffers that were free when the batch of the last turn had come: small ones, large ones.
    buffers_free: Labelled<Number, 2>,
    /// Times a receive was paused because the other side's send queue stood at its high-water mark: from the client, from
    /// the server.
    backpressure_pauses: Labelled<Number, 2>,
    /// Sessions that were stopped with bytes held, counted at each 0 to 1 transition of their pending flag.
    pending_transitions: Number,
    /// Sessions that are stalled: neither side reads.
    sessions_stalled: Number,
    /// Completions of an earlier user of a slot.
    stale_completions: Number,
    /// Turns of the loop.
    turns: Number,
    /// Calls of `io_uring_enter(2)`.
    enters: Number,
    /// Completions the kernel could not queue in time.
    completion_overflows: Number,
}

tally! {
    /// What one shard counts of one listener whose sessions share connections. It alone writes.
    Sharing,
    /// What was read of one [`Sharing`], or of several.
    SharingTotals,
    /// Connections to servers that sessions share.
    shared_connections: Number,
    /// Connections to servers that are one session's own, or are kept for one.
    own_connections: Number,
    /// Requests over shared connections.
    requests_shared: Number,
    /// Requests over connections of a session's own. Where bytes are passed on unread, none is counted.
    requests_own: Number,
    /// Requests that left for a server together over a shared connection.
    shared_batch: Histogram<Number, Requests>,
    /// Sessions that needed a connection of their own, by what for.
    departures: Labelled<Number, DEPARTURES_MAX>,
    /// How long answered requests took, in microseconds, by the family of the command.
    request_micros: Labelled<Histogram<Number, Micros>, FAMILIES_MAX>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_have_counted_adds_up() {
        let (shard, dispatcher) = (Tally::default(), Tally::default());
        shard.sessions.add(3);
        shard.ended[7].add(2);
        shard.buffers_free[0].set(9);
        shard.handshake_micros.observe(400);
        dispatcher.closed_at_rate.add(5);
        let mut totals = dispatcher.totals();
        totals += &shard.totals();
        totals += &shard.totals();
        assert_eq!((totals.sessions, totals.ended[7], totals.buffers_free[0], totals.closed_at_rate), (6, 4, 18, 5));
        assert_eq!((totals.handshake_micros.count(), totals.handshake_micros.sum), (2, 800));
    }

    #[test]
    fn histograms_of_one_label_add_up_by_its_values() {
        let (one, other) = (Sharing::default(), Sharing::default());
        one.request_micros[3].observe(400);
        one.request_micros[4].observe(7);
        other.request_micros[3].observe(600);
        let mut totals = one.totals();
        totals += &other.totals();
        let of = |family: usize| (totals.request_micros[family].count(), totals.request_micros[family].sum);
        assert_eq!([of(2), of(3), of(4)], [(0, 0), (2, 1_000), (1, 7)]);
    }

    #[test]
    fn a_value_is_in_the_bucket_of_the_first_bound_that_is_not_below_it() {
        let tally = Tally::default();
        for value in [1, 64, 65, 1_024, 262_144, 262_145] {
            tally.flushed_bytes.observe(value);
        }
        let totals = tally.totals();
        let cumulative: Vec<_> = totals.flushed_bytes.cumulative().collect();
        assert_eq!(cumulative, [(64, 2), (256, 3), (1_024, 4), (4_096, 4), (16_384, 4), (65_536, 4), (262_144, 5)]);
        assert_eq!((totals.flushed_bytes.count(), totals.flushed_bytes.sum), (6, 525_443));
    }
}
