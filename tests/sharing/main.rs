//! A real shard whose listener multiplexes, on the simulated kernel: whatever the network, the buffers and the order of events,
//! each client gets the replies to its own requests, in order, and at the end all memory and sockets are back.
//!
//! One seed draws everything. `RINGWALL_SEED=17 cargo test --test sharing` plays one alone.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod run;
#[path = "../multiplex/server.rs"]
#[allow(dead_code, reason = "the multiplexer's own tests use the rest")]
mod server;
#[path = "../simulation/mod.rs"]
mod simulation;
#[path = "../multiplex/talk.rs"]
#[allow(dead_code, reason = "the multiplexer's own tests use the rest")]
mod talk;

use crate::run::Run;
use crate::talk::{alone, check, lossy_request, script};

/// Seeds of each property.
const SEEDS: u64 = 150;

fn for_each_seed(run: fn(u64)) {
    if let Ok(seed) = std::env::var("RINGWALL_SEED") {
        return run(seed.parse().unwrap());
    }
    for seed in 0..SEEDS {
        if let Err(reason) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("seed {seed} failed; replay it with RINGWALL_SEED={seed}");
            std::panic::resume_unwind(reason);
        }
    }
}

#[test]
fn each_client_gets_what_it_would_get_alone() {
    for_each_seed(|seed| {
        let mut run = Run::new(seed);
        let mut expected = Vec::new();
        for client in 0..1 + run.rng.draw(8) {
            let length = 1 + run.rng.draw(40);
            let requests = script(client, length, &mut run.rng);
            expected.push(alone(&requests).concat());
            run.arrive(requests.concat().into_bytes());
        }
        run.play(false);
        for (client, expected) in expected.iter().enumerate() {
            assert_eq!(run.received(client), *expected, "client {client}");
        }
        run.server.assert_each_ran_once();
        run.drain();
    });
}

/// With losses it is only known of a client's requests that each was answered, or failed, in its turn.
#[test]
fn whatever_is_lost_no_client_gets_the_reply_of_another_and_nothing_runs_twice() {
    for_each_seed(|seed| {
        let mut run = Run::new(seed ^ 0x1055);
        let mut expected = Vec::new();
        for client in 0..2 + run.rng.draw(8) {
            let requests: Vec<_> = (0..40).map(|n| lossy_request(client, n, &mut run.rng)).collect();
            expected.push(alone(&requests));
            run.arrive(requests.concat().into_bytes());
        }
        run.play(true);
        for (client, expected) in expected.iter().enumerate() {
            check(&run.received(client), expected, run.is_whole(client));
        }
        run.server.assert_each_ran_once();
        run.drain();
    });
}
