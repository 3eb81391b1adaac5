//! Bytes as a session's life: each takes a few bytes of the input and is one event.

use std::sync::LazyLock;
use std::time::Duration;

use ringwall::io::Errno;
use ringwall::session::coalescer::Threshold;
use ringwall::session::{Options, Refusal, Session, Side};

use crate::world::{Credentials, World, options};

static CREDENTIALS: LazyLock<Credentials> = LazyLock::new(Credentials::new);

/// Plays `input` and checks what must hold after each event and at the end.
pub(crate) fn session(input: &[u8]) {
    let mut bytes = input.iter().copied();
    let Some(shape) = bytes.next() else { return };
    let coalesce = [Threshold::Off, Threshold::Bytes(1_024), Threshold::Bytes(65_536), Threshold::Unbounded];
    let options = Options {
        coalesce: coalesce[usize::from(shape & 3)],
        idle_timeout: (shape & 4 != 0).then(|| Duration::from_secs(20)),
        ..options()
    };
    let mut world = match shape >> 3 & 3 {
        0 => World::new(&CREDENTIALS, options),
        1 => World::with_refusal(&CREDENTIALS, options, Some(Refusal::TooManyConnections)),
        _ => World::connected(&CREDENTIALS, options),
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
    backend_is_over: bool,
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
        0..=2 if !said.client_is_silent && !world.client_is_raw && world.session.wants_receive(Side::Client, false) => {
            world.client.write(&pattern(said.client, size * size));
            said.client += size * size;
            world.deliver_client();
        }
        3..=5 if !said.backend_is_over && world.session.wants_receive(Side::Backend, false) && size > 0 => {
            world.receive(Side::Backend, &pattern(said.backend, size * size));
            said.backend += size * size;
        }
        6 => world.blocked = [size & 1 == 1, size & 2 == 2],
        7 => world.unblock(side),
        8 => world.complete_send_partially(side, size),
        9 => world.wait(Duration::from_millis(size as u64 * 50)),
        10 if !said.client_is_silent && !world.session.is_handshaking() => {
            said.client_is_silent = true;
            world.client.tls.send_close_notify();
            world.deliver_client();
        }
        11 if side == Side::Client && !said.client_is_over => {
            (said.client_is_over, said.client_is_silent) = (true, true);
            world.end(Side::Client, error);
        }
        11 if side == Side::Backend && !said.backend_is_over && world.dials > 0 => {
            said.backend_is_over = true;
            world.end(Side::Backend, error);
        }
        12 if world.dials > 0 => world.turn(Session::handle_connected),
        13 if world.dials > 0 => world.turn(|session, turn| session.handle_unreachable("nobody is there", turn)),
        14 => {
            let now = world.now;
            world.turn(|session, _| session.begin_drain(Duration::from_millis(size as u64), now));
        }
        15 if !said.client_is_over => {
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
    if !world.client.plaintext.starts_with(b"-ERR") {
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
    for _ in 0..3 {
        if !world.closed {
            world.wait(Duration::from_secs(60));
            world.turn(|session, turn| session.handle_unreachable("nobody is there", turn));
        }
    }
    assert!(world.closed, "a session without peers goes on");
    assert!(world.session.reason().is_some());
}
