//! Many clients over few connections.

mod commands;
pub mod route;
