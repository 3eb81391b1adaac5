//! What changes, as lines of the log. The thread that checks writes none itself: it hands them to the control plane.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tracing::field::display;
use tracing::{debug, error, info, warn};

use super::answer::ServerRole;
use super::judge::State;
use super::knowledge::Contact;
use super::status::CheckResult;
use crate::io::Address;

/// News that wait to be logged at most: a change of every server there may well be.
const NEWS_MAX: usize = 4_096;

/// One thing that has changed.
#[derive(Debug)]
pub(in crate::control) enum News {
    /// What checks say of a server.
    Server {
        /// The backend's name.
        backend: Arc<str>,
        /// The server's name.
        server: Box<str>,
        /// Where it is.
        address: Address,
        /// What checks have come to, which may be what it was.
        state: State,
        /// Whether that has changed.
        changed: bool,
        /// What came of the last check.
        result: CheckResult,
        /// The role that it has told.
        role: Option<ServerRole>,
        /// What is wrong.
        problem: Option<Box<str>>,
        /// What becomes of its sessions.
        sessions: Option<&'static str>,
    },
    /// How far a Sentinel can be relied on.
    Sentinel {
        /// The backend's name.
        backend: Arc<str>,
        /// The Sentinel's address as it is written.
        sentinel: Box<str>,
        /// How far.
        contact: Contact,
    },
    /// Another server is the primary.
    Primary {
        /// The backend's name.
        backend: Arc<str>,
        /// What Sentinels call it.
        name: Box<str>,
        /// Where it was, as far as that was known.
        from: Option<Box<str>>,
        /// Where it is.
        to: Box<str>,
        /// The epoch of the configuration that says so.
        epoch: u64,
        /// What becomes of the sessions of the one before.
        sessions: Option<&'static str>,
    },
    /// What is wrong with all Sentinels of a backend together, or that nothing is any more.
    Plight {
        /// The backend's name.
        backend: Arc<str>,
        /// What is wrong.
        problem: Option<Box<str>>,
        /// Whether a primary is known from before, which goes on being used.
        known: bool,
    },
}

impl News {
    /// Writes the line.
    pub(in crate::control) fn log(&self) {
        match self {
            Self::Server { state, changed, result, problem, .. } => {
                if *changed || problem.is_some() {
                    self.log_server(*state, *changed, *result);
                }
            }
            Self::Sentinel { backend, sentinel, contact } => match contact {
                Contact::Unasked => {}
                Contact::Answers => info!(target: "ringwall::health", %backend, %sentinel, "Sentinel answers"),
                Contact::UnknownName => {
                    warn!(target: "ringwall::health", %backend, %sentinel, "Sentinel knows no primary by this name");
                }
                Contact::Trouble(problem) => {
                    warn!(target: "ringwall::health", %backend, %sentinel, %problem, "Sentinel is of no use");
                }
            },
            Self::Primary { backend, name, from, to, epoch, sessions } => info!(
                target: "ringwall::health",
                %backend,
                primary = %name,
                from = from.as_deref(),
                to = &**to,
                epoch,
                sessions,
                "Sentinels name the primary"
            ),
            Self::Plight { backend, problem: Some(problem), known: false } => {
                error!(target: "ringwall::health", %backend, %problem, "Sentinels name no primary");
            }
            Self::Plight { backend, problem: Some(problem), known: true } => warn!(
                target: "ringwall::health",
                %backend,
                %problem,
                "Sentinels name no primary: the last one that they named is kept"
            ),
            Self::Plight { backend, problem: None, .. } => {
                info!(target: "ringwall::health", %backend, "Sentinels name a primary again");
            }
        }
    }

    fn log_server(&self, state: State, changed: bool, result: CheckResult) {
        let Self::Server { backend, server, address, role, problem, sessions, .. } = self else { return };
        let (role, problem) = (role.map(display), problem.as_deref());
        macro_rules! line {
            ($level:ident, $message:literal) => {
                $level!(
                    target: "ringwall::health",
                    %backend,
                    %server,
                    %address,
                    state = state.label(),
                    role,
                    problem,
                    sessions,
                    $message
                )
            };
        }
        match (state, changed) {
            (State::Up, true) => line!(info, "server is up"),
            (State::Down, true) => line!(warn, "server is down: it gets no new sessions"),
            (State::WrongRole, true) => line!(warn, "server has another role than its backend wants"),
            (State::Unknown, true) => line!(info, "server's role is not known yet: it gets no sessions"),
            (State::Down | State::WrongRole, false) => line!(debug, "server is as before"),
            (State::Up | State::Unknown, false) if result == CheckResult::Failed => {
                line!(warn, "server's check failed: it gets sessions until more fail in a row");
            }
            (State::Up | State::Unknown, false) => line!(warn, "server's check does not tell what it should"),
        }
    }
}

/// Where news go.
#[derive(Clone, Debug)]
pub(super) struct NewsDesk {
    sender: Sender<News>,
    dropped: Arc<AtomicU64>,
}

/// Where they come from.
#[derive(Debug)]
pub(super) struct NewsFeed {
    receiver: Receiver<News>,
    dropped: Arc<AtomicU64>,
}

/// Both ends of the way from the checks to the control plane.
pub(super) fn news() -> (NewsDesk, NewsFeed) {
    let (sender, receiver) = channel(NEWS_MAX);
    let dropped = Arc::<AtomicU64>::default();
    (NewsDesk { sender, dropped: Arc::clone(&dropped) }, NewsFeed { receiver, dropped })
}

impl NewsDesk {
    /// Hands over news, or drops and counts them where there is no room.
    pub(super) fn tell(&self, news: News) {
        if let Err(TrySendError::Full(_)) = self.sender.try_send(news) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl NewsFeed {
    /// The next news; none when there are no checks any more. May be given up at any moment.
    pub(super) async fn next(&mut self) -> Option<News> {
        self.receiver.recv().await
    }

    /// How many were dropped since this was last asked.
    pub(super) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}
