//! What a handshake agreed on, in the words of the IANA registries.

use rustls::{HandshakeKind, ProtocolVersion};

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
            cipher: cipher_name(u16::from(connection.negotiated_cipher_suite()?.suite())),
            group: connection.negotiated_key_exchange_group().map(|group| group_name(u16::from(group.name()))),
            server_name: server_name.map(Into::into),
            resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        })
    }
}

fn version_name(version: ProtocolVersion) -> &'static str {
    if version == ProtocolVersion::TLSv1_3 { "TLSv1.3" } else { "TLSv1.2" }
}

/// The [TLS Cipher Suites registry](https://www.iana.org/assignments/tls-parameters/), as far as rustls goes.
fn cipher_name(suite: u16) -> &'static str {
    match suite {
        0x1301 => "TLS_AES_128_GCM_SHA256",
        0x1302 => "TLS_AES_256_GCM_SHA384",
        0x1303 => "TLS_CHACHA20_POLY1305_SHA256",
        0xc02b => "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        0xc02c => "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        0xcca9 => "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        0xc02f => "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        0xc030 => "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        0xcca8 => "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        _ => "unknown",
    }
}

/// The TLS Supported Groups registry, as far as rustls goes.
fn group_name(group: u16) -> &'static str {
    match group {
        23 => "secp256r1",
        24 => "secp384r1",
        29 => "x25519",
        4587 => "SecP256r1MLKEM768",
        4588 => "X25519MLKEM768",
        _ => "unknown",
    }
}
