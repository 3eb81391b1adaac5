//! What clients say, and where it goes.

use super::client::{Client, Offset, Place, Said};
use super::departure::Departure;
use super::link::{Link, Role, To};
use super::route::{Command, Effect, Route, arguments, is_plain_line, look_up, route};
use super::standing::{Change, Script, Step};
use super::{Multiplexer, Reason};
use crate::session::Turn;
use crate::slots::Id;
use crate::time::Time;
use crate::wire::frame::{Form, Request, RequestFramer};

/// What became of the bytes at the beginning of what a client has said.
enum Fate {
    /// So many are served.
    Served(usize),
    /// They wait for more of them.
    Incomplete,
    /// They wait for something else.
    Blocked,
}

/// Requests in a row that go over a shared connection in one piece.
#[derive(Clone, Copy)]
struct Unit {
    /// Where what has been said goes on behind them.
    end: usize,
    replies: u32,
    /// The first of them.
    command: Command,
}

/// What is said of a WAIT that cannot be kept.
const WAIT_REFUSED: &str = "WAIT cannot speak for writes over shared connections unless the user may run SWAPDB and the \
                            server is no cluster; it can for those that follow";

impl Multiplexer {
    /// Serves what a client has said as far as possible. How many bytes that was.
    pub(super) fn serve(&mut self, id: Id, said: &[u8], turn: &mut Turn<'_>) -> usize {
        let mut at = 0;
        while at < said.len() {
            let fate = self.serve_first(id, &said[at..], turn);
            let Some(client) = self.clients.at_mut(id) else { return said.len() };
            let is_blocked = matches!(fate, Fate::Blocked);
            if std::mem::replace(&mut client.is_blocked, is_blocked) != is_blocked {
                self.due.touch_client(id, client);
            }
            match fate {
                Fate::Served(bytes) => at += bytes,
                Fate::Incomplete | Fate::Blocked => break,
            }
        }
        at
    }

    /// The same for what was kept.
    pub(super) fn serve_carry(&mut self, id: Id, turn: &mut Turn<'_>) {
        let Some(mut carry) = self.clients.at_mut(id).and_then(|client| client.carry.take()) else { return };
        let served = self.serve(id, carry.data(), turn);
        carry.consume(served);
        match self.clients.at_mut(id).filter(|client| client.end.is_none() && !carry.is_empty()) {
            Some(client) => client.carry = Some(carry),
            None => turn.pool.give(carry),
        }
    }

    fn serve_first(&mut self, id: Id, said: &[u8], turn: &mut Turn<'_>) -> Fate {
        let Some(client) = self.clients.at_mut(id) else { return Fate::Served(said.len()) };
        if client.end.is_some() {
            return Fate::Served(said.len());
        }
        if client.is_raw {
            return self.pass_raw(id, said, turn);
        }
        if client.is_pinned || client.is_bulk {
            return self.pin(id, said, turn);
        }
        match client.cut(said) {
            Said::Request(request) => self.serve_request(id, request, said, turn),
            Said::Incomplete if client.incomplete_bytes() > self.options.bytes_max => {
                client.is_bulk = true;
                client.departure = Departure::TOO_LARGE;
                self.pin(id, said, turn)
            }
            Said::Incomplete => Fate::Incomplete,
            Said::Malformed(_) if client.replies_owed > 0 => Fate::Blocked,
            Said::Malformed(malformed) => {
                client.say_error(&format!("Protocol error: {}", malformed.in_words()), 1, turn);
                client.finish(id, Reason::Malformed(malformed), &self.options, &mut self.due, turn);
                Fate::Served(said.len())
            }
        }
    }

    fn serve_request(&mut self, id: Id, request: Request, said: &[u8], turn: &mut Turn<'_>) -> Fate {
        let bytes = &said[..request.end];
        if is_empty(bytes, request.form) {
            // Servers do not answer it.
            return self.served(id, bytes.len());
        }
        let Some(client) = self.clients.at_mut(id) else { return Fate::Blocked };
        if bytes.len() > self.options.bytes_max {
            client.departure = Departure::TOO_LARGE;
            return self.pin(id, said, turn);
        }
        let found = match request.form {
            Form::Inline if !is_plain_line(bytes) => None,
            Form::Inline | Form::Array(_) => look_up(arguments(bytes, request.form)),
        };
        client.departure = match found {
            Some((_, Route::Shared)) => Departure::UNSHARED,
            Some(_) | None => Departure::of(arguments(bytes, request.form).next()),
        };
        let has_own = matches!(client.place, Place::Own(_));
        let Some((command, route)) = found else { return self.pin(id, said, turn) };
        match route {
            Route::Shared => self.share(id, request, said, Unit { end: request.end, replies: 1, command }, turn),
            Route::Own(Effect::Multi) if !has_own => match self.block(id, said) {
                Some((end, replies)) => self.share(id, request, said, Unit { end, replies, command }, turn),
                None => self.say_on_own(id, request, bytes, Effect::Multi, command, turn),
            },
            // Without a transaction and watched keys they are errors, or nothing at all, wherever they run.
            Route::Own(Effect::EndMulti | Effect::Unwatch) if !has_own => {
                self.share(id, request, said, Unit { end: request.end, replies: 1, command }, turn)
            }
            Route::Own(effect) => self.say_on_own(id, request, bytes, effect, command, turn),
            Route::Wait => self.wait(id, said, turn),
            Route::Quit => self.quit(id, request, said, turn),
            // Neither is what the table makes of a whole request.
            Route::Pinned | Route::Container | Route::OwnIfBlocking => self.pin(id, said, turn),
        }
    }

    fn served(&mut self, id: Id, bytes: usize) -> Fate {
        if let Some(client) = self.clients.at_mut(id) {
            client.cut_off();
        }
        Fate::Served(bytes)
    }

    /// The end of the transaction that begins `said` and how many replies it has, if all of it is there and every command
    /// in it may be shared: then nothing comes between its commands, and it may go over a shared connection.
    fn block(&self, id: Id, said: &[u8]) -> Option<(usize, u32)> {
        let class = self.clients.at(id)?.class.and_then(|class| self.classes.at(class));
        if class.is_some_and(|class| class.refuses_exec) {
            return None;
        }
        let mut framer = RequestFramer::new();
        let (mut at, mut replies) = (0, 0);
        loop {
            let request = framer.advance(&said[at..]).ok()??;
            let bytes = &said[at..at + request.end];
            at += request.end;
            if at > self.options.bytes_max || replies >= self.options.client_requests_max {
                return None;
            }
            if is_empty(bytes, request.form) {
                continue;
            }
            if request.form == Form::Inline && !is_plain_line(bytes) {
                return None;
            }
            replies += 1;
            match route(arguments(bytes, request.form)) {
                // Only an EXEC ends the transaction even where servers find fault with it: after `DISCARD extra` it goes on.
                Route::Own(Effect::EndMulti) if replies > 1 && is_exec(arguments(bytes, request.form)) => {
                    return Some((at, replies));
                }
                Route::Own(Effect::Multi) if replies == 1 => {}
                Route::Shared if replies > 1 => {}
                Route::Shared
                | Route::Own(_)
                | Route::OwnIfBlocking
                | Route::Wait
                | Route::Quit
                | Route::Pinned
                | Route::Container => return None,
            }
        }
    }

    /// Says the beginning of `said`, one request or a whole transaction, over a shared connection, and with it the requests
    /// behind it that go the same way.
    fn share(&mut self, id: Id, first: Request, said: &[u8], unit: Unit, turn: &mut Turn<'_>) -> Fate {
        let Some(client) = self.clients.at_mut(id) else { return Fate::Blocked };
        if client.waits || !has_room(client, unit.replies, &self.options) {
            return Fate::Blocked;
        }
        let effect = if unit.end > first.end { Effect::EndMulti } else { Effect::Nothing };
        if let Some((refusal, reason)) = client.refusal.take() {
            client.say_error(&refusal, unit.replies, turn);
            client.finish(id, reason, &self.options, &mut self.due, turn);
            return self.served(id, unit.end);
        }
        if let Place::Own(own) = client.place {
            // Others wait to ask for a change there: what does not need the connection waits until it has left it.
            if client.replies_owed > 0 && self.links.at(own).is_some_and(|link| link.is_probe) {
                return Fate::Blocked;
            }
            if !client.is_quiet() || !self.may_share(id, turn) {
                return self.say_on_own(id, first, &said[..first.end], Effect::Nothing, unit.command, turn);
            }
            self.leave_own(id, turn);
        }
        let Some(link_id) = self.shared_link(id, turn) else {
            let effect = if unit.end > first.end { Effect::Multi } else { Effect::Nothing };
            return self.say_on_own(id, first, &said[..first.end], effect, unit.command, turn);
        };
        if self.awaits_word(id, link_id) {
            self.await_word(id, turn);
            return Fate::Blocked;
        }
        let (Some(client), Some(link)) = (self.clients.at_mut(id), self.links.at_mut(link_id)) else {
            return Fate::Blocked;
        };
        let is_next = self.served_next == Some(id);
        let fits = link.replies_owed == 0 || link.replies_owed + unit.replies <= self.options.connection_requests_max;
        let has_room = fits && link.out.weight() < self.options.send_buffer_bytes;
        if !link.is_ready() || !has_room || !link.waiting.is_empty() && !is_next {
            client.waits = true;
            if is_next {
                link.waiting.push_front(id);
            } else {
                link.waiting.push_back(id);
            }
            return Fate::Blocked;
        }
        client.cut_off();
        let (end, replies) = if effect == Effect::Nothing {
            extend(id, unit, said, client, link, &self.options, turn.now)
        } else {
            link.owe(To::Client(id, effect, unit.command), unit.replies, turn.now);
            (unit.end, unit.replies)
        };
        link.out.push(&said[..end], turn);
        link.unsent += replies;
        self.meter.counts.requests_shared.add(replies.into());
        self.due.touch_link(link_id, link);
        client.replies_owed += replies;
        client.place = Place::Shared(link_id);
        Fate::Served(end)
    }

    /// Says a request over the client's own connection.
    fn say_on_own(
        &mut self,
        id: Id,
        request: Request,
        bytes: &[u8],
        effect: Effect,
        command: Command,
        turn: &mut Turn<'_>,
    ) -> Fate {
        let is_change = effect.changes_standing();
        let Some(link_id) = self.own_link(id, is_change, turn) else { return Fate::Blocked };
        if !is_change {
            self.end_probe(link_id);
        }
        let (Some(client), Some(link)) = (self.clients.at_mut(id), self.links.at_mut(link_id)) else {
            return Fate::Blocked;
        };
        let has_room = has_room(client, 1, &self.options) && link.out.weight() < self.options.send_buffer_bytes;
        // Before the server has agreed to what the client stands at, its commands would run as somebody else's.
        if !link.is_ready() || !has_room {
            return Fate::Blocked;
        }
        link.out.push(bytes, turn);
        link.owe(To::Client(id, effect, command), 1, turn.now);
        self.meter.counts.requests_own.add(1);
        self.due.touch_link(link_id, link);
        client.replies_owed += 1;
        client.asks = effect == Effect::Asking;
        if is_change {
            client.changes.push_back(Change::asked(effect, arguments(bytes, request.form)));
        }
        self.served(id, bytes.len())
    }

    /// From here on every byte of the client goes over a connection of its own.
    fn pin(&mut self, id: Id, said: &[u8], turn: &mut Turn<'_>) -> Fate {
        if let Some(client) = self.clients.at_mut(id) {
            client.is_pinned = true;
        }
        let Some(link_id) = self.own_link(id, false, turn) else { return Fate::Blocked };
        self.end_probe(link_id);
        let (Some(client), Some(link)) = (self.clients.at_mut(id), self.links.at_mut(link_id)) else {
            return Fate::Blocked;
        };
        if !link.is_ready() {
            return Fate::Blocked;
        }
        link.role = Role::Raw(id);
        client.is_raw = true;
        client.departed = client.departure;
        // Whose the replies are is clear from here on, and where they end is not looked at.
        link.owed.clear();
        link.replies_owed = 0;
        client.replies_owed = 0;
        client.changes.clear();
        self.leave_class(id, turn);
        self.pass_raw(id, said, turn)
    }

    fn pass_raw(&mut self, id: Id, said: &[u8], turn: &mut Turn<'_>) -> Fate {
        let Some(Place::Own(link_id)) = self.clients.at(id).map(|client| client.place) else {
            return Fate::Served(said.len());
        };
        let Some(link) = self.links.at_mut(link_id) else { return Fate::Served(said.len()) };
        if link.out.weight() >= self.options.send_buffer_bytes {
            return Fate::Blocked;
        }
        link.out.push(said, turn);
        self.due.touch_link(link_id, link);
        Fate::Served(said.len())
    }

    /// WAIT speaks of what was written before it on the same connection.
    fn wait(&mut self, id: Id, said: &[u8], turn: &mut Turn<'_>) -> Fate {
        let Some(client) = self.clients.at_mut(id) else { return Fate::Blocked };
        match client.offset {
            Offset::Asked => Fate::Blocked,
            Offset::Moved => self.pin(id, said, turn),
            // In a transaction it does not wait at all.
            Offset::Unknown if client.in_multi => self.pin(id, said, turn),
            Offset::Unknown if client.replies_owed > 0 => Fate::Blocked,
            Offset::Unknown => {
                let Some(link_id) = self.own_link(id, false, turn) else { return Fate::Blocked };
                self.end_probe(link_id);
                let (Some(client), Some(link)) = (self.clients.at_mut(id), self.links.at_mut(link_id)) else {
                    return Fate::Blocked;
                };
                if !link.is_ready() {
                    return Fate::Blocked;
                }
                client.offset = Offset::Asked;
                let mut script = Script::default();
                // It is replicated and changes nothing: no key, no watcher, nobody's view of any database. Servers up
                // to 7.0 take the offset after any command, later ones only after one that was replicated.
                script.say(Step::MoveOffset, &[b"SWAPDB", b"0", b"0"]);
                link.say(&script, turn);
                self.due.touch_link(link_id, link);
                Fate::Blocked
            }
            Offset::Refused => {
                client.is_pinned = true;
                client.say_error(WAIT_REFUSED, 1, turn);
                self.due.touch_client(id, client);
                match client.cut(said) {
                    Said::Request(request) => self.served(id, request.end),
                    Said::Incomplete | Said::Malformed(_) => Fate::Blocked,
                }
            }
        }
    }

    fn quit(&mut self, id: Id, request: Request, said: &[u8], turn: &mut Turn<'_>) -> Fate {
        let Some(client) = self.clients.at_mut(id) else { return Fate::Blocked };
        if matches!(client.place, Place::Own(_)) && !client.is_quiet() {
            return self.pin(id, said, turn);
        }
        if client.replies_owed > 0 {
            return Fate::Blocked;
        }
        client.out.push(b"+OK\r\n", turn);
        client.finish(id, Reason::ClientLeft, &self.options, &mut self.due, turn);
        Fate::Served(request.end)
    }
}

/// Whether so many more requests of the client may be under way.
fn has_room(client: &Client, replies: u32, options: &super::Options) -> bool {
    let fits = client.replies_owed == 0 || client.replies_owed + replies <= options.client_requests_max;
    fits && client.out.weight() < options.send_buffer_bytes
}

/// Owes the replies to `unit`, a request, and to those behind it that may go with it, as far as there is room for them.
/// Where these end, and how many replies it is.
fn extend(
    id: Id,
    unit: Unit,
    said: &[u8],
    client: &mut Client,
    link: &mut Link,
    options: &super::Options,
    now: Time,
) -> (usize, u32) {
    let requests_left = |max: u32, owed: u32| max.saturating_sub(owed + unit.replies);
    let for_client = requests_left(options.client_requests_max, client.replies_owed);
    let for_link = requests_left(options.connection_requests_max, link.replies_owed);
    let replies_max = unit.replies + for_client.min(for_link);
    let bytes_max = options.send_buffer_bytes.saturating_sub(link.out.weight());
    let Unit { mut end, mut replies, command } = unit;
    link.owe(To::Client(id, Effect::Nothing, command), replies, now);
    while replies < replies_max
        && end < bytes_max
        && let Said::Request(request @ Request { form: Form::Array(1..), .. }) = client.cut(&said[end..])
    {
        let bytes = &said[end..end + request.end];
        let Some((command, Route::Shared)) = look_up(arguments(bytes, request.form)) else { break };
        if bytes.len() > options.bytes_max {
            break;
        }
        client.cut_off();
        link.owe(To::Client(id, Effect::Nothing, command), 1, now);
        end += bytes.len();
        replies += 1;
    }
    (end, replies)
}

fn is_exec<'a>(mut arguments: impl Iterator<Item = &'a [u8]>) -> bool {
    arguments.next().is_some_and(|name| name.eq_ignore_ascii_case(b"EXEC")) && arguments.next().is_none()
}

fn is_empty(request: &[u8], form: Form) -> bool {
    match form {
        Form::Array(arguments) => arguments == 0,
        Form::Inline => request.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')),
    }
}
