//! Decides what a call does after an attempt: finish, try again at an instant, or give up.

use std::time::Duration;

use crate::chance::Chance;
use crate::policy::Policy;
use crate::time::Timestamp;
use crate::verdict::Verdict;

/// What a call does next.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is over; the outcome stands.
    Finish,
    /// It is tried again, not before this instant, and only after the door has been asked.
    RetryAt(Timestamp),
    /// It is not tried again here.
    GiveUp(GiveUp),
}

/// Why a call is not tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// Its attempts are used up.
    AttemptsUsed,
    /// Waiting does not heal this class.
    DoesNotHeal,
    /// The dependency said not to.
    Forbidden,
    /// The wait is longer than `max_wait_sec`.
    WaitTooLong {
        /// When it could be tried.
        retry_at: Timestamp,
    },
    /// The deadline would pass.
    DeadlineTooNear,
    /// The retry budget is used up.
    BudgetUsed,
    /// It may have been executed, and nothing says that a second time is safe.
    UnknownEnd,
    /// The attempt showed work that a second run would repeat.
    WorkShown,
}

/// Whether this call may be sent a second time after an unknown end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeatable {
    /// It may: idempotent, declared, or keyed.
    Yes,
    /// It may not.
    No,
}

/// What a call has behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSoFar {
    /// Attempts made, the one just finished included; at least 1.
    pub attempts: u32,
    /// When the call began.
    pub started_at: Timestamp,
    /// How long the last attempt took.
    pub last_took: Duration,
    /// Whether a second time is safe whatever happened to the first.
    pub repeatable: Repeatable,
    /// Retries of this process in the last minute that no hint had spaced, and calls of this process.
    pub recent: Recent,
    /// The longest wait this call may sleep: `max_wait_sec`, or what `--max-wait` allows.
    pub max_wait: Duration,
}

/// What the retry budget is measured by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recent {
    /// Calls in the last minute.
    pub calls: u32,
    /// Retries in the last minute that no hint had spaced.
    pub retries: u32,
}

/// Decides what a call does after an attempt that was judged `verdict`.
pub fn decide(_policy: &Policy, _call: &CallSoFar, _verdict: &Verdict, _now: Timestamp, _chance: Chance) -> Decision {
    unimplemented!()
}
