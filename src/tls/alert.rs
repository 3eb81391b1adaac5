//! Alerts, and the faults that they tell of (RFC 8446, section 6).

use super::failure::Failure;

/// Levels. TLS 1.3 has them for the form only.
pub(super) const WARNING: u8 = 1;
pub(super) const FATAL: u8 = 2;

/// Descriptions.
pub(super) const CLOSE_NOTIFY: u8 = 0;
pub(super) const UNEXPECTED_MESSAGE: u8 = 10;
pub(super) const BAD_RECORD_MAC: u8 = 20;
pub(super) const RECORD_OVERFLOW: u8 = 22;
pub(super) const ILLEGAL_PARAMETER: u8 = 47;
pub(super) const DECODE_ERROR: u8 = 50;
pub(super) const INTERNAL_ERROR: u8 = 80;
pub(super) const USER_CANCELED: u8 = 90;
pub(super) const NO_RENEGOTIATION: u8 = 100;

/// Why an open connection ends in disorder, and what the peer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) failure: Failure,
    /// None where the peer has ended it.
    pub(super) alert: Option<u8>,
}

impl Fault {
    pub(super) const fn told(failure: Failure, alert: u8) -> Self {
        Self { failure, alert: Some(alert) }
    }

    /// A record that was changed, or sealed with other keys.
    pub(super) const fn bad_record() -> Self {
        Self::told(Failure::DecryptError, BAD_RECORD_MAC)
    }

    /// A record that is longer than records may be.
    pub(super) const fn overflow() -> Self {
        Self::told(Failure::Malformed, RECORD_OVERFLOW)
    }

    /// A message that is not what its type says.
    pub(super) const fn malformed() -> Self {
        Self::told(Failure::Malformed, DECODE_ERROR)
    }

    /// A message that is in its wrong place, or that came too often.
    pub(super) const fn unexpected() -> Self {
        Self::told(Failure::PeerMisbehaved, UNEXPECTED_MESSAGE)
    }

    /// Something of ours.
    pub(super) const fn internal() -> Self {
        Self::told(Failure::Internal, INTERNAL_ERROR)
    }
}
