//! What connections that do nothing take of memory.

use std::net::TcpStream;
use std::time::Duration;

use crate::cases::Kind;
use crate::load::Shape;
use crate::peer::{Role, Running};
use crate::stage::{Findings, Stage};

const FEW: usize = 2_000;
const MANY: usize = 9_000;

impl Stage {
    pub(crate) fn idle(&self, kind: Kind) -> Findings {
        let shape = |clients| Shape { clients, outstanding: 1, request_bytes: 6, reply_bytes: 7 };
        let memory = |program: &Running| match program.role {
            Role::Direct => self.server.memory(),
            Role::Ours | Role::Peer | Role::Floor => program.memory(),
        };
        // Once: what a process has grown to it keeps.
        self.rounds(kind, 1, ["KiB each, of 9,000", "KiB each, of 2,000"], |_, program| {
            // What it needs only once is not counted.
            drop(self.load(program, shape(50)));
            let before = memory(program);
            let per_connection = |count: usize| memory(program).saturating_sub(before) as f64 / 1024.0 / count as f64;
            let first = self.load(program, shape(FEW));
            let of_few = per_connection(FEW);
            let rest = self.load(program, shape(MANY - FEW));
            let of_many = per_connection(MANY);
            drop((first, rest));
            wait_until_quiet(program);
            [of_many, of_few]
        })
    }
}

/// A connection more gets through only when those that are being ended do not hold the proxy up.
fn wait_until_quiet(program: &Running) {
    for _ in 0..50 {
        let _ = TcpStream::connect(program.address);
        std::thread::park_timeout(Duration::from_millis(10));
    }
}
