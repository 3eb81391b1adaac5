//! The real shards and the real dispatcher on the simulated kernel, among simulated peers.
//!
//! One seed draws everything: the machine and its faults, the configuration, who connects and what they do, who gets
//! to run when, and when the process is told to end. A [`plan`] holds what is drawn beforehand, a [`run`] plays it;
//! [`promises`] are checked all along, [`verdicts`] at the end.
//!
//! `RINGWALL_SEEDS=5000 cargo test --test simulator` plays more seeds than the usual ones,
//! `RINGWALL_SEED=17 cargo test --test simulator replay` plays one again.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod backend;
mod client;
mod control;
mod front;
mod mouth;
mod plan;
mod process;
mod promises;
mod run;
mod scene;
mod script;
mod seeds;
#[path = "../simulation/mod.rs"]
mod simulation;
mod speech;
mod trace;
mod verdicts;

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

#[test]
fn hundreds_of_seeds_keep_every_promise() {
    seeds::play_all(0, number("RINGWALL_SEEDS").unwrap_or(300));
}

/// A stop that came right behind the end of the last shard undid it, and the dispatcher stayed for ever.
#[test]
fn a_stop_behind_the_end_changes_nothing() {
    for seed in [4_963, 8_564] {
        seeds::play(seed);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..10 {
        assert!(seeds::play(seed) == seeds::play(seed), "seed {seed} differs from itself");
    }
}

#[test]
fn replay() {
    if let Some(seed) = number("RINGWALL_SEED") {
        seeds::replay(seed);
    }
}
