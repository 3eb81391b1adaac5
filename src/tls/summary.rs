//! What a handshake agreed on, in the words of the IANA registries.

use rustls::{HandshakeKind, ProtocolVersion};

use super::{groups, suites};
use crate::metrics::HANDSHAKE_KINDS_MAX;

/// The versions' names.
const VERSIONS: [&str; 2] = ["TLSv1.2", "TLSv1.3"];

const _: () = assert!(HandshakeSort::COUNT <= HANDSHAKE_KINDS_MAX, "metrics has room for every sort");

/// What tells completed handshakes apart in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeSort {
    version: usize,
    group: usize,
    resumed: bool,
}

impl HandshakeSort {
    /// How many there are.
    pub const COUNT: usize = VERSIONS.len() * groups::NAMES.len() * 2;

    /// Each, at its [`index`](Self::index).
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(|index| Self {
            version: index / 2 / groups::NAMES.len(),
            group: index / 2 % groups::NAMES.len(),
            resumed: index % 2 == 1,
        })
    }

    /// Its place among all of them.
    #[must_use]
    pub const fn index(self) -> usize {
        (self.version * groups::NAMES.len() + self.group) * 2 + self.resumed as usize
    }

    /// As in [`Summary::version`].
    #[must_use]
    pub const fn version(self) -> &'static str {
        VERSIONS[self.version]
    }

    /// As in [`Summary::group`], or `none`.
    #[must_use]
    pub const fn group(self) -> &'static str {
        groups::NAMES[self.group]
    }

    /// As in [`Summary::resumed`].
    #[must_use]
    pub const fn resumed(self) -> bool {
        self.resumed
    }
}

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
    /// What of it metrics tell apart.
    #[must_use]
    pub fn sort(&self) -> HandshakeSort {
        let group = self.group.unwrap_or("none");
        HandshakeSort {
            version: usize::from(self.version == VERSIONS[1]),
            group: groups::NAMES.iter().position(|&name| name == group).unwrap_or(0),
            resumed: self.resumed,
        }
    }

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
    VERSIONS[usize::from(version == ProtocolVersion::TLSv1_3)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sort_of_handshake_has_its_place() {
        assert!(HandshakeSort::all().enumerate().all(|(place, sort)| sort.index() == place));
        let last = HandshakeSort::all().last().unwrap();
        assert_eq!((last.version(), last.group(), last.resumed()), ("TLSv1.3", "none", true));
    }
}
