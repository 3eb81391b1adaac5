//! The service manager's watchdog (`WatchdogSec=` of `systemd.service(5)`): it is told that the program is alive only
//! while every thread of the data plane answers. Where one does not, nothing is told, and the manager ends the program
//! and starts it anew.

use std::fmt;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::pulse::Pulse;

/// Questions within the time after which the manager loses its patience: a thread may be busy for three quarters of that.
const ASKED_WITHIN: u32 = 4;

/// How to ask the threads of the data plane for signs of life.
pub struct Heartbeat {
    /// One of each thread.
    pub pulses: Vec<Pulse>,
    /// Has each thread answer the ping of this number. May not wait.
    pub ask: Box<dyn Fn(u64)>,
}

impl fmt::Debug for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heartbeat").field("pulses", &self.pulses).finish_non_exhaustive()
    }
}

/// What came of a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// All threads are alive.
    Alive,
    /// These threads, by their names, have not answered; told once until they all answer again.
    Silent(String),
    /// As told before.
    StillSilent,
}

/// Asks, in time for the manager.
pub(super) struct Watchdog {
    /// `None` where no manager waits.
    ticks: Option<Interval>,
    asked: u64,
    silent: bool,
}

impl Watchdog {
    /// For a manager with this much patience. Must be called within the runtime.
    pub(super) fn new(patience: Option<Duration>) -> Self {
        let ticks = patience.map(|patience| {
            let mut ticks = interval((patience / ASKED_WITHIN).max(Duration::from_millis(1)));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        });
        Self { ticks, asked: 0, silent: false }
    }

    /// Waits until it is time to look for answers; for ever where no manager waits. May be given up at any moment.
    pub(super) async fn due(&mut self) {
        match &mut self.ticks {
            Some(ticks) => drop(ticks.tick().await),
            None => std::future::pending().await,
        }
    }

    /// Looks for the answers to the last question, and asks the next when all are there.
    pub(super) fn look(&mut self, heartbeat: &Heartbeat) -> Answer {
        let silent = heartbeat.pulses.iter().filter(|pulse| !pulse.has_answered(self.asked)).map(Pulse::thread);
        let silent = silent.collect::<Vec<_>>().join(", ");
        let was_silent = std::mem::replace(&mut self.silent, !silent.is_empty());
        if !silent.is_empty() {
            return if was_silent { Answer::StillSilent } else { Answer::Silent(silent) };
        }
        self.asked += 1;
        (heartbeat.ask)(self.asked);
        Answer::Alive
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn who_does_not_answer_is_named_once_and_asked_no_more() {
        let pulses = vec![Pulse::new("shard-0"), Pulse::new("shard-1"), Pulse::new("dispatcher")];
        let asked = Rc::new(Cell::new(0));
        let asks = Rc::clone(&asked);
        let heartbeat = Heartbeat { pulses: pulses.clone(), ask: Box::new(move |number| asks.set(number)) };
        let mut watchdog = Watchdog::new(None);
        assert_eq!((watchdog.look(&heartbeat), asked.get()), (Answer::Alive, 1));
        pulses[1].ping(1).answer();
        assert_eq!(watchdog.look(&heartbeat), Answer::Silent("shard-0, dispatcher".to_owned()));
        pulses[2].ping(1).answer();
        assert_eq!((watchdog.look(&heartbeat), asked.get()), (Answer::StillSilent, 1));
        pulses[0].ping(1).answer();
        assert_eq!((watchdog.look(&heartbeat), asked.get()), (Answer::Alive, 2));
        pulses[0].end();
        pulses[1].end();
        pulses[2].end();
        assert_eq!((watchdog.look(&heartbeat), asked.get()), (Answer::Alive, 3));
    }
}
