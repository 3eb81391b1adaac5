//! The wake-up protocol and the pending flags under every interleaving and every reordering the memory model allows.
//! Built only with `--features loom`; a lost wake-up shows as a deadlock.
#![cfg(feature = "loom")]

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use ringwall::mailbox::{Doorbell, PendingReader, mailbox, mailbox_with, pending_flags};

/// Runs `scenario` under every schedule with at most three preemptions: more find nothing that these do not, in far
/// more time. Switches where a thread blocks are not counted.
fn model(scenario: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(scenario);
}

/// What the kernel does for a sleeper: a ring is kept until it is waited for.
#[derive(Default)]
struct Bed {
    rings: Mutex<usize>,
    rung: Condvar,
}

impl Bed {
    fn ring(&self) {
        *self.rings.lock().unwrap() += 1;
        self.rung.notify_one();
    }

    fn sleep(&self) {
        let mut rings = self.rings.lock().unwrap();
        while *rings == 0 {
            rings = self.rung.wait(rings).unwrap();
        }
        *rings -= 1;
    }
}

#[test]
fn a_receiver_that_went_to_sleep_is_woken_for_every_value() {
    model(|| {
        let (mut sender, mut receiver) = mailbox::<u32>(2);
        let bed = Arc::new(Bed::default());
        let theirs = Arc::clone(&bed);
        let producer = thread::spawn(move || {
            for value in 0..2 {
                sender.send(value).unwrap();
                if sender.needs_ring() {
                    theirs.ring();
                }
            }
        });
        for expected in 0..2 {
            let value = loop {
                if let Some(value) = receiver.receive() {
                    break value;
                }
                if receiver.going_to_sleep() {
                    bed.sleep();
                    receiver.awake();
                }
            };
            assert_eq!(value, expected);
        }
        producer.join().unwrap();
    });
}

#[test]
fn one_sleeper_on_two_rings_is_woken_by_either() {
    model(|| {
        let doorbell = Doorbell::new();
        let bed = Arc::new(Bed::default());
        let mut receivers = Vec::new();
        let mut producers = Vec::new();
        for _ in 0..2 {
            let (mut sender, receiver) = mailbox_with::<u32>(1, doorbell.clone());
            let theirs = Arc::clone(&bed);
            receivers.push(receiver);
            producers.push(thread::spawn(move || {
                sender.send(7).unwrap();
                if sender.needs_ring() {
                    theirs.ring();
                }
            }));
        }
        let mut received = 0;
        while received < 2 {
            received += receivers.iter_mut().filter_map(|receiver| receiver.receive()).count();
            if received == 2 {
                break;
            }
            doorbell.going_to_sleep();
            if receivers.iter().all(|receiver| receiver.is_empty()) {
                bed.sleep();
            }
            doorbell.awake();
        }
        for producer in producers {
            producer.join().unwrap();
        }
    });
}

#[test]
fn a_sleep_is_rung_at_most_once() {
    model(|| {
        let doorbell = Doorbell::new();
        doorbell.going_to_sleep();
        let ringers: Vec<_> = (0..2)
            .map(|_| {
                let doorbell = doorbell.clone();
                thread::spawn(move || usize::from(doorbell.needs_ring()))
            })
            .collect();
        let rings: usize = ringers.into_iter().map(|ringer| ringer.join().unwrap()).sum();
        assert_eq!(rings, 1);
    });
}

/// One round of the reader's duties on its own picture of two slots.
fn catch_up(reader: &mut PendingReader, picture: &mut [bool; 2]) {
    let resync = reader.take_resync();
    reader.drain(|hint| picture[hint.slot as usize] = hint.pending);
    if resync {
        *picture = [false; 2];
        reader.scan(|slot| picture[slot as usize] = true);
    }
}

#[test]
fn a_reader_that_lost_hints_ends_with_the_truth() {
    model(|| {
        // One hint fits, so any two transitions that the reader does not take in between lose one.
        let (mut publisher, mut reader) = pending_flags(2, 1);
        let shard = thread::spawn(move || {
            publisher.publish(0, true);
            publisher.flush();
            publisher.publish(0, false);
            publisher.flush();
            publisher.publish(1, true);
            publisher.flush();
        });
        let mut picture = [false; 2];
        catch_up(&mut reader, &mut picture);
        shard.join().unwrap();
        catch_up(&mut reader, &mut picture);
        assert_eq!(picture, [false, true]);
    });
}

#[test]
fn a_loss_is_seen_only_together_with_the_flags_it_stands_for() {
    model(|| {
        let (mut publisher, mut reader) = pending_flags(2, 1);
        let shard = thread::spawn(move || {
            publisher.publish(0, true);
            publisher.publish(1, true);
            publisher.flush();
        });
        while !reader.take_resync() {
            thread::yield_now();
        }
        let mut slots = Vec::new();
        reader.scan(|slot| slots.push(slot));
        assert_eq!(slots, [0, 1]);
        shard.join().unwrap();
    });
}
