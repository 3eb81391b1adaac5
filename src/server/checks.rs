//! What the control plane is to find out about servers, of what the configuration and its files say.

use std::sync::Arc;

use super::StartError;
use super::plans::BackendPlan;
use crate::config::{self, CheckSecrets, Config};
use crate::control::health::{self, SentinelPlan};
use crate::control::{Hold, Tenure};
use crate::tls::{BackendCredentials, Connector, Options};

/// All checks, which speak TLS as sessions do, with keys of their own. `tenures` are those of the backends, in their order.
pub(super) fn plans(
    config: &Config,
    secrets: Vec<CheckSecrets>,
    backends: &[BackendPlan],
    tenures: impl Iterator<Item = Tenure>,
) -> Result<Vec<health::BackendPlan>, StartError> {
    let mut plans = Vec::new();
    for (((backend, secrets), plan), tenure) in config.backends.iter().zip(secrets).zip(backends).zip(tenures) {
        let Some(check) = backend.health_check.clone() else { continue };
        let sentinel_tls = secrets.sentinel_tls.map(Arc::new);
        let sentinel = backend.sentinel.clone().map(|sentinel| {
            let connector = sentinel_connector(&backend.name, &sentinel, sentinel_tls.as_deref())?;
            let credentials = sentinel_tls.clone();
            Ok::<_, StartError>(SentinelPlan { sentinel, password: secrets.sentinel, connector, credentials })
        });
        plans.push(health::BackendPlan {
            tenure,
            name: (*backend.name).into(),
            check,
            password: secrets.health_check,
            connector: plan.connector()?,
            credentials: plan.credentials(),
            server_name: backend.tls.as_ref().and_then(|tls| tls.server_name.clone()),
            sentinel: sentinel.transpose()?,
        });
    }
    Ok(plans)
}

/// From here on no server gets sessions whose role matters and is not known, so this comes before the first client can.
pub(super) fn hold_back(config: &Config, holds: &[Hold]) {
    for (backend, hold) in config.backends.iter().zip(holds) {
        let members = hold.roster.iter();
        members.for_each(|member| {
            backend.health_check.iter().for_each(|check| health::BackendPlan::hold_back(check, member))
        });
    }
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
