//! Which server a session is sent to, and what that server speaks.

use crate::io::Address;
use crate::session::transport::Transport;
use crate::tls::Connector;

/// A backend as its listeners' sessions see it.
#[derive(Debug)]
pub struct Backend {
    /// Its name in the configuration.
    pub name: String,
    /// Its servers, at least one.
    pub servers: Vec<Server>,
}

/// One server of a backend.
#[derive(Debug)]
pub struct Server {
    /// Where it is.
    pub address: Address,
    /// Makes the TLS side of connections to it; without one it is spoken to in plain text.
    pub connector: Option<Connector>,
}

impl Server {
    /// A connection's wire form.
    pub(super) fn transport(&self) -> Transport {
        self.connector.as_ref().map_or(Transport::Plain, |connector| Transport::Tls(Box::new(connector.engine())))
    }
}

/// A shard's turn-taking among a backend's servers.
#[derive(Debug)]
pub(super) struct Rotation {
    backend: Backend,
    next: u16,
}

impl Rotation {
    pub(super) const fn new(backend: Backend) -> Self {
        Self { backend, next: 0 }
    }

    /// The server for a session's attempt number `attempt`, counted from 0: the first takes the next server in turn,
    /// and each further one the server behind `previous`. `None` when all have been tried.
    pub(super) fn choose(&mut self, previous: Option<u16>, attempt: u16) -> Option<u16> {
        let count = u16::try_from(self.backend.servers.len()).unwrap_or(u16::MAX);
        if attempt >= count {
            return None;
        }
        if let Some(previous) = previous {
            return Some((previous + 1) % count);
        }
        let chosen = self.next;
        self.next = (self.next + 1) % count;
        Some(chosen)
    }

    pub(super) fn server(&self, server: u16) -> &Server {
        &self.backend.servers[usize::from(server)]
    }

    pub(super) fn name(&self) -> &str {
        &self.backend.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three_servers() -> Rotation {
        let server = |port| Server { address: Address::Tcp(([127, 0, 0, 1], port).into()), connector: None };
        Rotation::new(Backend { name: "cache".into(), servers: vec![server(1), server(2), server(3)] })
    }

    #[test]
    fn sessions_take_the_servers_in_turn() {
        let mut rotation = three_servers();
        let chosen: Vec<u16> = (0..4).filter_map(|_| rotation.choose(None, 0)).collect();
        assert_eq!(chosen, [0, 1, 2, 0]);
    }

    #[test]
    fn a_session_tries_every_server_once() {
        let mut rotation = three_servers();
        assert_eq!(rotation.choose(None, 0), Some(0));
        assert_eq!(rotation.choose(Some(0), 1), Some(1));
        assert_eq!(rotation.choose(Some(1), 2), Some(2));
        assert_eq!(rotation.choose(Some(2), 3), None);
    }
}
