//! The real program between real clients and a real server.
//!
//! Each test starts its own server and its own ringwall on ports and sockets of its own, waits for what it is told
//! (readiness, log lines, ends of streams) and never for time to pass. `RINGWALL_BINARY` runs the same tests against
//! another build. `tests/run.sh` installs the programs and client libraries that the tests call.
#![expect(clippy::unwrap_used, reason = "in a test an unexpected error is a failure")]

mod admin;
mod certificates;
mod changing;
mod client;
mod commands;
mod haproxy;
mod process;
mod resp;
mod ringwall;
#[path = "../simulation/rng.rs"]
#[expect(dead_code, reason = "simulations draw more")]
mod rng;
mod scripted;
mod sentinel;
mod server;
mod terminal;
mod workload;

mod abrupt_ends;
mod administration;
mod byte_exactness;
mod client_names;
mod cluster;
mod ctl;
mod differential;
mod drain;
mod elsewhere;
mod health;
mod idle_crowds;
mod listener_limits;
mod listeners_and_servers;
mod logs;
mod losses;
mod metrics;
mod multiplex;
mod odd_talkers;
mod open_servers;
mod orderly_ends;
mod pools;
mod proxy_protocol;
mod real_clients;
mod reconfiguration;
mod refusals;
mod rejected_starts;
mod reload;
mod replication;
mod rights;
mod sentinels;
mod server_features;
mod shared_requests;
mod storms;
mod takeover;
mod tls_servers;
mod tls_versions;
mod top;
mod transports;
mod users;
