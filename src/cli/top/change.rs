//! What a person at the terminal can have changed.

use std::fmt;

use super::super::ctl::query;

/// A change of the running ringwall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Of a session, by its id.
    Close {
        session: String,
        client: String,
    },
    DrainListener(String),
    EnableListener(String),
    DrainServer {
        backend: String,
        address: String,
    },
    EnableServer {
        backend: String,
        address: String,
    },
}

impl Change {
    /// The path that it is posted to.
    pub(super) fn path(&self) -> String {
        let server = |path, backend: &String, address: &String| {
            query(path, &[("backend", backend.clone()), ("server", address.clone())])
        };
        match self {
            Self::Close { session, .. } => query("/close", &[("session", session.clone())]),
            Self::DrainListener(name) => query("/drain", &[("listener", name.clone())]),
            Self::EnableListener(name) => query("/enable", &[("listener", name.clone())]),
            Self::DrainServer { backend, address } => server("/drain", backend, address),
            Self::EnableServer { backend, address } => server("/enable", backend, address),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Close { session, client } => write!(f, "Close session {session} of {client}"),
            Self::DrainListener(name) => write!(f, "Drain listener {name}"),
            Self::EnableListener(name) => write!(f, "Enable listener {name}"),
            Self::DrainServer { backend, address } => write!(f, "Drain server {address} of {backend}"),
            Self::EnableServer { backend, address } => write!(f, "Enable server {address} of {backend}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_has_the_path_that_the_admin_listener_knows() {
        let (backend, address) = ("a b".to_owned(), "unix:/run/a.sock".to_owned());
        for (change, path) in [
            (Change::Close { session: "0-17-3".into(), client: String::new() }, "/close?session=0-17-3"),
            (Change::DrainListener("public".into()), "/drain?listener=public"),
            (Change::EnableListener("public".into()), "/enable?listener=public"),
            (
                Change::DrainServer { backend: backend.clone(), address: address.clone() },
                "/drain?backend=a+b&server=unix%3A%2Frun%2Fa.sock",
            ),
            (Change::EnableServer { backend, address }, "/enable?backend=a+b&server=unix%3A%2Frun%2Fa.sock"),
        ] {
            assert_eq!(change.path(), path);
        }
    }
}
