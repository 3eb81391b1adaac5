//! Receives.

use ringwall::io::{BufferGroup, Errno, Fd, Op};

use crate::rig::{LARGE_BUFFER_BYTES, LARGE_BUFFERS, Machine, Peer, Rig, SMALL_BUFFER_BYTES, SMALL_BUFFERS, pattern};

crate::on_both![
    a_receive_goes_on_until_the_peers_fin,
    a_fin_comes_after_all_that_was_written_before_it,
    a_receive_without_a_free_buffer_ends_and_loses_nothing,
    a_receive_waits_for_data_before_it_needs_a_buffer,
    a_large_receive_takes_one_large_buffer_and_ends,
    a_large_receive_tells_whether_more_data_waits,
    a_large_receive_without_a_free_buffer_loses_nothing,
    a_large_receive_that_knows_of_data_needs_a_buffer_at_once,
    a_cancelled_receive_completes_exactly_once_more,
    a_cancel_of_an_operation_that_is_still_queued_works,
    what_arrived_before_a_cancel_is_received_then_or_later,
    an_end_that_came_before_the_receive_is_seen,
    an_end_that_comes_with_the_data_is_seen,
    an_end_that_comes_while_no_buffer_is_free_is_seen,
    a_socket_that_waits_for_nothing_is_closed_with_a_fin,
    a_late_cancel_hits_no_other_operation,
    cancelling_twice_is_cancelling_once,
    a_reset_leaves_what_has_arrived_to_be_read_first,
    a_reset_is_reported_once_and_then_looks_like_an_end,
    a_send_that_meets_the_reset_first_takes_the_error_away_from_the_receive,
    receives_on_other_sockets_go_on_when_one_ends,
];

fn a_receive_goes_on_until_the_peers_fin<M: Machine>(rig: &mut Rig<M>) {
    let (socket, mut peer) = rig.machine.pair();
    rig.push(7, Op::ReceiveMany { socket });
    for message in [&b"one"[..], b"two", b"three"] {
        rig.write(&mut peer, message);
        assert_eq!(rig.receive_exactly(7, message.len()), message);
    }
    peer.shutdown_write();
    let end = rig.received(7);
    assert_eq!((end.result, end.more), (Ok(None), false));
    rig.assert_quiet();
    rig.close(socket);
}

fn a_fin_comes_after_all_that_was_written_before_it<M: Machine>(rig: &mut Rig<M>) {
    let (socket, mut peer) = rig.machine.pair();
    let sent = pattern(SMALL_BUFFER_BYTES * 2 + 100);
    rig.write(&mut peer, &sent);
    peer.close();
    rig.push(7, Op::ReceiveMany { socket });
    assert_eq!(rig.receive_exactly(7, sent.len()), sent);
    let end = rig.received(7);
    assert_eq!((end.result, end.more), (Ok(None), false));
    rig.close(socket);
}

fn a_receive_without_a_free_buffer_ends_and_loses_nothing<M: Machine>(rig: &mut Rig<M>) {
    let (socket, mut peer) = rig.machine.pair();
    let sent = pattern(SMALL_BUFFER_BYTES * (SMALL_BUFFERS * 2 + 2));
    rig.write(&mut peer, &sent);
    let (mut bytes, mut leases, mut leased, mut ran_dry) = (Vec::new(), Vec::new(), 0, 0);
    rig.push(7, Op::ReceiveMany { socket });
    // Buffers go back only when there is none left.
    while leased < sent.len() {
        let received = rig.received(7);
        if received.more {
            let lease = received.lease();
            leased += lease.len as usize;
            leases.push(lease);
            continue;
        }
        assert_eq!(received.result, Err(Errno(libc::ENOBUFS)));
        assert_eq!(leases.len(), SMALL_BUFFERS);
        ran_dry += 1;
        bytes.extend(leases.drain(..).flat_map(|lease| rig.take(lease)));
        rig.push(7, Op::ReceiveMany { socket });
    }
    bytes.extend(leases.drain(..).flat_map(|lease| rig.take(lease)));
    assert!(bytes == sent);
    assert_eq!(ran_dry, 2);
    peer.shutdown_write();
    assert_eq!(rig.received(7).result, Ok(None));
    rig.close(socket);
}

fn a_receive_waits_for_data_before_it_needs_a_buffer<M: Machine>(rig: &mut Rig<M>) {
    let leases = exhaust(rig);
    let (socket, mut peer) = rig.machine.pair();
    rig.push(8, Op::ReceiveMany { socket });
    rig.assert_quiet();
    rig.write(&mut peer, b"data");
    let received = rig.received(8);
    assert_eq!((received.result, received.more), (Err(Errno(libc::ENOBUFS)), false));
    leases.into_iter().for_each(|lease| drop(rig.take(lease)));
    rig.push(8, Op::ReceiveMany { socket });
    assert_eq!(rig.receive_exactly(8, 4), b"data");
}

/// Takes all small buffers.
fn exhaust<M: Machine>(rig: &mut Rig<M>) -> Vec<ringwall::io::Lease> {
    let (socket, mut peer) = rig.machine.pair();
    rig.push(7, Op::ReceiveMany { socket });
    rig.write(&mut peer, &pattern(SMALL_BUFFER_BYTES * SMALL_BUFFERS));
    let leases = (0..SMALL_BUFFERS).map(|_| rig.received(7).lease()).collect();
    peer.close();
    let end = rig.received(7);
    assert!(!end.more);
    rig.close(socket);
    leases
}

fn a_large_receive_takes_one_large_buffer_and_ends<M: Machine>(rig: &mut Rig<M>) {
    let (socket, mut peer) = rig.machine.pair();
    rig.push(7, Op::ReceiveOnce { socket, data_waits: false });
    rig.assert_quiet();
    rig.write(&mut peer, b"a few bytes");
    let received = rig.received(7);
    assert!(!received.more);
    let lease = received.lease();
    assert_eq!(lease.group, BufferGroup::Large);
    assert_eq!(rig.take(lease), b"a few bytes");
    rig.write(&mut peer, b"more");
    rig.assert_quiet();
    rig.close(socket);
}

fn a_large_receive_tells_whether_more_data_waits<M: Machine>(rig: &mut Rig<M>) {
    let (socket, mut peer) = rig.machine.pair();
    let sent = pattern(LARGE_BUFFER_BYTES + 500);
    rig.write(&mut peer, &sent);
    settle(rig, socket, &mut peer);
    rig.push(7, Op::ReceiveOnce { socket, data_waits: true });
    let received = rig.received(7);
    assert!(received.data_waits);
    let mut bytes = rig.take(received.lease());
    assert_eq!(bytes.len(), LARGE_BUFFER_BYTES);
    rig.push(7, Op::ReceiveOnce { socket, data_waits: true });
    let received = rig.received(7);
    assert!(!received.data_waits);
    bytes.extend(rig.take(received.lease()));
    assert_eq!(bytes, sent);
    // The word may be wrong: then the receive waits.
    rig.push(7, Op::ReceiveOnce { socket, data_waits: true });
    rig.assert_quiet();
    peer.shutdown_write();
    assert_eq!(rig.received(7).result, Ok(None));
    rig.close(socket);
}

/// Waits until what the peer has written has arrived: it is not read, so an answer is what tells.
fn settle<M: Machine>(rig: &mut Rig<M>, socket: Fd, peer: &mut M::Peer) {
    rig.send(1, socket, b"x");
    rig.last(1);
    rig.read(peer, 1);
    rig.assert_quiet();
}

fn a_large_receive_without_a_free_buffer_loses_nothing<M: Machine>(rig: &mut Rig<M>) {
    let (leases, socket, mut peer) = exhaust_large(rig);
    rig.push(9, Op::ReceiveOnce { socket, data_waits: false });
    rig.assert_quiet();
    rig.write(&mut peer, b"late");
    let received = rig.received(9);
    assert_eq!((received.result, received.more), (Err(Errno(libc::ENOBUFS)), false));
    leases.into_iter().for_each(|lease| drop(rig.take(lease)));
    rig.push(9, Op::ReceiveOnce { socket, data_waits: true });
    let lease = rig.received(9).lease();
    assert_eq!(rig.take(lease), b"late");
    rig.close(socket);
}

fn a_large_receive_that_knows_of_data_needs_a_buffer_at_once<M: Machine>(rig: &mut Rig<M>) {
    let (leases, socket, _peer) = exhaust_large(rig);
    rig.push(9, Op::ReceiveOnce { socket, data_waits: true });
    assert_eq!(rig.received(9).result, Err(Errno(libc::ENOBUFS)));
    leases.into_iter().for_each(|lease| drop(rig.take(lease)));
    rig.close(socket);
}

/// Takes all large buffers, and makes a connection with no data on it.
fn exhaust_large<M: Machine>(rig: &mut Rig<M>) -> (Vec<ringwall::io::Lease>, Fd, M::Peer) {
    let (socket, mut peer) = rig.machine.pair();
    let mut leases = Vec::new();
    for _ in 0..LARGE_BUFFERS {
        rig.write(&mut peer, b"data");
        rig.push(7, Op::ReceiveOnce { socket, data_waits: false });
        leases.push(rig.received(7).lease());
    }
    (leases, socket, peer)
}

fn a_cancelled_receive_completes_exactly_once_more<M: Machine>(rig: &mut Rig<M>) {
    let (socket, mut peer) = rig.machine.pair();
    for op in [Op::ReceiveMany { socket }, Op::ReceiveOnce { socket, data_waits: false }] {
        let op = rig.push(7, op);
        rig.assert_quiet();
        rig.disarm(7, op);
        rig.assert_quiet();
    }
    rig.write(&mut peer, b"still here");
    rig.push(8, Op::ReceiveMany { socket });
    assert_eq!(rig.receive_exactly(8, 10), b"still here");
}

fn a_cancel_of_an_operation_that_is_still_queued_works<M: Machine>(rig: &mut Rig<M>) {
    let (socket, _peer) = rig.machine.pair();
    let op = rig.push(7, Op::ReceiveMany { socket });
    rig.disarm(7, op);
    rig.assert_quiet();
    rig.close(socket);
}

fn what_arrived_before_a_cancel_is_received_then_or_later<M: Machine>(rig: &mut Rig<M>) {
    let (socket, mut peer) = rig.machine.pair();
    let sent = pattern(SMALL_BUFFER_BYTES * 10);
    let mut bytes = Vec::new();
    for part in sent.chunks(SMALL_BUFFER_BYTES * 2) {
        let op = rig.push(7, Op::ReceiveMany { socket });
        rig.turn();
        rig.write(&mut peer, part);
        rig.push(0, Op::Cancel { op });
        loop {
            let received = rig.received(7);
            let more = received.more;
            match received.result {
                Ok(Some(lease)) => bytes.extend(rig.take(lease)),
                other => assert_eq!(other, Err(Errno(libc::ECANCELED))),
            }
            if !more {
                break;
            }
        }
    }
    peer.shutdown_write();
    bytes.extend(rig.receive_all(socket));
    assert!(bytes == sent);
    rig.close(socket);
}

fn an_end_that_came_before_the_receive_is_seen<M: Machine>(rig: &mut Rig<M>) {
    for unix in [false, true] {
        let (socket, mut peer) = rig.machine.pair_over(unix);
        rig.write(&mut peer, b"bye");
        peer.close();
        rig.assert_quiet();
        rig.push(7, Op::ReceiveMany { socket });
        assert_eq!(rig.receive_exactly(7, 3), b"bye");
        let end = rig.received(7);
        assert_eq!((end.result, end.more), (Ok(None), false));
        rig.close(socket);
    }
}

fn an_end_that_comes_with_the_data_is_seen<M: Machine>(rig: &mut Rig<M>) {
    for unix in [false, true] {
        let (socket, mut peer) = rig.machine.pair_over(unix);
        rig.push(7, Op::ReceiveMany { socket });
        rig.turn();
        rig.write(&mut peer, b"bye");
        peer.close();
        assert_eq!(rig.receive_exactly(7, 3), b"bye");
        let end = rig.received(7);
        assert_eq!((end.result, end.more), (Ok(None), false));
        rig.close(socket);
    }
}

fn an_end_that_comes_while_no_buffer_is_free_is_seen<M: Machine>(rig: &mut Rig<M>) {
    for unix in [false, true] {
        let (socket, mut peer) = rig.machine.pair_over(unix);
        let sent = pattern(SMALL_BUFFER_BYTES * (SMALL_BUFFERS * 3 - 1));
        rig.push(7, Op::ReceiveMany { socket });
        rig.write(&mut peer, &sent);
        peer.close();
        let mut leases = Vec::new();
        let end = loop {
            let received = rig.received(7);
            if !received.more {
                break received.result;
            }
            leases.push(received.lease());
        };
        assert_eq!(end, Err(Errno(libc::ENOBUFS)));
        let mut bytes: Vec<u8> = leases.into_iter().flat_map(|lease| rig.take(lease)).collect();
        bytes.extend(rig.receive_all(socket));
        assert!(bytes == sent);
        rig.close(socket);
    }
}

fn a_socket_that_waits_for_nothing_is_closed_with_a_fin<M: Machine>(rig: &mut Rig<M>) {
    for unix in [false, true] {
        let (socket, mut peer) = rig.machine.pair_over(unix);
        let op = rig.push(7, Op::ReceiveMany { socket });
        rig.assert_quiet();
        rig.disarm(7, op);
        rig.close(socket);
        assert_eq!(rig.got(&mut peer), crate::rig::Got::End);
    }
}

fn a_late_cancel_hits_no_other_operation<M: Machine>(rig: &mut Rig<M>) {
    let (socket, mut peer) = rig.machine.pair();
    rig.write(&mut peer, b"first");
    let old = rig.push(7, Op::ReceiveOnce { socket, data_waits: false });
    let lease = rig.received(7).lease();
    rig.take(lease);
    rig.push(8, Op::ReceiveMany { socket });
    rig.push(0, Op::Cancel { op: old });
    rig.assert_quiet();
    rig.write(&mut peer, b"second");
    assert_eq!(rig.receive_exactly(8, 6), b"second");
}

fn cancelling_twice_is_cancelling_once<M: Machine>(rig: &mut Rig<M>) {
    let (socket, _peer) = rig.machine.pair();
    let op = rig.push(7, Op::ReceiveMany { socket });
    rig.push(0, Op::Cancel { op });
    rig.disarm(7, op);
    rig.push(0, Op::Cancel { op });
    rig.assert_quiet();
    rig.close(socket);
}

/// A connection that the peer has reset after it wrote `last_words`.
fn reset<M: Machine>(rig: &mut Rig<M>, last_words: &[u8]) -> Fd {
    let (socket, mut peer) = rig.machine.pair();
    rig.send(1, socket, b"the peer does not read this");
    rig.last(1);
    rig.assert_quiet();
    rig.write(&mut peer, last_words);
    peer.close();
    rig.assert_quiet();
    socket
}

fn a_reset_leaves_what_has_arrived_to_be_read_first<M: Machine>(rig: &mut Rig<M>) {
    let socket = reset(rig, b"last words");
    rig.push(7, Op::ReceiveMany { socket });
    assert_eq!(rig.receive_exactly(7, 10), b"last words");
    let end = rig.received(7);
    assert_eq!((end.result, end.more), (Err(Errno(libc::ECONNRESET)), false));
    rig.close(socket);
}

fn a_reset_is_reported_once_and_then_looks_like_an_end<M: Machine>(rig: &mut Rig<M>) {
    let socket = reset(rig, b"");
    rig.push(7, Op::ReceiveMany { socket });
    assert_eq!(rig.received(7).result, Err(Errno(libc::ECONNRESET)));
    rig.push(7, Op::ReceiveMany { socket });
    assert_eq!(rig.received(7).result, Ok(None));
    rig.close(socket);
}

fn a_send_that_meets_the_reset_first_takes_the_error_away_from_the_receive<M: Machine>(rig: &mut Rig<M>) {
    let socket = reset(rig, b"");
    rig.send(2, socket, b"x");
    let ringwall::io::Outcome::Sent { result, .. } = rig.last(2) else { panic!("not a send") };
    assert_eq!(result, Err(Errno(libc::ECONNRESET)));
    rig.push(7, Op::ReceiveMany { socket });
    assert_eq!(rig.received(7).result, Ok(None));
    rig.close(socket);
}

fn receives_on_other_sockets_go_on_when_one_ends<M: Machine>(rig: &mut Rig<M>) {
    let (first, first_peer) = rig.machine.pair();
    let (second, mut second_peer) = rig.machine.pair();
    rig.push(1, Op::ReceiveMany { socket: first });
    rig.push(2, Op::ReceiveMany { socket: second });
    rig.turn();
    first_peer.close();
    assert_eq!(rig.received(1).result, Ok(None));
    rig.close(first);
    rig.write(&mut second_peer, b"alive");
    assert_eq!(rig.receive_exactly(2, 5), b"alive");
}
