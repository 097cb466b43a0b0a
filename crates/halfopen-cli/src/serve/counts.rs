//! Counts what the gateway did, for one dependency, since the process began.
//!
//! [`Counts`] is a set of numbers that only grow; whoever reports subtracts what was reported before. It is found by
//! the dependency's name ([`Register`]) and outlives the policy, so that a reload loses nothing. [`Counts::figures`]
//! has the shape of the activation line; beside it stand the figures that only the gateway knows.
//!
//! Plain atomics, relaxed: nobody decides anything by them. What every call touches has cache lines of its own. Numbers
//! per thread were considered: they save some ten nanoseconds of a call that crosses the kernel eight times.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use halfopen::activation::Figures;
use halfopen_core::job::JobState;
use halfopen_core::permit::RefusalReason;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::verdict::{Class, Verdict};

/// How many first lines of unclassified failures are kept until somebody takes them.
const UNCLASSIFIED_MAX: usize = 16;

/// One number that only grows.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    /// Adds one.
    pub(super) fn add(&self) {
        self.add_many(1);
    }

    /// Adds several.
    pub(super) fn add_many(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Returns the number.
    pub(super) fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Every reason for which the door refuses.
pub(super) const REASONS: [RefusalReason; 5] =
    [RefusalReason::Open, RefusalReason::ProbesOut, RefusalReason::Throttled, RefusalReason::Ramp, RefusalReason::Held];

/// The upper ends, in seconds, of the spans that times are sorted into.
const SPANS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// The same for the ages of jobs, which may have waited for days.
const AGES: [f64; 14] =
    [0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 21_600.0, 43_200.0, 86_400.0, 259_200.0];

/// Times, sorted into spans.
#[derive(Debug)]
pub(super) struct Times {
    bounds: &'static [f64],
    /// One for each span, and one for what is longer.
    spans: Box<[Count]>,
    micros: Count,
}

/// Times as they were read.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    /// The upper ends of the spans, in seconds.
    pub(super) bounds: &'static [f64],
    /// How many fell into each, and how many were longer.
    pub(super) times: Vec<u64>,
    micros: u64,
}

impl Times {
    /// Returns none, to be sorted by these upper ends, in seconds.
    pub(super) fn of(bounds: &'static [f64]) -> Self {
        Self { bounds, spans: (0..=bounds.len()).map(|_| Count::default()).collect(), micros: Count::default() }
    }

    /// Adds a time.
    pub(super) fn add(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let at = self.bounds.iter().position(|end| seconds <= *end).unwrap_or(self.bounds.len());
        self.spans[at].add();
        self.micros.add_many(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Returns what was added so far.
    pub(super) fn read(&self) -> Spread {
        let times = self.spans.iter().map(Count::total).collect();
        Spread { bounds: self.bounds, times, micros: self.micros.total() }
    }
}

impl Default for Times {
    fn default() -> Self {
        Self::of(&SPANS)
    }
}

/// The ages of jobs.
#[derive(Debug)]
pub(super) struct Ages(Times);

impl Default for Ages {
    fn default() -> Self {
        Self(Times::of(&AGES))
    }
}

impl std::ops::Deref for Ages {
    type Target = Times;

    fn deref(&self) -> &Times {
        &self.0
    }
}

impl Spread {
    /// Returns how many there were.
    pub(super) fn all(&self) -> u64 {
        self.times.iter().sum()
    }

    /// Returns how long all of them took together.
    pub(super) fn seconds(&self) -> f64 {
        Duration::from_micros(self.micros).as_secs_f64()
    }
}

/// What every call counts, apart from what others read. Two cache lines, because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct PerCall {
    calls: Count,
    successes: Count,
}

/// What the gateway did for one dependency.
#[derive(Debug, Default)]
pub(super) struct Counts {
    per_call: PerCall,
    /// Attempts that failed, by class, in the order of [`Class::ALL`]; the successes are counted elsewhere.
    failures: [Count; Class::ALL.len()],
    /// Stated waits that were read.
    pub(super) hints_read: Count,
    /// Waits that were slept: before an attempt that was refused, and between attempts.
    pub(super) waits: Count,
    /// Breakers that an attempt of this process opened.
    pub(super) opened: Count,
    /// Calls that the door refused, in the order of [`REASONS`]; once for each reason, however often they asked.
    refused: [Count; REASONS.len()],
    /// Calls that ended without their work done: a refusal, or a failure of the dependency as the last word.
    pub(super) degraded: Count,
    /// Attempts that were probes.
    pub(super) probes: Count,
    /// Attempts after the first of their call.
    pub(super) retries: Count,
    /// Calls whose caller went away before they were over.
    pub(super) client_abort: Count,
    /// Calls that could not be tried again because their body was longer than is kept.
    pub(super) body_not_replayable: Count,
    /// Calls of a policy that only observes which an enforcing one would have refused.
    pub(super) would_refuse: Count,
    /// Calls answered with what was kept of an earlier answer.
    pub(super) cache_answers: Count,
    /// Calls answered by another dependency.
    pub(super) fallback_answers: Count,
    /// Calls that were kept for later, or for a person.
    pub(super) queued: Count,
    /// Jobs that this process claimed.
    pub(super) jobs_claimed: Count,
    /// Jobs that ended here, by state, in the order of [`JobState::ALL`].
    jobs_ended: [Count; JobState::ALL.len()],
    /// Panics that were caught while a call was carried through.
    pub(super) panics: Count,
    /// How long attempts took until the head of their answer came, or the failure.
    pub(super) to_head: Times,
    /// How long calls slept before an attempt.
    pub(super) slept: Times,
    /// How old jobs were when an attempt of them began.
    pub(super) job_ages: Ages,
    unclassified: Mutex<VecDeque<String>>,
}

impl Counts {
    /// Counts a call.
    pub(super) fn call(&self) {
        self.per_call.calls.add();
    }

    /// Counts an attempt that went well.
    pub(super) fn success(&self) {
        self.per_call.successes.add();
    }

    /// Counts an attempt by what it turned out to be.
    pub(super) fn judged(&self, verdict: &Verdict) {
        if verdict.class == Class::Success {
            self.success();
            return;
        }
        if let Some(at) = Class::ALL.iter().position(|class| *class == verdict.class) {
            self.failures[at].add();
        }
        if verdict.hint.is_some() {
            self.hints_read.add();
        }
        if verdict.class == Class::UnknownFailure {
            let mut lines = self.unclassified.lock().unwrap_or_else(PoisonError::into_inner);
            if lines.len() < UNCLASSIFIED_MAX {
                // An excerpt is one line without secrets.
                lines.push_back(verdict.evidence.excerpt.clone());
            }
        }
    }

    /// Counts what settling an attempt changed.
    pub(super) fn settled(&self, events: &[EventRecord]) {
        let trips = events.iter().filter(|event| event.event == "tripped").count();
        if trips > 0 {
            self.opened.add_many(trips as u64);
        }
    }

    /// Counts a refusal.
    pub(super) fn refuse(&self, reason: RefusalReason) {
        if let Some(at) = REASONS.iter().position(|known| *known == reason) {
            self.refused[at].add();
        }
    }

    /// Returns how many calls were refused for a reason.
    pub(super) fn refused_for(&self, reason: RefusalReason) -> u64 {
        REASONS.iter().position(|known| *known == reason).map_or(0, |at| self.refused[at].total())
    }

    /// Counts a job that ended, or went to a person.
    pub(super) fn job_ended(&self, state: JobState) {
        self.jobs_ended_many(state, 1);
    }

    /// Counts what a sweep did to jobs.
    pub(super) fn swept(&self, records: &[&EventRecord]) {
        for record in records {
            let state = match record.event.as_str() {
                "jobs_expired" => JobState::Expired,
                "jobs_failed" => JobState::Failed,
                "jobs_to_review" => JobState::ManualReview,
                _ => continue,
            };
            self.jobs_ended_many(state, record.details.get("jobs").and_then(serde_json::Value::as_u64).unwrap_or(0));
        }
    }

    fn jobs_ended_many(&self, state: JobState, jobs: u64) {
        if let Some(at) = JobState::ALL.iter().position(|known| *known == state) {
            self.jobs_ended[at].add_many(jobs);
        }
    }

    /// Returns how many jobs ended here in a state, or went to a person.
    pub(super) fn jobs_ended(&self, state: JobState) -> u64 {
        JobState::ALL.iter().position(|known| *known == state).map_or(0, |at| self.jobs_ended[at].total())
    }

    /// Returns how many calls there were.
    pub(super) fn calls(&self) -> u64 {
        self.per_call.calls.total()
    }

    /// Returns how many attempts were of `class`.
    pub(super) fn attempts_of(&self, class: Class) -> u64 {
        if class == Class::Success {
            return self.per_call.successes.total();
        }
        Class::ALL.iter().position(|known| *known == class).map_or(0, |at| self.failures[at].total())
    }

    /// Returns the figures of the activation line.
    pub(super) fn figures(&self) -> Figures {
        Figures {
            calls: self.calls(),
            rate_limited: self.attempts_of(Class::RateLimited),
            overloaded: self.attempts_of(Class::Overloaded),
            hints_read: self.hints_read.total(),
            waits: self.waits.total(),
            opened: self.opened.total(),
            refused: REASONS.into_iter().map(|reason| self.refused_for(reason)).sum(),
            degraded: self.degraded.total(),
            probes: self.probes.total(),
            queued: self.queued.total(),
            drained: self.jobs_ended(JobState::Done),
            expired: self.jobs_ended(JobState::Expired),
            unclassified: self.attempts_of(Class::UnknownFailure),
            failed: self.failures.iter().map(Count::total).sum(),
        }
    }

    /// Takes the first lines of unclassified failures that were kept since the last time, oldest first.
    pub(super) fn take_unclassified(&self) -> Vec<String> {
        self.unclassified.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }
}

/// The counts of all dependencies, by name.
#[derive(Debug, Default)]
pub(super) struct Register(Mutex<BTreeMap<String, Arc<Counts>>>);

impl Register {
    /// Returns the counts of `dependency`, which begin at 0 when they are first asked for.
    pub(super) fn of(&self, dependency: &str) -> Arc<Counts> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(dependency.to_owned()).or_default())
    }

    /// Forgets the counts of a dependency that was made for a while, unless somebody is still to write them down.
    pub(super) fn forget_unless(&self, dependency: &str, wanted: &[String]) {
        if !wanted.iter().any(|name| name == dependency) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(dependency);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfopen_core::outcome::Reached;

    #[test]
    fn what_was_judged_is_found_in_the_figures() {
        let counts = Register::default().of("ocr");
        counts.call();
        for class in Class::ALL {
            counts.judged(&Verdict::plain(class, "test", Reached::Answered));
        }
        let figures = counts.figures();
        assert_eq!((figures.calls, figures.rate_limited, figures.overloaded, figures.unclassified), (1, 1, 1, 1));
        assert_eq!(figures.failed, 10);
        assert_eq!(counts.attempts_of(Class::Success), 1);
    }

    #[test]
    fn lines_nobody_takes_are_bounded() {
        let counts = Counts::default();
        for _ in 0..100 {
            counts.judged(&Verdict::plain(Class::UnknownFailure, "test", Reached::Answered));
        }
        assert_eq!(counts.take_unclassified().len(), UNCLASSIFIED_MAX);
        assert!(counts.take_unclassified().is_empty());
        assert_eq!(counts.figures().unclassified, 100);
    }

    #[test]
    fn counts_outlive_whoever_asked_for_them() {
        let register = Register::default();
        register.of("ocr").call();
        assert_eq!(register.of("ocr").calls(), 1);
        assert_eq!(register.of("crm").calls(), 0);
    }
}
