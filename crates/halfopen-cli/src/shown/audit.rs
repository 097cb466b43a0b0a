//! Shows an audit: the document that the API gives and `--json` prints.

use std::collections::BTreeMap;

use halfopen::handle::jobs::AuditReport;
use halfopen::store::jobs::JobFigures;
use halfopen_core::job::JobState;
use serde_json::{Map, Value, json};

/// Returns what an audit found, with the sums of each dependency.
pub(crate) fn audit_document(figures: &BTreeMap<String, JobFigures>, report: &AuditReport) -> Value {
    let sums = |figures: &JobFigures| {
        let tally = &figures.tally;
        let mut sums: Map<String, Value> =
            JobState::ALL.into_iter().map(|state| (state.as_str().to_owned(), json!(tally.of(state)))).collect();
        sums.insert("accepted".to_owned(), json!(tally.accepted));
        sums.insert("pruned".to_owned(), json!(tally.pruned));
        sums.insert("adds_up".to_owned(), json!(tally.adds_up()));
        Value::Object(sums)
    };
    let dependencies: Map<String, Value> =
        figures.iter().map(|(name, figures)| (name.clone(), sums(figures))).collect();
    json!({
        "good": report.is_good(),
        "jobs": report.jobs,
        "dependencies": dependencies,
        "wrong": report.wrong,
        "more_wrong": report.more_wrong,
    })
}
