//! Changes a job: every transition there is, in one `match`.
//!
//! What a worker does is checked against its grant first: a lease that was taken over, or that is over, confers no
//! right, whoever shows it. What an operator does is checked against what may have been executed.

use std::time::Duration;

use super::{CLAIMS_LOST_MAX, Entry, Job, JobState, LastVerdict, Reason, Safety, Stage, What};
use crate::chance::Chance;
use crate::event::By;
use crate::policy::{OnExpiry, Policy};
use crate::retry::{CommandRerun, Repeatable};
use crate::time::{Deadline, Timestamp};
use crate::verdict::Verdict;

/// What is done to a job.
#[derive(Clone, Debug)]
pub enum Step<'a> {
    /// A worker takes it.
    Claim {
        /// The worker's name.
        worker: &'a str,
        /// The number of the lease: one more than any before.
        grant: u64,
    },
    /// Its attempt is about to be sent. No note, no sending.
    NoteSending {
        /// The lease.
        grant: u64,
    },
    /// The lease is extended.
    Renew {
        /// The lease.
        grant: u64,
    },
    /// Its attempt ended with a verdict.
    Finish {
        /// The lease.
        grant: u64,
        /// The verdict.
        verdict: &'a Verdict,
        /// How the attempt was admitted.
        admitted: Admitted,
        /// How long it took.
        took: Duration,
        /// Set if the job is a command.
        command: Option<CommandRerun>,
    },
    /// Its worker gives it back without a verdict.
    Release {
        /// The lease.
        grant: u64,
        /// Why.
        cause: ReleaseCause,
    },
    /// Time passes.
    PassTime,
    /// The job before it with its order key has ended.
    Unblock,
    /// An operator makes it queued again.
    Requeue {
        /// How long it is worth doing from now on; `None` is what it was accepted with.
        ttl: Option<Duration>,
        /// Whether the operator accepts that it may have been executed.
        may_have_run: bool,
        /// Whether an earlier job with its order key is open.
        behind: bool,
        /// Who and why.
        by: By,
    },
    /// An operator says what became of it: it counts as done.
    Resolve {
        /// Who and why.
        by: By,
    },
    /// An operator ends it.
    Cancel {
        /// Who and why.
        by: By,
    },
}

/// How an attempt was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// Through a closed breaker.
    Regularly,
    /// As a probe.
    AsProbe {
        /// Whether another call has succeeded as a probe in this incident.
        others_succeeded: bool,
    },
}

/// Why a worker gives a job back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseCause {
    /// It shuts down.
    Shutdown {
        /// What it knows of the attempt.
        sent: Sent,
    },
    /// It cannot start the attempt, by its own fault: nothing was sent.
    NotStarted,
}

/// What a worker knows of an attempt that it has to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Nothing left this machine.
    Nothing,
    /// It may have been executed.
    Maybe,
}

/// Why a job cannot be changed so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IllegalStep {
    /// The lease shown is not the job's, or is over.
    #[error("the lease is lost: grant {shown} was shown, the job is {state} with grant {grant}")]
    LeaseLost {
        /// What was shown.
        shown: u64,
        /// The job's newest.
        grant: u64,
        /// The job's state.
        state: JobState,
    },
    /// The state does not allow it.
    #[error("a job that is {state} cannot be {what}")]
    WrongState {
        /// The job's state.
        state: JobState,
        /// What was asked for, as a participle.
        what: &'static str,
    },
    /// It is not its turn: it waits for an instant, for another job, or no longer at all.
    #[error("the job cannot be claimed yet")]
    NotReady,
    /// It was noted as about to be sent already: one lease, one attempt.
    #[error("the attempt of grant {0} was noted already")]
    NotedAlready(u64),
    /// An attempt of it may have been executed.
    #[error("an attempt of the job may have been executed; requeueing it needs `may_have_run`")]
    MayHaveRun,
}

impl Job {
    /// Changes the job, and returns what its history gets; `None` where nothing happened that is worth an entry.
    ///
    /// # Errors
    ///
    /// Why the step is not allowed. Nothing was changed then.
    pub fn step(
        &mut self,
        policy: &Policy,
        step: Step<'_>,
        now: Timestamp,
        chance: Chance,
    ) -> Result<Option<Entry>, IllegalStep> {
        use JobState::{Cancelled, Done, Expired, Failed, ManualReview, Queued, Running};
        let state = self.state();
        match (state, step) {
            // Queued → Running, or where it belongs if it must not be sent any more.
            (Queued, Step::Claim { worker, grant }) => self.claim(policy, worker, grant, now).map(Some),

            // Running: only under the lease.
            (_, Step::NoteSending { grant }) => {
                self.fence(grant, now)?;
                self.note_sending(grant, now).map(Some)
            }
            (_, Step::Renew { grant }) => {
                self.fence(grant, now)?;
                if let Stage::Running { lease, .. } = &mut self.stage {
                    *lease = lease.extended(now, now + policy.circuit.lease);
                }
                Ok(None)
            }
            (_, Step::Finish { grant, verdict, admitted, took, command }) => {
                self.fence(grant, now)?;
                Ok(Some(self.finish(policy, verdict, admitted, took, command, now, chance)))
            }
            (_, Step::Release { grant, cause }) => {
                self.fence(grant, now)?;
                Ok(Some(self.release(policy, cause, now)))
            }

            // Time: Queued → Queued, Expired or ManualReview; Running → Queued or ManualReview.
            (Queued, Step::PassTime) => Ok(self.pass_time_queued(now)),
            (Running, Step::PassTime) => Ok(self.pass_time_running(policy, now, chance)),
            (Done | Failed | Expired | ManualReview | Cancelled, Step::PassTime) => Ok(None),

            // Queued → Queued: its turn has come.
            (Queued, Step::Unblock) => Ok(self.unblock(now)),

            // Failed, Expired, ManualReview → Queued: an operator's decision.
            (Failed | Expired | ManualReview, Step::Requeue { ttl, may_have_run, behind, by }) => {
                if self.needs_licence() && !may_have_run {
                    return Err(IllegalStep::MayHaveRun);
                }
                Ok(Some(self.requeue(ttl, behind, by, now)))
            }
            // Failed, Expired, ManualReview → Done.
            (Failed | Expired | ManualReview, Step::Resolve { by }) => {
                self.stage = Stage::Done { at: now };
                Ok(Some(self.by_hand(What::Resolved, state, by, now)))
            }
            // Anything but Done and Cancelled → Cancelled. A running attempt loses its lease with it.
            (Queued | Running | Failed | Expired | ManualReview, Step::Cancel { by }) => {
                self.may_have_run |= self.is_sending();
                self.stage = Stage::Cancelled { at: now };
                Ok(Some(self.by_hand(What::Cancelled, state, by, now)))
            }

            (Running | Done | Failed | Expired | ManualReview | Cancelled, Step::Claim { .. }) => {
                Err(IllegalStep::WrongState { state, what: "claimed" })
            }
            (Running | Done | Failed | Expired | ManualReview | Cancelled, Step::Unblock) => {
                Err(IllegalStep::WrongState { state, what: "unblocked" })
            }
            (Queued | Running | Done | Cancelled, Step::Requeue { .. }) => {
                Err(IllegalStep::WrongState { state, what: "requeued" })
            }
            (Queued | Running | Done | Cancelled, Step::Resolve { .. }) => {
                Err(IllegalStep::WrongState { state, what: "resolved" })
            }
            (Done | Cancelled, Step::Cancel { .. }) => Err(IllegalStep::WrongState { state, what: "cancelled" }),
        }
    }

    /// Returns the entry for a result that came after its lease was lost: evidence, and no change.
    #[must_use]
    pub fn late(&self, grant: u64, worker: &str, verdict: &Verdict, now: Timestamp) -> Entry {
        Entry {
            grant: Some(grant),
            worker: Some(worker.to_owned()),
            class: Some(verdict.class),
            note: Some(verdict.rule.clone()),
            ..self.entry(What::Late, Some(self.state()), now)
        }
    }

    /// Returns whether requeueing it needs an operator's word that a second execution is acceptable.
    #[must_use]
    pub fn needs_licence(&self) -> bool {
        self.may_have_run
            && match self.terms.safety {
                Safety::Idempotent => false,
                Safety::Keyed { .. } | Safety::Unsafe => true,
            }
    }

    /// Refuses a lease that is not the job's, or is over.
    fn fence(&self, shown: u64, now: Timestamp) -> Result<(), IllegalStep> {
        match &self.stage {
            Stage::Running { lease, .. } if self.grant == shown && !lease.is_over(now) => Ok(()),
            _ => Err(IllegalStep::LeaseLost { shown, grant: self.grant, state: self.state() }),
        }
    }

    fn claim(&mut self, policy: &Policy, worker: &str, grant: u64, now: Timestamp) -> Result<Entry, IllegalStep> {
        if self.expires.is_over(now) {
            return Ok(self.run_out(Reason::TtlOver, now));
        }
        match &self.stage {
            Stage::Queued { behind: false, not_before: None } => {}
            Stage::Queued { behind: false, not_before: Some(at) } if at.is_over(now) => {}
            _ => return Err(IllegalStep::NotReady),
        }
        if self.may_have_run && self.repeatable(policy, now) == Repeatable::No {
            // The key's lifetime ended while it waited, or the policy has changed its mind.
            return Ok(self.review(Reason::UnknownEnd, now));
        }
        self.grant = grant;
        let lease = Deadline::after(now, policy.circuit.lease);
        self.stage = Stage::Running { worker: worker.to_owned(), lease, claimed_at: now, sending_at: None };
        Ok(self.under_lease(What::Claimed, JobState::Queued, now))
    }

    fn note_sending(&mut self, grant: u64, now: Timestamp) -> Result<Entry, IllegalStep> {
        if let Stage::Running { sending_at, .. } = &mut self.stage {
            if sending_at.is_some() {
                return Err(IllegalStep::NotedAlready(grant));
            }
            *sending_at = Some(now);
        }
        self.claims_lost = 0;
        self.sent = self.sent.saturating_add(1);
        self.first_sent_at = self.first_sent_at.or(Some(now));
        Ok(self.under_lease(What::Sending, JobState::Running, now))
    }

    fn release(&mut self, policy: &Policy, cause: ReleaseCause, now: Timestamp) -> Entry {
        let (reason, sent) = match cause {
            ReleaseCause::Shutdown { sent } => (Reason::Shutdown, sent),
            ReleaseCause::NotStarted => (Reason::NotStarted, Sent::Nothing),
        };
        let grant = self.grant;
        let worker = self.worker();
        let unknown = sent == Sent::Maybe && self.is_sending();
        self.may_have_run |= unknown;
        let entry = if unknown && self.repeatable(policy, now) == Repeatable::No {
            self.review(reason, now)
        } else {
            self.give_back(reason, None, now)
        };
        Entry { grant: Some(grant), worker, ..entry }
    }

    fn pass_time_queued(&mut self, now: Timestamp) -> Option<Entry> {
        if self.expires.is_over(now) {
            return Some(self.run_out(Reason::TtlOver, now));
        }
        if let Stage::Queued { not_before, .. } = &mut self.stage
            && not_before.is_some_and(|at| at.is_over(now))
        {
            *not_before = None;
        }
        None
    }

    /// The lease ran out: the worker is dead, or has forgotten the job, or stood still.
    fn pass_time_running(&mut self, policy: &Policy, now: Timestamp, chance: Chance) -> Option<Entry> {
        let Stage::Running { lease, .. } = &self.stage else { return None };
        if !lease.is_over(now) {
            return None;
        }
        let (grant, worker) = (self.grant, self.worker());
        // A claim that was not noted was not sent: it is no attempt, and is bounded by itself.
        let charged = self.is_sending();
        self.may_have_run |= charged;
        self.interrupted = self.interrupted.saturating_add(1);
        self.attempts = self.attempts.saturating_add(u32::from(charged));
        self.claims_lost = self.claims_lost.saturating_add(u32::from(!charged));
        let (so_often, most, used_up) = if charged {
            (self.attempts, policy.retry.max_attempts.get(), Reason::AttemptsUsed)
        } else {
            (self.claims_lost, CLAIMS_LOST_MAX, Reason::ClaimsLost)
        };
        let entry = if self.may_have_run && self.repeatable(policy, now) == Repeatable::No {
            self.review(Reason::WorkerDied, now)
        } else if so_often >= most {
            self.review(used_up, now)
        } else {
            let wait = crate::backoff::wait(&policy.retry.backoff, so_often, chance);
            self.give_back(Reason::WorkerDied, Some(now + wait), now)
        };
        Some(Entry { grant: Some(grant), worker, charged, ..entry })
    }

    fn unblock(&mut self, now: Timestamp) -> Option<Entry> {
        let Stage::Queued { behind, .. } = &mut self.stage else { return None };
        let waited = std::mem::replace(behind, false);
        waited.then(|| self.entry(What::Unblocked, Some(JobState::Queued), now))
    }

    fn requeue(&mut self, ttl: Option<Duration>, behind: bool, by: By, now: Timestamp) -> Entry {
        let from = self.state();
        if let Some(ttl) = ttl {
            self.terms.ttl = ttl;
        }
        self.expires = Deadline::after(now, self.terms.ttl);
        self.stage = Stage::Queued { not_before: None, behind };
        self.attempts = 0;
        self.interrupted = 0;
        self.claims_lost = 0;
        self.failed_probes = 0;
        // The operator has taken it on himself. A key that still lives protects for what is left of its lifetime only.
        self.may_have_run = false;
        if let Safety::Keyed { lifetime } = self.terms.safety {
            self.first_sent_at = self.first_sent_at.filter(|first| now < *first + lifetime);
        }
        self.by_hand(What::Requeued, from, by, now)
    }

    /// Queued or Running → Expired or ManualReview: the time to live is over, or will be before it can be tried.
    pub(super) fn run_out(&mut self, reason: Reason, now: Timestamp) -> Entry {
        let from = self.state();
        let unclear = self.needs_licence();
        self.stage = match self.terms.on_expiry {
            OnExpiry::Expired if !unclear => Stage::Expired { at: now, reason },
            OnExpiry::Expired | OnExpiry::ManualReview => Stage::ManualReview { at: now, reason },
        };
        self.entry(What::Ended, Some(from), now)
    }

    /// Queued or Running → ManualReview.
    pub(super) fn review(&mut self, reason: Reason, now: Timestamp) -> Entry {
        let from = self.state();
        self.stage = Stage::ManualReview { at: now, reason };
        self.entry(What::Ended, Some(from), now)
    }

    /// Running → Queued, or what its time to live demands.
    pub(super) fn give_back(&mut self, reason: Reason, retry_at: Option<Timestamp>, now: Timestamp) -> Entry {
        if self.expires.is_over(now) {
            return self.run_out(Reason::TtlOver, now);
        }
        let from = self.state();
        let not_before = retry_at.filter(|at| *at > now).map(|at| Deadline::at(now, at));
        self.stage = Stage::Queued { not_before, behind: false };
        Entry { reason: Some(reason), retry_at, ..self.entry(What::Returned, Some(from), now) }
    }

    /// Keeps what a verdict said, for people.
    pub(super) fn remember(&mut self, verdict: &Verdict, now: Timestamp) {
        let kept = |text: &str| text.chars().take(240).collect();
        self.last = Some(LastVerdict {
            at: now,
            class: verdict.class,
            rule: kept(&verdict.rule),
            excerpt: kept(&verdict.evidence.excerpt),
        });
    }

    /// Returns whether its attempt was noted as about to be sent.
    pub(super) fn is_sending(&self) -> bool {
        matches!(self.stage, Stage::Running { sending_at: Some(_), .. })
    }

    pub(super) fn worker(&self) -> Option<String> {
        self.lease().map(|(worker, _)| worker.to_owned())
    }

    fn under_lease(&self, what: What, from: JobState, now: Timestamp) -> Entry {
        Entry { grant: Some(self.grant), worker: self.worker(), ..self.entry(what, Some(from), now) }
    }

    fn by_hand(&self, what: What, from: JobState, by: By, now: Timestamp) -> Entry {
        Entry { reason: Some(Reason::Operator), by: Some(by), ..self.entry(what, Some(from), now) }
    }
}
