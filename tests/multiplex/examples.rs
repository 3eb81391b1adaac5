//! What goes over which connection, by example.

use std::time::Duration;

use ringwall::multiplex::{Options, Reason};

use crate::world::{World, options};

/// A world with so many clients.
fn world(clients: usize) -> World {
    let mut world = World::new(options());
    for _ in 0..clients {
        world.accept();
    }
    world
}

fn users(world: &World) -> Vec<(Option<&str>, u32, bool)> {
    let open = world.server.connections.iter().filter(|connection| connection.is_open);
    let mut users: Vec<_> =
        open.map(|connection| (connection.user.as_deref(), connection.database, connection.resp3)).collect();
    users.sort_unstable();
    users
}

#[test]
fn requests_of_many_clients_leave_as_one_write() {
    let mut world = world(3);
    world.ask(0, "PING\r\n");
    world.writes.clear();
    for client in 0..3 {
        world.say(client, format!("*2\r\n$4\r\nECHO\r\n$1\r\n{client}\r\n").as_bytes());
    }
    // The first had left when the others came; what came meanwhile leaves together.
    world.settle();
    assert_eq!(
        world.writes,
        ["*2\r\n$4\r\nECHO\r\n$1\r\n0\r\n", "*2\r\n$4\r\nECHO\r\n$1\r\n1\r\n*2\r\n$4\r\nECHO\r\n$1\r\n2\r\n"]
    );
    assert_eq!(
        (0..3).map(|client| world.take(client)).collect::<Vec<_>>(),
        ["$1\r\n0\r\n", "$1\r\n1\r\n", "$1\r\n2\r\n"]
    );
    assert_eq!(world.dials, 1);
}

#[test]
fn inline_requests_are_served_and_empty_ones_are_not_answered() {
    let mut world = world(1);
    assert_eq!(world.ask(0, "\r\n  \r\n*0\r\nPING\r\necho hi\n*-1\r\n"), "+PONG\r\n$2\r\nhi\r\n");
    // With quotes only the server knows where an argument ends: the client is on its own from there.
    assert_eq!(world.ask(0, "echo \"hi\"\r\n"), "$4\r\n\"hi\"\r\n");
    assert!(world.server.connections.len() > 1);
}

#[test]
fn a_client_that_connects_the_modern_way_shares_a_connection_in_the_end() {
    let mut world = world(2);
    let hello =
        "HELLO 3 AUTH alice wonder\r\nCLIENT SETINFO LIB-NAME redis-py\r\nCLIENT SETINFO LIB-VER 5\r\nSELECT 4\r\n";
    for client in 0..2 {
        assert_eq!(world.ask(client, hello), "%1\r\n$5\r\nproto\r\n:3\r\n+OK\r\n+OK\r\n+OK\r\n");
        assert_eq!(world.ask(client, "GETEX tag\r\nGET no\r\n"), "$16\r\nalice 4 true tag\r\n_\r\n");
    }
    // One that both share, and the one on which both have said hello.
    assert_eq!(users(&world), [(None, 0, false), (Some("alice"), 4, true)]);
    assert_eq!(world.dials, 2);
}

#[test]
fn a_client_that_has_connected_and_says_nothing_occupies_no_connection() {
    let mut world = world(5);
    for client in 0..5 {
        assert_eq!(world.ask(client, "HELLO 3 AUTH alice wonder\r\n"), "%1\r\n$5\r\nproto\r\n:3\r\n");
    }
    assert_eq!((world.dials, users(&world)), (1, vec![(None, 0, false)]));
}

#[test]
fn clients_that_connect_all_at_once_take_turns_on_a_few_connections() {
    let mut world = World::new(Options { probes_max: 2, idle_connections_max: 2, ..options() });
    let clients: Vec<_> = (0..50).map(|_| world.accept()).collect();
    for &client in &clients {
        world.say(client, b"AUTH alice wonder\r\nSELECT 1\r\nGETEX tag\r\n");
    }
    assert_eq!(world.links.len(), 2);
    world.settle();
    for &client in &clients {
        assert_eq!(world.take(client), "+OK\r\n+OK\r\n$17\r\nalice 1 false tag\r\n");
    }
    // The two, and the one that all share.
    assert_eq!(world.dials, 3);
    assert_eq!(users(&world), [(None, 0, false), (None, 0, false), (Some("alice"), 1, false)]);
}

#[test]
fn who_asks_for_a_change_and_then_for_more_does_not_keep_others_from_asking() {
    let mut world = World::new(Options { probes_max: 1, ..options() });
    world.server.needs_login = true;
    for _ in 0..3 {
        world.accept();
    }
    assert_eq!(world.ask(0, "SELECT 1\r\nMULTI\r\n"), "-NOAUTH Authentication required.\r\n".repeat(2));
    assert_eq!(world.ask(1, "AUTH alice wrong\r\n"), "-WRONGPASS invalid username-password pair\r\n");
    assert_eq!(world.ask(2, "AUTH alice wonder\r\nMULTI\r\n"), "+OK\r\n+OK\r\n");
    assert_eq!(world.ask(1, "AUTH alice wonder\r\nGETEX tag\r\n"), "+OK\r\n$17\r\nalice 0 false tag\r\n");
}

#[test]
fn a_client_keeps_where_it_stands_when_the_server_refuses_a_change() {
    let mut world = world(1);
    world.ask(0, "AUTH alice wonder\r\nSELECT 2\r\n");
    assert_eq!(
        world.ask(0, "AUTH bob wrong\r\nSELECT 99\r\nHELLO 3 AUTH alice wrong\r\n"),
        "-WRONGPASS invalid username-password pair\r\n-ERR DB index is out of range\r\n\
         -WRONGPASS invalid username-password pair\r\n"
    );
    assert_eq!(world.ask(0, "GETEX tag\r\n"), "$17\r\nalice 2 false tag\r\n");
}

#[test]
fn nobody_runs_with_the_rights_of_another() {
    let mut world = world(3);
    world.ask(0, "AUTH alice wonder\r\n");
    world.ask(1, "AUTH bob builder\r\n");
    for client in 0..3 {
        world.say(client, b"GETEX tag\r\n");
    }
    world.settle();
    assert_eq!(world.take(0), "+OK\r\n$17\r\nalice 0 false tag\r\n".trim_start_matches("+OK\r\n"));
    assert_eq!(world.take(1), "$15\r\nbob 0 false tag\r\n");
    assert_eq!(world.take(2), "$19\r\ndefault 0 false tag\r\n");
}

#[test]
fn a_name_is_the_clients_own() {
    let mut world = world(2);
    assert_eq!(world.ask(0, "CLIENT SETNAME one\r\nCLIENT GETNAME\r\n"), "+OK\r\n$3\r\none\r\n");
    assert_eq!(world.ask(1, "CLIENT GETNAME\r\n"), "$-1\r\n");
    assert_eq!(world.ask(0, "PING\r\nCLIENT GETNAME\r\n"), "+PONG\r\n$3\r\none\r\n");
}

#[test]
fn reset_makes_a_client_a_fresh_one() {
    let mut world = world(1);
    world.ask(0, "HELLO 3 AUTH alice wonder SETNAME me\r\nSELECT 3\r\n");
    assert_eq!(
        world.ask(0, "RESET\r\nGETEX tag\r\nCLIENT GETNAME\r\n"),
        "+RESET\r\n$19\r\ndefault 0 false tag\r\n$-1\r\n"
    );
}

#[test]
fn a_transaction_that_came_whole_is_shared_and_goes_out_as_one_piece() {
    let mut world = world(2);
    world.ask(0, "PING\r\n");
    world.say(0, b"MULTI\r\nINCR a\r\nINCR a\r\nEXEC\r\nPING\r\n");
    world.say(1, b"INCR a\r\n");
    world.settle();
    assert_eq!(
        world.take(0),
        "+PONG\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n:2\r\n+PONG\r\n".trim_start_matches("+PONG\r\n")
    );
    assert_eq!(world.take(1), ":3\r\n");
    assert_eq!(world.dials, 1);
}

#[test]
fn a_transaction_in_pieces_has_a_connection_of_its_own_until_it_is_over() {
    let mut world = world(2);
    assert_eq!(world.ask(0, "MULTI\r\n"), "+OK\r\n");
    assert_eq!(world.ask(1, "INCR a\r\n"), ":1\r\n");
    assert_eq!(world.ask(0, "INCR a\r\n"), "+QUEUED\r\n");
    assert_eq!(world.ask(0, "EXEC\r\n"), "*1\r\n:2\r\n");
    assert_eq!(world.ask(0, "PING\r\n"), "+PONG\r\n");
    assert_eq!(world.dials, 2);
    // The other is as a fresh one. The last is kept for those who ask for a change; of more, whoever needs one takes one.
    assert_eq!(world.ask(1, "MULTI\r\nDISCARD\r\n"), "+OK\r\n+OK\r\n");
    assert_eq!(world.dials, 3);
    assert_eq!(world.ask(1, "MULTI\r\n"), "+OK\r\n");
    assert_eq!(world.dials, 3);
}

#[test]
fn a_transaction_that_its_end_may_not_end_is_not_shared() {
    let mut world = world(2);
    assert_eq!(
        world.ask(0, "MULTI\r\nINCR a\r\nDISCARD extra\r\n"),
        "+OK\r\n+QUEUED\r\n-ERR wrong number of arguments for 'discard' command\r\n"
    );
    assert_eq!(world.ask(1, "INCR a\r\n"), ":1\r\n");
    assert_eq!(world.ask(0, "INCR a\r\nDISCARD\r\nGET a\r\n"), "+QUEUED\r\n+OK\r\n$1\r\n1\r\n");
}

#[test]
fn watched_keys_are_watched_until_the_transaction_is_over() {
    let mut world = world(2);
    assert_eq!(world.ask(0, "WATCH a\r\nGET a\r\n"), "+OK\r\n$-1\r\n");
    assert_eq!(world.ask(1, "INCR a\r\n"), ":1\r\n");
    // An error, and not the end of watching.
    assert_eq!(world.ask(0, "EXEC\r\n"), "-ERR EXEC without MULTI\r\n");
    assert_eq!(world.ask(0, "MULTI\r\nINCR a\r\nEXEC\r\n"), "+OK\r\n+QUEUED\r\n*-1\r\n");
    assert_eq!(world.ask(0, "WATCH a\r\nUNWATCH\r\nGET a\r\n"), "+OK\r\n+OK\r\n$1\r\n1\r\n");
}

#[test]
fn the_end_of_a_transaction_that_was_not_begun_needs_no_connection() {
    let mut world = world(1);
    assert_eq!(
        world.ask(0, "EXEC\r\nDISCARD\r\nUNWATCH\r\n"),
        "-ERR EXEC without MULTI\r\n-ERR DISCARD without MULTI\r\n+OK\r\n"
    );
    assert_eq!(world.dials, 1);
}

#[test]
fn a_change_in_a_transaction_keeps_the_client_on_its_own_connection() {
    let mut world = world(2);
    assert_eq!(world.ask(1, "MULTI\r\nSELECT 3\r\nEXEC\r\n"), "+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n");
    assert_eq!(world.ask(1, "GETEX tag\r\n"), "$19\r\ndefault 3 false tag\r\n");
    assert_eq!(world.ask(0, "MULTI\r\nSELECT 5\r\n"), "+OK\r\n+QUEUED\r\n");
    assert_eq!(world.ask(0, "EXEC\r\nGETEX tag\r\n"), "*1\r\n+OK\r\n$19\r\ndefault 5 false tag\r\n");
    assert_eq!(world.ask(0, "GETEX tag\r\n"), "$19\r\ndefault 5 false tag\r\n");
}

#[test]
fn a_client_that_blocks_holds_up_nobody() {
    let mut world = world(2);
    assert_eq!(world.ask(0, "SET a 1\r\nBLPOP list 0\r\nGET a\r\n"), "+OK\r\n");
    assert_eq!(world.ask(1, "PING\r\n"), "+PONG\r\n");
    world.server.feed();
    world.settle();
    assert_eq!(world.take(0), "*2\r\n$4\r\nlist\r\n$3\r\nfed\r\n$1\r\n1\r\n");
    assert_eq!(world.ask(0, "PING\r\n"), "+PONG\r\n");
    assert_eq!(world.dials, 2);
}

#[test]
fn switching_waits_for_what_is_owed_over_the_shared_connection() {
    let mut world = world(1);
    world.ask(0, "PING\r\n");
    world.say(0, b"SET a 7\r\nWATCH a\r\nGET a\r\n");
    let id = world.only_link();
    world.carry_to_server(id, usize::MAX);
    assert_eq!((world.dials, world.server.log.last().unwrap().as_str()), (1, "7"));
    world.settle();
    assert_eq!(world.take(0), "+OK\r\n+OK\r\n$1\r\n7\r\n");
    assert_eq!(world.dials, 2);
}

#[test]
fn a_subscriber_is_on_its_own_for_life_and_gets_what_is_pushed() {
    let mut world = world(2);
    world.ask(1, "PING\r\n");
    world.ask(0, "HELLO 3\r\n");
    assert_eq!(world.ask(0, "SUBSCRIBE news\r\n"), ">3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    let subscribed = |world: &World| world.server.connections.iter().position(|connection| connection.subscribed);
    let connection = subscribed(&world).unwrap();
    let link = *world.links.iter().find(|(_, link)| link.connection == Some(connection)).unwrap().0;
    let news = ">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n";
    world.server_says(link, news.as_bytes());
    world.settle();
    assert_eq!(world.take(0), news);
    assert_eq!(world.ask(1, "PING\r\n"), "+PONG\r\n");
    world.leave(0, None);
    world.settle();
    assert_eq!(world.clients[0].closed, Some(Reason::ClientLeft));
    assert!(!world.server.connections[connection].is_open);
}

#[test]
fn wait_speaks_for_what_was_written_over_the_shared_connection() {
    let mut world = world(1);
    assert_eq!(world.ask(0, "AUTH alice wonder\r\n"), "+OK\r\n");
    assert_eq!(world.ask(0, "SET a 1\r\nWAIT 1 0\r\n"), "+OK\r\n:1\r\n");
    // The connection that it shared has lost its last client, and is reset.
    let asked: Vec<_> = world.writes.iter().map(String::as_str).filter(|write| !write.contains("RESET")).collect();
    let last = &asked[asked.len() - 2..];
    assert_eq!(last, ["*3\r\n$6\r\nSWAPDB\r\n$1\r\n0\r\n$1\r\n0\r\n", "WAIT 1 0\r\n"]);
    // From here on what it writes is written where it waits.
    assert_eq!(world.ask(0, "SET a 1\r\nWAIT 1 0\r\n"), "+OK\r\n:1\r\n");
    assert_eq!(world.writes.last().unwrap(), "SET a 1\r\nWAIT 1 0\r\n");
}

#[test]
fn wait_is_an_error_where_it_cannot_speak_for_what_was_written() {
    let mut world = world(1);
    world.server.forbidden.push(("default".to_owned(), "SWAPDB".to_owned()));
    assert!(
        world.ask(0, "SET a 1\r\nWAIT 1 0\r\n").starts_with("+OK\r\n-ERR WAIT cannot speak for writes over shared")
    );
    assert_eq!(world.ask(0, "SET a 1\r\nWAIT 1 0\r\n"), "+OK\r\n:1\r\n");
}

#[test]
fn without_a_login_there_is_nothing_to_share_where_the_server_wants_one() {
    let mut world = world(2);
    world.server.needs_login = true;
    assert_eq!(world.ask(0, "GET a\r\n"), "-NOAUTH Authentication required.\r\n");
    assert_eq!(
        world.ask(0, "GET a\r\nAUTH alice wrong\r\n"),
        "-NOAUTH Authentication required.\r\n-WRONGPASS invalid username-password pair\r\n"
    );
    assert_eq!(world.ask(0, "AUTH alice wonder\r\nGETEX tag\r\n"), "+OK\r\n$17\r\nalice 0 false tag\r\n");
    assert_eq!(world.ask(1, "GETEX tag\r\n"), "-NOAUTH Authentication required.\r\n");
}

#[test]
fn a_large_request_goes_over_a_connection_of_the_clients_own() {
    let mut world = world(2);
    world.ask(0, "PING\r\n");
    world.ask(1, "PING\r\n");
    let request = format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2000000\r\n{}\r\n", "x".repeat(2_000_000));
    for piece in request.as_bytes().chunks(64 * 1024) {
        assert!(world.say(0, piece));
        world.settle();
    }
    assert_eq!(world.take(0), "+OK\r\n");
    assert_eq!(world.ask(1, "PING\r\n"), "+PONG\r\n");
    assert_eq!(world.dials, 2);
}

#[test]
fn who_has_had_a_large_reply_gets_a_connection_of_its_own() {
    let mut world = world(2);
    world.ask(1, "PING\r\n");
    let expected = format!("$2000000\r\n{}\r\n", "x".repeat(2_000_000));
    assert_eq!(world.ask(0, "GETRANGE a 2000000\r\n"), expected);
    assert_eq!(world.dials, 1);
    assert_eq!(world.ask(0, "GETRANGE a 2000000\r\n"), expected);
    assert_eq!(world.dials, 2);
}

#[test]
fn who_does_not_read_what_others_wait_behind_is_cut_off() {
    let mut world = world(2);
    world.ask(1, "PING\r\n");
    world.clients[0].blocked = true;
    world.ask(0, "GETRANGE a 3000000\r\n");
    assert_eq!(world.ask(1, "PING\r\n"), "");
    world.wait(Duration::from_millis(999));
    assert_eq!(world.clients[0].closed, None);
    world.wait(Duration::from_millis(1));
    assert_eq!(world.clients[0].closed, Some(Reason::SlowClient));
    world.settle();
    assert_eq!(world.take(1), "+PONG\r\n");
}

#[test]
fn many_who_do_not_read_hold_up_the_others_a_moment_longer_than_one() {
    let mut world = world(4);
    world.ask(3, "PING\r\n");
    for client in 0..3 {
        world.clients[client].blocked = true;
        world.ask(client, "GETRANGE a 3000000\r\n");
    }
    world.say(3, b"PING\r\n");
    world.settle();
    world.wait(Duration::from_millis(999));
    assert_eq!(world.take(3), "");
    for millis in [1, 50, 49] {
        world.wait(Duration::from_millis(millis));
        world.settle();
    }
    assert_eq!((world.clients[2].closed, world.take(3)), (None, String::new()));
    world.wait(Duration::from_millis(1));
    world.settle();
    assert!((0..3).all(|client| world.clients[client].closed == Some(Reason::SlowClient)));
    assert_eq!(world.take(3), "+PONG\r\n");
}

#[test]
fn who_has_held_up_the_others_once_goes_on_over_a_connection_of_its_own() {
    let mut world = world(2);
    world.ask(1, "PING\r\n");
    world.clients[0].blocked = true;
    world.say(0, b"GETRANGE a 600000\r\nGETRANGE a 600000\r\nGETRANGE a 600000\r\n");
    world.settle();
    assert_eq!(world.ask(1, "PING\r\n"), "");
    world.clients[0].blocked = false;
    world.settle();
    assert_eq!((world.take(1), world.dials), ("+PONG\r\n".to_owned(), 1));
    world.take(0);
    assert_eq!(world.ask(0, "PING\r\n"), "+PONG\r\n");
    assert_eq!(world.dials, 2);
}

#[test]
fn who_reads_in_time_what_others_wait_behind_goes_on() {
    let mut world = world(2);
    world.ask(1, "PING\r\n");
    world.clients[0].blocked = true;
    world.ask(0, "GETRANGE a 3000000\r\n");
    world.wait(Duration::from_millis(999));
    world.clients[0].blocked = false;
    world.settle();
    world.wait(Duration::from_secs(5));
    assert_eq!(world.clients[0].closed, None);
    assert_eq!(world.take(0).len(), "$3000000\r\n\r\n".len() + 3_000_000);
    assert_eq!(world.ask(1, "PING\r\n"), "+PONG\r\n");
}

#[test]
fn requests_under_way_are_bounded_for_a_client_and_for_a_connection() {
    let forms: [fn(usize) -> String; 2] =
        [|client| format!("ECHO {client}\r\n"), |client| format!("*2\r\n$4\r\nECHO\r\n$1\r\n{client}\r\n")];
    for request in forms {
        let mut world = World::new(Options { client_requests_max: 3, connection_requests_max: 4, ..options() });
        let clients: Vec<_> = (0..3).map(|_| world.accept()).collect();
        world.ask(0, "PING\r\n");
        world.writes.clear();
        for &client in &clients {
            world.say(client, request(client).repeat(5).as_bytes());
        }
        let id = world.only_link();
        world.carry_to_server(id, usize::MAX);
        world.carry_to_server(id, usize::MAX);
        assert_eq!(world.writes.concat(), request(0).repeat(3) + &request(1));
        assert!(clients.iter().all(|&client| !world.say(client, b"PING\r\n")));
        world.settle();
        assert!(clients.iter().all(|&client| world.take(client) == format!("$1\r\n{client}\r\n").repeat(5)));
    }
}

#[test]
fn no_more_requests_are_taken_than_the_server_has_room_for() {
    let mut world = World::new(Options { send_buffer_bytes: 100, ..options() });
    world.accept();
    world.ask(0, "PING\r\n");
    world.writes.clear();
    let ping = "*1\r\n$4\r\nPING\r\n";
    world.say(0, ping.repeat(20).as_bytes());
    world.carry_to_server(world.only_link(), usize::MAX);
    // Fourteen bytes each: the eighth begins within the bound.
    assert_eq!(world.writes, [ping.repeat(8)]);
    world.settle();
    assert_eq!(world.take(0), "+PONG\r\n".repeat(20));
}

#[test]
fn clients_that_wait_come_in_the_order_in_which_they_began_to() {
    let mut world = World::new(Options { connection_requests_max: 1, ..options() });
    let clients: Vec<_> = (0..4).map(|_| world.accept()).collect();
    world.ask(0, "PING\r\n");
    world.server.log.clear();
    for &client in &clients {
        world.say(client, format!("ECHO {client}\r\n").as_bytes());
    }
    world.settle();
    assert_eq!(world.server.log, ["0", "1", "2", "3"]);
}

#[test]
fn a_class_that_is_one_too_many_has_connections_of_its_clients_own() {
    let mut world = World::new(Options { classes_max: 1, ..options() });
    let clients: Vec<_> = (0..3).map(|_| world.accept()).collect();
    world.ask(0, "PING\r\n");
    for &client in &clients[1..] {
        assert_eq!(world.ask(client, "SELECT 1\r\nGETEX tag\r\n"), "+OK\r\n$19\r\ndefault 1 false tag\r\n");
        assert_eq!(world.ask(client, "GETEX tag\r\n"), "$19\r\ndefault 1 false tag\r\n");
    }
    assert_eq!(world.dials, 3);
}

#[test]
fn a_whole_transaction_of_a_class_that_is_one_too_many_stays_whole() {
    // So little room that each request waits for the reply to the one before it.
    let mut world = World::new(Options { classes_max: 0, send_buffer_bytes: 10, ..options() });
    world.accept();
    assert_eq!(world.ask(0, "MULTI\r\nINCR a\r\nEXEC\r\n"), "+OK\r\n+QUEUED\r\n*1\r\n:1\r\n");
    assert_eq!(world.dials, 1);
}

#[test]
fn a_further_connection_is_used_when_it_is_made_and_not_waited_for() {
    let mut world = World::new(Options { class_connections_max: 2, ..options() });
    let clients: Vec<_> = (0..70).map(|_| world.accept()).collect();
    world.ask(0, "PING\r\n");
    let first = world.only_link();
    for &client in &clients {
        world.say(client, b"PING\r\n");
    }
    assert_eq!(world.links.len(), 2);
    while world.carry_to_server(first, usize::MAX) || world.carry_from_server(first, usize::MAX) {}
    for &client in &clients {
        world.carry_to_client(client, usize::MAX);
        assert_eq!(world.take(client), "+PONG\r\n");
    }
    world.settle();
    for &client in &clients {
        world.say(client, b"PING\r\n");
    }
    world.writes.clear();
    world.settle();
    assert!(world.writes.len() >= 2 && clients.iter().all(|&client| world.take(client) == "+PONG\r\n"));
}

#[test]
fn a_client_that_quits_is_closed_behind_its_last_reply() {
    let mut world = world(1);
    assert_eq!(world.ask(0, "PING\r\nQUIT\r\nPING\r\n"), "+PONG\r\n+OK\r\n");
    assert_eq!(world.clients[0].closed, Some(Reason::ClientLeft));
    assert_eq!((world.multiplexer.clients(), world.multiplexer.links()), (0, 1));
}

#[test]
fn a_client_that_says_nothing_more_gets_what_it_is_owed() {
    let mut world = world(2);
    world.ask(1, "PING\r\n");
    world.say(0, b"PING\r\nPING\r\nPIN");
    world.leave(0, None);
    world.settle();
    assert_eq!(world.take(0), "+PONG\r\n+PONG\r\n");
    assert_eq!(world.clients[0].closed, Some(Reason::ClientLeft));
}

#[test]
fn a_client_that_says_nothing_more_while_it_blocks_is_closed_without_a_word() {
    let mut world = world(1);
    assert_eq!(world.ask(0, "BLPOP list 0\r\n"), "");
    world.leave(0, None);
    world.settle();
    assert_eq!(world.take(0), "");
    assert_eq!(world.clients[0].closed, Some(Reason::ClientLeft));
}

#[test]
fn when_all_are_gone_nothing_is_held() {
    let mut world = world(3);
    world.ask(0, "AUTH alice wonder\r\nGET a\r\n");
    world.ask(1, "MULTI\r\nGET a\r\n");
    world.ask(2, "SUBSCRIBE a\r\n");
    for client in 0..3 {
        world.leave(client, Some(ringwall::io::Errno(104)));
    }
    world.settle();
    assert_eq!(world.multiplexer.clients(), 0);
    assert_eq!(world.pool.lent_bytes(), 0);
    // What is left is as fresh as on its first day.
    assert!(users(&world).iter().all(|&user| user == (None, 0, false)), "{:?}", users(&world));
}
