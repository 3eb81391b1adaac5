//! Why a TLS connection failed: one name for each way, derived from rustls's errors by one table.
//!
//! Most ways are the same whichever part we play; what a failure is called in words then depends on who the peer is.

use std::fmt;

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

use super::connection::Role;
use crate::labels::labelled;
use crate::metrics::{ALERTS_MAX, FAILURES_MAX};

const _: () = assert!(Failure::LABELS.len() <= FAILURES_MAX, "metrics has room for every failure");
const _: () = assert!(ALERTS.len() <= ALERTS_MAX, "metrics has room for every alert");

labelled! {
    /// Why a TLS connection failed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Failure {
        /// The peer offers no TLS version that we accept.
        NoSharedVersion = "no_shared_version",
        /// The peer offers no cipher suite that we accept.
        NoSharedCipher = "no_shared_cipher",
        /// The peer offers no key exchange group that we accept.
        NoSharedGroup = "no_shared_group",
        /// One side cannot verify the kind of signature that the other's key makes.
        NoSharedSignature = "no_shared_signature",
        /// The client offers no application protocol (ALPN) that the listener accepts.
        NoSharedProtocol = "no_shared_protocol",
        /// The peer lacks something else that the connection needs.
        Incompatible = "incompatible",
        /// The listener has no certificate for the name that the client asked for.
        UnknownServerName = "unknown_server_name",
        /// The client asked for no name, and the listener serves by name only.
        NoServerName = "no_server_name",
        /// The listener requires a client certificate, and the client has shown none.
        ClientCertificateMissing = "client_certificate_missing",
        /// A certificate of the client's chain has expired.
        ClientCertificateExpired = "client_certificate_expired",
        /// A certificate of the client's chain is not valid yet.
        ClientCertificateNotYetValid = "client_certificate_not_yet_valid",
        /// A certificate of the client's chain is revoked.
        ClientCertificateRevoked = "client_certificate_revoked",
        /// No revocation list covers the client's certificate, and one must.
        ClientCertificateUncovered = "client_certificate_uncovered",
        /// The revocation list that covers the client's certificate has expired.
        ClientCrlExpired = "client_crl_expired",
        /// The client's certificate comes from none of the listener's authorities.
        ClientCertificateUntrusted = "client_certificate_untrusted",
        /// A signature in the client's chain, or the one by which the client shows that the certificate is its own, is wrong.
        ClientSignatureBad = "client_signature_bad",
        /// The client's certificate is good, and the listener's rules do not let its owner in.
        ClientNotAllowed = "client_not_allowed",
        /// The client's certificate is damaged, or not for clients.
        ClientCertificateBad = "client_certificate_bad",
        /// A certificate of the server's chain has expired.
        ServerCertificateExpired = "server_certificate_expired",
        /// A certificate of the server's chain is not valid yet.
        ServerCertificateNotYetValid = "server_certificate_not_yet_valid",
        /// The server's certificate comes from none of the backend's authorities.
        ServerCertificateUntrusted = "server_certificate_untrusted",
        /// The server's certificate is good, and for another name than the one asked for.
        ServerNameMismatch = "server_name_mismatch",
        /// A signature in the server's chain, or the one by which the server shows that the certificate is its own, is wrong.
        ServerSignatureBad = "server_signature_bad",
        /// The server's certificate is an authority's own.
        ServerCertificateOfAuthority = "server_certificate_of_authority",
        /// The server's certificate is damaged, or not for servers.
        ServerCertificateBad = "server_certificate_bad",
        /// The server answers in plain text.
        PlaintextServer = "plaintext_server",
        /// The peer ended the connection with this fatal alert, named as in the IANA registry.
        AlertReceived(&'static str) = "alert_received",
        /// What the peer sent is not TLS, or not well-formed TLS.
        Malformed = "malformed",
        /// What the peer sent is well-formed and against the protocol.
        PeerMisbehaved = "peer_misbehaved",
        /// A record was changed on the way, or sealed with other keys.
        DecryptError = "decrypt_error",
        /// The keys have sealed as many records as they safely can, and the protocol version cannot change them: TLS 1.2
        /// with AES-GCM after 2^24 records.
        KeysExhausted = "keys_exhausted",
        /// Something of ours failed: the random generator, the clock, or a case that this table does not know.
        Internal = "internal",
    }
}

impl Failure {
    /// The names of alerts that may be received, each at its [`alert_index`](Self::alert_index).
    pub fn alerts() -> impl Iterator<Item = &'static str> {
        ALERTS.iter().map(|(_, name)| *name)
    }

    /// The place among [`alerts`](Self::alerts) of the one that was received.
    #[must_use]
    pub fn alert_index(self) -> Option<usize> {
        if let Self::AlertReceived(received) = self { Self::alerts().position(|name| name == received) } else { None }
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

/// The [TLS Alerts registry](https://www.iana.org/assignments/tls-parameters/); the last one stands for all others.
const ALERTS: [(u8, &str); 36] = [
    (0, "close_notify"),
    (10, "unexpected_message"),
    (20, "bad_record_mac"),
    (21, "decryption_failed"),
    (22, "record_overflow"),
    (30, "decompression_failure"),
    (40, "handshake_failure"),
    (41, "no_certificate"),
    (42, "bad_certificate"),
    (43, "unsupported_certificate"),
    (44, "certificate_revoked"),
    (45, "certificate_expired"),
    (46, "certificate_unknown"),
    (47, "illegal_parameter"),
    (48, "unknown_ca"),
    (49, "access_denied"),
    (50, "decode_error"),
    (51, "decrypt_error"),
    (60, "export_restriction"),
    (70, "protocol_version"),
    (71, "insufficient_security"),
    (80, "internal_error"),
    (86, "inappropriate_fallback"),
    (90, "user_canceled"),
    (100, "no_renegotiation"),
    (109, "missing_extension"),
    (110, "unsupported_extension"),
    (111, "certificate_unobtainable"),
    (112, "unrecognized_name"),
    (113, "bad_certificate_status_response"),
    (114, "bad_certificate_hash_value"),
    (115, "unknown_psk_identity"),
    (116, "certificate_required"),
    (120, "no_application_protocol"),
    (121, "ech_required"),
    (255, "unassigned"),
];

pub(super) fn alert_name(alert: u8) -> &'static str {
    ALERTS.iter().find(|(code, _)| *code == alert).map_or("unassigned", |(_, name)| name)
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
