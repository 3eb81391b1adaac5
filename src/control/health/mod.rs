//! Health checks, and who Sentinels say is the primary.
//!
//! One thread with its own runtime makes all checks, so they neither delay signals nor wait for the log. It tells shards
//! through [`Rosters`] alone: a server's standing, which decides about new sessions, and the dismissal of the sessions of
//! a server that has lost its role. What it finds out is in [`Status`], and each change of it a line of the log.
//!
//! ```text
//!                  replies              outcomes           standings, dismissals
//!   server ─ link ────────► dialog ──────────────► judge ─────────────────────────► rosters ──► shards
//!                                                                                      ▲
//!   Sentinels ─ watcher ──► knowledge ──► follower ────────────────────────────────────┘
//!                  answers             belief               another roster
//! ```
//!
//! What decides is pure: `answer` and `dialog` say what a check means, `judge` what follows for the server, `sentinel` and
//! `knowledge` who is the primary. The rest moves bytes and keeps the time.
//!
//! Invariants: a failed or late answer never ends a session that is there; a definite one about the role does at once
//! (unless it is configured not to); where a role is wanted, no server gets sessions before it has told it. Each wait has
//! a deadline, and each reply a bound. No password is in a line, a status or an error.
//!
//! Read `tests/blackbox/health.rs` and `tests/blackbox/sentinels.rs` first.

mod account;
mod answer;
mod checker;
mod dialog;
mod follower;
mod jitter;
mod judge;
mod knowledge;
mod link;
mod news;
mod plan;
mod scope;
mod sentinel;
mod status;
mod watcher;

use std::io;
use std::sync::Arc;
use std::thread;

use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};

pub use self::answer::{ServerRole, login_problem};
pub use self::judge::State;
pub use self::knowledge::Contact;
pub use self::plan::{BackendPlan, Plan, SentinelPlan};
pub use self::sentinel::{Whereabouts, named_primary};
pub use self::status::{BackendStatus, CheckResult, SentinelStatus, ServerStatus, Status};

use self::account::Account;
use self::checker::Checker;
use self::follower::Follower;
use self::news::{News, NewsDesk, NewsFeed, news};
use self::scope::Scope;
use super::Rosters;
use crate::io::sys;
use crate::roster::{Member, Standing};

/// The control plane's hold on the thread that checks. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Health {
    feed: Option<NewsFeed>,
    _stop: oneshot::Sender<()>,
}

impl Health {
    /// Starts the thread, if there is something to check.
    pub(super) fn start(plan: Plan, rosters: &Arc<Rosters>) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        if plan.backends.is_empty() {
            return Ok(Self { feed: None, _stop: stop });
        }
        let (desk, feed) = news();
        let rosters = Arc::clone(rosters);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("health".to_owned()).spawn(move || {
            runtime.block_on(async {
                let _checks = start_checks(plan, &rosters, &desk);
                // Dropped or told, it is the end.
                let _ = stopped.await;
            });
            // Whoever looks a name up on another thread is not waited for.
            runtime.shutdown_background();
        })?;
        Ok(Self { feed: Some(feed), _stop: stop })
    }

    /// What changes next; for ever nothing where nothing is checked. May be given up at any moment.
    pub(super) async fn news(&mut self) -> News {
        if let Some(feed) = &mut self.feed
            && let Some(news) = feed.next().await
        {
            return news;
        }
        std::future::pending().await
    }

    /// How many news were dropped since this was last asked.
    pub(super) fn take_dropped(&self) -> u64 {
        self.feed.as_ref().map_or(0, NewsFeed::take_dropped)
    }
}

/// Starts the tasks of every backend; they end when what is returned is dropped.
fn start_checks(plan: Plan, rosters: &Arc<Rosters>, news: &NewsDesk) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for (slot, mut plan_of_backend) in plan.backends.into_iter().enumerate() {
        let sentinel = plan_of_backend.sentinel.take();
        let scope = Arc::new(Scope {
            account: Arc::new(Account::new(plan_of_backend.check.login.clone(), plan_of_backend.password.take())),
            primary_name: sentinel.as_ref().map(|plan| plan.sentinel.name.clone()),
            plan: plan_of_backend,
            slot,
            status: Arc::clone(&plan.status),
            rosters: Arc::clone(rosters),
            news: news.clone(),
        });
        match sentinel {
            Some(sentinel) => {
                tasks.spawn(Follower::new(scope, sentinel.sentinel.addresses.len()).run(sentinel));
            }
            None => {
                tasks.spawn(check_roster(scope));
            }
        }
    }
    tasks
}

/// Checks each server of a roster while it is in there.
async fn check_roster(scope: Arc<Scope>) {
    let mut exchanges = scope.rosters.exchanges();
    let mut tasks = JoinSet::new();
    let mut checked: Vec<(Arc<Member>, AbortHandle)> = Vec::new();
    loop {
        // Before it is read, so that none is missed.
        exchanges.mark_unchanged();
        let roster = scope.rosters.roster(scope.plan.backend);
        let mut before = std::mem::take(&mut checked);
        for member in roster.iter() {
            let known = before.iter().position(|(known, _)| Arc::ptr_eq(known, member));
            checked.push(known.map(|at| before.swap_remove(at)).unwrap_or_else(|| {
                // One that has joined, such as by another answer to its host's name.
                if member.standing() == Standing::Up {
                    BackendPlan::hold_back(scope.check(), member);
                }
                let checker = Checker::new(Arc::clone(&scope), Arc::clone(member));
                (Arc::clone(member), tasks.spawn(checker.run()))
            }));
        }
        for (_, left) in before {
            left.abort();
        }
        scope.change_status(|backend| backend.set_servers(&roster, sys::now()));
        if exchanges.changed().await.is_err() {
            return;
        }
        // Those that were told to end.
        while tasks.try_join_next().is_some() {}
    }
}
