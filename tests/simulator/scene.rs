//! What there is to see of a run that has failed: for whoever replays it.

use std::fmt;

use crate::backend::Backend;
use crate::client::Client;
use crate::run::Run;
use crate::simulation::Witness;

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:#?}", self.plan)?;
        writeln!(f, "at {:?}; drained {:?}, stopped {}", self.sim.now(), self.drained, self.stopped)?;
        for shard in &self.process.shards {
            let (driver, wakes) = (shard.driver, self.sim.wakes_at(shard.driver));
            writeln!(f, "\n{driver:?}, wakes at {wakes:?}: {:#?}", shard.body)?;
        }
        writeln!(f, "\ndispatcher: {:?}\n", self.process.dispatcher.body)?;
        self.clients.iter().try_for_each(|client| writeln!(f, "{client}\n"))?;
        self.backends.iter().try_for_each(|backend| writeln!(f, "{backend}\n"))?;
        self.control.closed.iter().try_for_each(|(at, record)| writeln!(f, "{at:?}: {record:?}"))
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, script, sent, received, heard, error, left, end, .. } = self;
        writeln!(f, "client {number} ({:?}), {script:?}", self.address)?;
        writeln!(f, "  said {} and sent {sent}, heard {heard:?} and received {received}", self.said())?;
        writeln!(f, "  was told {:?}; left {left:?}, saw {end:?}", String::from_utf8_lossy(error))?;
        let (shook_hands, said, heard) = (self.shook_hands, self.goodbye_said, self.goodbye_heard);
        write!(f, "  shook hands {shook_hands}, said goodbye {said}, heard it {heard}; {}", self.witness)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, server, script, said, heard, left, end, .. } = self;
        writeln!(f, "server connection {number} of server {server} (port {:?}), {script:?}", self.port)?;
        write!(f, "  said {said}, heard {heard:?}; left {left:?}, saw {end:?}; {}", self.witness)
    }
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "held {}, arrived {}, unread {}", self.is_held(), self.arrived(), self.unread())?;
        write!(f, ", sent FIN {} reset {}", self.has_shut(), self.has_cut())?;
        write!(f, ", got FIN {} reset {}", self.has_ended(), self.was_cut())
    }
}
