//! Why sessions end: one value per way, which is the log's field and the metric's label.

use crate::tls::{Failure, Role};
use crate::wire::proxy::HeaderError;

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
    /// The connection is not from a proxy that the listener trusts to say who its clients are.
    ProxyUntrusted,
    /// What came in the place of a PROXY header is none.
    ProxyHeaderInvalid(HeaderError),
    /// The PROXY header was not complete in time.
    ProxyHeaderTimeout,
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
    /// The last server of the backend that was tried has not answered what it was asked first.
    BackendGreetingFailed,
    /// The server lets in whoever has no password, and the listener is for strangers or makes its clients users.
    ServerOpen,
    /// No user is for the client's certificate.
    NoUser,
    /// The server does not take the user that is for the client's certificate, or its password.
    UserRefused,
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
            Self::ProxyUntrusted => "proxy_untrusted",
            Self::ProxyHeaderInvalid(_) => "proxy_header_invalid",
            Self::ProxyHeaderTimeout => "proxy_header_timeout",
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
            Self::BackendGreetingFailed => "backend_greeting_failed",
            Self::ServerOpen => "server_open",
            Self::NoUser => "no_user",
            Self::UserRefused => "user_refused",
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

    /// What exactly went wrong, where the reason tells it.
    #[must_use]
    pub fn detail(self) -> Option<String> {
        match self {
            Self::HandshakeFailed(failure) | Self::TlsFailed(failure) => {
                Some(failure.in_words(Role::Server).to_string())
            }
            Self::BackendTlsFailed(failure) => Some(failure.in_words(Role::Client).to_string()),
            Self::ProxyHeaderInvalid(error) => Some(error.to_string()),
            Self::ClientClosed
            | Self::ClientTruncated
            | Self::ClientReset
            | Self::BackendClosed
            | Self::BackendReset
            | Self::BackendTruncated
            | Self::ProxyUntrusted
            | Self::ProxyHeaderTimeout
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
            | Self::BackendGreetingFailed
            | Self::ServerOpen
            | Self::NoUser
            | Self::UserRefused
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
