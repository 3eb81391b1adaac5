//! What gathering small writes brings and costs: packet size by policy, in requests per second and in the proxy's CPU
//! time per request, over loopback through the real program.
//!
//! The policies take turns within a round, so that what else the machine does meets all of them; the ratio to "off" is
//! that of the same round. `benches/README.md` says how to read the table.

#[path = "support/backend.rs"]
mod backend;
#[path = "support/client.rs"]
mod client;
#[path = "support/cores.rs"]
mod cores;
#[path = "support/credentials.rs"]
mod credentials;
#[path = "support/load.rs"]
mod load;
#[path = "support/processes.rs"]
mod processes;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "support/samples.rs"]
mod samples;
#[path = "support/tls_client.rs"]
mod tls_client;

use std::time::Duration;

use clap::Parser;
use ringwall::io::sys::now;

use crate::backend::Listener;
use crate::cores::Cores;
use crate::credentials::Credentials;
use crate::load::{Load, Shape};
use crate::proxy::Proxy;
use crate::samples::Samples;

const SIZES: [(&str, usize); 4] =
    [("512 B", 512), ("32 KiB", 32 * 1024), ("64 KiB", 64 * 1024), ("2 MiB", 2 * 1024 * 1024)];

/// The policy that the others are compared with.
const OFF: &str = "off";
/// The values of `coalesce.bytes`.
const POLICIES: [&str; 5] = [OFF, "unbounded", "32KiB", "64KiB", "128KiB"];

const CLIENTS: usize = 16;
const OUTSTANDING: usize = 64;
const REQUEST_BYTES: usize = 32;

/// Requests per second and CPU time per request, by packet size and coalescing policy.
#[derive(Debug, Parser)]
struct Arguments {
    /// Says in seconds that everything works; its figures mean nothing
    #[arg(long)]
    quick: bool,
    /// How often each cell is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Connects the proxy with the backend over unix sockets, which cost the backend less for each reply
    #[arg(long)]
    unix: bool,
    /// Only the packet sizes that contain this
    #[arg(long, default_value = "")]
    size: String,
    /// Only the policies that contain this, and "off"
    #[arg(long, default_value = "")]
    policy: String,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

/// How long a cell is driven, before it is measured and while it is.
#[derive(Clone, Copy)]
struct Times {
    warm_up: Duration,
    window: Duration,
}

fn main() {
    let arguments = Arguments::parse();
    let (rounds, times) = if arguments.quick {
        (1, Times { warm_up: Duration::from_millis(50), window: Duration::from_millis(150) })
    } else {
        (arguments.rounds.max(1), Times { warm_up: Duration::from_millis(300), window: Duration::from_millis(1300) })
    };
    let cores = Cores::of_this_process();
    cores::pin(cores.clients);
    println!(
        "{CLIENTS} clients with {OUTSTANDING} requests of {REQUEST_BYTES} B outstanding each; the backend writes each \
         reply by itself, over {}; {cores}; rounds: {rounds} of {:?}; kernel {}, congestion control {}",
        if arguments.unix { "unix sockets" } else { "TCP" },
        times.window,
        setting("/proc/sys/kernel/osrelease"),
        setting("/proc/sys/net/ipv4/tcp_congestion_control"),
    );
    let credentials = Credentials::new();
    let bench = Bench { cores, credentials, times };
    let policies: Vec<_> =
        POLICIES.into_iter().filter(|&policy| policy == OFF || policy.contains(&arguments.policy)).collect();
    for (size, bytes) in SIZES.into_iter().filter(|(size, _)| size.contains(&arguments.size)) {
        let backend = bench.start_backend(bytes, arguments.unix);
        let mut cells = vec![Cell::default(); policies.len()];
        for round in 0..rounds {
            for turn in 0..policies.len() {
                let policy = (round + turn) % policies.len();
                cells[policy].0.push(bench.measure(&backend, bytes, policies[policy]));
            }
        }
        print_table(size, &policies, &cells);
    }
}

/// A setting of the kernel, as it says it.
fn setting(path: &str) -> String {
    std::fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |value| value.trim().to_owned())
}

struct Bench {
    cores: Cores,
    credentials: Credentials,
    times: Times,
}

impl Bench {
    /// Starts a backend for one packet size, and gives its address.
    fn start_backend(&self, reply_bytes: usize, unix: bool) -> String {
        let path = self.credentials.folder().join(format!("{reply_bytes}.sock"));
        let (listener, address) = if unix { Listener::unix(&path) } else { Listener::tcp() };
        backend::start(listener, self.cores.backend, REQUEST_BYTES, reply_bytes);
        address
    }

    /// Runs the program once.
    fn measure(&self, backend: &str, reply_bytes: usize, policy: &str) -> Measured {
        let proxy = Proxy::start(&self.credentials, backend, self.cores, policy);
        let shape = Shape { clients: CLIENTS, outstanding: OUTSTANDING, request_bytes: REQUEST_BYTES, reply_bytes };
        let mut load = Load::connect(proxy.address, &self.credentials.client, shape);
        load.run_for(self.times.warm_up);
        let (before, cpu_before, started) = (load.replies(), proxy.cpu_time(), now());
        load.run_for(self.times.window);
        let (requests, cpu) = (load.replies() - before, proxy.cpu_time() - cpu_before);
        let took = now().since(started).as_secs_f64();

        let (seen, all) = (load.seen(), load.replies());
        drop(load);
        let totals = proxy.end();
        let per_request = |name: &str| totals.count(name) as f64 / all;
        // Each receive from the backend is a chunk, and so is each of the clients' records.
        let chunks = totals.count("chunks_corked") + totals.count("chunks_passed");
        Measured {
            requests_per_second: requests / took,
            cpu_micros_per_request: cpu.as_secs_f64() * 1e6 / requests,
            busy: cpu.as_secs_f64() / took,
            requests_per_backend_receive: all / chunks.saturating_sub(seen.records_sent) as f64,
            records_per_request: seen.records_received as f64 / all,
            sends_per_request: per_request("sends"),
            flushes_threshold_per_request: per_request("flushes_threshold"),
            flushes_batch_end_per_request: per_request("flushes_batch_end"),
        }
    }
}

/// What one run of the program shows.
#[derive(Clone)]
struct Measured {
    requests_per_second: f64,
    cpu_micros_per_request: f64,
    /// The share of its core that the proxy used.
    busy: f64,
    /// From here on counted from the program's start to its end.
    requests_per_backend_receive: f64,
    records_per_request: f64,
    sends_per_request: f64,
    flushes_threshold_per_request: f64,
    flushes_batch_end_per_request: f64,
}

/// Every round's measurements of one packet size under one policy.
#[derive(Clone, Default)]
struct Cell(Vec<Measured>);

impl Cell {
    fn samples(&self, figure: impl Fn(&Measured) -> f64) -> Samples {
        self.0.iter().map(figure).collect()
    }

    fn median(&self, figure: impl Fn(&Measured) -> f64) -> f64 {
        self.samples(figure).median()
    }
}

fn print_table(size: &str, policies: &[&str], cells: &[Cell]) {
    println!(
        "\n{size:<10}|{:>29} |{:>18} |{:>16} |{:>5} |{:>9} |{:>8}{:>8}{:>9}{:>9}",
        "requests/s, min, max",
        "to off, min, max",
        "CPU us, to off",
        "busy",
        "req/recv",
        "records",
        "sends",
        "fl. full",
        "fl. end"
    );
    let [off, ..] = cells else { return };
    for (policy, cell) in policies.iter().zip(cells) {
        let speed = cell.samples(|measured| measured.requests_per_second);
        let to_off = speed.relative_to(&off.samples(|measured| measured.requests_per_second));
        let cpu = cell.samples(|measured| measured.cpu_micros_per_request);
        let cpu_to_off = cpu.relative_to(&off.samples(|measured| measured.cpu_micros_per_request));
        println!(
            "{policy:<10}|{:>9.0}{:>10.0}{:>10.0} |{:>6.2}{:>6.2}{:>6.2} |{:>10.2}{:>6.2} |{:>4.0}% |{:>9.2} |\
             {:>8.3}{:>8.3}{:>9.3}{:>9.3}",
            speed.median(),
            speed.min(),
            speed.max(),
            to_off.median(),
            to_off.min(),
            to_off.max(),
            cpu.median(),
            cpu_to_off.median(),
            cell.median(|measured| measured.busy) * 100.0,
            cell.median(|measured| measured.requests_per_backend_receive),
            cell.median(|measured| measured.records_per_request),
            cell.median(|measured| measured.sends_per_request),
            cell.median(|measured| measured.flushes_threshold_per_request),
            cell.median(|measured| measured.flushes_batch_end_per_request),
        );
    }
}
