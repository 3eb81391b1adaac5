//! Listeners and backends before each shard makes them its own: credentials that are read, keys that are not parsed yet.

use std::rc::Rc;

use super::StartError;
use super::listener_tls::{Common, ListenerTls};
use crate::config::{self, BackendTls};
use crate::roster::Roster;
use crate::session;
use crate::shard;
use crate::tls::{BackendCredentials, Connector, Credentials, Options};

/// A listener, as each shard builds it.
#[derive(Debug)]
pub(super) struct ListenerPlan {
    tls: Option<ListenerTls>,
    backend: u16,
}

/// A backend, as each shard builds it.
#[derive(Debug)]
pub(super) struct BackendPlan {
    name: Box<str>,
    tls: Option<(BackendCredentials, Options)>,
    roster: Roster,
}

impl ListenerPlan {
    pub(super) fn of(listener: &config::Listener, credentials: Option<Credentials>, common: &Common) -> Self {
        let tls = listener.tls.as_ref().zip(credentials);
        let tls = tls.map(|(tls, credentials)| ListenerTls::new(&listener.name, tls, credentials, common));
        Self { tls, backend: index(listener.backend) }
    }

    pub(super) fn build(&self, session: &Rc<session::Options>) -> Result<shard::Listener, StartError> {
        let acceptor = self.tls.as_ref().map(ListenerTls::acceptor).transpose()?;
        Ok(shard::Listener { acceptor, backend: self.backend, session: Rc::clone(session) })
    }
}

impl BackendPlan {
    pub(super) fn of(backend: &config::Backend, roster: &Roster, credentials: Option<BackendCredentials>) -> Self {
        let options = |tls: &BackendTls| Options { policy: tls.policy.clone(), ..Options::default() };
        let tls = credentials.zip(backend.tls.as_ref().map(options));
        Self { name: backend.name.clone(), tls, roster: roster.clone() }
    }

    pub(super) fn build(&self) -> Result<shard::Backend, StartError> {
        let connector = |(credentials, options): &(_, _)| Connector::new(credentials, options, None);
        let connector = self.tls.as_ref().map(connector).transpose();
        let error = |error| StartError::Tls { of: format!("backend \"{}\"", self.name).into(), error };
        let (name, roster) = (self.name.clone(), self.roster.clone());
        Ok(shard::Backend { name, roster, connector: connector.map_err(error)? })
    }
}

/// The configuration bounds every list to far less than 16 bits can number.
fn index(wide: usize) -> u16 {
    u16::try_from(wide).expect("lists of the configuration have at most 1024 entries")
}
