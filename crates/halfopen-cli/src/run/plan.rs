//! Settles what is going to happen before anything does: which dependency, which circuits, which rules, which bounds.
//!
//! The command line overrides the policy, the policy the built-in one. What cannot be honoured is said here, once.

use std::ffi::OsString;
use std::time::Duration;

use halfopen::config::{Config, ConfigError, Level, Wiring};
use halfopen::handle::Route;
use halfopen::store::{Location, StoreError};
use halfopen_core::circuit_id::{CircuitId, CircuitIdError};
use halfopen_core::classify::{Classifier, ProfileError, profile_for_command, profile_for_tool};
use halfopen_core::policy::{Mode, OnOpenAction, Policy, ProbeWith, Surface};

use super::RunArgs;
use super::behind::{Behind, base_name, is_shell, look_through};
use super::keep;
use super::nested::Outer;
use crate::args::Shared;

/// What stands behind a dependency's name in the circuits that only watch: enforcing processes never look there.
const SHADOW: &str = "~observe";

/// The pack of commands that no pack is for, and the one of tools that reach no dependency.
const GENERIC: &str = "generic";
const TEXT_TOOLS: &str = "text-tools";

/// The longest name that is made out of a command.
const NAME_CHARS_MAX: usize = 100;

/// Everything that is known before the first attempt.
#[derive(Debug)]
pub(super) struct Plan {
    /// The resolved rules, with what the command line changes.
    pub policy: Policy,
    /// The circuits that judge the call.
    pub route: Route,
    /// Reads what the command says.
    pub classifier: Classifier,
    /// At which word of the command the tool begins that the rule pack is for, if that is known.
    pub tool_at: Option<usize>,
    /// The longest wait this call sleeps at once.
    pub max_wait: Duration,
    /// The longest refusal that is waited for; a throttle within `max_wait`.
    pub refusal_wait: Duration,
    /// Whether the dependency honours an idempotency key, as far as the policy says.
    pub honours_key: bool,
    /// The ways to and from the dependency, and how much of it may be queued.
    pub wiring: Wiring,
    /// The run we are inside of, if any.
    pub outer: Option<Outer>,
    /// Where circuits are kept.
    pub store: Location,
    /// What has to be said although nothing went wrong.
    pub warnings: Vec<String>,
    /// The policy file, for the circuits of others.
    config: Config,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum PlanError {
    /// A name that cannot name a circuit.
    #[error("{flag}: {cause}")]
    Name {
        /// The flag it came with.
        flag: &'static str,
        /// What is wrong.
        cause: CircuitIdError,
    },
    /// A rule pack that is not there, named on the command line.
    #[error("--profile: {0}")]
    Profile(ProfileError),
    /// Rules of the policy file that cannot be used.
    #[error("{0}")]
    Rules(ProfileError),
    /// The policy file cannot be used.
    #[error(transparent)]
    Policy(#[from] ConfigError),
    /// A store that makes no sense.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A store that must not be used by design.
    #[error(transparent)]
    Unusable(StoreError),
}

impl PlanError {
    /// Returns whether the command line is to blame, and not a file.
    #[must_use]
    pub(super) fn is_usage(&self) -> bool {
        match self {
            Self::Name { .. } | Self::Profile(_) | Self::Store(_) => true,
            Self::Rules(_) | Self::Policy(_) | Self::Unusable(_) => false,
        }
    }

    /// Returns the word used in reports.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Name { .. } | Self::Profile(_) | Self::Store(_) => "usage",
            Self::Rules(_) | Self::Policy(_) => "policy",
            Self::Unusable(_) => "store",
        }
    }

    /// Returns the message as a person reads it: mistakes in a policy with the place they stand at.
    #[must_use]
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Policy(ConfigError::Invalid { path, findings }) => {
                let rendered = findings.iter().filter(|finding| finding.level == Level::Error);
                let rendered: Vec<&str> = rendered.map(|finding| finding.rendered.trim_end()).collect();
                let file = crate::ui::shell_word(&path.display().to_string());
                format!("{}\nhalfopen: error: {self}\n\nhint: halfopen check {file}\n", rendered.join("\n\n"))
            }
            Self::Name { .. }
            | Self::Profile(_)
            | Self::Rules(_)
            | Self::Policy(_)
            | Self::Store(_)
            | Self::Unusable(_) => {
                format!("halfopen: error: {self}\n")
            }
        }
    }
}

impl Plan {
    /// Settles everything.
    ///
    /// # Errors
    ///
    /// [`PlanError`].
    pub(super) fn make(shared: &Shared, args: &RunArgs) -> Result<Self, PlanError> {
        let base = base_name(args.command.first());
        let name = match &args.dep {
            Some(name) => name.clone(),
            None => name_of_command(&base),
        };
        let config = Config::find(shared.policy.as_deref(), Surface::Run)?;
        let dependency = config.dependency(&name, Surface::Run);
        let mut policy = dependency.policy;
        let behind = look_through(&args.command);
        let (profile, tool_at) = match (&args.profile, &policy.profile) {
            (Some(profile), _) | (None, Some(profile)) => (profile.clone(), behind.at),
            (None, None) => match profile_of(&behind, args.dep.as_deref()) {
                Known::ByCommand(profile) => (profile.to_owned(), behind.at),
                Known::ByDependency(profile) => (profile.to_owned(), None),
            },
        };
        let honours_key = dependency.wiring.idempotency.is_some();
        let own_rules = !dependency.classify.is_empty();
        let blame = if args.profile.is_some() { PlanError::Profile } else { PlanError::Rules };
        let classifier = Classifier::new(&profile, dependency.classify).map_err(blame)?;
        let route = route(&name, args, policy.mode)?;
        let outer = Outer::from_env();

        if let Some(timeout) = args.timeout {
            policy.timeout = Some(timeout);
        } else if policy.timeout.is_none() {
            policy.timeout = Some(classifier.defaults().timeout);
        }
        if let Some(attempts) = args.attempts {
            policy.retry.max_attempts = attempts;
        }
        if outer.is_some() {
            // The outer run repeats the whole; two layers that both do multiply.
            policy.retry.max_attempts = std::num::NonZeroU32::MIN;
        }
        let (mut max_wait, mut refusal_wait) = (policy.retry.max_wait, policy.on_open.wait);
        if !args.on_open.is_empty() {
            // As in the policy file: who writes what shall happen does not want to wait for something else.
            policy.on_open.actions = args.on_open.iter().map(|action| action.action()).collect();
            refusal_wait = Duration::ZERO;
        }
        if let Some(longest) = args.max_wait {
            (max_wait, refusal_wait) = (longest, longest);
        }

        if keep::inside_a_job() {
            // The job around us is queued already, and goes back there if this fails.
            policy.on_open.actions.retain(|action| !is_kept(*action));
        }

        let mut warnings = unavailable(&policy);
        if !own_rules && pipes_in_shell(&args.command) {
            warnings.push(format!(
                "`{base} -c` with a pipeline hides the exit codes of all but its last command; \
                 put `set -o pipefail;` in front, or guard the one command that goes to {name}"
            ));
        }
        let store = match shared.store.as_ref().or(config.store.as_ref()).filter(|word| !word.is_empty()) {
            Some(word) => word.parse()?,
            None => match Location::default_place() {
                Err(StoreError::NoHome) => {
                    warnings
                        .push("there is no HOME to keep a store in: nothing is remembered; set HALFOPEN_STORE".into());
                    Location::Memory
                }
                place => place?,
            },
        };
        Ok(Self {
            policy,
            route,
            classifier,
            tool_at,
            max_wait,
            refusal_wait,
            honours_key,
            wiring: dependency.wiring,
            outer,
            store,
            warnings,
            config,
        })
    }

    /// Returns the rules of any dependency, one that is only watched included.
    pub(super) fn policy_of(&self, name: &str) -> Policy {
        self.config.dependency(name.strip_suffix(SHADOW).unwrap_or(name), Surface::Run).policy
    }

    /// Returns the policy file, if there is one.
    #[must_use]
    pub(super) fn policy_file(&self) -> Option<&std::path::Path> {
        self.config.path.as_deref()
    }

    /// Returns the policy file.
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Returns whether we only watch.
    #[must_use]
    pub(super) fn observes(&self) -> bool {
        self.policy.mode == Mode::Observe
    }

    /// Returns the circuit to name where one is named: the account where one is known, for that is the narrower.
    #[must_use]
    pub(super) fn circuit(&self) -> &CircuitId {
        self.route.account.as_ref().unwrap_or(&self.route.place)
    }
}

/// By what a rule pack is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    ByCommand(&'static str),
    ByDependency(&'static str),
}

/// Returns the rule pack of a command: its own or that of the one behind it, else the one its dependency is named after.
fn profile_of(behind: &Behind, dependency: Option<&str>) -> Known {
    let by_command = match profile_for_command(&behind.name) {
        // A script around `echo` or `cat` prints what it got from elsewhere.
        TEXT_TOOLS if behind.at.is_none() => GENERIC,
        pack => pack,
    };
    let by_dependency = dependency.map_or(GENERIC, profile_for_tool);
    // `test`, `join` or `find` are good names for a dependency, and say nothing about it.
    if by_command == GENERIC && !matches!(by_dependency, GENERIC | TEXT_TOOLS) {
        Known::ByDependency(by_dependency)
    } else {
        Known::ByCommand(by_command)
    }
}

/// Returns the rule pack of a command that is done for a dependency.
pub(super) fn pack_of(behind: &Behind, dependency: &str) -> &'static str {
    match profile_of(behind, Some(dependency)) {
        Known::ByCommand(pack) | Known::ByDependency(pack) => pack,
    }
}

fn route(name: &str, args: &RunArgs, mode: Mode) -> Result<Route, PlanError> {
    let shadowed;
    let dependency = match mode {
        Mode::Enforce => name,
        Mode::Observe => {
            shadowed = format!("{name}{SHADOW}");
            &shadowed
        }
    };
    let named = |flag| move |cause| PlanError::Name { flag, cause };
    let flag = if args.dep.is_some() { "--dep" } else { "the command's name" };
    let place = match args.region.as_deref().filter(|region| !region.is_empty()) {
        None => CircuitId::whole(dependency).map_err(named(flag))?,
        Some(region) => CircuitId::part(dependency, "region", region).map_err(named("--region"))?,
    };
    let account = match args.credential.as_deref().filter(|credential| !credential.is_empty()) {
        None => None,
        Some(credential) => Some(CircuitId::part(dependency, "credential", credential).map_err(named("--credential"))?),
    };
    Ok(Route { place, account })
}

/// Returns the name of a dependency made out of a command's: what a name may not hold becomes `-`.
fn name_of_command(base: &str) -> String {
    let name: String = base
        .chars()
        .take(NAME_CHARS_MAX)
        .map(|c| if c == '@' || c == '=' || c.is_whitespace() || c.is_control() { '-' } else { c })
        .collect();
    if name.is_empty() { "command".to_owned() } else { name }
}

/// Returns whether an action stores the call.
const fn is_kept(action: OnOpenAction) -> bool {
    match action {
        OnOpenAction::Queue | OnOpenAction::ManualReview => true,
        OnOpenAction::FailFast | OnOpenAction::Cache | OnOpenAction::Fallback => false,
    }
}

/// Returns a warning for each thing that this surface does not have.
fn unavailable(policy: &Policy) -> Vec<String> {
    let name = &policy.dependency;
    let mut warnings: Vec<String> = Vec::new();
    if let Some(ProbeWith::Url(url)) = &policy.probe {
        warnings.push(format!("{name}: probe `{url}` is for `halfopen serve` only; the command itself probes"));
    }
    warnings.extend(policy.on_open.actions.iter().filter_map(|action| match action {
        OnOpenAction::FailFast | OnOpenAction::Queue | OnOpenAction::ManualReview => None,
        OnOpenAction::Cache | OnOpenAction::Fallback => Some(format!(
            "{name}: on_open.action `{}` is for `halfopen serve` only; a refused command fails fast",
            action.as_str()
        )),
    }));
    warnings
}

/// Returns whether a command is a shell with a pipeline in it, whose failures its exit code hides.
fn pipes_in_shell(command: &[OsString]) -> bool {
    let [shell, rest @ ..] = command else { return false };
    let shell = base_name(Some(shell));
    if !is_shell(&shell) {
        return false;
    }
    let mut words = rest.iter().map(|word| word.to_string_lossy());
    let script = loop {
        match words.next() {
            Some(word) if word.starts_with('-') && !word.starts_with("--") && word.contains('c') => break words.next(),
            Some(word) if word.starts_with('-') || word == "pipefail" => {
                if word == "pipefail" {
                    return false;
                }
            }
            Some(_) | None => return false,
        }
    };
    script.is_some_and(|script| !script.contains("pipefail") && has_pipeline(&script))
}

/// Returns whether a shell script has a `|` that joins commands: not quoted, not `||`, not `>|`.
fn has_pipeline(script: &str) -> bool {
    let (mut quote, mut before, mut chars) = (None, ' ', script.chars().peekable());
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some('"') | None, '\\') => {
                chars.next();
            }
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '#') if before.is_whitespace() => {
                // A comment.
                for c in chars.by_ref() {
                    if c == '\n' {
                        break;
                    }
                }
            }
            (None, '|') if chars.peek() == Some(&'|') => {
                chars.next();
            }
            (None, '|') if before != '>' => return true,
            (None, _) => {}
        }
        before = c;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("claude", "claude")]
    #[test_case("my tool@2", "my-tool-2")]
    #[test_case("", "command")]
    fn a_command_names_its_dependency(base: &str, name: &str) {
        assert_eq!(name_of_command(base), name);
        assert!(CircuitId::whole(name).is_ok());
    }

    #[test_case("/usr/bin/curl", "curl")]
    #[test_case("./x.sh", "x.sh")]
    #[test_case("/", "")]
    fn the_base_name_is_the_last_part(command: &str, base: &str) {
        assert_eq!(base_name(Some(&OsString::from(command))), base);
    }

    #[test_case(&["claude"], None, Known::ByCommand("claude-code"))]
    #[test_case(&["timeout", "60", "claude", "-p", "x"], None, Known::ByCommand("claude-code"))]
    #[test_case(&["env", "FOO=1", "claude"], Some("curl"), Known::ByCommand("claude-code"); "the command goes first")]
    #[test_case(&["env"], None, Known::ByCommand("text-tools"))]
    #[test_case(&["sh", "-c", "claude -p x"], None, Known::ByCommand("claude-code"))]
    #[test_case(&["sh", "-c", "cat answer >&2"], None, Known::ByCommand("generic"))]
    #[test_case(&["timeout", "5", "grep", "x"], None, Known::ByCommand("text-tools"))]
    #[test_case(&["./my-script"], Some("claude"), Known::ByDependency("claude-code"))]
    #[test_case(&["./my-script"], Some("claude-code"), Known::ByDependency("claude-code"))]
    #[test_case(&["./my-script"], Some("test"), Known::ByCommand("generic"); "a name that says nothing")]
    #[test_case(&["./my-script"], Some("ocr"), Known::ByCommand("generic"))]
    #[test_case(&["timeout", "60", "./my-script"], None, Known::ByCommand("generic"))]
    fn a_rule_pack_is_found(words: &[&str], dependency: Option<&str>, known: Known) {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        assert_eq!(profile_of(&look_through(&words), dependency), known);
    }

    // S127
    #[test_case(&["sh", "-c", "curl -sf URL | jq .x"] => true)]
    #[test_case(&["/bin/bash", "-euc", "a|b"] => true)]
    #[test_case(&["sh", "-c", "a |& b"] => true; "both outputs")]
    #[test_case(&["sh", "-c", "a || b"] => false; "an alternative")]
    #[test_case(&["sh", "-c", "echo 'a | b'"] => false; "single quotes")]
    #[test_case(&["sh", "-c", "echo \"a | b\""] => false; "double quotes")]
    #[test_case(&["sh", "-c", "echo a \\| b"] => false; "escaped")]
    #[test_case(&["sh", "-c", "echo a >| b"] => false; "a redirection")]
    #[test_case(&["sh", "-c", "echo a # | b"] => false; "a comment")]
    #[test_case(&["bash", "-c", "set -o pipefail; a | b"] => false; "pipefail in the script")]
    #[test_case(&["bash", "-o", "pipefail", "-c", "a | b"] => false; "pipefail as an option")]
    #[test_case(&["curl", "-c", "a | b"] => false; "no shell")]
    #[test_case(&["sh", "script.sh"] => false; "a file")]
    fn a_pipeline_in_a_shell_is_seen(words: &[&str]) -> bool {
        pipes_in_shell(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }
}
