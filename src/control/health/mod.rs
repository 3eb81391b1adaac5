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

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
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
    status: Arc<Status>,
    rosters: Arc<Rosters>,
    /// None while there was nothing to check yet.
    thread: Option<Thread>,
}

#[derive(Debug)]
struct Thread {
    plans: UnboundedSender<Vec<BackendPlan>>,
    feed: NewsFeed,
}

impl Health {
    /// Starts the thread, if there is something to check.
    pub(super) fn start(plan: Plan, rosters: &Arc<Rosters>) -> io::Result<Self> {
        let Plan { backends, status } = plan;
        let mut health = Self { status, rosters: Arc::clone(rosters), thread: None };
        health.follow(backends)?;
        Ok(health)
    }

    /// Checks these backends from now on. Those whose plan is the same are checked on, and those that were checked before
    /// begin with what is known of them.
    pub(super) fn follow(&mut self, backends: Vec<BackendPlan>) -> io::Result<()> {
        let thread = match &self.thread {
            Some(thread) => thread,
            None if backends.is_empty() => return Ok(()),
            None => self.thread.insert(Thread::start(&self.status, &self.rosters)?),
        };
        // It is there for as long as this is, unless it has panicked.
        let _ = thread.plans.send(backends);
        Ok(())
    }

    /// What changes next; for ever nothing where nothing is checked. May be given up at any moment.
    pub(super) async fn news(&mut self) -> News {
        if let Some(thread) = &mut self.thread
            && let Some(news) = thread.feed.next().await
        {
            return news;
        }
        std::future::pending().await
    }

    /// How many news were dropped since this was last asked.
    pub(super) fn take_dropped(&self) -> u64 {
        self.thread.as_ref().map_or(0, |thread| thread.feed.take_dropped())
    }
}

impl Thread {
    fn start(status: &Arc<Status>, rosters: &Arc<Rosters>) -> io::Result<Self> {
        let (plans, mut plans_there) = unbounded_channel();
        let (news, feed) = news();
        let mut checks = Checks { running: Vec::new(), status: Arc::clone(status), rosters: Arc::clone(rosters), news };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("health".to_owned()).spawn(move || {
            runtime.block_on(async {
                while let Some(plans) = plans_there.recv().await {
                    checks.follow(plans);
                }
            });
            drop(checks);
            // Whoever looks a name up on another thread is not waited for.
            runtime.shutdown_background();
        })?;
        Ok(Self { plans, feed })
    }
}

/// What the thread does.
struct Checks {
    /// Each backend that is checked, and its task, which ends when this is dropped.
    running: Vec<(Arc<Scope>, JoinSet<()>)>,
    status: Arc<Status>,
    rosters: Arc<Rosters>,
    news: NewsDesk,
}

impl Checks {
    fn follow(&mut self, plans: Vec<BackendPlan>) {
        self.status.follow(plans.iter().map(BackendPlan::unasked).collect());
        let mut before = std::mem::take(&mut self.running);
        for plan in plans {
            let same = before.iter().position(|(scope, _)| scope.plan.is_same(&plan));
            let running = same.map(|index| before.swap_remove(index)).unwrap_or_else(|| self.start(plan));
            self.running.push(running);
        }
    }

    fn start(&self, plan: BackendPlan) -> (Arc<Scope>, JoinSet<()>) {
        let sentinel = plan.sentinel.clone();
        let scope = Arc::new(Scope {
            account: Arc::new(Account::new(plan.check.login.clone(), plan.password.clone())),
            primary_name: sentinel.as_ref().map(|plan| plan.sentinel.name.clone()),
            plan,
            status: Arc::clone(&self.status),
            rosters: Arc::clone(&self.rosters),
            news: self.news.clone(),
        });
        let (mut task, scope_there) = (JoinSet::new(), Arc::clone(&scope));
        match sentinel {
            Some(sentinel) => {
                task.spawn(Follower::new(scope_there, sentinel.sentinel.addresses.len()).run(sentinel));
            }
            None => {
                task.spawn(check_roster(scope_there));
            }
        }
        (scope, task)
    }
}

/// Checks each server of a roster while it is in there.
async fn check_roster(scope: Arc<Scope>) {
    let mut exchanges = scope.rosters.exchanges();
    let mut tasks = JoinSet::new();
    let mut checked: Option<Vec<(Arc<Member>, AbortHandle)>> = None;
    loop {
        // Before it is read, so that none is missed.
        exchanges.mark_unchanged();
        let Some((roster, _)) = scope.rosters.roster(scope.plan.backend()) else { return };
        let is_first = checked.is_none();
        let mut before = checked.take().unwrap_or_default();
        let mut now_checked = Vec::new();
        for member in roster.iter() {
            let known = before.iter().position(|(known, _)| Arc::ptr_eq(known, member));
            now_checked.push(known.map(|at| before.swap_remove(at)).unwrap_or_else(|| {
                // One that has joined, such as by another answer to its host's name. Whoever made the plan has seen to the
                // first ones, and one that is described otherwise stands as it did.
                let is_new = !is_first && !before.iter().any(|(known, _)| known.is_same_server(member));
                if is_new && member.standing() == Standing::Up {
                    BackendPlan::hold_back(scope.check(), member);
                }
                let checker = Checker::new(Arc::clone(&scope), Arc::clone(member));
                (Arc::clone(member), tasks.spawn(checker.run()))
            }));
        }
        checked = Some(now_checked);
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
