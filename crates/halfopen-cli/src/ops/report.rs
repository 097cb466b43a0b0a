//! `halfopen report`: what the protection did, and whether it is there at all.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen::activation::{self, Figures, Summary};
use halfopen_core::alert::DRILL;
use halfopen_core::policy::Surface;
use serde_json::{Map, Value, json};

use super::place::Place;
use super::{Done, Failure, OK, out};
use crate::args::Shared;
use crate::duration::{self, parse_positive};
use crate::shown::when;
use crate::{exit, ui};

/// So many unclassified failures may be chance.
const GROWING_MIN: u64 = 3;
/// How many unclassified lines of a dependency are printed.
const LINES_SHOWN: usize = 10;

/// Arguments of `halfopen report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// How far back
    #[arg(long, env = "HALFOPEN_REPORT_SINCE", value_name = "DURATION", default_value = "24h", value_parser = |w: &str| parse_positive(w))]
    pub since: Duration,
    /// Print a JSON list
    #[arg(long, env = "HALFOPEN_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Exit with 1 on silence, on growing unclassified failures, or if no failure was recognised
    #[arg(long, env = "HALFOPEN_CHECK", value_parser = BoolishValueParser::new())]
    pub check: bool,
}

pub(super) fn run(shared: &Shared, args: &ReportArgs) -> Done {
    let place = Place::find(shared)?;
    let now = when::wall_ms();
    let since = now.saturating_sub(millis(args.since));
    let report = activation::read(&place.store, since, now).map_err(|error| Failure::new(exit::IO, error))?;
    // A dependency of the policy that left no line is what the report is for.
    let mut dependencies: BTreeMap<String, Summary> =
        place.config.dependencies.keys().map(|name| (name.clone(), Summary::default())).collect();
    let any_line = !report.dependencies.is_empty();
    // Rehearsals are in the file like everything else, and say nothing about the night.
    dependencies.extend(report.dependencies.into_iter().filter(|(name, _)| !name.contains(DRILL)));
    if args.json {
        let list: Vec<Value> = dependencies.iter().map(|(name, summary)| as_json(name, summary)).collect();
        out::json(&list)?;
    } else {
        out::text(&as_text(&dependencies))?;
        if dependencies.is_empty() && !args.check {
            ui::say_with_hint(
                &format!("no run left a line in {} during the last {}", lines_of(&place), duration::show(args.since)),
                "nothing is guarded, or under another HOME or --store: put halfopen run -- in front of the command",
            );
        }
        place.warn_of_new_stores();
        if report.unreadable > 0 {
            ui::warn(&format!("{} lines could not be read", report.unreadable));
        }
    }
    if !args.check {
        return OK;
    }
    let mut faults = Vec::new();
    for (name, summary) in &dependencies {
        faults.extend(faults_of(name, summary));
        faults.extend(silence(&place, name, now)?);
    }
    // A policy that expects calls less often than was asked for has the last word on what silence is.
    let as_expected = faults.is_empty() && dependencies.keys().any(|name| expected(&place, name).is_some());
    if !any_line && !as_expected {
        faults.push(format!(
            "no run left a line in {} during the last {}: nothing is guarded, or it runs under another HOME or --store",
            lines_of(&place),
            duration::show(args.since)
        ));
    }
    for fault in &faults {
        ui::error(fault);
    }
    Ok(if faults.is_empty() { exit::OK } else { exit::FOUND })
}

fn as_json(name: &str, summary: &Summary) -> Value {
    let mut line = Map::new();
    line.insert("dependency".to_owned(), json!(name));
    for (figure, value) in summary.figures.named() {
        line.insert(figure.to_owned(), json!(value));
    }
    line.insert("unclassified_lines".to_owned(), json!(most_seen(summary).map(|(line, _)| line).collect::<Vec<_>>()));
    Value::Object(line)
}

/// One block of lines for each dependency, the figures side by side: a table of so many columns is too wide to read.
fn as_text(dependencies: &BTreeMap<String, Summary>) -> String {
    let mut head = vec!["figure"];
    head.extend(dependencies.keys().map(String::as_str));
    if dependencies.is_empty() {
        return String::new();
    }
    let names = Figures::default().named();
    let mut rows: Vec<Vec<String>> = names
        .iter()
        .enumerate()
        .map(|(index, (figure, _))| {
            let mut row = vec![figure.replace('_', " ")];
            row.extend(dependencies.values().map(|summary| summary.figures.named()[index].1.to_string()));
            row
        })
        .collect();
    // Timeouts, lost connections and server errors have no figure of their own; a person misses them, scripts rely on
    // the thirteen keys.
    let mut failed = vec!["failed".to_owned()];
    failed.extend(dependencies.values().map(|summary| summary.figures.failed.to_string()));
    rows.insert(1, failed);
    let mut text = out::table_as_written(&head, &rows);
    for (name, summary) in dependencies {
        if summary.unclassified_lines.is_empty() {
            continue;
        }
        text.push_str(&format!("\n{name}, failures that no rule knew:\n"));
        for (line, times) in most_seen(summary).take(LINES_SHOWN) {
            text.push_str(&format!("  {times} × {line}\n"));
        }
    }
    text
}

fn most_seen(summary: &Summary) -> impl Iterator<Item = (&String, u64)> {
    let mut lines: Vec<(&String, u64)> = summary.unclassified_lines.iter().map(|(line, n)| (line, *n)).collect();
    lines.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    lines.into_iter()
}

/// Says what the figures of one dependency prove to be wrong.
fn faults_of(name: &str, summary: &Summary) -> Vec<String> {
    let figures = &summary.figures;
    let mut faults = Vec::new();
    let known = figures.failed.saturating_sub(figures.unclassified) + figures.rate_limited + figures.overloaded;
    if figures.unclassified > 0 && known == 0 {
        faults.push(format!(
            "{name}: 0 of {} failures were recognised: the rule pack does not know this command",
            figures.unclassified
        ));
    }
    let [earlier, later] = &summary.halves;
    // By share of the calls, so that a busy night alone is no fault.
    let share_grew = u128::from(later.unclassified) * u128::from(earlier.calls.max(1))
        > u128::from(earlier.unclassified) * u128::from(later.calls.max(1));
    if later.unclassified >= GROWING_MIN && later.unclassified > earlier.unclassified && share_grew {
        faults.push(format!(
            "{name}: unclassified failures are growing, from {} in the earlier half to {}",
            earlier.unclassified, later.unclassified
        ));
    }
    faults
}

/// Says whether a dependency has been silent for longer than its policy expects, however far back was asked for.
fn silence(place: &Place, name: &str, now: i64) -> Result<Option<String>, Failure> {
    let Some(every) = expected(place, name) else { return Ok(None) };
    let since = now.saturating_sub(millis(every));
    let report = activation::read(&place.store, since, now).map_err(|error| Failure::new(exit::IO, error))?;
    let calls = report.dependencies.get(name).map_or(0, |summary| summary.figures.calls);
    Ok((calls == 0)
        .then(|| format!("{name}: no call during the last {}, which its policy expects", duration::show(every))))
}

/// Returns how often calls of a dependency are expected.
fn expected(place: &Place, name: &str) -> Option<Duration> {
    place.config.dependency(name, Surface::Run).policy.expect_calls_every
}

/// Names the file that runs leave their lines in.
fn lines_of(place: &Place) -> String {
    activation::file_of(&place.store).map_or_else(|| "memory".to_owned(), |file| file.display().to_string())
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
