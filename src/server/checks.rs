//! What the control plane is to find out about servers, of what the configuration and its files say.

use super::StartError;
use super::plans::BackendPlan;
use crate::config::{self, CheckSecrets, Config};
use crate::control::health::{self, Plan, SentinelPlan};
use crate::roster::Roster;
use crate::tls::{BackendCredentials, Connector, Options};

/// The plan of all checks, which speak TLS as sessions do, with keys of their own. From here on no server gets sessions
/// whose role matters and is not known, so this comes before the first client can.
pub(super) fn plan(
    config: &Config,
    secrets: Vec<CheckSecrets>,
    backends: &[BackendPlan],
    rosters: &[Roster],
) -> Result<Plan, StartError> {
    let mut plans = Vec::new();
    let of_backends = config.backends.iter().zip(secrets).zip(backends.iter().zip(rosters));
    for (index, ((backend, secrets), (plan, roster))) in (0..).zip(of_backends) {
        let Some(check) = backend.health_check.clone() else { continue };
        roster.iter().for_each(|member| health::BackendPlan::hold_back(&check, member));
        let sentinel = backend.sentinel.clone().map(|sentinel| {
            let connector = sentinel_connector(&backend.name, &sentinel, secrets.sentinel_tls.as_ref())?;
            Ok::<_, StartError>(SentinelPlan { sentinel, password: secrets.sentinel, connector })
        });
        plans.push(health::BackendPlan {
            backend: index,
            name: backend.name.clone(),
            check,
            password: secrets.health_check,
            connector: plan.connector()?,
            server_name: backend.tls.as_ref().and_then(|tls| tls.server_name.clone()),
            sentinel: sentinel.transpose()?,
        });
    }
    Ok(Plan::new(plans))
}

fn sentinel_connector(
    backend: &str,
    sentinel: &config::Sentinel,
    credentials: Option<&BackendCredentials>,
) -> Result<Option<Connector>, StartError> {
    let connector = sentinel.tls.as_ref().zip(credentials).map(|(tls, credentials)| {
        let options = Options { policy: tls.policy.clone(), ..Options::default() };
        Connector::new(credentials, &options, None)
    });
    let error = |error| StartError::Tls { of: format!("the Sentinels of backend \"{backend}\"").into(), error };
    connector.transpose().map_err(error)
}
