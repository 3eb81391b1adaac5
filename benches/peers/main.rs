//! ringwall and its peers side by side: the same clients, the same server, the same core, in turn.

#[path = "../support/arrivals.rs"]
mod arrivals;
mod cases;
mod copy;
#[path = "../support/cores.rs"]
mod cores;
#[path = "../support/credentials.rs"]
mod credentials;
#[path = "../support/load.rs"]
mod load;
mod peer;
mod programs;
mod report;
#[path = "../support/samples.rs"]
mod samples;
mod server;
#[path = "../support/tls_client.rs"]
mod tls_client;

use std::time::Duration;

use clap::Parser;

use crate::cases::{Bench, Case, Kind};
use crate::cores::Cores;
use crate::credentials::Credentials;
use crate::peer::Running;
use crate::report::Report;
use crate::server::Server;

/// ringwall and its peers side by side: the same clients, the same server, the same core, in turn
#[derive(Debug, Parser)]
struct Arguments {
    /// How often each figure is taken
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long one measurement takes, in milliseconds
    #[arg(long, default_value_t = 1_500)]
    millis: u64,
    /// Only cases whose name contains this
    #[arg(long, default_value = "")]
    case: String,
    /// Only peers whose name contains this, and ringwall
    #[arg(long, default_value = "")]
    peer: String,
    /// The server on the proxy's core: what both cost together
    #[arg(long)]
    together: bool,
    /// The server listens on a unix socket for the proxies
    #[arg(long)]
    unix: bool,
    /// Serves as the copying proxy: LISTEN SERVER FOLDER. Used by the bench itself
    #[arg(long, hide = true, num_args = 3)]
    copy: Vec<String>,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let arguments = Arguments::parse();
    if let [listen, server, folder] = &arguments.copy[..] {
        copy::serve(listen, server, folder.as_ref());
        return;
    }
    let mut cores = Cores::of_this_process();
    if arguments.together {
        cores.backend = cores.proxy;
    }
    cores::pin(cores.clients);
    let credentials = Credentials::new();
    let server = Server::start(&credentials, cores, arguments.unix);
    let peers: Vec<_> = programs::all()
        .into_iter()
        .filter(|program| program.name == "ringwall" || program.name.contains(&arguments.peer))
        .filter_map(|program| Running::start(&program, &credentials, &server, cores))
        .collect();
    let took = Duration::from_millis(arguments.millis);
    let bench = Bench { credentials: &credentials, server: &server, peers: &peers, rounds: arguments.rounds, took };
    let mut report = Report::begin(&peers, &server, cores, arguments.rounds, took);
    for case in Case::all().into_iter().filter(|case| case.name.contains(&arguments.case)) {
        let rows = match case.kind {
            Kind::Requests { .. } => bench.requests(&case),
            Kind::Handshakes { resumed } => bench.handshakes(resumed),
            Kind::Idle { connections } => bench.idle(connections),
        };
        report.add(&case, &rows);
    }
    report.write();
}
