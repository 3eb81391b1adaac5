//! Key exchange groups by their names in the IANA registry.

use std::fmt;

use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::{ALL_KX_GROUPS, DEFAULT_KX_GROUPS};

/// A key exchange group of the TLS library.
#[derive(Clone, Copy)]
pub struct Group(&'static dyn SupportedKxGroup);

impl Group {
    /// All groups there are, the strongest first.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL_KX_GROUPS.iter().copied().map(Self)
    }

    /// The groups of a listener that names none: X25519MLKEM768 and what clients without it have.
    pub fn defaults() -> impl Iterator<Item = Self> {
        DEFAULT_KX_GROUPS.iter().copied().map(Self)
    }

    /// Its name in the IANA registry.
    #[must_use]
    pub fn name(self) -> &'static str {
        name_of(self.code())
    }

    /// Whether what it agrees on stays secret from a quantum computer. TLS 1.2 can use no such group.
    #[must_use]
    pub fn is_post_quantum(self) -> bool {
        matches!(self.code(), 0x0201 | 0x0202 | 0x11eb | 0x11ec)
    }

    pub(super) fn supported(self) -> &'static dyn SupportedKxGroup {
        self.0
    }

    fn code(self) -> u16 {
        u16::from(self.0.name())
    }
}

impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        self.code() == other.code()
    }
}

impl Eq for Group {}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What [`name_of`] may say, and what is said where there was no key exchange.
pub(super) const NAMES: [&str; 9] = [
    "unknown",
    "secp256r1",
    "secp384r1",
    "x25519",
    "MLKEM768",
    "MLKEM1024",
    "SecP256r1MLKEM768",
    "X25519MLKEM768",
    "none",
];

/// The [TLS Supported Groups registry](https://www.iana.org/assignments/tls-parameters/), as far as rustls goes.
pub(super) fn name_of(group: u16) -> &'static str {
    match group {
        23 => "secp256r1",
        24 => "secp384r1",
        29 => "x25519",
        0x0201 => "MLKEM768",
        0x0202 => "MLKEM1024",
        0x11eb => "SecP256r1MLKEM768",
        0x11ec => "X25519MLKEM768",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::Group;

    #[test]
    fn each_group_of_the_library_has_its_name_and_the_hybrid_one_is_first() {
        let names: Vec<_> = Group::all().map(Group::name).collect();
        assert_eq!(
            names,
            ["X25519MLKEM768", "SecP256r1MLKEM768", "x25519", "secp256r1", "secp384r1", "MLKEM768", "MLKEM1024"]
        );
        assert!(names.iter().all(|name| super::NAMES.contains(name)));
        let post_quantum: Vec<_> = Group::all().filter(|group| group.is_post_quantum()).map(Group::name).collect();
        assert_eq!(post_quantum, ["X25519MLKEM768", "SecP256r1MLKEM768", "MLKEM768", "MLKEM1024"]);
        let defaults: Vec<_> = Group::defaults().map(Group::name).collect();
        assert_eq!(defaults, ["X25519MLKEM768", "x25519", "secp256r1", "secp384r1"]);
    }
}
