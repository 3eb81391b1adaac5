//! Accepts.

use ringwall::io::{Driver, Errno, Fd, Op, Outcome, Token};

use crate::rig::{Machine, Peer, Rig};

crate::on_both![
    an_accept_goes_on_until_it_is_cancelled,
    an_accepted_socket_carries_bytes_both_ways,
    connections_made_before_the_accept_are_taken,
    both_ends_agree_on_the_addresses,
];

fn accepted<M: Machine>(rig: &mut Rig<M>) -> Fd {
    let completion = rig.next();
    assert_eq!((completion.token, completion.more), (Token(3), true));
    let Outcome::Accepted(Ok(socket)) = completion.outcome else { panic!("{completion:?}") };
    socket
}

fn an_accept_goes_on_until_it_is_cancelled<M: Machine>(rig: &mut Rig<M>) {
    let (listener, address) = rig.machine.listen();
    let op = rig.push(3, Op::Accept { listener });
    rig.assert_quiet();
    let mut sockets = Vec::new();
    for _ in 0..5 {
        let client = rig.machine.client(&address);
        let socket = accepted(rig);
        assert!(!sockets.contains(&socket) && socket != listener);
        sockets.push(socket);
        client.close();
    }
    rig.push(0, Op::Cancel { op });
    assert!(matches!(rig.last(3), Outcome::Accepted(Err(Errno(libc::ECANCELED)))));
    sockets.into_iter().for_each(|socket| rig.close(socket));
    rig.close(listener);
    rig.assert_quiet();
}

fn an_accepted_socket_carries_bytes_both_ways<M: Machine>(rig: &mut Rig<M>) {
    let (listener, address) = rig.machine.listen();
    rig.push(3, Op::Accept { listener });
    let mut client = rig.machine.client(&address);
    rig.write(&mut client, b"ping");
    let socket = accepted(rig);
    rig.push(7, Op::ReceiveMany { socket });
    assert_eq!(rig.receive_exactly(7, 4), b"ping");
    rig.send(5, socket, b"pong");
    rig.last(5);
    assert_eq!(rig.read(&mut client, 4), b"pong");
}

fn connections_made_before_the_accept_are_taken<M: Machine>(rig: &mut Rig<M>) {
    let (listener, address) = rig.machine.listen();
    let _clients: Vec<_> = (0..3).map(|_| rig.machine.client(&address)).collect();
    rig.assert_quiet();
    rig.push(3, Op::Accept { listener });
    for _ in 0..3 {
        let socket = accepted(rig);
        rig.close(socket);
    }
    rig.assert_quiet();
}

fn both_ends_agree_on_the_addresses<M: Machine>(rig: &mut Rig<M>) {
    let (listener, address) = rig.machine.listen();
    rig.push(3, Op::Accept { listener });
    let client = rig.machine.client(&address);
    let socket = accepted(rig);
    let (local, remote) = rig.driver().socket_addresses(socket);
    assert_eq!(ringwall::io::Address::Tcp(local.unwrap()), address);
    assert!(remote.is_some());
    assert_eq!(remote, client.address());
}
