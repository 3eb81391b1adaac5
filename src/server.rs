//! Starts and ends the program's threads, in order, and ties them together.
//!
//! Start: credentials are read and sockets bound before any thread runs, so a mistake starts nothing. Each shard makes
//! its own ring, keys and randomness on its own core; when all are ready the dispatcher begins to accept. End: the
//! dispatcher stops first, the shards drain, the control plane sees the last one out.

mod backend_tls;
mod checks;
mod commands;
mod listener_tls;
mod plans;
mod reload;
mod rings;
mod sockets;
mod start_error;
mod succession;

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use tokio::sync::oneshot;
use tracing::warn;

pub use self::commands::Commands;
pub use self::reload::Reloader;
pub use self::rings::try_rings;
pub use self::start_error::StartError;

use self::listener_tls::{Common, LastingSecret};
use self::plans::{BackendPlan, ListenerPlan};
use self::rings::{DISPATCHER_RING, shard_ring, slots};
use crate::config::{Config, Keyring, Machine, TlsFiles};
use crate::control::admin::{Admin, AdminSocket, Watched, WatchedShard, Way};
use crate::control::{
    self, Ending, Heartbeat, Logging, Notifier, Orders, Plane, Reload, Rosters, ShownCertificate, health,
};
use crate::dispatcher::{self, Command, Dispatcher};
use crate::events::{EventReceiver, EventSender, events};
use crate::io::uring::{Uring, probe};
use crate::io::{Confinement, Driver, Fd, RingHandle, sys};
use crate::load::LoadCell;
use crate::mailbox::{Doorbell, PendingReader, Sender, mailbox, pending_flags};
use crate::metrics::{Tally, Totals};
use crate::pulse::Pulse;
use crate::roster::Roster;
use crate::roster::waiting::Waiting;
use crate::shard::links::{BusyMeter, Links};
use crate::shard::{self, Order, Report, Shard};
use crate::sources::SourceCounts;
use crate::takeover::Predecessor;
use crate::tls::{self, Credentials};

/// Orders that may wait for a shard. A shard takes 64 a turn, so this is a burst of accepts, not a queue.
const MAILBOX_ORDERS: usize = 1024;

/// Pending hints that may wait for the dispatcher; what is lost beyond is made good from the flags.
const PENDING_HINTS: usize = 1024;

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
        let shards: Vec<_> = starting.iter().map(|shard| shard.port.watched()).collect();
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

/// An address that is not of this machine would be found out by the first client only.
fn check_sources(config: &Config) -> Result<(), StartError> {
    for backend in &config.backends {
        for &address in &backend.options.sources {
            let error = |error| StartError::Source { backend: backend.name.clone(), address, error };
            sys::check_source(address).map_err(error)?;
        }
    }
    Ok(())
}

/// What every shard builds itself from. Read while the threads start, and not after.
#[derive(Debug)]
struct Blueprint {
    listeners: Vec<ListenerPlan>,
    backends: Vec<BackendPlan>,
    sources: SourceCounts,
    slots: u32,
    memory_bytes: usize,
    handshakes_max: usize,
    tells_reached: bool,
}

impl Blueprint {
    fn of(config: &Config, rosters: &[Roster], keyring: Keyring, common: &Common) -> Self {
        let listeners = config.listeners.iter().zip(keyring.listeners).zip(keyring.passwords);
        let plan =
            |((listener, credentials), passwords)| ListenerPlan::of(config, listener, credentials, passwords, common);
        let listeners = listeners.map(plan);
        let listeners = listeners.collect();
        let shards = config.runtime.cores.len();
        let backends = config.backends.iter().zip(rosters).zip(keyring.backends);
        let backends =
            backends.map(|((backend, roster), read)| BackendPlan::of(backend, roster, shards, read)).collect();
        let limits = &config.limits;
        let admissions: Vec<_> = config.listeners.iter().map(|listener| listener.admission.limits()).collect();
        Self {
            listeners,
            backends,
            sources: dispatcher::source_counts(u64::from(limits.max_connections), admissions.iter()),
            slots: slots(config),
            memory_bytes: limits.shard_memory,
            handshakes_max: limits.max_handshakes as usize,
            tells_reached: control::tells_reached(),
        }
    }
}

/// How a thread of the data plane ended.
enum End {
    Shard(io::Result<Report>),
    Dispatcher(io::Result<()>),
    Panicked,
}

/// A shard whose thread has been started and whose ring may not be there yet.
struct Starting {
    port: PortEnds,
    ready: mpsc::Receiver<Result<RingHandle, StartError>>,
    dispatcher: mpsc::Sender<RingHandle>,
}

/// The dispatcher's ends of what ties it to a shard.
struct PortEnds {
    mailbox: Sender<Order>,
    pending: PendingReader,
    load: Arc<LoadCell>,
    tally: Arc<Tally>,
}

impl PortEnds {
    fn watched(&self) -> WatchedShard {
        WatchedShard { tally: Arc::clone(&self.tally), load: Arc::clone(&self.load) }
    }
}

impl Starting {
    fn shard(
        id: u16,
        core: usize,
        blueprint: &Arc<Blueprint>,
        dispatcher_doorbell: &Doorbell,
        events: EventSender,
        ends: Ends,
    ) -> Result<Self, StartError> {
        let (order_sender, order_receiver) = mailbox(MAILBOX_ORDERS);
        let (publisher, reader) = pending_flags(blueprint.slots, PENDING_HINTS);
        let load = Arc::new(LoadCell::new(blueprint.listeners.len() + 1));
        let tally = Arc::new(Tally::of_shard(blueprint.listeners.len()));
        let port =
            PortEnds { mailbox: order_sender, pending: reader, load: Arc::clone(&load), tally: Arc::clone(&tally) };
        let (ready_sender, ready) = mpsc::channel();
        let (dispatcher, dispatcher_ring) = mpsc::channel();
        let (blueprint, dispatcher_doorbell) = (Arc::clone(blueprint), dispatcher_doorbell.clone());
        spawn(Some(core), ends, move || {
            let (driver, listeners, backends) = match shard_parts(&blueprint) {
                Ok(parts) => parts,
                Err(error) => {
                    let _ = ready_sender.send(Err(error));
                    return End::Shard(Ok(Report::default()));
                }
            };
            let _ = ready_sender.send(Ok(driver.ring_handle()));
            // Without a dispatcher there is nothing to serve.
            let Ok(dispatcher) = dispatcher_ring.recv() else { return End::Shard(Ok(Report::default())) };
            let options = shard::Options {
                id,
                slots_max: blueprint.slots as usize,
                memory_bytes: blueprint.memory_bytes,
                handshakes_max: blueprint.handshakes_max,
                tells_reached: blueprint.tells_reached,
                seed: tls::random_seed(),
            };
            let links = Links {
                mailbox: order_receiver,
                pending: publisher,
                load,
                sources: blueprint.sources.clone(),
                tally,
                dispatcher_doorbell,
                dispatcher,
                events,
                meter: BusyMeter::default(),
            };
            drop(blueprint);
            End::Shard(Shard::new(options, driver, links, listeners, backends).run())
        })?;
        Ok(Self { port, ready, dispatcher })
    }

    /// Waits until every shard has its ring; the first that fails is the reason not to start.
    fn wait_for_all(starting: Vec<Self>) -> Result<(Vec<dispatcher::Port>, Vec<mpsc::Sender<RingHandle>>), StartError> {
        let mut ports = Vec::new();
        let mut dispatcher_rings = Vec::new();
        for Self { port: PortEnds { mailbox, pending, load, .. }, ready, dispatcher } in starting {
            let ended = || StartError::System(io::Error::other("a shard ended while it started"));
            let ring = ready.recv().map_err(|_| ended())??;
            ports.push(dispatcher::Port { mailbox, ring, load, pending });
            dispatcher_rings.push(dispatcher);
        }
        Ok((ports, dispatcher_rings))
    }
}

/// What a shard makes on its own thread: its ring, and its own copy of every key.
type ShardParts = (Uring, Vec<shard::Listener>, Vec<shard::Backend>);

fn shard_parts(blueprint: &Blueprint) -> Result<ShardParts, StartError> {
    tls::warm_up();
    let listeners = blueprint.listeners.iter().map(ListenerPlan::build).collect::<Result<_, _>>()?;
    let backends = blueprint.backends.iter().map(BackendPlan::build).collect::<Result<_, _>>()?;
    let driver = Uring::new(&shard_ring(blueprint.slots)).map_err(StartError::Unavailable)?;
    Ok((driver, listeners, backends))
}

fn start_dispatcher(
    config: &Config,
    listeners: Vec<dispatcher::Listener>,
    ports: Vec<dispatcher::Port>,
    links: dispatcher::Links,
    rings: Vec<mpsc::Sender<RingHandle>>,
    ends: Ends,
) -> Result<(), StartError> {
    let (ready_sender, ready) = mpsc::channel();
    let options =
        dispatcher::Options { connections_max: u64::from(config.limits.max_connections), seed: tls::random_seed() };
    spawn(config.runtime.dispatcher_core, ends, move || {
        let driver = match Uring::new(&DISPATCHER_RING) {
            Ok(driver) => driver,
            Err(error) => {
                let _ = ready_sender.send(Err(StartError::Unavailable(error)));
                return End::Dispatcher(Ok(()));
            }
        };
        for ring in rings {
            let _ = ring.send(driver.ring_handle());
        }
        let _ = ready_sender.send(Ok(()));
        End::Dispatcher(Dispatcher::new(options, driver, links, listeners, ports).run())
    })?;
    ready.recv().map_err(|_| StartError::System(io::Error::other("the dispatcher ended while it started")))?
}

/// How the end of a thread becomes known.
struct Ends {
    sender: mpsc::Sender<End>,
    /// The thread has its name.
    pulse: Pulse,
}

/// Starts a thread that reports its end, pinned to `core` when there is one.
fn spawn(core: Option<usize>, ends: Ends, body: impl FnOnce() -> End + Send + 'static) -> Result<(), StartError> {
    let name = ends.pulse.thread().to_owned();
    let thread = thread::Builder::new().name(name.clone()).spawn(move || {
        if let Some(id) = core {
            // Pinning is for speed: a sandbox that forbids it costs some, and nothing else.
            core_affinity::set_for_current(core_affinity::CoreId { id });
        }
        let end = panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or(End::Panicked);
        ends.pulse.end();
        let _ = ends.sender.send(end);
    });
    thread.map(drop).map_err(|error| StartError::Thread { name, error })
}

/// What all threads have counted together.
fn totals(tallies: &[Arc<Tally>]) -> Totals {
    let mut totals = Totals::default();
    tallies.iter().for_each(|tally| totals += &tally.totals());
    totals
}

/// Sees the threads end: the shards when they have drained, then the dispatcher. A thread that fails ends it all.
fn supervise(
    tallies: Vec<Arc<Tally>>,
    ends: mpsc::Receiver<End>,
    commands: Commands,
) -> Result<oneshot::Receiver<Ending>, StartError> {
    let (ended, receiver) = oneshot::channel();
    let body = move || {
        let mut ending = Ending::default();
        // One more is the dispatcher's.
        let mut running = tallies.len() - 1;
        for end in ends {
            match end {
                End::Shard(Ok(report)) => {
                    ending.sessions_cut_off += report.cut_off;
                    running -= 1;
                    if running == 0 {
                        // Room for it is kept.
                        let _ = commands.send(Command::End);
                    }
                }
                End::Dispatcher(Ok(())) => break,
                End::Shard(Err(error)) => ending.failure = Some(format!("a shard's ring failed: {error}")),
                End::Dispatcher(Err(error)) => ending.failure = Some(format!("the dispatcher's ring failed: {error}")),
                End::Panicked => ending.failure = Some("a thread of the data plane panicked".to_owned()),
            }
            if ending.failure.is_some() {
                break;
            }
        }
        ending.totals = totals(&tallies);
        let _ = ended.send(ending);
    };
    let name = "supervisor".to_owned();
    match thread::Builder::new().name(name.clone()).spawn(body) {
        Ok(_) => Ok(receiver),
        Err(error) => Err(StartError::Thread { name, error }),
    }
}
