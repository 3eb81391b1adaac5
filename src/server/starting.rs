//! The threads of the data plane as they start: each makes its ring on its own core, and a shard its own copy of every
//! key. The first that cannot is the reason not to start.

use std::io;
use std::sync::Arc;
use std::sync::mpsc;

use super::StartError;
use super::blueprint::Blueprint;
use super::rings::{DISPATCHER_RING, shard_ring};
use super::supervision::{End, Ends, spawn};
use crate::config::Config;
use crate::control::admin::WatchedShard;
use crate::dispatcher::{self, Dispatcher};
use crate::events::EventSender;
use crate::io::uring::Uring;
use crate::io::{Driver, RingHandle};
use crate::load::LoadCell;
use crate::mailbox::{Doorbell, PendingReader, Sender, mailbox, pending_flags};
use crate::metrics::Tally;
use crate::pulse::Pulse;
use crate::shard::links::{BusyMeter, Links};
use crate::shard::{self, Order, Report, Shard};
use crate::tls;

/// Orders that may wait for a shard. A shard takes 64 a turn, so this is a burst of accepts, not a queue.
const MAILBOX_ORDERS: usize = 1024;

/// Pending hints that may wait for the dispatcher; what is lost beyond is made good from the flags.
const PENDING_HINTS: usize = 1024;

/// A shard whose thread has been started and whose ring may not be there yet.
pub(super) struct Starting {
    pub(super) port: PortEnds,
    ready: mpsc::Receiver<Result<RingHandle, StartError>>,
    dispatcher: mpsc::Sender<RingHandle>,
}

/// The dispatcher's ends of what ties it to a shard.
pub(super) struct PortEnds {
    mailbox: Sender<Order>,
    pending: PendingReader,
    load: Arc<LoadCell>,
    tally: Arc<Tally>,
}

impl PortEnds {
    pub(super) fn watched(&self, pulse: &Pulse) -> WatchedShard {
        WatchedShard { tally: Arc::clone(&self.tally), load: Arc::clone(&self.load), pulse: pulse.clone() }
    }
}

impl Starting {
    pub(super) fn shard(
        id: u16,
        core: usize,
        blueprint: &Arc<Blueprint>,
        dispatcher_doorbell: &Doorbell,
        events: EventSender,
        ends: Ends,
    ) -> Result<Self, StartError> {
        let (order_sender, order_receiver) = mailbox(MAILBOX_ORDERS);
        let (publisher, reader) = pending_flags(blueprint.slots, PENDING_HINTS);
        let (load, tally) = (Arc::new(LoadCell::default()), Arc::new(Tally::default()));
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
    pub(super) fn wait_for_all(
        starting: Vec<Self>,
    ) -> Result<(Vec<dispatcher::Port>, Vec<mpsc::Sender<RingHandle>>), StartError> {
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
    let (listeners, backends) = blueprint.plans.build(&blueprint.rosters)?;
    let driver = Uring::new(&shard_ring(blueprint.slots)).map_err(StartError::Unavailable)?;
    Ok((driver, listeners, backends))
}

pub(super) fn start_dispatcher(
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
