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
use std::net::SocketAddr;
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
use self::starting::{Starting, start_dispatcher};
use self::supervision::{Ends, supervise};
use crate::config::{Config, Keyring, Machine, TlsFiles};
use crate::control::admin::{Admin, AdminSocket, Watched, WatchedShard, Way};
use crate::control::{
    self, Ending, Heartbeat, Logging, Notifier, Orders, Plane, Reload, Rosters, ShownCertificate, health,
};
use crate::dispatcher::{self, Command};
use crate::events::{EventReceiver, events};
use crate::io::uring::probe;
use crate::io::{Confinement, Fd, sys};
use crate::mailbox::{Doorbell, mailbox};
use crate::metrics::Tally;
use crate::pulse::Pulse;
use crate::roster::Roster;
use crate::roster::waiting::Waiting;
use crate::takeover::Predecessor;
use crate::tls::Credentials;

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
    let certificates = shown_certificates(keyring.listeners.iter().map(Option::as_ref));
    let data_plane = DataPlane::start(config, keyring, predecessor.as_mut())?;
    if let Confinement::Refused(errno) = data_plane.confinement {
        warn!(target: "ringwall::server", %errno, "the kernel does not restrict the rings to the operations in use");
    }
    let way = data_plane.commands.clone();
    let way = Way::new(move |command| way.send_in_turn(command));
    let takeover = succession::takeover(
        config,
        predecessor,
        socket.as_ref(),
        &data_plane.sockets,
        data_plane.lasting_secret.clone(),
    )?;
    let admin = socket.map(|socket| Admin { socket, watched: data_plane.watched(config), way });
    let (drain, stop, ask) = (data_plane.commands.clone(), data_plane.commands.clone(), data_plane.commands);
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
    };
    let mut reloader = data_plane.reloader;
    let reload = Reload { files: TlsFiles::of(config), run: Box::new(move |cause| reloader.reload(cause)) };
    let plane = Plane {
        config,
        logging,
        notifier,
        listening: data_plane.listening,
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
    /// Where each listener really listens.
    pub listening: Vec<SocketAddr>,
    /// The listeners' sockets, which are the dispatcher's until it is told to drain.
    pub sockets: Vec<Fd>,
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
    /// The sessions that wait for a place at a server, by backend.
    pub waiting: Vec<Arc<Waiting>>,
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
        let rosters: Vec<Roster> = config.backends.iter().map(|backend| backend.servers().collect()).collect();
        let secrets = mem::take(&mut keyring.checks);
        let blueprint = Arc::new(Blueprint::of(config, &rosters, keyring, &common));
        let checks = checks::plan(config, secrets, &blueprint.backends, &rosters)?;
        let waiting = blueprint.backends.iter().map(|backend| Arc::clone(backend.waiting())).collect();
        let (sockets, listening) = sockets::open(config, &blueprint.listeners, predecessor)?;
        let listening_sockets = sockets.clone();

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
        let limits = config.listeners.iter().map(|listener| listener.admission.limits());
        let listeners = sockets.into_iter().zip(limits);
        let listeners = listeners.map(|(socket, limits)| dispatcher::Listener { socket, limits }).collect();
        let pulse = Pulse::new("dispatcher");
        pulses.push(pulse.clone());
        start_dispatcher(config, listeners, ports, links, dispatcher_rings, Ends { sender: end_sender, pulse })?;
        let commands = Commands::new(commands, far);
        let ended = supervise(tallies, ends, commands.clone())?;
        let reloader = Reloader::new(config, common, commands.clone());
        let names = config.backends.iter().map(|backend| backend.name.clone());
        let way = commands.clone();
        let rosters = Arc::new(Rosters::new(names.zip(rosters), move |command| way.send_in_turn(command)));
        let dispatcher = dispatcher_tally;
        Ok(Self {
            listening,
            sockets: listening_sockets,
            lasting_secret,
            confinement,
            events: receivers,
            doorbell,
            wake,
            commands,
            rosters,
            checks,
            waiting,
            pulses,
            reloader,
            shards,
            dispatcher,
            ended,
        })
    }

    /// What administrators are shown.
    fn watched(&self, config: &Config) -> Watched {
        Watched {
            config: Arc::new(config.clone()),
            listening: self.listening.clone(),
            rosters: Arc::clone(&self.rosters),
            checks: Arc::clone(&self.checks.status),
            waiting: self.waiting.clone(),
            shards: self.shards.clone(),
            dispatcher: Arc::clone(&self.dispatcher),
            kernel: control::kernel_release(),
        }
    }
}

/// What is to be known of the certificates that clients are shown.
fn shown_certificates<'c>(credentials: impl Iterator<Item = Option<&'c Credentials>>) -> Vec<ShownCertificate> {
    let of_listener = |(listener, credentials): (usize, Option<&'c Credentials>)| {
        let identities = credentials.into_iter().flat_map(|credentials| &credentials.identities);
        identities.map(move |identity| ShownCertificate { listener, facts: identity.facts() })
    };
    credentials.enumerate().flat_map(of_listener).collect()
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
