//! What one seed stands for: the machine, the configuration, the peers and the mishaps of one run.

use std::time::Duration;

use ringwall::io::Address;
use ringwall::roster::Standing;
use ringwall::roster::balance::Balance;
use ringwall::session::{self, coalescer::Threshold};
use ringwall::shard::{BackendOptions, Dismissal};

use crate::front::Edges;
use crate::script::{ClientScript, Language, millis};
use crate::simulation::{Rng, Settings};

/// What a server does with connection attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Accept,
    Refuse,
    Ignore,
    Busy,
}

/// What befalls the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// A server changes its mind about connections.
    Answers(usize, Answer),
    /// The process may have only this many files more than it has, until the next such mishap.
    FilesLeft(usize),
    /// The machine stands still for so long.
    Jump(Duration),
    /// Some client's connection is cut.
    CutClient,
    /// Some server's connection is cut.
    CutBackend,
    /// The process goes over to a configuration that has only these of its listeners, as bits, with new credentials.
    Renew(u64),
    /// A server is said to stand so from now on.
    Standing(usize, Standing),
    /// No session is to stay at a server.
    Dismiss(usize, Dismissal),
    /// A backend has only these of its servers from now on, as bits by their order in it.
    Roster(usize, u64),
    /// The process is told to end in good order.
    Drain(Duration),
    /// The process is told to end at once.
    Stop,
}

#[derive(Clone, Debug)]
pub(crate) struct ListenerPlan {
    pub(crate) address: Address,
    pub(crate) backend: usize,
    pub(crate) connections_max: u64,
    /// Of one source, and how fast it may come; all clients are one.
    pub(crate) per_source_max: Option<u32>,
    pub(crate) rate_per_source: Option<u32>,
    /// Whether its clients speak TLS.
    pub(crate) tls: bool,
}

/// What is said of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerPlan {
    pub(crate) weight: u16,
    pub(crate) backup: bool,
    pub(crate) connections_max: Option<u32>,
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) calm: bool,
    pub(crate) settings: Settings,
    pub(crate) shards: u16,
    pub(crate) listeners: Vec<ListenerPlan>,
    /// The servers of each backend, by their number.
    pub(crate) backends: Vec<Vec<usize>>,
    /// Whether the servers of each backend speak TLS.
    pub(crate) backends_tls: Vec<bool>,
    pub(crate) servers: Vec<Address>,
    /// What else there is to say of each.
    pub(crate) server_plans: Vec<ServerPlan>,
    /// How sessions are sent to the servers of each backend.
    pub(crate) sending: BackendOptions,
    /// Sessions that may wait for a place, for each backend.
    pub(crate) queue_max: u32,
    pub(crate) edges: Edges,
    pub(crate) connections_max: u64,
    pub(crate) session: session::Options,
    pub(crate) memory_bytes: usize,
    pub(crate) handshakes_max: usize,
    /// How many records one key may seal.
    pub(crate) record_limit: Option<u64>,
    pub(crate) mailbox_orders: usize,
    pub(crate) pending_hints: usize,
    pub(crate) events: usize,
    pub(crate) clients: Vec<ClientScript>,
    /// Bytes that all servers together say unasked.
    pub(crate) unasked_bytes: usize,
    /// In the order of their time from the start.
    pub(crate) mishaps: Vec<(Duration, Mishap)>,
    /// Chances in thousandths that somebody who could go on is not let, by who it is.
    pub(crate) laziness: [u16; 5],
}

fn tcp(port: u16) -> Address {
    Address::Tcp(([127, 0, 0, 1], port).into())
}

const PLAIN_SERVER: ServerPlan = ServerPlan { weight: 1, backup: false, connections_max: None };

const SENDING: BackendOptions = BackendOptions {
    balance: Balance::RoundRobin,
    retries: None,
    queue_timeout: Duration::from_secs(10),
    sources: Vec::new(),
};

fn server_plan(rng: &mut Rng) -> ServerPlan {
    let few = |rng: &mut Rng| 1 + u32::try_from(rng.below(3)).expect("few");
    ServerPlan {
        weight: 1 + u16::try_from(rng.below(256)).expect("a weight"),
        backup: rng.chance(200),
        connections_max: rng.chance(300).then(|| few(rng)),
    }
}

fn sending(rng: &mut Rng) -> BackendOptions {
    let balances = [Balance::RoundRobin, Balance::LeastConn, Balance::First, Balance::Random, Balance::Source];
    BackendOptions {
        balance: balances[rng.index(balances.len())],
        retries: rng.chance(200).then(|| u16::try_from(rng.below(2)).expect("few")),
        queue_timeout: Duration::from_millis(10 + rng.below(5_000)),
        sources: Vec::new(),
    }
}

/// Servers, and who belongs to which backend.
fn servers(rng: &mut Rng, backends: usize) -> (Vec<Address>, Vec<Vec<usize>>) {
    let mut servers = Vec::new();
    let groups = (0..backends).map(|backend| {
        let count = 1 + rng.index(2);
        let group = servers.len()..servers.len() + count;
        for number in group.clone() {
            let port = u16::try_from(7000 + number).expect("few servers");
            let unix = || Address::Unix(format!("/run/server-{backend}-{number}.sock").into());
            servers.push(if rng.chance(300) { unix() } else { tcp(port) });
        }
        group.collect()
    });
    let groups = groups.collect();
    (servers, groups)
}

impl Plan {
    /// Whether some server of a backend may have as many connections as it may.
    pub(crate) fn is_bounded(&self, backend: usize) -> bool {
        self.backends[backend].iter().any(|&server| self.server_plans[server].connections_max.is_some())
    }

    /// The backend that this server is of.
    fn backend_of(&self, server: usize) -> usize {
        self.backends.iter().position(|servers| servers.contains(&server)).expect("every server is of a backend")
    }

    /// Whether this server speaks TLS.
    pub(crate) fn speaks_tls(&self, server: usize) -> bool {
        self.backends_tls[self.backend_of(server)]
    }

    /// Whether this server is sent PROXY headers.
    pub(crate) fn gets_headers(&self, server: usize) -> bool {
        self.edges.backends[self.backend_of(server)].0.is_some()
    }

    /// Whether connections to this server may be greeted.
    pub(crate) fn greets(&self, server: usize) -> bool {
        let backend = self.backend_of(server);
        let mut listeners = self.listeners.iter().zip(&self.edges.listeners);
        self.edges.backends[backend].1 || listeners.any(|(listener, edge)| listener.backend == backend && edge.1)
    }

    /// Nothing fails, limits are far away, and the proxy is told to end when its clients are done.
    pub(crate) fn calm(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0xca1a);
        let rng = &mut rng;
        let (servers, backends) = servers(rng, 1);
        let mut budget = 300_000;
        let (client_tls, backend_tls) = (rng.chance(700), rng.chance(400));
        let mut clients: Vec<_> = (0..rng.size(5)).map(|_| ClientScript::calm(rng, 0, &mut budget)).collect();
        if !client_tls {
            clients.iter_mut().for_each(|client| client.language = Language::Plain);
        }
        Self {
            seed,
            calm: true,
            settings: Settings {
                network_delay_max: Duration::from_micros(rng.below(500)),
                kernel_delay_max: Duration::from_micros(rng.below(50)),
                leases_home_each_turn: false,
                ..Settings::calm(seed)
            },
            shards: u16::try_from(rng.size(3)).expect("few shards"),
            listeners: vec![ListenerPlan {
                address: tcp(6380),
                backend: 0,
                connections_max: 100,
                per_source_max: None,
                rate_per_source: None,
                tls: client_tls,
            }],
            backends,
            backends_tls: vec![backend_tls],
            server_plans: servers.iter().map(|_| PLAIN_SERVER).collect(),
            sending: SENDING,
            queue_max: 100,
            edges: Edges::draw(seed, 1, 1),
            servers,
            connections_max: 100,
            session: session::Options {
                send_buffer_bytes: 256 * 1024,
                coalesce: Threshold::Bytes(64 * 1024),
                handshake_timeout: Duration::from_secs(10),
                connect_timeout: Duration::from_secs(5),
                half_close_timeout: Duration::from_secs(30),
                idle_timeout: None,
                lifetime_max: None,
                tells_unreachable: true,
            },
            memory_bytes: 16 << 20,
            handshakes_max: 1_024,
            record_limit: None,
            mailbox_orders: 64,
            pending_hints: 64,
            events: 64,
            clients,
            unasked_bytes: 0,
            mishaps: vec![(Duration::from_secs(60), Mishap::Drain(Duration::from_secs(30)))],
            laziness: [0; 5],
        }
    }

    /// Everything may fail, and every limit is near.
    pub(crate) fn rough(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x0006_0759);
        let rng = &mut rng;
        let backends_count = rng.size(2);
        let (servers, backends) = servers(rng, backends_count);
        let listeners = (0..rng.size(2)).map(|number| ListenerPlan {
            address: tcp(u16::try_from(6380 + number).expect("few listeners")),
            backend: rng.index(backends_count),
            connections_max: if rng.chance(300) { rng.below(4) } else { 100 },
            per_source_max: rng.chance(200).then(|| u32::try_from(rng.size(4)).expect("few connections")),
            rate_per_source: rng.chance(100).then(|| u32::try_from(rng.size(5)).expect("few clients")),
            tls: rng.chance(700),
        });
        let listeners = listeners.collect::<Vec<_>>();
        let settings = settings(rng, seed);
        // Small segments are many events.
        let mut budget = rng.size((settings.segment_bytes_max * 8000).clamp(50_000, 1_500_000));
        let clients = (0..rng.size(10)).map(|_| {
            let listener = rng.index(listeners.len());
            ClientScript::rough(rng, listener, &mut budget)
        });
        let mut clients: Vec<_> = clients.collect();
        if rng.chance(100) {
            let (size, arrives) = (rng.size(100), Duration::from_micros(rng.below(3_000_000)));
            clients.extend((0..size).map(|_| ClientScript::silent(rng, 0, arrives)));
        }
        for client in &mut clients {
            if !listeners[client.listener].tls {
                client.language = Language::Plain;
            }
        }
        let mut mishaps = mishaps(rng, servers.len());
        // Of its own, so that what else a seed stands for does not depend on it.
        let pools = &mut Rng::new(seed ^ 0x0005_e7e5);
        mishaps.extend(changes_of_servers(pools, &backends));
        mishaps.extend(end(rng));
        mishaps.sort_by_key(|&(at, _)| at);
        Self {
            seed,
            calm: false,
            settings,
            shards: u16::try_from(rng.size(3)).expect("few shards"),
            backends_tls: backends.iter().map(|_| rng.chance(400)).collect(),
            edges: Edges::draw(seed, listeners.len(), backends.len()),
            listeners,
            backends,
            server_plans: servers.iter().map(|_| server_plan(pools)).collect(),
            sending: sending(pools),
            queue_max: if pools.chance(300) { u32::try_from(pools.below(4)).expect("few") } else { 100 },
            servers,
            connections_max: if rng.chance(300) { rng.below(6) } else { 100 },
            session: session(rng),
            memory_bytes: 1 << (14 + rng.below(11)),
            handshakes_max: if rng.chance(300) { rng.size(4) } else { 1_024 },
            record_limit: rng.chance(100).then(|| 1 + rng.below(60)),
            mailbox_orders: if rng.chance(300) { rng.size(3) } else { 64 },
            pending_hints: if rng.chance(300) { rng.size(3) } else { 64 },
            events: if rng.chance(200) { rng.size(4) } else { 256 },
            clients,
            unasked_bytes: rng.size(budget.max(1)),
            mishaps,
            laziness: std::array::from_fn(|_| if rng.chance(300) { 950 >> rng.below(4) } else { 0 }),
        }
    }

    /// The world that `seed` stands for: one in five is calm.
    pub(crate) fn draw(seed: u64) -> Self {
        if seed.is_multiple_of(5) { Self::calm(seed) } else { Self::rough(seed) }
    }
}

fn settings(rng: &mut Rng, seed: u64) -> Settings {
    let rough = Settings::rough(seed);
    Settings {
        segment_bytes_max: rough.segment_bytes_max.max(1 << rng.below(12)),
        // Handshakes that wait for their turn keep their buffers.
        leases_home_each_turn: false,
        ..rough
    }
}

fn session(rng: &mut Rng) -> session::Options {
    let mut millis = |least: u64, most: u64| Duration::from_millis(least + rng.below(most - least));
    let (handshake_timeout, connect_timeout) = (millis(500, 10_000), millis(200, 5_000));
    let (half_close_timeout, idle_timeout) = (millis(500, 30_000), millis(1_000, 30_000));
    let lifetime_max = millis(1_000, 20_000);
    session::Options {
        send_buffer_bytes: 1 << (10 + rng.below(9)),
        coalesce: match rng.below(6) {
            0 => Threshold::Off,
            1 => Threshold::Unbounded,
            _ => Threshold::Bytes(1 << (7 + rng.below(13))),
        },
        handshake_timeout,
        connect_timeout,
        half_close_timeout,
        idle_timeout: rng.chance(200).then_some(idle_timeout),
        lifetime_max: rng.chance(200).then_some(lifetime_max),
        tells_unreachable: rng.chance(700),
    }
}

fn mishaps(rng: &mut Rng, servers: usize) -> Vec<(Duration, Mishap)> {
    let mut mishaps = Vec::new();
    let at = |rng: &mut Rng| Duration::from_micros(rng.below(4_000_000));
    if rng.chance(400) {
        for _ in 0..rng.size(4) {
            let answer = [Answer::Accept, Answer::Refuse, Answer::Ignore, Answer::Busy][rng.index(4)];
            let when = if rng.chance(300) { Duration::ZERO } else { at(rng) };
            mishaps.push((when, Mishap::Answers(rng.index(servers), answer)));
        }
    }
    if rng.chance(200) {
        mishaps.push((at(rng), Mishap::FilesLeft(rng.index(3))));
        mishaps.push((at(rng) + Duration::from_secs(4), Mishap::FilesLeft(1000)));
    }
    if rng.chance(200) {
        let jump = Duration::from_millis(rng.below(20_000));
        mishaps.push((at(rng), Mishap::Jump(jump)));
    }
    if rng.chance(300) {
        for _ in 0..rng.size(3) {
            mishaps.push((at(rng), if rng.chance(500) { Mishap::CutClient } else { Mishap::CutBackend }));
        }
    }
    if rng.chance(300) {
        for _ in 0..rng.size(3) {
            let stay = if rng.chance(500) { u64::MAX } else { rng.below(4) };
            mishaps.push((at(rng), Mishap::Renew(stay)));
        }
    }
    mishaps
}

/// What the control plane comes to think of servers, and does about it.
fn changes_of_servers(rng: &mut Rng, backends: &[Vec<usize>]) -> Vec<(Duration, Mishap)> {
    let mut changes = Vec::new();
    if rng.chance(600) {
        return changes;
    }
    for _ in 0..rng.size(8) {
        let at = Duration::from_micros(rng.below(4_000_000));
        let backend = rng.index(backends.len());
        let server = backends[backend][rng.index(backends[backend].len())];
        match rng.below(4) {
            0 => changes.push((at, Mishap::Roster(backend, rng.below(4)))),
            1 => changes.push((at, Mishap::Standing(server, Standing::Up))),
            _ => {
                let quiet = Duration::from_millis(rng.below(200));
                let (standing, dismissal) = [
                    (Standing::Down, Dismissal::Down),
                    (Standing::WrongRole, Dismissal::Demoted),
                    (Standing::Drained, Dismissal::Drained { quiet }),
                ][rng.index(3)];
                changes.push((at, Mishap::Standing(server, standing)));
                if rng.chance(700) {
                    changes.push((at, Mishap::Dismiss(server, dismissal)));
                }
            }
        }
    }
    changes
}

/// Every run ends; some in the middle of everything, and some of those that drain are told again, to stop at once.
fn end(rng: &mut Rng) -> Vec<(Duration, Mishap)> {
    let at = if rng.chance(600) { Duration::from_secs(90) } else { Duration::from_micros(rng.below(4_000_000)) };
    if rng.chance(50) {
        return vec![(at, Mishap::Stop)];
    }
    let timeout = if rng.chance(200) { Duration::ZERO } else { Duration::from_millis(rng.below(30_000)) };
    let mut orders = vec![(at, Mishap::Drain(timeout))];
    if rng.chance(100) {
        orders.push((at + millis(rng, 4_000), Mishap::Stop));
    }
    orders
}
