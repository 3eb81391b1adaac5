//! What holds for every session, whatever the fragmentation, threshold, blocking and ends.

use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;
use ringwall::io::Errno;
use ringwall::session::coalescer::Threshold;
use ringwall::session::{Options, Session, Side};

use crate::world::{Credentials, Server, Speech, World, options};

static CREDENTIALS: LazyLock<Credentials> = LazyLock::new(Credentials::new);

fn threshold() -> impl Strategy<Value = Threshold> {
    prop_oneof![
        Just(Threshold::Off),
        Just(Threshold::Unbounded),
        (1_usize..100_000).prop_map(Threshold::Bytes),
        Just(Threshold::Bytes(64 * 1024)),
    ]
}

fn speech() -> impl Strategy<Value = Speech> {
    prop::sample::select(&Speech::ALL[..])
}

/// One thing that can happen to a session.
#[derive(Clone, Debug)]
enum Step {
    ClientSays(usize),
    BackendSays(usize),
    Block(bool, bool),
    PartialSend(bool, usize),
    Wait(u64),
    ClientCloseNotify,
    ClientFin,
    ClientReset,
    BackendCloseNotify,
    BackendFin,
    BackendReset,
    SendFails(bool),
    Resume,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1_usize..40_000).prop_map(Step::ClientSays),
        8 => (1_usize..70_000).prop_map(Step::BackendSays),
        3 => any::<(bool, bool)>().prop_map(|(client, backend)| Step::Block(client, backend)),
        3 => (any::<bool>(), 0_usize..5_000).prop_map(|(client, sent)| Step::PartialSend(client, sent)),
        2 => (0_u64..40_000).prop_map(Step::Wait),
        1 => Just(Step::ClientCloseNotify),
        1 => Just(Step::ClientFin),
        1 => Just(Step::ClientReset),
        1 => Just(Step::BackendCloseNotify),
        1 => Just(Step::BackendFin),
        1 => Just(Step::BackendReset),
        1 => any::<bool>().prop_map(Step::SendFails),
        2 => Just(Step::Resume),
    ]
}

/// The `n` bytes of an endless pattern from `position` on: no two places nearby look alike.
#[expect(clippy::cast_possible_truncation, reason = "the low byte is what is wanted")]
fn pattern(position: usize, n: usize) -> Vec<u8> {
    (position..position + n).map(|i| (i ^ (i >> 8) ^ (i >> 15)) as u8).collect()
}

/// Plays `steps` and checks after each that what arrived is a prefix of what was said.
fn play(world: &mut World, steps: &[Step]) {
    let (mut client_said, mut backend_said) = (0, 0);
    let (mut client_over, mut client_silent) = (false, false);
    let (mut backend_over, mut backend_silent) = (false, false);
    for step in steps {
        match *step {
            Step::ClientSays(n) if !client_silent && world.session.wants_receive(Side::Client, false) => {
                let bytes = pattern(client_said, n);
                client_said += n;
                world.client_says(&bytes);
            }
            Step::BackendSays(n) if !backend_silent && world.session.wants_receive(Side::Backend, false) => {
                let bytes = pattern(backend_said, n);
                backend_said += n;
                world.backend_says(&bytes);
            }
            Step::Block(client, backend) => {
                for (side, blocks) in [(Side::Client, client), (Side::Backend, backend)] {
                    if blocks {
                        world.blocked[usize::from(side == Side::Backend)] = true;
                    } else {
                        world.unblock(side);
                    }
                }
            }
            Step::PartialSend(client, sent) => {
                let side = if client { Side::Client } else { Side::Backend };
                world.complete_send_partially(side, sent);
            }
            Step::Wait(ms) => world.wait(Duration::from_millis(ms)),
            Step::ClientCloseNotify if !client_silent && world.speech.client_tls => {
                client_silent = true;
                world.client.tls.send_close_notify();
                world.deliver_client();
            }
            Step::ClientFin if !client_over => {
                (client_over, client_silent) = (true, true);
                world.end(Side::Client, None);
            }
            Step::ClientReset if !client_over => {
                (client_over, client_silent) = (true, true);
                world.end(Side::Client, Some(Errno(104)));
            }
            Step::BackendCloseNotify if !backend_silent && world.speech.backend_tls => {
                backend_silent = true;
                world.server.as_mut().unwrap().tls.send_close_notify();
                world.deliver_server();
            }
            Step::BackendFin if !backend_over => {
                (backend_over, backend_silent) = (true, true);
                world.end(Side::Backend, None);
            }
            Step::BackendReset if !backend_over => {
                (backend_over, backend_silent) = (true, true);
                world.end(Side::Backend, Some(Errno(104)));
            }
            Step::SendFails(client) => {
                let side = if client { Side::Client } else { Side::Backend };
                world.complete_send(side, Some(Err(Errno(32))));
                world.settle();
            }
            Step::Resume => world.turn(Session::resume),
            // What a peer that is over, or is not welcome, would have said.
            Step::ClientSays(_)
            | Step::BackendSays(_)
            | Step::ClientCloseNotify
            | Step::ClientFin
            | Step::ClientReset
            | Step::BackendCloseNotify
            | Step::BackendFin
            | Step::BackendReset => {}
        }
        check(world, client_said, backend_said);
        if world.closed {
            return;
        }
    }
}

fn check(world: &World, client_said: usize, backend_said: usize) {
    assert_eq!(world.to_backend, pattern(0, world.to_backend.len()), "the backend's bytes are a prefix");
    assert_eq!(world.client.plaintext, pattern(0, world.client.plaintext.len()), "the client's bytes are a prefix");
    assert!(world.to_backend.len() <= client_said && world.client.plaintext.len() <= backend_said);
    // The high-water mark, one step's chunk beyond it, and what sealing adds.
    for side in Side::BOTH {
        assert!(world.session.held_bytes(side) <= 256 * 1024 + 72_000, "{side:?} holds too much");
    }
    let idle = Side::BOTH.iter().all(|&side| world.session.held_bytes(side) == 0);
    if idle && !world.session.wants_turn() && !world.closed {
        // A record's start on either side.
        assert!(world.pool.lent_bytes() <= 4_096 + 2 * 68 * 1024, "an idle session holds buffers");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_bytes_arrive_in_order_once_and_bounded(
        speech in speech(),
        threshold in threshold(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let options = Options { coalesce: threshold, ..options() };
        let mut world = World::connected_and_speaking(speech, &CREDENTIALS, options);
        play(&mut world, &steps);
        world.bury();
    }

    #[test]
    fn any_threshold_gives_the_same_concatenation(
        speech in speech(),
        threshold in threshold(),
        chunks in prop::collection::vec(1_usize..70_000, 1..30),
    ) {
        let options = Options { coalesce: threshold, ..options() };
        let mut world = World::connected_and_speaking(speech, &CREDENTIALS, options);
        let mut said = 0;
        for chunk in chunks {
            let bytes = pattern(said, chunk);
            said += chunk;
            world.backend_says(&bytes);
            world.client_says(&bytes);
        }
        prop_assert_eq!(&world.client.plaintext, &pattern(0, said));
        prop_assert_eq!(&world.to_backend, &pattern(0, said));
        world.bury();
    }

    #[test]
    fn any_fragmentation_of_the_clients_bytes_gives_the_same_plaintext(
        cuts in prop::collection::vec(1_usize..3_000, 1..60),
        requests in prop::collection::vec(1_usize..20_000, 1..8),
    ) {
        let mut world = World::connected(&CREDENTIALS, options());
        let mut said = 0;
        for request in requests {
            world.client.write(&pattern(said, request));
            said += request;
        }
        let wire = world.client.take_ciphertext();
        let mut rest = wire.as_slice();
        for cut in cuts.iter().cycle() {
            let (piece, behind) = rest.split_at(rest.len().min(*cut));
            world.receive(Side::Client, piece);
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(&world.to_backend, &pattern(0, said));
        world.bury();
    }

    #[test]
    fn any_fragmentation_of_the_servers_bytes_gives_the_same_plaintext(
        cuts in prop::collection::vec(1_usize..3_000, 1..60),
        replies in prop::collection::vec(1_usize..20_000, 1..8),
        client_tls in any::<bool>(),
    ) {
        let speech = Speech { client_tls, backend_tls: true };
        let mut world = World::speaking(speech, &CREDENTIALS, options(), None);
        if client_tls {
            world.shake_hands();
        }
        world.begin_connect();
        let mut cuts = cuts.iter().copied().cycle();
        let mut in_pieces = |world: &mut World| while let Some(wire) = world.server.as_mut().map(Server::take_ciphertext) {
            let mut rest = wire.as_slice();
            if rest.is_empty() {
                break;
            }
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(rest.len().min(cuts.next().unwrap()));
                world.receive(Side::Backend, piece);
                rest = behind;
            }
        };
        in_pieces(&mut world);
        let mut said = 0;
        for reply in replies {
            world.server.as_mut().unwrap().write(&pattern(said, reply));
            said += reply;
        }
        in_pieces(&mut world);
        prop_assert_eq!(&world.client.plaintext, &pattern(0, said));
        world.bury();
    }

    #[test]
    fn arbitrary_server_bytes_never_panic_and_end_in_a_reason(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 1..10),
        after_handshake in any::<bool>(),
    ) {
        let speech = Speech { client_tls: true, backend_tls: true };
        let mut world = World::speaking(speech, &CREDENTIALS, options(), None);
        world.shake_hands();
        world.begin_connect();
        if after_handshake {
            world.deliver_server();
        }
        for mut chunk in chunks {
            world.turn(|session, turn| session.handle_received(Side::Backend, &mut chunk, turn));
        }
        if !world.hang_ups.is_empty() {
            world.hung_up();
            world.turn(|session, turn| session.handle_unreachable("nobody is there", turn));
        }
        world.end(Side::Client, None);
        world.end(Side::Backend, None);
        for _ in 0..3 {
            world.wait(Duration::from_secs(60));
            if !world.hang_ups.is_empty() && !world.closed {
                world.hung_up();
                world.turn(|session, turn| session.handle_unreachable("nobody is there", turn));
            }
        }
        prop_assert!(world.closed && world.session.reason().is_some());
        world.bury();
    }

    #[test]
    fn arbitrary_client_bytes_never_panic_and_end_in_a_reason(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 1..10),
        after_handshake in any::<bool>(),
    ) {
        let mut world = if after_handshake {
            World::connected(&CREDENTIALS, options())
        } else {
            World::new(&CREDENTIALS, options())
        };
        world.client_is_raw = true;
        for mut chunk in chunks {
            world.turn(|session, turn| session.handle_received(Side::Client, &mut chunk, turn));
        }
        world.end(Side::Client, None);
        world.end(Side::Backend, None);
        world.wait(Duration::from_secs(60));
        world.wait(Duration::from_secs(60));
        prop_assert!(world.closed && world.session.reason().is_some());
        world.bury();
    }

    #[test]
    fn every_session_ends_once_both_peers_are_gone(
        speech in speech(),
        steps in prop::collection::vec(step(), 0..30),
    ) {
        let mut world = World::connected_and_speaking(speech, &CREDENTIALS, options());
        play(&mut world, &steps);
        for side in Side::BOTH {
            world.unblock(side);
        }
        if !world.closed {
            world.end(Side::Client, None);
            world.end(Side::Backend, None);
            for _ in 0..3 {
                world.wait(Duration::from_secs(40));
            }
        }
        prop_assert!(world.closed);
        world.bury();
    }
}
