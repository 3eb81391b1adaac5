//! Reloads: reads the configuration and its files as one set, binds what is new, makes for each shard what it is to be
//! from the next client on, and has the data plane go over to it.
//!
//! Everything that can fail comes before the one command that changes something, so a failure changes nothing.

use std::mem;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc;

use super::listener_tls::Common;
use super::plans::{Identity, Plans};
use super::sockets::{self, ListenerSocket, Next, Sockets};
use super::succession::AdminPlace;
use super::{StartError, check_sources, checks, dispatcher_listeners, shown_certificates};
use crate::config::{Backend, Changes, Config, ConfigError, Keyring, Machine, TlsFiles, raise_open_files};
use crate::control::admin::{AdminSocket, NextDoor, set_socket_mode};
use crate::control::{
    Cause, Hold, InForce, LogOutput, NotReloaded, Reloaded, Rosters, Running, RunningListener, Tenure, Wanted,
};
use crate::dispatcher::{self, Command, DRAIN_QUIET};
use crate::ledger::Ledger;
use crate::roster::waiting::Waiting;
use crate::roster::{BackendId, Roster, Server};
use crate::shard;

/// What a reload needs. It belongs to the thread that reloads.
#[derive(Debug)]
pub struct Reloader {
    in_force: InForce,
    rosters: Arc<Rosters>,
    sockets: Sockets,
    common: Common,
    admin: AdminPlace,
    /// The cores that there were at the start.
    cores: Vec<usize>,
    /// Connections that tables are made for.
    connections_max: u32,
    /// The next number for a listener or a backend.
    next_number: u32,
}

/// What was read and is not yet in force.
struct Read {
    config: Arc<Config>,
    keyring: Keyring,
    warnings: Vec<String>,
    changes: Option<Changes>,
}

impl Reloader {
    pub(super) fn new(in_force: InForce, rosters: Arc<Rosters>, sockets: Sockets, common: Common) -> Self {
        let config = &in_force.read().config;
        let numbers = config.listeners.len().max(config.backends.len());
        let next_number = u32::try_from(numbers).expect("lists of the configuration have at most 1024 entries");
        let (cores, connections_max) = (Machine::of_this_process().cores, config.limits.max_connections);
        let admin = AdminPlace::default();
        Self { rosters, sockets, common, admin, cores, connections_max, next_number, in_force }
    }

    /// Has the next process find administrators there.
    pub(super) fn telling(self, admin: AdminPlace) -> Self {
        Self { admin, ..self }
    }

    /// Reads and checks everything, then waits until each shard uses it. A failure changes nothing.
    ///
    /// # Errors
    /// What is wrong, in one line.
    pub fn reload(&mut self, cause: Cause) -> Result<Reloaded, NotReloaded> {
        let read = self.read(cause)?;
        let rotated = (cause == Cause::Tickets).then(|| self.common.rotated());
        let reloaded = self.renew(read, rotated.as_ref())?;
        if let Some(rotated) = rotated {
            self.common.accept(rotated);
        }
        Ok(reloaded)
    }

    fn read(&self, cause: Cause) -> Result<Read, NotReloaded> {
        let failed = |error: ConfigError| error.to_string();
        let running = Arc::clone(&self.in_force.read().config);
        match cause {
            Cause::Signal | Cause::Administrator => {
                // Which cores there are is asked at the start alone: those that shards run on stay.
                let machine = Machine { cores: self.cores.clone(), ..Machine::of_this_process() };
                let (mut config, keyring) = running.load_again(&machine).map_err(failed)?;
                config.fit_connections(self.connections_max);
                config.check_reload(&running, self.connections_max)?;
                let (warnings, changes) = (config.warnings_beyond(&running), Changes::between(&running, &config));
                Ok(Read { config: Arc::new(config), keyring, warnings, changes: Some(changes) })
            }
            Cause::Files | Cause::Tickets => {
                let (keyring, warnings) = running.load_files_again().map_err(failed)?;
                Ok(Read { config: running, keyring, warnings, changes: None })
            }
        }
    }

    fn renew(&mut self, read: Read, rotated: Option<&Common>) -> Result<Reloaded, String> {
        let Read { config, mut keyring, warnings, changes } = read;
        let failed = |error: StartError| error.to_string();
        check_sources(&config).map_err(failed)?;
        raise_open_files(config.open_files_max())
            .map_err(|error| format!("the limit of open files cannot be raised: {error}"))?;
        let own_sockets = self.sockets.clone();
        let mut held = own_sockets.lock();
        let next = Next::open(&config, &held).map_err(failed)?;
        let certificates = shown_certificates(&config, &keyring);
        let secrets = mem::take(&mut keyring.checks);
        let (ledgers, wanted) = (self.ledgers(&config), self.wanted(&config));
        let identities: Vec<_> = wanted.iter().map(Identity::from).collect();
        let plans = Plans::of(&config, keyring, rotated.unwrap_or(&self.common), &ledgers, &identities);
        let (replaced, replaced_ones) = mpsc::channel();
        let mut renewal = renewal(&config, &plans, &next, &ledgers, replaced).map_err(failed)?;
        let tenures = wanted.iter().map(|wanted| Tenure::first(wanted.id));
        let mut checks = checks::plans(&config, secrets, &plans.backends, tenures).map_err(failed)?;
        let log = self.log(&config)?;
        let (admin, place) = self.admin(&config).map_err(failed)?;
        // The last that can fail: who connects from here on is to be served.
        next.listen().map_err(failed)?;

        // From here on only the data plane can refuse.
        sockets::tune(&next.sockets, &plans.listeners);
        let shards = renewal.shards.len();
        let command = |rosters: &[Roster]| {
            for backends in renewal.shards.iter_mut().map(|shard| &mut shard.backends) {
                backends.iter_mut().zip(rosters).for_each(|(backend, roster)| backend.roster = roster.clone());
            }
            Command::Renew(Box::new(renewal))
        };
        self.rosters.renew(wanted, command).map_err(|error| error.to_string())?;
        // The dispatcher has them, and closes them in the end.
        mem::forget(next.bound);
        // Ends when each shard has answered, or has ended.
        if replaced_ones.iter().count() < shards {
            return Err("the data plane is about to end".to_owned());
        }
        self.note(&config, &ledgers, &next.sockets);
        *held = next.sockets;
        if let NextDoor::Other(_) = admin {
            self.admin.set(place);
        }
        for plan in &mut checks {
            if let Some((_, tenure)) = self.rosters.roster(plan.tenure.backend()) {
                plan.tenure = tenure;
            }
        }
        Ok(Reloaded { files: TlsFiles::of(&config), warnings, changes, checks: Some(checks), certificates, log, admin })
    }

    /// Where the log is to go, if that is another place than before.
    fn log(&self, config: &Config) -> Result<Option<LogOutput>, String> {
        let target = &config.log.target;
        let is_another = self.in_force.read().config.log.target != *target;
        is_another.then(|| LogOutput::open(target)).transpose().map_err(|error| error.to_string())
    }

    /// Where administrators are to connect, and that place for the next process, if it is another than before.
    fn admin(&self, config: &Config) -> Result<(NextDoor, Option<(String, OwnedFd)>), StartError> {
        let running = self.in_force.read();
        let (before, after) = (running.config.admin.as_ref(), config.admin.as_ref());
        if before.map(|admin| &admin.listen) != after.map(|admin| &admin.listen) {
            let Some(admin) = after else { return Ok((NextDoor::Other(None), None)) };
            let bound =
                AdminSocket::bind(admin).and_then(|socket| Ok((AdminPlace::of(&admin.listen, &socket)?, socket)));
            let error = |error| StartError::Admin { address: admin.listen.clone(), error };
            let (place, socket) = bound.map_err(error)?;
            return Ok((NextDoor::Other(Some(socket)), Some(place)));
        }
        if let Some(admin) = after.filter(|admin| before.is_none_or(|before| before.socket_mode != admin.socket_mode)) {
            set_socket_mode(admin).map_err(|error| StartError::AdminMode { address: admin.listen.clone(), error })?;
        }
        Ok((NextDoor::Same, None))
    }

    /// Of each listener the one that it has, if it is known by its name, or a new one.
    fn ledgers(&mut self, config: &Config) -> Vec<Arc<Ledger>> {
        let running = self.in_force.read();
        let ledgers = config.listeners.iter().map(|listener| {
            let known = running.listeners.iter().find(|known| known.ledger.name() == &*listener.name);
            known
                .map(|known| Arc::clone(&known.ledger))
                .unwrap_or_else(|| Ledger::new(self.take_number(), &listener.name, config.runtime.cores.len()))
        });
        ledgers.collect()
    }

    /// What each backend is to be. One that is known by its name stays the same; its servers are as whoever has found them
    /// says, unless the file says something else of them than before.
    fn wanted(&mut self, config: &Config) -> Vec<Wanted> {
        let (running, holds) = (self.in_force.read(), self.rosters.all());
        let wanted = config.backends.iter().map(|backend| {
            let known = holds.iter().find(|hold| *hold.name == *backend.name);
            let before = running.config.backends.iter().find(|before| before.name == backend.name);
            let servers = known
                .zip(before)
                .map_or_else(|| Some(backend.servers().collect()), |(hold, before)| servers(before, backend, hold));
            let (id, name, waiting) = match known {
                Some(Hold { id, name, waiting, .. }) => (*id, Arc::clone(name), Arc::clone(waiting)),
                None => {
                    let waiting = Arc::new(Waiting::new(backend.queue_max, config.runtime.cores.len()));
                    (BackendId(self.take_number()), (*backend.name).into(), waiting)
                }
            };
            Wanted { id, name, waiting, servers, check: backend.health_check.clone() }
        });
        wanted.collect()
    }

    const fn take_number(&mut self) -> u32 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Notes what is in force from here on.
    fn note(&self, config: &Arc<Config>, ledgers: &[Arc<Ledger>], sockets: &[ListenerSocket]) {
        for (backend, hold) in config.backends.iter().zip(self.rosters.all()) {
            hold.waiting.set_max(backend.queue_max);
        }
        let before = self.in_force.read();
        let of_before = before.listeners.iter().map(|listener| &listener.ledger);
        let left = of_before.chain(&before.left).filter(|ledger| !ledgers.contains(ledger) && ledger.open_in_all() > 0);
        let listeners = sockets
            .iter()
            .zip(ledgers)
            .map(|(socket, ledger)| RunningListener { address: socket.address, ledger: Arc::clone(ledger) });
        let (config, left) = (Arc::clone(config), left.cloned().collect());
        self.in_force.exchange(Running { config, listeners: listeners.collect(), left });
    }
}

/// The servers of a backend that stays, when somebody else says from here on which these are.
fn servers(before: &Backend, after: &Backend, hold: &Hold) -> Option<Vec<Server>> {
    let found = |backend: &Backend| {
        let Backend { entries, tls, health_check, sentinel, resolve_interval, .. } = backend.clone();
        (entries, tls, health_check, sentinel, resolve_interval)
    };
    if found(before) == found(after) {
        None
    } else if after.sentinel.is_some() {
        // Until its Sentinels have named one.
        Some(hold.roster.iter().map(|member| (***member).clone()).collect())
    } else {
        Some(after.servers().collect())
    }
}

/// What the dispatcher is told. The servers are still to be filled in.
fn renewal(
    config: &Config,
    plans: &Plans,
    next: &Next,
    ledgers: &[Arc<Ledger>],
    replaced: mpsc::Sender<shard::Replaced>,
) -> Result<dispatcher::Renewal, StartError> {
    let none = vec![Roster::from(Vec::new()); config.backends.len()];
    let shards = config.runtime.cores.iter().map(|_| {
        let (listeners, backends) = plans.build(&none)?;
        Ok(shard::Renewal {
            listeners,
            backends,
            memory_bytes: config.limits.shard_memory,
            handshakes_max: config.limits.max_handshakes as usize,
            quiet: DRAIN_QUIET,
            replaced: replaced.clone(),
        })
    });
    Ok(dispatcher::Renewal {
        connections_max: u64::from(config.limits.max_connections),
        listeners: dispatcher_listeners(config, &next.sockets, ledgers),
        shards: shards.collect::<Result<_, StartError>>()?,
    })
}
