//! Plain counters of one thread of the data plane.
//!
//! A [`Tally`] belongs to the shard or dispatcher that counts in it: no atomics, no globals. What others may read of
//! it, its thread publishes as a whole.

/// What one shard, or the dispatcher, has counted since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sessions taken over from the dispatcher, among them those that are only told of a limit.
    pub sessions: u64,
    /// Clients that came while a limit of connections was reached and are told so.
    pub refused_at_limit: u64,
    /// The same, closed without a word.
    pub closed_at_limit: u64,
    /// Clients that came while their source had as many connections as it may have, and are told so.
    pub refused_at_source_limit: u64,
    /// The same, closed without a word.
    pub closed_at_source_limit: u64,
    /// Clients that came faster than the listener's rate of connections allows, and are told so.
    pub refused_at_rate: u64,
    /// Clients that came faster than the listener's rates allow, closed without a word.
    pub closed_at_rate: u64,
    /// Clients from networks that may not connect, closed without a word.
    pub denied: u64,
    /// Handshakes with clients completed.
    pub handshakes: u64,
    /// Handshakes not begun, because the client was gone or its time was over when their turn came.
    pub handshakes_abandoned: u64,
    /// Handshakes ended to make room for newer ones.
    pub handshakes_displaced: u64,
    /// Handshakes with servers completed.
    pub backend_handshakes: u64,
    /// Sessions that had to wait for a place at a server.
    pub queued: u64,
    /// Greetings that servers have answered.
    pub greetings: u64,
    /// Commands of greetings that servers have refused, and that change nothing: names of connections.
    pub greetings_refused: u64,
    /// Clients refused because a server lets in whoever has no password.
    pub refused_at_open_server: u64,
    /// Clients refused because no user is for their certificate, or the server does not take it.
    pub users_refused: u64,
    /// TLS records opened.
    pub records_opened: u64,
    /// Flushes of a cork at the end of a batch of completions.
    pub flushes_batch_end: u64,
    /// Flushes because the cork would have passed the byte threshold, or because a large chunk came behind it.
    pub flushes_threshold: u64,
    /// Flushes because the side is about to end.
    pub flushes_close: u64,
    /// Chunks that joined others in a cork.
    pub chunks_corked: u64,
    /// Chunks large enough to pass the cork.
    pub chunks_passed: u64,
    /// Sends started.
    pub sends: u64,
    /// Receives completed with data.
    pub receives: u64,
    /// Receives that found no free buffer and were armed again.
    pub receives_without_buffer: u64,
    /// Times a receive was paused because the other side's send queue stood at its high-water mark.
    pub backpressure_pauses: u64,
    /// Sessions that were stopped with bytes held, counted at each 0 to 1 transition of their pending flag.
    pub pending_transitions: u64,
    /// Completions of an earlier user of a slot.
    pub stale_completions: u64,
    /// Turns of the loop.
    pub turns: u64,
    /// Calls of `io_uring_enter(2)`.
    pub enters: u64,
    /// Completions the kernel could not queue in time.
    pub completion_overflows: u64,
    /// Close records dropped because the log's ring was full.
    pub records_dropped: u64,
}

impl std::ops::AddAssign for Tally {
    /// Sums field by field: what several shards have counted.
    fn add_assign(&mut self, other: Self) {
        self.sessions += other.sessions;
        self.refused_at_limit += other.refused_at_limit;
        self.closed_at_limit += other.closed_at_limit;
        self.refused_at_source_limit += other.refused_at_source_limit;
        self.closed_at_source_limit += other.closed_at_source_limit;
        self.refused_at_rate += other.refused_at_rate;
        self.closed_at_rate += other.closed_at_rate;
        self.denied += other.denied;
        self.handshakes += other.handshakes;
        self.handshakes_abandoned += other.handshakes_abandoned;
        self.handshakes_displaced += other.handshakes_displaced;
        self.backend_handshakes += other.backend_handshakes;
        self.queued += other.queued;
        self.greetings += other.greetings;
        self.greetings_refused += other.greetings_refused;
        self.refused_at_open_server += other.refused_at_open_server;
        self.users_refused += other.users_refused;
        self.records_opened += other.records_opened;
        self.flushes_batch_end += other.flushes_batch_end;
        self.flushes_threshold += other.flushes_threshold;
        self.flushes_close += other.flushes_close;
        self.chunks_corked += other.chunks_corked;
        self.chunks_passed += other.chunks_passed;
        self.sends += other.sends;
        self.receives += other.receives;
        self.receives_without_buffer += other.receives_without_buffer;
        self.backpressure_pauses += other.backpressure_pauses;
        self.pending_transitions += other.pending_transitions;
        self.stale_completions += other.stale_completions;
        self.turns += other.turns;
        self.enters += other.enters;
        self.completion_overflows += other.completion_overflows;
        self.records_dropped += other.records_dropped;
    }
}
