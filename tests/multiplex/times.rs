//! How long requests took, as it is counted and told.

use std::time::Duration;

use ringwall::multiplex::{Family, SlowRequest};

use crate::world::{World, options};

const MS: Duration = Duration::from_millis(1);

/// A world with so many clients, and a shared connection that is made.
fn world(clients: usize) -> World {
    let mut world = World::new(options());
    for _ in 0..clients {
        world.accept();
    }
    world.ask(0, "PING\r\n");
    world
}

/// Replies that were counted and their time in microseconds, of each family with any.
fn counted(world: &World) -> Vec<(&'static str, u64, u64)> {
    let totals = world.counts.totals();
    let families = Family::LABELS.iter().zip(0..);
    let counted = families.map(|(&name, index)| (name, &totals.request_micros[index]));
    counted.map(|(name, micros)| (name, micros.count(), micros.sum)).filter(|&(_, count, _)| count > 0).collect()
}

#[test]
fn a_request_takes_from_the_turn_in_which_it_is_said_to_that_in_which_its_reply_is_complete() {
    let mut world = world(1);
    let link = world.only_link();
    world.say(0, b"SET a 1\r\nRPUSH l x\r\nGET a\r\n");
    world.carry_to_server(link, usize::MAX);
    world.wait(3 * MS);
    // The first two, and a part of the third.
    world.carry_from_server(link, "+OK\r\n:1\r\n$1\r\n".len());
    world.wait(4 * MS);
    world.settle();
    assert_eq!(world.take(0), "+OK\r\n:1\r\n$1\r\n1\r\n");
    assert_eq!(counted(&world), [("connection", 1, 0), ("list", 1, 3_000), ("string", 2, 10_000)]);
}

#[test]
fn times_are_those_of_the_request_whoever_left_meanwhile() {
    let mut world = world(2);
    let link = world.only_link();
    world.say(0, b"GET a\r\n");
    world.wait(MS);
    world.say(1, b"INCR b\r\n");
    world.carry_to_server(link, usize::MAX);
    world.leave(0, Some(ringwall::io::Errno(104)));
    world.wait(MS);
    world.settle();
    assert_eq!(world.take(1), ":1\r\n");
    assert_eq!(counted(&world), [("connection", 1, 0), ("string", 2, 3_000)]);
}

#[test]
fn what_is_in_a_transaction_is_of_transactions_wherever_it_runs() {
    let mut world = world(1);
    assert_eq!(world.ask(0, "MULTI\r\nSET a 1\r\nEXEC\r\n"), "+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n");
    assert_eq!(counted(&world), [("connection", 1, 0), ("transactions", 3, 0)]);
    for (request, reply) in [
        ("WATCH a\r\n", "+OK\r\n"),
        ("MULTI\r\n", "+OK\r\n"),
        ("BLPOP l 0\r\n", "+QUEUED\r\n"),
        ("DISCARD\r\n", "+OK\r\n"),
    ] {
        assert_eq!(world.ask(0, request), reply);
    }
    assert_eq!(counted(&world), [("connection", 1, 0), ("transactions", 7, 0)]);
    world.ask(0, "GET a\r\n");
    assert_eq!(counted(&world), [("connection", 1, 0), ("string", 1, 0), ("transactions", 7, 0)]);
}

#[test]
fn what_may_block_is_a_family_of_its_own() {
    let mut world = world(1);
    world.say(0, b"BLPOP list 0\r\n");
    world.settle();
    world.wait(9 * MS);
    assert!(world.server.feed());
    world.settle();
    assert_eq!(world.take(0), "*2\r\n$4\r\nlist\r\n$3\r\nfed\r\n");
    assert_eq!(counted(&world), [("blocking", 1, 9_000), ("connection", 1, 0)]);
}

#[test]
fn requests_that_are_never_answered_take_no_time() {
    let mut world = world(1);
    let link = world.only_link();
    world.say(0, b"GET a\r\n");
    world.carry_to_server(link, usize::MAX);
    world.break_link(link);
    world.settle();
    assert!(world.take(0).starts_with("-ERR the connection to the server is lost"));
    assert_eq!(counted(&world), [("connection", 1, 0)]);
}

#[test]
fn a_request_that_takes_longer_is_told_with_what_was_in_front_of_it_unless_it_may_block() {
    let mut world = world(3);
    let link = world.only_link();
    world.multiplexer.tell_slower_than(Some(2 * MS));
    world.say(0, b"GET a\r\nMULTI\r\nGET a\r\nEXEC\r\n");
    world.carry_to_server(link, usize::MAX);
    world.wait(MS);
    world.say(1, b"SET a 1\r\n");
    world.carry_to_server(link, usize::MAX);
    world.wait(2 * MS);
    world.settle();
    // The last took just as long as is not told yet.
    let slow = |command, in_front| {
        let client = world.clients[0].id;
        SlowRequest { client, command, took: 3 * MS, is_shared: true, in_front }
    };
    assert_eq!(world.slow, [slow("get", 0), slow("multi", 1)]);
    world.slow.clear();
    world.say(2, b"WATCH a\r\nBLPOP l 0\r\n");
    world.settle();
    world.wait(9 * MS);
    world.server.feed();
    world.settle();
    assert_eq!(world.slow, []);
    world.say(2, b"object ENCODING a\r\n");
    let own = *world.links.keys().last().unwrap();
    world.carry_to_server(own, usize::MAX);
    world.wait(5 * MS);
    world.settle();
    let client = world.clients[2].id;
    let told = SlowRequest { client, command: "object|encoding", took: 5 * MS, is_shared: false, in_front: 0 };
    assert_eq!(world.slow, [told]);
    world.multiplexer.tell_slower_than(None);
    world.say(1, b"GET a\r\n");
    world.carry_to_server(link, usize::MAX);
    world.wait(9 * MS);
    world.settle();
    assert_eq!(world.slow, [told]);
}
