//! What a request costs in counts once everything is warm, at 50 busy connections: allocations, system calls, enters of
//! the kernel. Each figure stands beside its bound, and the exit code tells whether all of them hold, so this is a test
//! as well.

#[path = "support/allocations.rs"]
mod allocations;
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
#[path = "support/strace.rs"]
mod strace;
#[path = "support/tls_client.rs"]
mod tls_client;

use std::fmt;
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use ringwall::config::{Config, Machine};
use ringwall::dispatcher::Command;
use ringwall::io::sys::now;
use ringwall::server::DataPlane;

use crate::backend::Listener;
use crate::cores::Cores;
use crate::credentials::Credentials;
use crate::load::{Load, Shape};
use crate::proxy::Proxy;
use crate::strace::Trace;

#[global_allocator]
static COUNTING: allocations::Counting = allocations::Counting;

/// The default policy.
const COALESCE: &str = "64KiB";

/// Windows in which what is still growing to its size may do so. What a request costs, it costs in each of them.
const WINDOWS_MAX: usize = 10;

/// Counts per request in the steady state, and whether they are within their bounds.
#[derive(Debug, Parser)]
struct Arguments {
    /// Fewer requests
    #[arg(long)]
    quick: bool,
    /// The backend on the clients' core: the proxy waits for them then, and how often it enters the kernel is not judged
    #[arg(long)]
    apart: bool,
    /// Connections; the bounds are for 50
    #[arg(long, default_value_t = 50)]
    clients: usize,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let Arguments { quick, apart, clients, .. } = Arguments::parse();
    let machine = Machine::of_this_process();
    let mut cores = Cores::of_this_process();
    if !apart {
        // So that the proxy's core has no idle moment, as on a machine at its capacity.
        cores.backend = cores.proxy;
    }
    cores::pin(cores.clients);
    let credentials = Credentials::new();
    // With one request outstanding a connection is busy, and nothing but the connections beside it makes a batch.
    let shape = Shape { clients, outstanding: 1, request_bytes: 64, reply_bytes: 64 };
    let (listener, backend) = Listener::tcp();
    backend::start(listener, cores.backend, shape.request_bytes, shape.reply_bytes);
    let requests = if quick { 5_000 } else { 100_000 };
    println!("{clients} clients with one request of 64 B outstanding each, replies of 64 B; {cores}\n");

    let mut verdict = Verdict { all_hold: true };
    let bench = Bench { machine, cores, credentials, backend, shape, requests };
    bench.count_allocations(&mut verdict);
    bench.count_system_calls(&mut verdict);
    bench.read_totals(&mut verdict, !apart);
    if verdict.all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints figures beside their bounds, and remembers whether all hold.
struct Verdict {
    all_hold: bool,
}

impl Verdict {
    fn judge(&mut self, name: &str, figure: impl fmt::Display, bound: &str, holds: bool) {
        self.all_hold &= holds;
        println!("{name:<48}{figure:>12}   {bound:<12}{}", if holds { "holds" } else { "BROKEN" });
    }
}

fn note(text: impl fmt::Display) {
    println!("    {text}");
}

struct Bench {
    machine: Machine,
    cores: Cores,
    credentials: Credentials,
    backend: String,
    shape: Shape,
    /// In one window.
    requests: u64,
}

impl Bench {
    fn connect(&self, address: SocketAddr) -> Load {
        Load::connect(address, &self.credentials.client, self.shape)
    }

    /// Runs the data plane in this process, where its allocations can be counted.
    fn count_allocations(&self, verdict: &mut Verdict) {
        let file = self.credentials.write("ringwall.toml", &proxy::config(&self.backend, self.cores, COALESCE));
        let (config, keyring) = Config::load(&file, &self.machine).expect("a valid configuration");
        let plane = DataPlane::start(&config, keyring, None).expect("the data plane starts");
        let mut load = self.connect(plane.in_force.read().listeners[0].address);
        load.run_until_answered(self.requests);
        let (mut count, mut windows) = (u64::MAX, 0);
        let mut window = None;
        while count > 0 && windows < WINDOWS_MAX {
            windows += 1;
            let before = load.seen();
            let taken = allocations::during(|| load.run_until_answered(self.requests));
            let seen = load.seen();
            let records = seen.records_sent - before.records_sent + seen.records_received - before.records_received;
            let requests = (seen.reply_bytes - before.reply_bytes) / self.shape.reply_bytes as u64;
            count = taken.count();
            window = Some((taken, records, requests));
        }
        drop(load);
        plane.commands.send(Command::Stop).expect("there is room for it");
        plane.ended.blocking_recv().expect("the data plane ends");

        let Some((taken, records, requests)) = window else { return };
        let per_request = count as f64 / requests as f64;
        verdict.judge("allocations per request", format_args!("{per_request:.6}"), "0", count == 0);
        note(format_args!("window {windows}: {requests} requests, {records} records sealed and opened, {taken}"));
    }

    /// Runs the real program under strace. That makes it slow, so its batches are larger here than by itself.
    fn count_system_calls(&self, verdict: &mut Verdict) {
        let trace = Trace::new(self.credentials.folder());
        let proxy = Proxy::start_by(trace.command(), &self.credentials, &self.backend, self.cores, COALESCE);
        let mut load = self.connect(proxy.address);
        load.run_until_answered(self.requests);
        let (before, from) = (load.replies(), strace::time());
        load.run_until_answered(self.requests);
        let (requests, until) = (load.replies() - before, strace::time());
        drop(load);
        proxy.end();
        let calls = trace.calls(from, until);
        let futex = calls.get("futex").copied().unwrap_or(0);
        // A trace without any call of the shard has missed it.
        let holds = futex == 0 && calls.contains_key("io_uring_enter");
        verdict.judge("futex calls, all threads", futex, "0", holds);
        for (name, calls) in calls {
            note(format_args!("{name}: {calls}, {:.4} per request under strace", calls as f64 / requests));
        }
    }

    /// Lets the real program run by itself and reads what it has counted. A proxy that waits for its peers enters the
    /// kernel for each message or two, because there are no more yet; that is judged only where its core is the bottleneck.
    fn read_totals(&self, verdict: &mut Verdict, judges_enters: bool) {
        let proxy = Proxy::start(&self.credentials, &self.backend, self.cores, COALESCE);
        let mut load = self.connect(proxy.address);
        let (cpu_before, started) = (proxy.cpu_time(), now());
        load.run_until_answered(10 * self.requests);
        let (cpu, took) = (proxy.cpu_time() - cpu_before, now().since(started));
        let requests = load.replies();
        drop(load);
        let totals = proxy.end();
        let per_request = |name: &str| totals.count(name) as f64 / requests;
        let enters = per_request("enters");
        if judges_enters {
            verdict.judge("io_uring_enter per request", format_args!("{enters:.4}"), "below 0.3", enters < 0.3);
        } else {
            note(format_args!("io_uring_enter: {enters:.4} per request"));
        }
        for name in ["receives_without_buffer", "completion_overflows"] {
            let count = totals.count(name);
            verdict.judge(&name.replace('_', " "), count, "0", count == 0);
        }
        for name in ["receives", "sends", "records_opened", "flushes_batch_end"] {
            note(format_args!("{}: {:.4} per request", name.replace('_', " "), per_request(name)));
        }
        let (took, cpu) = (took.as_secs_f64(), cpu.as_secs_f64());
        note(format_args!(
            "{:.0} requests per second, {:.2} us of CPU time each",
            requests / took,
            cpu * 1e6 / requests
        ));
    }
}
