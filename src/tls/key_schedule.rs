//! What stays of the library's connection when its handshake is over: the key schedule, and where tickets go.

use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;

use super::alert::Fault;
use super::record::Keys;

/// The key schedule of an open connection of TLS 1.3. Boxed, because it is used once in 2^24 records.
pub(super) enum KeySchedule {
    Server(Box<KernelConnection<ServerConnectionData>>),
    Client(Box<KernelConnection<ClientConnectionData>>),
}

impl KeySchedule {
    /// The next keys for sending (RFC 8446, section 7.2). Those before are good for nothing more.
    pub(super) fn next_for_sending(&mut self) -> Result<Keys, Fault> {
        let secrets = match self {
            Self::Server(connection) => connection.update_tx_secret(),
            Self::Client(connection) => connection.update_tx_secret(),
        };
        secrets.ok().and_then(Keys::extracted).ok_or(Fault::internal())
    }

    /// The next keys for receiving.
    pub(super) fn next_for_receiving(&mut self) -> Result<Keys, Fault> {
        let secrets = match self {
            Self::Server(connection) => connection.update_rx_secret(),
            Self::Client(connection) => connection.update_rx_secret(),
        };
        secrets.ok().and_then(Keys::extracted).ok_or(Fault::internal())
    }

    /// Keeps a ticket of the server for the connections to come (RFC 8446, section 4.6.1); `body` is that of the
    /// message. A client sends none.
    pub(super) fn take_ticket(&mut self, body: &[u8]) -> Result<(), Fault> {
        match self {
            Self::Server(_) => Err(Fault::unexpected()),
            Self::Client(connection) => connection.handle_new_session_ticket(body).map_err(|_| Fault::malformed()),
        }
    }
}
