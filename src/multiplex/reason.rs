//! Why a client of a multiplexed listener is closed.

use super::link::Broken;
use crate::session::close::CloseReason;
use crate::wire::frame::Malformed;

/// The first cause counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The client has ended, or has taken its leave.
    ClientLeft,
    /// What the client sent is no request.
    Malformed(Malformed),
    /// The client did not read what others had to wait behind.
    SlowClient,
    /// The connection over which it had a part of a reply is lost.
    ReplyCut,
    /// The connection of its own has ended.
    ServerClosed,
    /// The connection of its own is lost.
    ServerLost,
    /// No connection for its requests could be made.
    Unreachable,
    /// A connection for its requests could not be brought to where the client stands.
    Refused,
    /// The server broke the protocol on a connection on which the client had a request.
    ServerBroke(Broken),
}

impl Reason {
    /// Why its session ends.
    #[must_use]
    pub const fn close_reason(self) -> CloseReason {
        match self {
            Self::ClientLeft => CloseReason::ClientClosed,
            Self::Malformed(_) => CloseReason::ProtocolError,
            Self::SlowClient => CloseReason::SlowClient,
            Self::ReplyCut => CloseReason::ReplyCut,
            Self::ServerClosed => CloseReason::BackendClosed,
            Self::ServerLost => CloseReason::BackendReset,
            Self::Unreachable => CloseReason::BackendUnreachable,
            Self::Refused => CloseReason::BackendRefused,
            Self::ServerBroke(_) => CloseReason::BackendProtocolError,
        }
    }

    /// What exactly went wrong, where the reason tells it.
    #[must_use]
    pub const fn detail(self) -> Option<&'static str> {
        match self {
            Self::Malformed(malformed) => Some(malformed.in_words()),
            Self::ServerBroke(broken) => Some(broken.in_words()),
            Self::ClientLeft
            | Self::SlowClient
            | Self::ReplyCut
            | Self::ServerClosed
            | Self::ServerLost
            | Self::Unreachable
            | Self::Refused => None,
        }
    }
}
