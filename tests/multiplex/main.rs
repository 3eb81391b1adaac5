//! The multiplexer without a socket, between simulated clients and a small server.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod examples;
mod faults;
mod properties;
mod real;
mod redis;
mod rights;
mod server;
mod talk;
mod times;
mod world;
