//! Shows what the protection did, and what it did not understand.

use std::time::Duration;

use askama::Template;
use halfopen::activation::Figures;
use halfopen_core::classify::{Classifier, suggest_command, suggest_http};
use halfopen_core::outcome::{CommandOutcome, Excerpt, Exit, HttpOutcome, Reached};

use super::super::drills::is_one;
use super::super::problem::Problem;
use super::look::Look;
use super::page::markup;
use super::say::fill;
use super::words::Words;

/// How many columns the table of figures has at most.
const COLUMNS_MAX: usize = 24;
/// How many different unclassified failures are shown.
const UNKNOWN_MAX: usize = 10;

#[derive(Template)]
#[template(path = "dashboard/figures.html")]
struct FiguresTemplate<'a> {
    w: &'a Words,
    names: Vec<String>,
    rows: Vec<FigureRow>,
}

struct FigureRow {
    name: &'static str,
    values: Vec<String>,
}

#[derive(Template)]
#[template(path = "dashboard/unknown.html")]
struct Unknown<'a> {
    w: &'a Words,
    failures: Vec<UnknownFailure>,
}

struct UnknownFailure {
    dependency: String,
    times: String,
    line: String,
    rule: Option<String>,
}

/// Renders what was counted, zeros and all: the last day of every process, and this one since it began.
pub(super) fn render(look: &Look<'_>) -> Result<String, Problem> {
    let report = look.figures(1);
    let mut names: Vec<String> = look.gateway.live().dependencies().map(|dependency| dependency.name.clone()).collect();
    names.extend(report.dependencies.keys().cloned());
    // Rehearsals have their own report.
    names.retain(|name| !is_one(name));
    names.sort();
    names.dedup();
    names.truncate(COLUMNS_MAX);
    let columns: Vec<Figures> = names
        .iter()
        .flat_map(|name| {
            let day = report.dependencies.get(name).map(|summary| summary.figures).unwrap_or_default();
            [day, look.counted(name)]
        })
        .collect();
    let w = look.say.w;
    let titles = [
        w.fig_calls,
        w.fig_rate_limited,
        w.fig_overloaded,
        w.fig_hints_read,
        w.fig_waits,
        w.fig_opened,
        w.fig_refused,
        w.fig_degraded,
        w.fig_probes,
        w.fig_queued,
        w.fig_drained,
        w.fig_expired,
        w.fig_unclassified,
    ];
    let value = |at: usize| columns.iter().map(move |figures| figures.named()[at].1.to_string());
    let mut rows: Vec<FigureRow> =
        titles.into_iter().enumerate().map(|(at, name)| FigureRow { name, values: value(at).collect() }).collect();
    let failed = columns.iter().map(|figures| figures.failed.to_string()).collect();
    rows.insert(1, FigureRow { name: w.fig_failed, values: failed });
    markup(&FiguresTemplate { w, names, rows })
}

/// Renders the failures that no rule knew, the most seen first, each with a rule to add.
pub(super) fn unknown(look: &Look<'_>) -> Result<String, Problem> {
    let report = look.figures(1);
    let mut found: Vec<(&String, &String, u64)> = report
        .dependencies
        .iter()
        .flat_map(|(name, summary)| summary.unclassified_lines.iter().map(move |(line, n)| (name, line, *n)))
        .collect();
    found.sort_by_key(|(_, _, n)| std::cmp::Reverse(*n));
    found.truncate(UNKNOWN_MAX);
    let shown = found.into_iter().map(|(name, line, n)| UnknownFailure {
        dependency: name.clone(),
        times: fill(look.say.w.times, &[("n", &n.to_string())]),
        line: line.clone(),
        rule: rule(look, name, line),
    });
    markup(&Unknown { w: look.say.w, failures: shown.collect() })
}

/// Returns a rule to paste into the policy, made from the first line of what no rule knew: of an answer where the gateway
/// knows the way to the dependency, else of a command.
fn rule(look: &Look<'_>, dependency: &str, line: &str) -> Option<String> {
    let known = look.gateway.live().dependency(dependency).filter(|known| known.upstream.is_some());
    let Some(dependency) = known else {
        let outcome = CommandOutcome {
            exit: Exit::Code(1),
            stdout: Excerpt::whole(b""),
            stderr: Excerpt::whole(line.as_bytes()),
            elapsed: Duration::ZERO,
        };
        return suggest_command(&Classifier::new("generic", Vec::new()).ok()?, &outcome);
    };
    let outcome = HttpOutcome {
        method: "POST",
        status: 500,
        headers: &[],
        body: Excerpt::whole(line.as_bytes()),
        reached: Reached::Answered,
        elapsed: Duration::ZERO,
    };
    suggest_http(&dependency.classifier, &outcome)
}
