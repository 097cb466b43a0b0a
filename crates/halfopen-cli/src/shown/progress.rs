//! Says how far the queue of a dependency is: how many jobs are where, how fast they start, and how many come too late.
//!
//! The rate is the ramp's, as it stands. While a breaker is open nothing starts, and without a ramp nothing but
//! `max_in_flight` bounds the starts; both times there is no rate that a time could be told from, and none is.

use std::collections::BTreeMap;
use std::time::Duration;

use halfopen::handle::{CircuitView, Handle};
use halfopen::store::jobs::{JobFigures, JobFilter};
use halfopen_core::event::State;
use halfopen_core::job::JobState;
use halfopen_core::time::Timestamp;
use serde_json::{Value, json};

use super::When;

/// How many waiting jobs are looked at for their time to live, the oldest first.
const LOOKED_AT_MAX: usize = 1000;

/// How far the queue of one dependency is. What of it is open stands in `--json` and the API beside each circuit
/// ([`jobs_json`]).
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// How many jobs are where, and how old the oldest are.
    pub(crate) figures: JobFigures,
    /// Starts per second, while a ramp is on.
    pub(crate) rate: Option<f64>,
    /// When all that waits has started, at this rate.
    pub(crate) left: Option<Duration>,
    /// How many of the oldest [`LOOKED_AT_MAX`] that wait expire before their turn, at this rate.
    pub(crate) late: u64,
}

impl Progress {
    /// Reads it for every dependency that has jobs. What cannot be read is left out.
    pub(crate) fn read(handle: &Handle, circuits: &[CircuitView], now: Timestamp) -> BTreeMap<String, Self> {
        let figures = handle.job_figures().unwrap_or_default();
        let progress = figures.into_iter().map(|(name, figures)| {
            let of = circuits.iter().filter(|view| view.id.dependency() == name && view.status.state == State::Closed);
            let rate = of.filter_map(|view| view.status.ramp_per_sec).filter(|rate| *rate > 0.0).reduce(f64::max);
            let queued = figures.tally.queued;
            let left = rate.and_then(|rate| starts_in(queued, rate));
            let late = rate.filter(|_| queued > 0).map_or(0, |rate| late(handle, &name, rate, now));
            (name, Self { figures, rate, left, late })
        });
        progress.collect()
    }
}

/// Returns how far a queue is, as it stands beside each circuit of its dependency; null if nothing of it is open.
pub(crate) fn jobs_json(progress: Option<&Progress>, when: &When) -> Value {
    let Some(progress) = progress.filter(|progress| progress.figures.tally.open() > 0) else { return Value::Null };
    let tally = &progress.figures.tally;
    let oldest = progress.figures.oldest.get(&JobState::Queued);
    json!({
        "queued": tally.queued,
        "running": tally.running,
        "manual_review": tally.manual_review,
        "oldest_queued_at": oldest.map(|at| when.rfc3339(*at)),
        "oldest_queued_sec": oldest.map(|at| when.now.since(*at).as_secs()),
        "rate_per_sec": progress.rate,
        "done_at": progress.left.map(|left| when.rfc3339(when.now + left)),
        "late": progress.late,
    })
}

/// Returns when the n-th job that waits starts.
fn starts_in(n: u64, rate: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(f64::from(u32::try_from(n).unwrap_or(u32::MAX)) / rate).ok()
}

fn late(handle: &Handle, dependency: &str, rate: f64, now: Timestamp) -> u64 {
    let filter = JobFilter {
        dependency: Some(dependency.to_owned()),
        state: Some(JobState::Queued),
        limit: LOOKED_AT_MAX,
        ..JobFilter::default()
    };
    let jobs = handle.jobs(&filter).unwrap_or_default().jobs;
    let turns =
        (1..).zip(jobs).filter(|(n, view)| starts_in(*n, rate).is_none_or(|wait| view.job.expires_at() < now + wait));
    turns.count() as u64
}
