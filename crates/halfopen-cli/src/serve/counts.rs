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

use halfopen::activation::Figures;
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
    /// Calls that the door refused; once for each reason, however often they asked.
    pub(super) refused: Count,
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
    /// Panics that were caught while a call was carried through.
    pub(super) panics: Count,
    unclassified: Mutex<VecDeque<String>>,
}

#[cfg_attr(not(test), expect(dead_code, reason = "the operators' side reports them"))]
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

    /// Returns the figures of the activation line. What concerns jobs is 0 here.
    pub(super) fn figures(&self) -> Figures {
        Figures {
            calls: self.calls(),
            rate_limited: self.attempts_of(Class::RateLimited),
            overloaded: self.attempts_of(Class::Overloaded),
            hints_read: self.hints_read.total(),
            waits: self.waits.total(),
            opened: self.opened.total(),
            refused: self.refused.total(),
            degraded: self.degraded.total(),
            probes: self.probes.total(),
            queued: 0,
            drained: 0,
            expired: 0,
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
