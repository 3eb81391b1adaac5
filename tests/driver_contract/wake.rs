//! Waiting, and being woken by others.

use std::time::Duration;

use ringwall::io::{Driver, Op, Outcome, Token, Wait};

use crate::rig::{Machine, Rig};

crate::on_both![
    a_ring_reaches_the_other_driver,
    a_ring_is_not_lost_when_nobody_waits_for_it,
    notifications_add_up,
    an_enter_ends_at_its_time,
    an_enter_whose_time_is_past_does_not_wait,
    an_enter_that_need_not_wait_still_starts_what_is_queued,
];

fn a_ring_reaches_the_other_driver<M: Machine>(rig: &mut Rig<M>) {
    let ring = rig.driver().ring_handle();
    let second = rig.machine.second();
    assert_ne!(second.ring_handle(), ring);
    second.push(Token(9), Op::Ring { ring });
    second.enter(Wait::No).unwrap();
    assert!(matches!(rig.last(0), Outcome::Rung));
    // The one who rings hears nothing.
    let second = rig.machine.second();
    let until = second.now() + Duration::from_millis(5);
    second.enter(Wait::Until(until)).unwrap();
    assert!(second.next_completion().is_none());
    rig.assert_quiet();
}

fn a_ring_is_not_lost_when_nobody_waits_for_it<M: Machine>(rig: &mut Rig<M>) {
    let ring = rig.driver().ring_handle();
    let second = rig.machine.second();
    for _ in 0..3 {
        second.push(Token(9), Op::Ring { ring });
        second.enter(Wait::No).unwrap();
    }
    for _ in 0..3 {
        assert!(matches!(rig.last(0), Outcome::Rung));
    }
    rig.assert_quiet();
}

fn notifications_add_up<M: Machine>(rig: &mut Rig<M>) {
    let event = rig.machine.eventfd();
    assert_eq!(rig.machine.take_events(event), 0);
    for _ in 0..3 {
        rig.push(9, Op::Notify { event });
    }
    rig.assert_quiet();
    assert_eq!(rig.machine.take_events(event), 3);
    assert_eq!(rig.machine.take_events(event), 0);
}

fn an_enter_ends_at_its_time<M: Machine>(rig: &mut Rig<M>) {
    let (socket, _peer) = rig.machine.pair();
    rig.push(7, Op::ReceiveMany { socket });
    let driver = rig.driver();
    let until = driver.now() + Duration::from_millis(20);
    driver.enter(Wait::Until(until)).unwrap();
    assert!(driver.next_completion().is_none());
    assert!(driver.now() >= until);
    assert!(driver.now().since(until) < Duration::from_secs(5));
}

fn an_enter_whose_time_is_past_does_not_wait<M: Machine>(rig: &mut Rig<M>) {
    let driver = rig.driver();
    let past = driver.now();
    driver.enter(Wait::Until(past)).unwrap();
    driver.enter(Wait::No).unwrap();
    assert!(driver.now().since(past) < Duration::from_secs(5));
    assert!(driver.next_completion().is_none());
}

fn an_enter_that_need_not_wait_still_starts_what_is_queued<M: Machine>(rig: &mut Rig<M>) {
    let (socket, mut peer) = rig.machine.pair();
    rig.send(5, socket, b"hello");
    rig.driver().enter(Wait::No).unwrap();
    assert_eq!(rig.read(&mut peer, 5), b"hello");
    assert!(matches!(rig.last(5), Outcome::Sent { result: Ok(5), .. }));
}
