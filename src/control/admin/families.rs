//! The families of metrics: what each is called outside, and where its numbers come from.
//!
//! Their number is bounded by the configuration: nothing that a client says becomes a label. Names and labels keep their
//! meaning; `deploy/grafana-dashboard.json` and `deploy/prometheus-alerts.yml` use them, and the black box checks that.

use std::collections::HashSet;
use std::hash::Hash;

use super::Watched;
use super::exposition::{Exposition, Family, Format, Kind, Label, Value};
use super::{process, servers, sharing};
use crate::control::standing::State;
use crate::control::{Running, RunningListener};
use crate::io::{BufferGroup, sys};
use crate::load::Load;
use crate::metrics::{Bounds, Histogram, Micros, Totals};
use crate::session::Side;
use crate::session::close::CloseReason;
use crate::shard::ConnectFailure;
use crate::tls::{Failure, HandshakeSort};

/// Above so many pairs of listener and shard, those without connections are left out.
const PAIRS_MAX: usize = 4_096;

/// What is exposed.
struct Numbers<'a> {
    running: &'a Running,
    state: &'a State,
    shards: Vec<Totals>,
    /// In their order.
    loads: Vec<Load>,
    /// Of all shards and the dispatcher.
    all: Totals,
}

/// All families as text.
pub(super) fn expose(watched: &Watched, state: &State, format: Format) -> String {
    let shards: Vec<Totals> = watched.shards.iter().map(|shard| shard.tally.totals()).collect();
    let mut all = watched.dispatcher.totals();
    shards.iter().for_each(|shard| all += shard);
    let loads = watched.shards.iter().map(|shard| shard.load.read(sys::now())).collect();
    let running = &*watched.in_force.read();
    let numbers = Numbers { running, state, shards, loads, all };
    let mut text = Exposition::new(format);
    numbers.connections(&mut text);
    numbers.rejections(&mut text);
    numbers.handshakes(&mut text);
    numbers.handshake_failures(&mut text);
    numbers.traffic(&mut text);
    numbers.backends(&mut text);
    numbers.sessions(&mut text);
    sharing::expose(&mut text, running, numbers.shards.len());
    servers::expose(&mut text, watched);
    numbers.blocked(&mut text);
    for (name, help, value) in [
        (
            "ringwall_handshakes_in_flight",
            "Handshakes with clients and servers that are going on.",
            numbers.loads.iter().map(|load| u64::from(load.handshakes)).collect::<Vec<_>>(),
        ),
        (
            "ringwall_pending_sessions",
            "Sessions with bytes that are received and not served: stopped by their share of a turn or by a slow reader.",
            numbers.loads.iter().map(|load| u64::from(load.pending)).collect(),
        ),
    ] {
        by_shard(&mut text, Kind::Gauge, name, help, value);
    }
    numbers.loops(&mut text);
    numbers.certificates(&mut text);
    numbers.program(&mut text, &watched.kernel);
    process::expose(&mut text);
    text.finish()
}

impl Numbers<'_> {
    fn connections(&self, text: &mut Exposition) {
        let Running { listeners, left, .. } = self.running;
        let help = "Open connections of clients, those that are being told of a limit among them.";
        let mut family = text.family(Kind::Gauge, "ringwall_connections_active", help);
        let all_pairs = self.shards.len() * listeners.len() <= PAIRS_MAX;
        let all = listeners.iter().map(|listener| (&listener.ledger, all_pairs));
        // Of listeners that a reload has removed, those with connections are shown until these have ended.
        let all: Vec<_> = all.chain(left.iter().map(|ledger| (ledger, false))).collect();
        for shard in 0..self.shards.len() {
            for (shown, listener) in distinct(all.iter().map(|&(ledger, shown)| (shown, ledger.name()))) {
                let active: u64 = self.running.ledgers_named(listener).map(|ledger| ledger.open(shard)).sum();
                if shown || active > 0 {
                    family.sample(&[("listener", listener), ("shard", &shard.to_string())], active);
                }
            }
        }
        let help = "Connections of clients taken over by shards, those that were only told of a limit among them.";
        let mut family = text.family(Kind::Counter, "ringwall_connections_total", help);
        for RunningListener { ledger, .. } in listeners {
            let sessions: u64 = (0..self.shards.len()).map(|shard| ledger.sessions(shard)).sum();
            family.sample(&[("listener", ledger.name())], sessions);
        }
        let help = "Connections of clients that have ended, by reason; the log names the same reasons.";
        let mut family = text.family(Kind::Counter, "ringwall_connections_closed_total", help);
        for (index, reason) in CloseReason::LABELS.iter().enumerate() {
            family.sample(&[("reason", reason)], self.all.ended[index]);
        }
    }

    fn rejections(&self, text: &mut Exposition) {
        let help = "Clients that were not served, by reason: refused ones are told so, closed and denied ones are not.";
        let mut family = text.family(Kind::Counter, "ringwall_connections_rejected_total", help);
        for (reason, value) in [
            ("refused_at_limit", self.all.refused_at_limit),
            ("closed_at_limit", self.all.closed_at_limit),
            ("refused_at_source_limit", self.all.refused_at_source_limit),
            ("closed_at_source_limit", self.all.closed_at_source_limit),
            ("refused_at_rate", self.all.refused_at_rate),
            ("closed_at_rate", self.all.closed_at_rate),
            ("denied_network", self.all.denied),
            ("refused_at_open_server", self.all.refused_at_open_server),
            ("refused_user", self.all.users_refused),
        ] {
            family.sample(&[("reason", reason)], value);
        }
    }

    fn handshakes(&self, text: &mut Exposition) {
        let help = "Handshakes with clients completed.";
        let mut family = text.family(Kind::Counter, "ringwall_handshakes_total", help);
        for sort in HandshakeSort::all() {
            let value = self.all.handshakes_by[sort.index()];
            if value > 0 {
                let resumed = if sort.resumed() { "true" } else { "false" };
                let labels = [("version", sort.version()), ("group", sort.group()), ("resumed", resumed)];
                family.sample(&labels, value);
            }
        }
        let help = "Time from accept to the end of the handshake.";
        seconds(text, "ringwall_handshake_duration_seconds", help, &self.all.handshake_micros);
    }

    /// What ended a handshake is a reason of TLS, or one of the session that had not begun.
    fn handshake_failures(&self, text: &mut Exposition) {
        let help =
            "Handshakes with clients not completed, by what ended them; a client's alert is named behind alert_.";
        let mut family = text.family(Kind::Counter, "ringwall_handshake_failures_total", help);
        for (reason, ended) in [
            ("plaintext", CloseReason::Plaintext),
            ("timeout", CloseReason::HandshakeTimeout),
            ("closed", CloseReason::HandshakeAborted),
            ("displaced", CloseReason::TooManyHandshakes),
        ] {
            family.sample(&[("reason", reason)], self.all.ended[ended.index()]);
        }
        let alert = Failure::AlertReceived("").index();
        // Those of servers are no failures of a client.
        let of_clients = |label: &str| !label.contains("server_cert") && label != "plaintext_server";
        for (index, reason) in Failure::LABELS.iter().enumerate().filter(|(_, label)| of_clients(label)) {
            if index != alert {
                family.sample(&[("reason", reason)], self.all.handshakes_failed[index]);
            }
        }
        for (index, name) in Failure::alerts().enumerate() {
            let value = self.all.handshake_alerts[index];
            if value > 0 {
                family.sample(&[("reason", &format!("alert_{name}"))], value);
            }
        }
    }

    fn traffic(&self, text: &mut Exposition) {
        let sides = [("client", Side::Client), ("backend", Side::Backend)];
        for (name, help, values) in [
            ("ringwall_received_bytes_total", "Bytes received, as on the wire.", &self.all.received_bytes),
            ("ringwall_sent_bytes_total", "Bytes sent, as on the wire.", &self.all.sent_bytes),
        ] {
            let mut family = text.family(Kind::Counter, name, help);
            for (side, index) in sides {
                family.sample(&[("side", side)], values[index.index()]);
            }
        }
        let help = "Times that gathered plaintext left, by reason.";
        let mut family = text.family(Kind::Counter, "ringwall_flushes_total", help);
        for (reason, value) in [
            ("batch_end", self.all.flushes_batch_end),
            ("threshold", self.all.flushes_threshold),
            ("close", self.all.flushes_close),
        ] {
            family.sample(&[("reason", reason)], value);
        }
        let bytes = &self.all.flushed_bytes;
        let cumulative = bytes.cumulative().map(|(bound, values)| (bound as f64, values));
        let help = "Bytes of plaintext that left together.";
        let mut family = text.family(Kind::Histogram, "ringwall_coalesced_bytes", help);
        family.histogram(&[], cumulative, bytes.count(), Value::Whole(bytes.sum));
    }

    fn backends(&self, text: &mut Exposition) {
        let help = "Time until a server was connected, without its TLS handshake.";
        seconds(text, "ringwall_backend_connect_duration_seconds", help, &self.all.connect_micros);
        let help = "Attempts to reach a server that failed.";
        let mut family = text.family(Kind::Counter, "ringwall_backend_connect_failures_total", help);
        for (index, reason) in ConnectFailure::LABELS.iter().enumerate() {
            family.sample(&[("reason", reason)], self.all.connects_failed[index]);
        }
        let help = "TLS handshakes with servers completed.";
        text.single(Kind::Counter, "ringwall_backend_handshakes_total", help, self.all.backend_handshakes);
    }

    /// What sessions did between their handshake and their first byte to a server.
    fn sessions(&self, text: &mut Exposition) {
        for (name, help, value) in [
            ("ringwall_sessions_queued_total", "Sessions that had to wait for a place at a server.", self.all.queued),
            ("ringwall_greetings_total", "Greetings that servers have answered.", self.all.greetings),
            (
                "ringwall_greetings_refused_total",
                "Names of connections that servers have refused in greetings; the session goes on without.",
                self.all.greetings_refused,
            ),
        ] {
            text.single(Kind::Counter, name, help, value);
        }
    }

    fn blocked(&self, text: &mut Exposition) {
        let help = "Times that reading from a side was paused because the other side takes no more.";
        let mut family = text.family(Kind::Counter, "ringwall_backpressure_pauses_total", help);
        for (side, index) in [("client", Side::Client), ("backend", Side::Backend)] {
            family.sample(&[("side", side)], self.all.backpressure_pauses[index.index()]);
        }
        let help = "Times that a session became pending.";
        text.single(Kind::Counter, "ringwall_pending_transitions_total", help, self.all.pending_transitions);
        let help = "Sessions of which neither side has read for seconds.";
        text.single(Kind::Gauge, "ringwall_stalled_sessions", help, self.all.sessions_stalled);
    }

    fn loops(&self, text: &mut Exposition) {
        let busy = self.loads.iter().map(|load| f64::from(load.busy_permille) / 1e3);
        let help = "Share of the last tenth of a second that the shard did not wait.";
        by_shard(text, Kind::Gauge, "ringwall_shard_busy_ratio", help, busy);
        let enters = self.shards.iter().map(|shard| shard.enters);
        by_shard(text, Kind::Counter, "ringwall_enters_total", "Calls of io_uring_enter(2).", enters);
        let overflows = self.shards.iter().map(|shard| shard.completion_overflows);
        let help = "Completions that the kernel could not queue in time; stays 0.";
        by_shard(text, Kind::Counter, "ringwall_cq_overflow_total", help, overflows);
        let help = "Receive buffers that were free when the completions of the last turn had come.";
        let mut family = text.family(Kind::Gauge, "ringwall_buffers_free", help);
        for (shard, totals) in self.shards.iter().enumerate() {
            for (size, group) in [("small", BufferGroup::Small), ("large", BufferGroup::Large)] {
                let labels = [("shard", &*shard.to_string()), ("size", size)];
                family.sample(&labels, totals.buffers_free[group.index()]);
            }
        }
        let help = "Receives that found no free buffer and were armed again.";
        text.single(Kind::Counter, "ringwall_receives_without_buffer_total", help, self.all.receives_without_buffer);
    }

    fn certificates(&self, text: &mut Exposition) {
        let shown = || {
            self.state.certificates.iter().map(|shown| {
                let facts = &shown.facts;
                (facts, [("listener", &*shown.listener), ("name", &*facts.name), ("serial", &*facts.serial)])
            })
        };
        let help = "When a certificate that clients are shown expires, in seconds since 1970.";
        let mut family = text.family(Kind::Gauge, "ringwall_certificate_not_after_timestamp_seconds", help);
        for (facts, labels) in distinct(shown()) {
            family.sample(&labels, facts.not_after_unix as f64);
        }
        let help = "Whether the file still holds the certificate that clients are shown.";
        let mut family = text.family(Kind::Gauge, "ringwall_certificate_matches_disk", help);
        for (facts, labels) in distinct(shown()) {
            family.sample(&labels, facts.matches_disk());
        }
    }

    fn program(&self, text: &mut Exposition, kernel: &str) {
        let State { reloads, reload_failed, records_dropped, .. } = self.state;
        let help = "Whether what was read from files last is in use.";
        text.single(Kind::Gauge, "ringwall_reload_success", help, !reload_failed);
        let mut family = text.family(Kind::Counter, "ringwall_reloads_total", "Reloads since the start, by result.");
        family.sample(&[("result", "done")], reloads.done);
        family.sample(&[("result", "failed")], reloads.failed);
        let help = "Records of the log that were dropped because it could not be written fast enough.";
        text.single(Kind::Counter, "ringwall_log_records_dropped_total", help, *records_dropped);
        let labels = [("version", env!("CARGO_PKG_VERSION")), ("kernel", kernel), ("provider", "aws-lc-rs")];
        text.family(Kind::Gauge, "ringwall_build_info", "What runs.").sample(&labels, 1_u64);
    }
}

/// Without those that would be the same metric again: a file or a server that is named twice.
pub(super) fn distinct<T, L: Clone + Eq + Hash>(all: impl Iterator<Item = (T, L)>) -> impl Iterator<Item = (T, L)> {
    let mut seen = HashSet::new();
    all.filter(move |(_, labels)| seen.insert(labels.clone()))
}

fn by_shard<V: Into<Value>>(
    text: &mut Exposition,
    kind: Kind,
    name: &'static str,
    help: &str,
    values: impl IntoIterator<Item = V>,
) {
    let mut family = text.family(kind, name, help);
    for (shard, value) in values.into_iter().enumerate() {
        family.sample(&[("shard", &shard.to_string())], value);
    }
}

fn seconds(text: &mut Exposition, name: &'static str, help: &str, micros: &Histogram<u64, Micros>) {
    in_seconds(&mut text.family(Kind::Histogram, name, help), &[], micros);
}

/// The lines of a histogram of microseconds.
pub(super) fn in_seconds(family: &mut Family<'_>, labels: &[Label<'_>], micros: &Histogram<u64, Micros>) {
    debug_assert!(Micros::BOUNDS.len() < 16, "one bucket is for what is larger");
    let cumulative = micros.cumulative().map(|(bound, values)| (bound as f64 / 1e6, values));
    family.histogram(labels, cumulative, micros.count(), Value::Real(micros.sum as f64 / 1e6));
}
