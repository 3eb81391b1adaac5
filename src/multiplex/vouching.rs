//! Whom the server lets in without a login: it is asked anew for whoever has come since it last said.
//!
//! A server decides when a connection is made, and again at RESET, whether it runs the commands of somebody who has not
//! logged in. Whom it has let in stays in, whatever becomes of the default user. So the connection that clients share
//! tells nothing of who has come after it was made. For such a newcomer a further connection is made, or one that is kept
//! is reset, and asked PING; the answer holds for all who had come by then.
//!
//! ```text
//!   newcomers ──► line of the asking connection ──► RESET, PING ──► let in: the shared connection
//!                                                               └─► not: connections of their own, and the server's word
//! ```
//!
//! Invariants:
//! - Nothing of a client that has not logged in is said over a connection which the server has let in before the client
//!   came, unless another one that it has let in since speaks for the client.
//! - One question is under way at a time, however many wait; those who come meanwhile wait for the next.
//! - What the server has said of a client counts until the client says RESET or loses what it shares.

use super::client::Client;
use super::link::{Link, Role};
use super::standing::Standing;
use super::{Multiplexer, Reason};
use crate::session::Turn;
use crate::slots::Id;

/// A point in the order in which clients come, and connections are made and reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

/// What is known of a client's rights as long as it has not logged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Nothing. It came at this moment.
    Unknown(Moment),
    /// The server has let in one that came no earlier, or the client itself.
    Given,
    /// The server has not.
    Refused,
}

/// What the server has said of those who do not log in.
#[derive(Debug, Default)]
pub(super) struct Vouching {
    latest: Moment,
    /// Connections made or reset before this moment, or at it, have been let in.
    granted: Moment,
    /// The latest of those that were not.
    refused: Moment,
    /// The connection on which it is asked.
    asker: Option<Id>,
}

impl Vouching {
    /// A connection is made or reset: a moment that comes after all clients which are there.
    pub(super) const fn next(&mut self) -> Moment {
        self.latest.0 += 1;
        self.latest
    }

    /// A client comes.
    pub(super) const fn latest(&self) -> Moment {
        self.latest
    }

    /// Whether there is a connection for that.
    pub(super) const fn is_asking(&self) -> bool {
        self.asker.is_some()
    }

    /// Nothing is asked over this connection any more; whether something was.
    pub(super) fn forget(&mut self, link: Id) -> bool {
        self.asker.take_if(|asker| *asker == link).is_some()
    }

    /// Whether the client is let in; `None` where the server has not said so yet.
    pub(super) fn lets_in(&self, client: &mut Client) -> Option<bool> {
        if client.standing.has_login() {
            return Some(true);
        }
        if let Trust::Unknown(came) = client.trust {
            if came < self.granted {
                client.trust = Trust::Given;
            } else if came < self.refused {
                client.trust = Trust::Refused;
            }
        }
        match client.trust {
            Trust::Unknown(_) => None,
            Trust::Given => Some(true),
            Trust::Refused => Some(false),
        }
    }

    /// Whether a connection that is kept must be reset before it is this client's own, so that the client has no more
    /// rights on it than on a fresh one.
    pub(super) fn is_stale(&self, link: &Link, client: &Client) -> bool {
        if client.standing.has_login() {
            return false;
        }
        match client.trust {
            Trust::Unknown(came) => link.decided <= came,
            Trust::Given => false,
            Trust::Refused => link.was_idle,
        }
    }
}

impl Multiplexer {
    /// The moment at which a client comes, for [`Multiplexer::accept`]: taken when it may first speak to this server, before
    /// anything is done on its behalf.
    #[must_use]
    pub const fn moment(&self) -> Moment {
        self.vouching.latest()
    }

    /// Resets a connection that is kept, or in use, before anything else is said over it.
    pub(super) fn renew(&mut self, id: Id, turn: &mut Turn<'_>) {
        let Some(link) = self.links.at_mut(id) else { return };
        link.decided = self.vouching.next();
        // If it is lost over this, nothing of a client's was said.
        link.was_idle = true;
        link.say(&Standing::default().renewal(), turn);
        self.due.touch_link(id, link);
    }

    /// Whether the client must wait until the server has said that it is let in, before anything of it is said over this
    /// shared connection. One that is being made tells so itself of those who came before.
    pub(super) fn awaits_word(&mut self, client: Id, shared: Id) -> bool {
        let (Some(client), Some(link)) = (self.clients.at_mut(client), self.links.at(shared)) else { return false };
        if self.vouching.lets_in(client).is_some() {
            return false;
        }
        link.is_ready() || self.vouching.is_stale(link, client)
    }

    /// Has the client wait for the server's word.
    pub(super) fn await_word(&mut self, id: Id, turn: &mut Turn<'_>) {
        let asker = match self.vouching.asker {
            Some(asker) => asker,
            None => self.ask(turn),
        };
        if let (Some(client), Some(link)) = (self.clients.at_mut(id), self.links.at_mut(asker)) {
            client.waits = true;
            link.waiting.push_back(id);
        }
    }

    /// Asks the server whether it lets in who does not log in.
    fn ask(&mut self, turn: &mut Turn<'_>) -> Id {
        let id = self.take_link(Role::Asking, turn);
        if self.links.at(id).is_some_and(|link| link.was_idle) {
            self.renew(id, turn);
        }
        if let Some(link) = self.links.at_mut(id) {
            link.say(&Standing::default().for_sharing(), turn);
            self.due.touch_link(id, link);
        }
        self.vouching.asker = Some(id);
        id
    }

    /// The server has answered, over a connection without a login, a command that needs one if any does.
    pub(super) fn handle_word(&mut self, id: Id, turn: &mut Turn<'_>) {
        let Some(link) = self.links.at(id) else { return };
        let (role, decided) = (link.role, link.decided);
        let is_refused = link.head.starts_with(b"-NOAUTH");
        // Said to connections and not to commands: too many clients, or none from here.
        if link.head.starts_with(b"-ERR") || link.head.starts_with(b"-DENIED") {
            return self.refuse(id, turn);
        }
        let until = if is_refused { &mut self.vouching.refused } else { &mut self.vouching.granted };
        *until = decided.max(*until);
        match role {
            Role::Asking => self.end_question(id, turn),
            Role::Shared(class) => {
                if let Some(class) = self.classes.at_mut(class) {
                    class.is_closed = is_refused;
                }
                if is_refused {
                    self.unshare(id, turn);
                }
            }
            Role::Own(_) | Role::Raw(_) | Role::Idle | Role::Resetting => {}
        }
    }

    /// Those who have waited for the server's word go on. The connection is kept.
    fn end_question(&mut self, id: Id, turn: &mut Turn<'_>) {
        self.vouching.forget(id);
        self.find_room();
        let Some(link) = self.links.at_mut(id) else { return };
        for waiting in std::mem::take(&mut link.waiting) {
            let Some(client) = self.clients.at_mut(waiting) else { continue };
            client.waits = false;
            self.due.work(waiting, client);
        }
        self.keep_link(id, turn);
    }

    /// The server wants a login and the class of this connection has none: who has waited for it has nothing to share.
    fn unshare(&mut self, id: Id, turn: &mut Turn<'_>) {
        let Some(link) = self.links.at(id) else { return };
        for &waiting in &link.waiting {
            if let Some(client) = self.clients.at_mut(waiting).filter(|client| client.trust == Trust::Given) {
                client.trust = Trust::Refused;
            }
        }
        self.close(id, turn);
    }

    /// No further connection can be had on which to ask, for those who waited for its answer: where their class has a
    /// connection, that one is reset and asked. Should the server want a login by now, those who share it lose it.
    pub(super) fn ask_in_place(&mut self, waiting: impl Iterator<Item = Id>, why: (&str, Reason), turn: &mut Turn<'_>) {
        for id in waiting {
            let class = self.class_of(id, turn).and_then(|class| self.classes.at(class));
            let is_connected = |link: &Id| self.links.at(*link).is_some_and(|link| link.is_connected);
            let shared = class.and_then(|class| class.links.iter().copied().find(is_connected));
            if let Some(shared) = shared.filter(|&shared| self.awaits_word(id, shared)) {
                self.renew(shared, turn);
                if let (Some(client), Some(link)) = (self.clients.at(id), self.links.at_mut(shared)) {
                    link.say(&client.standing.for_sharing(), turn);
                }
            }
            let Some(client) = self.clients.at_mut(id) else { continue };
            client.waits = false;
            if shared.is_none() {
                client.refusal = Some((why.0.into(), why.1));
            }
            self.due.work(id, client);
        }
    }
}
