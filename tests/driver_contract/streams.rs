//! Whole conversations: an echo server on a driver, and clients that write, read, dawdle, end and break off.
//!
//! Every byte comes back, once and in order, as long as the client stays; when all are gone everything is home. On the
//! simulated kernel this runs in hundreds of worlds in which everything that may go wrong does.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use ringwall::io::{Address, Completion, Driver, Errno, Fd, Op, OpId, Outcome, Token, Wait};
use ringwall::pool::SendBuf;
use ringwall::time::Time;

use crate::rig::{Got, Machine, Peer, pattern};
use crate::sim_rig::{self, SimMachine};
use crate::simulation::{Rng, Settings};
use crate::uring_rig::UringMachine;

/// Bytes to be echoed beyond which a session stops receiving.
const HIGH_WATER: usize = 4096;
/// A conversation that has not ended after so many turns never will.
const TURNS_MAX: usize = 200_000;
const ACCEPT: Token = Token(u64::MAX);

#[test]
fn every_byte_comes_back_on_a_real_ring() {
    for seed in 0..5 {
        converse(&mut UringMachine::new(), seed);
    }
}

#[test]
fn every_byte_comes_back_whatever_the_simulated_kernel_does() {
    for seed in 0..300 {
        let machine = &mut rough(seed);
        converse(machine, seed);
        machine.sim.assert_all_home();
    }
}

#[test]
fn one_seed_makes_one_history() {
    let history = |seed| converse(&mut rough(seed), seed);
    for seed in [1, 2, 3] {
        assert!(history(seed) == history(seed), "seed {seed} makes two histories");
    }
    assert!(history(1) != history(2));
}

fn rough(seed: u64) -> SimMachine {
    let open_files_max = if seed.is_multiple_of(3) { 8 } else { 1024 };
    SimMachine::with(Settings { enter_advances_time: true, open_files_max, ..Settings::rough(seed) })
}

#[test]
fn every_byte_comes_back_when_nothing_goes_wrong() {
    for seed in 0..20 {
        converse(&mut SimMachine::with(sim_rig::settings(seed)), seed);
    }
}

/// Runs some clients to their ends. Returns all that the server saw.
fn converse<M: Machine>(machine: &mut M, seed: u64) -> Vec<String> {
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let (listener, address) = machine.listen();
    let mut echo = Echo::new(listener);
    let mut waiting = rng.size(20);
    let mut clients = Vec::new();
    let mut turns = 0;
    while waiting > 0 || !clients.is_empty() || !echo.sessions.is_empty() {
        if waiting > 0 && rng.chance(200) {
            waiting -= 1;
            clients.push(Client::new(machine, &address, &mut rng));
        }
        clients.retain_mut(|client| !client.turn(&mut rng));
        echo.turn(machine.driver(), &mut rng);
        turns += 1;
        assert!(turns < TURNS_MAX, "stuck: {clients:#?} {:#?}", echo.sessions.values());
    }
    echo.stop(machine.driver());
    echo.history
}

struct Client<P> {
    peer: Option<P>,
    sent: Vec<u8>,
    written: usize,
    received: usize,
    shut: bool,
    /// Breaks off after it has written so much, with what it has not read.
    breaks_off: Option<usize>,
    reads: u16,
}

impl<P> fmt::Debug for Client<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, {} written, {} received, ", self.sent.len(), self.written, self.received)?;
        write!(f, "shut: {}, breaks off: {:?}", self.shut, self.breaks_off)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { receive, cancelled, sending, bytes, ended, failed, .. } = self;
        write!(f, "receive {receive:?} cancelled: {cancelled}, sending: {sending}, {} bytes to send, ", bytes.len())?;
        write!(f, "ended: {ended}, failed: {failed}")
    }
}

impl<P: Peer> Client<P> {
    fn new<M: Machine<Peer = P>>(machine: &mut M, address: &Address, rng: &mut Rng) -> Self {
        let len = rng.index(60_000) >> rng.below(10);
        let breaks_off = rng.chance(300).then(|| rng.index(len + 1));
        let reads = if rng.chance(300) { 50 } else { 800 };
        let peer = Some(machine.client(address));
        Self { peer, sent: pattern(len), written: 0, received: 0, shut: false, breaks_off, reads }
    }

    /// Does something. True when it is done.
    fn turn(&mut self, rng: &mut Rng) -> bool {
        let Some(peer) = &mut self.peer else { return true };
        if self.breaks_off.is_some_and(|written| self.written >= written) {
            self.peer.take().into_iter().for_each(Peer::close);
            return true;
        }
        if self.written < self.sent.len() && rng.chance(500) {
            let len = rng.size(self.sent.len() - self.written);
            self.written += peer.write(&self.sent[self.written..self.written + len]);
        } else if self.written == self.sent.len() && !self.shut {
            peer.shutdown_write();
            self.shut = true;
        }
        if !rng.chance(self.reads) {
            return false;
        }
        match peer.read() {
            Got::Bytes(bytes) => {
                let expected = &self.sent[self.received..self.written];
                assert!(expected.starts_with(&bytes), "other bytes than were sent, or more");
                self.received += bytes.len();
                false
            }
            Got::Nothing => false,
            Got::End => {
                assert!(self.shut && self.received == self.sent.len(), "{} of {}", self.received, self.sent.len());
                true
            }
            Got::Reset => panic!("a client that did nothing wrong is reset"),
        }
    }
}

/// Echoes, within the duties of a driver's user.
struct Echo {
    listener: Fd,
    accept: Option<OpId>,
    /// No accept before this time: the last one failed.
    paused_until: Time,
    sessions: BTreeMap<u64, Session>,
    made: u64,
    history: Vec<String>,
}

struct Session {
    socket: Fd,
    receive: Option<OpId>,
    cancelled: bool,
    sending: bool,
    /// To be sent.
    bytes: Vec<u8>,
    ended: bool,
    failed: bool,
}

impl Echo {
    const fn new(listener: Fd) -> Self {
        let paused_until = Time::from_nanos(0);
        Self { listener, accept: None, paused_until, sessions: BTreeMap::new(), made: 0, history: Vec::new() }
    }

    fn turn<D: Driver>(&mut self, driver: &mut D, rng: &mut Rng) {
        if self.accept.is_none() && driver.now() >= self.paused_until {
            self.accept = Some(driver.push(ACCEPT, Op::Accept { listener: self.listener }));
        }
        self.sessions.retain(|&number, session| session.go_on(driver, number, rng));
        let until = driver.now() + Duration::from_micros(rng.below(500));
        driver.enter(Wait::Until(until)).unwrap();
        for _ in 0..rng.size(64) {
            let Some(completion) = driver.next_completion() else { break };
            self.history.push(format!("{completion:?} at {:?}", driver.now()));
            self.complete(driver, completion);
        }
    }

    fn complete<D: Driver>(&mut self, driver: &mut D, completion: Completion) {
        let Completion { token, outcome, more } = completion;
        if let Outcome::Accepted(result) = outcome {
            if result.is_err() {
                self.paused_until = driver.now() + Duration::from_millis(1);
            }
            if let Ok(socket) = result {
                let session = Session {
                    socket,
                    receive: None,
                    cancelled: false,
                    sending: false,
                    bytes: Vec::new(),
                    ended: false,
                    failed: false,
                };
                self.sessions.insert(self.made * 2, session);
                self.made += 1;
            }
            if !more {
                self.accept = None;
            }
            return;
        }
        let session = self.sessions.get_mut(&(token.0 & !1)).expect("completions only of sessions that are there");
        match outcome {
            Outcome::Received { result, .. } => {
                match result {
                    Ok(Some(lease)) => {
                        session.bytes.extend_from_slice(driver.bytes_mut(&lease));
                        driver.recycle(lease);
                    }
                    Ok(None) => session.ended = true,
                    Err(Errno(libc::ENOBUFS)) => {}
                    Err(Errno(libc::ECANCELED)) => assert!(session.cancelled),
                    Err(_) => session.failed = true,
                }
                if !more {
                    session.receive = None;
                    session.cancelled = false;
                }
            }
            Outcome::Sent { buffer, result } => {
                session.sending = false;
                session.failed |= result != Ok(buffer.len());
            }
            Outcome::Accepted(_) | Outcome::Connected(_) | Outcome::Rung => panic!("{outcome:?}"),
        }
    }

    fn stop<D: Driver>(&mut self, driver: &mut D) {
        if let Some(op) = self.accept {
            driver.push(ACCEPT, Op::Cancel { op });
        }
        while self.accept.is_some() {
            driver.enter(Wait::Forever).unwrap();
            while let Some(completion) = driver.next_completion() {
                self.complete(driver, completion);
            }
        }
        driver.close(self.listener);
    }
}

impl Session {
    /// Pushes what can be pushed. False when the session is over.
    fn go_on<D: Driver>(&mut self, driver: &mut D, number: u64, rng: &mut Rng) -> bool {
        let Self { socket, .. } = *self;
        let over = self.failed || (self.ended && self.bytes.is_empty());
        if !self.sending && !self.bytes.is_empty() && !self.failed {
            let mut buffer = SendBuf::with_capacity(self.bytes.len());
            buffer.append(&self.bytes);
            self.bytes.clear();
            driver.push(Token(number), Op::Send { socket, buffer });
            self.sending = true;
        }
        let wanted = !over && self.bytes.len() < HIGH_WATER && !rng.chance(20);
        match self.receive {
            None if wanted && !self.ended => {
                let many = rng.chance(700);
                let data_waits = rng.chance(500);
                let op = if many { Op::ReceiveMany { socket } } else { Op::ReceiveOnce { socket, data_waits } };
                self.receive = Some(driver.push(Token(number + 1), op));
            }
            Some(op) if !wanted && !self.cancelled => {
                driver.push(Token(number), Op::Cancel { op });
                self.cancelled = true;
            }
            None | Some(_) => {}
        }
        if over && self.receive.is_none() && !self.sending {
            driver.close(socket);
            return false;
        }
        true
    }
}
