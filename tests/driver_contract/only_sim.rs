//! What only the simulated kernel does: watch its user's duties, run out of descriptors, and wait to be told to go on.

use std::time::Duration;

use ringwall::io::{Address, BufferGroup, Driver, Errno, Fd, Lease, Op, Outcome, SocketOptions, Token, Wait};

use crate::rig::filled;
use crate::simulation::{Peer, Read, Settings, Sim, SimDriver};

const OPTIONS: SocketOptions = SocketOptions { keepalive_seconds: None, user_timeout_ms: None, source: None };

/// A driver with a connection.
fn connected() -> (Sim, SimDriver, Fd, Peer) {
    let sim = Sim::new(Settings::calm(1));
    let driver = sim.driver();
    let (socket, peer) = sim.pair();
    (sim, driver, socket, peer)
}

/// A connection on which a lease is out.
fn lent() -> (Sim, SimDriver, Lease, Peer) {
    let (sim, mut driver, socket, mut peer) = connected();
    peer.write(b"data").unwrap();
    driver.push(Token(1), Op::ReceiveMany { socket });
    driver.enter(Wait::No).unwrap();
    driver.enter(Wait::No).unwrap();
    let outcome = driver.next_completion().unwrap().outcome;
    let Outcome::Received { result: Ok(Some(lease)), .. } = outcome else { panic!("{outcome:?}") };
    (sim, driver, lease, peer)
}

fn address(port: u16) -> Address {
    Address::Tcp(([127, 0, 0, 1], port).into())
}

#[test]
#[should_panic(expected = "broken duty: two of Receive in flight")]
fn two_receives_on_a_socket_break_a_duty() {
    let (_sim, mut driver, socket, _peer) = connected();
    driver.push(Token(1), Op::ReceiveMany { socket });
    driver.push(Token(2), Op::ReceiveOnce { socket, data_waits: false });
}

#[test]
#[should_panic(expected = "broken duty: two of Send in flight")]
fn two_sends_on_a_socket_break_a_duty() {
    let (_sim, mut driver, socket, _peer) = connected();
    driver.push(Token(1), Op::Send { socket, buffer: filled(b"one") });
    driver.enter(Wait::No).unwrap();
    // It is done, but nobody has looked.
    driver.push(Token(2), Op::Send { socket, buffer: filled(b"two") });
}

#[test]
#[should_panic(expected = "is closed with")]
fn closing_with_a_receive_in_flight_breaks_a_duty() {
    let (_sim, mut driver, socket, _peer) = connected();
    driver.push(Token(1), Op::ReceiveMany { socket });
    driver.enter(Wait::No).unwrap();
    driver.close(socket);
}

#[test]
#[should_panic(expected = "is shut with a send in flight")]
fn shutting_with_a_send_in_flight_breaks_a_duty() {
    let (_sim, mut driver, socket, _peer) = connected();
    driver.push(Token(1), Op::Send { socket, buffer: filled(b"one") });
    driver.shutdown_write(socket);
}

#[test]
#[should_panic(expected = "is closed twice")]
fn closing_twice_breaks_a_duty() {
    let (_sim, mut driver, socket, _peer) = connected();
    driver.close(socket);
    driver.close(socket);
}

#[test]
#[should_panic(expected = "is not a socket")]
fn using_a_closed_number_breaks_a_duty() {
    let (_sim, mut driver, socket, _peer) = connected();
    driver.close(socket);
    driver.push(Token(1), Op::ReceiveMany { socket });
}

#[test]
#[should_panic(expected = "is not lent")]
fn recycling_twice_breaks_a_duty() {
    let (_sim, mut driver, lease, _peer) = lent();
    let copy = Lease { group: BufferGroup::Small, id: lease.id, len: lease.len };
    driver.recycle(lease);
    driver.recycle(copy);
}

#[test]
#[should_panic(expected = "1 leases at the end of a turn")]
fn keeping_a_lease_over_a_turn_breaks_a_duty() {
    let (_sim, mut driver, lease, _peer) = lent();
    let result = driver.enter(Wait::No);
    drop((result, lease));
}

#[test]
#[should_panic(expected = "1 leases are not home at the end")]
fn losing_a_lease_breaks_a_duty() {
    let (_sim, driver, lease, _peer) = lent();
    drop((driver, lease));
}

#[test]
fn a_closed_number_is_given_out_again_at_once() {
    let (_sim, mut driver, socket, _peer) = connected();
    driver.close(socket);
    assert_eq!(driver.open_socket(&address(1), &OPTIONS), Ok(socket));
}

#[test]
fn without_descriptors_an_accept_fails_and_its_connection_waits() {
    let sim = Sim::new(Settings::calm(1));
    let mut driver = sim.driver();
    let listener = sim.listen(&address(1));
    sim.set_open_files_max(1);
    assert_eq!(driver.open_socket(&address(2), &OPTIONS), Err(Errno(libc::EMFILE)));
    let mut client = sim.connect(&address(1));
    client.write(b"early").unwrap();
    driver.push(Token(1), Op::Accept { listener });
    run(&mut driver);
    let refused = driver.next_completion().unwrap();
    assert!(matches!(refused.outcome, Outcome::Accepted(Err(Errno(libc::EMFILE)))) && !refused.more);
    sim.set_open_files_max(2);
    driver.push(Token(1), Op::Accept { listener });
    run(&mut driver);
    let accepted = driver.next_completion().unwrap();
    let Outcome::Accepted(Ok(socket)) = accepted.outcome else { panic!("{accepted:?}") };
    driver.push(Token(2), Op::ReceiveMany { socket });
    run(&mut driver);
    // The accept that took the last number found none for the next.
    let refused = driver.next_completion().unwrap();
    assert!(matches!(refused.outcome, Outcome::Accepted(Err(Errno(libc::EMFILE)))) && !refused.more);
    let received = driver.next_completion().unwrap();
    let Outcome::Received { result: Ok(Some(lease)), .. } = received.outcome else { panic!("{received:?}") };
    assert_eq!(driver.bytes_mut(&lease), b"early");
    driver.recycle(lease);
}

/// Enters until what is due has happened.
fn run(driver: &mut SimDriver) {
    for _ in 0..3 {
        driver.enter(Wait::No).unwrap();
    }
}

#[test]
fn a_peer_that_resets_loses_nothing_that_has_arrived() {
    let (_sim, mut driver, socket, mut peer) = connected();
    peer.write(b"last words").unwrap();
    peer.reset();
    driver.push(Token(1), Op::ReceiveMany { socket });
    run(&mut driver);
    let first = driver.next_completion().unwrap().outcome;
    let Outcome::Received { result: Ok(Some(lease)), .. } = first else { panic!("{first:?}") };
    assert_eq!(driver.bytes_mut(&lease), b"last words");
    driver.recycle(lease);
    let end = driver.next_completion().unwrap().outcome;
    assert!(matches!(end, Outcome::Received { result: Err(Errno(libc::ECONNRESET)), .. }), "{end:?}");
}

#[test]
fn a_server_that_was_silent_may_answer_later() {
    let sim = Sim::new(Settings::calm(1));
    let mut driver = sim.driver();
    let server = sim.serve(&address(1));
    server.ignore();
    let socket = driver.open_socket(&address(1), &OPTIONS).unwrap();
    driver.push(Token(1), Op::Connect { socket, address: address(1) });
    run(&mut driver);
    assert!(driver.next_completion().is_none());
    server.listen();
    run(&mut driver);
    assert!(matches!(driver.next_completion().unwrap().outcome, Outcome::Connected(Ok(()))));
    let mut far = server.accept().unwrap();
    assert_eq!(far.read(1), Read::Nothing);
    driver.close(socket);
    sim.advance();
    assert_eq!(far.read(1), Read::End);
    sim.assert_all_home();
}

#[test]
fn a_busy_server_is_reached_with_another_try() {
    let sim = Sim::new(Settings::calm(1));
    let mut driver = sim.driver();
    let server = sim.serve(&address(1));
    server.be_busy();
    let socket = driver.open_socket(&address(1), &OPTIONS).unwrap();
    driver.push(Token(1), Op::Connect { socket, address: address(1) });
    run(&mut driver);
    assert!(matches!(driver.next_completion().unwrap().outcome, Outcome::Connected(Err(Errno(libc::EAGAIN)))));
    server.listen();
    driver.push(Token(1), Op::Connect { socket, address: address(1) });
    run(&mut driver);
    assert!(matches!(driver.next_completion().unwrap().outcome, Outcome::Connected(Ok(()))));
}

/// A thread would not come back from this enter now.
fn fall_asleep(driver: &mut SimDriver, wait: Wait) {
    assert_eq!(driver.enter(wait).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_driver_sleeps_until_its_time_or_until_it_is_woken() {
    let sim = Sim::new(Settings::calm(1));
    let (mut sleeper, mut other) = (sim.driver(), sim.driver());
    assert!(sim.is_runnable(sleeper.id()));
    let until = sim.now() + Duration::from_millis(5);
    fall_asleep(&mut sleeper, Wait::Until(until));
    fall_asleep(&mut other, Wait::Forever);
    assert!(!sim.is_runnable(sleeper.id()) && !sim.is_runnable(other.id()));
    assert!(sim.advance());
    assert_eq!(sim.now(), until);
    assert!(sim.is_runnable(sleeper.id()) && !sim.is_runnable(other.id()));
    let ring = other.ring_handle();
    sleeper.push(Token(0), Op::Ring { ring });
    fall_asleep(&mut sleeper, Wait::Forever);
    assert!(!sim.is_runnable(sleeper.id()) && sim.is_runnable(other.id()));
    other.enter(Wait::Forever).unwrap();
    assert!(matches!(other.next_completion().unwrap().outcome, Outcome::Rung));
    fall_asleep(&mut other, Wait::Forever);
    assert!(!sim.advance(), "nothing is left to happen");
}
