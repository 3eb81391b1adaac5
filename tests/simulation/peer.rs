//! What is on the far side of the process under test: clients and servers without a kernel.

use ringwall::io::{Address, Errno};

use super::endpoint::Found;
use super::sim::Sim;
use super::world::{Answer, EndpointId};

/// What a peer's read found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Bytes(Vec<u8>),
    /// Nothing yet.
    Nothing,
    /// The other side shut its write side, in order.
    End,
    /// The connection was cut.
    Failed(Errno),
}

/// The far end of a connection. It acts at once, at the world's time; nothing it does waits. Dropped, it closes.
pub(crate) struct Peer {
    sim: Sim,
    id: EndpointId,
    open: bool,
}

impl Peer {
    pub(super) const fn new(sim: Sim, id: EndpointId) -> Self {
        Self { sim, id, open: true }
    }

    /// Writes what the buffers on the way take, maybe nothing.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        self.sim.world().write(self.id, bytes)
    }

    /// Reads up to `max` bytes of what has arrived.
    pub(crate) fn read(&mut self, max: usize) -> Read {
        match self.sim.world().read(self.id, max) {
            Found::Bytes(bytes) => Read::Bytes(bytes),
            Found::Nothing => Read::Nothing,
            Found::End => Read::End,
            Found::Failed(errno) => Read::Failed(errno),
        }
    }

    /// Sends FIN; reading goes on.
    pub(crate) fn shutdown_write(&mut self) {
        self.sim.world().shut(self.id);
    }

    /// Cuts the connection with a reset.
    pub(crate) fn reset(mut self) {
        self.open = false;
        self.sim.world().reset(self.id);
    }

    /// Closes: with unread data that is a reset, as in the kernel.
    pub(crate) fn close(self) {
        drop(self);
    }

    /// Whether something has happened at this end since the last call: bytes came, room came, or an end.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.sim.world().endpoint(self.id).changed)
    }

    /// What can be asked of the connection also when this end is gone.
    pub(crate) fn witness(&self) -> Witness {
        Witness { sim: self.sim.clone(), id: self.id }
    }

    /// Its own address, as the process under test sees it; `None` for unix sockets.
    pub(crate) fn address(&self) -> Option<std::net::SocketAddr> {
        self.sim.world().endpoint(self.id).local
    }

    /// The address of the end that the process under test has; `None` for unix sockets.
    pub(crate) fn remote_address(&self) -> Option<std::net::SocketAddr> {
        self.sim.world().endpoint(self.id).remote
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if self.open && !std::thread::panicking() {
            self.sim.world().close_end(self.id);
        }
    }
}

/// Sees both ends of a connection.
pub(crate) struct Witness {
    sim: Sim,
    id: EndpointId,
}

impl Witness {
    /// Bytes that this end has sent and that have arrived in the kernel of the process under test.
    pub(crate) fn arrived(&self) -> u64 {
        self.sim.world().endpoint(self.id.other()).arrived_total()
    }

    /// Whether the process under test has a socket for it.
    pub(crate) fn is_held(&self) -> bool {
        self.sim.world().files.connections().any(|id| id == self.id.other())
    }

    /// Bytes for this end that it has not read, and that are still on the way to it.
    pub(crate) fn unread(&self) -> usize {
        self.sim.world().endpoint(self.id).outstanding()
    }

    /// Whether a FIN has come to this end.
    pub(crate) fn has_ended(&self) -> bool {
        self.sim.world().endpoint(self.id).has_ended()
    }

    /// Whether a FIN has gone from this end.
    pub(crate) fn has_shut(&self) -> bool {
        self.sim.world().endpoint(self.id).fin_sent
    }

    /// Whether a reset has gone from this end.
    pub(crate) fn has_cut(&self) -> bool {
        self.sim.world().endpoint(self.id).reset_sent
    }

    /// Whether a reset has come to this end.
    pub(crate) fn was_cut(&self) -> bool {
        self.sim.world().endpoint(self.id).is_reset()
    }
}

/// A server that the process under test connects to.
pub(crate) struct Server {
    sim: Sim,
    address: Address,
}

impl Server {
    pub(super) const fn new(sim: Sim, address: Address) -> Self {
        Self { sim, address }
    }

    /// The next connection, oldest first.
    pub(crate) fn accept(&self) -> Option<Peer> {
        let id = self.sim.world().take_connection(&self.address)?;
        Some(Peer::new(self.sim.clone(), id))
    }

    /// Takes connections from now on, also those that [`Server::ignore`] left waiting.
    pub(crate) fn listen(&self) {
        self.sim.world().serve(&self.address, Answer::Accept);
    }

    /// Refuses connections from now on.
    pub(crate) fn refuse(&self) {
        self.sim.world().serve(&self.address, Answer::Refuse);
    }

    /// Answers connection attempts with `EAGAIN` from now on, as a unix socket with a full backlog does.
    pub(crate) fn be_busy(&self) {
        self.sim.world().serve(&self.address, Answer::Busy);
    }

    /// Leaves connection attempts without an answer from now on.
    pub(crate) fn ignore(&self) {
        self.sim.world().serve(&self.address, Answer::Ignore);
    }
}
