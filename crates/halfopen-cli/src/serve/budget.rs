//! Measures how many retries a dependency has had lately, so that retries cannot multiply an outage.
//!
//! Only failures touch it. How many calls there were in the last minute is told from the count of all calls at two
//! instants, so that a call that goes well pays nothing for it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use halfopen_core::retry::Recent;

/// How far back retries and calls count.
const SPAN: Duration = Duration::from_secs(60);
/// Readings that are kept; they are a second apart at least.
const READINGS_MAX: usize = 64;
/// Retries that are remembered; more than any budget allows in a minute, and no reason to remember more.
const RETRIES_MAX: usize = 10_000;

/// The retries of one dependency in this process that no hint had spaced.
#[derive(Debug)]
pub(super) struct Budget(Mutex<Spent>);

#[derive(Debug)]
struct Spent {
    retries: VecDeque<Instant>,
    /// How many calls there had been at some instants, oldest first; never empty.
    calls: VecDeque<(Instant, u64)>,
}

impl Budget {
    /// Returns a budget of which nothing is spent; `calls` is how many calls there have been.
    pub(super) fn new(calls: u64, now: Instant) -> Self {
        Self(Mutex::new(Spent { retries: VecDeque::new(), calls: VecDeque::from([(now, calls)]) }))
    }

    /// Returns what the last minute saw; `calls` is how many calls there have been.
    pub(super) fn recent(&self, calls: u64, now: Instant) -> Recent {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while spent.retries.front().is_some_and(|at| now.saturating_duration_since(*at) > SPAN) {
            spent.retries.pop_front();
        }
        // The newest reading that is a minute old stays, to count from.
        while spent.calls.get(1).is_some_and(|(at, _)| now.saturating_duration_since(*at) >= SPAN) {
            spent.calls.pop_front();
        }
        let (since, before) = spent.calls.front().copied().unwrap_or((now, calls));
        let is_late = |last: &(Instant, u64)| now.saturating_duration_since(last.0) >= Duration::from_secs(1);
        if spent.calls.back().is_none_or(is_late) && spent.calls.len() < READINGS_MAX {
            spent.calls.push_back((now, calls));
        }
        // Calls of a span longer than a minute count by their share.
        let span = now.saturating_duration_since(since).max(SPAN);
        let share = SPAN.as_secs_f64() / span.as_secs_f64();
        let calls = (calls.saturating_sub(before) as f64 * share).ceil();
        Recent {
            calls: calls.min(f64::from(u32::MAX)) as u32,
            retries: u32::try_from(spent.retries.len()).unwrap_or(u32::MAX),
        }
    }

    /// Notes a retry that no hint has spaced.
    pub(super) fn spend(&self, now: Instant) {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spent.retries.len() < RETRIES_MAX {
            spent.retries.push_back(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_a_minute_does_not_count() {
        let start = Instant::now();
        let budget = Budget::new(1000, start);
        for second in 0..10 {
            budget.spend(start + Duration::from_secs(second));
        }
        let seen = budget.recent(1100, start + Duration::from_secs(10));
        assert_eq!((seen.calls, seen.retries), (100, 10));
        let seen = budget.recent(1100, start + Duration::from_secs(65));
        assert_eq!(seen.retries, 5);
        let seen = budget.recent(1150, start + Duration::from_secs(130));
        assert_eq!((seen.calls <= 50, seen.retries), (true, 0));
    }

    #[test]
    fn calls_of_a_quiet_process_do_not_pile_up() {
        let start = Instant::now();
        let budget = Budget::new(0, start);
        let seen = budget.recent(60_000, start + Duration::from_secs(3600));
        assert_eq!(seen.calls, 1000, "a thousand a minute for an hour");
    }
}
