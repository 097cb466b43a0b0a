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

/// How many waiting jobs are looked at for their time to live, the oldest first.
const LOOKED_AT_MAX: usize = 1000;

/// How far the queue of one dependency is.
#[derive(Clone, Debug, Default)]
pub(in crate::serve) struct Progress {
    /// How many jobs are where, and how old the oldest are.
    pub(in crate::serve) figures: JobFigures,
    /// Starts per second, while a ramp is on.
    pub(in crate::serve) rate: Option<f64>,
    /// When all that waits has started, at this rate.
    pub(in crate::serve) left: Option<Duration>,
    /// How many of the oldest [`LOOKED_AT_MAX`] that wait expire before their turn, at this rate.
    pub(in crate::serve) late: u64,
}

impl Progress {
    /// Reads it for every dependency that has jobs. What cannot be read is left out.
    pub(in crate::serve) fn read(handle: &Handle, circuits: &[CircuitView], now: Timestamp) -> BTreeMap<String, Self> {
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

/// Returns when the n-th job that waits starts.
fn starts_in(n: u64, rate: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(f64::from(u32::try_from(n).unwrap_or(u32::MAX)) / rate).ok()
}

fn late(handle: &Handle, dependency: &str, rate: f64, now: Timestamp) -> u64 {
    let filter = JobFilter {
        dependency: Some(dependency.to_owned()),
        state: Some(JobState::Queued),
        after: None,
        limit: LOOKED_AT_MAX,
    };
    let jobs = handle.jobs(&filter).unwrap_or_default().jobs;
    let turns =
        (1..).zip(jobs).filter(|(n, view)| starts_in(*n, rate).is_none_or(|wait| view.job.expires_at() < now + wait));
    turns.count() as u64
}
