//! One run: who is awake takes turns, in an order that the seed draws, and time moves when nobody is.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use ringwall::dispatcher::Command;
use ringwall::pulse::Pulse;
use ringwall::shard::Report;
use ringwall::time::Time;
use rustls::{ClientConfig, ServerConfig};

use crate::backend::Backend;
use crate::client::Client;
use crate::control::Control;
use crate::front::{Front, Manners};
use crate::plan::{Answer, Mishap, Plan};
use crate::process::{Process, backend_id, client_config, server_config};
use crate::script::{ClientScript, Language, ServerScript};
use crate::simulation::{DriverId, Rng, Server, Sim};
use crate::trace::Trace;

/// Turns after which a run is taken to go on for ever.
const TURNS_MAX: u64 = 500_000;

/// Beyond its timeouts, what a drain may take: twice the linger time, and what the world delays.
const DRAIN_SLACK: Duration = Duration::from_secs(6);

/// Who can take a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Actor {
    Shard(usize),
    Dispatcher,
    Control,
    Client(usize),
    Backend(usize),
}

impl Actor {
    const fn kind(self) -> usize {
        match self {
            Self::Shard(_) => 0,
            Self::Dispatcher => 1,
            Self::Control => 2,
            Self::Client(_) => 3,
            Self::Backend(_) => 4,
        }
    }

    fn number(self) -> u64 {
        let index = match self {
            Self::Shard(index) | Self::Client(index) | Self::Backend(index) => index,
            Self::Dispatcher | Self::Control => 0,
        };
        (self.kind() as u64) << 32 | index as u64
    }
}

pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) sim: Sim,
    pub(crate) process: Process,
    pub(crate) control: Control,
    pub(crate) clients: Vec<Client>,
    pub(crate) backends: Vec<Backend>,
    pub(crate) reports: Vec<Report>,
    /// When the process was told to drain, and how long it may take.
    pub(crate) drained: Option<(Time, Duration)>,
    pub(crate) stopped: bool,
    pub(crate) trace: Trace,
    servers: Vec<Server>,
    configs: [Arc<ClientConfig>; 2],
    server_config: Arc<ServerConfig>,
    rng: Rng,
    arrivals: Vec<(Time, ClientScript)>,
    mishaps: Vec<(Time, Mishap)>,
    unasked_bytes: usize,
    pub(crate) jumped: Duration,
    /// Of the shards in their order, then of the dispatcher.
    pub(crate) pulses: Vec<Pulse>,
    /// How often all threads were asked for a sign of life.
    pub(crate) pings: u64,
    /// Since when there are places while somebody waits.
    pub(crate) idle_since: Option<Time>,
    turns: u64,
    candidates: Vec<Actor>,
}

impl Run {
    pub(crate) fn new(plan: Plan) -> Self {
        let sim = Sim::new(plan.settings.clone());
        let (process, control) = Process::start(&plan, &sim);
        let start = sim.now();
        let mut arrivals: Vec<_> = plan.clients.iter().map(|script| (start + script.arrives, script.clone())).collect();
        arrivals.sort_by_key(|&(at, _)| at);
        arrivals.reverse();
        let mut mishaps: Vec<_> = plan.mishaps.iter().map(|&(after, mishap)| (start + after, mishap)).collect();
        mishaps.reverse();
        Self {
            servers: plan.servers.iter().map(|address| sim.serve(address)).collect(),
            configs: [client_config(Language::Tls12), client_config(Language::Tls13)],
            server_config: server_config(),
            rng: Rng::new(plan.seed),
            unasked_bytes: plan.unasked_bytes,
            plan,
            sim,
            control,
            clients: Vec::new(),
            backends: Vec::new(),
            reports: Vec::new(),
            drained: None,
            stopped: false,
            trace: Trace::new(),
            arrivals,
            mishaps,
            jumped: Duration::ZERO,
            pulses: (0..=process.shards.len()).map(|number| Pulse::new(format!("thread {number}"))).collect(),
            pings: 0,
            process,
            idle_since: None,
            turns: 0,
            candidates: Vec::new(),
        }
    }

    /// Plays to the end, and gives the fingerprint of all that happened.
    pub(crate) fn play(&mut self) -> Trace {
        while !self.is_over() {
            self.turns += 1;
            assert!(self.turns < TURNS_MAX, "it does not come to an end");
            self.befall();
            self.gather();
            if self.candidates.is_empty() {
                self.let_time_pass();
            } else {
                self.take_turn();
            }
            self.check_time();
        }
        self.check_end();
        self.trace
    }

    fn is_over(&self) -> bool {
        self.process.dispatcher.body.is_none() && self.control.has_taken_all()
    }

    fn now(&self) -> Time {
        self.sim.now()
    }

    /// Who arrives now and what happens now.
    fn befall(&mut self) {
        let now = self.now();
        while let Some((_, script)) = self.arrivals.pop_if(|(at, _)| *at <= now) {
            let number = u16::try_from(self.clients.len()).expect("few clients");
            let address = &self.plan.listeners[script.listener].address;
            let config = &self.configs[usize::from(script.language == Language::Tls13)];
            let behind_proxy = self.plan.edges.listeners[script.listener].0;
            self.clients.push(Client::connect(number, script, &self.sim, address, config, behind_proxy));
        }
        while let Some((_, mishap)) = self.mishaps.pop_if(|(at, _)| *at <= now) {
            self.suffer(mishap);
        }
        for server in 0..self.servers.len() {
            while let Some(peer) = self.servers[server].accept() {
                let number = u16::try_from(self.backends.len()).expect("few connections");
                let script = if self.plan.calm {
                    ServerScript::calm(&mut self.rng)
                } else {
                    ServerScript::rough(&mut self.rng, &mut self.unasked_bytes)
                };
                let tls = self.plan.speaks_tls(server).then(|| Arc::clone(&self.server_config));
                let manners = Manners::draw(&mut Rng::new(self.plan.seed ^ u64::from(number) << 32), self.plan.calm);
                let front = Front::new(self.plan.gets_headers(server), self.plan.greets(server), manners);
                self.backends.push(Backend::new(number, server, script, peer, tls, front, now));
            }
        }
    }

    fn suffer(&mut self, mishap: Mishap) {
        let now = self.now();
        match mishap {
            Mishap::Answers(server, Answer::Accept) => self.servers[server].listen(),
            Mishap::Answers(server, Answer::Refuse) => self.servers[server].refuse(),
            Mishap::Answers(server, Answer::Ignore) => self.servers[server].ignore(),
            Mishap::Answers(server, Answer::Busy) => self.servers[server].be_busy(),
            Mishap::FilesLeft(more) => self.sim.set_open_files_max(self.sim.open_files() + more),
            Mishap::Jump(duration) => {
                self.jumped += duration;
                self.sim.advance_by(duration);
            }
            Mishap::CutClient if !self.clients.is_empty() => {
                let index = self.rng.index(self.clients.len());
                self.clients[index].cut();
            }
            Mishap::CutBackend if !self.backends.is_empty() => {
                let index = self.rng.index(self.backends.len());
                self.backends[index].cut(now);
            }
            Mishap::CutClient | Mishap::CutBackend => {}
            Mishap::Renew(stay) => {
                let renewal = self.process.renewal(&self.plan, stay, &self.sim);
                self.control.command(Command::Renew(Box::new(renewal)));
                self.pings += 1;
                let pings = self.pulses.iter().map(|pulse| pulse.ping(self.pings));
                self.control.command(Command::Ping(pings.collect()));
            }
            Mishap::Standing(server, standing) => {
                self.process
                    .members_at(&self.plan.servers[server])
                    .for_each(|member| member.set_standing(standing, "said so"));
            }
            Mishap::Dismiss(server, dismissal) => {
                for member in self.process.members_at(&self.plan.servers[server]).cloned().collect::<Vec<_>>() {
                    self.control.command(Command::Dismiss { member, dismissal });
                }
            }
            Mishap::Roster(backend, which) => {
                let roster = self.process.exchange_roster(&self.plan, backend, which);
                let backend = backend_id(backend);
                self.control.command(Command::Roster { backend, roster });
            }
            Mishap::Drain(timeout) => {
                self.drained.get_or_insert((now, timeout));
                self.control.command(Command::Drain { timeout });
            }
            Mishap::Stop => {
                self.stopped = true;
                self.drained = Some((now, Duration::ZERO));
                self.control.command(Command::Stop);
            }
        }
    }

    fn gather(&mut self) {
        let now = self.now();
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        let runs = |driver: DriverId, there: bool| there && self.sim.is_runnable(driver);
        for (index, shard) in self.process.shards.iter().enumerate() {
            candidates.extend(runs(shard.driver, shard.body.is_some()).then_some(Actor::Shard(index)));
        }
        let dispatcher = &self.process.dispatcher;
        candidates.extend(runs(dispatcher.driver, dispatcher.body.is_some()).then_some(Actor::Dispatcher));
        candidates.extend(self.control.is_awake().then_some(Actor::Control));
        for (index, client) in self.clients.iter_mut().enumerate() {
            candidates.extend(client.is_awake(now).then_some(Actor::Client(index)));
        }
        for (index, backend) in self.backends.iter_mut().enumerate() {
            candidates.extend(backend.is_awake(now).then_some(Actor::Backend(index)));
        }
        self.candidates = candidates;
    }

    /// One of those who can takes a turn; or all are slow, and time passes.
    fn take_turn(&mut self) {
        let actor = self.candidates[self.rng.index(self.candidates.len())];
        if self.rng.chance(self.plan.laziness[actor.kind()]) {
            let pause = self.rng.duration(Duration::from_micros(200));
            return self.sim.advance_by(pause);
        }
        self.trace.note(&[self.now().as_nanos(), actor.number()]);
        let now = self.now();
        match actor {
            Actor::Shard(index) => self.turn_shard(index),
            Actor::Dispatcher => self.turn_dispatcher(),
            Actor::Control => self.control.turn(&mut self.trace),
            Actor::Client(index) => self.clients[index].turn(now),
            Actor::Backend(index) => self.backends[index].turn(now),
        }
    }

    fn turn_shard(&mut self, index: usize) {
        let thread = &mut self.process.shards[index];
        let Some(shard) = &mut thread.body else { return };
        match shard.turn() {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("shard {index}: {error}"),
        }
        let done = shard.is_done();
        self.check_shard(index);
        self.check_waiting();
        if done {
            self.end_shard(index);
        }
    }

    fn end_shard(&mut self, index: usize) {
        let thread = &mut self.process.shards[index];
        let Some(shard) = thread.body.take() else { return };
        self.reports.push(shard.report());
        self.pulses[index].end();
        self.check_shard_at_end(index, &shard);
        drop(shard);
        self.control.wake();
        if self.process.shards.iter().all(|shard| shard.body.is_none()) {
            self.control.command(Command::End);
        }
    }

    fn turn_dispatcher(&mut self) {
        let Some(dispatcher) = &mut self.process.dispatcher.body else { return };
        match dispatcher.turn() {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("dispatcher: {error}"),
        }
        if dispatcher.is_done() {
            self.process.dispatcher.body = None;
            self.control.wake();
        } else {
            self.check_dispatcher();
        }
    }

    /// Nobody is awake: time moves to where something happens.
    fn let_time_pass(&mut self) {
        let now = self.now();
        if self.sim.is_still() {
            self.check_stillness();
        }
        let clients = self.clients.iter().filter_map(|client| client.wakes_at(now));
        let backends = self.backends.iter().filter_map(|backend| backend.wakes_at(now));
        let plans = [self.arrivals.last().map(|&(at, _)| at), self.mishaps.last().map(|&(at, _)| at)];
        let next = clients.chain(backends).chain(plans.into_iter().flatten()).chain(self.sim.next_time()).min();
        let Some(next) = next else { panic!("nothing will ever happen again, and it is not over") };
        self.sim.advance_to(next.max(now));
    }

    fn check_time(&self) {
        if let Some((since, timeout)) = self.drained {
            let limit = since + timeout + self.jumped + DRAIN_SLACK;
            assert!(self.now() <= limit, "{timeout:?} were given to drain at {since:?}, and it goes on");
        }
    }
}
