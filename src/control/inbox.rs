//! The control plane's side of the event channels: takes what came, and sleeps while nothing does.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use tokio::io::unix::AsyncFd;

use crate::events::{Event, EventReceiver};
use crate::mailbox::Doorbell;

/// Events taken in one go, so that signals are looked at in between.
const BATCH_MAX: usize = 1_024;

/// All event channels, with the doorbell they share and the eventfd by which a sleeper is woken.
pub(super) struct Inbox {
    channels: Vec<EventReceiver>,
    doorbell: Doorbell,
    wake: AsyncFd<File>,
    dropped_seen: u64,
}

impl Inbox {
    /// `wake` is a non-blocking eventfd. Must be called within the runtime.
    #[expect(deprecated, reason = "the successor is unsafe, for types that change their descriptor; a File never does")]
    pub(super) fn new(channels: Vec<EventReceiver>, doorbell: Doorbell, wake: OwnedFd) -> io::Result<Self> {
        Ok(Self { channels, doorbell, wake: AsyncFd::new(File::from(wake))?, dropped_seen: 0 })
    }

    /// Waits until an event is there. May be given up at any moment: a doorbell left announcing a sleep costs its
    /// ringer one needless ring.
    pub(super) async fn ready(&self) -> io::Result<()> {
        loop {
            self.doorbell.going_to_sleep();
            if self.channels.iter().any(|channel| !channel.is_empty()) {
                self.doorbell.awake();
                return Ok(());
            }
            let mut readable = self.wake.readable().await?;
            let emptied = readable.try_io(|wake| wake.get_ref().read(&mut [0; 8]));
            if let Ok(Err(error)) = emptied {
                return Err(error);
            }
        }
    }

    /// Takes what is there, in turn from each channel, up to a batch; returns how many events that were.
    pub(super) fn take_batch(&mut self, mut each: impl FnMut(Event)) -> usize {
        let mut taken = 0;
        loop {
            let before = taken;
            for channel in &mut self.channels {
                if let Some(event) = channel.receive() {
                    each(event);
                    taken += 1;
                }
            }
            if taken == before || taken >= BATCH_MAX {
                return taken;
            }
        }
    }

    /// How many events were dropped since this was last asked.
    pub(super) fn take_dropped(&mut self) -> u64 {
        let dropped: u64 = self.channels.iter().map(EventReceiver::dropped).sum();
        dropped - std::mem::replace(&mut self.dropped_seen, dropped)
    }
}
