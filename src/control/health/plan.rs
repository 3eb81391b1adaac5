//! What is to be checked, and how: made before anything runs, of what the configuration and its files say.

use std::fmt;
use std::sync::Arc;

use super::status::{BackendStatus, SentinelStatus, Status};
use super::{Contact, knowledge::Belief};
use crate::config::{self, CheckKind, HealthCheck};
use crate::control::rosters::Tenure;
use crate::roster::{BackendId, Member, Server, Standing};
use crate::secret::Secret;
use crate::tls::{BackendCredentials, Connector, ServerName};

/// What is said of a server whose role matters and has not been told.
pub(super) const ROLE_UNKNOWN: &str = "its role is not known yet";

/// All backends that are checked.
#[derive(Debug, Default)]
pub struct Plan {
    /// Each of them.
    pub(super) backends: Vec<BackendPlan>,
    /// What checks have found out, from now on.
    pub status: Arc<Status>,
}

/// One backend that is checked.
pub struct BackendPlan {
    /// Which, and the right to say which servers it has.
    pub tenure: Tenure,
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// How its servers are checked.
    pub check: HealthCheck,
    /// The password for them.
    pub password: Option<Secret>,
    /// Makes the TLS side of connections to them, towards the name of each; without one they are spoken to in plain text.
    pub connector: Option<Connector>,
    /// What that was made of.
    pub credentials: Option<Arc<BackendCredentials>>,
    /// The name that each server is asked for; where not given, its host.
    pub server_name: Option<ServerName>,
    /// Who names its server, where it is not the configuration.
    pub sentinel: Option<SentinelPlan>,
}

/// The Sentinels of a backend.
#[derive(Clone)]
pub struct SentinelPlan {
    /// Who they are.
    pub sentinel: config::Sentinel,
    /// The password for them.
    pub password: Option<Secret>,
    /// Makes the TLS side of connections to them, towards the name of each; without one they are spoken to in plain text.
    pub connector: Option<Connector>,
    /// What that was made of.
    pub credentials: Option<Arc<BackendCredentials>>,
}

impl Plan {
    /// Of these backends, in the configuration's order.
    #[must_use]
    pub fn new(backends: Vec<BackendPlan>) -> Self {
        Self { backends, status: Arc::default() }
    }

    /// The plan itself, once; the status stays here to be read, too.
    pub(in crate::control) fn take(&mut self) -> Self {
        Self { backends: std::mem::take(&mut self.backends), status: Arc::clone(&self.status) }
    }
}

impl BackendPlan {
    /// Which backend it is about.
    pub(super) const fn backend(&self) -> BackendId {
        self.tenure.backend()
    }

    /// Whether it comes to the same as another.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let Self { tenure, name, check, password, connector: _, credentials, server_name, sentinel } = self;
        let sentinels = match (sentinel, &other.sentinel) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                one.sentinel == other.sentinel && one.password == other.password && one.credentials == other.credentials
            }
            (Some(_), None) | (None, Some(_)) => false,
        };
        sentinels
            && (*tenure, name, check, server_name) == (other.tenure, &other.name, &other.check, &other.server_name)
            && (password, credentials) == (&other.password, &other.credentials)
    }

    /// What is known of it before anybody has asked.
    pub(super) fn unasked(&self) -> BackendStatus {
        BackendStatus {
            backend: self.backend(),
            name: Arc::clone(&self.name),
            sentinel: self.sentinel.as_ref().map(|plan| SentinelStatus::unasked(&plan.sentinel)),
            servers: Vec::new(),
        }
    }

    /// Keeps a server that joins from getting sessions until its role is known, where that matters.
    pub fn hold_back(check: &HealthCheck, member: &Member) {
        if matches!(check.kind, CheckKind::Role(_)) {
            member.set_checked_standing(Standing::Down, ROLE_UNKNOWN);
        }
    }

    /// A server that Sentinels name.
    pub(super) fn found_server(&self, belief: &Belief, address: crate::io::Address) -> Server {
        let host = || ServerName::parse(&belief.at.host);
        let server_name = self.connector.as_ref().and_then(|_| self.server_name.clone().or_else(host));
        Server { name: belief.at.to_string().into(), server_name, ..Server::at(address) }
    }
}

impl SentinelStatus {
    fn unasked(sentinel: &config::Sentinel) -> Self {
        Self {
            primary_name: sentinel.name.clone(),
            primary: None,
            epoch: 0,
            switches: 0,
            problem: None,
            sentinels: sentinel.addresses.iter().map(|server| (server.name.clone(), Contact::Unasked)).collect(),
        }
    }
}

impl fmt::Debug for BackendPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendPlan").field("name", &self.name).field("check", &self.check).finish_non_exhaustive()
    }
}

impl fmt::Debug for SentinelPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentinelPlan").field("sentinel", &self.sentinel).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::{OnDemotion, WantedRole};
    use crate::io::Address;

    #[test]
    fn a_server_waits_for_its_first_check_only_where_its_role_matters() {
        for (kind, standing) in [
            (CheckKind::Tcp, "up"),
            (CheckKind::Ping, "up"),
            (CheckKind::Role(WantedRole::Any), "down: its role is not known yet"),
            (CheckKind::Role(WantedRole::Primary), "down: its role is not known yet"),
        ] {
            let (interval, timeout) = (Duration::from_secs(2), Duration::from_secs(1));
            let on_demotion = OnDemotion::Close;
            let check = HealthCheck { kind, interval, timeout, rise: 2, fall: 3, login: None, on_demotion };
            let member = Member::from(Server::at(Address::Tcp(([127, 0, 0, 1], 6379).into())));
            BackendPlan::hold_back(&check, &member);
            assert_eq!(member.standing_in_words(), standing, "{kind:?}");
        }
    }
}
