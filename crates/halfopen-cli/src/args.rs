//! Lists what can be written on the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Runs commands so that they survive rate limits, overload and outages.
#[derive(Debug, Parser)]
#[command(name = "halfopen", version, about, max_term_width = 100)]
pub struct Cli {
    /// What all commands share.
    #[command(flatten)]
    pub shared: Shared,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What all commands share.
#[derive(Clone, Debug, Args)]
pub struct Shared {
    /// Policy file [default: $XDG_CONFIG_HOME/halfopen/halfopen.yaml, if it exists]
    #[arg(long, global = true, env = "HALFOPEN_POLICY", value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Where circuits are kept: a path, or sqlite:PATH [default: $XDG_STATE_HOME/halfopen/halfopen.db]
    #[arg(long, global = true, env = "HALFOPEN_STORE", value_name = "WHERE")]
    pub store: Option<String>,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command: wait when waiting heals, stop when it does not
    Run(Box<crate::run::RunArgs>),
    /// Everything an operator does.
    #[command(flatten)]
    Ops(crate::ops::OpsCommand),
}
