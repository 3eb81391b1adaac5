//! What administrators and Prometheus ask over HTTP, on a thread of its own: whatever they do, signals are obeyed and the
//! log is written without delay.
//!
//! It reads what the data plane counts, where that is, and orders nothing that the data plane waits for. Everything is
//! bounded: connections, the size of a request, the time of an exchange. There is one exchange to a connection.
//!
//! Read `tests/blackbox/metrics.rs` first.

pub mod api;
mod asking;
mod changes;
pub mod client;
mod connections;
mod door;
mod exposition;
mod families;
mod process;
mod routes;
mod servers;
mod sessions;
mod sharing;
mod socket;
mod status;

use std::collections::HashSet;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tracing::warn;

pub use self::asking::Way;
pub(super) use self::door::AdminDoor;
pub use self::door::NextDoor;
pub(super) use self::sessions::shown as shown_session;
pub use self::socket::{AdminSocket, set_socket_mode};

use self::connections::State;
use self::door::Entrance;
use super::health;
use super::logging::LogLevels;
use super::reload::Request;
use super::standing::Standing;
use super::{InForce, Rosters};
use crate::ledger::Ledger;
use crate::load::LoadCell;
use crate::metrics::Tally;
use crate::pulse::Pulse;

/// The longest that a request's head may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a request's head at most; the library's least.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// How long accepting pauses when the system has no file descriptor to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a shard shows.
#[derive(Clone, Debug)]
pub struct WatchedShard {
    /// What it counts.
    pub tally: Arc<Tally>,
    /// What it has to do.
    pub load: Arc<LoadCell>,
    /// Whether it is there: one that is told to drain ends with its last session, and answers nothing from then on.
    pub pulse: Pulse,
}

/// What is shown of the program.
#[derive(Clone, Debug)]
pub struct Watched {
    /// What it does.
    pub in_force: InForce,
    /// The backends' servers, and who waits for a place at one.
    pub rosters: Arc<Rosters>,
    /// What health checks have found out about them.
    pub checks: Arc<health::Status>,
    /// In their order.
    pub shards: Vec<WatchedShard>,
    /// What the dispatcher counts.
    pub dispatcher: Arc<Tally>,
    /// The release of the running kernel.
    pub kernel: Box<str>,
}

/// Where administrators connect, what they are shown, and the way to the dispatcher.
pub struct Admin {
    /// Where they connect, if anywhere for the time being.
    pub socket: Option<AdminSocket>,
    /// What they are shown.
    pub watched: Watched,
    /// The way to the dispatcher.
    pub way: Way,
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// What the thread has from the rest of the control plane.
pub(super) struct Ties {
    pub(super) standing: Standing,
    pub(super) log_levels: LogLevels,
    pub(super) reloads: mpsc::Sender<Request>,
    /// Told what was changed, in one line each.
    pub(super) changes: mpsc::Sender<String>,
}

/// What each exchange works with.
struct Desk {
    watched: Watched,
    way: Way,
    standing: Standing,
    log_levels: LogLevels,
    reloads: mpsc::Sender<Request>,
    changes: mpsc::Sender<String>,
    /// The listeners that an operator has closed, by the numbers of their ledgers.
    drained: Mutex<HashSet<u32>>,
}

impl Desk {
    /// Whether somebody who has come in so may change something. Who came to a port may not, whatever a reload has made of
    /// the configuration meanwhile.
    fn changes_allowed(&self, entrance: Entrance) -> bool {
        let running = self.watched.in_force.read();
        entrance == Entrance::Socket && running.config.admin.as_ref().is_some_and(|admin| admin.allow_changes)
    }

    fn is_drained(&self, listener: &Ledger) -> bool {
        self.drained.lock().unwrap_or_else(PoisonError::into_inner).contains(&listener.number())
    }

    fn note_drained(&self, listener: &Ledger, drained: bool) {
        let mut all = self.drained.lock().unwrap_or_else(PoisonError::into_inner);
        if drained {
            all.insert(listener.number())
        } else {
            all.remove(&listener.number())
        };
    }
}

impl Admin {
    /// Starts the thread. It ends with the program; what is given back is to be kept until then.
    pub(super) fn start(self, ties: Ties) -> io::Result<AdminDoor> {
        let Self { mut socket, watched, way } = self;
        if let Some(Err(error)) = socket.as_mut().map(AdminSocket::own) {
            // Not worth the connections of clients: who took over from another process has no way back.
            warn!(target: "ringwall::control", %error, "the file of the admin socket cannot be made this process's own");
        }
        let Ties { standing, log_levels, reloads, changes } = ties;
        let drained = Mutex::default();
        AdminDoor::open(socket, Arc::new(Desk { watched, way, standing, log_levels, reloads, changes, drained }))
    }
}

async fn exchange(stream: impl AsyncRead + AsyncWrite + Unpin, desk: Arc<Desk>, state: State, entrance: Entrance) {
    let answer = service_fn(|mut request: hyper::Request<Incoming>| {
        let (desk, state) = (Arc::clone(&desk), state.clone());
        async move {
            if let Err(error) = read_to_end(request.body_mut()).await {
                return Ok::<_, Infallible>(routes::incomplete(&error));
            }
            state.answering();
            let answer = desk.answer(&request, entrance).await;
            state.waiting();
            Ok(answer)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer);
    // Whoever asked is gone, or learns of it.
    drop(served.await);
}

/// Nothing is asked for in a body; but what breaks off was not meant to be obeyed.
async fn read_to_end(body: &mut Incoming) -> hyper::Result<()> {
    while let Some(frame) = body.frame().await {
        frame?;
    }
    Ok(())
}
