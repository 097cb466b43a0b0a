//! Counts the failures of a sliding span exactly, in bounded memory.
//!
//! The instants themselves are kept, not buckets: with five failures to count there is nothing to save, and a bucket's
//! edge would make "five in sixty seconds" mean anything from fifty to seventy. Only failures are kept, so a success on
//! a closed breaker has nothing to write. Never more than [`WINDOW_FAILURES_MAX`] are kept, and the threshold is taken
//! as at most that: a policy that asks for more still opens its breaker.
//!
//! Failures that have left the span are dropped when the next one arrives; until then they are merely not counted, so
//! that no timer and no write is needed for a failure to grow old.

use std::time::Duration;

use crate::policy::CircuitPolicy;
use crate::time::Timestamp;

/// The most failures a window holds, and the highest threshold that is honoured.
pub(crate) const WINDOW_FAILURES_MAX: u32 = 1000;

/// The instants of the last failures, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    failures: Vec<Timestamp>,
}

impl Window {
    /// Returns the window that holds `failures`, in any order; the newest are kept.
    pub(crate) fn from_failures(mut failures: Vec<Timestamp>) -> Self {
        failures.sort_unstable();
        let surplus = failures.len().saturating_sub(WINDOW_FAILURES_MAX as usize);
        failures.drain(..surplus);
        Self { failures }
    }

    /// Returns the instants that are kept, oldest first.
    pub(crate) fn failures(&self) -> &[Timestamp] {
        &self.failures
    }

    /// Notes a failure at `now` and returns how many count, this one included.
    pub(crate) fn push(&mut self, policy: &CircuitPolicy, now: Timestamp) -> u32 {
        self.failures.retain(|at| counts(*at, policy.window, now));
        // A process may have read its clock before another one took the lock: the order is kept by insertion.
        let place = self.failures.partition_point(|at| *at <= now);
        self.failures.insert(place, now);
        let surplus = self.failures.len().saturating_sub(threshold(policy) as usize);
        self.failures.drain(..surplus);
        self.count(policy, now)
    }

    /// Returns how many failures count at `now`.
    pub(crate) fn count(&self, policy: &CircuitPolicy, now: Timestamp) -> u32 {
        let counted = self.failures.iter().filter(|at| counts(**at, policy.window, now)).count();
        u32::try_from(counted).unwrap_or(u32::MAX)
    }

    /// Forgets all failures.
    pub(crate) fn clear(&mut self) {
        self.failures.clear();
    }

    /// Moves failures that lie in the future to `now`.
    pub(crate) fn after_reboot(&mut self, now: Timestamp) {
        for at in &mut self.failures {
            *at = (*at).min(now);
        }
    }
}

/// Returns how many failures open the breaker.
pub(crate) fn threshold(policy: &CircuitPolicy) -> u32 {
    policy.open_after_failures.get().min(WINDOW_FAILURES_MAX)
}

/// Returns whether a failure at `at` still counts: it leaves the window when it is exactly as old as the window long.
fn counts(at: Timestamp, window: Duration, now: Timestamp) -> bool {
    at + window > now
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Policy, Surface};

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_millis(secs * 1000)
    }

    /// A process may have read its clock before another one took the lock.
    #[test]
    fn a_failure_that_is_told_late_takes_its_place_and_the_oldest_leaves_first() {
        let mut policy = Policy::built_in("ocr", Surface::Serve).circuit;
        policy.open_after_failures = std::num::NonZeroU32::new(3).unwrap();
        let mut window = Window::default();
        let counted = [10, 30, 20, 25].map(|secs| window.push(&policy, at(secs)));
        assert_eq!(counted, [1, 2, 3, 3]);
        assert_eq!(window.failures(), [at(20), at(25), at(30)]);
        window.push(&policy, at(85));
        assert_eq!(window.failures(), [at(30), at(85)], "what has left the window is not kept");
    }
}
