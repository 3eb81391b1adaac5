//! What signals order.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{Receiver, channel};

/// What a signal orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// End: after a drain the first time, at once the second time.
    Stop,
    /// Read the configuration and its files again.
    Reload,
    /// Go on logging in the file that has the log's name now.
    ReopenLog,
    /// Start the next version and leave everything to it.
    TakeOver,
}

/// Signals that wait to be obeyed at most; one more says nothing new.
const SIGNALS_MAX: usize = 8;

/// Receives SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 from now on. Must be called within the runtime.
///
/// # Errors
///
/// When a signal cannot be received.
pub(super) fn of_this_process() -> io::Result<Receiver<Signal>> {
    let (sender, receiver) = channel(SIGNALS_MAX);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut user_1 = signal(SignalKind::user_defined1())?;
    let mut user_2 = signal(SignalKind::user_defined2())?;
    tokio::spawn(async move {
        loop {
            let (came, signal) = tokio::select! {
                came = terminate.recv() => (came, Signal::Stop),
                came = interrupt.recv() => (came, Signal::Stop),
                came = hangup.recv() => (came, Signal::Reload),
                came = user_1.recv() => (came, Signal::ReopenLog),
                came = user_2.recv() => (came, Signal::TakeOver),
            };
            if came.is_none() || sender.send(signal).await.is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}
