//! What a peer may do that is allowed and leads nowhere, before it is taken for a flood.
//!
//! The standards set no bounds. These are BoringSSL's and rustls's, which all clients that matter live with.

use super::alert::Fault;

/// In a row.
const EMPTY_RECORDS_MAX: u8 = 32;
/// Without a byte of traffic between them. Each costs the derivation of a key.
const KEY_UPDATES_MAX: u8 = 32;
const WARNINGS_MAX: u8 = 4;
const RENEGOTIATIONS_MAX: u8 = 1;

/// Counts them for one connection.
#[derive(Debug, Default)]
pub(super) struct Patience {
    empty_records: u8,
    key_updates: u8,
    warnings: u8,
    renegotiations: u8,
}

impl Patience {
    /// A record had something in it.
    pub(super) const fn full_record(&mut self) {
        self.empty_records = 0;
    }

    /// Traffic came.
    pub(super) const fn traffic(&mut self) {
        self.key_updates = 0;
    }

    /// A record had nothing in it.
    pub(super) fn empty_record(&mut self) -> Result<(), Fault> {
        bear(&mut self.empty_records, EMPTY_RECORDS_MAX)
    }

    /// The peer has changed its keys.
    pub(super) fn key_update(&mut self) -> Result<(), Fault> {
        bear(&mut self.key_updates, KEY_UPDATES_MAX)
    }

    /// The peer has sent an alert that changes nothing.
    pub(super) fn warning(&mut self) -> Result<(), Fault> {
        bear(&mut self.warnings, WARNINGS_MAX)
    }

    /// The peer wants to shake hands again.
    pub(super) fn renegotiation(&mut self) -> Result<(), Fault> {
        bear(&mut self.renegotiations, RENEGOTIATIONS_MAX)
    }
}

fn bear(count: &mut u8, max: u8) -> Result<(), Fault> {
    if *count == max {
        return Err(Fault::unexpected());
    }
    *count += 1;
    Ok(())
}
