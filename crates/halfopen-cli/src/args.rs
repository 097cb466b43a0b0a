//! Lists what can be written on the command line.

use std::ffi::OsString;
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
    /// Answer HTTP calls in a dependency's place: a program changes its base URL and nothing else
    Serve(Box<crate::serve::ServeArgs>),
    /// Rehearse outages with your own policy: real engine, virtual time, every row asserted
    Drill(Box<crate::drill::DrillArgs>),
    /// Watch an outage in a minute: an OCR that hangs, a gateway before it, and what becomes of 20 invoices
    Demo(Box<crate::demo::DemoArgs>),
    /// Do what was queued, as far as circuits let it, and end: for cron, and for machines without a daemon
    Drain(crate::drain::DrainArgs),
    /// Everything an operator does.
    #[command(flatten)]
    Ops(crate::ops::OpsCommand),
}

/// The same command line as far as `run` needs it.
///
/// clap builds what every command understands before it looks at the first word. That is a fifth of all instructions
/// of a guarded call that succeeds, for twelve commands that were not asked for.
#[derive(Debug, Parser)]
#[command(name = "halfopen")]
struct OnlyRun {
    #[command(flatten)]
    shared: Shared,
    #[command(subcommand)]
    command: Run,
}

#[derive(Debug, Subcommand)]
enum Run {
    Run(Box<crate::run::RunArgs>),
}

impl Cli {
    /// Reads the command line of this process.
    ///
    /// # Errors
    ///
    /// [`clap::Error`], which also is how help and the version are asked for.
    pub fn read() -> Result<Self, clap::Error> {
        Self::read_from(std::env::args_os().collect())
    }

    fn read_from(words: Vec<OsString>) -> Result<Self, clap::Error> {
        // Whatever is not plainly a run is left to the whole, so that help and errors have one source.
        if words.get(1).is_some_and(|word| word == "run")
            && let Ok(OnlyRun { shared, command: Run::Run(args) }) = OnlyRun::try_parse_from(&words)
        {
            return Ok(Self { shared, command: Command::Run(args) });
        }
        Self::try_parse_from(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("halfopen run -- true"; "nothing but a command")]
    #[test_case("halfopen run --dep ocr --store a.db --policy p.yaml -n -- curl --store b.db"; "shared flags behind the command")]
    #[test_case("halfopen --store a.db run --dep ocr -- true"; "shared flags before the command")]
    #[test_case("halfopen run --on-open queue,fail_fast --max-wait 6h -- x run"; "lists and durations")]
    #[test_case("halfopen run"; "no command")]
    #[test_case("halfopen run --attempts 0 -- true"; "nonsense")]
    #[test_case("halfopen run --stoer a.db -- true"; "a typing error")]
    #[test_case("halfopen run --help"; "help")]
    #[test_case("halfopen run --version"; "version")]
    #[test_case("halfopen help run"; "help by name")]
    #[test_case("halfopen status"; "another command")]
    fn short_way_reads_what_the_whole_reads(line: &str) {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let whole = Cli::try_parse_from(&words);
        let short = Cli::read_from(words);
        let shown =
            |read: Result<Cli, clap::Error>| read.map(|cli| format!("{cli:?}")).map_err(|error| error.to_string());
        assert_eq!(shown(short), shown(whole));
    }
}
