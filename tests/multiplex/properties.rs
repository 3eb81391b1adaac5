//! What holds for any clients, whatever the pieces, the order of events, slow readers and losses: hundreds of seeds.

use ringwall::io::Errno;
use ringwall::multiplex::Options;

use crate::talk::{Rng, alone, check, lossy_request, script};
use crate::world::{World, options};

/// Seeds of each property; `MULTIPLEX_SEED` runs one alone.
const SEEDS: u64 = 300;

fn for_each_seed(run: fn(u64)) {
    if let Ok(seed) = std::env::var("MULTIPLEX_SEED") {
        return run(seed.parse().unwrap());
    }
    for seed in 0..SEEDS {
        if let Err(reason) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("seed {seed} failed; replay it with MULTIPLEX_SEED={seed}");
            std::panic::resume_unwind(reason);
        }
    }
}

struct Talker {
    said: Vec<u8>,
    sent: usize,
    expected: Vec<String>,
}

fn limits(rng: &mut Rng) -> Options {
    Options {
        send_buffer_bytes: *rng.choose(&[2_000, 20_000, 256 * 1024]),
        bytes_max: *rng.choose(&[1_000, 10_000, 1024 * 1024]),
        probes_max: 1 + rng.draw(3),
        client_requests_max: *rng.choose(&[1, 3, 128]),
        connection_requests_max: *rng.choose(&[1, 7, 1_024]),
        class_connections_max: *rng.choose(&[1, 3]),
        classes_max: *rng.choose(&[1, 3, 100]),
        idle_connections_max: rng.draw(4),
        ..options()
    }
}

fn talkers(world: &mut World, rng: &mut Rng) -> Vec<Talker> {
    (0..1 + rng.draw(6))
        .map(|client| {
            world.accept();
            let length = 1 + rng.draw(40);
            let requests = script(client, length, rng);
            Talker { said: requests.concat().into_bytes(), sent: 0, expected: alone(&requests) }
        })
        .collect()
}

/// One event, drawn.
fn step(world: &mut World, talkers: &mut [Talker], rng: &mut Rng) {
    let client = rng.draw(talkers.len());
    let bytes = *rng.choose(&[1, 10, 100, 1_000, 100_000]);
    let links: Vec<_> = world.links.keys().copied().collect();
    let link = (!links.is_empty()).then(|| *rng.choose(&links));
    match (rng.draw(10), link) {
        (0..=2, _) => {
            let talker = &mut talkers[client];
            let piece = &talker.said[talker.sent..];
            let piece = &piece[..piece.len().min(bytes)];
            if !piece.is_empty() && world.say(client, piece) {
                talker.sent += piece.len();
            }
        }
        (3, Some(link)) => drop(world.connect(link)),
        (4..=5, Some(link)) => drop(world.carry_to_server(link, bytes)),
        (6..=7, Some(link)) => drop(world.carry_from_server(link, bytes)),
        (8, _) => {
            world.clients[client].blocked = rng.draw(3) == 0;
            world.carry_to_client(client, bytes);
        }
        _ => drop(world.server.feed()),
    }
}

/// Says the rest and lets everything come to rest.
fn finish(world: &mut World, talkers: &mut [Talker]) {
    for client in 0..talkers.len() {
        world.clients[client].blocked = false;
    }
    for _ in 0..10_000 {
        world.settle();
        let mut moved = world.server.feed();
        for (client, talker) in talkers.iter_mut().enumerate() {
            if talker.sent < talker.said.len() && world.say(client, &talker.said[talker.sent..]) {
                talker.sent = talker.said.len();
                moved = true;
            }
        }
        if !moved {
            return;
        }
    }
    panic!("it never comes to rest");
}

/// At the end nothing is held for anybody.
fn bury(world: &mut World, talkers: usize) {
    for client in 0..talkers {
        world.leave(client, None);
    }
    world.settle();
    world.server.feed();
    world.settle();
    assert_eq!(world.multiplexer.clients(), 0, "every client is closed");
    assert_eq!(world.pool.lent_bytes(), 0, "every buffer is home");
}

#[test]
fn each_client_gets_what_it_would_get_alone() {
    for_each_seed(|seed| {
        let mut rng = Rng(seed);
        let mut world = World::new(limits(&mut rng));
        let mut talkers = talkers(&mut world, &mut rng);
        for _ in 0..200 + rng.draw(1_000) {
            step(&mut world, &mut talkers, &mut rng);
        }
        finish(&mut world, &mut talkers);
        for (client, talker) in talkers.iter().enumerate() {
            assert_eq!(world.clients[client].closed, None);
            assert_eq!(world.take(client), talker.expected.concat(), "client {client}");
        }
        world.server.assert_each_ran_once();
        bury(&mut world, talkers.len());
    });
}

/// With losses it is only known of a client's requests that each was answered, or failed, in its turn.
#[test]
fn whatever_is_lost_no_client_gets_the_reply_of_another_and_nothing_runs_twice() {
    for_each_seed(|seed| {
        let mut rng = Rng(seed ^ 0x1055);
        let mut world = World::new(limits(&mut rng));
        let mut talkers: Vec<_> = (0..2 + rng.draw(5))
            .map(|client| {
                world.accept();
                let requests: Vec<_> = (0..40).map(|n| lossy_request(client, n, &mut rng)).collect();
                Talker { said: requests.concat().into_bytes(), sent: 0, expected: alone(&requests) }
            })
            .collect();
        for _ in 0..200 + rng.draw(1_000) {
            match rng.draw(60) {
                0 => {
                    let links: Vec<_> = world.links.keys().copied().collect();
                    if !links.is_empty() {
                        world.break_link(*rng.choose(&links));
                    }
                }
                1 => {
                    let client = rng.draw(talkers.len());
                    if world.clients[client].closed.is_none() && rng.draw(4) == 0 {
                        world.leave(client, (rng.draw(2) == 0).then_some(Errno(104)));
                    }
                }
                2 => world.is_unreachable = rng.draw(3) == 0,
                3 => world.wait(std::time::Duration::from_millis(rng.draw(800) as u64)),
                _ => step(&mut world, &mut talkers, &mut rng),
            }
        }
        world.is_unreachable = false;
        finish(&mut world, &mut talkers);
        for (client, talker) in talkers.iter().enumerate() {
            let is_whole = world.clients[client].closed.is_none();
            let received = world.take(client);
            check(&received, &talker.expected, is_whole);
        }
        world.server.assert_each_ran_once();
        for client in 0..talkers.len() {
            world.leave(client, Some(Errno(104)));
        }
        world.settle();
        assert_eq!(world.multiplexer.clients(), 0, "every client is closed");
        assert_eq!(world.pool.lent_bytes(), 0, "every buffer is home");
    });
}
