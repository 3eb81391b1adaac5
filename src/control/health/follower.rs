//! Has a backend's sessions go to the server that its Sentinels name, once that server says itself that it is the primary.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::{JoinSet, spawn};
use tokio::time::timeout;

use super::account::Account;
use super::checker::Checker;
use super::knowledge::{Belief, Contact, Knowledge};
use super::news::News;
use super::plan::{BackendPlan, SentinelPlan};
use super::scope::Scope;
use super::sentinel::Whereabouts;
use super::watcher::{Report, Watcher};
use crate::io::{Address, sys};
use crate::roster::Member;

/// Reports that wait at most; whoever has one more waits with it.
const REPORTS_MAX: usize = 64;
/// How long the name of a primary may take to be looked up.
const LOOKUP: Duration = Duration::from_secs(1);

/// Follows the Sentinels of one backend.
pub(super) struct Follower {
    scope: Arc<Scope>,
    knowledge: Knowledge,
    /// The server that sessions go to, and that is checked.
    followed: Option<(Belief, Arc<Member>)>,
    /// Its check; it ends when this is dropped.
    check: JoinSet<()>,
    /// Servers that were followed, with sessions that are to leave and do not know it yet.
    dismissals_owed: Vec<Arc<Member>>,
    plight: Option<Box<str>>,
}

impl Follower {
    pub(super) fn new(scope: Arc<Scope>, sentinels: usize) -> Self {
        Self {
            scope,
            knowledge: Knowledge::new(sentinels),
            followed: None,
            check: JoinSet::new(),
            dismissals_owed: Vec::new(),
            plight: None,
        }
    }

    /// Follows for ever.
    pub(super) async fn run(mut self, plan: SentinelPlan) {
        let mut reports = watch(plan);
        while let Some(report) = reports.recv().await {
            self.note(report);
            let followed = self.follow().await;
            self.dismissals_owed.retain(|member| !self.scope.dismiss(member));
            self.publish(followed.err());
        }
    }

    fn note(&mut self, report: Report) {
        if !self.knowledge.note(report.sentinel, report.told, sys::now()) {
            return;
        }
        let contact = self.knowledge.contacts().nth(report.sentinel).cloned().unwrap_or(Contact::Unasked);
        self.scope.change_status(|backend| {
            let known = backend.sentinel.as_mut().and_then(|status| status.sentinels.get_mut(report.sentinel));
            if let Some((name, known)) = known {
                known.clone_from(&contact);
                let (backend, sentinel) = (self.scope.plan.name.clone(), name.clone());
                self.scope.tell(News::Sentinel { backend, sentinel, contact });
            }
        });
    }

    /// Goes over to what is believed, if that is another server. Whatever keeps it from that may be gone at the next report.
    async fn follow(&mut self) -> Result<(), String> {
        let Some(belief) = self.knowledge.belief() else { return Ok(()) };
        if let Some((followed, _)) = &mut self.followed
            && followed.at == belief.at
        {
            followed.epoch = belief.epoch;
            return Ok(());
        }
        let (belief, scope) = (belief.clone(), Arc::clone(&self.scope));
        let server = scope.plan.found_server(&belief, address(&belief.at).await?);
        let gone = || "a reload has removed the backend".to_owned();
        let (before, _) = scope.rosters.roster(scope.plan.backend()).ok_or_else(gone)?;
        let roster = before.with([server]);
        let member = Arc::clone(&roster[0]);
        let known = before.iter().find(|known| known.is_same_server(&member));
        if known.is_none() {
            BackendPlan::hold_back(scope.check(), &member);
        }
        scope.rosters.replace(scope.plan.tenure, roster).map_err(|error| error.to_string())?;
        let left = before.iter().filter(|known| !known.is_same_server(&member)).map(Arc::clone);
        self.dismissals_owed.extend(left);
        let switches = self.followed.is_some();
        scope.change_status(|backend| {
            backend.set_servers(&[Arc::clone(&member)], sys::now());
            if let Some(status) = &mut backend.sentinel {
                status.switches += u64::from(switches);
            }
        });
        let from = self.followed.as_ref().map(|(followed, _)| followed.at.to_string().into());
        scope.tell(News::Primary {
            backend: scope.plan.name.clone(),
            name: self.primary_name().into(),
            sessions: from.is_some().then(|| scope.sessions_word()),
            from,
            to: belief.at.to_string().into(),
            epoch: belief.epoch,
        });
        self.check = JoinSet::new();
        self.check.spawn(Checker::new(scope, Arc::clone(&member)).run());
        self.followed = Some((belief, member));
        Ok(())
    }

    /// Publishes what is believed, and what is wrong, once each time that it changes.
    fn publish(&mut self, unfollowed: Option<String>) {
        let plight = unfollowed.or_else(|| self.plight()).map(Box::from);
        let followed = self.followed.as_ref().map(|(belief, _)| belief);
        self.scope.change_status(|backend| {
            if let Some(status) = &mut backend.sentinel {
                status.primary = followed.map(|belief| belief.at.clone());
                status.epoch = followed.map_or(0, |belief| belief.epoch);
                status.problem.clone_from(&plight);
            }
        });
        if plight != self.plight {
            self.plight.clone_from(&plight);
            let (backend, known) = (self.scope.plan.name.clone(), self.followed.is_some());
            self.scope.tell(News::Plight { backend, problem: plight, known });
        }
    }

    /// What is wrong with all of them together.
    fn plight(&self) -> Option<String> {
        let trouble = |contact: &Contact| matches!(contact, Contact::Trouble(_));
        if self.knowledge.contacts().all(trouble) {
            return Some("none of them answers".to_owned());
        }
        self.knowledge.name_is_unknown().then(|| {
            let name = self.primary_name();
            format!(
                "none of them knows a primary called \"{name}\": compare sentinel.name with their `sentinel monitor`"
            )
        })
    }

    fn primary_name(&self) -> &str {
        self.scope.primary_name.as_deref().unwrap_or_default()
    }
}

/// Starts watching all Sentinels; that ends with whoever reads the reports.
fn watch(plan: SentinelPlan) -> Receiver<Report> {
    let SentinelPlan { sentinel: config, password, connector, credentials: _ } = plan;
    let (reports, receiver) = channel(REPORTS_MAX);
    let account = Arc::new(Account::new(config.login, password));
    for (sentinel, server) in config.addresses.into_iter().enumerate() {
        let watcher = Watcher {
            sentinel,
            connector: connector.as_ref().map(|connector| connector.towards(server.server_name.clone())),
            server,
            account: Arc::clone(&account),
            name: config.name.clone(),
            reports: reports.clone(),
        };
        spawn(watcher.run());
    }
    receiver
}

/// Where a primary is; a name has the first address that is found.
async fn address(at: &Whereabouts) -> Result<Address, String> {
    if let Ok(ip) = at.host.parse::<IpAddr>() {
        return Ok(Address::Tcp((ip, at.port).into()));
    }
    let host = &at.host;
    let found = timeout(LOOKUP, lookup_host((&**host, at.port))).await;
    match found {
        Ok(Ok(mut addresses)) => match addresses.next() {
            Some(address) => Ok(Address::Tcp(address)),
            None => Err(format!("the primary's name {host} has no address")),
        },
        Ok(Err(error)) => Err(format!("the primary's name {host} cannot be resolved: {error}")),
        Err(_) => Err(format!("the primary's name {host} is not resolved within {}s", LOOKUP.as_secs())),
    }
}
