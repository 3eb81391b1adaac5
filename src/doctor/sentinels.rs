//! Whether each Sentinel can be reached, lets ringwall in, and names a primary.

use std::net::ToSocketAddrs;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::finding::{Finding, at};
use super::wire::Wire;
use crate::config::{CheckSecrets, Login, Sentinel};
use crate::control::health::{Whereabouts, login_problem, named_primary};
use crate::io::Address;
use crate::roster::Server;
use crate::secret::Secret;
use crate::tls::{Connector, Options, ServerName};

/// What became of one Sentinel.
pub(super) struct Answer {
    /// The backend's name and the Sentinel's.
    name: String,
    address: Address,
    /// Where the primary is; none where it knows none by this name. Or what is wrong, and what to do.
    primary: Result<Option<Whereabouts>, (String, &'static str)>,
}

const LOOK_AT_SENTINEL: &str =
    "look at the Sentinel and its log, at the firewalls on the way, and at the tls of sentinel";

/// Asks all Sentinels of a backend, one after the other.
pub(super) fn ask(
    runtime: &Runtime,
    patience: Duration,
    backend: &str,
    sentinel: &Sentinel,
    secrets: &CheckSecrets,
) -> Vec<Answer> {
    let credentials = sentinel.tls.as_ref().zip(secrets.sentinel_tls.as_ref());
    let login = sentinel.login.as_ref().zip(secrets.sentinel.as_ref());
    let ask = |server: &Server| {
        let connector = credentials.map(|(tls, credentials)| {
            let options = Options { policy: tls.policy.clone(), ..Options::default() };
            Connector::new(credentials, &options, server.server_name.clone())
        });
        let primary = match connector.transpose() {
            Err(error) => Err((error.to_string(), "mend the tls of sentinel")),
            Ok(connector) => runtime.block_on(async {
                let asked = talk(&server.address, connector.as_ref(), login, &sentinel.name);
                let too_late = |_| Err((format!("no answer within {} s", patience.as_secs_f64()), LOOK_AT_SENTINEL));
                timeout(patience, asked).await.unwrap_or_else(too_late)
            }),
        };
        Answer { name: format!("{backend} Sentinel {}", server.name), address: server.address.clone(), primary }
    };
    sentinel.addresses.iter().map(ask).collect()
}

async fn talk(
    address: &Address,
    connector: Option<&Connector>,
    login: Option<(&Login, &Secret)>,
    name: &str,
) -> Result<Option<Whereabouts>, (String, &'static str)> {
    let unreachable = |error: &dyn std::fmt::Display| (error.to_string(), LOOK_AT_SENTINEL);
    let mut wire = Wire::connect(address, connector).await.map_err(|error| unreachable(&error))?;
    wire.shake_hands().await.map_err(|error| unreachable(&error))?;
    if let Some((login, password)) = login {
        let reply = wire.log_in(login.username.as_deref(), password).await.map_err(|error| unreachable(&error))?;
        if let Some(problem) = login_problem(&reply) {
            return Err((problem, "mend username and password_file of sentinel, or the Sentinel's users"));
        }
    }
    let question = [&b"SENTINEL"[..], b"GET-MASTER-ADDR-BY-NAME", name.as_bytes()];
    let reply = wire.ask(&question).await.map_err(|error| unreachable(&error))?;
    wire.leave().await;
    named_primary(&reply).map_err(|problem| (problem, "mend the backend's sentinel"))
}

impl Answer {
    pub(super) fn judge(&self) -> Finding {
        let found = |text: &str| at(&self.name, &self.address, text);
        match &self.primary {
            Ok(Some(primary)) => Finding::good(&self.name, found(&format!(" names the primary: {primary}"))),
            Ok(None) => Finding::attention(
                &self.name,
                found(" knows no primary by this name"),
                "write the NAME of its `sentinel monitor NAME ...` in sentinel.name",
            ),
            Err((problem, remedy)) => Finding::attention(&self.name, found(&format!(": {problem}")), remedy),
        }
    }

    /// The server that it names; `own` is the name that all servers of the backend are asked for.
    pub(super) fn server(&self, own: Option<&ServerName>) -> Option<Server> {
        let primary = self.primary.as_ref().ok()?.as_ref()?;
        let address = (&*primary.host, primary.port).to_socket_addrs().ok()?.next()?;
        let server_name = own.cloned().or_else(|| ServerName::parse(&primary.host));
        let name = primary.to_string().into();
        Some(Server { name, server_name, ..Server::at(Address::Tcp(address)) })
    }
}
