//! One process takes another's place: the running one starts the next version of itself and hands it what it listens with,
//! so that no listener is closed and no connection refused.
//!
//! The two talk over a pair of unix sockets that keep messages apart (`SOCK_SEQPACKET`); the new process finds its end as
//! its standard input, so nothing else is inherited and no number needs to be agreed on. Sockets travel beside messages
//! (`SCM_RIGHTS` of `unix(7)`).
//!
//! ```text
//!   predecessor                                     successor
//!       │  listener BIND NAME   + socket, for each ──►  │
//!       │  admin ADDRESS        + socket          ──►  │
//!       │  secret 32 bytes                         ──►  │
//!       │  all                                     ──►  │  reads its configuration, binds what is new, accepts
//!       │  ◄──────────────────────── ready, or failed WHY  │
//!       │  yours, or yours reload                  ──►  │  tells the service manager that it is ready
//!       │  drains and ends                              │  serves
//! ```
//!
//! Invariants: until it has said `yours` the predecessor serves and owns everything, and ends a successor that fails or is
//! late; a successor whose predecessor is gone before that ends itself. Words that either does not know are left out,
//! since the two are of different versions. Each wait is bounded.
//!
//! Read `tests/blackbox/takeover.rs` first.

mod channel;
mod predecessor;
mod successor;

pub use self::predecessor::{Excuse, Predecessor, Wish};
pub use self::successor::{Estate, News, Program, Successor};

/// The environment variable that says that the standard input is a predecessor's.
const VARIABLE: &str = "RINGWALL_TAKEOVER";

/// First words of messages.
mod word {
    pub(super) const LISTENER: &str = "listener";
    pub(super) const ADMIN: &str = "admin";
    pub(super) const SECRET: &str = "secret";
    pub(super) const ALL: &str = "all";
    pub(super) const READY: &str = "ready";
    pub(super) const FAILED: &str = "failed";
    pub(super) const YOURS: &str = "yours";
    /// The second word of [`YOURS`]: files may have changed since they were read.
    pub(super) const RELOAD: &str = "reload";
}
