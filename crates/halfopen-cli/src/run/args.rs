//! Lists what `halfopen run` understands. Every flag has a variable `HALFOPEN_*`.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, ValueEnum};
use halfopen::config::keys::ATTEMPTS_MAX;
use halfopen_core::policy::OnOpenAction;

use super::keep::JOB_VARIABLE;
use super::nested;
use crate::duration::{parse, parse_positive};

/// Set for a command that is told of a job's end.
const EVENT_VARIABLE: &str = "HALFOPEN_EVENT_ID";

/// Arguments of `halfopen run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// The dependency this call goes to [default: the command's base name]
    #[arg(long, env = "HALFOPEN_DEP", value_name = "NAME")]
    pub dep: Option<String>,
    /// The dependency's region: judged apart as NAME@region=REGION
    #[arg(long, env = "HALFOPEN_REGION", value_name = "REGION")]
    pub region: Option<String>,
    /// The credential this call uses: judged apart as NAME@credential=NAME
    #[arg(long, env = "HALFOPEN_CREDENTIAL", value_name = "NAME")]
    pub credential: Option<String>,
    /// A key that is the same for every attempt; the command finds it in HALFOPEN_IDEMPOTENCY_KEY
    #[arg(long, env = "HALFOPEN_IDEMPOTENCY_KEY", value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// What happens to a call that is refused [default: the policy's on_open]
    #[arg(long, env = "HALFOPEN_ON_OPEN", value_name = "ACTION", value_delimiter = ',')]
    pub on_open: Vec<ActionArg>,
    /// Sleep up to this long at once, for example until a usage limit resets [default: the policy's max_wait_sec]
    #[arg(long, env = "HALFOPEN_MAX_WAIT", value_name = "DURATION", value_parser = |w: &str| parse(w))]
    pub max_wait: Option<Duration>,
    /// Go on in the tool's own session after an interruption, where the tool can
    #[arg(long, env = "HALFOPEN_RESUME", value_parser = BoolishValueParser::new())]
    pub resume: bool,
    /// Pass standard output through as it comes; an attempt that wrote is never repeated
    #[arg(long, env = "HALFOPEN_STREAM", value_parser = BoolishValueParser::new())]
    pub stream: bool,
    /// Give the command an empty standard input, as ssh -n does
    #[arg(short = 'n', long = "no-stdin", env = "HALFOPEN_NO_STDIN", value_parser = BoolishValueParser::new())]
    pub no_stdin: bool,
    /// Write what happened to FILE, as JSON
    #[arg(long, env = "HALFOPEN_REPORT", value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write what happened to standard error, as one line of JSON
    #[arg(long, env = "HALFOPEN_RUN_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// How long one attempt may take [default: the policy's timeout_ms, else 10m, agents 4h]
    #[arg(long, env = "HALFOPEN_TIMEOUT", value_name = "DURATION", value_parser = |w: &str| parse_positive(w))]
    pub timeout: Option<Duration>,
    /// How often the command is run at most, the first time included [default: the policy's max_attempts]
    #[arg(long, env = "HALFOPEN_ATTEMPTS", value_name = "N", value_parser = |w: &str| attempts(w))]
    pub attempts: Option<NonZeroU32>,
    /// Say nothing; the exit code and --report speak
    #[arg(short, long, env = "HALFOPEN_QUIET", value_parser = BoolishValueParser::new())]
    pub quiet: bool,
    /// The rule pack that judges the command [default: by the command, else by --dep]
    #[arg(long, env = "HALFOPEN_PROFILE", value_name = "PACK")]
    pub profile: Option<String>,
    /// A variable the queued command needs whose value is read when it runs and never stored; several with commas
    #[arg(long, env = "HALFOPEN_ENV_FROM", value_name = "NAME", value_delimiter = ',', value_parser = |w: &str| variable(w))]
    pub env_from: Vec<String>,
    /// A variable the queued command needs whose value of now is stored with it; several with commas
    #[arg(long, env = "HALFOPEN_ENV", value_name = "NAME", value_delimiter = ',', value_parser = |w: &str| variable(w))]
    pub env: Vec<String>,
    /// Queued commands with the same key are done in the order in which they came
    #[arg(long, env = "HALFOPEN_ORDER_KEY", value_name = "KEY")]
    pub order_key: Option<String>,
    /// How long a queued command is worth doing [default: the policy's queue_ttl_min, else 24h]
    #[arg(long, env = "HALFOPEN_TTL", value_name = "DURATION", value_parser = |w: &str| parse_positive(w))]
    pub ttl: Option<Duration>,
    /// Queue a command also if the same one on the same input waits already
    #[arg(long, env = "HALFOPEN_NO_COALESCE", value_parser = BoolishValueParser::new())]
    pub no_coalesce: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

impl RunArgs {
    /// Forgets an idempotency key that was not meant for this run.
    ///
    /// A command finds the key of the run around it, or of the job that ended, in the very variable that a flag of ours
    /// reads. It is the key of that work: two runs inside would each take the other for a repetition of itself.
    pub(crate) fn forget_key_of_another(&mut self, given: &ArgMatches) {
        let by_variable = given.value_source("idempotency_key") == Some(ValueSource::EnvVariable);
        let told = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if by_variable && [nested::VARIABLE, JOB_VARIABLE, EVENT_VARIABLE].into_iter().any(told) {
            self.idempotency_key = None;
        }
    }
}

/// An action on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum ActionArg {
    /// Say no at once
    FailFast,
    /// Store the call and do it later
    Queue,
    /// Store the call for a person
    ManualReview,
}

impl ActionArg {
    /// Returns the policy's word for it.
    #[must_use]
    pub const fn action(self) -> OnOpenAction {
        match self {
            Self::FailFast => OnOpenAction::FailFast,
            Self::Queue => OnOpenAction::Queue,
            Self::ManualReview => OnOpenAction::ManualReview,
        }
    }
}

/// Reads the name of a variable.
fn variable(word: &str) -> Result<String, String> {
    let of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if word.is_empty() || word.starts_with(|c: char| c.is_ascii_digit()) || !word.chars().all(of_a_name) {
        // Not quoted: what stands behind a `=` may be the very secret that is not to be shown.
        return Err("write the name of a variable alone, for example OCR_TOKEN; its value is read from it".to_owned());
    }
    Ok(word.to_owned())
}

/// Reads a number of attempts, within the bound that holds for the policy's.
fn attempts(word: &str) -> Result<NonZeroU32, String> {
    let n = word.parse().ok().filter(|n: &NonZeroU32| n.get() <= ATTEMPTS_MAX);
    n.ok_or_else(|| format!("`{word}` is no number from 1 to {ATTEMPTS_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use test_case::test_case;

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        run: RunArgs,
    }

    fn read(words: &[&str]) -> Result<RunArgs, String> {
        Alone::try_parse_from([&["run"], words].concat()).map(|a| a.run).map_err(|e| e.to_string())
    }

    #[test]
    fn everything_behind_the_dashes_is_the_commands() {
        let args = read(&["--dep", "ocr", "--", "curl", "--dep", "-n", "--", "x"]).unwrap();
        assert_eq!(args.dep.as_deref(), Some("ocr"));
        assert_eq!(args.command, ["curl", "--dep", "-n", "--", "x"]);
        assert!(!args.no_stdin);
    }

    #[test]
    fn durations_and_actions_are_read() {
        let args = read(&["--max-wait", "6h", "--timeout", "1.5s", "--attempts", "2", "--on-open", "queue", "--", "x"])
            .unwrap();
        assert_eq!(args.max_wait, Some(Duration::from_secs(21_600)));
        assert_eq!(args.timeout, Some(Duration::from_millis(1_500)));
        assert_eq!(args.attempts.map(NonZeroU32::get), Some(2));
        assert_eq!(args.on_open, [ActionArg::Queue]);
    }

    // S180: 0 attempts are no attempts, and that is refused before anything starts.
    #[test_case(&["--attempts", "0", "--", "x"], "--attempts"; "no attempts at all")]
    #[test_case(&["--attempts", "101", "--", "x"], "from 1 to 100"; "more attempts than a policy may ask for")]
    #[test_case(&["--timeout", "0s", "--", "x"], "it must be longer"; "no time at all")]
    #[test_case(&["--timeout", "30", "--", "x"], "has no unit"; "a bare number")]
    #[test_case(&["--on-open", "cache", "--", "x"], "possible values"; "an action of the gateway")]
    #[test_case(&["--dep", "x"], "CMD"; "no command")]
    fn nonsense_says_what_to_write(words: &[&str], expected: &str) {
        let message = read(words).unwrap_err();
        assert!(message.contains(expected), "{message}");
    }
}
