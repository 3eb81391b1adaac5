//! What connections that do nothing take of memory.

use std::net::TcpStream;
use std::time::Duration;

use crate::cases::Kind;
use crate::load::Shape;
use crate::peer::{Role, Running};
use crate::stage::{Findings, Stage};

impl Stage {
    pub(crate) fn idle(&self, kind: Kind, connections: [usize; 2]) -> Findings {
        let shape = |clients| Shape { clients, outstanding: 1, request_bytes: 6, reply_bytes: 7 };
        let memory = |program: &Running| match program.role {
            Role::Direct => self.server.memory(),
            Role::Ours | Role::Peer | Role::Floor => program.memory(),
        };
        // Once: what a process has grown to it keeps.
        let mut findings = self.rounds(kind, 1, ["KiB each of the most", "KiB each of the fewer"], |_, program| {
            // What it needs only once is not counted.
            drop(self.load(program, shape(50)));
            let before = memory(program);
            let per_connection = |count: usize| memory(program).saturating_sub(before) as f64 / 1024.0 / count as f64;
            let [few, many] = connections;
            let first = self.load(program, shape(few));
            let of_few = per_connection(few);
            let rest = self.load(program, shape(many - few));
            let of_many = per_connection(many);
            drop((first, rest));
            wait_until_quiet(program);
            [of_many, of_few]
        });
        findings.notes.push(format!("{} and {} connections.", connections[1], connections[0]));
        findings
    }
}

/// A connection more gets through only when those that are being ended do not hold the proxy up.
fn wait_until_quiet(program: &Running) {
    for _ in 0..50 {
        let _ = TcpStream::connect(program.address);
        std::thread::park_timeout(Duration::from_millis(10));
    }
}
