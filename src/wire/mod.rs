//! The little of RESP that ringwall itself reads and writes: commands of its own, and what a server answers to them; and
//! where requests and replies end that are others' ([`frame`]).
//!
//! Only where requests and replies end is on the way of clients' bytes, and only in a multiplexer: else they are relayed
//! unread. It knows no socket and no clock: bytes in, values out. A server is a peer like any other: whatever it sends is a value or a [`Malformed`], never a panic, and is
//! bounded before it is kept.

mod command;
pub mod frame;
mod reply;

pub use command::{Command, encode};
pub use reply::{Malformed, Reader, Reply};
