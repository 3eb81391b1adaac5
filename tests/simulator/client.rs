//! A client of the proxy: it plays its script and remembers what it has said, heard and seen.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use ringwall::events::CloseRecord;
use ringwall::io::Address;
use ringwall::time::Time;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::front::introduction;
use crate::mouth::Mouth;
use crate::script::{ClientScript, Language, Leave, Step};
use crate::simulation::{Peer, Read, Sim, Witness};
use crate::speech::{Heard, Speaker};

/// More than this of its own words waiting makes a client wait.
const BACKLOG_BYTES: usize = 64 * 1024;

/// The most plaintext in one record (RFC 8446, section 5.1).
const RECORD_BYTES: usize = 16 * 1024;

/// How long a client tries to get its last words out before it leaves without them.
const PATIENCE: Duration = Duration::from_secs(4);

/// How a peer has seen the proxy's stream end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Fin,
    Cut,
}

pub(crate) struct Client {
    pub(crate) number: u16,
    pub(crate) script: ClientScript,
    pub(crate) witness: Witness,
    /// Its own, or the proxy's in front of it.
    pub(crate) address: Option<std::net::SocketAddr>,
    /// What a proxy in front says that its address is.
    announced: Option<std::net::SocketAddr>,
    header_bytes: u64,
    peer: Option<Peer>,
    tls: Option<ClientConnection>,
    mouth: Mouth,
    next_step: usize,
    step_since: Time,
    awake: bool,
    alarm: Option<Time>,
    /// Bytes for the wire that the kernel has not taken yet.
    outgoing: Vec<u8>,
    outgoing_made: u64,
    pub(crate) sent: u64,
    said: u64,
    /// Where records end: on the wire, and in what is said.
    marks: Vec<(u64, u64)>,
    pub(crate) heard: Heard,
    /// Bytes heard on the wire.
    pub(crate) received: u64,
    /// An answer of the proxy itself.
    pub(crate) error: Vec<u8>,
    pub(crate) goodbye_said: bool,
    pub(crate) goodbye_heard: bool,
    pub(crate) junk_said: bool,
    pub(crate) left: Option<Leave>,
    pub(crate) end: Option<(End, Time)>,
    /// Its kernel has told it that writing is over.
    pub(crate) write_failed: bool,
    pub(crate) shook_hands: bool,
}

impl Client {
    pub(crate) fn connect(
        number: u16,
        script: ClientScript,
        sim: &Sim,
        address: &Address,
        config: &Arc<ClientConfig>,
        behind_proxy: bool,
    ) -> Self {
        let peer = sim.connect(address);
        let now = sim.now();
        let tls = matches!(script.language, Language::Tls13 | Language::Tls12).then(|| {
            let name = ServerName::try_from("ringwall.test").unwrap();
            let mut tls = ClientConnection::new(Arc::clone(config), name).unwrap();
            tls.set_buffer_limit(None);
            tls
        });
        let mut client = Self {
            number,
            witness: peer.witness(),
            address: peer.address(),
            announced: None,
            header_bytes: 0,
            peer: Some(peer),
            tls,
            mouth: Mouth::new(script.appetite, now),
            script,
            next_step: 0,
            step_since: now,
            awake: true,
            alarm: None,
            outgoing: Vec::new(),
            outgoing_made: 0,
            sent: 0,
            said: 0,
            marks: Vec::new(),
            heard: Heard::default(),
            received: 0,
            error: Vec::new(),
            goodbye_said: false,
            goodbye_heard: false,
            junk_said: false,
            left: None,
            end: None,
            write_failed: false,
            shook_hands: false,
        };
        if behind_proxy && client.script.language != Language::Silent {
            let (header, announced) = introduction(number);
            client.announced = Some(announced);
            client.header_bytes = header.len() as u64;
            client.queue(&header);
        }
        client.say_first_words();
        client
    }

    fn say_first_words(&mut self) {
        match self.script.language {
            Language::Tls13 | Language::Tls12 => self.take_ciphertext(),
            Language::Plaintext => self.queue(b"*1\r\n$4\r\nPING\r\n"),
            Language::Garbage => {
                let first = [0x16, 0x80, 0x00, 0x17][usize::from(self.number % 4)];
                self.queue(&[first, 0x03, 0x01, 0x00, 0x40]);
            }
            Language::Silent | Language::Plain => {}
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
        let acted = self.act(now);
        let written = self.write();
        self.awake = read || acted || written;
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
                self.received += bytes.len() as u64;
                self.hear(&bytes);
            }
            Read::Nothing => return false,
            Read::End if self.write_failed => self.end = Some((End::Cut, now)),
            Read::End => self.end = Some((End::Fin, now)),
            Read::Failed(_) => self.end = Some((End::Cut, now)),
        }
        true
    }

    fn hear(&mut self, mut wire: &[u8]) {
        let Some(mut tls) = self.tls.as_mut() else { return self.hear_plaintext(wire) };
        while !wire.is_empty() {
            tls.read_tls(&mut wire).unwrap();
            let state = match tls.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    assert!(self.junk_said, "client {}: the proxy breaks TLS: {error}", self.number);
                    return;
                }
            };
            let mut plaintext = vec![0; state.plaintext_bytes_to_read()];
            tls.reader().read_exact(&mut plaintext).unwrap();
            self.goodbye_heard |= state.peer_has_closed();
            self.shook_hands |= !tls.is_handshaking();
            self.hear_plaintext(&plaintext);
            let Some(same) = &mut self.tls else { return };
            tls = same;
        }
        self.take_ciphertext();
    }

    fn hear_plaintext(&mut self, plaintext: &[u8]) {
        let is_error = self.heard.bytes == 0 && plaintext.first() == Some(&b'-');
        let has_ears = self.tls.is_some() || self.script.language == Language::Plain;
        if self.error.is_empty() && !is_error && has_ears {
            self.heard.hear(&format!("client {}", self.number), plaintext);
        } else {
            self.error.extend_from_slice(plaintext);
        }
    }

    fn queue(&mut self, wire: &[u8]) {
        self.outgoing.extend_from_slice(wire);
        self.outgoing_made += wire.len() as u64;
    }

    fn take_ciphertext(&mut self) {
        let Some(tls) = &mut self.tls else { return };
        let before = self.outgoing.len();
        while tls.wants_write() {
            tls.write_tls(&mut self.outgoing).unwrap();
        }
        self.outgoing_made += (self.outgoing.len() - before) as u64;
    }

    fn say(&mut self, len: usize) {
        let words = Speaker::Client(self.number).bytes(self.said, len);
        match &mut self.tls {
            Some(tls) => {
                tls.writer().write_all(&words).unwrap();
                self.take_ciphertext();
            }
            None => self.queue(&words),
        }
        if self.tls.is_none() && self.script.language != Language::Plain {
            return;
        }
        self.said += len as u64;
        self.marks.push((self.outgoing_made, self.said));
    }

    /// Goes on in its script. Whether anything changed.
    fn act(&mut self, now: Time) -> bool {
        if self.flee() || self.part(now) {
            return true;
        }
        let handshaking = self.tls.as_ref().is_some_and(|tls| tls.is_handshaking());
        let Some(&step) = self.script.steps.get(self.next_step) else { return false };
        if handshaking || self.peer.is_none() || self.outgoing.len() > BACKLOG_BYTES {
            self.step_since = now;
            return false;
        }
        let until = match step {
            Step::Await { bytes, patience } => {
                let over = self.heard.bytes >= bytes || self.end.is_some();
                (!over).then_some(self.step_since + patience)
            }
            Step::Wait(wait) => Some(self.step_since + wait),
            Step::Leave(Leave::HalfClose | Leave::Close) if !self.outgoing.is_empty() => {
                Some(self.step_since + PATIENCE)
            }
            Step::Say(_) | Step::Flood { .. } | Step::RefreshKeys | Step::Junk | Step::CloseNotify | Step::Leave(_) => {
                None
            }
        };
        if let Some(until) = until.filter(|&until| until > now) {
            self.set_alarm(until);
            return false;
        }
        self.next_step += 1;
        self.step_since = now;
        self.perform(step);
        true
    }

    fn perform(&mut self, step: Step) {
        match step {
            Step::Say(mut bytes) => {
                while bytes > 0 {
                    let piece = bytes.min(RECORD_BYTES);
                    self.say(piece);
                    bytes -= piece;
                }
            }
            Step::Flood { records, bytes } => (0..records).for_each(|_| self.say(bytes)),
            Step::Await { .. } | Step::Wait(_) => {}
            Step::RefreshKeys => {
                if let Some(tls) = &mut self.tls {
                    // TLS 1.2 cannot.
                    let _ = tls.refresh_traffic_keys();
                    self.take_ciphertext();
                }
            }
            // Without TLS nothing is junk, and FIN is all there is to say goodbye.
            Step::Junk | Step::CloseNotify if self.script.language == Language::Plain => {}
            Step::Junk => {
                self.junk_said = true;
                self.queue(&[0x17, 0x03, 0x03, 0x00, 0x20]);
                self.queue(&[0x5a; 0x20]);
            }
            Step::CloseNotify => {
                self.goodbye_said = true;
                if let Some(tls) = &mut self.tls {
                    tls.send_close_notify();
                    self.take_ciphertext();
                }
            }
            Step::Leave(leave) => self.leave(leave),
        }
    }

    fn leave(&mut self, leave: Leave) {
        self.left = Some(leave);
        self.outgoing.clear();
        match leave {
            Leave::HalfClose => self.peer.iter_mut().for_each(Peer::shutdown_write),
            Leave::Close => self.peer.take().into_iter().for_each(Peer::close),
            Leave::Reset => self.peer.take().into_iter().for_each(Peer::reset),
        }
    }

    /// Its machine is cut off.
    pub(crate) fn cut(&mut self) {
        if self.peer.is_some() {
            self.leave(Leave::Reset);
        }
    }

    /// Leaves in the middle of its handshake, if that is its script.
    fn flee(&mut self) -> bool {
        let Some((bytes, leave)) = self.script.flees else { return false };
        let flees = self.left.is_none() && self.sent >= bytes as u64;
        if flees {
            self.leave(leave);
        }
        flees
    }

    /// Closes some time after the proxy has ended, or it has no reason to stay.
    fn part(&mut self, now: Time) -> bool {
        let (Some((_, since)), Some(lingers)) = (self.end, self.script.lingers) else { return false };
        if self.peer.is_none() {
            return false;
        }
        let parts = since + lingers <= now;
        if parts {
            let left = self.left.unwrap_or(Leave::Close);
            self.leave(Leave::Close);
            self.left = Some(left);
        } else {
            self.set_alarm(since + lingers);
        }
        parts
    }

    fn write(&mut self) -> bool {
        let Some(peer) = &mut self.peer else { return false };
        let most = self.script.flees.map_or(u64::MAX, |(bytes, _)| (bytes as u64).saturating_sub(self.sent));
        let len = self.outgoing.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        if len == 0 || self.write_failed || self.left.is_some() {
            return false;
        }
        match peer.write(&self.outgoing[..len]) {
            Ok(written) => {
                self.outgoing.drain(..written);
                self.sent += written as u64;
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
    pub(crate) fn said_within(&self, wire: u64) -> u64 {
        if self.script.language == Language::Plain {
            return wire.saturating_sub(self.header_bytes).min(self.said);
        }
        let records = self.marks.partition_point(|&(end, _)| end <= wire);
        records.checked_sub(1).map_or(0, |last| self.marks[last].1)
    }

    /// How much of what it has said its kernel has taken.
    pub(crate) fn said(&self) -> u64 {
        self.said_within(self.sent)
    }

    /// How much of what it has said cannot be taken back: a reset takes back what has not arrived.
    pub(crate) fn said_for_good(&self) -> u64 {
        if self.witness.has_cut() { self.said_within(self.witness.arrived()) } else { self.said() }
    }

    /// Whether it has ended its side, and its kernel has taken all it said before.
    pub(crate) fn has_ended(&self) -> bool {
        self.left.is_some() || (self.goodbye_said || self.junk_said) && self.outgoing.is_empty()
    }

    /// Whether this is the end of its session.
    pub(crate) fn is_in(&self, record: &CloseRecord) -> bool {
        match record.proxy {
            Some(proxy) => self.address == Some(proxy) && record.client == self.announced,
            None => record.client == self.address,
        }
    }

    pub(crate) fn speaks_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether it is going to leave before its handshake is over.
    pub(crate) const fn flees(&self) -> bool {
        self.script.flees.is_some()
    }
}
