//! What health checks have found out: plain data that any thread may read at any time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::answer::ServerRole;
use super::dialog::Outcome;
use super::judge::State;
use super::knowledge::Contact;
use super::sentinel::Whereabouts;
use crate::roster::{BackendId, Member};
use crate::time::Time;

/// One backend that is checked.
#[derive(Clone, Debug)]
pub struct BackendStatus {
    /// Which.
    pub backend: BackendId,
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// What its Sentinels say, where it has some.
    pub sentinel: Option<SentinelStatus>,
    /// The servers that it has now.
    pub servers: Vec<ServerStatus>,
}

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// The server has answered.
    Answered,
    /// It lives, and could not say what it was asked: it loads, is busy, or wants another password.
    Excused,
    /// It has not answered, or not as a server.
    Failed,
}

impl CheckResult {
    /// The word for it in logs and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Excused => "excused",
            Self::Failed => "failed",
        }
    }
}

impl From<&Outcome> for CheckResult {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Answered(_) => Self::Answered,
            Outcome::Excused(_) => Self::Excused,
            Outcome::Failed(_) => Self::Failed,
        }
    }
}

/// One server.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    /// Which it is; its standing also tells of what is not for checks to say, such as that an operator has drained it.
    pub member: Arc<Member>,
    /// What checks have come to.
    pub state: State,
    /// When the state became this.
    pub since: Time,
    /// The role that it last told, where that is asked.
    pub role: Option<ServerRole>,
    /// When the last check ended, and what came of it; none was made yet without it.
    pub checked: Option<(Time, CheckResult)>,
    /// How long the last check took.
    pub took: Duration,
    /// What was wrong in the last check, or why it stands as it does: one line without secrets.
    pub problem: Option<Box<str>>,
    /// Checks so far.
    pub checks: u64,
    /// Those of them that the server was excused from.
    pub checks_excused: u64,
    /// Those of them that failed.
    pub checks_failed: u64,
}

/// What the Sentinels of a backend say.
#[derive(Clone, Debug)]
pub struct SentinelStatus {
    /// What they call the primary.
    pub primary_name: Box<str>,
    /// Where it is, once one has told.
    pub primary: Option<Whereabouts>,
    /// The epoch of the configuration that says so.
    pub epoch: u64,
    /// How often another server was followed than the one before.
    pub switches: u64,
    /// What is wrong with all of them together: one line without secrets.
    pub problem: Option<Box<str>>,
    /// Each Sentinel's address as it is written, and how far it can be relied on.
    pub sentinels: Vec<(Box<str>, Contact)>,
}

/// All backends that are checked, in the configuration's order.
#[derive(Debug, Default)]
pub struct Status(Mutex<Vec<BackendStatus>>);

impl Status {
    /// Tells of these backends from now on. What is known of servers that were known before is kept, and of Sentinels where
    /// they call the primary the same.
    pub(super) fn follow(&self, backends: Vec<BackendStatus>) {
        let mut known = self.lock();
        let before = std::mem::replace(&mut *known, backends);
        for old in before {
            let Some(new) = known.iter_mut().find(|new| new.backend == old.backend) else { continue };
            new.servers = old.servers;
            if let (Some(new), Some(old)) = (&mut new.sentinel, old.sentinel)
                && new.primary_name == old.primary_name
            {
                let names =
                    |status: &SentinelStatus| status.sentinels.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
                let asked = if names(new) == names(&old) { old.sentinels.clone() } else { new.sentinels.clone() };
                *new = SentinelStatus { sentinels: asked, ..old };
            }
        }
    }

    /// As it is at the moment.
    #[must_use]
    pub fn read(&self) -> Vec<BackendStatus> {
        self.lock().clone()
    }

    /// What checks of this server have come to, where there were some.
    pub(super) fn state(&self, backend: BackendId, member: &Member) -> Option<State> {
        self.lock().iter().find(|status| status.backend == backend)?.server(member).map(|server| server.state)
    }

    /// Changes what is known of a backend.
    pub(super) fn change(&self, backend: BackendId, change: impl FnOnce(&mut BackendStatus)) {
        if let Some(backend) = self.lock().iter_mut().find(|status| status.backend == backend) {
            change(backend);
        }
    }

    /// Each change is whole when it ends, and none of them panics.
    fn lock(&self) -> MutexGuard<'_, Vec<BackendStatus>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BackendStatus {
    /// Has these servers from `now` on: what is known of those that stay is kept.
    pub(super) fn set_servers(&mut self, members: &[Arc<Member>], now: Time) {
        let before = std::mem::take(&mut self.servers);
        let server = |member: &Arc<Member>| {
            let known = before.iter().find(|server| server.member.is_same_server(member)).cloned();
            known.map_or_else(
                || ServerStatus::unchecked(member, now),
                |known| ServerStatus { member: Arc::clone(member), ..known },
            )
        };
        self.servers = members.iter().map(server).collect();
    }

    /// What is known of this server.
    #[must_use]
    pub fn server(&self, member: &Member) -> Option<&ServerStatus> {
        self.servers.iter().find(|server| server.member.is_same_server(member))
    }

    pub(super) fn server_mut(&mut self, member: &Member) -> Option<&mut ServerStatus> {
        self.servers.iter_mut().find(|server| server.member.is_same_server(member))
    }
}

impl ServerStatus {
    fn unchecked(member: &Arc<Member>, now: Time) -> Self {
        Self {
            member: Arc::clone(member),
            state: State::Unknown,
            since: now,
            role: None,
            checked: None,
            took: Duration::ZERO,
            problem: None,
            checks: 0,
            checks_excused: 0,
            checks_failed: 0,
        }
    }
}
