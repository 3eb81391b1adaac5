//! Starts and ends the program's threads, in order, and ties them together.
//!
//! Start: credentials are read and sockets bound before any thread runs, so a mistake starts nothing. Each shard makes
//! its own ring, keys and randomness on its own core; when all are ready the dispatcher begins to accept. End: the
//! dispatcher stops first, the shards drain, the control plane sees the last one out.

mod backend_tls;
mod blueprint;
mod checks;
mod commands;
mod listener_tls;
mod plans;
mod reload;
mod rings;
mod sockets;
mod start_error;
mod starting;
mod succession;
mod supervision;

use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc;

use tokio::sync::oneshot;
use tracing::warn;

pub use self::commands::Commands;
pub use self::reload::Reloader;
pub use self::rings::try_rings;
pub use self::start_error::StartError;

use self::blueprint::Blueprint;
use self::listener_tls::{Common, LastingSecret};
use self::plans::Plans;
use self::sockets::{ListenerSocket, Sockets};
use self::starting::{Starting, start_dispatcher};
use self::succession::AdminPlace;
use self::supervision::{Ends, supervise};
use crate::config::{Config, Keyring, Listener, Machine, TlsFiles};
use crate::control::admin::{Admin, AdminSocket, Watched, WatchedShard, Way};
use crate::control::{
    self, Ending, Heartbeat, Hold, InForce, Logging, Notifier, Orders, Plane, Reload, Rosters, Running,
    RunningListener, ShownCertificate, health,
};
use crate::dispatcher::{self, Command};
use crate::events::{EventReceiver, events};
use crate::io::uring::probe;
use crate::io::{Confinement, Fd, sys};
use crate::ledger::Ledger;
use crate::mailbox::{Doorbell, mailbox};
use crate::metrics::Tally;
use crate::pulse::Pulse;
use crate::roster::BackendId;
use crate::roster::waiting::Waiting;
use crate::shard::Order;
use crate::takeover::Predecessor;
use crate::tls::{Credentials, Identity};

/// Events that may wait for the control plane, per thread.
const EVENTS: usize = 8192;

/// Serves until told to stop by a signal, in the place of `predecessor` where there is one.
///
/// # Errors
/// Why nothing was started.
pub fn run(
    config: &Config,
    keyring: Keyring,
    logging: &Logging,
    notifier: Notifier,
    mut predecessor: Option<Predecessor>,
) -> Result<Ending, StartError> {
    let socket = config.admin.as_ref().map(|admin| {
        let error = |error| StartError::Admin { address: admin.listen.clone(), error };
        match predecessor.as_mut().and_then(|predecessor| predecessor.take_admin(&admin.listen.to_string())) {
            Some(inherited) => AdminSocket::inherit(admin, inherited),
            None => AdminSocket::bind(admin),
        }
        .map_err(error)
    });
    let socket = socket.transpose()?;
    let certificates = shown_certificates(config, &keyring);
    let data_plane = DataPlane::start(config, keyring, predecessor.as_mut())?;
    if let Confinement::Refused(errno) = data_plane.confinement {
        warn!(target: "ringwall::server", %errno, "the kernel does not restrict the rings to the operations in use");
    }
    let way = data_plane.commands.clone();
    let way = Way::new(move |command| way.send_in_turn(command));
    let place = AdminPlace::default();
    if let (Some(admin), Some(socket)) = (&config.admin, &socket) {
        place.set(Some(AdminPlace::of(&admin.listen, socket)?));
    }
    let secret = data_plane.lasting_secret.clone();
    let takeover = succession::takeover(predecessor, place.clone(), data_plane.sockets.clone(), secret);
    // Without a socket, too: a reload may bring one.
    let admin = Some(Admin { socket, watched: data_plane.watched(), way });
    let (drain, stop, tell) = (data_plane.commands.clone(), data_plane.commands.clone(), data_plane.commands.clone());
    let (ask, shards) = (data_plane.commands, data_plane.shards.len());
    let pulses = data_plane.pulses.clone();
    let heartbeat = Heartbeat {
        pulses: data_plane.pulses,
        // Room for one is kept: the next is asked when all have answered.
        ask: Box::new(move |number| {
            drop(ask.send(Command::Ping(pulses.iter().map(|pulse| pulse.ping(number)).collect())));
        }),
    };
    let orders = Orders {
        // A dispatcher that takes no more commands is about to end.
        drain: Box::new(move |timeout| drop(drain.send(Command::Drain { timeout }))),
        stop: Box::new(move || drop(stop.send(Command::Stop))),
        tell_reached: Box::new(move |tells| {
            let order = |(shard, ())| Command::Pass(shard, Order::TellReached(tells));
            (0..).zip(std::iter::repeat_n((), shards)).map(order).for_each(|order| drop(tell.send_in_turn(order)));
        }),
    };
    let mut reloader = data_plane.reloader.telling(place);
    let reload = Reload { files: TlsFiles::of(config), run: Box::new(move |cause| reloader.reload(cause)) };
    let plane = Plane {
        in_force: data_plane.in_force,
        logging,
        notifier,
        events: data_plane.events,
        doorbell: data_plane.doorbell,
        wake: data_plane.wake,
        orders,
        rosters: data_plane.rosters,
        machine: Machine::of_this_process(),
        checks: data_plane.checks,
        heartbeat,
        reload,
        admin,
        certificates,
        takeover,
        ended: data_plane.ended,
    };
    Ok(control::run(plane)?)
}

/// The running shards and dispatcher, and what leads to them.
#[derive(Debug)]
pub struct DataPlane {
    /// What it does.
    pub in_force: InForce,
    /// The listeners' sockets, which are the dispatcher's until it is told to drain.
    sockets: Sockets,
    /// What whoever takes over resumes sessions with.
    lasting_secret: LastingSecret,
    /// Whether the rings are held to the operations in use.
    pub confinement: Confinement,
    /// What the threads tell.
    pub events: Vec<EventReceiver>,
    /// The doorbell that all of `events` share.
    pub doorbell: Doorbell,
    /// The eventfd behind that doorbell.
    pub wake: OwnedFd,
    /// The way to the dispatcher.
    pub commands: Commands,
    /// The servers, and the way to have the shards follow a change.
    pub rosters: Arc<Rosters>,
    /// What to find out about the servers, and how.
    pub checks: health::Plan,
    /// Signs of life, as [`Command::Ping`] asks for them: of the shards in their order, then of the dispatcher.
    pub pulses: Vec<Pulse>,
    /// What has other credentials used.
    pub reloader: Reloader,
    /// What each shard counts and has to do, in their order.
    pub shards: Vec<WatchedShard>,
    /// What the dispatcher counts.
    pub dispatcher: Arc<Tally>,
    /// Sent once all threads have ended, or one has failed.
    pub ended: oneshot::Receiver<Ending>,
}

impl DataPlane {
    /// Binds the listeners that `predecessor` does not hand over, and starts all threads. Clients are accepted when this
    /// returns.
    ///
    /// # Errors
    /// Why nothing was started.
    pub fn start(
        config: &Config,
        mut keyring: Keyring,
        predecessor: Option<&mut Predecessor>,
    ) -> Result<Self, StartError> {
        let confinement = probe().map_err(StartError::Unavailable)?;
        let secret = predecessor.as_ref().and_then(|predecessor| predecessor.ticket_secret());
        let common = Common::new(config, secret)?;
        let lasting_secret = common.lasting_secret();
        check_sources(config)?;
        let holds = first_holds(config);
        checks::hold_back(config, &holds);
        let secrets = mem::take(&mut keyring.checks);
        let ledgers = (0..).zip(&config.listeners);
        let ledgers = ledgers.map(|(number, listener)| Ledger::new(number, &listener.name, config.runtime.cores.len()));
        let ledgers: Vec<_> = ledgers.collect();
        let identities: Vec<_> = holds.iter().map(plans::Identity::from).collect();
        let plans = Plans::of(config, keyring, &common, &ledgers, &identities);
        let checks = checks::plans(config, secrets, &plans.backends, holds.iter().map(Hold::tenure))?;
        let sockets = sockets::open(config, &plans.listeners, predecessor)?;
        let listeners = dispatcher_listeners(config, &sockets, &ledgers);
        let blueprint = Arc::new(Blueprint::of(config, plans, &holds));

        let wake = sys::eventfd()?;
        let doorbell = Doorbell::new();
        let event_ring = || events(EVENTS, doorbell.clone(), Fd(wake.as_raw_fd()));
        let (end_sender, ends) = mpsc::channel();
        let dispatcher_doorbell = Doorbell::new();
        let mut receivers = Vec::new();
        let (mut starting, mut pulses) = (Vec::new(), Vec::new());
        for (id, &core) in (0..).zip(&config.runtime.cores) {
            let (sender, receiver) = event_ring();
            receivers.push(receiver);
            let pulse = Pulse::new(format!("shard-{id}"));
            pulses.push(pulse.clone());
            let ends = Ends { sender: end_sender.clone(), pulse };
            starting.push(Starting::shard(id, core, &blueprint, &dispatcher_doorbell, sender, ends)?);
        }
        let dispatcher_tally = Arc::new(Tally::default());
        let shards: Vec<_> = starting.iter().zip(&pulses).map(|(shard, pulse)| shard.port.watched(pulse)).collect();
        let mut tallies: Vec<_> = shards.iter().map(|shard| Arc::clone(&shard.tally)).collect();
        tallies.push(Arc::clone(&dispatcher_tally));
        let (ports, dispatcher_rings) = Starting::wait_for_all(starting)?;

        let (sender, receiver) = event_ring();
        receivers.push(receiver);
        let (commands, command_receiver) = mailbox(commands::COMMANDS);
        let (near, far) = UnixStream::pair()?;
        far.set_nonblocking(true)?;
        let links = dispatcher::Links {
            commands: command_receiver,
            wake: OwnedFd::from(near).into(),
            doorbell: dispatcher_doorbell,
            sources: blueprint.sources.clone(),
            events: sender,
            tally: Arc::clone(&dispatcher_tally),
        };
        let pulse = Pulse::new("dispatcher");
        pulses.push(pulse.clone());
        start_dispatcher(config, listeners, ports, links, dispatcher_rings, Ends { sender: end_sender, pulse })?;
        let commands = Commands::new(commands, far);
        let ended = supervise(tallies, ends, commands.clone())?;
        let way = commands.clone();
        let rosters = Arc::new(Rosters::new(holds, move |command| way.send_in_turn(command)));
        let in_force = InForce::new(running(config, &sockets, ledgers));
        let sockets = Sockets::new(sockets);
        let reloader = Reloader::new(in_force.clone(), Arc::clone(&rosters), sockets.clone(), common);
        let dispatcher = dispatcher_tally;
        Ok(Self {
            in_force,
            sockets,
            lasting_secret,
            confinement,
            events: receivers,
            doorbell,
            wake,
            commands,
            rosters,
            checks: health::Plan::new(checks),
            pulses,
            reloader,
            shards,
            dispatcher,
            ended,
        })
    }

    /// What administrators are shown.
    fn watched(&self) -> Watched {
        Watched {
            in_force: self.in_force.clone(),
            rosters: Arc::clone(&self.rosters),
            checks: Arc::clone(&self.checks.status),
            shards: self.shards.clone(),
            dispatcher: Arc::clone(&self.dispatcher),
            kernel: control::kernel_release(),
        }
    }
}

/// What is to be known of the certificates that clients are shown.
fn shown_certificates(config: &Config, keyring: &Keyring) -> Vec<ShownCertificate> {
    let of_listener = |(listener, credentials): (&Listener, &Option<Credentials>)| {
        let identities = credentials.iter().flat_map(|credentials| &credentials.identities);
        let shown = |identity: &Identity| ShownCertificate { listener: listener.name.clone(), facts: identity.facts() };
        identities.map(shown).collect::<Vec<_>>()
    };
    config.listeners.iter().zip(&keyring.listeners).flat_map(of_listener).collect()
}

/// What is in force from the start.
fn running(config: &Config, sockets: &[ListenerSocket], ledgers: Vec<Arc<Ledger>>) -> Running {
    let listeners = sockets.iter().zip(ledgers);
    let listeners = listeners.map(|(socket, ledger)| RunningListener { address: socket.address, ledger });
    Running { config: Arc::new(config.clone()), listeners: listeners.collect(), left: Vec::new() }
}

/// The listeners as the dispatcher is told of them.
fn dispatcher_listeners(
    config: &Config,
    sockets: &[ListenerSocket],
    ledgers: &[Arc<Ledger>],
) -> Vec<dispatcher::Listener> {
    let listeners = config.listeners.iter().zip(sockets).zip(ledgers).map(|((listener, socket), ledger)| {
        let (ledger, limits) = (Arc::clone(ledger), listener.admission.limits());
        dispatcher::Listener { ledger, socket: socket.socket, backlog: socket.backlog, limits }
    });
    listeners.collect()
}

/// Whether all `source_addresses` are of this machine; one that is not would be found out by the first client only.
///
/// # Errors
/// The first that is not.
pub fn check_sources(config: &Config) -> Result<(), StartError> {
    for backend in &config.backends {
        for &address in &backend.options.sources {
            let error = |error| StartError::Source { backend: backend.name.clone(), address, error };
            sys::check_source(address).map_err(error)?;
        }
    }
    Ok(())
}

/// The backends as they are at the start.
fn first_holds(config: &Config) -> Vec<Hold> {
    let holds = (0..).zip(&config.backends).map(|(number, backend)| {
        let waiting = Arc::new(Waiting::new(backend.queue_max, config.runtime.cores.len()));
        Hold::new(BackendId(number), (*backend.name).into(), waiting, backend.servers().collect())
    });
    holds.collect()
}
