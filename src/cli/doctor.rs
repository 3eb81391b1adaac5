//! `ringwall doctor`.

use std::path::PathBuf;

use clap::Args;

/// What to look at, and for whom.
#[derive(Debug, Args)]
pub struct Doctor {
    /// The configuration file; without one only the machine is looked at
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Ask a ringwall that runs with the configuration for a handshake on each listener, and look at nothing else: for the
    /// health checks of containers
    #[arg(long, requires = "config")]
    pub live: bool,

    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}
