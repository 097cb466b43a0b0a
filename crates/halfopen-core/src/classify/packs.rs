//! Holds the embedded packs and turns one into what the engine uses.
//!
//! A pack is decoded when it is asked for, and its rules only when an outcome needs them: a process that wraps one
//! command for a few milliseconds pays for one pack's settings and, if all goes well, for nothing else.

use std::time::Duration;

use super::raw::{RawCondition, RawPack, RawRule};
use super::rule::{Condition, Rule, Test, duration};
use super::{PackDefaults, ProfileError, Resume};
use crate::classify::facts::printed;
use crate::classify::text::{fold, undecorated};
use crate::hint::{PackHints, Unit};

/// One attempt of an ordinary tool may take this long.
const TIMEOUT: Duration = Duration::from_secs(600);

/// A pack as it is embedded.
pub(crate) struct Embedded {
    pub(crate) name: &'static str,
    pub(crate) commands: &'static [&'static str],
    pub(crate) aliases: &'static [&'static str],
    pub(crate) hosts: &'static [&'static str],
    /// Whether it has rules that speak on an outcome that says it is a success.
    pub(crate) judges_success: bool,
    pack: &'static [u8],
    rules: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/packs.rs"));

/// The name of the pack behind all others.
pub(crate) const GENERIC: &str = "generic";

/// A pack without its rules.
#[derive(Debug)]
pub(crate) struct Pack {
    pub(crate) name: String,
    pub(crate) defaults: PackDefaults,
    pub(crate) output: Output,
    pub(crate) fails_when: Vec<Condition>,
    pub(crate) session: Vec<Condition>,
    pub(crate) account: Vec<Condition>,
    pub(crate) model: Vec<Condition>,
    pub(crate) hints: PackHints,
    pub(crate) not_processed: Vec<String>,
    pub(crate) maybe_processed: Vec<String>,
    pub(crate) judges_success: bool,
}

/// How a command's output is read.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) stdout_is_content: bool,
    pub(crate) stderr_is_content: bool,
    pub(crate) trust_success: bool,
    pub(crate) whole_stderr: bool,
    pub(crate) events: bool,
    pub(crate) http_body: bool,
    pub(crate) success_may_lie: bool,
    pub(crate) error_lines: Vec<Test>,
    continuation_lines: Vec<Test>,
    noise_lines: Vec<Test>,
}

impl Output {
    /// Returns whether a line is the tool's own error message by what the pack says.
    pub(crate) fn is_own_error_line(&self, line: &str) -> bool {
        let bare = fold(undecorated(line));
        !bare.is_empty() && self.error_lines.iter().any(|test| test.holds(&bare))
    }

    /// Returns whether a line begins an error, by what the pack says or as most tools write them.
    pub(crate) fn is_error_line(&self, line: &str) -> bool {
        self.is_own_error_line(line) || printed::is_error_line(line) && !self.is_noise(line)
    }

    /// Returns whether a line belongs to the error before it.
    pub(crate) fn is_continuation(&self, line: &str) -> bool {
        let bare = fold(undecorated(line));
        self.continuation_lines.iter().any(|test| test.holds(&bare))
    }

    /// Returns whether a line is never an error.
    pub(crate) fn is_noise(&self, line: &str) -> bool {
        let bare = fold(undecorated(line));
        !self.noise_lines.is_empty() && self.noise_lines.iter().any(|test| test.holds(&bare))
    }
}

/// Returns the embedded pack `name`.
pub(crate) fn embedded(name: &str) -> Option<&'static Embedded> {
    PACKS.binary_search_by(|pack| pack.name.cmp(name)).ok().map(|at| &PACKS[at])
}

impl Embedded {
    /// Returns the pack without its rules.
    pub(crate) fn load(&self) -> Pack {
        let raw: RawPack = postcard::from_bytes(self.pack).unwrap_or_default();
        Pack::new(&raw, self.judges_success).unwrap_or_else(|_| Pack::empty(self.name))
    }

    /// Returns the rules.
    pub(crate) fn rules(&self) -> Vec<Rule> {
        let raw: Vec<RawRule> = postcard::from_bytes(self.rules).unwrap_or_default();
        raw.iter().filter_map(|rule| Rule::new(self.name, rule).ok()).collect()
    }
}

impl Pack {
    fn empty(name: &str) -> Self {
        Self::new(&RawPack { pack: name.to_owned(), ..RawPack::default() }, false).unwrap_or_else(|_| Self {
            name: name.to_owned(),
            defaults: PackDefaults {
                timeout: TIMEOUT,
                failed_attempts_have_effects: true,
                resume: None,
                idempotency: None,
                success_may_lie: false,
            },
            output: Output::default(),
            fails_when: Vec::new(),
            session: Vec::new(),
            account: Vec::new(),
            model: Vec::new(),
            hints: PackHints::default(),
            not_processed: Vec::new(),
            maybe_processed: Vec::new(),
            judges_success: false,
        })
    }

    /// Reads a written pack.
    ///
    /// # Errors
    ///
    /// One line that names the field and the cause.
    pub(crate) fn new(raw: &RawPack, judges_success: bool) -> Result<Self, String> {
        let conditions = |list: &[RawCondition]| list.iter().map(Condition::new).collect::<Result<Vec<_>, _>>();
        let tests = |list: &[super::raw::RawTest], field| {
            list.iter().map(|test| Test::new(test, field)).collect::<Result<Vec<_>, _>>()
        };
        let defaults = &raw.defaults;
        let output = &raw.output;
        let hints = pack_hints(&raw.hints)?;
        Ok(Self {
            name: raw.pack.clone(),
            defaults: PackDefaults {
                timeout: defaults.timeout.as_deref().map_or(Ok(TIMEOUT), |word| duration(word, "defaults.timeout"))?,
                failed_attempts_have_effects: defaults.failed_attempts_have_effects.unwrap_or(true),
                resume: defaults.resume.as_ref().map(|resume| Resume {
                    open_with: resume.open_with.clone(),
                    go_on_with: resume.go_on_with.clone(),
                    session_flags: resume.session_flags.clone(),
                    value_flags: resume.value_flags.clone(),
                }),
                idempotency: defaults.idempotency.as_ref().map(|key| super::Idempotency {
                    header: key.header.clone(),
                    lifetime: Duration::try_from_secs_f64(key.lifetime_hours * 3600.0).unwrap_or_default(),
                    remembers_failures: key.remembers_failures,
                }),
                success_may_lie: output.success_may_lie || output.events || output.http_body,
            },
            output: Output {
                stdout_is_content: output.stdout_is_content,
                stderr_is_content: output.stderr_is_content,
                trust_success: output.trust_success,
                whole_stderr: output.whole_stderr,
                events: output.events,
                http_body: output.http_body,
                success_may_lie: output.success_may_lie,
                error_lines: tests(&output.error_lines, "output.error_lines")?,
                continuation_lines: tests(&output.continuation_lines, "output.continuation_lines")?,
                noise_lines: tests(&output.noise_lines, "output.noise_lines")?,
            },
            fails_when: conditions(&raw.fails_when)?,
            session: conditions(&raw.found.session)?,
            account: conditions(&raw.found.account)?,
            model: conditions(&raw.found.model)?,
            hints,
            not_processed: defaults.not_processed.0.clone(),
            maybe_processed: defaults.maybe_processed.0.clone(),
            judges_success,
        })
    }
}

/// Reads what a pack knows about hints.
fn pack_hints(raw: &super::raw::RawHints) -> Result<PackHints, String> {
    let unit = |word: &str| match word {
        "ms" => Ok(Unit::Ms),
        "seconds" => Ok(Unit::Seconds),
        "minutes" => Ok(Unit::Minutes),
        "hours" => Ok(Unit::Hours),
        _ => Err(format!("`hints.units`: unknown unit `{word}`; known are ms, seconds, minutes, hours")),
    };
    let hints = PackHints {
        default_wait_ms: raw.default_wait_ms,
        daily_reset_zone: raw.daily_reset_zone.clone(),
        units: raw
            .units
            .iter()
            .map(|u| Ok((u.name.to_ascii_lowercase(), unit(&u.unit)?)))
            .collect::<Result<_, String>>()?,
        ignore: raw.ignore.iter().map(|name| name.to_ascii_lowercase()).collect(),
        zone: raw.zone.clone(),
        floor_ms: raw.floor_ms,
    };
    Ok(hints)
}

/// Returns the names of the embedded packs, sorted.
#[must_use]
pub fn profiles() -> Vec<&'static str> {
    PACKS.iter().map(|pack| pack.name).collect()
}

/// Returns the pack for a command, by its base name; `generic` if none fits.
#[must_use]
pub fn profile_for_command(base_name: &str) -> &'static str {
    let name = base_name.strip_suffix(".exe").or_else(|| base_name.strip_suffix(".cmd")).unwrap_or(base_name);
    PACKS.iter().find(|pack| pack.commands.contains(&name)).map_or(GENERIC, |pack| pack.name)
}

/// Returns the pack for a host; `generic` if none fits. The longest pattern that fits wins.
#[must_use]
pub fn profile_for_host(host: &str) -> &'static str {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    // The tail keeps its `.` or `-`, so that it begins at a border; regions stand before either.
    let fits = |pattern: &str| match pattern.strip_prefix('*') {
        Some(tail) => host.strip_suffix(tail).is_some_and(|head| !head.is_empty()),
        None => host == pattern,
    };
    PACKS
        .iter()
        .flat_map(|pack| pack.hosts.iter().map(move |pattern| (pattern, pack.name)))
        .filter(|(pattern, _)| fits(pattern))
        .max_by_key(|(pattern, _)| pattern.len())
        .map_or(GENERIC, |(_, name)| name)
}

/// Returns the pack for a tool or service as labelled cases and users name it: a pack's name, one of its commands or
/// aliases; what follows a `+` is left out. `generic` if none fits.
#[must_use]
pub fn profile_for_tool(tool: &str) -> &'static str {
    let name = tool.split('+').next().unwrap_or(tool).to_ascii_lowercase();
    PACKS
        .iter()
        .find(|pack| pack.name == name)
        .or_else(|| {
            PACKS.iter().find(|pack| pack.commands.contains(&name.as_str()) || pack.aliases.contains(&name.as_str()))
        })
        .map_or(GENERIC, |pack| pack.name)
}

/// Returns the error for a profile that does not exist.
pub(crate) fn unknown(name: &str) -> ProfileError {
    ProfileError::Unknown { name: name.to_owned(), known: profiles().join(", ") }
}
