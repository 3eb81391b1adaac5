//! The little of RESP that ringwall itself reads and writes: commands of its own, and what a server answers to them.
//!
//! Nothing here is on the way of clients' bytes, which are relayed unread. It knows no socket and no clock: bytes in,
//! values out. A server is a peer like any other: whatever it sends is a value or a [`Malformed`], never a panic, and is
//! bounded before it is kept.

mod command;
mod reply;

pub use command::{Command, encode};
pub use reply::{Malformed, Reader, Reply};
