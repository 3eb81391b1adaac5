//! Why a client of a multiplexed listener is closed.

use super::link::Broken;
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
    /// No connection of its own could be made.
    Unreachable,
    /// A connection of its own could not be brought to where the client stands.
    Refused,
    /// The server broke the protocol on a connection on which the client had a request.
    ServerBroke(Broken),
}

impl Reason {
    /// The reason's name in logs and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::ClientLeft => "client_closed",
            Self::Malformed(_) => "protocol_error",
            Self::SlowClient => "slow_client",
            Self::ReplyCut => "reply_cut",
            Self::ServerClosed => "backend_closed",
            Self::ServerLost => "backend_reset",
            Self::Unreachable => "backend_unreachable",
            Self::Refused => "backend_refused",
            Self::ServerBroke(_) => "backend_protocol_error",
        }
    }
}
