//! `halfopen audit`: does every job that was ever accepted stand somewhere, and does all of it hold together?

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen_core::job::JobState;
use serde_json::{Map, Value, json};

use super::place::{self, Place};
use super::{Done, out};
use crate::args::Shared;
use crate::{exit, ui};

/// Arguments of `halfopen audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// Print a JSON object
    #[arg(long, env = "HALFOPEN_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
}

pub(super) fn run(shared: &Shared, args: &AuditArgs) -> Done {
    let place = Place::find(shared)?;
    // Opening sweeps: a lease that has run out is nothing wrong until somebody had the chance to see it.
    let handle = place.open()?;
    let figures = handle.job_figures().map_err(place::store_failure)?;
    let report = handle.audit().map_err(place::store_failure)?;
    if args.json {
        let dependencies: Map<String, Value> = figures
            .iter()
            .map(|(name, figures)| {
                let tally = &figures.tally;
                let mut sums: Map<String, Value> = JobState::ALL
                    .into_iter()
                    .map(|state| (state.as_str().to_owned(), json!(tally.of(state))))
                    .collect();
                sums.insert("accepted".to_owned(), json!(tally.accepted));
                sums.insert("pruned".to_owned(), json!(tally.pruned));
                sums.insert("adds_up".to_owned(), json!(tally.adds_up()));
                (name.clone(), Value::Object(sums))
            })
            .collect();
        out::json(&json!({
            "good": report.is_good(),
            "jobs": report.jobs,
            "dependencies": dependencies,
            "wrong": report.wrong,
            "more_wrong": report.more_wrong,
        }))?;
    } else {
        let mut head = vec!["dependency", "accepted"];
        head.extend(JobState::ALL.iter().map(|state| state.as_str()));
        head.push("pruned");
        let rows: Vec<Vec<String>> = figures
            .iter()
            .map(|(name, figures)| {
                let mut row = vec![name.clone(), figures.tally.accepted.to_string()];
                row.extend(JobState::ALL.iter().map(|state| figures.tally.of(*state).to_string()));
                row.push(figures.tally.pruned.to_string());
                row
            })
            .collect();
        if !rows.is_empty() {
            out::text(&out::table(&head, &rows))?;
        }
    }
    for wrong in &report.wrong {
        ui::error(wrong);
    }
    if report.more_wrong > 0 {
        ui::error(&format!("and {} more", report.more_wrong));
    }
    if report.is_good() {
        ui::say(&format!("{} jobs were looked at, all holds together", report.jobs));
        return Ok(exit::OK);
    }
    Ok(exit::FOUND)
}
