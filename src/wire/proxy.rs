//! The PROXY protocol, versions 1 and 2: who really connects, as a proxy in front tells us, or as we tell a server.
//!
//! Source: `doc/proxy-protocol.txt` of HAProxy. The formats are two pages long and stand in front of everything that is
//! authenticated, so they are read here, with bounds of our own and the checksum verified, and not by a library.

mod checksum;
mod v1;
mod v2;

use std::fmt;
use std::net::SocketAddr;

pub use v2::{Tls, Tlvs};

/// The longest header that is taken, in bytes. The specification wants one to fit the first segment of a connection;
/// what makes them long are certificates in TLVs, which have a few KiB. Version 2 could announce 64 KiB, which nobody
/// who has proved nothing yet may have us keep.
pub const HEADER_BYTES_MAX: usize = 4096;

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Who has connected.
    pub source: SocketAddr,
    /// What it has connected to.
    pub destination: SocketAddr,
}

/// A header that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How many bytes it has; what comes behind them is the connection's own.
    pub len: usize,
    /// The ends of the connection that was relayed. None: the proxy speaks for itself (LOCAL, a health check) or for
    /// what is no TCP connection (UNKNOWN, UNSPEC, datagrams, unix sockets), and the real ends count.
    pub addresses: Option<Addresses>,
}

/// Which form a header is sent in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A line of text.
    V1,
    /// Binary, with TLVs.
    V2,
}

/// What is wrong with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// The first bytes are those of something else.
    Absent,
    /// A line that does not end within the 107 bytes of the longest one.
    LineTooLong,
    /// A line that is not made as it must be.
    Line,
    /// A version that is neither 1 nor 2.
    Version,
    /// A command that is neither LOCAL nor PROXY.
    Command,
    /// A family or transport that does not exist.
    Family,
    /// More bytes than [`HEADER_BYTES_MAX`].
    TooLong,
    /// Fewer bytes than the addresses of its family have.
    TooShort,
    /// TLVs that do not fill the rest of it exactly.
    Tlv,
    /// A checksum that is not that of its bytes.
    Checksum,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "the connection does not begin with a PROXY header: does the proxy in front send one?",
            Self::LineTooLong => "a PROXY line of version 1 ends within 107 bytes, and this one does not",
            Self::Line => "the PROXY line of version 1 is malformed",
            Self::Version => "the PROXY header is of a version other than 1 and 2",
            Self::Command => "the PROXY header of version 2 has a command other than LOCAL and PROXY",
            Self::Family => "the PROXY header of version 2 has a family or transport that does not exist",
            Self::TooLong => "the PROXY header of version 2 is longer than 4096 bytes",
            Self::TooShort => "the PROXY header of version 2 is shorter than the addresses it must have",
            Self::Tlv => "the TLVs of the PROXY header of version 2 do not fill it",
            Self::Checksum => "the checksum of the PROXY header of version 2 is wrong",
        })
    }
}

/// Reads the header at the front of `bytes`, which are all that have come so far. `None`: more are needed, which is never
/// said of [`HEADER_BYTES_MAX`] bytes.
///
/// # Errors
/// What is wrong, as soon as no more bytes could mend it.
pub fn parse(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    if begins(bytes, v2::SIGNATURE) {
        v2::parse(bytes)
    } else if begins(bytes, v1::SIGNATURE) {
        v1::parse(bytes)
    } else {
        Err(HeaderError::Absent)
    }
}

/// Appends the header of version 1.
pub fn write_v1(out: &mut Vec<u8>, addresses: Option<Addresses>) {
    v1::write(out, addresses);
}

/// Appends the header of version 2.
pub fn write_v2(out: &mut Vec<u8>, addresses: Option<Addresses>, tlvs: &Tlvs<'_>) {
    v2::write(out, addresses, tlvs);
}

/// Whether `bytes` are the start of `signature`, or have it at theirs.
fn begins(bytes: &[u8], signature: &[u8]) -> bool {
    bytes.iter().zip(signature).all(|(byte, expected)| byte == expected)
}
