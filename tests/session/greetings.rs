//! What is said to a server before its client's first byte: the replies are swallowed, and each way that they can be
//! wrong has its end.

use std::time::Duration;

use proptest::prelude::*;
use ringwall::auth_check::{AuthCheck, Demand};
use ringwall::io::Errno;
use ringwall::secret::Secret;
use ringwall::session::Side;
use ringwall::session::close::CloseReason;
use ringwall::session::dial::HandshakeEnd;
use ringwall::session::greeting::{Excerpt, Greeting, GreetingEnd, Opening};

use crate::world::{Credentials, Speech, World, options};

const TLS: Speech = Speech { client_tls: true, backend_tls: true };

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const AUTH: &[u8] = b"*3\r\n$4\r\nAUTH\r\n$6\r\nworker\r\n$7\r\nhunter2\r\n";
const SETNAME: &[u8] = b"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$3\r\nabc\r\n";

const NOAUTH: &[u8] = b"-NOAUTH Authentication required.\r\n";

fn everything(check: &AuthCheck) -> Greeting {
    let mut greeting = Greeting::default();
    greeting.probe(Demand::Closed, check.clone());
    greeting.authenticate("worker", &Secret::from(&b"hunter2"[..]));
    greeting.describe(&[b"CLIENT", b"SETNAME", b"abc"]);
    greeting
}

fn probe(demand: Demand) -> (Greeting, AuthCheck) {
    let check = AuthCheck::new();
    let mut greeting = Greeting::default();
    greeting.probe(demand, check.clone());
    (greeting, check)
}

/// A session whose server is connected and greeted; its client has asked for something already.
fn greeted(speech: Speech, credentials: &Credentials, greeting: Greeting) -> World {
    let mut world = World::speaking(speech, credentials, options(), None);
    if speech.client_tls {
        world.shake_hands();
    }
    world.client_says(b"GET a\r\n");
    world.opening = Opening { header: Vec::new(), greeting: Some(greeting) };
    world.connect();
    world
}

/// The attempt has ended like this, and the next server gets what the client has said.
fn assert_next_server_is_tried(mut world: World, end: GreetingEnd) {
    assert_eq!(world.hang_ups, [HandshakeEnd::Greeting(end)]);
    assert_eq!((world.dials, world.client.plaintext.as_slice()), (1, &b""[..]));
    world.hung_up();
    assert_eq!(world.dials, 2);
    world.to_backend.clear();
    world.connect();
    world.backend_says(b"$1\r\n1\r\n");
    assert_eq!(
        (world.to_backend.as_slice(), world.client.plaintext.as_slice()),
        (&b"GET a\r\n"[..], &b"$1\r\n1\r\n"[..])
    );
    world.bury();
}

/// The client is told this, and nothing of what it has said has reached the server.
fn assert_refused(mut world: World, told: &str, reason: CloseReason) {
    let heard = String::from_utf8_lossy(&world.client.plaintext).into_owned();
    assert!(heard.starts_with(told) && heard.ends_with("\r\n") && heard.lines().count() == 1, "{heard}");
    assert!(world.client.closed && world.fin_to_client);
    assert_eq!(world.session.reason(), Some(reason));
    assert!(!String::from_utf8_lossy(&world.to_backend).contains("GET"));
    assert!(world.hang_ups.is_empty() && world.dials == 1);
    world.end(Side::Client, None);
    assert!(world.closed);
    world.bury();
}

#[test]
fn a_greeting_leaves_in_one_write_and_its_replies_are_swallowed() {
    let credentials = Credentials::new();
    for speech in Speech::ALL {
        let check = AuthCheck::new();
        let mut world = greeted(speech, &credentials, everything(&check));
        assert_eq!(world.to_backend, [PING, AUTH, SETNAME].concat());
        assert!(speech.backend_tls || world.sends_to_backend.len() == 1);
        world.to_backend.clear();
        world.client_says(b"GET b\r\n");
        assert_eq!(world.to_backend, b"");
        world.backend_says(&[NOAUTH, b"+OK\r\n+OK\r\n"].concat());
        assert_eq!(
            (world.to_backend.as_slice(), world.client.plaintext.as_slice()),
            (&b"GET a\r\nGET b\r\n"[..], &b""[..])
        );
        assert!(check.meets(Demand::Closed, world.now));
        assert_eq!((world.tally.greetings.get(), world.tally.greetings_refused.get()), (1, 0));
        world.backend_says(b"$1\r\n1\r\n");
        assert_eq!(world.client.plaintext, b"$1\r\n1\r\n");
        world.bury();
    }
}

#[test]
fn replies_cut_at_any_byte_are_swallowed_and_what_is_behind_them_is_the_clients() {
    let credentials = Credentials::new();
    let replies = [NOAUTH, b"+OK\r\n-ERR unknown subcommand\r\n"].concat();
    for cut in 0..=replies.len() {
        let mut world = greeted(Speech::USUAL, &credentials, everything(&AuthCheck::new()));
        let (first, rest) = replies.split_at(cut);
        if !first.is_empty() {
            world.backend_says(first);
        }
        assert_eq!(world.client.plaintext, b"");
        world.backend_says(&[rest, b"+unasked\r\n"].concat());
        assert_eq!(world.client.plaintext, b"+unasked\r\n", "cut at {cut}");
        assert!(world.to_backend.ends_with(b"GET a\r\n"));
        assert_eq!((world.tally.greetings.get(), world.tally.greetings_refused.get()), (1, 1));
        world.bury();
    }
}

#[test]
fn what_a_server_says_that_keeps_a_name_from_being_set_changes_nothing() {
    let credentials = Credentials::new();
    for refusal in [&b"-NOAUTH Authentication required.\r\n"[..], b"-NOPERM no\r\n", b"-ERR unknown command\r\n"] {
        let mut greeting = Greeting::default();
        greeting.describe(&[b"CLIENT", b"SETNAME", b"abc"]);
        let mut world = greeted(TLS, &credentials, greeting);
        world.backend_says(refusal);
        assert_eq!(world.to_backend, [SETNAME, b"GET a\r\n"].concat());
        assert_eq!((world.client.plaintext.as_slice(), world.tally.greetings_refused.get()), (&b""[..], 1));
        world.bury();
    }
}

#[test]
fn a_header_goes_out_in_front_of_everything() {
    let credentials = Credentials::new();
    for backend_tls in [false, true] {
        let speech = Speech { client_tls: false, backend_tls };
        let mut world = World::speaking(speech, &credentials, options(), None);
        world.client_says(b"GET a\r\n");
        world.opening = Opening { header: b"PROXY UNKNOWN\r\n".to_vec(), greeting: Some(probe(Demand::Guarded).0) };
        world.strips_header = b"PROXY UNKNOWN\r\n";
        world.connect();
        assert_eq!((world.to_backend.as_slice(), world.strips_header), (PING, &b""[..]));
        world.backend_says(NOAUTH);
        assert_eq!(world.to_backend, [PING, b"GET a\r\n"].concat());
        world.bury();
    }
}

#[test]
fn an_open_server_is_not_for_strangers() {
    let credentials = Credentials::new();
    for reply in
        [&b"+PONG\r\n"[..], b"-LOADING Redis is loading the dataset in memory\r\n", b"-BUSY\r\n", b"-MASTERDOWN x\r\n"]
    {
        for (demand, told) in [
            (Demand::Guarded, "-DENIED ringwall: the server takes commands without a password"),
            (Demand::Closed, "-ERR ringwall: the server's default user needs no password"),
        ] {
            let (greeting, check) = probe(demand);
            let mut world = greeted(Speech::USUAL, &credentials, greeting);
            world.backend_says(reply);
            assert!(!check.meets(demand, world.now));
            assert_eq!(world.tally.refused_at_open_server.get(), 1);
            assert_refused(world, told, CloseReason::ServerOpen);
        }
    }
}

#[test]
fn a_default_user_without_permissions_is_for_strangers_and_not_for_users() {
    let credentials = Credentials::new();
    let reply = b"-NOPERM this user has no permissions to run the 'ping' command\r\n";
    let (greeting, check) = probe(Demand::Guarded);
    let mut world = greeted(Speech::USUAL, &credentials, greeting);
    world.backend_says(reply);
    assert_eq!(world.to_backend, [PING, b"GET a\r\n"].concat());
    assert!(check.meets(Demand::Guarded, world.now) && !check.meets(Demand::Closed, world.now));
    world.bury();
    let mut world = greeted(Speech::USUAL, &credentials, probe(Demand::Closed).0);
    world.backend_says(reply);
    assert_refused(world, "-ERR ringwall: ", CloseReason::ServerOpen);
}

#[test]
fn a_user_that_the_server_does_not_take_is_refused() {
    let credentials = Credentials::new();
    let mut world = greeted(TLS, &credentials, everything(&AuthCheck::new()));
    world.backend_says(&[NOAUTH, b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"].concat());
    assert_eq!(world.tally.users_refused.get(), 1);
    assert_refused(world, "-NOAUTH ringwall: the server refuses the user", CloseReason::UserRefused);
}

#[test]
fn a_client_without_a_user_is_told_so_and_no_server_is_dialled() {
    let credentials = Credentials::new();
    let mut world = World::speaking(Speech::USUAL, &credentials, options(), None);
    world.shake_hands();
    world.turn(|session, turn| session.refuse_user(turn));
    assert_eq!(world.tally.users_refused.get(), 1);
    assert_refused(world, "-NOAUTH ringwall: this listener has no user", CloseReason::NoUser);
}

#[test]
fn a_server_that_repeats_a_password_is_not_repeated() {
    let credentials = Credentials::new();
    let mut world = greeted(Speech::USUAL, &credentials, everything(&AuthCheck::new()));
    let reply = b"-ERR unknown command 'AUTH', with args beginning with: 'worker' 'hunter2' \r\n";
    world.backend_says(&[NOAUTH, reply].concat());
    let shown = format!("{:?} {}", world.hang_ups, world.hang_ups[0]);
    assert!(shown.contains("AUTH with ERR") && !shown.contains("hunter2"), "{shown}");
    assert_next_server_is_tried(world, GreetingEnd::AuthRefused(Excerpt::of(b"ERR")));
}

#[test]
fn a_server_that_refuses_the_connection_is_quoted_and_the_next_one_tried() {
    let credentials = Credentials::new();
    for (reply, quoted) in [
        (&b"-ERR max number of clients reached\r\n"[..], &b"ERR max number of clients reached"[..]),
        (
            b"-DENIED Redis is running in protected mode because protected mode is enabled and no password is set\r\n",
            b"DENIED Redis is running in protected mode because protected mod",
        ),
    ] {
        let mut world = greeted(TLS, &credentials, probe(Demand::Guarded).0);
        world.backend_says(reply);
        assert_next_server_is_tried(world, GreetingEnd::Refused(Excerpt::of(quoted)));
    }
}

#[test]
fn a_server_that_answers_nonsense_is_left_for_the_next_one() {
    let credentials = Credentials::new();
    for reply in [&b"HTTP/1.1 400 Bad Request\r\n"[..], b":1\r\n", b"+OK\r\n", b"%1\r\n", b"$-1\r\n", &[b'-'; 5_000]] {
        let mut world = greeted(Speech::USUAL, &credentials, probe(Demand::Guarded).0);
        world.backend_says(reply);
        assert_next_server_is_tried(world, GreetingEnd::Malformed);
    }
}

#[test]
fn a_server_that_ends_in_the_greeting_is_left_for_the_next_one() {
    let credentials = Credentials::new();
    for speech in [Speech::USUAL, TLS] {
        for answer in [&b""[..], b"-NOAU"] {
            let mut world = greeted(speech, &credentials, probe(Demand::Guarded).0);
            if !answer.is_empty() {
                world.backend_says(answer);
            }
            match &mut world.server {
                Some(server) => {
                    server.tls.send_close_notify();
                    world.deliver_server();
                }
                None => world.end(Side::Backend, None),
            }
            assert_next_server_is_tried(world, GreetingEnd::Closed);
        }
        let mut world = greeted(speech, &credentials, probe(Demand::Guarded).0);
        world.end(Side::Backend, Some(Errno(104)));
        assert_next_server_is_tried(world, GreetingEnd::Lost(Some(Errno(104))));
    }
}

#[test]
fn a_server_that_takes_no_greeting_is_left_for_the_next_one() {
    let credentials = Credentials::new();
    let mut world = World::speaking(Speech::USUAL, &credentials, options(), None);
    world.shake_hands();
    world.client_says(b"GET a\r\n");
    world.opening = Opening { header: Vec::new(), greeting: Some(probe(Demand::Guarded).0) };
    world.blocked[1] = true;
    world.connect();
    world.complete_send(Side::Backend, Some(Err(Errno(32))));
    world.settle();
    world.blocked[1] = false;
    assert_next_server_is_tried(world, GreetingEnd::Lost(Some(Errno(32))));
}

#[test]
fn a_greeting_has_the_time_of_the_attempt() {
    let credentials = Credentials::new();
    let mut world = greeted(TLS, &credentials, probe(Demand::Guarded).0);
    world.wait(Duration::from_millis(4_999));
    assert!(world.hang_ups.is_empty());
    world.wait(Duration::from_millis(1));
    assert_next_server_is_tried(world, GreetingEnd::Timeout);
}

#[test]
fn when_no_server_answers_its_greeting_the_client_is_told() {
    let credentials = Credentials::new();
    let mut world = greeted(Speech::USUAL, &credentials, probe(Demand::Guarded).0);
    world.end(Side::Backend, None);
    world.hung_up();
    world.turn(|session, turn| session.handle_unreachable("why", turn));
    assert_eq!(world.client.plaintext, b"-ERR ringwall cannot reach the server: why\r\n");
    assert_eq!(world.session.reason(), Some(CloseReason::BackendGreetingFailed));
    world.end(Side::Client, None);
    world.bury();
}

#[test]
fn a_client_that_half_closes_in_the_greeting_is_served_to_its_end() {
    let credentials = Credentials::new();
    for speech in Speech::ALL {
        let mut world = greeted(speech, &credentials, probe(Demand::Guarded).0);
        world.client_ends();
        assert!(!world.fin_to_backend);
        world.backend_says(NOAUTH);
        assert_eq!(world.to_backend, [PING, b"GET a\r\n"].concat());
        assert!(world.fin_to_backend);
        world.backend_says(b"$1\r\n1\r\n");
        world.backend_ends();
        assert_eq!(world.client.plaintext, b"$1\r\n1\r\n");
        assert!(world.closed);
        world.bury();
    }
}

#[test]
fn a_session_that_is_cut_off_or_given_up_in_its_greeting_ends_or_goes_on() {
    let credentials = Credentials::new();
    let mut world = greeted(TLS, &credentials, probe(Demand::Guarded).0);
    world.turn(|session, turn| assert!(session.close(CloseReason::CutOff, turn)));
    assert!(world.client.closed && world.fin_to_client);
    world.end(Side::Client, None);
    assert!(world.closed);
    world.bury();
    let mut world = greeted(TLS, &credentials, probe(Demand::Guarded).0);
    world.turn(|session, turn| assert!(session.give_up_attempt(turn)));
    assert_eq!(world.hang_ups, [HandshakeEnd::Greeting(GreetingEnd::Dismissed)]);
    world.hung_up();
    assert_eq!(world.dials, 2);
    world.bury();
}

#[test]
fn a_server_that_speaks_before_it_is_greeted_is_heard() {
    let credentials = Credentials::new();
    let mut world = World::speaking(TLS, &credentials, options(), None);
    world.shake_hands();
    world.client_says(b"GET a\r\n");
    world.opening = Opening { header: Vec::new(), greeting: Some(probe(Demand::Guarded).0) };
    world.begin_connect();
    // Its words are sealed right behind the end of its handshake, and come in one read.
    let mut wire = Vec::new();
    while let Some(server) = &mut world.server {
        let flight = server.take_ciphertext();
        if flight.is_empty() {
            break;
        }
        if !server.tls.is_handshaking() {
            wire.extend(flight);
        } else {
            world.receive(Side::Backend, &flight);
        }
        if world.server.as_ref().is_some_and(|server| !server.tls.is_handshaking()) && wire.is_empty() {
            world.server.as_mut().unwrap().write(b"-ERR max number of clients reached\r\n");
        }
    }
    world.receive(Side::Backend, &wire);
    assert_next_server_is_tried(world, GreetingEnd::Refused(Excerpt::of(b"ERR max number of clients reached")));
}

#[test]
fn nothing_of_a_greeting_is_shown() {
    let shown = format!("{:?}", Opening { header: Vec::new(), greeting: Some(everything(&AuthCheck::new())) });
    assert!(!shown.contains("hunter2") && !shown.contains("104, 117"), "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_fragmentation_of_replies_and_requests_gives_the_same_bytes(
        speech in prop::sample::select(&Speech::ALL[..]),
        cuts in prop::collection::vec(1_usize..9, 1..40),
        early in 0_usize..4,
    ) {
        let credentials = Credentials::new();
        let mut world = World::speaking(speech, &credentials, options(), None);
        if speech.client_tls {
            world.shake_hands();
        }
        world.opening = Opening { header: Vec::new(), greeting: Some(everything(&AuthCheck::new())) };
        let mut said = Vec::new();
        for number in 0..early {
            let request = format!("GET {number}\r\n");
            world.client_says(request.as_bytes());
            said.extend(request.into_bytes());
        }
        world.connect();
        let greeting = [PING, AUTH, SETNAME].concat();
        prop_assert_eq!(&world.to_backend, &greeting);
        let replies = [NOAUTH, b"+OK\r\n+OK\r\n$3\r\nend\r\n"].concat();
        let (mut rest, mut number) = (&replies[..], early);
        for cut in cuts.iter().cycle() {
            let (piece, behind) = rest.split_at(rest.len().min(*cut));
            let request = format!("GET {number}\r\n");
            (rest, number) = (behind, number + 1);
            world.client_says(request.as_bytes());
            said.extend(request.into_bytes());
            world.backend_says(piece);
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(&world.client.plaintext, b"$3\r\nend\r\n");
        prop_assert_eq!(&world.to_backend, &[greeting, said].concat());
        world.bury();
    }

    #[test]
    fn arbitrary_answers_never_panic_and_end_in_a_reason(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..10),
        orderly in prop::collection::vec(prop::sample::select(vec![&b"-NOAUTH\r\n"[..], b"+OK\r\n", b"+PONG\r\n"]), 0..3),
        speech in prop::sample::select(&Speech::ALL[..]),
    ) {
        let credentials = Credentials::new();
        let mut world = greeted(speech, &credentials, everything(&AuthCheck::new()));
        for chunk in orderly.into_iter().map(<[u8]>::to_vec).chain(chunks) {
            if world.hang_ups.is_empty() {
                world.backend_says(&chunk);
            }
        }
        world.end(Side::Client, None);
        world.end(Side::Backend, None);
        for _ in 0..3 {
            if !world.hang_ups.is_empty() && !world.closed {
                world.hung_up();
                world.turn(|session, turn| session.handle_unreachable("nobody is there", turn));
            }
            world.wait(Duration::from_secs(60));
        }
        prop_assert!(world.closed && world.session.reason().is_some());
        world.bury();
    }
}
