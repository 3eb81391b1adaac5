//! The formats of a connection's edges: the PROXY protocol in front of everything else ([`proxy`]), and the little of RESP
//! that ringwall itself reads and writes, commands of its own and what a server answers to them; and where requests and
//! replies end that are others' ([`frame`]).
//!
//! Only where requests and replies end is on the way of clients' bytes, and only in a multiplexer: else they are relayed
//! unread. It knows no socket and no clock: bytes in, values out. A server is a peer like any other, and so is whoever
//! connects: what they send is a value or an error, never a panic, and is bounded before it is kept.
//!
//! Read `tests/wire/main.rs` first.

mod client_name;
mod command;
pub mod frame;
pub mod proxy;
mod reply;

pub use client_name::{ClientFacts, Template};
pub use command::{Command, encode};
pub use reply::{Malformed, Reader, Reply};
