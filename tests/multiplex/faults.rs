//! What becomes of clients when a server or its connections fail, by example.

use std::time::Duration;

use ringwall::io::Errno;
use ringwall::multiplex::{Broken, Reason};

use crate::world::{World, options};

const LOST: &str = "-ERR the connection to the server is lost; whether the command ran is unknown\r\n";

/// Two clients that share a connection.
fn world() -> World {
    let mut world = World::new(options());
    for _ in 0..2 {
        world.accept();
    }
    world.ask(0, "PING\r\n");
    world.ask(1, "PING\r\n");
    world
}

#[test]
fn what_is_under_way_on_a_lost_connection_fails_and_what_follows_has_a_fresh_one() {
    let mut world = world();
    world.say(0, b"INCR a\r\nINCR a\r\n");
    world.say(1, b"INCR a\r\n");
    let id = world.only_link();
    world.carry_to_server(id, "INCR a\r\n".len());
    world.break_link(id);
    world.settle();
    assert_eq!((world.take(0), world.take(1)), (LOST.repeat(2), LOST.to_owned()));
    // One of them had run; none is said again.
    assert_eq!(world.ask(0, "INCR a\r\n"), ":2\r\n");
    assert_eq!((world.dials, world.clients[0].closed), (2, None));
}

#[test]
fn a_transaction_on_a_lost_connection_fails_as_a_whole() {
    let mut world = world();
    world.say(0, b"MULTI\r\nINCR a\r\nEXEC\r\n");
    let id = world.only_link();
    world.break_link(id);
    world.settle();
    assert_eq!(world.take(0), LOST.repeat(3));
    assert_eq!(world.ask(0, "GET a\r\n"), "$-1\r\n");
}

#[test]
fn a_client_with_a_part_of_a_reply_cannot_go_on() {
    let mut world = world();
    world.say(0, b"GETRANGE a 100\r\n");
    world.say(1, b"PING\r\n");
    let id = world.only_link();
    world.carry_to_server(id, usize::MAX);
    world.carry_to_server(id, usize::MAX);
    world.carry_from_server(id, 50);
    world.break_link(id);
    world.settle();
    assert_eq!(world.take(0), format!("$100\r\n{}", "x".repeat(44)));
    assert_eq!(world.clients[0].closed, Some(Reason::ReplyCut));
    assert_eq!((world.take(1), world.clients[1].closed), (LOST.to_owned(), None));
}

#[test]
fn a_server_that_breaks_the_protocol_costs_the_clients_with_work_in_it() {
    for (says, broken) in [
        ("HTTP/1.1 400 Bad Request\r\n", "the server's reply is not RESP"),
        (">2\r\n+invalidate\r\n_\r\n", "the server sent an unexpected push"),
    ] {
        let mut world = world();
        world.say(0, b"PING\r\n");
        let id = world.only_link();
        world.server_says(id, says.as_bytes());
        world.carry_from_server(id, usize::MAX);
        world.settle();
        assert_eq!(world.take(0), format!("-ERR {broken}; whether the command ran is unknown\r\n"));
        assert!(matches!(world.clients[0].closed, Some(Reason::ServerBroke(_))));
        assert_eq!(world.ask(1, "PING\r\n"), "+PONG\r\n");
    }
}

#[test]
fn replies_in_front_of_what_is_none_are_passed_on() {
    for (behind, broken) in [(">0\r\n", "the server sent an unexpected push"), ("?", "the server's reply is not RESP")]
    {
        let mut world = world();
        world.say(0, "*1\r\n$4\r\nPING\r\n".repeat(4).as_bytes());
        let id = world.only_link();
        world.server_says(id, format!("+1\r\n+2\r\n{behind}").as_bytes());
        world.carry_from_server(id, usize::MAX);
        world.settle();
        let error = format!("-ERR {broken}; whether the command ran is unknown\r\n");
        assert_eq!(world.take(0), format!("+1\r\n+2\r\n{error}{error}"));
    }
}

#[test]
fn a_reply_that_came_in_pieces_is_no_part_of_the_next() {
    let mut world = world();
    world.say(0, b"GETRANGE a 100\r\n");
    world.say(1, b"PING\r\n");
    let id = world.only_link();
    while world.carry_to_server(id, usize::MAX) {}
    world.carry_from_server(id, 50);
    world.carry_from_server(id, 58);
    world.break_link(id);
    world.settle();
    assert_eq!(world.take(0).len(), "$100\r\n\r\n".len() + 100);
    assert_eq!((world.take(1), world.clients[1].closed), (LOST.to_owned(), None));
}

#[test]
fn a_reply_to_nothing_costs_the_connection() {
    let mut world = world();
    let id = world.only_link();
    world.server_says(id, b"+PONG\r\n");
    world.settle();
    assert_eq!(world.multiplexer.links(), 0);
    assert_eq!(world.ask(0, "PING\r\n"), "+PONG\r\n");
    assert_eq!(Broken::Unasked.in_words(), "the server replied to nothing");
}

#[test]
fn the_replies_of_a_client_that_is_gone_are_read_and_dropped() {
    let mut world = world();
    world.say(0, b"ECHO a\r\nGETRANGE a 100\r\n");
    world.say(1, b"ECHO b\r\n");
    let id = world.only_link();
    world.carry_to_server(id, usize::MAX);
    world.carry_to_server(id, usize::MAX);
    world.carry_from_server(id, 20);
    world.leave(0, Some(Errno(104)));
    world.settle();
    assert_eq!(world.take(1), "$1\r\nb\r\n");
    assert_eq!(world.dials, 1);
}

#[test]
fn a_server_that_cannot_be_reached_is_an_error_and_the_end() {
    let mut world = World::new(options());
    world.is_unreachable = true;
    for (client, asks) in ["PING\r\nPING\r\n", "WATCH a\r\n"].into_iter().enumerate() {
        world.accept();
        assert_eq!(world.ask(client, asks), "-ERR the server cannot be reached: connection refused\r\n");
        assert_eq!(world.clients[client].closed, Some(Reason::Unreachable));
    }
}

#[test]
fn whoever_has_reached_the_server_leaves_a_connection_for_the_first_client() {
    let mut world = World::new(options());
    for _ in 0..2 {
        world.turn(|multiplexer, turn| multiplexer.reach(turn));
    }
    let id = world.only_link();
    assert!(world.connect(id));
    world.accept();
    assert_eq!(world.ask(0, "PING\r\n"), "+PONG\r\n");
    assert_eq!(world.dials, 1);
    world.leave(0, None);
    world.settle();
    world.turn(|multiplexer, turn| multiplexer.close_all(turn));
    assert_eq!((world.multiplexer.links(), world.links.len()), (0, 0));
}

#[test]
fn an_attempt_to_connect_has_its_time() {
    let mut world = World::new(options());
    world.accept();
    world.say(0, b"PING\r\n");
    world.wait(Duration::from_secs(5));
    world.carry_to_client(0, usize::MAX);
    assert_eq!(world.take(0), "-ERR the server cannot be reached: the server did not answer in time\r\n");
    assert_eq!(world.multiplexer.links(), 0);
}

#[test]
fn what_a_server_says_to_whoever_connects_is_passed_on() {
    let mut world = World::new(options());
    world.accept();
    world.say(0, b"PING\r\n");
    let id = world.only_link();
    world.connect(id);
    world.server_says(id, b"-ERR max number of clients reached\r\n");
    world.carry_from_server(id, usize::MAX);
    world.carry_to_client(0, usize::MAX);
    assert_eq!(world.take(0), "-ERR the server refused the connection: ERR max number of clients reached\r\n");
}

#[test]
fn a_login_that_is_no_longer_good_runs_nothing() {
    let mut world = World::new(options());
    world.accept();
    world.ask(0, "AUTH alice wonder\r\nPING\r\n");
    for id in world.links.keys().copied().collect::<Vec<_>>() {
        world.break_link(id);
    }
    world.server.forbidden.push(("default".to_owned(), "AUTH".to_owned()));
    world.server.log.clear();
    assert!(world.ask(0, "SET a 1\r\n").starts_with("-ERR the server refused the connection: NOPERM"));
    assert_eq!((world.server.log.len(), world.clients[0].closed), (0, Some(Reason::Refused)));
}

#[test]
fn a_client_outlives_a_connection_of_its_own_that_it_does_not_use() {
    let mut world = World::new(options());
    world.server.needs_login = true;
    world.accept();
    assert_eq!(world.ask(0, "GET a\r\n"), "-NOAUTH Authentication required.\r\n");
    let own = world.only_link();
    world.break_link(own);
    assert_eq!(world.ask(0, "AUTH alice wonder\r\nGET a\r\n"), "+OK\r\n$-1\r\n");
}

#[test]
fn a_connection_that_has_gone_stale_while_it_was_kept_costs_nobody_anything() {
    let mut world = world();
    world.ask(0, "WATCH a\r\nUNWATCH\r\n");
    let kept = *world.links.keys().last().unwrap();
    world.ask(1, "AUTH alice wonder\r\n");
    world.say(1, b"WATCH a\r\nGET a\r\n");
    world.break_link(kept);
    world.settle();
    assert_eq!((world.take(1), world.clients[1].closed), ("+OK\r\n$-1\r\n".to_owned(), None));
    world.ask(1, "UNWATCH\r\n");
    // The same with WAIT, whose connection is asked something before it may be said.
    let kept = *world.links.keys().last().unwrap();
    world.say(0, b"WAIT 0 0\r\n");
    world.break_link(kept);
    world.settle();
    assert_eq!((world.take(0), world.clients[0].closed), (":1\r\n".to_owned(), None));
}

#[test]
fn a_client_ends_with_the_connection_that_has_its_transaction() {
    let mut world = world();
    world.ask(0, "WATCH a\r\n");
    let own = *world.links.keys().last().unwrap();
    world.break_link(own);
    world.settle();
    assert_eq!(world.clients[0].closed, Some(Reason::ServerLost));
    assert_eq!(world.ask(1, "PING\r\n"), "+PONG\r\n");
}

#[test]
fn what_is_no_request_is_answered_behind_what_came_before_and_nothing_follows() {
    let mut world = world();
    let bytes = b"PING\r\n*1\r\n$x\r\nPING\r\n";
    assert!(world.say(0, bytes));
    world.settle();
    assert_eq!(world.take(0), "+PONG\r\n-ERR Protocol error: invalid length\r\n");
    assert!(matches!(world.clients[0].closed, Some(Reason::Malformed(_))));
    assert_eq!(world.ask(1, "PING\r\n"), "+PONG\r\n");
}
