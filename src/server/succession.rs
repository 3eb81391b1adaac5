//! What a takeover takes: how this process is replaced, and what it hands over.

use std::io;
use std::os::fd::OwnedFd;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::listener_tls::LastingSecret;
use super::sockets::{ListenerSocket, Sockets};
use crate::control::admin::AdminSocket;
use crate::control::{READY_WITHIN, Takeover};
use crate::io::{Address, sys};
use crate::takeover::{Estate, Predecessor, Program, Successor};

/// The first process of a container: with its end everything there ends.
const FIRST_PROCESS: u32 = 1;

/// Where administrators connect, for the next process: the address, and the same socket once more.
#[derive(Clone, Debug, Default)]
pub(super) struct AdminPlace(Arc<Mutex<Option<(String, OwnedFd)>>>);

impl AdminPlace {
    /// The place of a socket at this address.
    pub(super) fn of(address: &Address, socket: &AdminSocket) -> io::Result<(String, OwnedFd)> {
        Ok((address.to_string(), socket.duplicate()?))
    }

    /// It is there from now on, or nowhere.
    pub(super) fn set(&self, place: Option<(String, OwnedFd)>) {
        *self.lock() = place;
    }

    fn duplicate(&self) -> io::Result<Option<(String, OwnedFd)>> {
        self.lock().as_ref().map(|(address, socket)| Ok((address.clone(), socket.try_clone()?))).transpose()
    }

    fn lock(&self) -> MutexGuard<'_, Option<(String, OwnedFd)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How this process is replaced. The control plane begins no takeover once it has told the dispatcher to close the
/// `sockets`.
pub(super) fn takeover(
    predecessor: Option<Predecessor>,
    admin: AdminPlace,
    sockets: Sockets,
    secret: LastingSecret,
) -> Takeover {
    let program = Program::of_this_process();
    let listeners = sockets.clone();
    Takeover {
        predecessor,
        listen: Box::new(move || listen(&listeners.lock())),
        begin: Box::new(move |tell| {
            if process::id() == FIRST_PROCESS {
                return Err("this is the first process of a container, which would end with it".to_owned());
            }
            let program = program.as_ref().map_err(|error| format!("where the program is, is not known: {error}"))?;
            let Some(sockets) = sockets.try_lock() else {
                return Err("a reload is under way; order it again".to_owned());
            };
            let begun = estate(&sockets, &admin, &secret)
                .and_then(|estate| Successor::start(program.clone(), estate, READY_WITHIN, tell));
            begun.map_err(|error| error.to_string())
        }),
    }
}

fn listen(sockets: &[ListenerSocket]) -> Result<(), String> {
    for ListenerSocket { name, backlog, socket, .. } in sockets {
        sys::open_listener(*socket, *backlog)
            .map_err(|errno| format!("listener \"{name}\" cannot listen: {}", io::Error::from(errno)))?;
    }
    Ok(())
}

fn estate(sockets: &[ListenerSocket], admin: &AdminPlace, secret: &LastingSecret) -> io::Result<Estate> {
    let listener = |listener: &ListenerSocket| {
        sys::duplicate(listener.socket).map(|socket| (listener.name.clone(), listener.bind, socket))
    };
    let listeners = sockets.iter().map(listener).collect::<io::Result<_>>()?;
    Ok(Estate { listeners, admin: admin.duplicate()?, ticket_secret: secret.bytes() })
}
