//! The figures that calls leave: what was counted for each dependency since the process began.

use halfopen_core::verdict::Class;

use super::super::counts::{Counts, REASONS, Spread};
use super::{Family, Reading, of_dependency, with};

/// A counter of every dependency: its name, what it counts, and where that is.
type Counted = (&'static str, &'static str, fn(&Counts) -> u64);

const COUNTERS: [Counted; 16] = [
    ("jobs_queued", "Calls that were kept for later, or for a person", |counts| counts.queued.total()),
    ("jobs_claimed", "Jobs that this process claimed", |counts| counts.jobs_claimed.total()),
    ("calls", "Calls", |counts| counts.calls()),
    ("retries", "Attempts after the first of their call", |counts| counts.retries.total()),
    ("waits", "Waits that were slept", |counts| counts.waits.total()),
    ("hints_read", "Stated waits that were read", |counts| counts.hints_read.total()),
    ("opened", "Breakers that this process opened", |counts| counts.opened.total()),
    ("probes", "Attempts that were probes", |counts| counts.probes.total()),
    ("degraded", "Calls that ended without their work done", |counts| counts.degraded.total()),
    ("unclassified", "Failures that no rule knew", |counts| counts.attempts_of(Class::UnknownFailure)),
    ("client_aborts", "Calls whose caller went away", |counts| counts.client_abort.total()),
    ("would_refuse", "Calls that an enforcing policy would have refused", |counts| counts.would_refuse.total()),
    ("cache_answers", "Calls answered with an earlier answer", |counts| counts.cache_answers.total()),
    ("fallback_answers", "Calls answered by another dependency", |counts| counts.fallback_answers.total()),
    ("body_not_replayable", "Calls not tried again for the length of their body", |counts| {
        counts.body_not_replayable.total()
    }),
    ("panics", "Panics caught while a call was carried through", |counts| counts.panics.total()),
];

/// Times of every dependency: their name, what they are, and where they stand.
type Timed = (&'static str, &'static str, fn(&Counts) -> Spread);

const TIMES: [Timed; 3] = [
    ("attempt_head_seconds", "Seconds until the head of the answer to an attempt came, or its failure", |counts| {
        counts.to_head.read()
    }),
    ("wait_seconds", "Seconds that a call slept before an attempt, for a refusal or between attempts", |counts| {
        counts.slept.read()
    }),
    ("job_age_seconds", "Seconds from accepting a job to an attempt of it", |counts| counts.job_ages.read()),
];

pub(super) fn families(reading: &Reading<'_>) -> Vec<Family> {
    let each = || reading.counts.iter();
    let counters = COUNTERS.into_iter().map(|(name, help, value)| {
        Family::counter(name, help, each().map(|(dependency, counts)| (of_dependency(dependency), value(counts))))
    });
    let mut families: Vec<Family> = counters.collect();
    families.push(Family::counter(
        "refused",
        "Calls that the door refused, by why",
        each().flat_map(|(dependency, counts)| {
            REASONS
                .map(|reason| (with(of_dependency(dependency), "reason", reason.as_str()), counts.refused_for(reason)))
        }),
    ));
    families.push(Family::counter(
        "attempts",
        "Attempts that ended, by what they turned out to be",
        each().flat_map(|(dependency, counts)| {
            Class::ALL
                .map(|class| (with(of_dependency(dependency), "class", class.as_str()), counts.attempts_of(class)))
        }),
    ));
    families.extend(TIMES.into_iter().map(|(name, help, value)| {
        Family::histogram(name, help, each().map(|(dependency, counts)| (of_dependency(dependency), value(counts))))
    }));
    families
}
