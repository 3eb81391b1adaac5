//! Why sessions end: one value per way, which is the log's field and the metric's label.

use crate::labels::labelled;
use crate::metrics::CLOSE_REASONS_MAX;
use crate::tls::{Failure, Role};
use crate::wire::proxy::HeaderError;

const _: () = assert!(CloseReason::LABELS.len() <= CLOSE_REASONS_MAX, "metrics has room for every reason");

labelled! {
    /// Why a session ended. The first cause counts: what follows from it is not a reason of its own.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CloseReason {
        /// The client ended in good order (close_notify, or FIN on a plain side).
        ClientClosed = "client_closed",
        /// The client sent FIN without close_notify; everything it had sent was delivered.
        ClientTruncated = "client_truncated",
        /// The client's connection failed or was reset.
        ClientReset = "client_reset",
        /// The backend ended in good order.
        BackendClosed = "backend_closed",
        /// The backend's connection failed or was reset; the client saw a cut without close_notify.
        BackendReset = "backend_reset",
        /// The backend sent FIN without close_notify, and not in answer to ours; what it had sent was delivered, and the
        /// client saw a cut.
        BackendTruncated = "backend_truncated",
        /// The backend broke TLS after its handshake, or sent an alert, or the keys towards it are used up; the client saw
        /// a cut.
        BackendTlsFailed(Failure) = "backend_tls_failed",
        /// The connection is not from a proxy that the listener trusts to say who its clients are.
        ProxyUntrusted = "proxy_untrusted",
        /// What came in the place of a PROXY header is none.
        ProxyHeaderInvalid(HeaderError) = "proxy_header_invalid",
        /// The PROXY header was not complete in time.
        ProxyHeaderTimeout = "proxy_header_timeout",
        /// The client was gone before its handshake was complete.
        HandshakeAborted = "handshake_aborted",
        /// The handshake was not complete in time.
        HandshakeTimeout = "handshake_timeout",
        /// Too many handshakes were under way, and this one was the oldest.
        TooManyHandshakes = "too_many_handshakes",
        /// The handshake failed.
        HandshakeFailed(Failure) = "handshake_failed",
        /// The client broke TLS after its handshake, or sent an alert.
        TlsFailed(Failure) = "tls_failed",
        /// The TLS 1.2 keys have sealed as many records as they safely can (RFC 8446 section 5.5; 2^24 for AES-GCM).
        RecordLimit = "record_limit",
        /// The client spoke plain RESP to the TLS port.
        Plaintext = "plaintext",
        /// No server of the backend could be reached.
        BackendUnreachable = "backend_unreachable",
        /// The last server of the backend that was tried could be reached, and no TLS handshake completed with it.
        BackendHandshakeFailed = "backend_handshake_failed",
        /// Every server had as many connections as it may, and as many sessions waited as may.
        QueueFull = "queue_full",
        /// Every server had as many connections as it may, and none ended in time.
        QueueTimeout = "queue_timeout",
        /// The server has lost the role that the backend wants; the session ended so that its client connects anew.
        ServerDemoted = "server_demoted",
        /// The server was found not to answer as it should; the session ended so that its client connects anew.
        ServerDown = "server_down",
        /// The server was to be left alone and the session was owed nothing.
        ServerDrained = "server_drained",
        /// The last server of the backend that was tried has not answered what it was asked first.
        BackendGreetingFailed = "backend_greeting_failed",
        /// The server lets in whoever has no password, and the listener is for strangers or makes its clients users.
        ServerOpen = "server_open",
        /// No user is for the client's certificate.
        NoUser = "no_user",
        /// The server does not take the user that is for the client's certificate, or its password.
        UserRefused = "user_refused",
        /// What the client of a multiplexed listener sent is no request.
        ProtocolError = "protocol_error",
        /// The client did not read what others had to wait behind.
        SlowClient = "slow_client",
        /// The shared connection over which the client had a part of a reply is lost; the client saw a cut.
        ReplyCut = "reply_cut",
        /// The server did not let a connection for the client's requests stand where the client does: a login that is no
        /// longer good, a limit of the server's.
        BackendRefused = "backend_refused",
        /// The server broke RESP on a connection on which the client had a request.
        BackendProtocolError = "backend_protocol_error",
        /// An operator has ended it.
        Operator = "operator",
        /// An operator has closed its listener, and the session was owed nothing.
        ListenerDrained = "listener_drained",
        /// A connection limit was reached.
        TooManyConnections = "too_many_connections",
        /// The client's source had as many connections as it may have.
        TooManyPerSource = "too_many_connections_per_source",
        /// Clients came faster than they may connect.
        ConnectionRate = "connection_rate",
        /// Nothing was said for the idle timeout.
        IdleTimeout = "idle_timeout",
        /// One side had ended and nothing moved for the half-close timeout.
        HalfCloseTimeout = "half_close_timeout",
        /// The session had gone on for as long as it may, and was owed nothing.
        MaxLifetime = "max_lifetime",
        /// The session had gone on for longer than it may, and was still owed something.
        MaxLifetimeCutOff = "max_lifetime_cut_off",
        /// ringwall was asked to stop and the session was owed nothing.
        Drained = "drained",
        /// ringwall was asked to stop and the session was still owed something at the deadline.
        CutOff = "cut_off",
    }
}

impl CloseReason {
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
            | Self::ProtocolError
            | Self::SlowClient
            | Self::ReplyCut
            | Self::BackendRefused
            | Self::BackendProtocolError
            | Self::Operator
            | Self::ListenerDrained
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
