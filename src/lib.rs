//! ringwall: a TLS-terminating reverse proxy for Valkey and Redis on io_uring.

pub mod io;
pub mod pool;
pub mod time;
pub mod tls;
