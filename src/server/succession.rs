//! What a takeover takes: how this process is replaced, and what it hands over.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::process;

use super::listener_tls::LastingSecret;
use crate::config::Config;
use crate::control::admin::AdminSocket;
use crate::control::{READY_WITHIN, Takeover};
use crate::io::{Fd, sys};
use crate::takeover::{Estate, Predecessor, Program, Successor};

/// The first process of a container: with its end everything there ends.
const FIRST_PROCESS: u32 = 1;

/// A listener's socket, which is the dispatcher's.
#[derive(Clone)]
struct Socket {
    name: Box<str>,
    bind: SocketAddr,
    backlog: u32,
    socket: Fd,
}

/// How this process is replaced. `sockets` are the listeners', in their order; the control plane begins no takeover once
/// it has told the dispatcher to close them.
pub(super) fn takeover(
    config: &Config,
    predecessor: Option<Predecessor>,
    admin: Option<&AdminSocket>,
    sockets: &[Fd],
    secret: LastingSecret,
) -> io::Result<Takeover> {
    let of_listener = |(listener, &socket): (&crate::config::Listener, _)| Socket {
        name: listener.name.clone(),
        bind: listener.bind,
        backlog: listener.listen_backlog,
        socket,
    };
    let sockets: Vec<_> = config.listeners.iter().zip(sockets).map(of_listener).collect();
    let address = config.admin.as_ref().map(|admin| admin.listen.to_string()).unwrap_or_default();
    let admin = admin.map(|admin| Ok::<_, io::Error>((address, admin.duplicate()?))).transpose()?;
    let program = Program::of_this_process();
    let listeners = sockets.clone();
    Ok(Takeover {
        predecessor,
        listen: Box::new(move || listen(&listeners)),
        begin: Box::new(move |tell| {
            if process::id() == FIRST_PROCESS {
                return Err("this is the first process of a container, which would end with it".to_owned());
            }
            let program = program.as_ref().map_err(|error| format!("where the program is, is not known: {error}"))?;
            let begun = estate(&sockets, admin.as_ref(), &secret)
                .and_then(|estate| Successor::start(program.clone(), estate, READY_WITHIN, tell));
            begun.map_err(|error| error.to_string())
        }),
    })
}

fn listen(sockets: &[Socket]) -> Result<(), String> {
    for Socket { name, backlog, socket, .. } in sockets {
        sys::open_listener(*socket, *backlog)
            .map_err(|errno| format!("listener \"{name}\" cannot listen: {}", io::Error::from(errno)))?;
    }
    Ok(())
}

fn estate(sockets: &[Socket], admin: Option<&(String, OwnedFd)>, secret: &LastingSecret) -> io::Result<Estate> {
    let listener = |listener: &Socket| {
        sys::duplicate(listener.socket).map(|socket| (listener.name.clone(), listener.bind, socket))
    };
    let listeners = sockets.iter().map(listener).collect::<io::Result<_>>()?;
    let admin =
        admin.map(|(address, socket)| Ok::<_, io::Error>((address.clone(), socket.try_clone()?))).transpose()?;
    Ok(Estate { listeners, admin, ticket_secret: secret.bytes() })
}
