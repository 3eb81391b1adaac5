//! Bytes as a session's life: each takes a few bytes of the input and is one event.

use std::sync::LazyLock;
use std::time::Duration;

use ringwall::io::Errno;
use ringwall::session::close::CloseReason;
use ringwall::session::coalescer::Threshold;
use ringwall::session::{Options, Refusal, Session, Side};

use crate::world::{Credentials, Speech, World, options};

static CREDENTIALS: LazyLock<Credentials> = LazyLock::new(Credentials::new);

/// Plays `input` and checks what must hold after each event and at the end.
pub(crate) fn session(input: &[u8]) {
    let mut bytes = input.iter().copied();
    let Some(shape) = bytes.next() else { return };
    let coalesce = [Threshold::Off, Threshold::Bytes(1_024), Threshold::Bytes(65_536), Threshold::Unbounded];
    let options = Options {
        coalesce: coalesce[usize::from(shape & 3)],
        idle_timeout: (shape & 4 != 0).then(|| Duration::from_secs(20)),
        lifetime_max: None,
        tells_unreachable: true,
        ..options()
    };
    let speech = Speech::ALL[usize::from(shape >> 5 & 3)];
    let mut world = match shape >> 3 & 3 {
        0 => World::speaking(speech, &CREDENTIALS, options, None),
        1 => World::speaking(speech, &CREDENTIALS, options, Some(Refusal::TooManyConnections)),
        _ => World::connected_and_speaking(speech, &CREDENTIALS, options),
    };
    let mut said = Said::default();
    while let (false, Some(event)) = (world.closed, bytes.next()) {
        let size = usize::from(bytes.next().unwrap_or(0));
        play(&mut world, &mut said, event, size);
        check(&world, &mut said);
    }
    end(&mut world);
    world.bury();
}

/// How much each side has said, and whether it can go on.
#[derive(Default)]
struct Said {
    client: usize,
    backend: usize,
    client_is_silent: bool,
    client_is_over: bool,
    backend_is_silent: bool,
    backend_is_over: bool,
    /// Connections to servers that have been hung up.
    hung_up: usize,
    /// How much of what arrived at the backend and at the client has been compared.
    compared: [usize; 2],
}

/// The `n` bytes from `position` on of an endless pattern.
#[expect(clippy::cast_possible_truncation, reason = "the low byte is what is wanted")]
fn pattern(position: usize, n: usize) -> Vec<u8> {
    (position..position + n).map(|i| (i ^ (i >> 8)) as u8).collect()
}

fn play(world: &mut World, said: &mut Said, event: u8, size: usize) {
    let side = if event & 0x80 == 0 { Side::Client } else { Side::Backend };
    let error = (size & 1 == 1).then_some(Errno(libc::ECONNRESET));
    match event & 0x0f {
        0..=2 if !said.client_is_silent && world.session.wants_receive(Side::Client, false) && size > 0 => {
            let bytes = pattern(said.client, size * size);
            said.client += size * size;
            world.client_says(&bytes);
        }
        3..=5 if !said.backend_is_silent && world.session.wants_receive(Side::Backend, false) && size > 0 => {
            let bytes = pattern(said.backend, size * size);
            said.backend += size * size;
            world.backend_says(&bytes);
        }
        6 => world.blocked = [size & 1 == 1, size & 2 == 2],
        7 => world.unblock(side),
        8 => world.complete_send_partially(side, size),
        9 => world.wait(Duration::from_millis(size as u64 * 50)),
        10 if side == Side::Client && !said.client_is_silent && world.speech.client_tls => {
            if !world.session.is_handshaking(Side::Client) {
                said.client_is_silent = true;
                world.client.tls.send_close_notify();
                world.deliver_client();
            }
        }
        10 if side == Side::Backend && !said.backend_is_silent => {
            if let Some(server) = &mut world.server {
                said.backend_is_silent = true;
                server.tls.send_close_notify();
                world.deliver_server();
            }
        }
        11 if side == Side::Client && !said.client_is_over => {
            (said.client_is_over, said.client_is_silent) = (true, true);
            world.end(Side::Client, error);
        }
        11 if side == Side::Backend && !said.backend_is_over && world.dials > 0 => {
            (said.backend_is_over, said.backend_is_silent) = (true, true);
            world.end(Side::Backend, error);
        }
        12 if said.hung_up < world.hang_ups.len() => {
            said.hung_up = world.hang_ups.len();
            world.hung_up();
            (said.backend_is_over, said.backend_is_silent) = (false, false);
            // What it had said in its handshake is lost with it: the next one speaks in its place.
            said.backend = said.compared[1];
        }
        12 if world.session.is_dialling() && size & 1 == 0 => world.connect(),
        12 if world.session.is_dialling() => world.begin_connect(),
        13 if world.dials > 0 => world.turn(|session, turn| session.handle_unreachable("nobody is there", turn)),
        14 => {
            let now = world.now;
            world.turn(|session, _| session.begin_drain(Duration::from_millis(size as u64), CloseReason::Drained, now));
        }
        15 if side == Side::Backend && !said.backend_is_over && world.server.is_some() => {
            said.backend_is_silent = true;
            world.receive(Side::Backend, &pattern(size, size + 1));
        }
        15 if side == Side::Client && !said.client_is_over && world.speech.client_tls => {
            // Junk in the middle of the stream: from here on the client is not one that can be spoken to.
            (world.client_is_raw, said.client_is_silent) = (true, true);
            world.receive(Side::Client, &pattern(size, size + 1));
        }
        _ => world.turn(Session::resume),
    }
}

fn check(world: &World, said: &mut Said) {
    assert!(world.to_backend.len() <= said.client);
    compare(&world.to_backend, &mut said.compared[0]);
    // A client without TLS may have got a part of it. What the backend says starts with a zero.
    if world.client.plaintext.first() != Some(&b'-') {
        assert!(world.client.plaintext.len() <= said.backend);
        compare(&world.client.plaintext, &mut said.compared[1]);
    }
    for side in Side::BOTH {
        // The high-water mark, the largest chunk beyond it, and what sealing adds.
        assert!(world.session.held_bytes(side) <= 256 * 1024 + 72 * 1024);
    }
}

/// Whether what arrived since the last look is what the other side has said.
fn compare(arrived: &[u8], compared: &mut usize) {
    assert_eq!(arrived[*compared..], pattern(*compared, arrived.len() - *compared));
    *compared = arrived.len();
}

/// Every session ends once its peers are gone and time passes.
fn end(world: &mut World) {
    for side in Side::BOTH {
        world.unblock(side);
    }
    for side in Side::BOTH {
        if !world.closed {
            world.end(side, None);
        }
    }
    for _ in 0..4 {
        if !world.closed {
            world.wait(Duration::from_secs(60));
            world.hung_up();
            world.turn(|session, turn| session.handle_unreachable("nobody is there", turn));
        }
    }
    assert!(world.closed, "a session without peers goes on");
    assert!(world.session.reason().is_some());
}
