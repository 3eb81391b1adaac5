//! Many sessions of which few ask: what the others cost those, and what ringwall's dispatcher does meanwhile.

use std::time::Duration;

use crate::cases::Kind;
use crate::load::Shape;
use crate::peer::Running;
use crate::stage::{Findings, Stage};

impl Stage {
    pub(crate) fn few_busy(&self, kind: Kind, connections: usize, busy: usize) -> Findings {
        let (request, reply_bytes) = self.server.set(64);
        let shape = |clients| Shape { clients, outstanding: 1, request_bytes: request.len(), reply_bytes };
        let names = ["proxy CPU ms/1000", "dispatcher's CPU, % of shards'"];
        // Once: connecting takes longer than measuring.
        self.rounds(kind, 1, names, |_, program| {
            let idle = self.load(program, shape(connections - busy));
            let mut load = self.load(program, shape(busy));
            load.asks(&request);
            load.measure_for(self.took / 5);
            let (before, replies) = (cpu_by_name(program), load.replies());
            let (spent, _) = self.spent(program, || load.measure_for(self.took * 3));
            let after = cpu_by_name(program);
            let thousands = (load.replies() - replies) / 1_000.0;
            load.rest();
            drop(idle);
            let [dispatcher, shards] = [0, 1].map(|index| (after[index] - before[index]).as_secs_f64());
            // Not a number where there are no shards.
            [spent.proxy.as_secs_f64() * 1e3 / thousands, dispatcher / shards * 100.0]
        })
    }
}

/// The time that ringwall's dispatcher has spent on a core, and its shards; others have no threads of these names.
fn cpu_by_name(program: &Running) -> [Duration; 2] {
    let threads = program.threads();
    ["dispatcher", "shard-"].map(|name| {
        threads.iter().filter(|thread| thread.name.starts_with(name)).map(|thread| thread.cpu_time).sum::<Duration>()
    })
}
