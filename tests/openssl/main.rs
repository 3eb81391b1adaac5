//! The real program against OpenSSL's client and server: what each TLS key of the configuration makes them see, and what
//! the program's log says about it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clients;
mod key_log;
mod key_updates;
mod names;
mod ocsp;
mod offers;
mod policy;
mod program;
mod reload;
mod resumption;
mod servers;
mod tickets;
