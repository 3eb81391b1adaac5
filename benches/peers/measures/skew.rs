//! Long-lived sessions some of which ask far more than others: how evenly they lie on the workers.

use std::collections::HashMap;
use std::time::Duration;

use crate::cases::Kind;
use crate::client::Client;
use crate::draws::{Draws, Zipf};
use crate::open_loop::OpenLoop;
use crate::peer::Running;
use crate::samples::Samples;
use crate::stage::{Findings, Stage};

const SESSIONS: usize = 2_000;
const EXPONENT: f64 = 1.1;
/// Requests of all sessions together: about a third of what a core can do.
const PER_SECOND: f64 = 6_000.0;
/// From one session to the next: all come within eight seconds.
const GAP: Duration = Duration::from_millis(4);
/// Orders in which the model has sessions come.
const MODELLED: u64 = 1_000;

impl Stage {
    /// `late`: the sessions ask only when all have come.
    pub(crate) fn skewed(&self, kind: Kind, late: bool) -> Findings {
        let zipf = Zipf::new(SESSIONS, EXPONENT);
        let (request, reply_bytes) = self.server.set(64);
        let names = ["most loaded worker to the mean", "CPU ms/1000"];
        let mut findings = self.rounds(kind, self.rounds.min(3), names, |round, program| {
            let mut draws = Draws::new(round as u64);
            let place = order(&mut draws);
            let mut load = OpenLoop::new(&request, reply_bytes);
            let who = |draws: &mut Draws| place[zipf.draw(draws)];
            for _ in 0..SESSIONS {
                load.join(Client::connect(program.address, Some(&self.credentials.client)));
                if !late {
                    load.run_for(GAP, PER_SECOND, &mut draws, who);
                }
            }
            load.rest();
            load.take_latencies();
            let before = cpu_times(program);
            load.run_for(self.took * 2, PER_SECOND, &mut draws, who);
            load.rest();
            let workers = busiest(&before, &cpu_times(program), program.workers);
            let (sum, most) = (workers.iter().sum::<f64>(), workers[0]);
            [most * workers.len() as f64 / sum, sum * 1e6 / load.take_latencies().len() as f64]
        });
        if let Some(program) = self.programs.first() {
            findings.notes.push(modelled(&zipf, program.workers));
        }
        findings
    }
}

/// The place in the order of arrival of each session, the busiest first.
fn order(draws: &mut Draws) -> Vec<usize> {
    let mut place: Vec<_> = (0..SESSIONS).collect();
    draws.shuffle(&mut place);
    place
}

/// Seconds of each thread.
fn cpu_times(program: &Running) -> HashMap<u32, f64> {
    program.threads().into_iter().map(|thread| (thread.id, thread.cpu_time.as_secs_f64())).collect()
}

/// Seconds that the busiest threads have spent, so many of them, in descending order: what else a program has does little.
fn busiest(before: &HashMap<u32, f64>, after: &HashMap<u32, f64>, count: usize) -> Vec<f64> {
    let mut spent: Vec<_> = after.iter().map(|(id, after)| after - before.get(id).unwrap_or(&0.0)).collect();
    spent.sort_by(|a, b| b.total_cmp(a));
    spent.truncate(count);
    spent
}

/// What two rules give by arithmetic, where a worker's load is the share of requests that its sessions have: plain counts,
/// by which sessions that stay go to the workers in turn, and a hash, by which each goes anywhere.
fn modelled(zipf: &Zipf, workers: usize) -> String {
    let most_to_mean = |by_hash: bool| -> Samples {
        let one = |seed| {
            let mut draws = Draws::new(seed);
            let mut loads = vec![0.0; workers];
            for (session, place) in order(&mut draws).into_iter().enumerate() {
                let worker = if by_hash { draws.below(workers) } else { place % workers };
                loads[worker] += zipf.share(session);
            }
            loads.into_iter().fold(0.0, f64::max) * workers as f64
        };
        (0..MODELLED).map(one).collect()
    };
    let show = |samples: &Samples| format!("{:.2} ({:.2} to {:.2})", samples.median(), samples.min(), samples.max());
    format!(
        "By arithmetic over {MODELLED} orders of arrival: plain counts {}, a hash {}.",
        show(&most_to_mean(false)),
        show(&most_to_mean(true))
    )
}
