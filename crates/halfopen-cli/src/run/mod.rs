//! `halfopen run`: wraps a command.

mod args;
pub mod child;

pub use args::{ActionArg, RunArgs};

use crate::args::Shared;

/// Runs a command; returns the exit code.
pub fn run(_shared: &Shared, _args: &RunArgs) -> u8 {
    crate::exit::FAILED
}
