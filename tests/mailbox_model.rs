//! The mailbox against a `VecDeque`, the pending flags against a set, and both under two real threads.
#![cfg(not(feature = "loom"))]

use std::collections::{BTreeSet, VecDeque};
use std::thread;

use proptest::prelude::*;
use ringwall::mailbox::{PendingHint, PendingReader, mailbox, pending_flags};

#[derive(Clone, Copy, Debug)]
enum Step {
    Send(u32),
    Receive,
    Sleep,
    Awake,
    Ring,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<u32>().prop_map(Step::Send),
        Just(Step::Receive),
        Just(Step::Sleep),
        Just(Step::Awake),
        Just(Step::Ring),
    ]
}

proptest! {
    #[test]
    fn a_mailbox_behaves_like_a_bounded_queue_with_a_sleep_flag(
        capacity in 1_usize..5,
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let (mut sender, mut receiver) = mailbox(capacity);
        let mut queue = VecDeque::new();
        let mut asleep = false;
        for step in steps {
            match step {
                Step::Send(value) if queue.len() == capacity => prop_assert_eq!(sender.send(value), Err(value)),
                Step::Send(value) => {
                    prop_assert_eq!(sender.send(value), Ok(()));
                    queue.push_back(value);
                }
                Step::Receive => prop_assert_eq!(receiver.receive(), queue.pop_front()),
                Step::Sleep => {
                    asleep = queue.is_empty();
                    prop_assert_eq!(receiver.going_to_sleep(), asleep);
                }
                Step::Awake => {
                    receiver.awake();
                    asleep = false;
                }
                Step::Ring => {
                    prop_assert_eq!(sender.needs_ring(), asleep);
                    asleep = false;
                }
            }
            prop_assert_eq!(receiver.is_empty(), queue.is_empty());
        }
    }

    #[test]
    fn a_reader_of_pending_flags_knows_the_truth_whenever_it_looks(
        hints_max in 1_usize..6,
        batches in prop::collection::vec(
            (prop::collection::vec((0_u32..130, any::<bool>()), 0..12), any::<bool>()),
            0..40,
        ),
    ) {
        let (mut publisher, mut reader) = pending_flags(130, hints_max);
        let mut truth = BTreeSet::new();
        let mut picture = BTreeSet::new();
        for (batch, looks) in batches {
            for (slot, pending) in batch {
                publisher.publish(slot, pending);
                if pending { truth.insert(slot) } else { truth.remove(&slot) };
                prop_assert_eq!(publisher.is_pending(slot), pending);
            }
            publisher.flush();
            if looks {
                catch_up(&mut reader, &mut picture);
                prop_assert_eq!(&picture, &truth);
            }
        }
    }
}

fn catch_up(reader: &mut PendingReader, picture: &mut BTreeSet<u32>) {
    let resync = reader.take_resync();
    reader.drain(|hint| {
        if hint.pending {
            picture.insert(hint.slot);
        } else {
            picture.remove(&hint.slot);
        }
    });
    if resync {
        picture.clear();
        reader.scan(|slot| {
            picture.insert(slot);
        });
    }
}

#[test]
fn only_transitions_are_published_and_only_at_the_end_of_a_batch() {
    let (mut publisher, mut reader) = pending_flags(64, 8);
    publisher.publish(63, true);
    publisher.publish(63, true);
    let mut hints = Vec::new();
    reader.drain(|hint| hints.push(hint));
    assert_eq!(hints, []);
    publisher.flush();
    publisher.publish(63, true);
    publisher.publish(63, false);
    publisher.flush();
    reader.drain(|hint| hints.push(hint));
    let hint = |pending| PendingHint { slot: 63, pending };
    assert_eq!(hints, [hint(true), hint(false)]);
    assert!(!reader.take_resync());
}

#[test]
fn a_full_hint_ring_asks_for_a_resync_once() {
    let (mut publisher, mut reader) = pending_flags(4, 2);
    for slot in 0..3 {
        publisher.publish(slot, true);
    }
    publisher.flush();
    assert!(reader.take_resync());
    assert!(!reader.take_resync());
    let mut set = Vec::new();
    reader.scan(|slot| set.push(slot));
    assert_eq!(set, [0, 1, 2]);
}

#[test]
fn a_sender_knows_that_its_receiver_is_gone() {
    let (mut sender, receiver) = mailbox::<u32>(1);
    assert!(sender.send(1).is_ok() && !sender.is_abandoned());
    drop(receiver);
    assert!(sender.is_abandoned());
}

#[test]
fn two_threads_pass_every_value_once_and_no_sleep_lasts() {
    const VALUES: u32 = 200_000;
    let (mut sender, mut receiver) = mailbox::<u32>(64);
    let consumer = thread::spawn(move || {
        let mut sleeps = 0_u32;
        let mut expected = 0;
        while expected < VALUES {
            match receiver.receive() {
                Some(value) => {
                    assert_eq!(value, expected);
                    expected += 1;
                }
                None if receiver.going_to_sleep() => {
                    thread::park();
                    receiver.awake();
                    sleeps += 1;
                }
                None => {}
            }
        }
        sleeps
    });
    for mut value in 0..VALUES {
        while let Err(back) = sender.send(value) {
            value = back;
            thread::yield_now();
        }
        if sender.needs_ring() {
            consumer.thread().unpark();
        }
    }
    let sleeps = consumer.join().unwrap();
    println!("{VALUES} values, {sleeps} sleeps");
}

#[test]
fn two_threads_agree_on_pending_flags_however_many_hints_are_lost() {
    const SLOTS: u32 = 300;
    let (mut publisher, mut reader) = pending_flags(SLOTS, 16);
    let shard = thread::spawn(move || {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..20_000 {
            for _ in 0..5 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let slot = u32::try_from(random % u64::from(SLOTS)).unwrap();
                publisher.publish(slot, random & 1 << 40 != 0);
            }
            publisher.flush();
        }
        (0..SLOTS).filter(|&slot| publisher.is_pending(slot)).collect::<BTreeSet<_>>()
    });
    let mut picture = BTreeSet::new();
    while !shard.is_finished() {
        catch_up(&mut reader, &mut picture);
    }
    let truth = shard.join().unwrap();
    catch_up(&mut reader, &mut picture);
    assert_eq!(picture, truth);
}
