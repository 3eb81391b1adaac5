//! What a request costs in counts once everything is warm, at 50 busy connections: allocations, system calls, enters of
//! the kernel. Each figure stands beside its bound, and the exit code tells whether all of them hold, so this is a test
//! as well. No time is measured.

#[path = "support/allocations.rs"]
mod allocations;
#[path = "support/backend.rs"]
mod backend;
#[path = "support/cores.rs"]
mod cores;
#[path = "support/credentials.rs"]
mod credentials;
#[path = "support/load.rs"]
mod load;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "support/strace.rs"]
mod strace;
#[path = "support/tls_client.rs"]
mod tls_client;

use std::fmt;
use std::process::ExitCode;

use clap::Parser;
use ringwall::config::{Config, Machine};
use ringwall::dispatcher::Command;
use ringwall::server::DataPlane;

use crate::backend::Listener;
use crate::cores::Cores;
use crate::credentials::Credentials;
use crate::load::{Load, Shape};
use crate::proxy::Proxy;

#[global_allocator]
static COUNTING: allocations::Counting = allocations::Counting;

/// Each connection has one request outstanding: it is busy, and nothing but the connections beside it makes a batch.
const SHAPE: Shape = Shape { clients: 50, outstanding: 1, request_bytes: 64, reply_bytes: 64 };

/// Windows in which what is still growing to its size may do so. What a request costs, it costs in each of them.
const WINDOWS_MAX: usize = 10;

/// Counts per request in the steady state, and whether they are within their bounds.
#[derive(Debug, Parser)]
struct Arguments {
    /// Fewer requests; the bounds hold just as well
    #[arg(long)]
    quick: bool,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let requests = if arguments.quick { 5_000 } else { 100_000 };
    let machine = Machine::of_this_process();
    let cores = Cores::of_this_process();
    cores::pin(cores.clients);
    let credentials = Credentials::new();
    let (listener, backend) = Listener::tcp();
    backend::start(listener, cores.backend, SHAPE.request_bytes, SHAPE.reply_bytes);
    println!(
        "{} clients with one request of {} B outstanding each, replies of {} B; {cores}; {requests} requests a window\n",
        SHAPE.clients, SHAPE.request_bytes, SHAPE.reply_bytes
    );

    let mut verdict = Verdict { all_hold: true };
    let bench = Bench { machine, cores, credentials, backend, requests };
    bench.count_allocations(&mut verdict);
    bench.count_system_calls(&mut verdict);
    bench.read_totals(&mut verdict);
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
    /// In one window.
    requests: u64,
}

impl Bench {
    fn start_proxy(&self) -> Proxy {
        Proxy::start(&self.credentials, &self.backend, self.cores, "64KiB")
    }

    /// Runs the data plane in this process, where its allocations can be counted.
    fn count_allocations(&self, verdict: &mut Verdict) {
        let file = self.credentials.write("ringwall.toml", &proxy::config(&self.backend, self.cores, "64KiB"));
        let (config, identities) = Config::load(&file, &self.machine).expect("a valid configuration");
        let plane = DataPlane::start(&config, identities).expect("the data plane starts");
        let mut load = Load::connect(plane.listening[0], &self.credentials.client, SHAPE);
        load.run_until_answered(self.requests);
        let (mut outside, mut windows) = (u64::MAX, 0);
        let mut window = None;
        while outside > 0 && windows < WINDOWS_MAX {
            windows += 1;
            let before = load.seen();
            let taken = allocations::during(|| load.run_until_answered(self.requests));
            let seen = load.seen();
            let records = seen.records_sent - before.records_sent + seen.records_received - before.records_received;
            let requests = (seen.reply_bytes - before.reply_bytes) / SHAPE.reply_bytes as u64;
            outside = taken.count().saturating_sub(records);
            window = Some((taken, records, requests));
        }
        drop(load);
        plane.commands.send(Command::Stop);
        plane.ended.blocking_recv().expect("the data plane ends");

        let Some((taken, records, requests)) = window else { return };
        let inside = taken.count() - outside;
        let per_request = outside as f64 / requests as f64;
        verdict.judge("allocations per request outside rustls", format_args!("{per_request:.6}"), "0", outside == 0);
        let per_record = inside as f64 / records as f64;
        let bound = "at most 1";
        verdict.judge(
            "allocations per record inside rustls",
            format_args!("{per_record:.6}"),
            bound,
            inside <= records,
        );
        note(format_args!("window {windows}: {requests} requests, {records} records sealed and opened, {taken}"));
    }

    /// Attaches to the real program while it is loaded. Being traced makes it slow, so its batches are large here.
    fn count_system_calls(&self, verdict: &mut Verdict) {
        let proxy = self.start_proxy();
        let mut load = Load::connect(proxy.address, &self.credentials.client, SHAPE);
        load.run_until_answered(self.requests);
        let before = load.replies();
        let calls = strace::during(proxy.id(), self.credentials.folder(), || load.run_until_answered(self.requests));
        let requests = load.replies() - before;
        drop(load);
        proxy.end();
        match calls {
            Ok(calls) => {
                let futex = calls.get("futex").copied().unwrap_or(0);
                verdict.judge("futex calls, all threads", futex, "0", futex == 0);
                for (name, calls) in calls {
                    note(format_args!("{name}: {calls}, {:.4} per request under strace", calls as f64 / requests));
                }
            }
            Err(error) => verdict.judge("futex calls, all threads", "unknown", error.trim(), false),
        }
    }

    /// Lets the real program run by itself and reads what it has counted.
    fn read_totals(&self, verdict: &mut Verdict) {
        let proxy = self.start_proxy();
        let mut load = Load::connect(proxy.address, &self.credentials.client, SHAPE);
        let cpu_before = proxy.cpu_time();
        load.run_until_answered(10 * self.requests);
        let requests = load.replies();
        let cpu = proxy.cpu_time() - cpu_before;
        drop(load);
        let totals = proxy.end();
        let per_request = |name: &str| totals.count(name) as f64 / requests;
        let enters = per_request("enters");
        verdict.judge("io_uring_enter per request", format_args!("{enters:.4}"), "below 0.3", enters < 0.3);
        for name in ["receives_without_buffer", "completion_overflows"] {
            let count = totals.count(name);
            verdict.judge(&name.replace('_', " "), count, "0", count == 0);
        }
        note(format_args!("proxy CPU: {:.2} us per request", cpu.as_secs_f64() * 1e6 / requests));
        for name in ["turns", "receives", "sends", "records_opened", "flushes_batch_end"] {
            note(format_args!("{}: {:.4} per request", name.replace('_', " "), per_request(name)));
        }
    }
}
