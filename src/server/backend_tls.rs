//! How one backend speaks TLS: what each shard's connectors are made from.

use std::sync::Arc;

use super::StartError;
use crate::config;
use crate::tls::{BackendCredentials, Connector, Options};

/// How one backend speaks TLS.
#[derive(Debug)]
pub(super) struct BackendTls {
    name: Box<str>,
    credentials: Arc<BackendCredentials>,
    options: Options,
}

impl BackendTls {
    pub(super) fn new(name: &str, tls: &config::BackendTls, credentials: Arc<BackendCredentials>) -> Self {
        let options = Options { policy: tls.policy.clone(), ..Options::default() };
        Self { name: name.into(), credentials, options }
    }

    /// What it is made from, to compare.
    pub(super) const fn credentials(&self) -> &Arc<BackendCredentials> {
        &self.credentials
    }

    /// A connector that shares nothing with another; those towards each server are made from it.
    pub(super) fn connector(&self) -> Result<Connector, StartError> {
        Connector::new(&self.credentials, &self.options, None)
            .map_err(|error| StartError::Tls { of: format!("backend \"{}\"", self.name).into(), error })
    }
}
