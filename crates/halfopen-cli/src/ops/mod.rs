//! What an operator does: look, steer, check, explain.

use clap::Subcommand;

use crate::args::Shared;

/// Commands of the operator.
#[derive(Debug, Subcommand)]
pub enum OpsCommand {
    /// Show every circuit
    Status,
}

/// Carries out a command; returns the exit code.
pub fn run(_shared: &Shared, _command: &OpsCommand) -> u8 {
    crate::exit::FAILED
}
