//! Reads what a hint means for a whole circuit, and remembers the episodes of those who ran into the same wall.
//!
//! A hint that one caller reads holds everybody. How long it holds depends on the policy: not at all if hints are not
//! honoured, at most the ceiling, and at most `open_for` if it speaks of less than this circuit can tell apart. Within
//! these bounds a deadline only extends.
//!
//! Forty callers that meet one limit together are one *episode*, not forty failures. An attempt belongs to the episode
//! if it was admitted before the episode's throttle was written: it could not know. The episode's instant is therefore
//! kept after the throttle has ended, and after a success, because slow members of that herd may still report.
//!
//! The first episode holds for what was stated. From the second one in a row on, an obeyed hint has proved too short:
//! the n-th holds for at least `base × 2^n`, capped by the policy's longest backoff and by `max_wait`, so that this
//! growth alone never opens a breaker.

use std::time::Duration;

use crate::policy::Policy;
use crate::time::{Deadline, Timestamp};
use crate::verdict::{HintSource, Scope, Verdict};

/// What the circuit makes of a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Believed {
    /// Until when it holds everybody.
    pub(crate) until: Timestamp,
    /// The wait that was stated, uncut, counted from now.
    pub(crate) stated: Duration,
    /// Where it was read.
    pub(crate) source: HintSource,
    /// Whether it was longer than the ceiling.
    pub(crate) cut: bool,
    /// The `split_by` key that would tell apart what it covers, if the policy does not split by it.
    pub(crate) narrower: Option<String>,
}

impl Believed {
    /// Returns what `verdict`'s hint means at `now`, if it has one and the policy honours hints.
    pub(crate) fn from_verdict(policy: &Policy, verdict: &Verdict, now: Timestamp) -> Option<Self> {
        if !policy.retry.honor_retry_after {
            return None;
        }
        let hint = verdict.hint.as_ref()?;
        let stated = now.until(hint.until);
        let narrower = match &hint.scope {
            Scope::Whole => None,
            Scope::Part(key) if policy.split_by.contains(key) => None,
            Scope::Part(key) => Some(key.clone()),
        };
        let longest = match narrower {
            None => policy.hint_ceiling,
            Some(_) => policy.hint_ceiling.min(policy.circuit.open_for),
        };
        let until = hint.until.min(now + longest).max(now);
        Some(Self { until, stated, source: hint.source, cut: stated > policy.hint_ceiling, narrower })
    }

    /// Returns whether this wait is too long to be slept, so that the breaker opens instead.
    pub(crate) fn is_too_long(&self, policy: &Policy) -> bool {
        self.stated > policy.retry.max_wait
    }
}

/// The last time somebody ran into a limit that stated a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Episode {
    /// When its throttle was written; attempts admitted until then belong to it.
    pub(crate) written_at: Timestamp,
    /// How many there were without a success between, this one included.
    pub(crate) in_a_row: u32,
}

impl Episode {
    /// Returns whether an attempt admitted at `admitted_at` could not yet know of this episode.
    pub(crate) fn includes(&self, admitted_at: Timestamp) -> bool {
        admitted_at <= self.written_at
    }

    /// Returns how long the throttle of this episode lasts at least, whatever was stated.
    pub(crate) fn shortest(&self, policy: &Policy) -> Duration {
        if self.in_a_row < 2 {
            return Duration::ZERO;
        }
        let backoff = &policy.retry.backoff;
        let doubled = 1u32.checked_shl(self.in_a_row).and_then(|by| backoff.base.checked_mul(by));
        doubled.unwrap_or(Duration::MAX).min(backoff.max).min(policy.retry.max_wait)
    }
}

/// A wait that holds everybody while the breaker is closed or half-open. An open breaker has none: there a hint
/// extends the cooldown.
pub(crate) type Throttle = Deadline;
