//! How each kind of case is measured.

mod few_busy;
mod handshakes;
mod idle;
mod latency;
pub(crate) mod requests;
mod skew;
mod system_calls;
