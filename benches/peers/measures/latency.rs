//! Latency at a rate that does not wait for answers and that every proxy can keep up with.

use std::time::Duration;

use crate::cases::Kind;
use crate::client::Client;
use crate::draws::Draws;
use crate::load::{Shape, quantile};
use crate::open_loop::OpenLoop;
use crate::peer::{Role, Running, Spoken};
use crate::stage::{Findings, Stage};

/// The share of what the slowest peer can do.
const SHARE: f64 = 0.7;

impl Stage {
    pub(crate) fn latency(&self, kind: Kind, clients: usize) -> Findings {
        let (request, reply_bytes) = self.server.set(64);
        let shape = Shape { clients, outstanding: 1, request_bytes: request.len(), reply_bytes };
        let proxies = self.programs.iter().filter(|program| matches!(program.role, Role::Ours | Role::Peer));
        let capacity = |program: &Running| {
            let mut load = self.load(program, shape);
            load.asks(&request);
            load.measure_for(self.took / 5);
            let measure = load.measure_for(self.took / 2);
            load.rest();
            measure.per_second
        };
        let slowest = proxies.map(|program| (capacity(program), &program.name)).min_by(|(a, _), (b, _)| a.total_cmp(b));
        let Some((slowest, name)) = slowest else { return Findings::default() };
        let rate = slowest * SHARE;

        let mut findings = self.rounds(kind, self.rounds, ["p99 us", "p50 us", "p99.9 us"], |round, program| {
            let mut load = OpenLoop::new(&request, reply_bytes);
            for _ in 0..clients {
                let config = (program.spoken == Spoken::Tls).then_some(&self.credentials.client);
                load.join(Client::connect(program.address, config));
            }
            // The same arrivals for each program.
            let mut draws = Draws::new(round as u64);
            load.run_for(self.took / 5, rate, &mut draws, |draws| draws.below(clients));
            load.rest();
            load.take_latencies();
            load.run_for(self.took, rate, &mut draws, |draws| draws.below(clients));
            load.rest();
            let mut latencies = load.take_latencies();
            latencies.sort_unstable();
            [990, 500, 999].map(|permille| quantile(&latencies, permille)).map(micros)
        });
        findings.notes.push(format!(
            "Requests leave at random times, {rate:.0} a second: {:.0} % of what {name} can do. Latency is counted from the \
             time at which a request was to leave.",
            SHARE * 100.0
        ));
        findings
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
