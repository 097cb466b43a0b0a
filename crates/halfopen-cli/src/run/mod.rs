//! `halfopen run`: wraps a command.

use clap::Args;

use crate::args::Shared;

/// Arguments of `halfopen run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

/// Runs a command; returns the exit code.
pub fn run(_shared: &Shared, _args: &RunArgs) -> u8 {
    crate::exit::FAILED
}
