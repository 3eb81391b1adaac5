//! One backend's checks as all its tasks share them: what to do, and where what is found out goes.

use std::sync::Arc;
use std::time::Duration;

use super::account::Account;
use super::news::{News, NewsDesk};
use super::plan::BackendPlan;
use super::status::{BackendStatus, Status};
use crate::config::{HealthCheck, OnDemotion};
use crate::control::Rosters;
use crate::roster::Member;
use crate::shard::Dismissal;
use crate::tls::Connector;

/// The shortest quiet time of a session that is to leave a demoted server: as in the drain of the whole program.
const DRAIN_QUIET: Duration = Duration::from_millis(100);

/// What all tasks of one backend share.
#[derive(Debug)]
pub(super) struct Scope {
    pub(super) plan: BackendPlan,
    pub(super) account: Arc<Account>,
    /// What Sentinels call the primary, where they name it.
    pub(super) primary_name: Option<Box<str>>,
    pub(super) status: Arc<Status>,
    pub(super) rosters: Arc<Rosters>,
    pub(super) news: NewsDesk,
}

impl Scope {
    pub(super) const fn check(&self) -> &HealthCheck {
        &self.plan.check
    }

    pub(super) fn change_status(&self, change: impl FnOnce(&mut BackendStatus)) {
        self.status.change(self.plan.backend(), change);
    }

    pub(super) fn tell(&self, news: News) {
        self.news.tell(news);
    }

    /// The TLS of connections to a server.
    pub(super) fn connector(&self, member: &Member) -> Option<Connector> {
        self.plan.connector.as_ref().map(|connector| connector.towards(member.server_name.clone()))
    }

    /// What becomes of the sessions of a server that has lost its role, and the word for it in the log.
    pub(super) const fn dismissal(&self) -> Option<(Dismissal, &'static str)> {
        match self.plan.check.on_demotion {
            OnDemotion::Close => Some((Dismissal::Demoted, "close")),
            OnDemotion::Drain => Some((Dismissal::Drained { quiet: DRAIN_QUIET }, "drain")),
            OnDemotion::Keep => None,
        }
    }

    /// The word for what becomes of them.
    pub(super) fn sessions_word(&self) -> &'static str {
        self.dismissal().map_or("keep", |(_, word)| word)
    }

    /// Has no session stay at a server that has lost its role, unless they are to. `false` when it must be asked for again.
    pub(super) fn dismiss(&self, member: &Arc<Member>) -> bool {
        self.dismissal().is_none_or(|(dismissal, _)| self.rosters.dismiss(member, dismissal).is_ok())
    }
}
