//! Sends, and the ways a connection ends.

use ringwall::io::{Driver, Errno, Fd, Op, Outcome};
use ringwall::pool::SendBuf;

use crate::rig::{Got, Machine, Peer, Rig, filled, pattern};

crate::on_both![
    a_sent_buffer_comes_back_as_it_was,
    only_the_data_of_a_buffer_is_sent,
    a_send_to_a_slow_reader_completes_in_full,
    a_send_cancelled_midway_tells_how_much_was_sent,
    a_send_that_is_cut_midway_tells_how_much_was_sent,
    a_send_into_a_reset_connection_fails_and_kills_nobody,
    a_send_after_our_fin_fails,
    our_fin_leaves_the_other_direction_open,
    the_peers_fin_leaves_our_direction_open,
    closing_with_everything_read_is_an_orderly_end,
    closing_with_unread_data_resets_the_peer,
    data_for_a_closed_socket_resets_the_peer,
    more_operations_than_the_queue_holds_all_complete,
];

/// The last completion of a send.
fn sent<M: Machine>(rig: &mut Rig<M>, token: u64) -> (SendBuf, Result<usize, Errno>) {
    let outcome = rig.last(token);
    let Outcome::Sent { buffer, result } = outcome else { panic!("{outcome:?}") };
    (buffer, result)
}

fn a_sent_buffer_comes_back_as_it_was<M: Machine>(rig: &mut Rig<M>) {
    let (socket, mut peer) = rig.machine.pair();
    rig.send(5, socket, b"hello");
    let (buffer, result) = sent(rig, 5);
    assert_eq!((buffer.data(), result), (&b"hello"[..], Ok(5)));
    assert_eq!(rig.read(&mut peer, 5), b"hello");
}

fn only_the_data_of_a_buffer_is_sent<M: Machine>(rig: &mut Rig<M>) {
    let (socket, mut peer) = rig.machine.pair();
    let mut buffer = SendBuf::with_capacity(100);
    buffer.append(b"sent already, to be sent");
    buffer.consume(14);
    rig.push(5, Op::Send { socket, buffer });
    let (buffer, result) = sent(rig, 5);
    assert_eq!((buffer.data(), result), (&b"to be sent"[..], Ok(10)));
    assert_eq!(rig.read(&mut peer, 10), b"to be sent");
}

fn a_send_to_a_slow_reader_completes_in_full<M: Machine>(rig: &mut Rig<M>) {
    let (socket, mut peer) = rig.machine.pair();
    let bytes = pattern(rig.machine.too_much());
    rig.send(5, socket, &bytes);
    rig.assert_quiet();
    assert!(rig.read(&mut peer, bytes.len()) == bytes);
    let (buffer, result) = sent(rig, 5);
    assert_eq!(result, Ok(bytes.len()));
    assert!(buffer.data() == bytes);
}

fn a_send_cancelled_midway_tells_how_much_was_sent<M: Machine>(rig: &mut Rig<M>) {
    let (socket, mut peer) = rig.machine.pair();
    let bytes = pattern(rig.machine.too_much());
    let op = rig.send(5, socket, &bytes);
    rig.assert_quiet();
    rig.push(0, Op::Cancel { op });
    let (buffer, result) = sent(rig, 5);
    let len = result.unwrap();
    assert!(len > 0 && len < bytes.len(), "{len} bytes");
    assert!(buffer.data() == bytes);
    assert!(rig.read(&mut peer, len) == bytes[..len]);
    rig.close(socket);
    assert_eq!(rig.got(&mut peer), Got::End);
}

fn a_send_that_is_cut_midway_tells_how_much_was_sent<M: Machine>(rig: &mut Rig<M>) {
    let (socket, peer) = rig.machine.pair();
    let bytes = pattern(rig.machine.too_much());
    rig.send(5, socket, &bytes);
    rig.assert_quiet();
    peer.close();
    let (_, result) = sent(rig, 5);
    let len = result.unwrap();
    assert!(len > 0 && len < bytes.len(), "{len} bytes");
    rig.close(socket);
}

fn a_send_into_a_reset_connection_fails_and_kills_nobody<M: Machine>(rig: &mut Rig<M>) {
    let (socket, peer) = rig.machine.pair();
    rig.send(5, socket, b"unread");
    assert!(sent(rig, 5).1.is_ok());
    rig.assert_quiet();
    peer.close();
    rig.assert_quiet();
    for errno in [libc::ECONNRESET, libc::EPIPE, libc::EPIPE] {
        rig.send(6, socket, b"too late");
        let (buffer, result) = sent(rig, 6);
        assert_eq!((buffer.data(), result), (&b"too late"[..], Err(Errno(errno))));
    }
    rig.close(socket);
}

fn a_send_after_our_fin_fails<M: Machine>(rig: &mut Rig<M>) {
    let (socket, _peer) = rig.machine.pair();
    rig.driver().shutdown_write(socket);
    rig.send(5, socket, b"too late");
    assert_eq!(sent(rig, 5).1, Err(Errno(libc::EPIPE)));
    rig.close(socket);
}

fn our_fin_leaves_the_other_direction_open<M: Machine>(rig: &mut Rig<M>) {
    let (socket, mut peer) = rig.machine.pair();
    rig.send(5, socket, b"that is all");
    assert!(sent(rig, 5).1.is_ok());
    rig.driver().shutdown_write(socket);
    assert_eq!(rig.read(&mut peer, 11), b"that is all");
    assert_eq!(rig.got(&mut peer), Got::End);
    rig.push(7, Op::ReceiveMany { socket });
    rig.write(&mut peer, b"not from here");
    assert_eq!(rig.receive_exactly(7, 13), b"not from here");
}

fn the_peers_fin_leaves_our_direction_open<M: Machine>(rig: &mut Rig<M>) {
    let (socket, mut peer) = rig.machine.pair();
    peer.shutdown_write();
    rig.push(7, Op::ReceiveMany { socket });
    assert_eq!(rig.received(7).result, Ok(None));
    rig.send(5, socket, b"answer");
    assert!(sent(rig, 5).1.is_ok());
    assert_eq!(rig.read(&mut peer, 6), b"answer");
    rig.close(socket);
}

fn closing_with_everything_read_is_an_orderly_end<M: Machine>(rig: &mut Rig<M>) {
    let (socket, mut peer) = rig.machine.pair();
    receive_all(rig, socket, &mut peer, b"question");
    rig.send(5, socket, b"answer");
    assert!(sent(rig, 5).1.is_ok());
    rig.close(socket);
    assert_eq!(rig.read(&mut peer, 6), b"answer");
    assert_eq!(rig.got(&mut peer), Got::End);
}

fn closing_with_unread_data_resets_the_peer<M: Machine>(rig: &mut Rig<M>) {
    let (socket, mut peer) = rig.machine.pair();
    rig.write(&mut peer, b"nobody reads this");
    rig.assert_quiet();
    rig.close(socket);
    assert_eq!(rig.got(&mut peer), Got::Reset);
}

fn data_for_a_closed_socket_resets_the_peer<M: Machine>(rig: &mut Rig<M>) {
    let (socket, mut peer) = rig.machine.pair();
    rig.close(socket);
    rig.assert_quiet();
    rig.write(&mut peer, b"anybody there?");
    rig.assert_quiet();
    // The end of the stream came before the reset, and that is what a reader sees.
    assert_eq!(rig.got(&mut peer), Got::End);
}

/// Writes and receives `bytes`, and leaves the socket with nothing in flight.
fn receive_all<M: Machine>(rig: &mut Rig<M>, socket: Fd, peer: &mut M::Peer, bytes: &[u8]) {
    let op = rig.push(7, Op::ReceiveMany { socket });
    rig.write(peer, bytes);
    assert_eq!(rig.receive_exactly(7, bytes.len()), bytes);
    rig.disarm(7, op);
}

fn more_operations_than_the_queue_holds_all_complete<M: Machine>(rig: &mut Rig<M>) {
    let pairs: Vec<_> = (0..50_u8).map(|number| (number, rig.machine.pair())).collect();
    for (number, (socket, _)) in &pairs {
        rig.push(u64::from(*number), Op::Send { socket: *socket, buffer: filled(&[*number]) });
    }
    let mut tokens: Vec<_> = pairs.iter().map(|_| rig.next().token.0).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, (0..50).collect::<Vec<_>>());
    for (number, (socket, mut peer)) in pairs {
        assert_eq!(rig.read(&mut peer, 1), [number]);
        rig.close(socket);
    }
}
