//! Why sessions end: one value per way, which is the log's field and the metric's label.

use crate::tls::{Failure, InWords, Role};

/// Why a session ended. The first cause counts: what follows from it is not a reason of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client ended in good order (close_notify, or FIN on a plain side).
    ClientClosed,
    /// The client sent FIN without close_notify; everything it had sent was delivered.
    ClientTruncated,
    /// The client's connection failed or was reset.
    ClientReset,
    /// The backend ended in good order.
    BackendClosed,
    /// The backend's connection failed or was reset; the client saw a cut without close_notify.
    BackendReset,
    /// The backend sent FIN without close_notify, and not in answer to ours; what it had sent was delivered, and the
    /// client saw a cut.
    BackendTruncated,
    /// The backend broke TLS after its handshake, or sent an alert, or the keys towards it are used up; the client saw
    /// a cut.
    BackendTlsFailed(Failure),
    /// The client was gone before its handshake was complete.
    HandshakeAborted,
    /// The handshake was not complete in time.
    HandshakeTimeout,
    /// Too many handshakes were under way, and this one was the oldest.
    TooManyHandshakes,
    /// The handshake failed.
    HandshakeFailed(Failure),
    /// The client broke TLS after its handshake, or sent an alert.
    TlsFailed(Failure),
    /// The TLS 1.2 keys have sealed as many records as they safely can (RFC 8446 section 5.5; 2^24 for AES-GCM).
    RecordLimit,
    /// The client spoke plain RESP to the TLS port.
    Plaintext,
    /// No server of the backend could be reached.
    BackendUnreachable,
    /// The last server of the backend that was tried could be reached, and no TLS handshake completed with it.
    BackendHandshakeFailed,
    /// Every server had as many connections as it may, and as many sessions waited as may.
    QueueFull,
    /// Every server had as many connections as it may, and none ended in time.
    QueueTimeout,
    /// The server has lost the role that the backend wants; the session ended so that its client connects anew.
    ServerDemoted,
    /// The server was found not to answer as it should; the session ended so that its client connects anew.
    ServerDown,
    /// The server was to be left alone and the session was owed nothing.
    ServerDrained,
    /// A connection limit was reached.
    TooManyConnections,
    /// The client's source had as many connections as it may have.
    TooManyPerSource,
    /// Clients came faster than they may connect.
    ConnectionRate,
    /// Nothing was said for the idle timeout.
    IdleTimeout,
    /// One side had ended and nothing moved for the half-close timeout.
    HalfCloseTimeout,
    /// The session had gone on for as long as it may, and was owed nothing.
    MaxLifetime,
    /// The session had gone on for longer than it may, and was still owed something.
    MaxLifetimeCutOff,
    /// ringwall was asked to stop and the session was owed nothing.
    Drained,
    /// ringwall was asked to stop and the session was still owed something at the deadline.
    CutOff,
}

impl CloseReason {
    /// The reason's name in logs and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::ClientClosed => "client_closed",
            Self::ClientTruncated => "client_truncated",
            Self::ClientReset => "client_reset",
            Self::BackendClosed => "backend_closed",
            Self::BackendReset => "backend_reset",
            Self::BackendTruncated => "backend_truncated",
            Self::BackendTlsFailed(_) => "backend_tls_failed",
            Self::HandshakeAborted => "handshake_aborted",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::TooManyHandshakes => "too_many_handshakes",
            Self::HandshakeFailed(_) => "handshake_failed",
            Self::TlsFailed(_) => "tls_failed",
            Self::RecordLimit => "record_limit",
            Self::Plaintext => "plaintext",
            Self::BackendUnreachable => "backend_unreachable",
            Self::BackendHandshakeFailed => "backend_handshake_failed",
            Self::QueueFull => "queue_full",
            Self::QueueTimeout => "queue_timeout",
            Self::ServerDemoted => "server_demoted",
            Self::ServerDown => "server_down",
            Self::ServerDrained => "server_drained",
            Self::TooManyConnections => "too_many_connections",
            Self::TooManyPerSource => "too_many_connections_per_source",
            Self::ConnectionRate => "connection_rate",
            Self::IdleTimeout => "idle_timeout",
            Self::HalfCloseTimeout => "half_close_timeout",
            Self::MaxLifetime => "max_lifetime",
            Self::MaxLifetimeCutOff => "max_lifetime_cut_off",
            Self::Drained => "drained",
            Self::CutOff => "cut_off",
        }
    }

    /// What went wrong in TLS, where that is the reason.
    #[must_use]
    pub const fn failure(self) -> Option<InWords> {
        match self {
            Self::HandshakeFailed(failure) | Self::TlsFailed(failure) => Some(failure.in_words(Role::Server)),
            Self::BackendTlsFailed(failure) => Some(failure.in_words(Role::Client)),
            Self::ClientClosed
            | Self::ClientTruncated
            | Self::ClientReset
            | Self::BackendClosed
            | Self::BackendReset
            | Self::BackendTruncated
            | Self::HandshakeAborted
            | Self::HandshakeTimeout
            | Self::TooManyHandshakes
            | Self::RecordLimit
            | Self::Plaintext
            | Self::BackendUnreachable
            | Self::BackendHandshakeFailed
            | Self::QueueFull
            | Self::QueueTimeout
            | Self::ServerDemoted
            | Self::ServerDown
            | Self::ServerDrained
            | Self::TooManyConnections
            | Self::TooManyPerSource
            | Self::ConnectionRate
            | Self::IdleTimeout
            | Self::HalfCloseTimeout
            | Self::MaxLifetime
            | Self::MaxLifetimeCutOff
            | Self::Drained
            | Self::CutOff => None,
        }
    }
}
