//! The process under test: real shards and a real dispatcher, tied together as the server does it.

use std::sync::{Arc, LazyLock, mpsc};
use std::time::Duration;

use ringwall::dispatcher::{self, Dispatcher, REFUSALS_MAX, Rates, source_counts};
use ringwall::events::events;
use ringwall::io::{Address, Driver as _, Fd, SocketOptions};
use ringwall::ledger::Ledger;
use ringwall::load::LoadCell;
use ringwall::mailbox::{Doorbell, mailbox, pending_flags};
use ringwall::metrics::Tally;
use ringwall::networks::AddressSet;
use ringwall::roster::waiting::Waiting;
use ringwall::roster::{BackendId, Member, Roster, Server};
use ringwall::shard::links::{BusyMeter, Links};
use ringwall::shard::{self, Shard};
use ringwall::sources::SourceCounts;
use ringwall::tls::{
    self, Acceptor, BackendCredentials, Connector, Identity, ServerAuth, ServerName, Servers, TicketKeys, TicketSecret,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::control::Control;
use crate::plan::{ListenerPlan, Plan, ServerPlan};
use crate::script::Language;
use crate::simulation::{DriverId, Sim, SimDriver};

/// The listeners' certificate, and the servers'. Ed25519: its signatures all have one length, and so has all that is sent.
struct Credentials {
    server: tls::Credentials,
    servers: BackendCredentials,
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

static CREDENTIALS: LazyLock<Credentials> = LazyLock::new(|| {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let mut parameters = rcgen::CertificateParams::new(vec!["ringwall.test".into()]).unwrap();
    parameters.serial_number = Some(rcgen::SerialNumber::from(vec![1]));
    let certificate = parameters.self_signed(&key).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (chain_file, key_file) = (folder.path().join("chain.pem"), folder.path().join("key.pem"));
    std::fs::write(&chain_file, certificate.pem()).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    let server = Identity::load(&chain_file, &key_file).unwrap().into();
    let servers = BackendCredentials { servers: Servers::load(&ServerAuth::Full(chain_file)).unwrap(), identity: None };
    Credentials { server, servers, certificate: certificate.der().clone(), key: key.serialize_der() }
});

/// The configuration of servers that speak TLS. Those of one run share it, and the proxy resumes sessions with them.
pub(crate) fn server_config() -> Arc<ServerConfig> {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(CREDENTIALS.key.clone()));
    let config = ServerConfig::builder().with_no_client_auth();
    Arc::new(config.with_single_cert(vec![CREDENTIALS.certificate.clone()], key).unwrap())
}

/// The configuration of clients that speak one version of TLS. Clients of one run share it, and resume sessions.
pub(crate) fn client_config(language: Language) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CREDENTIALS.certificate.clone()).unwrap();
    let version = if language == Language::Tls12 { &rustls::version::TLS12 } else { &rustls::version::TLS13 };
    let config = ClientConfig::builder_with_protocol_versions(&[version]);
    Arc::new(config.with_root_certificates(roots).with_no_client_auth())
}

/// A thread of the process.
pub(crate) struct Thread<T> {
    /// `None` once it has ended.
    pub(crate) body: Option<T>,
    pub(crate) driver: DriverId,
}

/// A listener that is there.
#[derive(Clone)]
struct Present {
    ledger: Arc<Ledger>,
    socket: Fd,
}

pub(crate) struct Process {
    pub(crate) shards: Vec<Thread<Shard<SimDriver>>>,
    pub(crate) dispatcher: Thread<Dispatcher<SimDriver>>,
    /// What each shard publishes of its load.
    pub(crate) loads: Vec<Arc<LoadCell>>,
    /// Of all listeners that there have ever been.
    pub(crate) ledgers: Vec<Arc<Ledger>>,
    /// The plan's listeners as they are; none where the configuration in force has none.
    listeners: Vec<Option<Present>>,
    /// Which of them were not there for a while.
    pub(crate) left_once: Vec<bool>,
    /// The servers of each backend.
    rosters: Vec<Roster>,
    /// Who waits for each backend.
    pub(crate) waiting: Vec<Arc<Waiting>>,
    /// All that there have ever been.
    pub(crate) members: Vec<Arc<Member>>,
    /// Open connections of each source.
    pub(crate) sources: SourceCounts,
    /// Descriptors that are open as long as the process lives.
    pub(crate) sockets_of_its_own: usize,
}

impl Process {
    pub(crate) fn start(plan: &Plan, sim: &Sim) -> (Self, Control) {
        let wake = sim.eventfd();
        let doorbell = Doorbell::new();
        let event_ring = || events(plan.events, doorbell.clone(), wake);
        let dispatcher_doorbell = Doorbell::new();
        let sources = source_counts(plan.connections_max);
        let ledger = |number| Ledger::new(number, &format!("listener {number}"), plan.shards.into());
        let ledgers: Vec<_> = (0..).zip(&plan.listeners).map(|(number, _)| ledger(number)).collect();
        let present = ledgers.iter().zip(&plan.listeners).map(|(ledger, listener)| {
            Some(Present { ledger: Arc::clone(ledger), socket: sim.listen(&listener.address) })
        });
        let present: Vec<_> = present.collect();
        let dispatcher_driver = sim.driver();
        let dispatcher_id = dispatcher_driver.id();
        let rosters: Vec<Roster> =
            plan.backends.iter().map(|numbers| servers(plan, numbers.iter().copied()).collect()).collect();
        let waiting = || Arc::new(Waiting::new(plan.queue_max, plan.shards.into()));
        let waiting: Vec<_> = plan.backends.iter().map(|_| waiting()).collect();
        let (mut shards, mut ports, mut receivers, mut loads) = (vec![], vec![], vec![], vec![]);
        for id in 0..plan.shards {
            let (sender, receiver) = event_ring();
            receivers.push(receiver);
            let (mailbox_sender, mailbox_receiver) = mailbox(plan.mailbox_orders);
            let (publisher, reader) = pending_flags(slots(plan), plan.pending_hints);
            let load = Arc::new(LoadCell::default());
            loads.push(Arc::clone(&load));
            let links = Links {
                mailbox: mailbox_receiver,
                pending: publisher,
                load: Arc::clone(&load),
                sources: sources.clone(),
                tally: Arc::new(Tally::default()),
                dispatcher_doorbell: dispatcher_doorbell.clone(),
                dispatcher: dispatcher_driver.ring_handle(),
                events: sender,
                meter: BusyMeter::default(),
            };
            let driver = sim.driver();
            let (driver_id, ring) = (driver.id(), driver.ring_handle());
            let (listeners, backends) = parts(plan, &present, &rosters, &waiting);
            let shard = shard(plan, id, (listeners, backends), driver, links);
            shards.push(Thread { body: Some(shard), driver: driver_id });
            ports.push(dispatcher::Port { mailbox: mailbox_sender, ring, load, pending: reader });
        }
        let (sender, receiver) = event_ring();
        receivers.push(receiver);
        let (commands, command_receiver) = mailbox(64);
        let (near, far) = sim.pair();
        let links = dispatcher::Links {
            commands: command_receiver,
            wake: near,
            doorbell: dispatcher_doorbell,
            sources: sources.clone(),
            events: sender,
            tally: Arc::new(Tally::default()),
        };
        let listeners = dispatcher_listeners(plan, &present);
        let options = dispatcher::Options { connections_max: plan.connections_max, seed: plan.seed };
        let dispatcher = Dispatcher::new(options, dispatcher_driver, links, listeners, ports);
        let process = Self {
            shards,
            dispatcher: Thread { body: Some(dispatcher), driver: dispatcher_id },
            loads,
            members: rosters.iter().flat_map(|roster| roster.iter().cloned()).collect(),
            rosters,
            ledgers,
            left_once: vec![false; present.len()],
            listeners: present,
            sources,
            waiting,
            sockets_of_its_own: 1,
        };
        (process, Control::new(sim.clone(), receivers, doorbell, wake, commands, far))
    }

    /// With the listeners that `stay` has bits for, those that come back anew, and with new acceptors and connectors for
    /// each shard. Nobody waits for the old ones.
    pub(crate) fn renewal(&mut self, plan: &Plan, stay: u64, sim: &Sim) -> dispatcher::Renewal {
        for (number, listener) in plan.listeners.iter().enumerate() {
            let (stays, present) = (stay & 1 << number != 0, &mut self.listeners[number]);
            self.left_once[number] |= !stays;
            if !stays {
                *present = None;
            } else if present.is_none() {
                let next = u32::try_from(self.ledgers.len()).expect("few listeners");
                let ledger = Ledger::new(next, "again", plan.shards.into());
                self.ledgers.push(Arc::clone(&ledger));
                *present = Some(Present { ledger, socket: sim.listen(&listener.address) });
            }
        }
        let shard = |_| {
            let (listeners, backends) = parts(plan, &self.listeners, &self.rosters, &self.waiting);
            let (memory_bytes, handshakes_max) = (plan.memory_bytes, plan.handshakes_max);
            let (quiet, replaced) = (Duration::from_millis(100), mpsc::channel().0);
            shard::Renewal { listeners, backends, memory_bytes, handshakes_max, quiet, replaced }
        };
        dispatcher::Renewal {
            connections_max: plan.connections_max,
            listeners: dispatcher_listeners(plan, &self.listeners),
            shards: (0..plan.shards).map(shard).collect(),
        }
    }

    /// The members that stand for the server at `address`.
    pub(crate) fn members_at(&self, address: &Address) -> impl Iterator<Item = &Arc<Member>> {
        self.members.iter().filter(move |member| member.address == *address)
    }

    /// Gives a backend those of its servers that `which` has bits for, by their order; what its shards must be told.
    pub(crate) fn exchange_roster(&mut self, plan: &Plan, backend: usize, which: u64) -> Roster {
        let stay = plan.backends[backend].iter().enumerate().filter(|(bit, _)| which & 1 << bit != 0);
        let roster = self.rosters[backend].with(servers(plan, stay.map(|(_, &number)| number)));
        let new = roster.iter().filter(|member| !self.members.iter().any(|known| known.is_same_server(member)));
        let new: Vec<_> = new.cloned().collect();
        self.members.extend(new);
        self.rosters[backend] = roster.clone();
        roster
    }
}

/// The servers of these numbers, as a configuration has them.
fn servers(plan: &Plan, numbers: impl IntoIterator<Item = usize>) -> impl Iterator<Item = Server> {
    let server_name = ServerName::parse("ringwall.test");
    numbers.into_iter().map(move |number| {
        let address = plan.servers[number].clone();
        let ServerPlan { weight, backup, connections_max } = plan.server_plans[number];
        Server { server_name: server_name.clone(), weight, backup, connections_max, ..Server::at(address) }
    })
}

/// One for each listener; none where it is plain.
fn acceptors(plan: &Plan) -> Vec<Option<Acceptor>> {
    let secret = TicketSecret::from_bytes([7; 32]);
    let acceptors = plan.listeners.iter().map(|listener| {
        let tickets = Some(TicketKeys::new(&secret, listener.address.to_string().as_bytes()));
        let options = tls::Options { tickets, record_limit: plan.record_limit, ..tls::Options::default() };
        listener.tls.then(|| Acceptor::new(&CREDENTIALS.server, &options).unwrap())
    });
    acceptors.collect()
}

/// One for each backend; none where it is plain.
fn connectors(plan: &Plan) -> Vec<Option<Connector>> {
    let options = tls::Options { record_limit: plan.record_limit, ..tls::Options::default() };
    let connector = || Connector::new(&CREDENTIALS.servers, &options, None).unwrap();
    plan.backends_tls.iter().map(|tls| tls.then(connector)).collect()
}

fn dispatcher_listeners(plan: &Plan, present: &[Option<Present>]) -> Vec<dispatcher::Listener> {
    let listeners = plan.listeners.iter().zip(present).filter_map(|(listener, present)| {
        let Present { ledger, socket } = present.clone()?;
        Some(dispatcher::Listener { ledger, socket, backlog: 128, limits: limits(listener) })
    });
    listeners.collect()
}

/// Whom a listener lets in. All clients have one address, so that a rate for each source is one for all.
fn limits(listener: &ListenerPlan) -> dispatcher::Limits {
    dispatcher::Limits {
        allowed: AddressSet::allowing(&[], &[]),
        handshake_rates: Rates::default(),
        connection_rates: Rates { total: None, per_source: listener.rate_per_source },
        connections_per_source_max: listener.per_source_max,
        connections_max: listener.connections_max,
    }
}

/// Placement may send every client to one shard.
fn slots(plan: &Plan) -> u32 {
    u32::try_from(plan.connections_max + REFUSALS_MAX).expect("few connections")
}

fn shard(
    plan: &Plan,
    id: u16,
    (listeners, backends): (Vec<shard::Listener>, Vec<shard::Backend>),
    driver: SimDriver,
    links: Links,
) -> Shard<SimDriver> {
    let options = shard::Options {
        id,
        slots_max: slots(plan) as usize,
        memory_bytes: plan.memory_bytes,
        handshakes_max: plan.handshakes_max,
        tells_reached: plan.seed.is_multiple_of(2),
        seed: plan.seed + u64::from(id),
    };
    Shard::new(options, driver, links, listeners, backends)
}

/// What a shard is told of listeners and backends.
fn parts(
    plan: &Plan,
    present: &[Option<Present>],
    rosters: &[Roster],
    waiting: &[Arc<Waiting>],
) -> (Vec<shard::Listener>, Vec<shard::Backend>) {
    let listeners = plan.listeners.iter().zip(acceptors(plan)).zip(present).enumerate();
    let listeners = listeners.filter_map(|(number, ((listener, acceptor), present))| {
        Some(shard::Listener {
            ledger: Arc::clone(&present.as_ref()?.ledger),
            acceptor,
            backend: u16::try_from(listener.backend).expect("few backends"),
            session: plan.session.clone(),
            socket: SocketOptions { keepalive_seconds: None, user_timeout_ms: None, source: None },
            edge: plan.edges.listener(number),
            multiplex: None,
            slow_log: None,
        })
    });
    let backends = (0..).zip(connectors(plan)).map(|(number, connector): (usize, _)| shard::Backend {
        id: backend_id(number),
        name: format!("backend {number}").into(),
        roster: rosters[number].clone(),
        connector,
        options: plan.sending.clone(),
        waiting: Arc::clone(&waiting[number]),
        edge: plan.edges.backend(number),
    });
    (listeners.collect(), backends.collect())
}

/// What a backend is called in commands.
pub(crate) fn backend_id(number: usize) -> BackendId {
    BackendId(u32::try_from(number).expect("few backends"))
}
