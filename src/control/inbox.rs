//! The control plane's side of the event channels: takes what came, and sleeps while nothing does.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

use crate::events::{Event, EventReceiver};
use crate::mailbox::Doorbell;

/// Events taken in one go, so that signals are looked at in between.
const BATCH_MAX: usize = 1_024;

/// How long events may lie before they are looked at, behind others: a wake-up costs the shard that causes it more than
/// its event does, and in this time a channel is not nearly full.
const REST: Duration = Duration::from_millis(5);

/// All event channels, with the doorbell they share and the eventfd by which a sleeper is woken.
pub(super) struct Inbox {
    channels: Vec<EventReceiver>,
    doorbell: Doorbell,
    wake: AsyncFd<File>,
    dropped_seen: u64,
    /// Until then nobody is woken for events.
    resting_until: Instant,
}

impl Inbox {
    /// `wake` is a non-blocking eventfd. Must be called within the runtime.
    #[expect(deprecated, reason = "the successor is unsafe, for types that change their descriptor; a File never does")]
    pub(super) fn new(channels: Vec<EventReceiver>, doorbell: Doorbell, wake: OwnedFd) -> io::Result<Self> {
        let wake = AsyncFd::new(File::from(wake))?;
        Ok(Self { channels, doorbell, wake, dropped_seen: 0, resting_until: Instant::now() })
    }

    /// Waits until an event is there. May be given up at any moment: a doorbell left announcing a sleep costs its
    /// ringer one needless ring.
    pub(super) async fn ready(&self) -> io::Result<()> {
        sleep_until(self.resting_until).await;
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
                if taken < BATCH_MAX {
                    self.resting_until = Instant::now() + REST;
                }
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use tokio::runtime;
    use tokio::time::timeout;

    use super::*;
    use crate::events::events;
    use crate::io::{Fd, sys};

    #[test]
    fn for_a_while_behind_an_event_the_next_ones_wake_nobody_and_are_seen_all_the_same() {
        let runtime =
            runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
        runtime.block_on(async {
            let (doorbell, wake) = (Doorbell::new(), sys::eventfd().expect("an eventfd"));
            let woken_by = Fd(wake.as_raw_fd());
            let (mut sender, receiver) = events(8, doorbell.clone(), woken_by);
            let mut inbox = Inbox::new(vec![receiver], doorbell, wake).expect("an eventfd can be waited for");
            sender.send(Event::Draining);
            inbox.ready().await.expect("an event");
            assert_eq!(inbox.take_batch(|_| ()), 1);

            let millis = Duration::from_millis;
            assert!(timeout(millis(4), inbox.ready()).await.is_err());
            sender.send(Event::Draining);
            assert_eq!(sender.wake_due(), None);
            assert!(timeout(millis(2), inbox.ready()).await.is_ok());
            assert_eq!(inbox.take_batch(|_| ()), 1);

            assert!(timeout(millis(6), inbox.ready()).await.is_err());
            sender.send(Event::Draining);
            assert_eq!(sender.wake_due(), Some(woken_by));
        });
    }
}
