//! Decides what an attempt's verdict means for its job.
//!
//! The questions are asked in this order, and the first answer stands:
//! 1. Did it work? Then it is done, whatever came before.
//! 2. Is it a no for good? Then it has failed; but if an earlier attempt may have been executed, a person must look: a
//!    "no such card" may well be the echo of the first time.
//! 3. May it have been executed, and is a second time not safe? Then a person must look.
//! 4. Did the dependency forbid another attempt? Then it has failed.
//! 5. Is the attempt charged, and was it the last one? Then a person must look.
//! 6. Does the stated wait, or the time by now, lie beyond its time to live? Then that is over.
//! 7. Else it goes back to the queue, not before the stated time and never without a pause: a job that fails in a
//!    millisecond must not be the only one that is tried.

use std::time::Duration;

use super::{Admitted, Entry, Job, Reason, Stage, What};
use crate::backoff;
use crate::chance::Chance;
use crate::policy::Policy;
use crate::retry::{self, CommandRerun, GiveUp};
use crate::time::Timestamp;
use crate::verdict::{Class, RetryAdvice, Verdict};

/// How many failed probes make a job suspect enough to be charged, once another call has succeeded.
const POISONED_AFTER: u32 = 2;

impl Job {
    /// Running → wherever the verdict leads.
    #[expect(clippy::too_many_arguments, reason = "the facts of one attempt; a struct would be used here only")]
    pub(super) fn finish(
        &mut self,
        policy: &Policy,
        verdict: &Verdict,
        admitted: Admitted,
        took: Duration,
        command: Option<CommandRerun>,
        now: Timestamp,
        chance: Chance,
    ) -> Entry {
        let (grant, worker) = (self.grant, self.worker());
        self.remember(verdict, now);
        let charged = self.charge(policy, verdict, admitted);
        let entry = self.lead(policy, verdict, took, command, charged, now, chance);
        Entry {
            grant: Some(grant),
            worker,
            class: Some(verdict.class),
            note: Some(verdict.rule.clone()),
            charged,
            ..entry
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the facts of one attempt; a struct would be used here only")]
    fn lead(
        &mut self,
        policy: &Policy,
        verdict: &Verdict,
        took: Duration,
        command: Option<CommandRerun>,
        charged: bool,
        now: Timestamp,
        chance: Chance,
    ) -> Entry {
        let from = self.state();
        match verdict.class {
            Class::Success => {
                self.stage = Stage::Done { at: now };
                return self.entry(What::Ended, Some(from), now);
            }
            Class::InvalidRequest | Class::UnknownFailure if self.needs_licence() => {
                return self.review(Reason::UnknownEnd, now);
            }
            Class::InvalidRequest | Class::UnknownFailure => return self.fail(Reason::Permanent, now),
            Class::RateLimited
            | Class::Overloaded
            | Class::UsageLimit
            | Class::Timeout
            | Class::ConnectionFailure
            | Class::ServerError
            | Class::QuotaExhausted
            | Class::Auth => {}
        }
        if let Err(why) = self.may_be_sent_again(policy, verdict, took, command, now) {
            return self.review(why, now);
        }
        match verdict.retry {
            RetryAdvice::Forbidden if self.needs_licence() => return self.review(Reason::Forbidden, now),
            RetryAdvice::Forbidden => return self.fail(Reason::Forbidden, now),
            RetryAdvice::Unsaid | RetryAdvice::Allowed => {}
        }
        if charged && self.attempts >= policy.retry.max_attempts.get() {
            return self.review(Reason::AttemptsUsed, now);
        }
        let hint_until = match &verdict.hint {
            Some(hint) if policy.retry.honor_retry_after => Some(hint.until.min(now + policy.hint_ceiling)),
            Some(_) | None => None,
        };
        if hint_until.is_some_and(|until| until >= self.expires.at) {
            return self.run_out(Reason::HintBeyondTtl, now);
        }
        // Counted are all attempts, also those that were not charged: the pause must grow with each.
        let pause = now + backoff::wait(&policy.retry.backoff, self.sent.max(1), chance);
        self.give_back(Reason::Healing, Some(hint_until.map_or(pause, |until| until.max(pause))), now)
    }

    /// Counts the attempt, if it is charged; returns whether it was.
    fn charge(&mut self, policy: &Policy, verdict: &Verdict, admitted: Admitted) -> bool {
        let charged = match (admitted, self.is_failure(policy, verdict)) {
            (_, false) => verdict.class == Class::Auth,
            (Admitted::Regularly, true) => is_its_own(verdict.class),
            (Admitted::AsProbe { others_succeeded }, true) => {
                self.failed_probes = self.failed_probes.saturating_add(1);
                others_succeeded && self.failed_probes >= POISONED_AFTER
            }
        };
        self.attempts = self.attempts.saturating_add(u32::from(charged));
        charged
    }

    /// Returns whether the verdict fails a probe.
    fn is_failure(&self, policy: &Policy, verdict: &Verdict) -> bool {
        match verdict.class {
            Class::RateLimited
            | Class::Overloaded
            | Class::UsageLimit
            | Class::Timeout
            | Class::ConnectionFailure
            | Class::ServerError
            | Class::QuotaExhausted => true,
            Class::UnknownFailure => policy.circuit.count_unclassified,
            Class::Success | Class::Auth | Class::InvalidRequest => false,
        }
    }

    /// Answers whether the attempt proves that nothing was executed, or a second time is safe; notes it if neither.
    fn may_be_sent_again(
        &mut self,
        policy: &Policy,
        verdict: &Verdict,
        took: Duration,
        command: Option<CommandRerun>,
        now: Timestamp,
    ) -> Result<(), Reason> {
        // A quota or a credential is refused before anything is done: the dependency answered, and said so.
        let refused = match verdict.class {
            Class::QuotaExhausted | Class::Auth => true,
            Class::Success
            | Class::RateLimited
            | Class::Overloaded
            | Class::UsageLimit
            | Class::Timeout
            | Class::ConnectionFailure
            | Class::ServerError
            | Class::InvalidRequest
            | Class::UnknownFailure => false,
        };
        let unproved = retry::may_repeat(retry::Repeatable::No, command, took, verdict);
        match unproved {
            Ok(()) => Ok(()),
            Err(_) if refused && command.is_none() => Ok(()),
            Err(why) => {
                self.may_have_run = true;
                match (self.repeatable(policy, now), why) {
                    (retry::Repeatable::Yes, _) => Ok(()),
                    (retry::Repeatable::No, GiveUp::WorkShown) => Err(Reason::WorkShown),
                    (retry::Repeatable::No, _) => Err(Reason::UnknownEnd),
                }
            }
        }
    }

    /// Running → Failed.
    fn fail(&mut self, reason: Reason, now: Timestamp) -> Entry {
        let from = self.state();
        self.stage = Stage::Failed { at: now, reason };
        self.entry(What::Ended, Some(from), now)
    }
}

/// Returns whether a failure of this class, through a closed breaker, may be the job's own.
fn is_its_own(class: Class) -> bool {
    match class {
        Class::Timeout | Class::ServerError | Class::Auth | Class::UnknownFailure | Class::InvalidRequest => true,
        Class::Success
        | Class::RateLimited
        | Class::Overloaded
        | Class::UsageLimit
        | Class::ConnectionFailure
        | Class::QuotaExhausted => false,
    }
}
