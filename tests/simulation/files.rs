//! The file descriptors of the process under test.

use std::collections::{BTreeMap, VecDeque};

use ringwall::io::{Address, Errno, Fd, OpId};

use super::endpoint::Waiter;
use super::sim::DriverId;
use super::world::EndpointId;

/// The first number given out; below are the standard streams.
const FIRST: i32 = 3;

/// What a number stands for.
#[derive(Debug)]
pub(crate) enum File {
    Listener(Listener),
    Socket(Socket),
    Event(u64),
}

#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) address: Address,
    pub(crate) pending: VecDeque<EndpointId>,
    pub(crate) acceptor: Option<Waiter>,
    /// It refuses clients.
    pub(crate) closed: bool,
    pub(crate) busy: Busy,
}

#[derive(Debug)]
pub(crate) struct Socket {
    /// `None` until it is connected.
    pub(crate) endpoint: Option<EndpointId>,
    pub(crate) connector: Option<(DriverId, OpId)>,
    pub(crate) connected: Option<Result<(), Errno>>,
    pub(crate) busy: Busy,
}

/// What its user has pushed for a file and not seen the end of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Busy {
    pub(crate) accept: bool,
    pub(crate) receive: bool,
    pub(crate) send: bool,
    pub(crate) connect: bool,
}

/// One of [`Busy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Accept,
    Receive,
    Send,
    Connect,
}

impl Busy {
    pub(crate) const fn of(&mut self, kind: Kind) -> &mut bool {
        match kind {
            Kind::Accept => &mut self.accept,
            Kind::Receive => &mut self.receive,
            Kind::Send => &mut self.send,
            Kind::Connect => &mut self.connect,
        }
    }

    const fn any(self) -> bool {
        self.accept || self.receive || self.send || self.connect
    }
}

#[derive(Debug, Default)]
pub(crate) struct Files {
    open: BTreeMap<i32, File>,
}

impl Files {
    /// The lowest number that is free, as POSIX demands: a number that was closed too early is somebody else's at once.
    pub(crate) fn open(&mut self, file: File, open_files_max: usize) -> Result<Fd, Errno> {
        if self.open.len() >= open_files_max {
            return Err(Errno(libc::EMFILE));
        }
        let free = (FIRST..).zip(self.open.keys()).find(|(number, used)| number != *used).map(|(number, _)| number);
        let number = free.unwrap_or_else(|| self.open.last_key_value().map_or(FIRST, |(last, _)| last + 1));
        self.open.insert(number, file);
        Ok(Fd(number))
    }

    pub(crate) fn is_full(&self, open_files_max: usize) -> bool {
        self.open.len() >= open_files_max
    }

    pub(crate) fn close(&mut self, fd: Fd) -> File {
        let file = self.open.remove(&fd.0).unwrap_or_else(|| panic!("broken duty: {fd:?} is closed twice"));
        let busy = match &file {
            File::Listener(listener) => listener.busy,
            File::Socket(socket) => socket.busy,
            File::Event(_) => Busy::default(),
        };
        assert!(!busy.any(), "broken duty: {fd:?} is closed with {busy:?} in flight");
        file
    }

    pub(crate) fn listener(&mut self, fd: Fd) -> &mut Listener {
        match self.open.get_mut(&fd.0) {
            Some(File::Listener(listener)) => listener,
            other => panic!("broken duty: {fd:?} is not a listener but {other:?}"),
        }
    }

    pub(crate) fn socket(&mut self, fd: Fd) -> &mut Socket {
        match self.open.get_mut(&fd.0) {
            Some(File::Socket(socket)) => socket,
            other => panic!("broken duty: {fd:?} is not a socket but {other:?}"),
        }
    }

    pub(crate) fn event(&mut self, fd: Fd) -> &mut u64 {
        match self.open.get_mut(&fd.0) {
            Some(File::Event(count)) => count,
            other => panic!("broken duty: {fd:?} is not an eventfd but {other:?}"),
        }
    }

    /// The socket that waits for this connect, if it still does.
    pub(crate) fn connecting(&mut self, fd: Fd, connector: (DriverId, OpId)) -> Option<&mut Socket> {
        match self.open.get_mut(&fd.0) {
            Some(File::Socket(socket)) if socket.connector == Some(connector) => Some(socket),
            _ => None,
        }
    }

    pub(crate) fn listener_at(&self, address: &Address) -> Option<Fd> {
        self.open.iter().find_map(|(&number, file)| match file {
            File::Listener(listener) if listener.address == *address && !listener.closed => Some(Fd(number)),
            File::Listener(_) | File::Socket(_) | File::Event(_) => None,
        })
    }

    /// Marks that an operation is pushed, or that its last completion is taken.
    pub(crate) fn mark(&mut self, fd: Fd, kind: Kind, pushed: bool) {
        let busy = match kind {
            Kind::Accept => &mut self.listener(fd).busy,
            Kind::Receive | Kind::Send | Kind::Connect => &mut self.socket(fd).busy,
        };
        let mark = busy.of(kind);
        assert!(*mark != pushed, "broken duty: two of {kind:?} in flight on {fd:?}");
        *mark = pushed;
    }

    /// The connections of open sockets.
    pub(crate) fn connections(&self) -> impl Iterator<Item = EndpointId> {
        self.open.values().filter_map(|file| match file {
            File::Socket(socket) => socket.endpoint,
            File::Listener(_) | File::Event(_) => None,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// How many sockets are open.
    pub(crate) fn sockets(&self) -> usize {
        self.open.values().filter(|file| matches!(file, File::Socket(_))).count()
    }
}
