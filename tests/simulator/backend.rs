//! A server's end of one connection that the proxy made: it plays its script and remembers what it has said, heard
//! and seen.

use ringwall::time::Time;

use crate::client::End;
use crate::mouth::Mouth;
use crate::script::{Cue, Leave, ServerScript};
use crate::simulation::{Peer, Read, Witness};
use crate::speech::{Heard, Speaker};

/// What is said in one go at most.
const BREATH: u64 = 32 * 1024;

pub(crate) struct Backend {
    pub(crate) number: u16,
    /// Whose connection it is.
    pub(crate) server: usize,
    pub(crate) script: ServerScript,
    pub(crate) witness: Witness,
    /// The proxy's port.
    pub(crate) port: Option<u16>,
    peer: Option<Peer>,
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
    pub(crate) fn new(number: u16, server: usize, script: ServerScript, peer: Peer, now: Time) -> Self {
        Self {
            number,
            server,
            mouth: Mouth::new(script.appetite, now),
            script,
            witness: peer.witness(),
            port: peer.remote_address().map(|address| address.port()),
            peer: Some(peer),
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
        let ended = !said && self.ends(now);
        self.awake = read || said || ended;
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
                self.heard.hear(&format!("backend {}", self.number), &bytes);
                self.thought_at = now + self.script.thinks;
            }
            Read::Nothing => return false,
            Read::End if self.write_failed => self.end = Some((End::Cut, now)),
            Read::End => self.end = Some((End::Fin, now)),
            Read::Failed(_) => self.end = Some((End::Cut, now)),
        }
        true
    }

    /// How much it would have said by now.
    fn due(&mut self, now: Time) -> u64 {
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

    fn say(&mut self, now: Time) -> bool {
        let due = self.due(now);
        let Some(peer) = &mut self.peer else { return false };
        let len = due.saturating_sub(self.said).min(BREATH);
        if len == 0 || self.left.is_some() || self.write_failed {
            return false;
        }
        let len = usize::try_from(len).expect("a breath");
        match peer.write(&Speaker::Backend(self.number).bytes(self.said, len)) {
            Ok(written) => {
                self.said += written as u64;
                written > 0
            }
            Err(_) => {
                self.write_failed = true;
                true
            }
        }
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
        let blocked = self.due(now) > self.said && !self.write_failed;
        match (self.end, self.script.farewell) {
            (Some(_), Some(farewell)) if !blocked => self.leave(farewell, now),
            _ => false,
        }
    }

    fn leave(&mut self, leave: Leave, now: Time) -> bool {
        self.left.get_or_insert((leave, now));
        match leave {
            Leave::HalfClose => self.peer.iter_mut().for_each(Peer::shutdown_write),
            Leave::Close => self.peer.take().into_iter().for_each(Peer::close),
            Leave::Reset => self.peer.take().into_iter().for_each(Peer::reset),
        }
        true
    }

    /// Its machine is cut off.
    pub(crate) fn cut(&mut self, now: Time) {
        if self.peer.is_some() {
            self.leave(Leave::Reset, now);
        }
    }

    /// How much of what it has said cannot be taken back: a reset takes back what has not arrived.
    pub(crate) fn said_for_good(&self) -> u64 {
        if self.witness.has_cut() { self.witness.arrived() } else { self.said }
    }
}
