//! What a shard counts beside what its sessions do: turns, ends, failed attempts to reach servers.

use super::Shard;
use crate::io::{BufferGroup, Driver, Errno};
use crate::labels::labelled;
use crate::ledger::Ledger;
use crate::metrics::CONNECT_FAILURES_MAX;
use crate::session::close::CloseReason;

const _: () = assert!(ConnectFailure::LABELS.len() <= CONNECT_FAILURES_MAX, "metrics has room for every failure");

labelled! {
    /// Why an attempt to reach a server failed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ConnectFailure {
        /// Nobody listens there.
        Refused = "refused",
        /// There was no answer within the connect timeout.
        Timeout = "timeout",
        /// No way leads there.
        Unreachable = "unreachable",
        /// The unix socket does not exist, or may not be used.
        Socket = "socket",
        /// The system gave no file descriptor, port or memory.
        Resources = "resources",
        /// The server was connected, and no TLS handshake completed with it.
        Tls = "tls",
        /// Anything else.
        Other = "other",
    }
}

impl ConnectFailure {
    pub(super) const fn of(errno: Errno) -> Self {
        match errno.0 {
            libc::ECONNREFUSED | libc::ECONNRESET => Self::Refused,
            // Cancelling the attempt is how its time ends here; the kernel's own limit is far longer.
            libc::ECANCELED | libc::ETIMEDOUT => Self::Timeout,
            libc::EHOSTUNREACH | libc::ENETUNREACH | libc::ENETDOWN | libc::EHOSTDOWN => Self::Unreachable,
            libc::ENOENT | libc::EACCES | libc::EPERM | libc::ENOTDIR => Self::Socket,
            libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS | libc::EADDRNOTAVAIL => Self::Resources,
            _ => Self::Other,
        }
    }
}

impl<D: Driver> Shard<D> {
    /// Counts what the turn came to. Its end: whoever reads while the shard sleeps reads the latest.
    pub(super) fn count_turn(&mut self) {
        let tally = &self.tally;
        let counts = self.driver.counts();
        tally.enters.set(counts.enters);
        tally.completion_overflows.set(counts.overflows);
        tally.sessions_stalled.set(u64::from(self.stalled));
        for group in BufferGroup::ALL {
            let filled = std::mem::take(&mut self.filled[group.index()]);
            tally.buffers_free[group.index()].set(u64::from(self.driver.buffer_count(group).saturating_sub(filled)));
        }
    }

    /// Counts the end of a session.
    pub(super) fn count_end(&self, ledger: &Ledger, reason: Option<CloseReason>) {
        ledger.count_ended(self.options.id);
        self.tally.sessions_ended.add(1);
        let Some(reason) = reason else { return };
        self.tally.ended[reason.index()].add(1);
        if let CloseReason::HandshakeFailed(failure) = reason {
            self.tally.handshakes_failed[failure.index()].add(1);
            if let Some(alert) = failure.alert_index() {
                self.tally.handshake_alerts[alert].add(1);
            }
        }
    }
}
