//! The control plane: one ordinary thread beside the data plane.
//!
//! It obeys signals, tells the service manager, and writes the log of what the data plane tells it. It orders reloads,
//! the drain and the stop, and sees the data plane end. It never touches a session, and nothing here runs on a shard.
//!
//! Invariants: it never waits for whoever reads the log, so a signal is always obeyed; and it ends, whatever the data
//! plane does: an order that is not carried out in time is a failure.
//!
//! Read `tests/control_plane.rs` first.

pub mod admin;
mod following;
pub mod health;
mod in_force;
mod inbox;
mod journal;
mod log_output;
mod log_queue;
mod logging;
mod notify;
mod pacing;
mod places;
mod plane;
mod reload;
mod report;
mod resolve;
mod rosters;
mod signals;
mod standing;
mod takeover;
mod watch;
mod watchdog;

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, Sleep, sleep};
use tracing::{error, info, warn};

pub use self::in_force::{InForce, Running, RunningListener};
pub use self::log_output::{LogOutput, LogOutputError};
pub use self::logging::{LogFilter, LogFilterError, Logging};
pub use self::notify::Notifier;
pub use self::plane::{Ending, Orders, Plane};
pub use self::reload::{Cause, NotReloaded, Reload, Reloaded};
pub use self::report::tells_reached;
pub use self::rosters::{Hold, NotTaken, Rosters, Tenure, Wanted};
pub use self::signals::Signal;
pub use self::standing::ShownCertificate;
pub use self::takeover::{READY_WITHIN, Takeover, Tell};
pub use self::watchdog::Heartbeat;

use self::admin::{AdminDoor, Ties};
use self::health::Health;
use self::inbox::Inbox;
use self::pacing::Pacing;
use self::reload::{Progress, ReloadCounts, Reloads};
use self::resolve::Resolving;
use self::standing::{Phase, Standing};
use self::takeover::Takeovers;
use self::watchdog::{Answer, Watchdog};
use crate::config::show_duration;
use crate::files;
use crate::io::sys;
use crate::takeover::{News, Wish};

/// Changes by administrators that wait to be logged at most.
const CHANGES_MAX: usize = 64;
/// How long the data plane may take beyond the drain's deadline.
const DRAIN_GRACE: Duration = Duration::from_secs(5);
/// How long the data plane may take to stop at once.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Runs until the data plane has ended, obeying the signals of this process.
///
/// # Errors
///
/// When the runtime, the signals or the eventfd cannot be had; the data plane has been told to stop then.
pub fn run(plane: Plane<'_>) -> io::Result<Ending> {
    run_with(plane, signals::of_this_process)
}

/// As [`run`], obeying what comes over `signals` in place of the process's own.
///
/// # Errors
///
/// As of [`run`].
pub fn run_obeying(plane: Plane<'_>, signals: mpsc::Receiver<Signal>) -> io::Result<Ending> {
    run_with(plane, || Ok(signals))
}

fn run_with(mut plane: Plane<'_>, signals: impl FnOnce() -> io::Result<mpsc::Receiver<Signal>>) -> io::Result<Ending> {
    let ended = std::mem::replace(&mut plane.ended, oneshot::channel().1);
    let channels = std::mem::take(&mut plane.events);
    let reload = std::mem::replace(&mut plane.reload, Reload::idle());
    let checks = plane.checks.take();
    let admin = plane.admin.take();
    let standing = Standing::new(&plane.certificates);
    let supervised = tokio::runtime::Builder::new_current_thread().enable_all().build().and_then(|runtime| {
        runtime.block_on(async {
            let signals = signals()?;
            let inbox = Inbox::new(channels, plane.doorbell.clone(), plane.wake.try_clone()?)?;
            let reloads = Reloads::start(reload)?;
            let resolving = Resolving::start(&plane.in_force.read().config, &plane.machine, &plane.rosters)?;
            let watchdog = Watchdog::new(plane.notifier.patience());
            // From here on the signals of whoever commands the service are obeyed.
            let wish = match plane.takeover.succeed() {
                Ok(wish) => wish,
                Err(failure) => {
                    (plane.orders.stop)();
                    let ending = Ending { failure: Some(failure), ..Ending::default() };
                    return Ok((ending, reloads.counts));
                }
            };
            if wish == Wish::Reload {
                reloads.request();
            }
            let (changes, changes_there) = mpsc::channel(CHANGES_MAX);
            let ties = Ties {
                standing: standing.clone(),
                log_levels: plane.logging.levels(),
                reloads: reloads.requests(),
                changes,
            };
            // The socket is there until the end.
            let admin = admin.map(|admin| admin.start(ties)).transpose()?;
            plane.log_start();
            let health = Health::start(checks, &plane.rosters)?;
            let supervisor = Supervisor {
                plane: &plane,
                inbox,
                reloads,
                resolving,
                health,
                watchdog,
                changes: changes_there,
                pacing: Pacing::new(&plane.in_force.read().config.log),
                standing,
                admin,
                takeovers: Takeovers::new(),
                phase: Phase::Serving,
                dropped: 0,
            };
            supervisor.run(signals, ended).await
        })
    });
    match supervised {
        Ok((ending, reloads)) => {
            plane.log_end(&ending, reloads);
            Ok(ending)
        }
        Err(error) => {
            (plane.orders.stop)();
            Err(error)
        }
    }
}

struct Supervisor<'p, 'a> {
    plane: &'p Plane<'a>,
    inbox: Inbox,
    reloads: Reloads,
    resolving: Resolving,
    health: Health,
    watchdog: Watchdog,
    changes: mpsc::Receiver<String>,
    pacing: Pacing,
    standing: Standing,
    admin: Option<AdminDoor>,
    takeovers: Takeovers,
    phase: Phase,
    /// Log records dropped and not yet told.
    dropped: u64,
}

impl Supervisor<'_, '_> {
    async fn run(
        mut self,
        mut signals: mpsc::Receiver<Signal>,
        mut ended: oneshot::Receiver<Ending>,
    ) -> io::Result<(Ending, ReloadCounts)> {
        let overdue = sleep(Duration::MAX);
        tokio::pin!(overdue);
        let ending = loop {
            tokio::select! {
                // Signals first: they are obeyed however much there is to log.
                biased;
                Some(signal) = signals.recv() => {
                    if let Some(due) = self.obey(signal) {
                        Sleep::reset(overdue.as_mut(), Instant::now() + due);
                    }
                }
                ending = &mut ended => break ending.unwrap_or_else(|_| Ending {
                    failure: Some("the data plane ended without saying why".to_owned()),
                    ..Ending::default()
                }),
                () = &mut overdue => break Ending {
                    failure: Some("the data plane has not ended in time".to_owned()),
                    ..Ending::default()
                },
                Some(progress) = self.reloads.progress() => self.tell_reload(progress),
                // After reloads: what they have changed decides about it.
                Some(news) = self.takeovers.news() => {
                    if let Some(due) = self.hear_of_takeover(news) {
                        Sleep::reset(overdue.as_mut(), Instant::now() + due);
                    }
                }
                () = self.watchdog.due() => self.tell_alive(),
                news = self.resolving.news() => report::log_resolved(&news),
                news = self.health.news() => news.log(),
                Some(change) = self.changes.recv() => {
                    info!(target: "ringwall::control", %change, "changed by an administrator");
                }
                ready = self.inbox.ready() => {
                    ready?;
                    self.log_batch();
                }
                () = self.plane.logging.queue().news() => {}
                () = pacing::until(self.pacing.due()) => {}
            }
            self.log_reopened();
            self.log_dropped();
        };
        while self.log_batch() > 0 {}
        self.log_dropped();
        Ok((ending, self.reloads.counts))
    }

    /// Passes an order on; returns how long the data plane has to end, when that was the order.
    fn obey(&mut self, signal: Signal) -> Option<Duration> {
        let orders = &self.plane.orders;
        match (signal, self.phase) {
            (Signal::Reload, Phase::Serving) => {
                self.reloads.request();
                None
            }
            (Signal::Reload, Phase::Draining | Phase::Stopping) => {
                info!(target: "ringwall::control", "not reloading while sessions end");
                None
            }
            (Signal::ReopenLog, _) => {
                self.plane.logging.queue().reopen();
                None
            }
            (Signal::TakeOver, Phase::Serving) => {
                self.begin_takeover();
                None
            }
            (Signal::TakeOver, Phase::Draining | Phase::Stopping) => {
                info!(target: "ringwall::control", "not taken over while sessions end");
                None
            }
            (Signal::Stop, Phase::Serving) => {
                if self.takeovers.call_off() {
                    info!(target: "ringwall::control", "the takeover is called off: this process is to end");
                }
                Some(self.drain())
            }
            (Signal::Stop, Phase::Draining | Phase::Stopping) => {
                self.enter(Phase::Stopping);
                info!(target: "ringwall::control", "stopping at once");
                (orders.stop)();
                Some(STOP_GRACE)
            }
        }
    }

    /// Says whether the log goes on in another file, when it was to.
    fn log_reopened(&self) {
        match self.plane.logging.queue().take_reopened() {
            None => {}
            Some(Ok(())) => info!(target: "ringwall::control", "log file reopened"),
            Some(Err(error)) => error!(
                target: "ringwall::control",
                %error,
                "log file cannot be reopened: the one that was open stays in use"
            ),
        }
    }

    /// Has the data plane drain; returns how long it has to end.
    fn drain(&mut self) -> Duration {
        self.enter(Phase::Draining);
        let Plane { in_force, orders, notifier, .. } = self.plane;
        let deadline = in_force.read().config.limits.shutdown_timeout;
        let shown = show_duration(deadline);
        info!(target: "ringwall::control", deadline = %shown, "draining; a second signal ends at once");
        notifier.stopping(&format!("draining, at most {shown}"));
        (orders.drain)(deadline);
        deadline + DRAIN_GRACE
    }

    fn begin_takeover(&mut self) {
        if self.takeovers.is_under_way() {
            info!(target: "ringwall::control", "a takeover is under way already");
            return;
        }
        match self.takeovers.begin(&self.plane.takeover) {
            Ok(()) => {
                info!(target: "ringwall::control", within = %show_duration(READY_WITHIN), "starting the next version");
                self.plane.notifier.status(&format!("{}; the next version starts", self.plane.status()));
            }
            Err(why) => self.tell_takeover_failed(&why),
        }
    }

    /// Leaves everything to the next version once that is ready; returns how long the data plane has to end then.
    fn hear_of_takeover(&mut self, news: News) -> Option<Duration> {
        match news {
            News::Ready { pid, admin } if self.takeovers.is_under_way() => {
                let notifier = &self.plane.notifier;
                // The manager listens to the main process alone, so the next one is that before it says that it is ready.
                notifier.main_process(pid);
                if let Err(error) = self.takeovers.bequeath() {
                    notifier.main_process(std::process::id());
                    self.tell_takeover_failed(&format!("it has just ended: {error}"));
                    return None;
                }
                notifier.fall_silent();
                info!(target: "ringwall::control", pid, "taken over: the next version serves");
                if let Some(door) = self.admin.as_mut().filter(|_| admin) {
                    door.leave();
                }
                Some(self.drain())
            }
            News::Failed(why) if self.takeovers.call_off() => {
                self.tell_takeover_failed(&why);
                None
            }
            // Of one that was called off.
            News::Ready { .. } | News::Failed(_) | News::CalledOff => None,
        }
    }

    fn tell_takeover_failed(&self, why: &str) {
        error!(target: "ringwall::control", %why, "takeover failed; this process goes on serving");
        let why = why.replace('\n', " ");
        self.plane.notifier.status(&format!("{}, as before: takeover failed: {why}", self.plane.status()));
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.standing.update(|state| state.phase = phase);
    }

    /// Says how a reload goes. A drain is the last that the service manager wants to hear of.
    fn tell_reload(&mut self, progress: Progress) {
        let serving = self.phase == Phase::Serving;
        let notifier = &self.plane.notifier;
        match progress {
            Progress::Started if serving => notifier.reloading(sys::now()),
            Progress::Started => {}
            Progress::Unwatched(place) => report::log_unwatched(&place),
            Progress::Finished(cause, result) => {
                let result = result.map(|mut reloaded| {
                    self.follow(&mut reloaded);
                    reloaded
                });
                // The line obeys the level that it tells of.
                report::log_reload(cause, &result, self.reloads.counts);
                self.takeovers.note_reload();
                if cause == Cause::Tickets && result.is_ok() && self.takeovers.call_off() {
                    self.tell_takeover_failed("ticket keys were rotated, and it has those of before; order it again");
                }
                self.standing.update(|state| {
                    state.reloads = self.reloads.counts;
                    state.reload_failed = result.is_err();
                    if let Ok(reloaded) = &result {
                        state.certificates = reloaded.certificates.as_slice().into();
                    }
                });
                if serving {
                    let status = self.plane.status();
                    notifier.ready(&match result {
                        Ok(_) => format!("{status}; reloaded"),
                        Err(error) => format!("{status}, as before: reload failed: {error}"),
                    });
                }
            }
        }
    }

    /// Tells the service manager that the program is alive, if it is.
    fn tell_alive(&mut self) {
        match self.watchdog.look(&self.plane.heartbeat) {
            Answer::Alive => self.plane.notifier.alive(),
            Answer::Silent(threads) => error!(
                target: "ringwall::control",
                %threads,
                "threads make no progress: the service manager's watchdog is told nothing until they do"
            ),
            Answer::StillSilent => {}
        }
    }

    fn log_batch(&mut self) -> usize {
        let running = self.plane.in_force.read();
        let (pacing, now) = (&mut self.pacing, sys::now());
        self.inbox.take_batch(|event| {
            if pacing.admits(&event, now) {
                report::log_event(&running.config.log, &event);
            }
        })
    }

    /// Says how many records never became a line, once it can be said.
    fn log_dropped(&mut self) {
        if let Some(sessions) = self.pacing.take_left_out(sys::now()) {
            report::log_left_out(sessions);
        }
        if let Some(requests) = self.pacing.take_slow_left_out(sys::now()) {
            report::log_slow_left_out(requests);
        }
        let queue = self.plane.logging.queue();
        let dropped = self.inbox.take_dropped() + self.health.take_dropped() + queue.take_dropped();
        if dropped > 0 {
            self.dropped += dropped;
            self.standing.update(|state| state.records_dropped += dropped);
        }
        if self.dropped > 0 && queue.can_tell() {
            warn!(target: "ringwall::control", dropped = self.dropped, "{} log records dropped", self.dropped);
            self.dropped = 0;
        }
    }
}

/// The release of the running kernel; nothing where it cannot be read.
#[must_use]
pub fn kernel_release() -> Box<str> {
    let kernel = files::read(Path::new("/proc/sys/kernel/osrelease"), 1_024);
    kernel.map(|kernel| String::from_utf8_lossy(&kernel.bytes).trim().into()).unwrap_or_default()
}
