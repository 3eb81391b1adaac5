//! `ringwall doctor`.

use std::path::PathBuf;

use clap::Args;

/// What to look at, and for whom.
#[derive(Debug, Args)]
pub struct Doctor {
    /// The configuration file; without one only the machine is looked at
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Print JSON, for programs
    #[arg(long)]
    pub json: bool,
}
