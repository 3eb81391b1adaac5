//! Why a TLS connection failed: one name for each way, derived from rustls's errors by one table.
//!
//! Most ways are the same whichever part we play; what a failure is called in words then depends on who the peer is.

use std::fmt;

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

use super::connection::Role;

/// Why a TLS connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The peer offers no TLS version that we accept.
    NoSharedVersion,
    /// The peer offers no cipher suite that we accept.
    NoSharedCipher,
    /// The peer offers no key exchange group that we accept.
    NoSharedGroup,
    /// One side cannot verify the kind of signature that the other's key makes.
    NoSharedSignature,
    /// The client offers no application protocol (ALPN) that the listener accepts.
    NoSharedProtocol,
    /// The peer lacks something else that the connection needs.
    Incompatible,
    /// The listener has no certificate for the name that the client asked for.
    UnknownServerName,
    /// The client asked for no name, and the listener serves by name only.
    NoServerName,
    /// The listener requires a client certificate, and the client has shown none.
    ClientCertificateMissing,
    /// A certificate of the client's chain has expired.
    ClientCertificateExpired,
    /// A certificate of the client's chain is not valid yet.
    ClientCertificateNotYetValid,
    /// A certificate of the client's chain is revoked.
    ClientCertificateRevoked,
    /// No revocation list covers the client's certificate, and one must.
    ClientCertificateUncovered,
    /// The revocation list that covers the client's certificate has expired.
    ClientCrlExpired,
    /// The client's certificate comes from none of the listener's authorities.
    ClientCertificateUntrusted,
    /// A signature in the client's chain, or the one by which the client shows that the certificate is its own, is wrong.
    ClientSignatureBad,
    /// The client's certificate is good, and the listener's rules do not let its owner in.
    ClientNotAllowed,
    /// The client's certificate is damaged, or not for clients.
    ClientCertificateBad,
    /// A certificate of the server's chain has expired.
    ServerCertificateExpired,
    /// A certificate of the server's chain is not valid yet.
    ServerCertificateNotYetValid,
    /// The server's certificate comes from none of the backend's authorities.
    ServerCertificateUntrusted,
    /// The server's certificate is good, and for another name than the one asked for.
    ServerNameMismatch,
    /// A signature in the server's chain, or the one by which the server shows that the certificate is its own, is wrong.
    ServerSignatureBad,
    /// The server's certificate is an authority's own.
    ServerCertificateOfAuthority,
    /// The server's certificate is damaged, or not for servers.
    ServerCertificateBad,
    /// The server answers in plain text.
    PlaintextServer,
    /// The peer ended the connection with this fatal alert, named as in the IANA registry.
    AlertReceived(&'static str),
    /// What the peer sent is not TLS, or not well-formed TLS.
    Malformed,
    /// What the peer sent is well-formed and against the protocol.
    PeerMisbehaved,
    /// A record was changed on the way, or sealed with other keys.
    DecryptError,
    /// The keys have sealed as many records as they safely can, and the protocol version cannot change them: TLS 1.2
    /// with AES-GCM after 2^24 records.
    KeysExhausted,
    /// Something of ours failed: the random generator, the clock, or a case that this table does not know.
    Internal,
}

impl Failure {
    /// A short name that stays the same over versions, for metrics and logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::NoSharedVersion => "no_shared_version",
            Self::NoSharedCipher => "no_shared_cipher",
            Self::NoSharedGroup => "no_shared_group",
            Self::NoSharedSignature => "no_shared_signature",
            Self::NoSharedProtocol => "no_shared_protocol",
            Self::Incompatible => "incompatible",
            Self::UnknownServerName => "unknown_server_name",
            Self::NoServerName => "no_server_name",
            Self::ClientCertificateMissing => "client_certificate_missing",
            Self::ClientCertificateExpired => "client_certificate_expired",
            Self::ClientCertificateNotYetValid => "client_certificate_not_yet_valid",
            Self::ClientCertificateRevoked => "client_certificate_revoked",
            Self::ClientCertificateUncovered => "client_certificate_uncovered",
            Self::ClientCrlExpired => "client_crl_expired",
            Self::ClientCertificateUntrusted => "client_certificate_untrusted",
            Self::ClientSignatureBad => "client_signature_bad",
            Self::ClientNotAllowed => "client_not_allowed",
            Self::ClientCertificateBad => "client_certificate_bad",
            Self::ServerCertificateExpired => "server_certificate_expired",
            Self::ServerCertificateNotYetValid => "server_certificate_not_yet_valid",
            Self::ServerCertificateUntrusted => "server_certificate_untrusted",
            Self::ServerNameMismatch => "server_name_mismatch",
            Self::ServerSignatureBad => "server_signature_bad",
            Self::ServerCertificateOfAuthority => "server_certificate_of_authority",
            Self::ServerCertificateBad => "server_certificate_bad",
            Self::PlaintextServer => "plaintext_server",
            Self::AlertReceived(_) => "alert_received",
            Self::Malformed => "malformed",
            Self::PeerMisbehaved => "peer_misbehaved",
            Self::DecryptError => "decrypt_error",
            Self::KeysExhausted => "keys_exhausted",
            Self::Internal => "internal",
        }
    }

    /// Changes the alert at the end of `replies` where rustls sends another one than the standards want. It says
    /// access_denied about server names, which is sent before anything is encrypted.
    pub(super) fn mend_alert(self, replies: &mut [u8]) {
        let description = if self == Self::UnknownServerName {
            UNRECOGNIZED_NAME
        } else if self == Self::NoServerName {
            MISSING_EXTENSION
        } else {
            return;
        };
        if let [.., 0x15, 0x03, _, 0x00, 0x02, 0x02, last @ ACCESS_DENIED] = replies {
            *last = description;
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "rustls's errors are non-exhaustive; what is not named has a home"
    )]
    pub(super) fn of(error: &Error, role: Role) -> Self {
        match error {
            Error::PeerIncompatible(incompatible) => match incompatible {
                PeerIncompatible::Tls12NotOffered
                | PeerIncompatible::Tls12NotOfferedOrEnabled
                | PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
                | PeerIncompatible::SupportedVersionsExtensionRequired => Self::NoSharedVersion,
                PeerIncompatible::NoCipherSuitesInCommon => Self::NoSharedCipher,
                PeerIncompatible::NoKxGroupsInCommon
                | PeerIncompatible::NamedGroupsExtensionRequired
                | PeerIncompatible::KeyShareExtensionRequired => Self::NoSharedGroup,
                PeerIncompatible::NoSignatureSchemesInCommon
                | PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon
                | PeerIncompatible::SignatureAlgorithmsExtensionRequired => Self::NoSharedSignature,
                _ => Self::Incompatible,
            },
            Error::PeerMisbehaved(_)
            | Error::InappropriateMessage { .. }
            | Error::InappropriateHandshakeMessage { .. } => Self::PeerMisbehaved,
            Error::InvalidMessage(_) | Error::PeerSentOversizedRecord => Self::Malformed,
            // A server that shares no version with us says so by this alert.
            Error::AlertReceived(AlertDescription::ProtocolVersion) if role == Role::Client => Self::NoSharedVersion,
            Error::AlertReceived(alert) => Self::AlertReceived(alert_name(u8::from(*alert))),
            Error::DecryptError => Self::DecryptError,
            Error::NoApplicationProtocol => Self::NoSharedProtocol,
            Error::NoCertificatesPresented if role == Role::Client => Self::ServerCertificateBad,
            Error::NoCertificatesPresented => Self::ClientCertificateMissing,
            Error::InvalidCertRevocationList(_) => Self::ClientCertificateUncovered,
            Error::InvalidCertificate(problem) if role == Role::Client => Self::of_server_certificate(problem),
            Error::InvalidCertificate(problem) => Self::of_client_certificate(problem),
            Error::General(reason) if reason == NO_CERTIFICATE => Self::UnknownServerName,
            Error::General(reason) if reason == NO_SIGNATURE => Self::NoSharedSignature,
            _ => Self::Internal,
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "rustls's errors are non-exhaustive; what is not named has a home"
    )]
    const fn of_client_certificate(problem: &CertificateError) -> Self {
        match problem {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::ClientCertificateExpired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::ClientCertificateNotYetValid
            }
            CertificateError::Revoked => Self::ClientCertificateRevoked,
            CertificateError::UnknownRevocationStatus => Self::ClientCertificateUncovered,
            CertificateError::ExpiredRevocationList | CertificateError::ExpiredRevocationListContext { .. } => {
                Self::ClientCrlExpired
            }
            CertificateError::UnknownIssuer => Self::ClientCertificateUntrusted,
            CertificateError::BadSignature => Self::ClientSignatureBad,
            CertificateError::ApplicationVerificationFailure => Self::ClientNotAllowed,
            _ => Self::ClientCertificateBad,
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "rustls's errors are non-exhaustive; what is not named has a home"
    )]
    const fn of_server_certificate(problem: &CertificateError) -> Self {
        match problem {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::ServerCertificateExpired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::ServerCertificateNotYetValid
            }
            CertificateError::UnknownIssuer => Self::ServerCertificateUntrusted,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::ServerNameMismatch
            }
            CertificateError::BadSignature => Self::ServerSignatureBad,
            CertificateError::ApplicationVerificationFailure => Self::ServerCertificateOfAuthority,
            _ => Self::ServerCertificateBad,
        }
    }

    /// The failure in words, for the log of one who plays `role`.
    #[must_use]
    pub const fn in_words(self, role: Role) -> InWords {
        InWords { failure: self, role }
    }
}

/// An alert (RFC 8446, section 6).
const ACCESS_DENIED: u8 = 49;
/// The alert for a hello that lacks what the server needs, a server name for instance (RFC 8446, section 9.2).
const MISSING_EXTENSION: u8 = 109;
/// The alert for a name that the server does not have (RFC 6066, section 3).
const UNRECOGNIZED_NAME: u8 = 112;

/// What rustls says when a certificate resolver declines; the resolver is ours and declines for one reason.
const NO_CERTIFICATE: &str = "no server certificate chain resolved";
/// What rustls says in TLS 1.2 when the key's kind fits the suite and none of the client's signature schemes.
const NO_SIGNATURE: &str = "incompatible signing key";

/// A [`Failure`] in words.
#[derive(Clone, Copy, Debug)]
pub struct InWords {
    failure: Failure,
    role: Role,
}

impl fmt::Display for InWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (peer, ours) = match self.role {
            Role::Server => ("client", "listener"),
            Role::Client => ("server", "backend"),
        };
        let text = match self.failure {
            Failure::NoSharedVersion => return write!(f, "the {peer} offers no TLS version that this {ours} accepts"),
            Failure::NoSharedCipher => return write!(f, "the {peer} offers no cipher suite that this {ours} accepts"),
            Failure::NoSharedGroup => {
                return write!(f, "the {peer} offers no key exchange group that this {ours} accepts");
            }
            Failure::NoSharedSignature if self.role == Role::Client => {
                "the server takes no signatures of the kind that this backend's key makes"
            }
            Failure::NoSharedSignature => "the client cannot verify signatures of this listener's kind of key",
            Failure::NoSharedProtocol => "the client offers no application protocol (ALPN) that this listener accepts",
            Failure::Incompatible => return write!(f, "the {peer} lacks a TLS feature that this {ours} needs"),
            Failure::UnknownServerName => "there is no certificate for the name that the client asked for",
            Failure::NoServerName => "the client asked for no server name (SNI), which this listener needs",
            Failure::ClientCertificateMissing => "the client has shown no certificate, which this listener requires",
            Failure::ClientCertificateExpired => "the client's certificate has expired",
            Failure::ClientCertificateNotYetValid => "the client's certificate is not valid yet",
            Failure::ClientCertificateRevoked => "the client's certificate is revoked",
            Failure::ClientCertificateUncovered => {
                "no usable revocation list (client_crl) covers the client's certificate"
            }
            Failure::ClientCrlExpired => {
                "the revocation list (client_crl) that covers the client's certificate has expired"
            }
            Failure::ClientCertificateUntrusted => "the client's certificate comes from no authority of client_ca",
            Failure::ClientSignatureBad => {
                "a signature of the client or in its certificate is wrong: is it of another authority with the same name as \
                 one of client_ca?"
            }
            Failure::ClientNotAllowed => "the client's certificate is good, and no allowed_ rule lets its owner in",
            Failure::ClientCertificateBad => "the client's certificate is damaged, or not made for a TLS client",
            Failure::ServerCertificateExpired => "the server's certificate has expired",
            Failure::ServerCertificateNotYetValid => "the server's certificate is not valid yet",
            Failure::ServerCertificateUntrusted => "the server's certificate comes from no authority of ca",
            Failure::ServerNameMismatch => "the server's certificate is for another name",
            Failure::ServerSignatureBad => {
                "a signature of the server or in its certificate is wrong: is it of another authority with the same name as \
                 one of ca?"
            }
            Failure::ServerCertificateOfAuthority => {
                "the server's certificate is that of an authority (CA:TRUE): it needs one of its own, which that authority \
                 has signed"
            }
            Failure::ServerCertificateBad => "the server's certificate is damaged, or not made for a TLS server",
            Failure::PlaintextServer => "the server answers in plain text: is this its TLS port?",
            Failure::AlertReceived(name) => return write!(f, "the {peer} sent the fatal alert {name}"),
            Failure::Malformed => return write!(f, "the {peer} sent bytes that are not well-formed TLS"),
            Failure::PeerMisbehaved => return write!(f, "the {peer} broke the TLS protocol"),
            Failure::DecryptError => return write!(f, "a record from the {peer} could not be decrypted"),
            Failure::KeysExhausted => {
                "the keys have sealed all the records they safely can (TLS 1.2 cannot change them)"
            }
            Failure::Internal => "an internal error of the TLS library",
        };
        f.write_str(text)
    }
}

/// The [TLS Alerts registry](https://www.iana.org/assignments/tls-parameters/).
pub(super) fn alert_name(alert: u8) -> &'static str {
    match alert {
        0 => "close_notify",
        10 => "unexpected_message",
        20 => "bad_record_mac",
        21 => "decryption_failed",
        22 => "record_overflow",
        30 => "decompression_failure",
        40 => "handshake_failure",
        41 => "no_certificate",
        42 => "bad_certificate",
        43 => "unsupported_certificate",
        44 => "certificate_revoked",
        45 => "certificate_expired",
        46 => "certificate_unknown",
        47 => "illegal_parameter",
        48 => "unknown_ca",
        49 => "access_denied",
        50 => "decode_error",
        51 => "decrypt_error",
        60 => "export_restriction",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        86 => "inappropriate_fallback",
        90 => "user_canceled",
        100 => "no_renegotiation",
        109 => "missing_extension",
        110 => "unsupported_extension",
        111 => "certificate_unobtainable",
        112 => "unrecognized_name",
        113 => "bad_certificate_status_response",
        114 => "bad_certificate_hash_value",
        115 => "unknown_psk_identity",
        116 => "certificate_required",
        120 => "no_application_protocol",
        121 => "ech_required",
        _ => "unassigned",
    }
}

#[cfg(test)]
mod tests {
    use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible, PeerMisbehaved};

    use super::{Failure, Role};

    #[test]
    fn each_error_of_the_library_has_its_name() {
        let table = [
            (Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered), "no_shared_version"),
            (Error::PeerIncompatible(PeerIncompatible::Tls12NotOfferedOrEnabled), "no_shared_version"),
            (Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon), "no_shared_cipher"),
            (Error::PeerIncompatible(PeerIncompatible::NoKxGroupsInCommon), "no_shared_group"),
            (Error::PeerIncompatible(PeerIncompatible::NoSignatureSchemesInCommon), "no_shared_signature"),
            (Error::PeerIncompatible(PeerIncompatible::NullCompressionRequired), "incompatible"),
            (Error::PeerMisbehaved(PeerMisbehaved::TooManyKeyUpdateRequests), "peer_misbehaved"),
            (Error::InappropriateMessage { expect_types: vec![], got_type: 23.into() }, "peer_misbehaved"),
            (Error::InvalidMessage(InvalidMessage::InvalidContentType), "malformed"),
            (Error::PeerSentOversizedRecord, "malformed"),
            (Error::DecryptError, "decrypt_error"),
            (Error::NoApplicationProtocol, "no_shared_protocol"),
            (Error::AlertReceived(AlertDescription::UnknownCA), "alert_received"),
            (Error::FailedToGetRandomBytes, "internal"),
        ];
        for (error, label) in table {
            assert_eq!(Failure::of(&error, Role::Server).label(), label, "{error:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_server_has_names_of_its_own() {
        let table = [
            (Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13), "no_shared_version"),
            (Error::PeerIncompatible(PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig), "no_shared_version"),
            (Error::AlertReceived(AlertDescription::ProtocolVersion), "no_shared_version"),
            (Error::AlertReceived(AlertDescription::HandshakeFailure), "alert_received"),
            (Error::InvalidCertificate(CertificateError::Expired), "server_certificate_expired"),
            (Error::InvalidCertificate(CertificateError::NotValidYet), "server_certificate_not_yet_valid"),
            (Error::InvalidCertificate(CertificateError::UnknownIssuer), "server_certificate_untrusted"),
            (Error::InvalidCertificate(CertificateError::NotValidForName), "server_name_mismatch"),
            (Error::InvalidCertificate(CertificateError::BadSignature), "server_signature_bad"),
            (Error::InvalidCertificate(CertificateError::InvalidPurpose), "server_certificate_bad"),
            (Error::NoCertificatesPresented, "server_certificate_bad"),
        ];
        for (error, label) in table {
            assert_eq!(Failure::of(&error, Role::Client).label(), label, "{error:?}");
        }
    }

    #[test]
    fn an_alert_is_named_as_in_the_registry() {
        let failure = Failure::of(&Error::AlertReceived(AlertDescription::UnknownCA), Role::Server);
        assert_eq!(failure, Failure::AlertReceived("unknown_ca"));
        assert_eq!(failure.in_words(Role::Server).to_string(), "the client sent the fatal alert unknown_ca");
        assert_eq!(failure.in_words(Role::Client).to_string(), "the server sent the fatal alert unknown_ca");
    }
}
