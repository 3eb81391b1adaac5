//! A server's end of one connection that the proxy made: it plays its script and remembers what it has said, heard
//! and seen.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use ringwall::time::Time;
use rustls::{ServerConfig, ServerConnection};

use crate::client::End;
use crate::front::Front;
use crate::mouth::Mouth;
use crate::script::{Cue, Leave, ServerScript};
use crate::simulation::{Peer, Read, Witness};
use crate::speech::{Heard, Speaker};

/// What is said in one go at most.
const BREATH: u64 = 32 * 1024;

/// The most plaintext in one record (RFC 8446, section 5.1).
const RECORD_BYTES: usize = 16 * 1024;

/// More than this of its own words waiting makes it wait.
const BACKLOG_BYTES: usize = 64 * 1024;

pub(crate) struct Backend {
    pub(crate) number: u16,
    /// Whose connection it is.
    pub(crate) server: usize,
    pub(crate) script: ServerScript,
    pub(crate) witness: Witness,
    /// The proxy's port.
    pub(crate) port: Option<u16>,
    peer: Option<Peer>,
    tls: Option<ServerConnection>,
    front: Front,
    /// Bytes of answers to greetings, without TLS.
    answered: u64,
    /// Bytes for the wire that the kernel has not taken yet.
    outgoing: Vec<u8>,
    outgoing_made: u64,
    sent: u64,
    /// What it has put into words; with TLS, `said` follows as whole records leave.
    made: u64,
    /// Where records end: on the wire, and in what is said.
    marks: Vec<(u64, u64)>,
    pub(crate) goodbye_said: bool,
    mouth: Mouth,
    since: Time,
    awake: bool,
    alarm: Option<Time>,
    pub(crate) heard: Heard,
    /// When the replies to what has been heard last are thought out.
    thought_at: Time,
    pushed: u64,
    next_push: usize,
    pub(crate) said: u64,
    pub(crate) left: Option<(Leave, Time)>,
    pub(crate) end: Option<(End, Time)>,
    write_failed: bool,
}

impl Backend {
    pub(crate) fn new(
        number: u16,
        server: usize,
        script: ServerScript,
        peer: Peer,
        tls: Option<Arc<ServerConfig>>,
        front: Front,
        now: Time,
    ) -> Self {
        Self {
            number,
            server,
            mouth: Mouth::new(script.appetite, now),
            script,
            witness: peer.witness(),
            port: peer.remote_address().map(|address| address.port()),
            peer: Some(peer),
            tls: tls.map(|config| {
                let mut tls = ServerConnection::new(config).unwrap();
                tls.set_buffer_limit(None);
                tls
            }),
            front,
            answered: 0,
            outgoing: Vec::new(),
            outgoing_made: 0,
            sent: 0,
            made: 0,
            marks: Vec::new(),
            goodbye_said: false,
            since: now,
            awake: true,
            alarm: None,
            heard: Heard::default(),
            thought_at: now,
            pushed: 0,
            next_push: 0,
            said: 0,
            left: None,
            end: None,
            write_failed: false,
        }
    }

    /// Whether it has something to do.
    pub(crate) fn is_awake(&mut self, now: Time) -> bool {
        let Some(peer) = &mut self.peer else { return false };
        self.awake |= peer.take_changed() | self.alarm.is_some_and(|alarm| alarm <= now);
        self.awake
    }

    /// When it wakes if nothing happens.
    pub(crate) fn wakes_at(&self, now: Time) -> Option<Time> {
        self.peer.as_ref()?;
        self.alarm.into_iter().chain(self.mouth.opens_at(now)).min()
    }

    /// Does one round of what can be done.
    pub(crate) fn turn(&mut self, now: Time) {
        self.alarm = None;
        let read = self.read(now);
        let said = self.say(now);
        let written = self.write();
        let ended = !said && !written && self.ends(now);
        self.awake = read || said || written || ended;
        if let Some(at) = self.mouth.opens_at(now) {
            self.set_alarm(at);
        }
    }

    fn set_alarm(&mut self, at: Time) {
        self.alarm = Some(self.alarm.map_or(at, |alarm| alarm.min(at)));
    }

    fn read(&mut self, now: Time) -> bool {
        let room = self.mouth.room(now);
        let (None, Some(peer)) = (self.end, &mut self.peer) else { return false };
        if room == 0 {
            return false;
        }
        match peer.read(room) {
            Read::Bytes(bytes) => {
                self.mouth.swallow(now);
                self.hear(&bytes);
                self.thought_at = now + self.script.thinks;
            }
            Read::Nothing => return false,
            Read::End if self.write_failed => self.end = Some((End::Cut, now)),
            Read::End => self.end = Some((End::Fin, now)),
            Read::Failed(_) => self.end = Some((End::Cut, now)),
        }
        true
    }

    /// How much it would have said by now. Where something may come in front of words, it waits for these.
    fn due(&mut self, now: Time) -> u64 {
        if !self.front.is_bare() && self.heard.bytes == 0 {
            return 0;
        }
        while let Some(&(after, bytes)) = self.script.pushes.get(self.next_push) {
            if self.since + after > now {
                self.set_alarm(self.since + after);
                break;
            }
            self.pushed += bytes as u64;
            self.next_push += 1;
        }
        if self.thought_at > now {
            self.set_alarm(self.thought_at);
            return self.pushed;
        }
        self.pushed + self.heard.bytes * self.script.reply_permille / 1000
    }

    fn hear(&mut self, mut wire: &[u8]) {
        let who = format!("backend {}", self.number);
        wire = self.front.take_header(wire);
        let Some(tls) = &mut self.tls else { return self.heard.hear(&who, &self.front.take_commands(wire)) };
        while !wire.is_empty() {
            tls.read_tls(&mut wire).unwrap();
            let state =
                tls.process_new_packets().unwrap_or_else(|error| panic!("{who}: the proxy breaks TLS: {error}"));
            let mut plaintext = vec![0; state.plaintext_bytes_to_read()];
            tls.reader().read_exact(&mut plaintext).unwrap();
            self.heard.hear(&who, &self.front.take_commands(&plaintext));
        }
        self.take_ciphertext();
    }

    fn take_ciphertext(&mut self) {
        let Some(tls) = &mut self.tls else { return };
        let before = self.outgoing.len();
        while tls.wants_write() {
            tls.write_tls(&mut self.outgoing).unwrap();
        }
        self.outgoing_made += (self.outgoing.len() - before) as u64;
    }

    pub(crate) const fn speaks_tls(&self) -> bool {
        self.tls.is_some()
    }

    fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Says what is to be said to a greeting.
    fn answer(&mut self, now: Time) -> bool {
        let is_over = self.left.is_some() || self.write_failed || self.goodbye_said || self.peer.is_none();
        if self.front.answers.is_empty() || is_over {
            return false;
        }
        if self.thought_at > now {
            self.set_alarm(self.thought_at);
            return false;
        }
        let answers = std::mem::take(&mut self.front.answers);
        if let Some(tls) = &mut self.tls {
            tls.writer().write_all(&answers).unwrap();
            self.take_ciphertext();
        } else {
            self.answered += answers.len() as u64;
            self.outgoing_made += answers.len() as u64;
            self.outgoing.extend_from_slice(&answers);
        }
        true
    }

    fn say(&mut self, now: Time) -> bool {
        if self.answer(now) {
            return true;
        }
        let due = self.due(now);
        let len = due.saturating_sub(self.made).min(BREATH);
        let is_over = self.left.is_some() || self.write_failed || self.goodbye_said || self.peer.is_none();
        if len == 0 || is_over || self.is_handshaking() || self.outgoing.len() > BACKLOG_BYTES {
            return false;
        }
        let words = Speaker::Backend(self.number).bytes(self.made, usize::try_from(len).expect("a breath"));
        for piece in words.chunks(RECORD_BYTES) {
            match &mut self.tls {
                Some(tls) => {
                    tls.writer().write_all(piece).unwrap();
                    self.take_ciphertext();
                }
                None => {
                    self.outgoing_made += piece.len() as u64;
                    self.outgoing.extend_from_slice(piece);
                }
            }
            self.made += piece.len() as u64;
            self.marks.push((self.outgoing_made, self.made));
        }
        true
    }

    fn write(&mut self) -> bool {
        let Some(peer) = &mut self.peer else { return false };
        if self.outgoing.is_empty() || self.write_failed || self.left.is_some() {
            return false;
        }
        match peer.write(&self.outgoing) {
            Ok(written) => {
                self.outgoing.drain(..written);
                self.sent += written as u64;
                self.said = self.said_within(self.sent);
                written > 0
            }
            Err(_) => {
                self.write_failed = true;
                self.outgoing.clear();
                true
            }
        }
    }

    /// How much of what it has said is complete within the first `wire` bytes it has sent.
    fn said_within(&self, wire: u64) -> u64 {
        if self.tls.is_none() {
            return wire.saturating_sub(self.answered).min(self.made);
        }
        let records = self.marks.partition_point(|&(end, _)| end <= wire);
        records.checked_sub(1).map_or(0, |last| self.marks[last].1)
    }

    /// Ends when its cue has come, or the proxy has ended and nothing more is to be said.
    fn ends(&mut self, now: Time) -> bool {
        if self.peer.is_none() || matches!(self.left, Some((Leave::Close | Leave::Reset, _))) {
            return false;
        }
        if self.left.is_some() {
            // It has shut its side, and now the proxy's is over, too.
            return self.end.is_some() && self.script.farewell.is_some() && self.leave(Leave::Close, now);
        }
        if let Some((cue, leave)) = self.script.ends {
            let come = match cue {
                Cue::Heard(bytes) => self.heard.bytes >= bytes,
                Cue::Said(bytes) => self.said >= bytes,
                Cue::After(after) => {
                    if self.since + after > now {
                        self.set_alarm(self.since + after);
                    }
                    self.since + after <= now
                }
            };
            if come {
                return self.leave(leave, now);
            }
        }
        let blocked = self.due(now) > self.said && !self.write_failed && !self.goodbye_said;
        match (self.end, self.script.farewell) {
            (Some(_), Some(farewell)) if !blocked => self.leave(farewell, now),
            _ => false,
        }
    }

    /// Leaves, in TLS with a goodbye in front; `false` while that has not gone.
    fn leave(&mut self, leave: Leave, now: Time) -> bool {
        if leave != Leave::Reset && self.left.is_none() && !self.write_failed {
            self.say_goodbye();
            if !self.outgoing.is_empty() {
                return self.write();
            }
        }
        self.left.get_or_insert((leave, now));
        match leave {
            Leave::HalfClose => self.peer.iter_mut().for_each(Peer::shutdown_write),
            Leave::Close => self.peer.take().into_iter().for_each(Peer::close),
            Leave::Reset => self.peer.take().into_iter().for_each(Peer::reset),
        }
        true
    }

    fn say_goodbye(&mut self) {
        let silent = self.goodbye_said || self.script.is_curt || self.is_handshaking();
        if let (Some(tls), false) = (&mut self.tls, silent) {
            self.goodbye_said = true;
            tls.send_close_notify();
            self.take_ciphertext();
        }
    }

    /// Its machine is cut off.
    pub(crate) fn cut(&mut self, now: Time) {
        if self.peer.is_some() {
            self.leave(Leave::Reset, now);
        }
    }

    /// How much of what it has said cannot be taken back: a reset takes back what has not arrived.
    pub(crate) fn said_for_good(&self) -> u64 {
        if self.witness.has_cut() { self.said_within(self.witness.arrived()) } else { self.said }
    }
}
