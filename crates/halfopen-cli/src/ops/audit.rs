//! `halfopen audit`: does every job that was ever accepted stand somewhere, and does all of it hold together?

use clap::Args;
use clap::builder::BoolishValueParser;
use halfopen_core::job::JobState;
use serde_json::Value;

use super::place::{self, Place};
use super::remote::{At, Remote};
use super::{Done, out};
use crate::args::Shared;
use crate::shown::audit_document;
use crate::{exit, ui};

/// Arguments of `halfopen audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// Print a JSON object
    #[arg(long, env = "HALFOPEN_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// Which gateway is asked, if one is.
    #[command(flatten)]
    pub at: At,
}

pub(super) fn run(shared: &Shared, args: &AuditArgs) -> Done {
    if let Some(gateway) = Remote::named(&args.at)? {
        return told(args, &gateway.patient().document("/audit")?);
    }
    let place = Place::find(shared)?;
    // Opening sweeps: a lease that has run out is nothing wrong until somebody had the chance to see it.
    let handle = place.open_existing()?;
    let figures = handle.job_figures().map_err(place::store_failure)?;
    let report = handle.audit().map_err(place::store_failure)?;
    told(args, &audit_document(&figures, &report))
}

/// Says what was found, from the document that a gateway gives as well.
fn told(args: &AuditArgs, found: &Value) -> Done {
    if args.json {
        out::json(found)?;
    } else if let Some(dependencies) = found["dependencies"].as_object().filter(|known| !known.is_empty()) {
        let mut head = vec!["dependency", "accepted"];
        head.extend(JobState::ALL.iter().map(|state| state.as_str()));
        head.push("pruned");
        let row = |(name, sums): (&String, &Value)| {
            let sum = |key: &&str| sums[*key].as_u64().map_or_else(|| "-".to_owned(), |sum| sum.to_string());
            std::iter::once(name.clone()).chain(head[1..].iter().map(sum)).collect()
        };
        let rows: Vec<Vec<String>> = dependencies.iter().map(row).collect();
        out::text(&out::table(&head, &rows))?;
    }
    for wrong in found["wrong"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        ui::error(wrong);
    }
    if let Some(more) = found["more_wrong"].as_u64().filter(|more| *more > 0) {
        ui::error(&format!("and {more} more"));
    }
    if found["good"] == true {
        ui::say(&format!("{} jobs were looked at, all holds together", found["jobs"]));
        return Ok(exit::OK);
    }
    Ok(exit::FOUND)
}
