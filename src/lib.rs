//! ringwall: a TLS-terminating reverse proxy for Valkey and Redis on io_uring.

pub mod config;
pub mod control;
pub mod dispatcher;
pub mod events;
pub mod io;
pub mod load;
pub mod mailbox;
pub mod metrics;
pub mod pool;
pub mod server;
pub mod session;
pub mod shard;
pub mod time;
pub mod tls;
