//! What a handshake agreed on, in the words of the IANA registries.

use rustls::{HandshakeKind, ProtocolVersion};

use super::{groups, suites};

/// What a handshake agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// The cipher suite's name in the IANA registry.
    pub cipher: &'static str,
    /// The key exchange group's name in the IANA registry; none when a TLS 1.2 session resumed without a key exchange.
    pub group: Option<&'static str>,
    /// The name the client asked for, in lower case.
    pub server_name: Option<Box<str>>,
    /// The application protocol (RFC 7301), when one was agreed on.
    pub alpn: Option<Box<str>>,
    /// Whether a ticket spared the full handshake.
    pub resumed: bool,
}

impl Summary {
    /// Reads a connection's state; none while it shakes hands.
    pub(super) fn of(connection: &rustls::CommonState, server_name: Option<&str>) -> Option<Self> {
        if connection.is_handshaking() {
            return None;
        }
        Some(Self {
            version: version_name(connection.protocol_version()?),
            cipher: suites::name_of(u16::from(connection.negotiated_cipher_suite()?.suite())),
            group: connection.negotiated_key_exchange_group().map(|group| groups::name_of(u16::from(group.name()))),
            server_name: server_name.map(Into::into),
            alpn: connection.alpn_protocol().map(|protocol| String::from_utf8_lossy(protocol).into()),
            resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        })
    }
}

fn version_name(version: ProtocolVersion) -> &'static str {
    if version == ProtocolVersion::TLSv1_3 { "TLSv1.3" } else { "TLSv1.2" }
}
