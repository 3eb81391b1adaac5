//! The TLS layer against rustls clients and against records forged by hand. Read `traffic.rs` first.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clients;
mod closing;
mod failures;
mod forger;
mod handshakes;
mod identity;
mod names;
mod pieces;
mod policy;
mod records;
mod resumption;
mod servers;
mod stapling;
mod support;
mod traffic;
