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
    may_repeat(call.repeatable, call.command, call.last_took, verdict)?;
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
pub(crate) fn may_repeat(
    repeatable: Repeatable,
    command: Option<CommandRerun>,
    took: Duration,
    verdict: &Verdict,
) -> Result<(), GiveUp> {
    if repeatable == Repeatable::Yes || verdict.reached == Reached::NotSent {
        return Ok(());
    }
    let safe = match command {
        Some(command) => may_run_again(command, took, verdict),
        None => match verdict.reached {
            Reached::NotSent => true,
            Reached::Refused => proves_nothing_was_done(verdict.class),
            Reached::Unknown | Reached::Answered => false,
        },
    };
    match (safe, command, verdict.work) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Jitter, Surface};
    use crate::verdict::{Hint, HintSource, Scope};
    use proptest::prelude::*;
    use test_case::test_case;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn policy() -> Policy {
        let mut policy = Policy::built_in("ocr", Surface::Run);
        policy.retry.backoff.jitter = Jitter::None;
        policy
    }

    fn call() -> CallSoFar {
        CallSoFar {
            attempts: 1,
            started_at: NOW,
            last_took: secs(1),
            repeatable: Repeatable::No,
            command: None,
            recent: Recent { calls: 1, retries: 0 },
            max_wait: secs(300),
        }
    }

    fn command(timed_out: bool, effects: bool) -> Option<CommandRerun> {
        Some(CommandRerun { rerun_within: secs(300), effects, timed_out })
    }

    fn verdict(class: Class, reached: Reached) -> Verdict {
        Verdict::plain(class, "test", reached)
    }

    fn hinted(class: Class, wait: Duration) -> Verdict {
        let hint = Hint { until: NOW + wait, wait, source: HintSource::RetryAfter, scope: Scope::Whole };
        Verdict { hint: Some(hint), ..verdict(class, Reached::Refused) }
    }

    fn decided(call: &CallSoFar, verdict: &Verdict) -> Decision {
        decide(&policy(), call, verdict, NOW, Chance::from_seed(1))
    }

    const AGAIN: Decision = Decision::RetryAt(Timestamp::from_millis(1_700_000_001_000));
    const UNKNOWN: Decision = Decision::GiveUp(GiveUp::UnknownEnd);
    const NO_HEALING: Decision = Decision::GiveUp(GiveUp::DoesNotHeal);

    // The table of when a call may be sent again: how far it got, against whether a second time is safe. S001.
    #[test_case(Class::ConnectionFailure, Reached::NotSent, AGAIN, AGAIN)]
    #[test_case(Class::Timeout, Reached::NotSent, AGAIN, AGAIN)]
    #[test_case(Class::ConnectionFailure, Reached::Refused, AGAIN, AGAIN)]
    #[test_case(Class::ConnectionFailure, Reached::Unknown, AGAIN, UNKNOWN)]
    #[test_case(Class::RateLimited, Reached::Refused, AGAIN, AGAIN)]
    #[test_case(Class::RateLimited, Reached::Unknown, AGAIN, UNKNOWN; "where the pack does not promise it")]
    #[test_case(Class::UsageLimit, Reached::Refused, AGAIN, AGAIN)]
    #[test_case(Class::Overloaded, Reached::Refused, AGAIN, AGAIN; "where the pack says it was not processed")]
    #[test_case(Class::Overloaded, Reached::Unknown, AGAIN, UNKNOWN)]
    #[test_case(Class::Timeout, Reached::Unknown, AGAIN, UNKNOWN)]
    #[test_case(Class::ServerError, Reached::Unknown, AGAIN, UNKNOWN)]
    #[test_case(Class::ServerError, Reached::Answered, AGAIN, UNKNOWN)]
    #[test_case(Class::ServerError, Reached::Refused, AGAIN, UNKNOWN; "the class proves nothing")]
    #[test_case(Class::QuotaExhausted, Reached::Refused, NO_HEALING, NO_HEALING)]
    #[test_case(Class::Auth, Reached::Refused, NO_HEALING, NO_HEALING)]
    #[test_case(Class::InvalidRequest, Reached::Answered, NO_HEALING, NO_HEALING)]
    #[test_case(Class::UnknownFailure, Reached::Answered, NO_HEALING, NO_HEALING)]
    #[test_case(Class::Success, Reached::Answered, Decision::Finish, Decision::Finish)]
    fn how_far_it_got_decides(class: Class, reached: Reached, if_safe: Decision, else_: Decision) {
        let verdict = verdict(class, reached);
        assert_eq!(decided(&CallSoFar { repeatable: Repeatable::Yes, ..call() }, &verdict), if_safe);
        assert_eq!(decided(&call(), &verdict), else_);
    }

    // A command is many requests: class, work shown, how long it ran, how it ended.
    #[test_case(Work::None, 3600, false, AGAIN; "no work shown, however late")]
    #[test_case(Work::Shown, 300, false, AGAIN; "failed soon after its start")]
    #[test_case(Work::Unknown, 300, false, AGAIN)]
    #[test_case(Work::Unknown, 301, false, UNKNOWN; "ran long and cannot tell")]
    #[test_case(Work::Shown, 301, false, Decision::GiveUp(GiveUp::WorkShown))]
    #[test_case(Work::None, 10, true, UNKNOWN; "our own timeout leaves its end unknown")]
    fn a_command_is_run_again_if_it_did_nothing(work: Work, took: u64, timed_out: bool, expected: Decision) {
        let verdict = Verdict { work, ..verdict(Class::Overloaded, Reached::Unknown) };
        let ran = CallSoFar { command: command(timed_out, true), last_took: secs(took), ..call() };
        assert_eq!(decided(&ran, &verdict), expected);
        let declared = CallSoFar { repeatable: Repeatable::Yes, ..ran };
        assert_eq!(decided(&declared, &verdict), AGAIN, "declared safe, or it can be resumed");
        let harmless = CallSoFar { command: command(timed_out, false), ..ran };
        assert_eq!(decided(&harmless, &verdict), AGAIN, "its pack says it has no effects");
    }

    /// S180: attempts are counted all together.
    #[test_case(1, 1)]
    #[test_case(3, 3)]
    #[test_case(7, 7)]
    fn max_attempts_counts_the_first_one_too(max_attempts: u32, sent: u32) {
        let mut policy = policy();
        policy.retry.max_attempts = std::num::NonZeroU32::new(max_attempts).unwrap();
        policy.retry.budget.per_minute = 100;
        let verdict = verdict(Class::ServerError, Reached::NotSent);
        let mut attempts = 1;
        while let Decision::RetryAt(_) =
            decide(&policy, &CallSoFar { attempts, ..call() }, &verdict, NOW, Chance::from_seed(1))
        {
            attempts += 1;
        }
        assert_eq!(attempts, sent);
    }

    #[test]
    fn an_unknown_end_is_reported_also_by_the_last_attempt() {
        let last = CallSoFar { attempts: 3, ..call() };
        assert_eq!(decided(&last, &verdict(Class::Timeout, Reached::Unknown)), UNKNOWN);
        let refused = verdict(Class::RateLimited, Reached::Refused);
        assert_eq!(decided(&last, &refused), Decision::GiveUp(GiveUp::AttemptsUsed));
    }

    #[test]
    fn what_the_dependency_forbids_is_not_tried() {
        let forbidden = Verdict { retry: RetryAdvice::Forbidden, ..hinted(Class::RateLimited, secs(1)) };
        assert_eq!(decided(&call(), &forbidden), Decision::GiveUp(GiveUp::Forbidden));
    }

    /// S015: nobody sleeps for hours unless it was told to.
    #[test]
    fn a_wait_longer_than_allowed_is_not_slept() {
        let verdict = hinted(Class::UsageLimit, secs(9000));
        let retry_at = NOW + secs(9000);
        assert_eq!(decided(&call(), &verdict), Decision::GiveUp(GiveUp::WaitTooLong { retry_at }));
        let patient = CallSoFar { max_wait: secs(6 * 3600), ..call() };
        let Decision::RetryAt(at) = decided(&patient, &verdict) else { panic!("it may sleep") };
        assert!(at >= retry_at && at <= retry_at + secs(30));
    }

    #[test]
    fn a_wait_of_exactly_what_may_be_slept_is_slept_without_a_spread() {
        let verdict = hinted(Class::RateLimited, secs(300));
        assert_eq!(decided(&call(), &verdict), Decision::RetryAt(NOW + secs(300)));
        let longer = hinted(Class::RateLimited, Duration::from_millis(300_001));
        assert!(matches!(decided(&call(), &longer), Decision::GiveUp(GiveUp::WaitTooLong { .. })));
    }

    /// S119: those who were told the same instant come back spread over a tenth of the wait, and none too early.
    #[test]
    fn equal_hints_do_not_wake_everybody_at_once() {
        let verdict = hinted(Class::RateLimited, secs(60));
        let mut buckets = std::collections::BTreeMap::new();
        for seed in 0..500 {
            let Decision::RetryAt(at) = decide(&policy(), &call(), &verdict, NOW, Chance::from_seed(seed)) else {
                panic!("it heals")
            };
            let after = NOW.until(at);
            assert!(after >= secs(60) && after <= secs(66), "{after:?}");
            *buckets.entry(after.as_millis() / 100).or_insert(0) += 1;
        }
        assert!(buckets.values().all(|count| *count <= 25), "{buckets:?}");
    }

    /// After a long wait the spread ends at half a minute: nobody is kept for a tenth of six hours.
    #[test_case(60, 6; "a tenth of the wait")]
    #[test_case(300, 30; "where both are the same")]
    #[test_case(9000, 30; "half a minute")]
    fn the_spread_after_a_hint_is_a_tenth_and_half_a_minute_at_most(wait: u64, widest: u64) {
        let patient = CallSoFar { max_wait: secs(6 * 3600), ..call() };
        let verdict = hinted(Class::UsageLimit, secs(wait));
        let spreads: Vec<_> = (0..500)
            .map(|seed| match decide(&policy(), &patient, &verdict, NOW, Chance::from_seed(seed)) {
                Decision::RetryAt(at) => NOW.until(at).saturating_sub(secs(wait)),
                other => panic!("{other:?}"),
            })
            .collect();
        let longest = spreads.iter().max().copied().unwrap_or_default();
        assert!(longest <= secs(widest) && longest > secs(widest).mul_f64(0.95), "{longest:?}");
    }

    /// S113: a hint of now leaves our own backoff as the floor.
    #[test]
    fn a_past_hint_is_floored_by_the_backoff() {
        let third = CallSoFar { attempts: 2, ..call() };
        let Decision::RetryAt(at) = decided(&third, &hinted(Class::RateLimited, Duration::ZERO)) else {
            panic!("it heals")
        };
        assert!(NOW.until(at) >= secs(2));
    }

    #[test]
    fn hints_that_are_not_honoured_do_not_count() {
        let mut policy = policy();
        policy.retry.honor_retry_after = false;
        let verdict = hinted(Class::RateLimited, secs(100));
        assert_eq!(decide(&policy, &call(), &verdict, NOW, Chance::from_seed(1)), AGAIN);
    }

    /// S090: the total time is bounded, and no attempt starts with nothing left.
    #[test_case(45, 0, true)]
    #[test_case(45, 43_000, true; "one second for the wait, one for the attempt")]
    #[test_case(45, 43_001, false)]
    #[test_case(45, 60_000, false)]
    #[test_case(2, 800, true; "of a short deadline a tenth is enough")]
    fn a_deadline_leaves_time_for_an_attempt(deadline: u64, spent_ms: u64, again: bool) {
        let mut policy = policy();
        policy.retry.deadline = Some(secs(deadline));
        let call = CallSoFar { started_at: NOW - Duration::from_millis(spent_ms), ..call() };
        let decision =
            decide(&policy, &call, &verdict(Class::ServerError, Reached::NotSent), NOW, Chance::from_seed(1));
        assert_eq!(decision, if again { AGAIN } else { Decision::GiveUp(GiveUp::DeadlineTooNear) });
    }

    #[test_case(1, 2, true)]
    #[test_case(1, 3, true; "three a minute and a fifth of one call")]
    #[test_case(1, 4, false)]
    #[test_case(100, 22, true; "a fifth of a hundred calls beside them")]
    #[test_case(100, 23, false)]
    fn the_budget_bounds_retries_that_no_hint_has_spaced(calls: u32, retries: u32, again: bool) {
        let call = CallSoFar { recent: Recent { calls, retries }, ..call() };
        let unspaced = decided(&call, &verdict(Class::ServerError, Reached::NotSent));
        assert_eq!(unspaced, if again { AGAIN } else { Decision::GiveUp(GiveUp::BudgetUsed) });
        let spaced = decided(&call, &hinted(Class::RateLimited, secs(10)));
        assert!(matches!(spaced, Decision::RetryAt(_)));
    }

    proptest! {
        #[test]
        fn a_retry_is_never_before_its_hint_nor_later_than_this_caller_may_sleep(
            hint_ms in 0u64..1_000_000, max_wait_ms in 0u64..1_000_000, attempts in 1u32..50, seed in any::<u64>(),
        ) {
            let mut policy = policy();
            policy.retry.max_attempts = std::num::NonZeroU32::MAX;
            let verdict = hinted(Class::Overloaded, Duration::from_millis(hint_ms));
            let call = CallSoFar { attempts, max_wait: Duration::from_millis(max_wait_ms), ..call() };
            match decide(&policy, &call, &verdict, NOW, Chance::from_seed(seed)) {
                Decision::RetryAt(at) => {
                    prop_assert!(NOW.until(at) >= Duration::from_millis(hint_ms));
                    prop_assert!(NOW.until(at) <= call.max_wait + Duration::from_millis(1));
                }
                Decision::GiveUp(why) => {
                    prop_assert!(hint_ms > max_wait_ms);
                    prop_assert_eq!(why, GiveUp::WaitTooLong { retry_at: NOW + Duration::from_millis(hint_ms) });
                }
                Decision::Finish => prop_assert!(false, "a failure is not finished"),
            }
        }
    }
}
