//! Connections: made, shared, lent to one client, given back, lost.

use super::client::{Client, Offset, Place};
use super::link::{Broken, Link, Role, To};
use super::standing::{Script, Standing};
use super::{Class, Multiplexer, Output, Reason, Timed};
use crate::session::Turn;
use crate::slots::Id;

/// A further shared connection of a class is made when each of them has this many replies owed.
const SPREAD_REPLIES: u32 = 64;

/// How a connection was lost.
#[derive(Clone, Copy, Debug)]
pub(super) enum Loss<'a> {
    /// It could not be made.
    Unreachable(&'a str),
    /// The server has no room for another one.
    TurnedAway(&'a str),
    /// The server refused what must be said first.
    Refused(&'a str),
    /// The server ended it.
    Ended,
    /// It failed.
    Failed,
    /// It was left in a transaction.
    InTransaction,
    Broken(Broken),
}

/// What a connection of a client's own was being used for when it was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// The client waits for it.
    Wanted,
    Requests,
    None,
}

impl<'a> Loss<'a> {
    /// What clients are told.
    fn in_words(self) -> String {
        match self {
            Self::Unreachable(why) => format!("the server cannot be reached: {why}"),
            Self::Refused(said) | Self::TurnedAway(said) => format!("the server refused the connection: {said}"),
            Self::Ended => "the server has closed the connection; whether the command ran is unknown".to_owned(),
            Self::Failed => "the connection to the server is lost; whether the command ran is unknown".to_owned(),
            Self::InTransaction => {
                "the connection was left in a transaction; whether the command ran is unknown".to_owned()
            }
            Self::Broken(broken) => format!("{}; whether the command ran is unknown", broken.in_words()),
        }
    }

    /// What the error means that a server said to whoever connects, or in answer to what must be said first.
    pub(super) fn of_error(head: &[u8], said: &'a str) -> Self {
        if head.starts_with(b"-ERR max number of clients") { Self::TurnedAway(said) } else { Self::Refused(said) }
    }

    /// Whether there may be no further connection, while those that there are go on. A server without room says so and
    /// resets the connection at once, and is not always heard.
    const fn leaves_others(self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TurnedAway(_) | Self::Ended | Self::Failed => true,
            Self::Refused(_) | Self::InTransaction | Self::Broken(_) => false,
        }
    }

    const fn reason(self) -> Reason {
        match self {
            Self::Unreachable(_) => Reason::Unreachable,
            Self::Refused(_) | Self::TurnedAway(_) => Reason::Refused,
            Self::Ended => Reason::ServerClosed,
            Self::Failed | Self::InTransaction => Reason::ServerLost,
            Self::Broken(broken) => Reason::ServerBroke(broken),
        }
    }
}

impl Multiplexer {
    /// A connection as a fresh one: one that is kept, or a new one.
    pub(super) fn take_link(&mut self, role: Role, turn: &Turn<'_>) -> Id {
        while let Some(id) = self.idle.pop() {
            if let Some(link) = self.links.at_mut(id) {
                link.role = role;
                link.was_idle = link.is_connected;
                return id;
            }
        }
        self.dial(role, turn)
    }

    /// A new connection.
    pub(super) fn dial(&mut self, role: Role, turn: &Turn<'_>) -> Id {
        let decided = self.vouching.next();
        let id = self.links.insert(Link::new(role, &self.options, decided, turn.now + self.options.connect_timeout));
        self.due.timed.push(Timed::Link(id));
        self.orders.push_back(Output::Dial(id));
        id
    }

    /// The connection of the client's own, made if there is none yet. `None` while it is owed replies over another, and
    /// while it has to wait because others ask for a change, as it does with `is_probe`.
    pub(super) fn own_link(&mut self, id: Id, is_probe: bool, turn: &mut Turn<'_>) -> Option<Id> {
        let client = self.clients.at(id)?;
        match client.place {
            Place::Own(link) => return Some(link),
            Place::Shared(_) if client.replies_owed > 0 => return None,
            Place::Shared(_) | Place::Nowhere => {}
        }
        if is_probe && !self.may_probe() {
            let client = self.clients.at_mut(id)?;
            if !std::mem::replace(&mut client.is_asking, true) {
                self.asking.push_back(id);
            }
            return None;
        }
        self.probes += usize::from(is_probe);
        self.meter.counts.departures[client.departure.index()].add(1);
        // The last that is kept is for those who ask for a change, and for what clients share: they are many, and go on
        // where the server has no room for another connection.
        let link_id = if is_probe || self.idle.len() > 1 {
            self.take_link(Role::Own(id), turn)
        } else {
            self.dial(Role::Own(id), turn)
        };
        if self.vouching.is_stale(self.links.at(link_id)?, self.clients.at(id)?) {
            self.renew(link_id, turn);
        }
        let (client, link) = (self.clients.at_mut(id)?, self.links.at_mut(link_id)?);
        link.is_probe = is_probe;
        client.place = Place::Own(link_id);
        if is_probe && !link.was_idle {
            link.say(&Standing::default().for_sharing(), turn);
        }
        client.departed = client.departure;
        link.say(&client.standing.for_one(), turn);
        self.due.touch_link(link_id, link);
        Some(link_id)
    }

    /// No change is asked for on this connection any more.
    pub(super) fn end_probe(&mut self, id: Id) {
        if let Some(link) = self.links.at_mut(id)
            && std::mem::take(&mut link.is_probe)
        {
            self.forget_probe();
        }
    }

    fn forget_probe(&mut self) {
        self.probes -= 1;
        self.find_room();
    }

    /// A connection on which something was asked is free again, or gone: where there is no other, the server may have room.
    pub(super) const fn find_room(&mut self) {
        if self.probes == 0 {
            self.probes_fit = usize::MAX;
        }
    }

    /// Whether a client may ask for a change.
    pub(super) fn may_probe(&self) -> bool {
        self.probes < self.options.probes_max.min(self.probes_fit)
    }

    /// Gives the client's own connection back, on which nothing is under way.
    pub(super) fn leave_own(&mut self, id: Id, turn: &mut Turn<'_>) {
        let Some(client) = self.clients.at_mut(id) else { return };
        let Place::Own(link_id) = std::mem::replace(&mut client.place, Place::Nowhere) else { return };
        let script = client.standing.reset();
        self.reset_link(link_id, &script, turn);
    }

    /// Makes a connection as a fresh one, for whoever needs one next. Replies that are owed come first.
    fn reset_link(&mut self, id: Id, script: &Script, turn: &mut Turn<'_>) {
        let Some(link) = self.links.at_mut(id) else { return };
        link.role = Role::Resetting;
        link.decided = self.vouching.next();
        link.say(script, turn);
        self.due.touch_link(id, link);
    }

    /// Keeps a connection that is as a fresh one.
    pub(super) fn keep_link(&mut self, id: Id, turn: &mut Turn<'_>) {
        if self.idle.len() >= self.options.idle_connections_max {
            return self.close(id, turn);
        }
        let Some(link) = self.links.at_mut(id) else { return };
        link.role = Role::Idle;
        self.idle.push(id);
        self.end_probe(id);
    }

    /// The shared connection for this client's next request. `None`: there is none for where it stands.
    pub(super) fn shared_link(&mut self, id: Id, turn: &mut Turn<'_>) -> Option<Id> {
        let client = self.clients.at(id)?;
        if let Place::Shared(link) = client.place
            && client.replies_owed > 0
        {
            return Some(link);
        }
        if self.vouching.lets_in(self.clients.at_mut(id)?) == Some(false) {
            self.leave_class(id, turn);
            return None;
        }
        let class_id = self.class_of(id, turn)?;
        let class = self.classes.at(class_id)?;
        // One that is still being made is nobody's choice while there is another.
        let load = |id: &Id| self.links.at(*id).map(|link| (!link.is_ready(), link.replies_owed));
        let least = class.links.iter().copied().min_by_key(load);
        let is_busy = least.as_ref().and_then(load).is_none_or(|(_, owed)| owed >= SPREAD_REPLIES);
        let may_spread = class.links.len() < self.options.class_connections_max && !class.is_closed;
        if least.is_some() && !(is_busy && may_spread) {
            return least;
        }
        // Those who log in do so on one that is kept: the last is not for sharing either.
        let link_id = if self.idle.len() > 1 || !self.clients.at(id)?.standing.has_login() {
            self.take_link(Role::Shared(class_id), turn)
        } else {
            self.dial(Role::Shared(class_id), turn)
        };
        let (client, link) = (self.clients.at(id)?, self.links.at(link_id)?);
        // One that is reset speaks for everybody who is there.
        if !client.standing.has_login() && (link.was_idle || self.vouching.is_stale(link, client)) {
            self.renew(link_id, turn);
        }
        let (client, link) = (self.clients.at(id)?, self.links.at_mut(link_id)?);
        link.say(&client.standing.for_sharing(), turn);
        self.due.touch_link(link_id, link);
        self.classes.at_mut(class_id)?.links.push(link_id);
        Some(least.unwrap_or(link_id))
    }

    /// Whether there are connections to share for where the client stands.
    pub(super) fn may_share(&mut self, id: Id, turn: &mut Turn<'_>) -> bool {
        let Some(client) = self.clients.at_mut(id) else { return false };
        self.vouching.lets_in(client) != Some(false) && self.class_of(id, turn).is_some()
    }

    /// The class of where the client stands. `None` when there would be too many.
    pub(super) fn class_of(&mut self, id: Id, turn: &mut Turn<'_>) -> Option<Id> {
        let client = self.clients.at(id)?;
        if let Some(class) = client.class
            && self.classes.at(class).is_some_and(|class| client.standing.is_of(&class.key))
        {
            return Some(class);
        }
        self.leave_class(id, turn);
        let client = self.clients.at_mut(id)?;
        let found = self
            .class_ids
            .iter()
            .copied()
            .find(|&class| self.classes.at(class).is_some_and(|class| client.standing.is_of(&class.key)));
        let class_id = match found {
            Some(class) => class,
            None if self.class_ids.len() >= self.options.classes_max => return None,
            None => {
                let key = client.standing.class();
                let class = self.classes.insert(Class {
                    key,
                    links: Vec::new(),
                    clients: 0,
                    is_closed: false,
                    refuses_exec: false,
                });
                self.class_ids.push(class);
                class
            }
        };
        client.class = Some(class_id);
        self.classes.at_mut(class_id)?.clients += 1;
        Some(class_id)
    }

    /// The client no longer counts in its class, which ends with its last client.
    pub(super) fn leave_class(&mut self, id: Id, turn: &mut Turn<'_>) {
        let Some(class_id) = self.clients.at_mut(id).and_then(|client| client.class.take()) else { return };
        self.uncount(class_id, turn);
    }

    fn uncount(&mut self, class_id: Id, turn: &mut Turn<'_>) {
        let Some(class) = self.classes.at_mut(class_id) else { return };
        class.clients -= 1;
        if class.clients > 0 {
            return;
        }
        self.class_ids.retain(|&id| id != class_id);
        let Some(class) = self.classes.remove(class_id) else { return };
        for link_id in class.links {
            if self.links.at(link_id).is_some_and(Link::is_ready) {
                self.reset_link(link_id, &Standing::default().reset(), turn);
            } else {
                self.close(link_id, turn);
            }
        }
    }

    /// Closes a connection from which nobody expects anything but those who wait for it.
    pub(super) fn close(&mut self, id: Id, turn: &mut Turn<'_>) {
        let Some(mut link) = self.remove(id, turn) else { return };
        for waiting in link.waiting.drain(..) {
            let Some(client) = self.clients.at_mut(waiting) else { continue };
            client.waits = false;
            self.due.work(waiting, client);
        }
    }

    /// Takes a connection out.
    fn remove(&mut self, id: Id, turn: &mut Turn<'_>) -> Option<Link> {
        let mut link = self.links.remove(id)?;
        if self.vouching.forget(id) {
            self.find_room();
        }
        link.out.discard(turn);
        self.orders.push_back(Output::CloseLink(id));
        if link.is_probe {
            self.forget_probe();
        }
        if let Role::Shared(class) = link.role
            && let Some(class) = self.classes.at_mut(class)
        {
            class.links.retain(|&shared| shared != id);
        }
        self.idle.retain(|&idle| idle != id);
        Some(link)
    }

    /// A connection is gone, and with it what is owed over it.
    pub(super) fn lose(&mut self, id: Id, loss: Loss<'_>, turn: &mut Turn<'_>) {
        let Some(mut link) = self.remove(id, turn) else { return };
        let words = loss.in_words();
        let is_refused = matches!(loss, Loss::Refused(_) | Loss::TurnedAway(_));
        let lost = match (link.is_ready() && !is_refused, link.owed.is_empty()) {
            // It has gone stale while it was kept, and nothing of the client's was said.
            (false, _) if link.was_idle && !is_refused => Use::None,
            (false, _) => Use::Wanted,
            (true, false) => Use::Requests,
            (true, true) => Use::None,
        };
        let mut is_cut = link.passed_bytes > 0;
        for owed in link.owed.drain(..) {
            let is_first_cut = std::mem::take(&mut is_cut);
            let To::Client(owner, ..) = owed.to else { continue };
            let Some(client) = self.clients.at_mut(owner).filter(|client| client.end.is_none()) else { continue };
            if is_first_cut {
                client.finish(owner, Reason::ReplyCut, &self.options, &mut self.due, turn);
                continue;
            }
            // A server that has been told of a client's end answers by its own: there is no error to tell of.
            if !link.ends {
                client.say_error(&words, owed.replies.into(), turn);
            }
            client.replies_owed -= u32::from(owed.replies);
            self.due.touch_client(owner, client);
            self.due.work(owner, client);
            if matches!(loss, Loss::Broken(_)) {
                client.finish(owner, loss.reason(), &self.options, &mut self.due, turn);
            }
        }
        let goes_on = (link.is_ready() || link.was_idle) && !is_refused;
        if link.role == Role::Asking && !goes_on && loss.leaves_others() {
            return self.ask_in_place(link.waiting.drain(..), (words.as_str(), loss.reason()), turn);
        }
        for waiting in link.waiting.drain(..) {
            let Some(client) = self.clients.at_mut(waiting) else { continue };
            client.waits = false;
            if !goes_on {
                client.refusal = Some((words.as_str().into(), loss.reason()));
            }
            self.due.work(waiting, client);
        }
        if let Role::Own(owner) | Role::Raw(owner) = link.role {
            let may_wait = link.is_probe && lost == Use::Wanted && loss.leaves_others();
            if !(may_wait && self.ask_later(owner)) {
                self.lose_own(owner, loss, lost, &words, turn);
            }
        }
    }

    /// A client that got no connection on which to ask for a change takes one of those that there are, in its turn.
    fn ask_later(&mut self, id: Id) -> bool {
        let others = self.probes + usize::from(self.vouching.is_asking());
        if others == 0 && self.idle.is_empty() {
            return false;
        }
        let Some(client) = self.clients.at_mut(id).filter(|client| client.end.is_none()) else { return false };
        client.place = Place::Nowhere;
        if others == 0 {
            self.due.work(id, client);
        } else {
            self.probes_fit = self.probes;
            client.is_asking = true;
            self.asking.push_front(id);
        }
        true
    }

    /// With a connection of a client's own the state is lost that it had beyond where the client stands.
    fn lose_own(&mut self, id: Id, loss: Loss<'_>, lost: Use, words: &str, turn: &mut Turn<'_>) {
        let Some(client) = self.clients.at_mut(id) else { return };
        client.place = Place::Nowhere;
        client.offset = Offset::Unknown;
        if client.end.is_none() {
            match lost {
                Use::None if client.is_quiet() => return self.due.work(id, client),
                Use::None | Use::Requests => {}
                // What it was wanted for has not been said.
                Use::Wanted => client.say_error(words, 1, turn),
            }
        }
        let reason = if client.has_ended { Reason::ClientLeft } else { loss.reason() };
        client.finish(id, reason, &self.options, &mut self.due, turn);
    }

    /// A client that is to be closed asks for nothing more: what it occupies is given back.
    pub(super) fn leave(&mut self, id: Id, turn: &mut Turn<'_>) {
        let Some(client) = self.clients.at_mut(id) else { return };
        let place = std::mem::replace(&mut client.place, Place::Nowhere);
        client.replies_owed = 0;
        if let Some(link) = client.stalls.take() {
            self.go_on(link, turn);
        }
        self.give_back(place, id, turn);
        self.leave_class(id, turn);
    }

    /// What a client that goes leaves at the place where its requests went.
    fn give_back(&mut self, place: Place, id: Id, turn: &mut Turn<'_>) {
        match place {
            Place::Nowhere | Place::Shared(_) => {}
            Place::Own(link_id) => {
                let Some(link) = self.links.at_mut(link_id) else { return };
                let is_done = link.is_ready() && link.owed.is_empty() && !link.ends;
                let reset = self.clients.at(id).filter(|client| is_done && client.is_quiet());
                match reset.map(|client| client.standing.reset()) {
                    Some(script) => self.reset_link(link_id, &script, turn),
                    None => self.close(link_id, turn),
                }
            }
        }
    }

    /// Cuts a client off.
    pub(super) fn cut(&mut self, id: Id, reason: Reason, turn: &mut Turn<'_>) {
        let reason = self.clients.at(id).and_then(|client| client.end).unwrap_or(reason);
        if self.clients.at(id).is_some() {
            self.forget(id, turn);
            self.orders.push_back(Output::CutClient(id, reason));
        }
    }

    /// Takes a client out. What is owed to it is read and dropped.
    pub(super) fn forget(&mut self, id: Id, turn: &mut Turn<'_>) {
        self.leave(id, turn);
        let Some(Client { mut out, carry, .. }) = self.clients.remove(id) else { return };
        out.discard(turn);
        if let Some(carry) = carry {
            turn.pool.give(carry);
        }
    }
}
