//! What is to be checked, and how: made before anything runs, of what the configuration and its files say.

use std::fmt;
use std::sync::Arc;

use super::status::{BackendStatus, SentinelStatus, Status};
use super::{Contact, knowledge::Belief};
use crate::config::{self, CheckKind, HealthCheck};
use crate::roster::{Member, Server, Standing};
use crate::secret::Secret;
use crate::tls::{Connector, ServerName};

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
    /// Its index in the configuration.
    pub backend: u16,
    /// Its name there.
    pub name: Box<str>,
    /// How its servers are checked.
    pub check: HealthCheck,
    /// The password for them.
    pub password: Option<Secret>,
    /// Makes the TLS side of connections to them, towards the name of each; without one they are spoken to in plain text.
    pub connector: Option<Connector>,
    /// The name that each server is asked for; where not given, its host.
    pub server_name: Option<ServerName>,
    /// Who names its server, where it is not the configuration.
    pub sentinel: Option<SentinelPlan>,
}

/// The Sentinels of a backend.
pub struct SentinelPlan {
    /// Who they are.
    pub sentinel: config::Sentinel,
    /// The password for them.
    pub password: Option<Secret>,
    /// Makes the TLS side of connections to them, towards the name of each; without one they are spoken to in plain text.
    pub connector: Option<Connector>,
}

impl Plan {
    /// Of these backends, in the configuration's order.
    #[must_use]
    pub fn new(backends: Vec<BackendPlan>) -> Self {
        let status = backends.iter().map(|plan| BackendStatus {
            backend: plan.backend,
            name: plan.name.clone(),
            sentinel: plan.sentinel.as_ref().map(|plan| SentinelStatus::unasked(&plan.sentinel)),
            servers: Vec::new(),
        });
        let status = Arc::new(Status::new(status.collect()));
        Self { backends, status }
    }

    /// The plan itself, once; the status stays here to be read, too.
    pub(in crate::control) fn take(&mut self) -> Self {
        Self { backends: std::mem::take(&mut self.backends), status: Arc::clone(&self.status) }
    }
}

impl BackendPlan {
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
