//! The connections of administrators: a bounded number, and none that waits for its client keeps another one out.
//!
//! Where there is no room for a newcomer, the oldest that waits for its client makes some: it has not said yet what it
//! wants, or does not take its answer. One that is being answered waits for ringwall alone and is left to its end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet, yield_now};
use tokio::time::timeout;

/// Connections that are open at once; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 16;
/// The longest that a connection may take, from its first byte to its last.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(30);
/// How often it is looked whether one of those that are answered has become one that waits, where all are answered.
const LOOK: Duration = Duration::from_millis(50);

/// Those that are open, the oldest first.
#[derive(Default)]
pub(super) struct Connections {
    open: VecDeque<Connection>,
    exchanges: JoinSet<()>,
}

struct Connection {
    exchange: AbortHandle,
    state: State,
}

/// What an exchange says of itself. Clones are the same state.
#[derive(Clone, Default)]
pub(super) struct State(Arc<AtomicBool>);

impl State {
    /// The request is there and ringwall is at work.
    pub(super) fn answering(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// It is the client's turn.
    pub(super) fn waiting(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn is_waiting(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

impl Connections {
    /// Begins one more exchange, once there is room for it.
    pub(super) async fn begin<E: Future<Output = ()> + Send + 'static>(&mut self, exchange: impl FnOnce(State) -> E) {
        self.make_room().await;
        let state = State::default();
        let exchange = exchange(state.clone());
        let bounded = async {
            // A client that is slow or gone has had its chance.
            drop(timeout(EXCHANGE_TIMEOUT, exchange).await);
        };
        self.open.push_back(Connection { exchange: self.exchanges.spawn(bounded), state });
        // A request that has come with its connection is read before a crowd behind it can take its place.
        yield_now().await;
    }

    async fn make_room(&mut self) {
        while self.exchanges.try_join_next().is_some() {}
        while self.exchanges.len() >= CONNECTIONS_MAX {
            if let Some(oldest) = self.open.iter().find(|connection| connection.state.is_waiting()) {
                oldest.exchange.abort();
            }
            drop(timeout(LOOK, self.exchanges.join_next()).await);
        }
        self.open.retain(|connection| !connection.exchange.is_finished());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Our end of a connection, and what serves the other: it echoes one byte, and waits for the client's end then.
    fn connection() -> (UnixStream, impl FnOnce(State) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>) {
        let (near, far) = UnixStream::pair().unwrap();
        far.set_nonblocking(true).unwrap();
        let exchange = |_state| -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(async move {
                let mut far = tokio::net::UnixStream::from_std(far).unwrap();
                let mut byte = [0];
                if far.read_exact(&mut byte).await.is_ok() {
                    far.write_all(&byte).await.unwrap();
                }
                let _ = far.read_exact(&mut byte).await;
            })
        };
        (near, exchange)
    }

    /// Whether the other end is there and has said nothing more.
    fn is_open(mut near: &UnixStream) -> bool {
        near.set_nonblocking(true).unwrap();
        near.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[test]
    fn the_oldest_that_waits_for_its_client_makes_room() {
        let open = runtime().block_on(async {
            let mut connections = Connections::default();
            let mut clients = Vec::new();
            for _ in 0..20 {
                let (near, exchange) = connection();
                clients.push(near);
                connections.begin(exchange).await;
            }
            clients.iter().map(is_open).collect::<Vec<_>>()
        });
        assert_eq!(open, [[false; 4].as_slice(), &[true; 16]].concat());
    }

    #[test]
    fn one_that_is_being_answered_is_left_to_its_end() {
        runtime().block_on(async {
            let mut connections = Connections::default();
            let (answered, exchange) = connection();
            connections
                .begin(|state| {
                    state.answering();
                    exchange(state)
                })
                .await;
            let mut clients = Vec::new();
            for _ in 0..40 {
                let (near, exchange) = connection();
                clients.push(near);
                connections.begin(exchange).await;
            }
            assert!(is_open(&answered));
            assert_eq!(clients.iter().filter(|near| is_open(near)).count(), 15);
        });
    }

    #[test]
    fn a_request_that_came_with_its_connection_is_read_whoever_crowds_in_behind_it() {
        runtime().block_on(async {
            let mut connections = Connections::default();
            let (mut probe, exchange) = connection();
            probe.write_all(b"?").unwrap();
            connections.begin(exchange).await;
            for _ in 0..CONNECTIONS_MAX {
                let (near, exchange) = connection();
                connections.begin(exchange).await;
                std::mem::forget(near);
            }
            let mut byte = [0];
            probe.read_exact(&mut byte).unwrap();
            assert_eq!(&byte, b"?");
        });
    }
}
