//! `halfopen completions SHELL`.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::{Done, OK, out};
use crate::args::Cli;

/// Arguments of `halfopen completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "halfopen", &mut script);
    out::text(&String::from_utf8_lossy(&script))?;
    OK
}
