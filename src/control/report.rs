//! Events as log lines. Field names are what operators search for: they never change meaning.

use std::net::SocketAddr;
use std::time::Duration;

use tracing::field::display;
use tracing::{Level, debug, enabled, error, info, warn};

use super::admin::shown_session;
use super::reload::{Cause, NotReloaded, ReloadCounts, Reloaded};
use super::resolve::News;
use crate::config::Log;
use crate::events::{CloseRecord, Denial, Event, SlowRecord};
use crate::io::Address;
use crate::ledger::Ledger;
use crate::metrics::Totals;
use crate::session::close::CloseReason;
use crate::shard::SessionId;

/// Whether the line of [`Event::Reached`] would be written: it has an event for each connection, which else would wake
/// the log's reader for nothing.
#[must_use]
pub fn tells_reached() -> bool {
    enabled!(target: "ringwall::session", Level::DEBUG)
}

/// Writes the line of one event.
pub(super) fn log_event(log: &Log, event: &Event) {
    match event {
        Event::Closed(record) => log_closed(log, record),
        Event::Reached { client, listener, shard, server, server_local_port } => debug!(
            target: "ringwall::session",
            client = client.map(display),
            listener = %listener.name(),
            shard,
            server = server.as_ref().map(|server| display(&server.address)),
            server_local_port,
            "session's server connected"
        ),
        Event::Slow(record) => log_slow(record),
        // They are told with those that are left out here.
        Event::SlowLeftOut { .. } => {}
        Event::AcceptPaused { listener, errno } => warn!(
            target: "ringwall::dispatcher",
            listener = %listener.name(),
            error = %errno,
            "accepting paused until the system gives file descriptors and memory again"
        ),
        Event::AcceptResumed { listener } => info!(
            target: "ringwall::dispatcher",
            listener = %listener.name(),
            "accepting again"
        ),
        Event::Stalled { client, listener, pending } => warn!(
            target: "ringwall::dispatcher",
            client = client.map(display),
            listener = %listener.name(),
            pending_ms = millis(*pending),
            "session stalled: neither side reads"
        ),
        Event::Denied { listener, why, refused, closed, client } => {
            log_denied(listener, *why, *refused, *closed, *client);
        }
        Event::Draining => info!(target: "ringwall::dispatcher", "accepting nothing more"),
    }
}

/// Says that clients were not let in; `client` is the last of them, where it is known.
fn log_denied(listener: &Ledger, why: Denial, refused: u64, closed: u64, client: Option<SocketAddr>) {
    let text = match why {
        Denial::Network => "clients denied: they come from networks that the listener's allow or deny keeps out",
        Denial::HandshakeRate => {
            "clients refused: they come faster than handshake_rate or handshake_rate_per_source allows"
        }
        Denial::ConnectionRate => {
            "clients refused: they come faster than connection_rate or connection_rate_per_source allows"
        }
        Denial::SourceConnections => "clients refused: the listener's max_connections_per_source is reached",
        Denial::Connections => {
            "clients refused: limits.max_connections or the listener's own max_connections is reached"
        }
    };
    let are_told = !matches!(why, Denial::Network | Denial::HandshakeRate);
    warn!(
        target: "ringwall::dispatcher",
        listener = %listener.name(),
        clients = (!are_told).then_some(closed),
        refused = are_told.then_some(refused),
        closed = are_told.then_some(closed),
        last = client.map(display),
        "{text}"
    );
}

/// Ends of sessions that got no server.
const UNSERVED: [CloseReason; 3] =
    [CloseReason::BackendUnreachable, CloseReason::BackendHandshakeFailed, CloseReason::BackendGreetingFailed];

/// Ends of sessions for which no server had a place.
const NOT_PLACED: [CloseReason; 2] = [CloseReason::QueueFull, CloseReason::QueueTimeout];

/// What an operator has to mend is a warning whether or not sessions are logged; any other end is a line of its own
/// where they are.
fn log_closed(log: &Log, record: &CloseRecord) {
    if record.reason == CloseReason::Plaintext.label() {
        warn!(
            target: "ringwall::shard",
            client = record.client.map(display::<SocketAddr>),
            listener = %record.listener.name(),
            "client speaks plain text to a TLS port: it has to be told to use TLS"
        );
    } else if UNSERVED.map(CloseReason::label).contains(&record.reason) {
        let (backend, detail) = (display(&record.backend), record.detail.as_deref());
        warn!(target: "ringwall::shard", %backend, detail, "no server of the backend reached");
    } else if NOT_PLACED.map(CloseReason::label).contains(&record.reason) {
        let (backend, detail) = (display(&record.backend), record.detail.as_deref());
        warn!(target: "ringwall::shard", %backend, detail, "no server of the backend has a place");
    } else {
        log_refused(record);
    }
    if log.sessions {
        log_session(record);
    }
}

/// A client that was not served because of what stands in front of its first byte.
fn log_refused(record: &CloseRecord) {
    let listener = display(record.listener.name());
    let client = record.client.map(display::<SocketAddr>);
    let detail = record.detail.as_deref();
    match record.reason {
        "server_open" => error!(
            target: "ringwall::shard",
            %listener,
            server = record.server.as_ref().map(|server| display(&server.address)),
            "{}",
            if record.user.is_none() {
                "clients refused: the server takes commands without a password, and strangers can reach the listener. Set \
                 requirepass or ACL users on the server, or client_auth = \"required\" or allow_unauthenticated = true on \
                 the listener"
            } else {
                "clients refused: the server's default user needs no password, so that RESET would make any client that \
                 user. Give it one, or turn it off: ACL SETUSER default off"
            }
        ),
        "proxy_untrusted" => warn!(
            target: "ringwall::shard",
            client,
            %listener,
            "connection closed: it is not from one of the listener's trusted_proxies"
        ),
        "proxy_header_invalid" | "proxy_header_timeout" => warn!(
            target: "ringwall::shard",
            proxy = client,
            %listener,
            detail,
            "connection closed: no good PROXY header came first"
        ),
        "no_user" | "user_refused" => warn!(
            target: "ringwall::shard",
            client,
            %listener,
            client_identity = record.client_identity.as_deref(),
            user = record.user.as_deref(),
            "client refused: {}",
            if record.user.is_none() { "no [[listener.user]] is for its certificate" } else { "the server refuses its user" }
        ),
        _ => {}
    }
}

fn log_session(record: &CloseRecord) {
    let tls = record.tls.as_ref();
    let server_tls = record.server_tls.as_ref();
    info!(
        target: "ringwall::session",
        client = record.client.map(display::<SocketAddr>),
        proxy = record.proxy.map(display::<SocketAddr>),
        listener = %record.listener.name(),
        mode = %if record.is_multiplexed { "multiplex" } else { "transparent" },
        shard = record.shard,
        backend = %record.backend,
        server = record.server.as_ref().map(|server| display(&server.address)),
        server_local_port = record.server_local_port,
        server_tls_version = server_tls.map(|tls| display(tls.version)),
        server_cipher = server_tls.map(|tls| display(tls.cipher)),
        server_group = server_tls.and_then(|tls| tls.group).map(display),
        server_resumed = server_tls.map(|tls| tls.resumed),
        tls_version = tls.map(|tls| display(tls.version)),
        cipher = tls.map(|tls| display(tls.cipher)),
        group = tls.and_then(|tls| tls.group).map(display),
        sni = tls.and_then(|tls| tls.server_name.as_deref()).map(display),
        alpn = tls.and_then(|tls| tls.alpn.as_deref()).map(display),
        resumed = tls.map(|tls| tls.resumed),
        client_identity = record.client_identity.as_deref(),
        user = record.user.as_deref(),
        handshake_ms = record.handshake.map(millis),
        duration_ms = millis(record.duration),
        client_rx_bytes = record.client_received_bytes,
        client_tx_bytes = record.client_sent_bytes,
        server_rx_bytes = record.server_received_bytes,
        server_tx_bytes = record.server_sent_bytes,
        reason = %record.reason,
        detail = record.detail.as_deref(),
        "session closed"
    );
}

fn log_slow(record: &SlowRecord) {
    let session = record.session.map(|(slot, generation)| shown_session(record.shard, SessionId { slot, generation }));
    warn!(
        target: "ringwall::session",
        client = record.client.map(display::<SocketAddr>),
        listener = %record.listener.name(),
        session,
        command = record.command,
        duration_ms = millis(record.took),
        connection = if record.is_shared { "shared" } else { "own" },
        in_front = record.in_front,
        "slow request"
    );
}

/// Milliseconds with the microseconds as decimals.
fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// Says how a reload ended.
pub(super) fn log_reload(cause: Cause, result: &Result<Box<Reloaded>, NotReloaded>, counts: ReloadCounts) {
    match result {
        Ok(reloaded) => {
            for warning in &reloaded.warnings {
                warn!(target: "ringwall::config", "{warning}");
            }
            info!(
                target: "ringwall::control",
                %cause,
                changes = reloaded.changes.as_ref().map(display),
                files = reloaded.files.files.len(),
                folders = reloaded.files.folders.len(),
                reloads = counts.done,
                "reloaded"
            );
        }
        Err(NotReloaded { why, refused }) => error!(
            target: "ringwall::control",
            %cause,
            error = %why,
            refused = (!refused.is_empty()).then(|| display(refused.join(", "))),
            reloads_failed = counts.failed,
            "reload failed: what was in use stays"
        ),
    }
}

/// Says what has become of the host names of servers.
pub(super) fn log_resolved(news: &News) {
    match news {
        News::Changed { backend, joined, left } => info!(
            target: "ringwall::control",
            %backend,
            joined = %listed(joined),
            left = %listed(left),
            "servers have changed: their host names lead elsewhere"
        ),
        News::Failed { backend, problem } => warn!(
            target: "ringwall::control",
            %backend,
            error = %problem,
            "servers cannot be looked up: those in use stay"
        ),
        News::Recovered { backend } => info!(target: "ringwall::control", %backend, "servers can be looked up again"),
    }
}

fn listed(addresses: &[Address]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Says that sessions failed of which there is no line.
pub(super) fn log_left_out(sessions: u64) {
    warn!(target: "ringwall::session", sessions, "sessions that failed were left out: log.failures_per_second is reached");
}

/// Says that requests were slow of which there is no line.
pub(super) fn log_slow_left_out(requests: u64) {
    warn!(target: "ringwall::session", requests, "slow requests were left out: log.failures_per_second is reached");
}

/// Says that changes of files will go unseen.
pub(super) fn log_unwatched(place: &str) {
    warn!(target: "ringwall::control", %place, "cannot watch for changes of files: send SIGHUP after a change");
}

/// Says what the shards and the dispatcher have counted, together, and how reloads went.
pub(super) fn log_totals(totals: &Totals, reloads: ReloadCounts) {
    info!(
        target: "ringwall::control",
        sessions = totals.sessions,
        refused_at_limit = totals.refused_at_limit,
        closed_at_limit = totals.closed_at_limit,
        refused_at_source_limit = totals.refused_at_source_limit,
        closed_at_source_limit = totals.closed_at_source_limit,
        refused_at_rate = totals.refused_at_rate,
        closed_at_rate = totals.closed_at_rate,
        denied = totals.denied,
        handshakes = totals.handshakes,
        handshakes_abandoned = totals.handshakes_abandoned,
        handshakes_displaced = totals.handshakes_displaced,
        backend_handshakes = totals.backend_handshakes,
        queued = totals.queued,
        greetings = totals.greetings,
        greetings_refused = totals.greetings_refused,
        refused_at_open_server = totals.refused_at_open_server,
        users_refused = totals.users_refused,
        records_opened = totals.records_opened,
        receives = totals.receives,
        sends = totals.sends,
        enters = totals.enters,
        turns = totals.turns,
        flushes_batch_end = totals.flushes_batch_end,
        flushes_threshold = totals.flushes_threshold,
        flushes_close = totals.flushes_close,
        chunks_corked = totals.chunks_corked,
        chunks_passed = totals.chunks_passed,
        receives_without_buffer = totals.receives_without_buffer,
        backpressure_pauses = totals.backpressure_pauses.sum(),
        pending_transitions = totals.pending_transitions,
        completion_overflows = totals.completion_overflows,
        reloads = reloads.done,
        reloads_failed = reloads.failed,
        "totals"
    );
}
