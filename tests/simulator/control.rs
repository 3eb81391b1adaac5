//! The control plane, as far as the data plane sees it: it gives commands and takes events.

use std::sync::Arc;
use std::time::Duration;

use ringwall::dispatcher::Command;
use ringwall::events::{CloseRecord, Event, EventReceiver};
use ringwall::io::Fd;
use ringwall::ledger::Ledger;
use ringwall::mailbox::{Doorbell, Sender};
use ringwall::time::Time;

use crate::simulation::{Peer, Sim};
use crate::trace::Trace;

/// What takes longer is worth a line in the log.
const STALL: Duration = Duration::from_secs(5);

pub(crate) struct Control {
    sim: Sim,
    events: Vec<EventReceiver>,
    doorbell: Doorbell,
    wake: Fd,
    awake: bool,
    commands: Sender<Command>,
    line: Peer,
    /// The log, and when each line came.
    pub(crate) closed: Vec<(Time, CloseRecord)>,
    pub(crate) drainings: u32,
    /// Listeners whose accepting was said to be paused and not to have gone on.
    paused: Vec<Arc<Ledger>>,
    /// Clients that were said to be told of a limit.
    pub(crate) refused: u64,
}

impl Control {
    pub(crate) const fn new(
        sim: Sim,
        events: Vec<EventReceiver>,
        doorbell: Doorbell,
        wake: Fd,
        commands: Sender<Command>,
        line: Peer,
    ) -> Self {
        Self {
            sim,
            events,
            doorbell,
            wake,
            awake: true,
            commands,
            line,
            closed: Vec::new(),
            drainings: 0,
            paused: Vec::new(),
            refused: 0,
        }
    }

    /// Gives the dispatcher a command and wakes it.
    pub(crate) fn command(&mut self, command: Command) {
        self.commands.send(command).expect("few commands");
        let written = self.line.write(&[1]);
        assert_eq!(written, Ok(1), "the dispatcher does not read its wake-up line");
    }

    /// A thread has ended, which wakes the control plane by another way.
    pub(crate) const fn wake(&mut self) {
        self.awake = true;
    }

    pub(crate) fn is_awake(&mut self) -> bool {
        self.awake |= self.sim.take_events(self.wake) > 0;
        self.awake
    }

    /// Takes what is there and goes to sleep, unless something has come meanwhile.
    pub(crate) fn turn(&mut self, trace: &mut Trace) {
        for index in 0..self.events.len() {
            while let Some(event) = self.events[index].receive() {
                self.note(event, trace);
            }
        }
        self.doorbell.going_to_sleep();
        self.awake = !self.has_taken_all();
    }

    fn note(&mut self, event: Event, trace: &mut Trace) {
        match event {
            Event::Closed(record) => {
                trace.note(&[
                    record.client_received_bytes,
                    record.client_sent_bytes,
                    record.server_received_bytes,
                    record.server_sent_bytes,
                    record.reason.len() as u64,
                ]);
                self.closed.push((self.sim.now(), *record));
            }
            Event::AcceptPaused { listener, .. } => {
                let known = self.paused.contains(&listener);
                assert!(!known || self.dropped() > 0, "told twice that {} is paused", listener.name());
                self.paused.push(listener);
            }
            Event::AcceptResumed { listener } => {
                let known = self.paused.contains(&listener);
                assert!(known || self.dropped() > 0, "{} goes on and was not paused", listener.name());
                self.paused.retain(|paused| *paused != listener);
            }
            Event::Reached { .. } => {}
            Event::Denied { refused, closed, .. } => {
                assert!(refused + closed > 0, "told of nobody");
                self.refused += refused;
            }
            Event::Draining => self.drainings += 1,
            Event::Slow(_) | Event::SlowLeftOut { .. } => panic!("no listener here wants to be told: {event:?}"),
            // The order of these is not the program's: the pending list is a hash map.
            Event::Stalled { pending, .. } => assert!(pending >= STALL, "stalled after {pending:?}"),
        }
    }

    pub(crate) fn has_taken_all(&self) -> bool {
        self.events.iter().all(EventReceiver::is_empty)
    }

    /// Events lost because the log was slow.
    pub(crate) fn dropped(&self) -> u64 {
        self.events.iter().map(EventReceiver::dropped).sum()
    }
}
