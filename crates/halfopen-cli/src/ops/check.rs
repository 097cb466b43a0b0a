//! `halfopen check`: reads a policy file as a person who did not write it would.

use std::path::PathBuf;

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen::activation;
use halfopen::config::{Config, ConfigError, Demand, Finding, Here, Level, locate};
use halfopen_core::policy::Surface;
use serde_json::{Value, json};

use super::place::Place;
use super::{Done, Failure, OK, out};
use crate::args::Shared;
use crate::{duration, exit, ui};

/// How far back calls are looked at, in milliseconds, and how many there must be before anything is said.
const OBSERVED_MS: i64 = 7 * 24 * 3_600_000;
const OBSERVED_CALLS_MIN: u64 = 20;

/// Arguments of `halfopen check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The policy file [default: --policy, else your own, else ./halfopen.yaml]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Exit with 1 on warnings
    #[arg(long, env = "HALFOPEN_STRICT", value_parser = BoolishValueParser::new())]
    pub strict: bool,
    /// Demand what a night needs: owner, reachable channel, explicit action, TTL and runbook
    #[arg(long, env = "HALFOPEN_PRODUCTION", value_parser = BoolishValueParser::new())]
    pub production: bool,
    /// Print one JSON object
    #[arg(long, env = "HALFOPEN_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
}

pub(super) fn run(shared: &Shared, args: &CheckArgs) -> Done {
    let named = args.file.as_deref().or(shared.policy.as_deref());
    let Some(path) = locate(named, Here::Taken) else {
        if args.json {
            out::json(&json!({ "file": null, "errors": 0, "warnings": 0, "findings": [] }))?;
        } else {
            ui::say_with_hint(
                "there is no policy file: the built-in policy holds",
                "halfopen init writes one to start from",
            );
        }
        return OK;
    };
    let demand = if args.production { Demand::Production } else { Demand::Usable };
    let (config, findings) = match Config::check(&path, demand) {
        Ok((config, findings)) => (Some(config), findings),
        Err(ConfigError::Invalid { findings, .. }) => (None, findings),
        Err(other) => return Err(Failure::new(exit::POLICY, other)),
    };
    let rare = config.as_ref().map(|config| rare_calls(shared, config)).unwrap_or_default();
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (errors, warnings) = (count(Level::Error), count(Level::Warning) + rare.len());
    if args.json {
        let mut list: Vec<Value> = findings.iter().map(as_json).collect();
        list.extend(rare.iter().map(|message| {
            json!({
                "level": "warning", "line": null, "column": null, "key": "circuit", "message": message, "help": null,
            })
        }));
        let file = path.display().to_string();
        out::json(&json!({ "file": file, "errors": errors, "warnings": warnings, "findings": list }))?;
    } else {
        let rendered: Vec<&str> = findings.iter().map(|finding| finding.rendered.as_str()).collect();
        let mut text = rendered.join("\n");
        for message in &rare {
            text.push_str(&format!("\nwarning: {message}\n"));
        }
        out::text(&text)?;
        let dependencies = config.as_ref().map_or(0, |config| config.dependencies.len());
        ui::say(&verdict(&path.display().to_string(), dependencies, errors, warnings));
    }
    Ok(if errors > 0 {
        exit::POLICY
    } else if args.strict && warnings > 0 {
        exit::FOUND
    } else {
        exit::OK
    })
}

fn verdict(file: &str, dependencies: usize, errors: usize, warnings: usize) -> String {
    let counted = |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
    let warned = counted(warnings, "warning", "warnings");
    if errors > 0 {
        return format!("{file} cannot be used: {}, {warned}", counted(errors, "error", "errors"));
    }
    format!("{file} is good: {}, {warned}", counted(dependencies, "dependency", "dependencies"))
}

fn as_json(finding: &Finding) -> Value {
    json!({
        "level": finding.level.as_str(),
        "line": finding.line,
        "column": finding.column,
        "key": finding.key,
        "message": finding.message,
        "help": finding.help,
    })
}

/// Warns of thresholds that the calls of the last week could never have reached.
///
/// A file alone cannot know how often it is called; the activation lines do. Without them nothing is said.
fn rare_calls(shared: &Shared, config: &Config) -> Vec<String> {
    let Ok(place) = Place::find_with(shared, config.clone()) else { return Vec::new() };
    let now = crate::shown::when::wall_ms();
    let Ok(report) = activation::read(&place.store, now.saturating_sub(OBSERVED_MS), now) else { return Vec::new() };
    let mut warnings = Vec::new();
    for name in config.dependencies.keys() {
        let Some(summary) = report.dependencies.get(name) else { continue };
        let circuit = config.dependency(name, Surface::Run).policy.circuit;
        let n = u64::from(circuit.open_after_failures.get());
        let window_ms = i64::try_from(circuit.window.as_millis()).unwrap_or(i64::MAX);
        let most = summary.busiest(window_ms);
        if summary.figures.calls >= OBSERVED_CALLS_MIN && most < n {
            warnings.push(format!(
                "`{name}` made at most {most} calls within {} during the last week: {n} failures never come together, \
                 and the breaker never opens",
                duration::show(circuit.window)
            ));
        }
    }
    warnings
}
