//! ringwall and its peers side by side: the same clients, the same server, the same core, in turn.

#[path = "../support/arrivals.rs"]
mod arrivals;
mod cases;
#[path = "../support/client.rs"]
mod client;
mod comparison;
#[path = "../support/cores.rs"]
mod cores;
#[path = "../support/credentials.rs"]
mod credentials;
#[path = "../support/draws.rs"]
mod draws;
mod forwarders;
mod goals;
#[path = "../support/load.rs"]
mod load;
mod measures;
#[path = "../support/open_loop.rs"]
mod open_loop;
mod peer;
mod plot;
#[path = "../support/processes.rs"]
mod processes;
mod programs;
mod report;
#[path = "../support/samples.rs"]
mod samples;
mod server;
mod stage;
#[path = "../support/tls_client.rs"]
mod tls_client;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::cases::{Case, Setting};
use crate::cores::Cores;
use crate::forwarders::Forwarder;
use crate::report::Report;
use crate::server::ServerOptions;
use crate::stage::Stage;

/// ringwall and its peers side by side: the same clients, the same server, the same core, in turn
#[derive(Debug, Parser)]
struct Arguments {
    /// How often each figure is taken
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long one measurement takes, in milliseconds
    #[arg(long, default_value_t = 1_000)]
    millis: u64,
    /// Only cases whose name contains this; may be given several times
    #[arg(long)]
    case: Vec<String>,
    /// Only peers and floors whose name contains this, beside ringwall and the server itself
    #[arg(long, default_value = "")]
    peer: String,
    /// Measures ringwall a second time, with this in the table of its listener: 'mode = "multiplex"', say
    #[arg(long)]
    listener: Option<String>,
    /// The server on the proxy's core in all cases: what both cost together
    #[arg(long)]
    together: bool,
    /// The server listens on a unix socket for the proxies in all cases
    #[arg(long)]
    unix: bool,
    #[command(flatten)]
    server: ServerOptions,
    /// Where the report goes
    #[arg(long, default_value = "target/peers")]
    report: PathBuf,
    /// Names the cases and ends
    #[arg(long)]
    list: bool,
    /// Serves as one of the suite's own proxies: KIND LISTEN SERVER FOLDER. Used by the bench itself
    #[arg(long, hide = true, num_args = 4)]
    serve: Vec<String>,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let arguments = Arguments::parse();
    if let [kind, listen, server, folder] = &arguments.serve[..] {
        let forwarder = Forwarder::from_str(kind, false).expect("the bench names one that there is");
        return forwarder.serve(listen, server, folder.as_ref());
    }
    let is_chosen =
        |case: &Case| arguments.case.is_empty() || arguments.case.iter().any(|part| case.name.contains(part));
    let cases = Case::all().into_iter().filter(is_chosen);
    if arguments.list {
        return cases.for_each(|case| println!("{}", case.name));
    }
    let cores = Cores::of_this_process();
    let took = Duration::from_millis(arguments.millis);
    let mut report = Report::begin(&arguments.report, cores, arguments.rounds, took);
    let mut stage: Option<(Setting, Stage)> = None;
    for case in cases {
        let (_, stage) = match stage.take() {
            Some(set) if set.0 == case.setting => stage.insert(set),
            other => {
                drop(other);
                let set = Stage::start(case.setting, &arguments, cores);
                report.present(&set);
                stage.insert((case.setting, set))
            }
        };
        report.add(&case, stage.measure(case.kind));
    }
    report.end();
}
