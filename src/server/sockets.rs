//! The listening sockets: bound here, or handed over by whoever listens already: the service manager (socket activation,
//! `sd_listen_fds(3)`), or the process that this one replaces. A reload keeps those that it has a use for and binds the
//! others.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::StartError;
use super::plans::ListenerPlan;
use crate::config::{Config, Listener};
use crate::io::{Fd, sys};
use crate::takeover::Predecessor;

/// The number of the first descriptor that is handed over.
const FIRST: i32 = 3;

/// A socket that was handed over and has no listener yet.
struct Inherited {
    socket: OwnedFd,
    address: SocketAddr,
    /// What the manager calls it: `FileDescriptorName=`, or else the name of its unit.
    name: String,
}

/// A listener's socket, which is the dispatcher's.
#[derive(Clone, Debug)]
pub(super) struct ListenerSocket {
    pub(super) name: Box<str>,
    /// Where it was to listen, and where it does.
    pub(super) bind: SocketAddr,
    pub(super) address: SocketAddr,
    pub(super) backlog: u32,
    pub(super) socket: Fd,
}

/// The sockets of all listeners, in their order.
#[derive(Clone, Debug)]
pub(super) struct Sockets(Arc<Mutex<Vec<ListenerSocket>>>);

impl Sockets {
    pub(super) fn new(sockets: Vec<ListenerSocket>) -> Self {
        Self(Arc::new(Mutex::new(sockets)))
    }

    /// For as long as they are being exchanged, or used for what needs them to stay open.
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<ListenerSocket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Sockets::lock`], unless that would have to wait.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Vec<ListenerSocket>>> {
        self.0.try_lock().ok()
    }
}

/// The sockets of a configuration that comes behind another.
#[derive(Debug)]
pub(super) struct Next {
    /// In the listeners' order.
    pub(super) sockets: Vec<ListenerSocket>,
    /// Those of them that nobody has listened on before; closed when this is dropped.
    pub(super) bound: Vec<OwnedFd>,
    /// Those of `bound` that do not listen yet.
    beside: Vec<Beside>,
}

/// A socket whose address overlaps those of sockets that are left for it: `0.0.0.0` and `127.0.0.1` of one port.
///
/// The kernel has both listen while all of them share the address, and for that moment only they do: a socket that shares
/// one lets any other of the same user in.
#[derive(Debug)]
struct Beside {
    listener: Box<str>,
    bind: SocketAddr,
    backlog: u32,
    socket: Fd,
    /// With their addresses.
    left: Vec<(SocketAddr, Fd)>,
}

impl Next {
    /// A listener keeps its socket while it is bound where it was, and takes one that another leaves there; the others are
    /// bound anew.
    pub(super) fn open(config: &Config, before: &[ListenerSocket]) -> Result<Self, StartError> {
        let mut left: Vec<Option<&ListenerSocket>> = before.iter().map(Some).collect();
        let mut take = |fits: &dyn Fn(&ListenerSocket) -> bool| {
            left.iter_mut().find(|socket| socket.is_some_and(fits)).and_then(Option::take)
        };
        // First those that stay, so that none of them is taken for another's.
        let own: Vec<_> = config
            .listeners
            .iter()
            .map(|listener| take(&|socket| socket.name == listener.name && socket.bind == listener.bind))
            .collect();
        let mut next = Self { sockets: Vec::new(), bound: Vec::new(), beside: Vec::new() };
        for (listener, own) in config.listeners.iter().zip(own) {
            let others = || take(&|socket| socket.bind == listener.bind && socket.bind.port() != 0);
            let (socket, address) = match own.or_else(others) {
                Some(kept) => (kept.socket, kept.address),
                None => {
                    let left = before.iter().map(|socket| (socket.bind, socket.socket));
                    let left: Vec<_> = left.filter(|(bind, _)| listener.overlaps(*bind)).collect();
                    let (socket, address) = if left.is_empty() {
                        bind(listener)?
                    } else {
                        let (socket, beside) = Beside::bind(listener, left)?;
                        next.beside.push(beside);
                        (socket, listener.bind)
                    };
                    let number = Fd(socket.as_raw_fd());
                    next.bound.push(socket);
                    (number, address)
                }
            };
            next.sockets.push(ListenerSocket::new(listener, socket, address));
        }
        Ok(next)
    }

    /// Has all of them listen. From here on those that are left have no new clients whom another one has.
    pub(super) fn listen(&self) -> Result<(), StartError> {
        self.beside.iter().try_for_each(Beside::listen)?;
        for (_, left) in self.beside.iter().flat_map(|beside| &beside.left) {
            // Else a client that comes in the moment in which it is closed is refused.
            let _ = sys::pass_by(*left);
        }
        Ok(())
    }
}

impl Beside {
    /// Binds it; it does not listen yet.
    fn bind(listener: &Listener, left: Vec<(SocketAddr, Fd)>) -> Result<(OwnedFd, Self), StartError> {
        let (bind, backlog) = (listener.bind, listener.listen_backlog);
        let error = |error| Self::error(&listener.name, bind, &left, error);
        let shared = Shared::of(left.iter().map(|(_, socket)| *socket));
        let socket = sys::bind_sharing(bind).map_err(error)?;
        let number = Fd(socket.as_raw_fd());
        drop(shared.with(number));
        Ok((socket, Self { listener: listener.name.clone(), bind, backlog, socket: number, left }))
    }

    fn listen(&self) -> Result<(), StartError> {
        let shared = Shared::of(self.left.iter().map(|(_, socket)| *socket)).with(self.socket);
        let listens = sys::open_listener(self.socket, self.backlog);
        drop(shared);
        // That sockets share a port is remembered of the port until one is bound there that does not: else others could
        // come in later. Where that is not to be had, whoever runs as this user can do worse.
        let family = if self.bind.is_ipv4() { IpAddr::from(Ipv6Addr::LOCALHOST) } else { Ipv4Addr::LOCALHOST.into() };
        drop(sys::bind(SocketAddr::new(family, self.bind.port())));
        listens.map_err(|errno| Self::error(&self.listener, self.bind, &self.left, errno.into()))
    }

    fn error(listener: &str, address: SocketAddr, left: &[(SocketAddr, Fd)], error: io::Error) -> StartError {
        let held = left.iter().map(|(bind, _)| *bind).collect();
        StartError::Beside { listener: listener.into(), address, held, error }
    }
}

/// Sockets that share their address until this is dropped.
struct Shared(Vec<Fd>);

impl Shared {
    fn of(sockets: impl Iterator<Item = Fd>) -> Self {
        sockets.fold(Self(Vec::new()), Self::with)
    }

    fn with(mut self, socket: Fd) -> Self {
        // What fails here shows when the next one is bound.
        let _ = sys::share_address(socket, true);
        self.0.push(socket);
        self
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for socket in &self.0 {
            let _ = sys::share_address(*socket, false);
        }
    }
}

impl ListenerSocket {
    pub(super) fn new(listener: &Listener, socket: Fd, address: SocketAddr) -> Self {
        let (name, bind, backlog) = (listener.name.clone(), listener.bind, listener.listen_backlog);
        Self { name, bind, address, backlog, socket }
    }
}

/// Listening sockets, in the listeners' order. A listener whose name or address one has that was handed over takes it; the
/// others are bound.
pub(super) fn open(
    config: &Config,
    plans: &[ListenerPlan],
    mut predecessor: Option<&mut Predecessor>,
) -> Result<Vec<ListenerSocket>, StartError> {
    let mut inherited = take_over(&numbered(|name| std::env::var(name).ok(), std::process::id())?)?;
    let mut sockets: Vec<(OwnedFd, SocketAddr)> = Vec::new();
    for listener in &config.listeners {
        let left = predecessor.as_mut().and_then(|left| left.take_listener(&listener.name, listener.bind));
        if let Some(socket) = left {
            let address = sys::local_address(Fd(socket.as_raw_fd())).unwrap_or(listener.bind);
            sockets.push((socket, address));
            continue;
        }
        sockets.push(match position_for(listener, &inherited)? {
            Some(index) => {
                let Inherited { socket, address, .. } = inherited.swap_remove(index);
                (socket, address)
            }
            None => bind_after(predecessor.as_deref(), listener)?,
        });
    }
    if let Some(Inherited { address, name, .. }) = inherited.first() {
        let known: Vec<&str> = config.listeners.iter().map(|listener| &*listener.name).collect();
        return Err(StartError::Inherited(format!(
            "\"{name}\" on {address} is no listener's: write FileDescriptorName= with the name of a listener ({}) into the \
             socket unit, or bind a listener to that address",
            known.join(", ")
        )));
    }
    let sockets = config.listeners.iter().zip(sockets);
    let sockets = sockets.map(|(listener, (socket, address))| ListenerSocket::new(listener, socket.into(), address));
    let sockets: Vec<_> = sockets.collect();
    tune(&sockets, plans);
    Ok(sockets)
}

/// Accepted sockets have the options of their listener.
pub(super) fn tune(sockets: &[ListenerSocket], plans: &[ListenerPlan]) {
    for (ListenerSocket { socket, .. }, plan) in sockets.iter().zip(plans) {
        sys::tune_socket(*socket, plan.socket());
    }
}

/// Binds a listener's socket, if need be beside those of the process that this one replaces.
fn bind_after(predecessor: Option<&Predecessor>, listener: &Listener) -> Result<(OwnedFd, SocketAddr), StartError> {
    let left = predecessor.into_iter().flat_map(Predecessor::left_listeners);
    let left = left.filter(|(bind, _)| listener.overlaps(*bind)).map(|(bind, socket)| (bind, Fd(socket.as_raw_fd())));
    let left: Vec<_> = left.collect();
    if left.is_empty() {
        return bind(listener);
    }
    let (socket, beside) = Beside::bind(listener, left)?;
    beside.listen()?;
    Ok((socket, listener.bind))
}

fn bind(listener: &Listener) -> Result<(OwnedFd, SocketAddr), StartError> {
    let socket = sys::listen(listener.bind, listener.listen_backlog).map_err(|error| StartError::Bind {
        listener: listener.name.clone(),
        address: listener.bind,
        error,
    })?;
    let address = sys::local_address(Fd(socket.as_raw_fd())).unwrap_or(listener.bind);
    Ok((socket, address))
}

/// The descriptors that were handed over, with their names: those of this process alone, since its children have the
/// same environment.
fn numbered(variable: impl Fn(&str) -> Option<String>, own_pid: u32) -> Result<Vec<(i32, String)>, StartError> {
    if variable("LISTEN_PID").and_then(|pid| pid.parse().ok()) != Some(own_pid) {
        return Ok(Vec::new());
    }
    let count = variable("LISTEN_FDS").unwrap_or_default();
    let count: u16 = count
        .parse()
        .map_err(|_| StartError::Inherited(format!("LISTEN_FDS is \"{count}\", and must be how many there are")))?;
    let names = variable("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    Ok((FIRST..FIRST + i32::from(count)).map(|number| (number, names.next().unwrap_or("unknown").to_owned())).collect())
}

fn take_over(numbered: &[(i32, String)]) -> Result<Vec<Inherited>, StartError> {
    let take = |(number, name): &(i32, String)| {
        let (socket, address) = sys::inherited_listener(*number).map_err(|error| {
            StartError::Inherited(format!(
                "\"{name}\" (descriptor {number}) is no listening TCP socket: {error}; a listener takes ListenStream= with \
                 an address and a port, and Accept=no"
            ))
        })?;
        Ok(Inherited { socket, address, name: name.clone() })
    };
    numbered.iter().map(take).collect()
}

/// Which of those handed over is the listener's: one of its name, or else one that listens where it would.
fn position_for(listener: &Listener, inherited: &[Inherited]) -> Result<Option<usize>, StartError> {
    let named: Vec<usize> = (0..inherited.len()).filter(|&at| *inherited[at].name == *listener.name).collect();
    match named[..] {
        [] => Ok(inherited.iter().position(|socket| socket.address == listener.bind)),
        [index] => Ok(Some(index)),
        [_, _, ..] => Err(StartError::Inherited(format!(
            "{} are called \"{}\", and a listener has one: write a [[listener]] for each, and give each ListenStream= a \
             socket unit of its own with its FileDescriptorName=",
            named.len(),
            listener.name
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Result<Vec<(i32, String)>, String> {
        let find =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        numbered(find, 7).map_err(|error| error.to_string())
    }

    #[test]
    fn descriptors_are_numbered_from_three_and_named_in_order() {
        let named = [("LISTEN_PID", "7"), ("LISTEN_FDS", "3"), ("LISTEN_FDNAMES", "public:ringwall.socket")];
        let expected = [(3, "public"), (4, "ringwall.socket"), (5, "unknown")];
        assert_eq!(environment(&named).unwrap(), expected.map(|(number, name)| (number, name.to_owned())));
        assert_eq!(environment(&named[..2]).unwrap().len(), 3);
    }

    #[test]
    fn those_of_another_process_are_not_taken() {
        for variables in [&[][..], &[("LISTEN_FDS", "1")], &[("LISTEN_PID", "8"), ("LISTEN_FDS", "1")]] {
            assert_eq!(environment(variables), Ok(vec![]));
        }
    }

    #[test]
    fn a_count_that_is_none_is_told() {
        assert_eq!(
            environment(&[("LISTEN_PID", "7"), ("LISTEN_FDS", "-1")]).unwrap_err(),
            "a socket that the service manager hands over: LISTEN_FDS is \"-1\", and must be how many there are"
        );
    }
}
