//! Connects.

use ringwall::io::{Address, Driver, Errno, Op, Outcome, SocketOptions};

use crate::rig::{Machine, Rig};

crate::on_both![
    a_tcp_server_is_reached,
    a_unix_server_is_reached,
    a_refused_connect_says_so,
    a_connect_that_gets_no_answer_waits_until_it_is_cancelled,
];

const OPTIONS: SocketOptions = SocketOptions { keepalive_seconds: Some(300), user_timeout_ms: None, source: None };

fn a_tcp_server_is_reached<M: Machine>(rig: &mut Rig<M>) {
    let address = rig.machine.serve(false);
    let ends = reach(rig, &address);
    assert_eq!(ends.map(Address::Tcp), Some(address));
}

fn a_unix_server_is_reached<M: Machine>(rig: &mut Rig<M>) {
    let address = rig.machine.serve(true);
    assert_eq!(reach(rig, &address), None);
}

/// Connects and talks; the address of the far end.
fn reach<M: Machine>(rig: &mut Rig<M>, address: &Address) -> Option<std::net::SocketAddr> {
    let socket = rig.driver().open_socket(address, &OPTIONS).unwrap();
    rig.push(4, Op::Connect { socket, address: address.clone() });
    assert!(matches!(rig.last(4), Outcome::Connected(Ok(()))));
    let mut server = rig.until(|rig| rig.machine.accepted());
    rig.send(5, socket, b"ping");
    rig.last(5);
    assert_eq!(rig.read(&mut server, 4), b"ping");
    rig.push(7, Op::ReceiveMany { socket });
    rig.write(&mut server, b"pong");
    assert_eq!(rig.receive_exactly(7, 4), b"pong");
    rig.driver().socket_addresses(socket).1
}

fn a_refused_connect_says_so<M: Machine>(rig: &mut Rig<M>) {
    let address = rig.machine.refusing();
    let socket = rig.driver().open_socket(&address, &OPTIONS).unwrap();
    rig.push(4, Op::Connect { socket, address });
    assert!(matches!(rig.last(4), Outcome::Connected(Err(Errno(libc::ECONNREFUSED)))));
    rig.close(socket);
}

fn a_connect_that_gets_no_answer_waits_until_it_is_cancelled<M: Machine>(rig: &mut Rig<M>) {
    let address = rig.machine.silent();
    let socket = rig.driver().open_socket(&address, &OPTIONS).unwrap();
    let op = rig.push(4, Op::Connect { socket, address });
    rig.assert_quiet();
    rig.push(0, Op::Cancel { op });
    assert!(matches!(rig.last(4), Outcome::Connected(Err(Errno(libc::ECANCELED)))));
    rig.close(socket);
    rig.assert_quiet();
}
