//! Decides what a call does after an attempt: finish, try again at an instant, or give up.
//!
//! The questions are asked in this order, and the first no is the reason that is reported:
//! 1. Does waiting heal this class, and did the dependency not forbid a further attempt?
//! 2. May this call be sent again at all? Not the class but how far the attempt got decides that: what never left is
//!    safe, what was refused before anything was done is safe for the classes that prove it, and everything else only
//!    where a second time was declared safe. A command is many requests, so it has rules of its own.
//! 3. Are attempts left? `max_attempts` counts all of them, the first included.
//! 4. How long is the wait, and may this caller sleep it? Never shorter than a hint; a small spread comes after it, so
//!    that those who were told the same instant do not arrive in the same instant.
//! 5. Does the deadline leave time for an attempt after it?
//! 6. Is there budget? Only retries that no hint has spaced are charged: a stated wait already spreads them.
//!
//! The safety question comes before the count, because its answer matters to the caller beyond this call: an end that
//! is unknown must be reported as unknown, also by the last attempt.

use std::time::Duration;

use crate::backoff;
use crate::chance::Chance;
use crate::outcome::Reached;
use crate::policy::Policy;
use crate::time::Timestamp;
use crate::verdict::{Class, RetryAdvice, Verdict, Work};

/// The longest spread after a hint.
const SPREAD_LONGEST: Duration = Duration::from_secs(30);

/// The spread after a hint, as one part of this many of the wait.
const SPREAD_PART: u32 = 10;

/// The time that must be left for an attempt; of a short deadline a tenth is enough.
const LEFT_FOR_ATTEMPT: Duration = Duration::from_secs(1);

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

/// What a further run of a command depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandRerun {
    /// How soon after its start a failed command counts as having done nothing.
    pub rerun_within: Duration,
    /// Whether a run of this command may have effects at all, as far as its pack knows.
    pub effects: bool,
    /// Whether our own timeout ended the attempt.
    pub timed_out: bool,
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
    /// Set if the call is a command: then its own rules say whether it may be run again.
    pub command: Option<CommandRerun>,
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
pub fn decide(policy: &Policy, call: &CallSoFar, verdict: &Verdict, now: Timestamp, chance: Chance) -> Decision {
    if verdict.class == Class::Success {
        return Decision::Finish;
    }
    match retry_at(policy, call, verdict, now, chance) {
        Ok(at) => Decision::RetryAt(at),
        Err(why) => Decision::GiveUp(why),
    }
}

/// Returns when a failed call is tried again.
fn retry_at(
    policy: &Policy,
    call: &CallSoFar,
    verdict: &Verdict,
    now: Timestamp,
    chance: Chance,
) -> Result<Timestamp, GiveUp> {
    if !verdict.class.heals() {
        return Err(GiveUp::DoesNotHeal);
    }
    match verdict.retry {
        RetryAdvice::Forbidden => return Err(GiveUp::Forbidden),
        RetryAdvice::Unsaid | RetryAdvice::Allowed => {}
    }
    may_repeat(call, verdict)?;
    if call.attempts >= policy.retry.max_attempts.get() {
        return Err(GiveUp::AttemptsUsed);
    }
    let hint_until = match &verdict.hint {
        // Beyond the ceiling the circuit does not believe it either, and probes.
        Some(hint) if policy.retry.honor_retry_after => Some(hint.until.min(now + policy.hint_ceiling)),
        Some(_) | None => None,
    };
    let at = now + wait(policy, call, hint_until, now, chance)?;
    if let Some(deadline) = policy.retry.deadline {
        let left = LEFT_FOR_ATTEMPT.min(deadline / 10);
        if at + left > call.started_at + deadline {
            return Err(GiveUp::DeadlineTooNear);
        }
    }
    if hint_until.is_none() && !within_budget(policy, call.recent) {
        return Err(GiveUp::BudgetUsed);
    }
    Ok(at)
}

/// Returns whether a second time is safe, given how far the attempt got.
fn may_repeat(call: &CallSoFar, verdict: &Verdict) -> Result<(), GiveUp> {
    if call.repeatable == Repeatable::Yes || verdict.reached == Reached::NotSent {
        return Ok(());
    }
    let safe = match call.command {
        Some(command) => may_run_again(command, call.last_took, verdict),
        None => match verdict.reached {
            Reached::NotSent => true,
            Reached::Refused => proves_nothing_was_done(verdict.class),
            Reached::Unknown | Reached::Answered => false,
        },
    };
    match (safe, call.command, verdict.work) {
        (true, _, _) => Ok(()),
        (false, Some(_), Work::Shown) => Err(GiveUp::WorkShown),
        (false, Some(_), Work::Unknown | Work::None) | (false, None, _) => Err(GiveUp::UnknownEnd),
    }
}

/// Returns whether a failed command may be run again: it has no effects, or was not ended by us and either shows no
/// work or failed soon after its start.
fn may_run_again(command: CommandRerun, took: Duration, verdict: &Verdict) -> bool {
    let did_nothing = verdict.work == Work::None || took <= command.rerun_within;
    !command.effects || (!command.timed_out && did_nothing)
}

/// Returns whether a refusal of this class proves that nothing was executed.
fn proves_nothing_was_done(class: Class) -> bool {
    match class {
        Class::RateLimited | Class::Overloaded | Class::UsageLimit | Class::ConnectionFailure => true,
        Class::Timeout
        | Class::ServerError
        | Class::Success
        | Class::QuotaExhausted
        | Class::Auth
        | Class::InvalidRequest
        | Class::UnknownFailure => false,
    }
}

/// Returns the wait before the next attempt, and refuses one that this caller may not sleep.
fn wait(
    policy: &Policy,
    call: &CallSoFar,
    hint_until: Option<Timestamp>,
    now: Timestamp,
    chance: Chance,
) -> Result<Duration, GiveUp> {
    let backoff = backoff::wait(&policy.retry.backoff, call.attempts, chance.nth(0)).min(call.max_wait);
    let Some(hint_until) = hint_until else { return Ok(backoff) };
    let stated = now.until(hint_until);
    if stated > call.max_wait {
        return Err(GiveUp::WaitTooLong { retry_at: hint_until });
    }
    let wait = stated.max(backoff);
    // The spread may not push the sleep beyond what the caller allows.
    let spread = (wait / SPREAD_PART).min(SPREAD_LONGEST).min(call.max_wait.saturating_sub(wait));
    Ok(wait.saturating_add(backoff::share(spread, chance.nth(1))))
}

/// Returns whether one more retry that no hint has spaced is allowed.
fn within_budget(policy: &Policy, recent: Recent) -> bool {
    let budget = policy.retry.budget;
    let ratio = if budget.ratio.is_nan() { 0.0 } else { budget.ratio.clamp(0.0, 1.0) };
    f64::from(recent.retries) < f64::from(budget.per_minute) + ratio * f64::from(recent.calls)
}
