//! The way to the dispatcher: a mailbox that several threads send to, and the socket that wakes it.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use crate::dispatcher::Command;
use crate::mailbox::Sender;

/// Commands that may wait for the dispatcher, which takes all of them a turn: about servers, and the reserve.
pub(super) const COMMANDS: usize = 256 + COMMANDS_RESERVED;

/// Room that commands about servers leave: at most one renewal and one ping at a time, a drain, a stop and the end.
const COMMANDS_RESERVED: usize = 5;

/// The way to the dispatcher; any thread may use it.
#[derive(Clone, Debug)]
pub struct Commands(Arc<(Mutex<Sender<Command>>, UnixStream)>);

impl Commands {
    /// `wake` is a stream socket that the dispatcher reads from.
    pub(super) fn new(sender: Sender<Command>, wake: UnixStream) -> Self {
        Self(Arc::new((Mutex::new(sender), wake)))
    }

    /// Gives the dispatcher a command and wakes it.
    ///
    /// # Errors
    /// Gives the command back when there is no room for it.
    pub fn send(&self, command: Command) -> Result<(), Command> {
        let (sender, mut wake) = (&self.0.0, &self.0.1);
        let mut sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
        sender.send(command)?;
        // One byte into a socket that holds thousands: it fails only when the dispatcher is gone.
        let _ = wake.write(&[1]);
        Ok(())
    }

    /// As [`Commands::send`], leaving the room that is kept for the commands of which each must find some.
    ///
    /// # Errors
    /// Gives the command back when there is no other room.
    pub(super) fn send_in_turn(&self, command: Command) -> Result<(), Command> {
        let room = self.0.0.lock().unwrap_or_else(PoisonError::into_inner).room();
        if room > COMMANDS_RESERVED { self.send(command) } else { Err(command) }
    }
}
