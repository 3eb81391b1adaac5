//! Programs that run beside each other in front of one server, and are measured in turn.

use std::time::Duration;

use ringwall::io::sys::now;

use crate::Arguments;
use crate::cases::{Cast, Kind, Setting};
use crate::cores::{self, Cores};
use crate::credentials::Credentials;
use crate::load::{Load, Shape};
use crate::peer::{Program, Role, Running, Spoken};
use crate::programs;
use crate::samples::Samples;
use crate::server::Server;

/// What one program showed in one case.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) program: String,
    pub(crate) role: Role,
    /// Each figure's name, and its value in each round.
    pub(crate) figures: Vec<(&'static str, Samples)>,
}

/// What a case has shown.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) rows: Vec<Row>,
    /// What must be known beside the rows.
    pub(crate) notes: Vec<String>,
}

/// CPU time over a stretch of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) proxy: Duration,
    pub(crate) server: Duration,
    pub(crate) took: Duration,
}

/// The programs, and what they are measured with. Dropped in this order.
pub(crate) struct Stage {
    pub(crate) programs: Vec<Running>,
    pub(crate) server: Server,
    pub(crate) credentials: Credentials,
    pub(crate) together: bool,
    /// How often each figure is taken.
    pub(crate) rounds: usize,
    /// How long that takes.
    pub(crate) took: Duration,
}

impl Stage {
    pub(crate) fn start(setting: Setting, arguments: &Arguments, mut cores: Cores) -> Self {
        let together = setting.together || arguments.together;
        if together {
            cores.backend = cores.proxy;
        }
        cores::pin(cores.clients);
        let credentials = Credentials::of(setting.key);
        let server = Server::start(&arguments.server, &credentials, cores, setting.unix || arguments.unix);
        let programs: Vec<_> = cast(setting.cast, arguments)
            .iter()
            .filter_map(|program| Running::start(program, &credentials, &server, cores))
            .collect();
        assert!(
            programs.iter().any(|program| program.role == Role::Ours),
            "without ringwall there is nothing to compare"
        );
        let took = Duration::from_millis(arguments.millis);
        Self { programs, server, credentials, together, rounds: arguments.rounds, took }
    }

    pub(crate) fn measure(&self, kind: Kind) -> Findings {
        match kind {
            Kind::Requests { clients, pipeline, value_bytes } => self.requests(kind, clients, pipeline, value_bytes),
            Kind::Added => self.added(kind),
            Kind::Latency { clients } => self.latency(kind, clients),
            Kind::Handshakes { resumed } => self.handshakes(kind, resumed),
            Kind::Idle => self.idle(kind),
            Kind::FewBusy { connections, busy } => self.few_busy(kind, connections, busy),
            Kind::SystemCalls { clients } => self.system_calls(kind, clients),
            Kind::Skewed { late } => self.skewed(kind, late),
        }
    }

    /// Takes `figures` of each program that the case suits in each of so many rounds.
    pub(crate) fn rounds<const N: usize>(
        &self,
        kind: Kind,
        rounds: usize,
        names: [&'static str; N],
        mut figures: impl FnMut(usize, &Running) -> [f64; N],
    ) -> Findings {
        let suited: Vec<_> = self.programs.iter().filter(|program| kind.suits(program.role, program.spoken)).collect();
        let mut values = vec![[const { Vec::new() }; N]; suited.len()];
        for round in 0..rounds {
            for (program, values) in suited.iter().zip(&mut values) {
                for (value, values) in figures(round, program).into_iter().zip(values) {
                    values.push(value);
                }
            }
        }
        let row = |(program, values): (&&Running, [Vec<f64>; N])| Row {
            program: program.name.clone(),
            role: program.role,
            figures: names.into_iter().zip(values.into_iter().map(Samples::from_iter)).collect(),
        };
        Findings { rows: suited.iter().zip(values).map(row).collect(), notes: Vec::new() }
    }

    /// A load in front of `program`.
    pub(crate) fn load(&self, program: &Running, shape: Shape) -> Load {
        let config = (program.spoken == Spoken::Tls).then_some(&self.credentials.client);
        Load::connect_by(program.address, config, shape)
    }

    /// What `work` costs the program and the server, and what it gives.
    pub(crate) fn spent<T>(&self, program: &Running, work: impl FnOnce() -> T) -> (Spent, T) {
        let (proxy, server, started) = (program.cpu_time(), self.server.cpu_time(), now());
        let result = work();
        let took = now().since(started);
        let proxy = program.cpu_time().saturating_sub(proxy);
        let server = self.server.cpu_time().saturating_sub(server);
        (Spent { proxy, server, took }, result)
    }
}

/// The programs that are to run: of all those that are asked for, of a narrower cast all.
fn cast(cast: Cast, arguments: &Arguments) -> Vec<Program> {
    match cast {
        Cast::Everyone => {
            let mut all = programs::all();
            if let Some(listener) = &arguments.listener {
                let name = format!("ringwall, {listener}");
                all.insert(1, Program { name, listener: listener.clone(), ..programs::ours() });
            }
            // Ratios are to ringwall, and added latency is to the server.
            all.retain(|program| {
                matches!(program.role, Role::Ours | Role::Direct) || program.name.contains(&arguments.peer)
            });
            all
        }
        Cast::Shards => [1, 2, 4, 8].map(programs::ours_with).into(),
        Cast::Placing(workers) => programs::placing(workers),
    }
}
