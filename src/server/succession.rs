//! What a takeover takes: how this process is replaced, and what it hands over.

use std::io;
use std::os::fd::OwnedFd;
use std::process;

use super::listener_tls::LastingSecret;
use super::sockets::{ListenerSocket, Sockets};
use crate::config::Config;
use crate::control::admin::AdminSocket;
use crate::control::{READY_WITHIN, Takeover};
use crate::io::sys;
use crate::takeover::{Estate, Predecessor, Program, Successor};

/// The first process of a container: with its end everything there ends.
const FIRST_PROCESS: u32 = 1;

/// How this process is replaced. The control plane begins no takeover once it has told the dispatcher to close the
/// `sockets`.
pub(super) fn takeover(
    config: &Config,
    predecessor: Option<Predecessor>,
    admin: Option<&AdminSocket>,
    sockets: Sockets,
    secret: LastingSecret,
) -> io::Result<Takeover> {
    let address = config.admin.as_ref().map(|admin| admin.listen.to_string()).unwrap_or_default();
    let admin = admin.map(|admin| Ok::<_, io::Error>((address, admin.duplicate()?))).transpose()?;
    let program = Program::of_this_process();
    let listeners = sockets.clone();
    Ok(Takeover {
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
            let begun = estate(&sockets, admin.as_ref(), &secret)
                .and_then(|estate| Successor::start(program.clone(), estate, READY_WITHIN, tell));
            begun.map_err(|error| error.to_string())
        }),
    })
}

fn listen(sockets: &[ListenerSocket]) -> Result<(), String> {
    for ListenerSocket { name, backlog, socket, .. } in sockets {
        sys::open_listener(*socket, *backlog)
            .map_err(|errno| format!("listener \"{name}\" cannot listen: {}", io::Error::from(errno)))?;
    }
    Ok(())
}

fn estate(sockets: &[ListenerSocket], admin: Option<&(String, OwnedFd)>, secret: &LastingSecret) -> io::Result<Estate> {
    let listener = |listener: &ListenerSocket| {
        sys::duplicate(listener.socket).map(|socket| (listener.name.clone(), listener.bind, socket))
    };
    let listeners = sockets.iter().map(listener).collect::<io::Result<_>>()?;
    let admin =
        admin.map(|(address, socket)| Ok::<_, io::Error>((address.clone(), socket.try_clone()?))).transpose()?;
    Ok(Estate { listeners, admin, ticket_secret: secret.bytes() })
}
