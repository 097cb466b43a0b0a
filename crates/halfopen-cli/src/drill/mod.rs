//! `halfopen drill`: shows that a policy protects, and that the showing can fail.
//!
//! A control function fails by doing nothing. So a user's own policy is run through scripted outages in virtual time
//! ([`world`]), with the real engine; each row says what was injected, what this policy should do, what was seen. With
//! `--mutate` each mechanism is removed in turn and a row must go red ([`mutate`]). With `--through` the user's own
//! script is run and must reach its tool through us ([`through`]). With `--live` the rows are played at a running gateway,
//! in real time, on shadows of its dependencies ([`live`]). Scenarios are YAML files ([`scenario`]), the shipped ones
//! embedded.
//!
//! Data goes to standard output, all else to standard error. Nothing outside a folder of the drill's own is read or
//! written, and no dependency is called.

mod quantity;
mod spoken;
mod rehearsal;
mod scenario;
mod mechanisms;
mod trace;
mod world;
mod caller;
mod worker;
mod expect;
mod row;
mod mutate;
mod through;
mod live;
mod report;
pub(crate) mod edges;

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen::config::{Config, ConfigError, Demand, Here, Level, locate};
use halfopen_core::policy::{Mode, Surface};

use crate::args::Shared;
use crate::gateway_url::{At, GatewayUrl};
use crate::{exit, ui};
use mechanisms::Mechanisms;
use mutate::MutantResult;
use rehearsal::Rehearsal;
use report::Drilled;
use row::{Row, RowVerdict};
use scenario::Scenario;
use through::Through;

/// The dependency that is drilled where there is neither a policy nor `--dep`.
const UNNAMED: &str = "any";

/// Arguments of `halfopen drill`.
#[derive(Debug, Args)]
pub struct DrillArgs {
    /// Drill this dependency of the policy [default: each]
    #[arg(long, value_name = "NAME", env = "HALFOPEN_DRILL_DEP")]
    pub dep: Option<String>,
    /// Switch each mechanism off in turn and demand that a row notices
    #[arg(long, env = "HALFOPEN_MUTATE", value_parser = BoolishValueParser::new(), conflicts_with = "through")]
    pub mutate: bool,
    /// Run this script with a fake tool first on PATH; fail if it gets there unguarded
    #[arg(long, value_name = "CMD", env = "HALFOPEN_THROUGH")]
    pub through: Option<String>,
    /// The tool that the script calls [default: the dependency's name]
    #[arg(long, value_name = "NAME", env = "HALFOPEN_TOOL", requires = "through")]
    pub tool: Option<String>,
    /// Drill the gateway at --url (else http://127.0.0.1:4141), on shadows that share nothing with its circuits
    #[arg(long, env = "HALFOPEN_LIVE", value_parser = BoolishValueParser::new(), conflicts_with = "through")]
    pub live: bool,
    /// Which gateway that is, and the token to show there.
    #[command(flatten)]
    pub at: At,
    /// Where that gateway answers calls, if it answers operators elsewhere
    #[arg(long, value_name = "URL", env = "HALFOPEN_CALLS_URL", requires = "live")]
    pub calls_url: Option<GatewayUrl>,
    /// File with the caller's token, where callers need one; HALFOPEN_CALLER_TOKEN may hold the token itself
    #[arg(long, value_name = "FILE", env = "HALFOPEN_DRILL_CALLER_TOKEN_FILE", requires = "live")]
    pub caller_token_file: Option<PathBuf>,
    /// What --live divides the durations of the policy by, 1 to 10000 [default: so that the cooldown lasts about 2s]
    #[arg(long, value_name = "N", env = "HALFOPEN_SHORTEN", requires = "live", value_parser = shortened)]
    pub shorten: Option<f64>,
    /// Play this scenario, too; may be given again
    #[arg(long, value_name = "FILE", env = "HALFOPEN_SCENARIO", conflicts_with = "through")]
    pub scenario: Vec<PathBuf>,
    /// Play only rows whose name begins like this; may be given again
    #[arg(long, value_name = "BEGINNING", env = "HALFOPEN_ROW", conflicts_with = "through")]
    pub row: Vec<String>,
    /// Print one JSON object
    #[arg(long, env = "HALFOPEN_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Write the rows as JUnit XML, too
    #[arg(long, value_name = "FILE", env = "HALFOPEN_JUNIT", conflicts_with = "mutate")]
    pub junit: Option<PathBuf>,
}

/// Reads what durations are divided by.
fn shortened(word: &str) -> Result<f64, String> {
    match word.parse::<f64>() {
        Ok(by) if (1.0..=10_000.0).contains(&by) => Ok(by),
        Ok(_) | Err(_) => Err("allowed is a number from 1 to 10000, for example 60".to_owned()),
    }
}

/// Why there was no drill.
#[derive(Debug, thiserror::Error)]
enum DrillError {
    /// Something on the command line makes no sense.
    #[error("{message}")]
    Usage {
        /// What.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The policy cannot be used.
    #[error("{0}")]
    Policy(String),
    /// The gateway that is drilled live is not there, or does not allow it.
    #[error("{message}")]
    Gateway {
        /// The exit code.
        code: u8,
        /// What.
        message: String,
        /// What to do, if that is known.
        hint: Option<String>,
    },
    /// A file cannot be read or written, or the drill's own store cannot be used.
    #[error("{0}")]
    Io(String),
}

impl DrillError {
    fn usage(message: impl ToString, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.to_string(), hint: hint.into() }
    }

    fn code(&self) -> u8 {
        match self {
            Self::Usage { .. } => exit::USAGE,
            Self::Policy(_) => exit::POLICY,
            Self::Gateway { code, .. } => *code,
            Self::Io(_) => exit::IO,
        }
    }
}

/// Drills; returns the exit code: 0 all is well, 1 a row failed or a mutant survived, 64 usage, 74 files, 78 policy.
pub fn drill(shared: &Shared, args: &DrillArgs) -> u8 {
    match drilled(shared, args) {
        Ok(true) => exit::OK,
        Ok(false) => exit::FOUND,
        Err(error) => {
            match &error {
                DrillError::Usage { message, hint } => ui::say_with_hint(&format!("error: {message}"), hint),
                DrillError::Gateway { message, hint: Some(hint), .. } => {
                    ui::say_with_hint(&format!("error: {message}"), hint);
                }
                DrillError::Gateway { hint: None, .. } | DrillError::Policy(_) | DrillError::Io(_) => {
                    ui::error(&error.to_string())
                }
            }
            error.code()
        }
    }
}

fn drilled(shared: &Shared, args: &DrillArgs) -> Result<bool, DrillError> {
    if args.live {
        return live(shared, args);
    }
    let file = locate(shared.policy.as_deref(), Here::Taken);
    let rehearsals = rehearsals(file.as_deref(), args)?;
    if let Some(script) = &args.through {
        return through(script, file.as_deref(), args, &rehearsals);
    }
    let scenarios = scenarios(args)?;
    if args.mutate { mutate(args, &rehearsals, &scenarios) } else { rehearse(args, &rehearsals, &scenarios) }
}

/// Plays the rows at a running gateway.
fn live(shared: &Shared, args: &DrillArgs) -> Result<bool, DrillError> {
    if args.mutate {
        return Err(DrillError::usage(
            "--mutate removes mechanisms from a rehearsal, and nothing is removed from a running gateway",
            "halfopen drill --mutate shows that the rows can fail; --live shows that the gateway passes them",
        ));
    }
    if shared.policy.is_some() {
        ui::warn("--policy is not read: what is drilled is the policy that the gateway has in force");
    }
    let all = live::drilled(args, scenarios(args)?)?;
    let well = shown(args, &all)?;
    let passed = all.iter().flat_map(|one| &one.found).any(|row| row.verdict == RowVerdict::Pass);
    if well && !passed {
        ui::warn("no row passed, so nothing was shown");
    }
    Ok(well && passed)
}

/// Plays every row for every dependency.
fn rehearse(args: &DrillArgs, rehearsals: &[Rehearsal], scenarios: &[Scenario]) -> Result<bool, DrillError> {
    let mut all = Vec::new();
    for rehearsal in rehearsals {
        let rows = scenarios.iter().map(|scenario| row::played(rehearsal, scenario, Mechanisms::default()));
        let found = rows.collect::<Result<Vec<Row>, _>>().map_err(|error| played_wrong(&error))?;
        all.push(Drilled { dependency: rehearsal.policy.dependency.clone(), found });
    }
    shown(args, &all)
}

/// Prints rows; returns whether all of them are well.
fn shown(args: &DrillArgs, all: &[Drilled<Row>]) -> Result<bool, DrillError> {
    if let Some(path) = &args.junit {
        std::fs::write(path, report::junit(all))
            .map_err(|error| DrillError::Io(format!("{} cannot be written: {error}", path.display())))?;
    }
    if args.json {
        ui::data(&report::json(all).map_err(|error| DrillError::Io(error.to_string()))?);
    } else {
        let time = if args.live { "SECONDS" } else { "VIRTUAL" };
        ui::data(report::table(all, time, width()).trim_end());
    }
    let well = all.iter().flat_map(|one| &one.found).all(|row| row.verdict != RowVerdict::Fail);
    ui::say(&report::summary(all));
    Ok(well)
}

fn mutate(args: &DrillArgs, rehearsals: &[Rehearsal], scenarios: &[Scenario]) -> Result<bool, DrillError> {
    let mut all = Vec::new();
    for rehearsal in rehearsals {
        let found = mutate::mutated(rehearsal, scenarios).map_err(|error| played_wrong(&error))?;
        all.push(Drilled { dependency: rehearsal.policy.dependency.clone(), found });
    }
    if args.json {
        ui::data(&report::mutants_json(&all).map_err(|error| DrillError::Io(error.to_string()))?);
    } else {
        ui::data(report::mutants_table(&all, width()).trim_end());
    }
    ui::say(&report::mutants_summary(&all));
    Ok(all.iter().flat_map(|one| &one.found).all(|mutant| mutant.result != MutantResult::Survived))
}

fn through(script: &str, file: Option<&Path>, args: &DrillArgs, rehearsals: &[Rehearsal]) -> Result<bool, DrillError> {
    let [rehearsal] = rehearsals else {
        let names: Vec<&str> = rehearsals.iter().map(|one| one.policy.dependency.as_str()).collect();
        return Err(DrillError::usage(
            format!("--through is about one dependency, and the policy has {}", names.len()),
            format!("name one with --dep: {}", names.join(", ")),
        ));
    };
    let tool = args.tool.as_deref().unwrap_or(&rehearsal.policy.dependency);
    if tool.is_empty() || tool.contains('/') {
        return Err(DrillError::usage(
            format!("`{tool}` is no name of a tool on PATH"),
            "give the bare name of the command that the script calls: --tool NAME",
        ));
    }
    let file = file.and_then(|file| std::path::absolute(file).ok());
    let through = Through { script, tool, policy: &rehearsal.policy, file: file.as_deref() };
    let found =
        through::rows(&through).map_err(|error| DrillError::Io(format!("the script cannot be driven: {error}")))?;
    shown(args, &[Drilled { dependency: rehearsal.policy.dependency.clone(), found }])
}

/// Returns what is drilled: the dependency that was named, else each of the policy's, else the built-in policy.
fn rehearsals(file: Option<&Path>, args: &DrillArgs) -> Result<Vec<Rehearsal>, DrillError> {
    let config = match file {
        None => Config::built_in(),
        Some(file) => Config::check(file, Demand::Usable).map_err(|error| unusable(&error))?.0,
    };
    let dependencies = match &args.dep {
        Some(name) if config.dependencies.is_empty() => vec![config.dependency(name, Surface::Run)],
        Some(name) => match config.dependencies.get(name) {
            Some(dependency) => vec![dependency.clone()],
            None => {
                let known = config.dependencies.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                return Err(DrillError::usage(
                    format!("the policy has no dependency `{name}`"),
                    format!("known are {known}"),
                ));
            }
        },
        None if config.dependencies.is_empty() => {
            ui::say("no policy file names a dependency: the built-in policy is drilled");
            vec![config.dependency(UNNAMED, Surface::Run)]
        }
        None => config.dependencies.into_values().collect(),
    };
    let of = |dependency: halfopen::config::Dependency| {
        if dependency.policy.mode == Mode::Observe {
            let name = &dependency.policy.dependency;
            ui::warn(&format!("{name} only observes; it is drilled as if it enforced its policy"));
        }
        Rehearsal::of(dependency).map_err(|error| DrillError::Policy(error.to_string()))
    };
    dependencies.into_iter().map(of).collect()
}

/// Returns the rows to play.
fn scenarios(args: &DrillArgs) -> Result<Vec<Scenario>, DrillError> {
    let mut scenarios = Scenario::shipped().map_err(|error| DrillError::Io(error.to_string()))?;
    for path in &args.scenario {
        let text = std::fs::read_to_string(path)
            .map_err(|error| DrillError::Io(format!("scenario {} cannot be read: {error}", path.display())))?;
        let read = Scenario::read(&path.display().to_string(), &text);
        scenarios.push(read.map_err(|error| DrillError::usage(error, "docs/drill.md says how scenarios are written"))?);
    }
    if !args.row.is_empty() {
        scenarios.retain(|scenario| args.row.iter().any(|begins| scenario.row.starts_with(begins.as_str())));
        let wanted = |name: &str| args.row.iter().any(|begins| name.starts_with(begins.as_str()));
        let own = args.live && live::OWN.into_iter().any(wanted);
        if scenarios.is_empty() && !own {
            return Err(DrillError::usage(
                format!("no row begins with `{}`", args.row.join("` or `")),
                "halfopen drill without --row shows all of them",
            ));
        }
    }
    Ok(scenarios)
}

/// Returns the failure of a policy file; shows its errors as `check` does.
fn unusable(error: &ConfigError) -> DrillError {
    if let ConfigError::Invalid { findings, .. } = error {
        for finding in findings.iter().filter(|finding| finding.level == Level::Error) {
            ui::raw(&format!("{}\n", finding.rendered));
        }
    }
    DrillError::Policy(error.to_string())
}

fn played_wrong(error: &world::PlayError) -> DrillError {
    match error {
        world::PlayError::Quantity(_) | world::PlayError::Scenario(_) => {
            DrillError::usage(error, "docs/drill.md says how scenarios are written")
        }
        world::PlayError::Store(_) => DrillError::Io(error.to_string()),
    }
}

/// Returns how wide the terminal is, if standard output is one.
fn width() -> Option<u16> {
    rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok().map(|size| size.ws_col).filter(|columns| *columns > 0)
}
