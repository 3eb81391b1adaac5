//! Where administrators come in: a socket, which a reload may exchange for another, or none.
//!
//! Whoever has come in is served to the end, wherever the next one comes in.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

use super::connections::Connections;
use super::socket::{AdminSocket, Listener, SocketFile};
use super::{ACCEPT_PAUSE, Desk, exchange};

/// How somebody has come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entrance {
    /// Through a port of loopback: anybody of this host.
    Port,
    /// Through a unix socket, which has permissions.
    Socket,
}

/// What becomes of the door with a reload.
#[derive(Debug, Default)]
pub enum NextDoor {
    /// It stays where it is.
    #[default]
    Same,
    /// It is there, or nowhere.
    Other(Option<AdminSocket>),
}

/// The control plane's hold on the door. The socket's file goes when this is dropped.
pub(in crate::control) struct AdminDoor {
    desk: Arc<Desk>,
    file: Option<SocketFile>,
    /// From the first socket on.
    serving: Option<Serving>,
}

/// The thread that serves whoever comes in.
struct Serving {
    within: Handle,
    doors: UnboundedSender<Door>,
}

/// What clients come in by, within the thread's runtime.
enum Door {
    Port(TcpListener),
    Socket(UnixListener),
    Closed,
}

/// Who has come in.
enum Visitor {
    Port(TcpStream),
    Socket(UnixStream),
}

impl AdminDoor {
    pub(super) fn open(socket: Option<AdminSocket>, desk: Arc<Desk>) -> io::Result<Self> {
        let mut door = Self { desk, file: None, serving: None };
        door.exchange(socket)?;
        Ok(door)
    }

    /// Whoever comes in comes in there from now on, or not at all.
    pub(in crate::control) fn exchange(&mut self, socket: Option<AdminSocket>) -> io::Result<()> {
        let serving = match &mut self.serving {
            Some(serving) => serving,
            None if socket.is_none() => return Ok(()),
            nobody => nobody.insert(Serving::start(Arc::clone(&self.desk))?),
        };
        let (listener, file) = socket.map(AdminSocket::into_parts).unzip();
        let door = {
            let _within = serving.within.enter();
            Door::of(listener)?
        };
        self.file = file.flatten();
        // The thread is there until the program ends.
        let _ = serving.doors.send(door);
        Ok(())
    }

    /// Lets nobody more in: another process does, and has the file.
    pub(in crate::control) fn leave(&mut self) {
        if let Some(file) = &mut self.file {
            file.disown();
        }
        if let Some(serving) = &self.serving {
            let _ = serving.doors.send(Door::Closed);
        }
    }
}

impl Serving {
    /// Starts the thread. It ends with the program.
    fn start(desk: Arc<Desk>) -> io::Result<Self> {
        let (doors, doors_there) = unbounded_channel();
        let (handle, handle_there) = mpsc::channel();
        // The runtime is the thread's from the beginning: it must not be dropped by another one that has its own.
        let body = move || match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let _ = handle.send(Ok(runtime.handle().clone()));
                runtime.block_on(serve(desk, doors_there));
            }
            Err(error) => drop(handle.send(Err(error))),
        };
        thread::Builder::new().name("admin".to_owned()).spawn(body)?;
        Ok(Self { within: handle_there.recv().map_err(io::Error::other)??, doors })
    }
}

impl Door {
    /// To be called within the runtime.
    fn of(listener: Option<Listener>) -> io::Result<Self> {
        Ok(match listener {
            Some(Listener::Tcp(listener)) => Self::Port(TcpListener::from_std(listener)?),
            Some(Listener::Unix(listener)) => Self::Socket(UnixListener::from_std(listener)?),
            None => Self::Closed,
        })
    }

    /// Who comes in next. May be given up at any moment.
    async fn next(&self) -> io::Result<Visitor> {
        match self {
            Self::Port(listener) => listener.accept().await.map(|(stream, _)| Visitor::Port(stream)),
            Self::Socket(listener) => listener.accept().await.map(|(stream, _)| Visitor::Socket(stream)),
            Self::Closed => std::future::pending().await,
        }
    }
}

/// Serves for ever.
async fn serve(desk: Arc<Desk>, mut doors: UnboundedReceiver<Door>) {
    let (mut door, mut connections) = (Door::Closed, Connections::default());
    loop {
        let visitor = tokio::select! {
            // Those that wait at a door first, since they would be cut off with it.
            biased;
            visitor = door.next() => visitor,
            Some(next) = doors.recv() => {
                door = next;
                continue;
            }
        };
        let desk = Arc::clone(&desk);
        match visitor {
            Ok(Visitor::Port(stream)) => {
                connections.begin(|state| exchange(stream, desk, state, Entrance::Port)).await;
            }
            Ok(Visitor::Socket(stream)) => {
                connections.begin(|state| exchange(stream, desk, state, Entrance::Socket)).await;
            }
            // None that concerns one client alone would come again at once.
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}
