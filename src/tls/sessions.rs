//! What one server has given one shard for the next connections: session tickets, or a session of TLS 1.2.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Tickets kept, each some hundred bytes and good for one connection. OpenSSL sends two after a full handshake and one
/// after a resumed one, so this is how many connections of one burst can resume.
const TICKETS_MAX: usize = 64;

/// The sessions of one server on one shard. rustls asks for a store that threads could share: the lock is taken in
/// handshakes and for tickets, and never waited for.
#[derive(Default)]
pub(super) struct Sessions(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    /// The oldest first.
    tls13: VecDeque<Tls13ClientSessionValue>,
}

impl Sessions {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All are of the one server, so its name tells nothing.
impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.kept().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.kept().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.kept().tls12 = Some(session);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.kept().tls12.clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.kept().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let tickets = &mut self.kept().tls13;
        if tickets.len() == TICKETS_MAX {
            tickets.pop_front();
        }
        tickets.push_back(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.kept().tls13.pop_back()
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sessions")
    }
}
