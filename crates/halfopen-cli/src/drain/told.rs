//! Says how far a drain is, and what it came to.

use std::collections::BTreeMap;

use halfopen::handle::Handle;
use halfopen::store::StoreError;
use halfopen_core::job::JobState;
use serde_json::{Value, json};

use super::hands::Hands;
use crate::ui;
use crate::work::Left;

/// Returns how many jobs of each dependency wait.
pub(super) fn queued(handle: &Handle, only: Option<&str>) -> Result<BTreeMap<String, u64>, StoreError> {
    let figures = handle.job_figures()?;
    let wanted = figures.into_iter().filter(|(name, _)| only.is_none_or(|only| only == name));
    Ok(wanted.map(|(name, figures)| (name, figures.tally.queued)).collect())
}

/// Writes over the line that a person at the terminal sees.
pub(super) fn progress(hands: &Hands, handle: &Handle, only: Option<&str>) {
    let Ok(queued) = queued(handle, only) else { return };
    let done = of(hands, JobState::Done);
    ui::raw(&format!("\r\x1b[Khalfopen: {done} done, {} left", queued.values().sum::<u64>()));
}

fn of(hands: &Hands, state: JobState) -> u64 {
    hands.ended().values().filter_map(|ended| ended.get(&state)).sum()
}

/// Says what a drain came to: as JSON on standard output, or a line for each dependency on standard error.
pub(super) fn end(hands: &Hands, left: &[Left], queued: &BTreeMap<String, u64>, over_a_line: bool, as_json: bool) {
    let ended = hands.ended();
    let mut names: Vec<&String> = ended.keys().chain(queued.keys().filter(|name| queued[*name] > 0)).collect();
    names.sort_unstable();
    names.dedup();
    let why = |name: &str| left.iter().find(|left| left.dependency == name).and_then(|left| left.why.clone());
    let waits = |name: &str| queued.get(name).copied().unwrap_or(0);
    let count = |name: &str, state| ended.get(name).and_then(|ended| ended.get(&state)).copied().unwrap_or(0);
    if as_json {
        let dependencies: Vec<Value> = names
            .iter()
            .map(|name| {
                json!({
                    "dependency": name,
                    "done": count(name, JobState::Done),
                    "failed": count(name, JobState::Failed),
                    "manual_review": count(name, JobState::ManualReview),
                    "returned": count(name, JobState::Queued),
                    "left": waits(name),
                    "why": why(name).filter(|_| waits(name) > 0),
                })
            })
            .collect();
        let left: u64 = queued.values().sum();
        ui::data(&json!({ "left": left, "dependencies": dependencies }).to_string());
        return;
    }
    if over_a_line {
        ui::raw("\r\x1b[K");
    }
    for name in names {
        let mut parts = vec![format!("{} done", count(name, JobState::Done))];
        for (state, word) in [
            (JobState::Failed, "failed"),
            (JobState::ManualReview, "for a person to decide"),
            (JobState::Expired, "expired"),
            (JobState::Queued, "back in the queue"),
        ] {
            let jobs = count(name, state);
            if jobs > 0 {
                parts.push(format!("{jobs} {word}"));
            }
        }
        let waits = waits(name);
        if waits > 0 {
            let why = why(name).map(|why| format!(" ({why})")).unwrap_or_default();
            parts.push(format!("{waits} left{why}"));
        }
        ui::say(&format!("{name}: {}", parts.join(", ")));
    }
}
