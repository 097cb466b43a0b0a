//! `halfopen classify`: says what an outcome means, by which rule, and what follows.
//!
//! Three uses of one engine: a person holds the output of last night's failure and asks what halfopen makes of it; a
//! file of labelled outcomes is checked, the user's own or ours; an outcome nobody knows becomes a rule to paste. It
//! judges with the same classifier as the surfaces and never touches a store.

mod cases;
mod corpus;
mod explain;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen::config::Config;
use halfopen_core::classify::{Classifier, profile_for_command, suggest_command, suggest_http};
use halfopen_core::outcome::{CommandOutcome, Excerpt, Exit, HttpOutcome, Reached};
use halfopen_core::policy::{Policy, Surface};
use halfopen_core::time::{ReadAt, Timestamp};

use crate::args::Shared;
use crate::{exit, ui};

/// Arguments of `halfopen classify`.
#[derive(Debug, Args)]
pub struct ClassifyArgs {
    /// Judge as this dependency of the policy: its profile and its own rules
    #[arg(long, value_name = "NAME", env = "HALFOPEN_CLASSIFY_DEP")]
    pub dep: Option<String>,
    /// Judge by this rule pack [default: the dependency's, else generic]
    #[arg(long, value_name = "PACK", env = "HALFOPEN_CLASSIFY_PROFILE")]
    pub profile: Option<String>,
    /// How the command ended: its exit code, or `timeout` [default: 1]
    #[arg(long, value_name = "CODE", env = "HALFOPEN_CLASSIFY_EXIT_CODE", conflicts_with_all = ["http", "corpus"])]
    pub exit_code: Option<String>,
    /// What the command wrote to standard output; - reads it here
    #[arg(long, value_name = "FILE", env = "HALFOPEN_CLASSIFY_STDOUT", conflicts_with_all = ["http", "corpus"])]
    pub stdout: Option<PathBuf>,
    /// What the command wrote to standard error; - reads it here
    #[arg(long, value_name = "FILE", env = "HALFOPEN_CLASSIFY_STDERR", conflicts_with_all = ["http", "corpus"])]
    pub stderr: Option<PathBuf>,
    /// A raw HTTP response: status line, headers, empty line, body; - reads it here
    #[arg(long, value_name = "FILE", env = "HALFOPEN_CLASSIFY_HTTP", conflicts_with = "corpus")]
    pub http: Option<PathBuf>,
    /// The request's method, with --http
    #[arg(long, value_name = "METHOD", env = "HALFOPEN_CLASSIFY_METHOD", default_value = "POST")]
    pub method: String,
    /// A file of outcomes, one JSON object a line; those with `expect` are checked; - reads it here
    #[arg(long, value_name = "FILE", env = "HALFOPEN_CLASSIFY_CORPUS")]
    pub corpus: Option<PathBuf>,
    /// Print one JSON object a line
    #[arg(long, env = "HALFOPEN_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Print a rule to paste under `classify:` if no rule knows the outcome
    #[arg(long, env = "HALFOPEN_CLASSIFY_SUGGEST", value_parser = BoolishValueParser::new(), conflicts_with_all = ["corpus", "json"])]
    pub suggest: bool,
}

/// Why nothing could be classified.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClassifyError {
    /// A file cannot be read.
    #[error("{path} cannot be read: {cause}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// What was given is no outcome.
    #[error("{0}")]
    Usage(String),
    /// The policy cannot be used.
    #[error(transparent)]
    Config(#[from] halfopen::config::ConfigError),
    /// The profile cannot be used.
    #[error(transparent)]
    Profile(#[from] halfopen_core::classify::ProfileError),
}

/// Classifies; returns the exit code: 0 done, 1 an expectation was not met, 64 usage, 78 policy.
pub fn run(shared: &Shared, args: &ClassifyArgs) -> u8 {
    match classify(shared, args) {
        Ok(met) => u8::from(!met),
        Err(error) => {
            ui::error(&error.to_string());
            match error {
                ClassifyError::Unreadable { .. } | ClassifyError::Usage(_) => exit::USAGE,
                ClassifyError::Config(_) | ClassifyError::Profile(_) => exit::POLICY,
            }
        }
    }
}

fn classify(shared: &Shared, args: &ClassifyArgs) -> Result<bool, ClassifyError> {
    let config = if args.dep.is_some() || shared.policy.is_some() {
        Config::find(shared.policy.as_deref(), Surface::Run)?
    } else {
        Config::built_in()
    };
    if let Some(path) = &args.corpus {
        let text = read_text(path)?;
        return corpus::check(&text, args, &config);
    }
    if args.http.is_none() && args.stdout.is_none() && args.stderr.is_none() && args.exit_code.is_none() {
        return Err(ClassifyError::Usage(
            "nothing to classify: give --exit-code, --stdout, --stderr, --http or --corpus".to_owned(),
        ));
    }
    let (classifier, policy) = classifier(&config, args, None)?;
    let at = ReadAt { zone: jiff::tz::TimeZone::system(), ..ReadAt::utc(now()) };
    if let Some(path) = &args.http {
        let raw = read(path)?;
        let (status, headers, body) = cases::split_response(&raw)
            .ok_or_else(|| ClassifyError::Usage("--http: the file does not begin with a status line".to_owned()))?;
        let pairs: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let outcome = HttpOutcome {
            method: &args.method,
            status,
            headers: &pairs,
            body: Excerpt::whole(body),
            reached: Reached::Answered,
            elapsed: Duration::ZERO,
        };
        let explanation = classifier.explain_http(&outcome, &at);
        explain::print(&explanation, &policy, args, || suggest_http(&classifier, &outcome));
    } else {
        let stdout = args.stdout.as_deref().map(read).transpose()?.unwrap_or_default();
        let stderr = args.stderr.as_deref().map(read).transpose()?.unwrap_or_default();
        let outcome = CommandOutcome {
            exit: exit_of(args.exit_code.as_deref())?,
            stdout: Excerpt::whole(&stdout),
            stderr: Excerpt::whole(&stderr),
            elapsed: Duration::ZERO,
        };
        let explanation = classifier.explain_command(&outcome, &at);
        explain::print(&explanation, &policy, args, || suggest_command(&classifier, &outcome));
    }
    Ok(true)
}

/// Returns the classifier and the policy that the flags name; `tool` chooses the pack where they do not.
pub(crate) fn classifier(
    config: &Config,
    args: &ClassifyArgs,
    tool: Option<&str>,
) -> Result<(Classifier, Policy), ClassifyError> {
    let name = args.dep.as_deref();
    let dependency = name.map(|name| config.dependency(name, Surface::Run));
    let policy = dependency.as_ref().map_or_else(
        || Policy::built_in(tool.unwrap_or("this dependency"), Surface::Run),
        |dependency| dependency.policy.clone(),
    );
    let profile = args.profile.clone().or_else(|| policy.profile.clone()).unwrap_or_else(|| match (tool, name) {
        (Some(tool), _) => halfopen_core::classify::profile_for_tool(tool).to_owned(),
        (None, Some(name)) => profile_for_command(name).to_owned(),
        (None, None) => "generic".to_owned(),
    });
    let own = dependency.map(|dependency| dependency.classify).unwrap_or_default();
    Ok((Classifier::new(&profile, own)?, policy))
}

fn exit_of(word: Option<&str>) -> Result<Exit, ClassifyError> {
    match word {
        None => Ok(Exit::Code(1)),
        Some("timeout") => Ok(Exit::TimedOut),
        Some(word) => word.parse().ok().filter(|code| (0..=255).contains(code)).map(Exit::Code).ok_or_else(|| {
            ClassifyError::Usage(format!("--exit-code: `{word}` is no exit code (0-255) and not `timeout`"))
        }),
    }
}

/// Returns the wall clock's reading.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn read(path: &Path) -> Result<Vec<u8>, ClassifyError> {
    let unreadable = |cause| ClassifyError::Unreadable { path: path.to_owned(), cause };
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).map_err(unreadable)?;
        return Ok(bytes);
    }
    fs::read(path).map_err(unreadable)
}

fn read_text(path: &Path) -> Result<String, ClassifyError> {
    read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
