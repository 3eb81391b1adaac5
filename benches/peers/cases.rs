//! What is asked of each proxy, in turn.

use std::net::TcpStream;
use std::time::Duration;

use ringwall::io::sys::now;

use crate::arrivals::{Crowd, Manner, Pace};
use crate::credentials::Credentials;
use crate::load::{Load, Shape};
use crate::peer::Running;
use crate::samples::Samples;
use crate::server::Server;

/// New clients that wait at once in the handshake cases.
const WAITING: usize = 32;

/// One row of columns for each proxy.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Clients that each keep so many GETs of a value of so many bytes outstanding.
    Requests { clients: usize, pipeline: usize, value_bytes: usize },
    /// Clients that connect, ask PING and leave.
    Handshakes { resumed: bool },
    /// Clients that do nothing.
    Idle { connections: usize },
}

impl Case {
    pub(crate) fn all() -> Vec<Self> {
        let requests = |name, clients, pipeline, value_bytes| Self {
            name,
            kind: Kind::Requests { clients, pipeline, value_bytes },
        };
        vec![
            // First, because what a process has grown to it keeps.
            Self { name: "idle connections", kind: Kind::Idle { connections: 2_000 } },
            requests("64 B, 1 client", 1, 1, 64),
            requests("64 B, 50 clients", 50, 1, 64),
            requests("64 B, 500 clients", 500, 1, 64),
            requests("64 B, 50 clients, pipeline 16", 50, 16, 64),
            requests("64 B, 50 clients, pipeline 64", 50, 64, 64),
            requests("16 KiB, 8 clients", 8, 1, 16 << 10),
            requests("64 KiB, 8 clients", 8, 1, 64 << 10),
            requests("1 MiB, 8 clients", 8, 1, 1 << 20),
            Self { name: "full handshakes", kind: Kind::Handshakes { resumed: false } },
            Self { name: "resumed handshakes", kind: Kind::Handshakes { resumed: true } },
        ]
    }
}

/// What one proxy showed in one case: a name of each figure and its value in each round.
pub(crate) type Row = Vec<(&'static str, Samples)>;

pub(crate) struct Bench<'a> {
    pub(crate) credentials: &'a Credentials,
    pub(crate) server: &'a Server,
    pub(crate) peers: &'a [Running],
    pub(crate) rounds: usize,
    pub(crate) took: Duration,
}

impl Bench<'_> {
    /// Takes `figures` of each proxy in each round.
    fn rounds(&self, names: &[&'static str], mut figures: impl FnMut(&Running) -> Vec<f64>) -> Vec<Row> {
        let mut values = vec![vec![Vec::new(); names.len()]; self.peers.len()];
        for _ in 0..self.rounds {
            for (peer, values) in self.peers.iter().zip(&mut values) {
                for (value, values) in figures(peer).into_iter().zip(values) {
                    values.push(value);
                }
            }
        }
        let row =
            |values: Vec<Vec<f64>>| names.iter().copied().zip(values.into_iter().map(Samples::from_iter)).collect();
        values.into_iter().map(row).collect()
    }

    pub(crate) fn requests(&self, case: &Case) -> Vec<Row> {
        let Kind::Requests { clients, pipeline, value_bytes } = case.kind else { return Vec::new() };
        let (request, reply_bytes) = self.server.set(value_bytes);
        let shape = Shape { clients, outstanding: pipeline, request_bytes: request.len(), reply_bytes };
        let names = ["proxy CPU ms/1000", "with server's", "requests/s", "p50 us", "p99 us", "proxy busy %"];
        self.rounds(&names, |peer| {
            let mut load = Load::connect(peer.address, &self.credentials.client, shape);
            load.asks(&request);
            load.measure_for(self.took / 5);
            let (proxy, server, replies, started) = (peer.cpu_time(), self.server.cpu_time(), load.replies(), now());
            let measure = load.measure_for(self.took);
            let took = now().since(started).as_secs_f64();
            let proxy = peer.cpu_time().saturating_sub(proxy);
            let server = self.server.cpu_time().saturating_sub(server);
            let thousands = (load.replies() - replies) / 1_000.0;
            load.rest();
            let per_thousand = |cpu: Duration| cpu.as_secs_f64() * 1e3 / thousands;
            vec![
                per_thousand(proxy),
                per_thousand(proxy + server),
                measure.per_second,
                measure.p50.as_secs_f64() * 1e6,
                measure.p99.as_secs_f64() * 1e6,
                proxy.as_secs_f64() / took * 100.0,
            ]
        })
    }

    pub(crate) fn handshakes(&self, resumed: bool) -> Vec<Row> {
        let names = ["per proxy CPU s", "with server's", "connections/s", "closed"];
        let config = if resumed { self.credentials.resuming() } else { self.credentials.client.clone() };
        self.rounds(&names, |peer| {
            let crowd = || Crowd::new(peer.address, &config, Manner::Asking);
            crowd().run_for(self.took / 5, Pace::Waiting(WAITING));
            let (proxy, server) = (peer.cpu_time(), self.server.cpu_time());
            let fates = crowd().run_for(self.took, Pace::Waiting(WAITING));
            let proxy = peer.cpu_time().saturating_sub(proxy);
            let server = self.server.cpu_time().saturating_sub(server);
            let served = fates.served as f64;
            // What a proxy that is not there takes is no time.
            let per = |cpu: Duration| if cpu.is_zero() { 0.0 } else { served / cpu.as_secs_f64() };
            vec![per(proxy), per(proxy + server), served / self.took.as_secs_f64(), fates.closed as f64]
        })
    }

    pub(crate) fn idle(&self, connections: usize) -> Vec<Row> {
        let shape = Shape { clients: connections, outstanding: 1, request_bytes: 6, reply_bytes: 7 };
        Self { rounds: 1, ..*self }.rounds(&["proxy KiB/connection"], |peer| {
            // What it needs only once is not counted.
            drop(Load::connect(peer.address, &self.credentials.client, Shape { clients: 50, ..shape }));
            let before = peer.memory();
            let load = Load::connect(peer.address, &self.credentials.client, shape);
            let memory = peer.memory().saturating_sub(before);
            drop(load);
            wait_until_quiet(peer);
            vec![memory as f64 / 1024.0 / connections as f64]
        })
    }
}

/// A connection more gets through only when those that are being ended do not hold the proxy up.
fn wait_until_quiet(peer: &Running) {
    for _ in 0..50 {
        let _ = TcpStream::connect(peer.address);
        std::thread::park_timeout(Duration::from_millis(10));
    }
}
