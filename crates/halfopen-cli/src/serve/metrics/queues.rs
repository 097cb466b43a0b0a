//! The figures of jobs: how many are where, how old the oldest are, how fast they return.

use halfopen_core::job::JobState;

use super::super::queue::progress::Progress;
use super::{Family, Reading, level, of_dependency, with};

/// The states in which this process can have ended a job, or given it to a person.
const ENDED: [JobState; 5] =
    [JobState::Done, JobState::Failed, JobState::Expired, JobState::ManualReview, JobState::Cancelled];

pub(super) fn families(reading: &Reading<'_>) -> Vec<Family> {
    let none = Progress::default();
    let of = |dependency: &str| reading.queues.get(dependency).unwrap_or(&none);
    let each = || reading.counts.iter();
    let by_state = |name, help, value: &dyn Fn(&Progress, JobState) -> f64| {
        let all = each().flat_map(|(dependency, _)| {
            JobState::ALL
                .map(|state| (with(of_dependency(dependency), "state", state.as_str()), value(of(dependency), state)))
        });
        Family::gauge(name, help, all)
    };
    let progress = |name, help, value: fn(&Progress) -> f64| {
        Family::gauge(name, help, each().map(|(dependency, _)| (of_dependency(dependency), value(of(dependency)))))
    };
    vec![
        by_state("jobs", "Jobs in this state", &|progress, state| level(progress.figures.tally.of(state))),
        by_state(
            "jobs_oldest_seconds",
            "Seconds since the oldest job in this state was accepted",
            &|progress, state| {
                progress.figures.oldest.get(&state).map_or(0.0, |at| reading.now.since(*at).as_secs_f64())
            },
        ),
        progress("drain_rate_per_second", "Held-back starts per second, 0 while there is no ramp", |progress| {
            progress.rate.unwrap_or(0.0)
        }),
        progress("drain_seconds_left", "Seconds until all that waits has started, at this rate", |progress| {
            progress.left.map_or(0.0, |left| left.as_secs_f64())
        }),
        progress("drain_late", "Waiting jobs that expire before their turn, at this rate", |progress| {
            level(progress.late)
        }),
        Family::counter(
            "jobs_ended",
            "Jobs that ended in this process, or went to a person, by state",
            each().flat_map(|(dependency, counts)| {
                ENDED.map(|state| (with(of_dependency(dependency), "state", state.as_str()), counts.jobs_ended(state)))
            }),
        ),
    ]
}
