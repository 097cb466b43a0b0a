//! Lists what can be written on the command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

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
            && let Ok(matches) = OnlyRun::command().try_get_matches_from(&words)
            && let Ok(OnlyRun { shared, command: Run::Run(mut args) }) = OnlyRun::from_arg_matches(&matches)
        {
            if let Some(given) = matches.subcommand_matches("run") {
                args.forget_key_of_another(given);
            }
            return Ok(Self { shared, command: Command::Run(args) });
        }
        let error = match Self::try_parse_from(&words) {
            Ok(cli) => return Ok(cli),
            Err(error) => error,
        };
        if !error.use_stderr() {
            return Err(error);
        }
        // clap's own usage line of a mistake lists what was given, and takes what a variable gave for something that must be.
        let plain = |command: &mut clap::Command| {
            let usage = command.render_usage().to_string();
            usage.trim_start_matches("Usage: ").to_owned()
        };
        let mut command = with_usage(Self::command(), &plain);
        let matches = command.try_get_matches_from_mut(&words)?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
}

/// Returns a command whose usage line, and that of every command below it, is what `usage` writes.
pub(crate) fn with_usage(mut command: clap::Command, usage: &dyn Fn(&mut clap::Command) -> String) -> clap::Command {
    fn fix(command: &mut clap::Command, usage: &dyn Fn(&mut clap::Command) -> String) {
        let text = usage(command);
        command.get_subcommands_mut().for_each(|below| fix(below, usage));
        *command = std::mem::take(command).override_usage(text);
    }
    command.build();
    fix(&mut command, usage);
    command
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use test_case::test_case;

    /// Variables that halfopen sets or reads beside flags: none of them may be a flag's, too.
    const NO_FLAGS: [&str; 5] =
        ["HALFOPEN_TOKEN", "HALFOPEN_JOB", "HALFOPEN_RUN_OUTER", "HALFOPEN_JOB_ID", "HALFOPEN_EVENT_ID"];

    /// Returns every flag of a command and those below it, with the words that lead to it.
    fn flags(path: &str, command: &clap::Command, found: &mut Vec<(String, clap::Arg)>) {
        let own = command.get_arguments().filter(|arg| arg.get_long().is_some());
        found.extend(own.map(|arg| (path.to_owned(), arg.clone())));
        for below in command.get_subcommands() {
            flags(&format!("{path} {}", below.get_name()), below, found);
        }
    }

    fn all_flags() -> Vec<(String, clap::Arg)> {
        let mut found = Vec::new();
        flags("halfopen", &Cli::command(), &mut found);
        assert!(found.len() > 80, "the tree was walked");
        found
    }

    /// A variable that is exported for one command must not change what another does: it stands for one flag, with one
    /// meaning and one kind of value. What `--json` prints differs by command; that it is the output that turns into JSON
    /// does not.
    #[test]
    fn a_variable_means_the_same_wherever_it_is_read() {
        let mut meanings: BTreeMap<String, (String, String)> = BTreeMap::new();
        for (path, arg) in all_flags() {
            let Some(variable) = arg.get_env().map(|name| name.to_string_lossy().into_owned()) else { continue };
            assert!(!NO_FLAGS.contains(&variable.as_str()), "{path}: {variable} is set by halfopen itself");
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let help = match variable.as_str() {
                "HALFOPEN_JSON" => help.split(' ').next().unwrap_or_default().to_owned(),
                _ => help,
            };
            let meaning = format!(
                "--{}: {help} ({:?}, {:?}, {:?}, {:?})",
                arg.get_long().unwrap_or_default(),
                arg.get_value_names(),
                arg.get_action(),
                arg.get_default_values(),
                arg.get_value_parser().type_id(),
            );
            let (first, known) = meanings.entry(variable.clone()).or_insert_with(|| (path.clone(), meaning.clone()));
            assert_eq!(*known, meaning, "{variable} is one thing in `{first}` and another in `{path}`");
        }
    }

    /// What is wrong is said by the whole, with the usage as `--help` shows it.
    #[test_case("halfopen run", "<CMD>"; "no command")]
    #[test_case("halfopen run --attempts 0 -- true", "--attempts"; "nonsense")]
    #[test_case("halfopen run --stoer a.db -- true", "--stoer"; "a typing error")]
    #[test_case("halfopen run --version", "--version"; "a flag of another place")]
    fn a_mistake_is_told_with_the_usage_of_its_command(line: &str, about: &str) {
        let told = Cli::read_from(line.split(' ').map(OsString::from).collect()).unwrap_err().to_string();
        assert!(told.contains(about), "{told}");
        let usage = told.lines().find(|line| line.starts_with("Usage: "));
        assert!(usage.is_none_or(|usage| usage == "Usage: halfopen run [OPTIONS] -- <CMD>..."), "{told}");
    }

    /// DESIGN.md section 12.
    #[test]
    fn every_flag_has_a_variable() {
        let bare: Vec<String> = all_flags()
            .into_iter()
            // What only our own child is told is no flag of anybody's.
            .filter(|(_, arg)| arg.get_env().is_none() && !arg.is_hide_set())
            .map(|(path, arg)| format!("{path} --{}", arg.get_long().unwrap_or_default()))
            .collect();
        assert_eq!(bare, Vec::<String>::new());
    }

    #[test_case("halfopen run -- true"; "nothing but a command")]
    #[test_case("halfopen run --dep ocr --store a.db --policy p.yaml -n -- curl --store b.db"; "shared flags behind the command")]
    #[test_case("halfopen --store a.db run --dep ocr -- true"; "shared flags before the command")]
    #[test_case("halfopen run --on-open queue,fail_fast --max-wait 6h -- x run"; "lists and durations")]
    #[test_case("halfopen run --help"; "help")]
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
