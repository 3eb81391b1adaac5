//! Clients that wait for their answers: what a request costs, how many there are, how long they take.

use std::time::Duration;

use crate::cases::Kind;
use crate::load::Shape;
use crate::peer::Role;
use crate::stage::{Findings, Stage};

/// How busy the proxy's core was with it, and with the server where that is there too.
pub(crate) const BUSY: &str = "its core busy %";
/// The figure that means something where it was.
pub(crate) const THROUGHPUT: &str = "requests/s";

/// What 1,000 requests cost the proxy.
pub(crate) const PROXY: &str = "proxy CPU ms/1000";
const BOTH: &str = "with server's";

impl Stage {
    pub(crate) fn requests(&self, kind: Kind, clients: usize, pipeline: usize, value_bytes: usize) -> Findings {
        let (request, reply_bytes) = self.server.set(value_bytes);
        let shape = Shape { clients, outstanding: pipeline, request_bytes: request.len(), reply_bytes };
        // Where both share a core, what they cost together is the figure.
        let costs = if self.together { [BOTH, PROXY] } else { [PROXY, BOTH] };
        let names = [costs[0], costs[1], THROUGHPUT, "p50 us", "p99 us", "p99.9 us", BUSY];
        self.rounds(kind, self.rounds, names, |_, program| {
            let mut load = self.load(program, shape);
            load.asks(&request);
            load.measure_for(self.took / 5);
            let before = load.replies();
            let (spent, measure) = self.spent(program, || load.measure_for(self.took));
            let thousands = (load.replies() - before) / 1_000.0;
            load.rest();
            let per_thousand = |cpu: Duration| cpu.as_secs_f64() * 1e3 / thousands;
            let both = per_thousand(spent.proxy + spent.server);
            // No proxy is there that could take any.
            let proxy = if program.role == Role::Direct { f64::NAN } else { per_thousand(spent.proxy) };
            let costs = if self.together { [both, proxy] } else { [proxy, both] };
            let [p50, p99, p999] = [measure.p50, measure.p99, measure.p999].map(|time| time.as_secs_f64() * 1e6);
            let busy = match (self.together, program.role) {
                (true, _) => (spent.proxy + spent.server).div_duration_f64(spent.took) * 100.0,
                (false, Role::Direct) => f64::NAN,
                (false, Role::Ours | Role::Peer | Role::Floor) => spent.proxy.div_duration_f64(spent.took) * 100.0,
            };
            [costs[0], costs[1], measure.per_second, p50, p99, p999, busy]
        })
    }

    /// Each program's latency less that of the server's own TLS in the same round.
    pub(crate) fn added(&self, kind: Kind) -> Findings {
        let (request, reply_bytes) = self.server.set(64);
        let shape = Shape { clients: 1, outstanding: 1, request_bytes: request.len(), reply_bytes };
        let mut findings = self.rounds(kind, self.rounds, ["added p50 us", "p50 us", "p99 us"], |_, program| {
            let mut load = self.load(program, shape);
            load.asks(&request);
            load.measure_for(self.took / 5);
            let measure = load.measure_for(self.took);
            load.rest();
            let [p50, p99] = [measure.p50, measure.p99].map(|time| time.as_secs_f64() * 1e6);
            [p50, p50, p99]
        });
        let direct = findings.rows.iter().find(|row| row.role == Role::Direct).map(|row| row.figures[0].1.clone());
        let Some(direct) = direct else {
            findings.rows.clear();
            findings.notes.push("the server has no TLS to be compared with".to_owned());
            return findings;
        };
        for row in &mut findings.rows {
            row.figures[0].1 = row.figures[0].1.less(&direct);
        }
        findings
    }
}
