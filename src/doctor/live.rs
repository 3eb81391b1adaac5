//! Whether a ringwall that runs with a configuration serves: for the health checks of containers. Each listener is
//! connected to as its clients do, on this machine, and asked for a handshake, which takes its dispatcher and a shard.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::time::timeout;

use super::finding::{Finding, at};
use super::wire::{Wire, WireError};
use crate::config::{Config, Keyring, Listener};
use crate::io::Address;
use crate::tls::{BackendCredentials, Connector, Credentials, Options, ServerAuth, ServerName, Servers};

/// The longest that a listener is waited for: health checks have a second or two.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks each listener.
///
/// # Errors
/// When the runtime for it cannot be had.
pub(super) fn ask(config: &Config, keyring: &Keyring) -> io::Result<Vec<Finding>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listeners = config.listeners.iter().zip(&keyring.listeners);
    let ask = |(listener, credentials): (&Listener, &Option<Credentials>)| {
        let connector = connector(listener, credentials.as_ref());
        let address = Address::Tcp(reachable(listener.bind));
        let answer = runtime.block_on(timeout(PATIENCE, greet(&address, connector.as_ref())));
        judge(&listener.name, &address, answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())))
    };
    // The runtime's timer is there only within it.
    let _within = runtime.enter();
    Ok(listeners.map(ask).collect())
}

fn judge(name: &str, address: &Address, answer: io::Result<()>) -> Finding {
    match answer {
        Ok(()) => Finding::good(name, at(name, address, " serves")),
        Err(error) => {
            let found = at(name, address, &format!(": {error}"));
            Finding::bad(name, found, "look at ringwall's log, and start it again")
        }
    }
}

/// Connects and shakes hands. To be refused is an answer, too.
async fn greet(address: &Address, connector: Option<&Connector>) -> io::Result<()> {
    let mut wire = Wire::connect(address, connector).await?;
    match wire.shake_hands().await {
        Ok(()) => {
            wire.leave().await;
            Ok(())
        }
        Err(WireError::Tls(_)) => Ok(()),
        Err(WireError::Io(error)) => Err(error),
        Err(error @ (WireError::Ended(_) | WireError::Malformed(..))) => Err(io::Error::other(error.to_string())),
    }
}

/// For a listener that speaks TLS: asks for the name of its first certificate, and takes whatever it is shown.
fn connector(listener: &Listener, credentials: Option<&Credentials>) -> Option<Connector> {
    let (tls, credentials) = listener.tls.as_ref().zip(credentials)?;
    let name = credentials.identities.first().and_then(|identity| ServerName::parse(&identity.outline().name));
    let servers = Servers::load(&ServerAuth::None).expect("it reads nothing");
    let options = Options { policy: tls.policy.clone(), ..Options::default() };
    Connector::new(&BackendCredentials { servers, identity: None }, &options, name).ok()
}

/// Where a client on this machine finds a listener; one that listens on all addresses is on loopback, too.
fn reachable(bind: SocketAddr) -> SocketAddr {
    let ip = match bind.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, bind.port())
}
