//! Whom the server lets in without a login, by example and by property: a connection that was made before the default user got a
//! password is nobody's way in who has come after.

use ringwall::multiplex::{Options, Reason};

use crate::talk::Rng;
use crate::world::{World, options};

const NO_LOGIN: &str = "-NOAUTH Authentication required.\r\n";

/// A client that shares a connection.
fn world() -> World {
    let mut world = World::new(options());
    world.accept();
    assert_eq!(world.ask(0, "SET a 1\r\n"), "+OK\r\n");
    world
}

/// How often the server has run this command, or any with it as the last argument.
fn runs(world: &World, last: &str) -> usize {
    world.server.log.iter().filter(|said| *said == last).count()
}

#[test]
fn who_comes_when_a_password_is_wanted_is_not_let_in_and_those_who_are_go_on() {
    let mut world = world();
    world.server.needs_login = true;
    let late = world.accept();
    assert_eq!(world.ask(late, "GET a\r\nPING\r\n"), NO_LOGIN.repeat(2));
    assert_eq!(world.ask(late, "MULTI\r\nINCR a\r\nEXEC\r\n"), NO_LOGIN.repeat(3));
    assert_eq!(world.ask(0, "GET a\r\n"), "$1\r\n1\r\n");
    assert_eq!(world.ask(late, "AUTH alice wonder\r\nGETEX tag\r\n"), "+OK\r\n$17\r\nalice 0 false tag\r\n");
    assert_eq!(world.ask(0, "GETEX tag\r\n"), "$19\r\ndefault 0 false tag\r\n");
}

#[test]
fn who_came_before_and_has_said_nothing_is_asked_about() {
    let mut world = world();
    let silent = world.accept();
    assert_eq!(world.ask(0, "GET a\r\n"), "$1\r\n1\r\n");
    world.server.needs_login = true;
    assert_eq!(world.ask(silent, "GET a\r\n"), NO_LOGIN);
}

#[test]
fn a_password_that_is_taken_back_keeps_nobody_out() {
    let mut world = world();
    world.server.needs_login = true;
    let early = world.accept();
    assert_eq!(world.ask(early, "GET a\r\n"), NO_LOGIN);
    world.server.needs_login = false;
    let late = world.accept();
    for client in [0, early, late] {
        assert_eq!(world.ask(client, "GET a\r\n"), "$1\r\n1\r\n");
    }
}

#[test]
fn one_question_speaks_for_all_who_had_come_and_its_connection_is_kept_for_the_next() {
    let mut world = world();
    let clients: Vec<_> = (0..100).map(|_| world.accept()).collect();
    for &client in &clients {
        world.say(client, b"GETEX tag\r\n");
    }
    assert_eq!(world.dials, 2);
    // Who comes while the question is under way waits for another.
    let late = world.accept();
    world.say(late, b"GETEX tag\r\n");
    world.settle();
    for client in clients.into_iter().chain([late]) {
        assert_eq!(world.take(client), "$19\r\ndefault 0 false tag\r\n");
    }
    // The first of the class, and these two.
    assert_eq!((world.dials, runs(&world, "PING"), runs(&world, "RESET")), (2, 3, 1));
}

#[test]
fn a_connection_that_is_kept_lets_nobody_in_whom_a_fresh_one_would_not() {
    // Changes are asked for on one that is kept; what else needs its own takes any but the last.
    for asks in ["SELECT 1\r\nMULTI\r\n", "WATCH a\r\nMULTI\r\n", "SUBSCRIBE a\r\nGET a\r\n"] {
        let mut world = world();
        for _ in 0..2 {
            let client = world.accept();
            assert_eq!(world.ask(client, "WATCH a\r\n"), "+OK\r\n");
        }
        for client in [1, 2] {
            assert_eq!(world.ask(client, "UNWATCH\r\n"), "+OK\r\n");
        }
        let dials = world.dials;
        world.server.needs_login = true;
        let late = world.accept();
        assert_eq!(world.ask(late, asks), NO_LOGIN.repeat(2));
        assert_eq!(world.dials, dials);
    }
}

#[test]
fn who_says_reset_is_a_newcomer() {
    let mut world = world();
    world.server.needs_login = true;
    assert_eq!(world.ask(0, "RESET\r\n"), "+RESET\r\n");
    assert_eq!(world.ask(0, "GET a\r\n"), NO_LOGIN);
}

#[test]
fn whom_the_server_has_answered_on_a_connection_of_its_own_is_let_in() {
    let mut world = world();
    let client = world.accept();
    assert_eq!(world.ask(client, "WATCH a\r\nUNWATCH\r\n"), "+OK\r\n+OK\r\n");
    assert_eq!(world.ask(client, "GET a\r\n"), "$1\r\n1\r\n");
    // That was when the first had come.
    assert_eq!(runs(&world, "PING"), 1);
    world.server.needs_login = true;
    let late = world.accept();
    assert_eq!(world.ask(late, "WATCH a\r\n"), NO_LOGIN);
    assert_eq!(world.ask(late, "GET a\r\n"), NO_LOGIN);
    assert_eq!(runs(&world, "PING"), 1);
}

#[test]
fn a_class_that_begins_again_asks_over_the_connection_that_it_had() {
    let mut world = world();
    world.leave(0, None);
    world.settle();
    let clients: Vec<_> = (0..10).map(|_| world.accept()).collect();
    for &client in &clients {
        world.say(client, b"GET a\r\n");
    }
    world.settle();
    assert!(clients.iter().all(|&client| world.take(client) == "$1\r\n1\r\n"));
    assert_eq!(world.dials, 1);
}

#[test]
fn a_class_to_which_nobody_is_let_in_any_more_makes_no_further_connections() {
    let mut world = World::new(Options { class_connections_max: 2, ..options() });
    let clients: Vec<_> = (0..70).map(|_| world.accept()).collect();
    world.ask(0, "PING\r\n");
    world.server.needs_login = true;
    for _ in 0..5 {
        for &client in &clients {
            world.say(client, b"PING\r\n");
        }
        world.settle();
        assert!(clients.iter().all(|&client| world.take(client) == "+PONG\r\n"));
    }
    assert_eq!(world.dials, 2);
}

#[test]
fn a_server_without_reset_is_asked_over_a_fresh_connection_each_time() {
    let mut world = world();
    world.server.forbidden.push(("default".to_owned(), "RESET".to_owned()));
    for _ in 0..3 {
        let client = world.accept();
        assert_eq!(world.ask(client, "GET a\r\n"), "$1\r\n1\r\n");
    }
    world.server.needs_login = true;
    let late = world.accept();
    assert_eq!(world.ask(late, "GET a\r\n"), NO_LOGIN);
    assert_eq!(world.ask(0, "GET a\r\n"), "$1\r\n1\r\n");
}

#[test]
fn those_whose_shared_connection_is_lost_get_the_servers_word_over_others() {
    let mut world = world();
    let other = world.accept();
    assert_eq!(world.ask(other, "GET a\r\n"), "$1\r\n1\r\n");
    world.server.needs_login = true;
    for id in world.links.keys().copied().collect::<Vec<_>>() {
        world.break_link(id);
    }
    for client in [0, other] {
        assert_eq!(world.ask(client, "GET a\r\n"), NO_LOGIN);
        assert_eq!(world.clients[client].closed, None);
    }
    assert_eq!(world.ask(0, "AUTH alice wonder\r\nGET a\r\n"), "+OK\r\n$1\r\n1\r\n");
}

#[test]
fn newcomers_wait_for_an_answer_and_get_an_error_when_the_question_cannot_be_asked() {
    let mut world = world();
    let client = world.accept();
    world.say(client, b"GET a\r\n");
    let (&asking, _) = world.links.iter().find(|(_, link)| link.connection.is_none()).unwrap();
    let shared = *world.links.keys().next().unwrap();
    world.break_link(shared);
    world.is_unreachable = true;
    world.connect(asking);
    world.settle();
    assert_eq!(world.take(client), "-ERR the server cannot be reached: connection refused\r\n");
    assert_eq!(world.clients[client].closed, Some(Reason::Unreachable));
}

#[test]
fn newcomers_share_although_the_server_has_no_room_for_another_connection() {
    let mut world = world();
    world.server.room = Some(1);
    for round in 0..2 {
        let clients: Vec<_> = (0..20).map(|_| world.accept()).collect();
        for &client in &clients {
            world.say(client, b"GETEX tag\r\n");
        }
        world.say(0, b"GET a\r\n");
        world.settle();
        for client in clients {
            assert_eq!(world.take(client), "$19\r\ndefault 0 false tag\r\n", "round {round}");
        }
        assert_eq!(world.take(0), "$1\r\n1\r\n");
    }
}

#[test]
fn newcomers_share_although_a_server_without_room_is_not_heard() {
    let mut world = world();
    let client = world.accept();
    world.say(client, b"GET a\r\n");
    let asking = *world.links.keys().last().unwrap();
    world.connect(asking);
    world.break_link(asking);
    world.settle();
    assert_eq!((world.take(client).as_str(), world.dials), ("$1\r\n1\r\n", 2));
}

#[test]
fn those_who_log_in_take_turns_where_the_server_has_no_room_for_another_connection() {
    let mut world = World::new(options());
    world.accept();
    assert_eq!(world.ask(0, "AUTH alice wonder\r\nGETEX tag\r\n"), "+OK\r\n$17\r\nalice 0 false tag\r\n");
    world.server.room = Some(3);
    // It does not take the one that is kept.
    let blocked = world.accept();
    assert_eq!(world.ask(blocked, "BLPOP list 0\r\n"), "");
    let refused = world.accept();
    assert_eq!(world.ask(refused, "BLPOP list 0\r\n"), "-ERR max number of clients reached\r\n");
    let clients: Vec<_> = (0..20).map(|_| world.accept()).collect();
    for &client in &clients {
        world.say(client, b"AUTH alice wonder\r\nGETEX tag\r\n");
    }
    world.settle();
    for client in clients {
        assert_eq!(world.take(client), "+OK\r\n$17\r\nalice 0 false tag\r\n");
    }
    assert_eq!(world.ask(refused, "SELECT 1\r\n"), "+OK\r\n");
}

#[test]
fn the_connection_on_which_clients_log_in_does_not_become_the_one_that_they_share() {
    let mut world = World::new(options());
    world.accept();
    assert_eq!(world.ask(0, "AUTH alice wonder\r\n"), "+OK\r\n");
    assert_eq!(world.ask(0, "GETEX tag\r\n"), "$17\r\nalice 0 false tag\r\n");
    assert_eq!(world.dials, 2);
    world.server.room = Some(2);
    for _ in 0..5 {
        let client = world.accept();
        assert_eq!(world.ask(client, "AUTH alice wonder\r\n"), "+OK\r\n");
        assert_eq!(world.ask(client, "GETEX tag\r\n"), "$17\r\nalice 0 false tag\r\n");
    }
    assert_eq!(world.dials, 2);
}

#[test]
fn who_logs_in_waits_for_a_connection_on_which_newcomers_are_asked_about() {
    let mut world = World::new(options());
    world.accept();
    assert_eq!(world.ask(0, "AUTH alice wonder\r\nGETEX tag\r\n"), "+OK\r\n$17\r\nalice 0 false tag\r\n");
    let (stranger, another) = (world.accept(), world.accept());
    assert_eq!(world.ask(stranger, "PING\r\n"), "+PONG\r\n");
    assert_eq!(world.ask(another, "AUTH alice wonder\r\n"), "+OK\r\n");
    world.server.room = Some(3);
    let clients: Vec<_> = (0..3).map(|_| world.accept()).collect();
    world.say(clients[0], b"PING\r\n");
    for &client in &clients[1..] {
        world.say(client, b"AUTH alice wonder\r\n");
    }
    let dialled: Vec<_> = world.links.iter().filter(|(_, link)| link.connection.is_none()).map(|(&id, _)| id).collect();
    assert_eq!(dialled.len(), 2);
    for id in dialled {
        world.connect(id);
        world.carry_from_server(id, usize::MAX);
    }
    world.settle();
    assert_eq!(
        clients.into_iter().map(|client| world.take(client)).collect::<Vec<_>>(),
        ["+PONG\r\n", "+OK\r\n", "+OK\r\n"]
    );
}

#[test]
fn where_there_is_no_room_at_all_the_server_has_its_say() {
    let mut world = World::new(Options { idle_connections_max: 0, ..options() });
    world.server.room = Some(0);
    for asks in ["AUTH alice wonder\r\n", "GET a\r\n"] {
        let client = world.accept();
        let said = "-ERR the server refused the connection: ERR max number of clients reached\r\n";
        assert_eq!(world.ask(client, asks), said);
        assert_eq!(world.clients[client].closed, Some(Reason::Refused));
    }
}

#[test]
fn nothing_is_queued_into_a_transaction_whose_end_was_refused() {
    let mut world = world();
    world.server.forbidden.push(("default".to_owned(), "EXEC".to_owned()));
    let other = world.accept();
    assert_eq!(world.ask(other, "PING\r\n"), "+PONG\r\n");
    world.say(0, b"MULTI\r\nINCR a\r\nEXEC\r\nGET a\r\n");
    world.say(other, b"INCR a\r\n");
    world.settle();
    let refused = "+OK\r\n+QUEUED\r\n-NOPERM this user has no permissions to run the 'EXEC' command\r\n";
    let left = "-ERR the connection was left in a transaction; whether the command ran is unknown\r\n";
    assert_eq!((world.take(0), world.take(other)), (format!("{refused}{left}"), left.to_owned()));
    assert_eq!(world.ask(other, "INCR a\r\n"), ":2\r\n");
    // From here on it is a matter of who says so.
    world.say(0, b"MULTI\r\nINCR a\r\nEXEC\r\nGET a\r\n");
    world.say(other, b"INCR a\r\n");
    world.settle();
    assert_eq!((world.take(0), world.take(other)), (format!("{refused}+QUEUED\r\n"), ":3\r\n".to_owned()));
    assert_eq!(world.ask(0, "DISCARD\r\nGET a\r\n"), "+OK\r\n$1\r\n3\r\n");
}

#[test]
fn of_transactions_in_a_row_the_first_whose_end_is_refused_is_the_last_to_be_answered() {
    let mut world = world();
    world.server.forbidden.push(("default".to_owned(), "EXEC".to_owned()));
    world.say(0, b"MULTI\r\nINCR b\r\nEXEC\r\nMULTI\r\nINCR b\r\nEXEC\r\n");
    world.settle();
    let refused = "+OK\r\n+QUEUED\r\n-NOPERM this user has no permissions to run the 'EXEC' command\r\n";
    let left = "-ERR the connection was left in a transaction; whether the command ran is unknown\r\n";
    assert_eq!(world.take(0), format!("{refused}{left}{left}{left}"));
    assert_eq!(world.ask(0, "INCR b\r\n"), ":1\r\n");
}

#[test]
fn a_transaction_and_what_follows_in_one_piece_are_answered_each() {
    let mut world = world();
    world.say(0, b"GET b\r\nMULTI\r\nINCR b\r\nEXEC\r\nMULTI\r\nINCR b\r\nEXEC\r\nGET b\r\nGET b\r\n");
    world.settle();
    let transaction = |count| format!("+OK\r\n+QUEUED\r\n*1\r\n:{count}\r\n");
    let expected = format!("$-1\r\n{}{}$1\r\n2\r\n$1\r\n2\r\n", transaction(1), transaction(2));
    assert_eq!(world.take(0), expected);
}

/// Clients come at any time, and at one moment the default user gets a password.
#[test]
fn nothing_runs_of_who_came_after_the_password_and_those_who_were_served_before_are_served_on() {
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let mut world = World::new(Options { idle_connections_max: rng.draw(3), probes_max: 1, ..options() });
        let (mut expected, mut was_served) = (Vec::new(), Vec::new());
        let mut early = usize::MAX;
        for n in 0..300 {
            match rng.draw(12) {
                0 => {
                    world.accept();
                    expected.push(Vec::new());
                }
                1 if early == usize::MAX && rng.draw(5) == 0 => {
                    world.settle();
                    early = expected.len();
                    was_served = (0..early).map(|client| !world.clients[client].received.is_empty()).collect();
                    world.server.needs_login = true;
                }
                2..=4 if !expected.is_empty() => {
                    let client = rng.draw(expected.len());
                    let tag = format!("tag:{client}:{n};");
                    let lines = [format!("GETEX {tag}\r\n"), format!("MULTI\r\nECHO {tag}\r\nEXEC\r\n")];
                    if world.say(client, lines[rng.draw(2)].as_bytes()) {
                        expected[client].push(tag);
                    }
                }
                _ => {
                    let links: Vec<_> = world.links.keys().copied().collect();
                    if !links.is_empty() {
                        let link = *rng.choose(&links);
                        let bytes = *rng.choose(&[1, 10, 1_000]);
                        match rng.draw(3) {
                            0 => drop(world.connect(link)),
                            1 => drop(world.carry_to_server(link, bytes)),
                            _ => drop(world.carry_from_server(link, bytes)),
                        }
                    }
                }
            }
        }
        world.settle();
        for (client, tags) in expected.iter().enumerate() {
            let received = world.take(client);
            let runs = tags.iter().filter(|tag| received.contains(tag.as_str())).count();
            if client >= early {
                assert_eq!((runs, received.replace(NO_LOGIN, "").as_str()), (0, ""), "seed {seed}, client {client}");
                assert!(!tags.iter().any(|tag| world.server.log.contains(tag)), "seed {seed}, client {client}");
            } else if was_served.get(client).is_none_or(|was_served| *was_served) {
                assert_eq!(runs, tags.len(), "seed {seed}, client {client}");
            }
        }
    }
}
