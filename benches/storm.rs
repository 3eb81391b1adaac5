//! What a storm of new clients costs those that are there, and how many of the new ones get in.

#[path = "support/arrivals.rs"]
mod arrivals;
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

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Parser;

use crate::arrivals::{Crowd, Fates, Manner, Pace};
use crate::backend::Listener;
use crate::cores::Cores;
use crate::credentials::{Credentials, KeyKind};
use crate::load::{Load, Shape};
use crate::proxy::Proxy;
use crate::samples::Samples;

/// Established clients: pipelines, so that they cost the clients' core little and the proxy's core is the bottleneck.
const SHAPE: Shape = Shape { clients: 50, outstanding: 16, request_bytes: 64, reply_bytes: 64 };

/// New clients that wait at once when it is asked how many the proxy can take.
const WAITING: usize = 64;

/// What a storm of new clients costs those that are there, and how many of the new ones get in
#[derive(Debug, Parser)]
struct Arguments {
    /// How often each figure is taken
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Short rounds: says that everything works; its figures mean little and are not judged
    #[arg(long)]
    quick: bool,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let Arguments { rounds, quick, .. } = Arguments::parse();
    let cores = Cores::of_this_process();
    cores::pin(cores.clients);
    let (rounds, round) = if quick { (1, Duration::from_millis(200)) } else { (rounds, Duration::from_secs(2)) };
    println!("{rounds} rounds of {round:?}, medians (smallest to largest); {cores}\n");
    let mut holds = established_beside_a_storm(cores, rounds, round);
    for key in [KeyKind::Ecdsa, KeyKind::Rsa] {
        holds &= honest_in_an_overload(key, cores, rounds, round);
    }
    if holds || quick { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A proxy with a certificate of its own, and clients for it.
struct World {
    credentials: Credentials,
    proxy: Proxy,
}

impl World {
    fn new(key: KeyKind, cores: Cores) -> Self {
        let credentials = Credentials::of(key);
        let (listener, address) = Listener::unix(&credentials.folder().join("backend.sock"));
        backend::start(listener, cores.backend, SHAPE.request_bytes, SHAPE.reply_bytes);
        let proxy = Proxy::start(&credentials, &address, cores, "64KiB");
        Self { credentials, proxy }
    }

    fn crowd(&self, manner: Manner) -> Crowd {
        Crowd::new(self.proxy.address, &self.credentials.client, manner)
    }

    /// Handshakes per second that the proxy can do when it does nothing else.
    fn capacity(&self, manner: Manner, round: Duration) -> f64 {
        per_second(self.crowd(manner).run_for(round, Pace::Waiting(WAITING)).served, round)
    }
}

fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

fn show(samples: &Samples) -> String {
    format!("{:.2} ({:.2} to {:.2})", samples.median(), samples.min(), samples.max())
}

fn judge(name: &str, samples: &Samples, bound: &str, holds: bool) -> bool {
    println!("{name:<66}{:>24}   {bound:<14}{}", show(samples), if holds { "holds" } else { "BROKEN" });
    holds
}

/// Recorded hellos at half of what the proxy can answer, beside clients that are there.
fn established_beside_a_storm(cores: Cores, rounds: usize, round: Duration) -> bool {
    let world = World::new(KeyKind::Ecdsa, cores);
    let mut load = Load::connect(world.proxy.address, &world.credentials.client, SHAPE);
    load.run_for(round / 4);
    let (mut throughput, mut p99) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        load.rest();
        let capacity = world.capacity(Manner::Recorded, round / 2);
        let calm = load.measure_for(round);
        let storm = world.crowd(Manner::Recorded);
        let (stormy, fates) = thread::scope(|scope| {
            let storm = scope.spawn(|| storm.run_for(round, Pace::PerSecond(capacity / 2.0)));
            (load.measure_for(round), storm.join().expect("the storm ends"))
        });
        throughput.push(stormy.per_second / calm.per_second);
        p99.push(stormy.p99.as_secs_f64() / calm.p99.as_secs_f64());
        println!(
            "    {:.0} hellos/s offered of {capacity:.0}, {:.0} answered; {:.0} requests/s instead of {:.0}; p99 {:?} \
             instead of {:?}",
            per_second(fates.came, round),
            per_second(fates.served, round),
            stormy.per_second,
            calm.per_second,
            stormy.p99,
            calm.p99,
        );
    }
    let (throughput, p99) = (Samples::from_iter(throughput), Samples::from_iter(p99));
    let name = "established clients' throughput, storm at half capacity";
    let holds = judge(name, &throughput, "at least 0.45", throughput.median() >= 0.45);
    let name = "their p99 latency";
    judge(name, &p99, "at most 2", p99.median() <= 2.0) & holds
}

/// Twice as many clients as the proxy can take.
fn honest_in_an_overload(key: KeyKind, cores: Cores, rounds: usize, round: Duration) -> bool {
    let world = World::new(key, cores);
    let share = |served: u64, capacity: f64| per_second(served, round) / capacity;
    let (mut all_honest, mut beside_recorded) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let capacity = world.capacity(Manner::Honest, round);
        let fates = world.crowd(Manner::Honest).run_for(round, Pace::PerSecond(2.0 * capacity));
        all_honest.push(share(fates.served, capacity));
        let recorded_capacity = world.capacity(Manner::Recorded, round / 2);
        let recorded = world.crowd(Manner::Recorded);
        let (honest, others): (Fates, Fates) = thread::scope(|scope| {
            let recorded = scope.spawn(|| recorded.run_for(round, Pace::PerSecond(1.5 * recorded_capacity)));
            let honest = world.crowd(Manner::Honest).run_for(round, Pace::PerSecond(capacity / 2.0));
            (honest, recorded.join().expect("the storm ends"))
        });
        beside_recorded.push(honest.served as f64 / honest.came as f64);
        println!(
            "    {key:?}: {:.0} of {:.0} handshakes/s offered served, capacity {capacity:.0}; beside {:.0} hellos/s \
             {:.0} of {:.0}",
            per_second(fates.served, round),
            per_second(fates.came, round),
            per_second(others.came, round),
            per_second(honest.served, round),
            per_second(honest.came, round),
        );
    }
    let (all_honest, beside_recorded) = (Samples::from_iter(all_honest), Samples::from_iter(beside_recorded));
    let name = format!("{key:?}: handshakes at twice the capacity, to the capacity");
    let holds = judge(&name, &all_honest, "at least 0.8", all_honest.median() >= 0.8);
    let name = format!("{key:?}: honest clients served beside 1.5 times the capacity of hellos");
    println!("{name:<66}{:>24}", show(&beside_recorded));
    holds
}
