//! Works off the queue in virtual time: claim, note, send, finish, as a worker of the gateway or `drain` does.
//!
//! The verbs are the door's own. What is played are the workers' lives: one may be frozen between its claim and its
//! attempt, or killed right after the attempt was sent, which are the moments at which a queue loses or doubles work.

use std::time::Duration;

use halfopen::config::QueueBounds;
use halfopen::handle::jobs::{Claim, Ending, EnqueueError, JobError, JobKey, Lease, NewJob};
use halfopen_core::job::{
    Admitted, CommandRequest, HttpRequest, IllegalStep, JobRequest, JobState, Reason, Safety, Terms, ttl,
};
use halfopen_core::outcome::Exit;
use halfopen_core::policy::{OnExpiry, OnOpenAction};
use halfopen_core::time::Timestamp;

use super::quantity::Quantity;
use super::scenario::{Crew, Fate, Group};
use super::spoken::{Said, Tongue};
use super::trace::{End, Sent};
use super::world::{Due, PlayError, World};

/// How long a worker stays away that found nothing to do or every place taken.
const LOOKS_AGAIN: Duration = Duration::from_secs(1);
/// Nobody asks again sooner.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// How long a finished job is kept: longer than any row.
const KEEP: Duration = Duration::from_secs(100 * 24 * 3600);

/// One worker.
#[derive(Debug)]
pub(super) struct Worker {
    name: String,
    process: usize,
    /// What happens to it with the first job it takes.
    fate: Option<Fate>,
    holds: Option<Holds>,
    idle: bool,
    dead: bool,
}

/// What a worker has in hand.
#[derive(Debug)]
struct Holds {
    lease: Lease,
    attempt: Option<JobAttempt>,
}

/// One attempt of a job under way.
#[derive(Debug)]
struct JobAttempt {
    started_at: Timestamp,
    /// Its place among what was sent.
    sent: usize,
    said: Said,
}

impl World<'_> {
    /// Puts the workers of a scenario in place.
    pub(super) fn employ(&mut self) -> Result<(), PlayError> {
        let scenario = self.scenario;
        for crew in &scenario.workers {
            let Crew { count, at, fate } = crew;
            for _ in 0..self.number_of(count.as_ref())? {
                let nth = self.workers.len();
                self.workers.push(Worker {
                    name: format!("worker-{nth}"),
                    process: nth % self.doors(),
                    fate: *fate,
                    holds: None,
                    idle: false,
                    dead: false,
                });
                self.when(at.clone().unwrap_or_else(Quantity::beginning), Due::Work { worker: nth })?;
            }
        }
        Ok(())
    }

    /// Does with a call what `on_open` says; `retry_at` is the time that was stated, if one was.
    pub(super) fn apply_on_open(&mut self, call: usize, retry_at: Option<Timestamp>) -> Result<End, PlayError> {
        let mut beyond = false;
        for action in self.policy.on_open.actions.clone() {
            match action {
                OnOpenAction::Queue => match self.enqueue(call, None, retry_at)? {
                    Queued::Accepted => return Ok(End::OnOpen(action)),
                    Queued::BeyondTtl => beyond = true,
                    // What cannot be made durable is not accepted.
                    Queued::NotDurable => return Ok(End::OnOpen(OnOpenAction::FailFast)),
                },
                OnOpenAction::ManualReview => {
                    return Ok(End::OnOpen(match self.enqueue(call, Some(Reason::Policy), None)? {
                        Queued::Accepted | Queued::BeyondTtl => action,
                        Queued::NotDurable => OnOpenAction::FailFast,
                    }));
                }
                OnOpenAction::Cache | OnOpenAction::Fallback | OnOpenAction::FailFast => {
                    return Ok(End::OnOpen(action));
                }
            }
        }
        match self.policy.on_open.on_expiry {
            OnExpiry::ManualReview if beyond => {
                self.enqueue(call, Some(Reason::HintBeyondTtl), None)?;
                Ok(End::OnOpen(OnOpenAction::ManualReview))
            }
            OnExpiry::ManualReview | OnExpiry::Expired => Ok(End::OnOpen(OnOpenAction::FailFast)),
        }
    }

    /// Stores a call.
    pub(super) fn enqueue(
        &mut self,
        call: usize,
        review: Option<Reason>,
        retry_at: Option<Timestamp>,
    ) -> Result<Queued, PlayError> {
        let (process, group, route) = self.of_call(call);
        let spec: &Group = &self.scenario.calls[group];
        let payload = spec.key.clone().unwrap_or_else(|| call.to_string());
        let new = NewJob {
            terms: Terms {
                place: route.place.clone(),
                account: route.account.clone(),
                ttl: self.mechanisms.ttl(ttl(&self.policy)),
                on_expiry: self.policy.on_open.on_expiry,
                safety: Safety::Unsafe,
                keep: KEEP,
            },
            request: self.request(&payload),
            key: spec
                .key
                .clone()
                .filter(|_| self.mechanisms.heed_keys())
                .map(|key| JobKey { caller: "drill".to_owned(), key }),
            order_key: spec.order.clone().filter(|_| self.mechanisms.heed_order()),
            review,
            retry_at,
            bounds: QueueBounds::default(),
            caller: None,
            on_done: false,
        };
        match self.door(process).enqueue(new) {
            Ok(accepted) => {
                let id = accepted.receipt().id;
                self.trace.calls[call].job = Some(id);
                self.jobs.entry(id).or_insert(call);
                self.figures.queued += 1;
                for worker in 0..self.workers.len() {
                    if std::mem::take(&mut self.workers[worker].idle) {
                        self.at(self.now() + PAUSE_MIN, Due::Work { worker });
                    }
                }
                Ok(Queued::Accepted)
            }
            Err(EnqueueError::BeyondTtl(_)) => Ok(Queued::BeyondTtl),
            Err(EnqueueError::Store(_)) => Ok(Queued::NotDurable),
            Err(error) => Err(PlayError::Store(error.to_string())),
        }
    }

    fn request(&self, payload: &str) -> JobRequest {
        let tool = self.policy.dependency.as_bytes().to_vec();
        match self.rehearsal.tongue {
            Tongue::Http => JobRequest::Http(HttpRequest {
                method: "POST".to_owned(),
                target: "/drill".to_owned(),
                headers: Vec::new(),
                credential: None,
                body: payload.as_bytes().to_vec(),
            }),
            Tongue::Command => JobRequest::Command(CommandRequest {
                host: "drill".to_owned(),
                user: 0,
                executable: b"/drill/tool".to_vec(),
                argv: vec![tool, payload.as_bytes().to_vec()],
                cwd: b"/drill".to_vec(),
                env: Vec::new(),
                env_from: Vec::new(),
                stdin: Vec::new(),
                output: None,
                profile: None,
                timeout: None,
            }),
        }
    }

    /// A worker looks for something to do.
    pub(super) fn work(&mut self, worker: usize) -> Result<(), PlayError> {
        let state = &self.workers[worker];
        if state.dead || state.holds.is_some() {
            return Ok(());
        }
        let now = self.now();
        let door = self.door(state.process);
        let policy = &self.policy;
        // A store that fails is tried again; nothing is lost by that.
        let _ = door.sweep(&|_| policy.clone());
        let again_at = match door.claim_job(&policy.dependency, policy, &state.name) {
            Ok(Claim::Taken(lease)) => return self.took(worker, *lease),
            Ok(Claim::Refused { refusal, .. }) => refusal.retry_at,
            Ok(Claim::Nothing { next_at }) => match next_at {
                // What is due only when finished jobs are forgotten is beyond any row.
                Some(at) if self.lasts_until(at) => Some(at),
                Some(_) | None => {
                    self.workers[worker].idle = true;
                    return Ok(());
                }
            },
            Ok(Claim::Full) | Err(_) => None,
        };
        let again_at = again_at.unwrap_or(now + LOOKS_AGAIN).max(now + PAUSE_MIN);
        self.at(again_at, Due::Work { worker });
        Ok(())
    }

    fn took(&mut self, worker: usize, lease: Lease) -> Result<(), PlayError> {
        self.workers[worker].holds = Some(Holds { lease, attempt: None });
        if self.workers[worker].fate == Some(Fate::FrozenBeforeSending) {
            // It renews nothing, and does not know that time passes.
            self.workers[worker].fate = None;
            let thaws_at = self.now() + self.rehearsal.policy.circuit.lease * 3;
            self.at(thaws_at, Due::Send { worker });
            return Ok(());
        }
        self.send(worker)
    }

    /// A worker sends the job it holds, if it still may.
    pub(super) fn send(&mut self, worker: usize) -> Result<(), PlayError> {
        let now = self.now();
        let state = &self.workers[worker];
        let Some(Holds { lease, .. }) = &state.holds else { return Ok(()) };
        if self.mechanisms.note_before_sending() {
            let noted = self.door(state.process).note_sending(lease, &self.policy);
            if noted.is_err() && self.mechanisms.heed_the_fence() {
                self.workers[worker].holds = None;
                self.at(now + PAUSE_MIN, Due::Work { worker });
                return Ok(());
            }
        }
        let Some(call) = self.jobs.get(&lease.id).copied() else { return Ok(()) };
        let probe = lease.admitted != Admitted::Regularly;
        let (_, group, _) = self.of_call(call);
        let nth = self.trace.sent_by(call).count() + 1;
        let sending = self.sending(group, u32::try_from(nth).unwrap_or(u32::MAX))?;
        self.figures.probes += u64::from(probe);
        self.trace.sent.push(Sent { at: now, call, probe, ended_at: None, done: sending.done });
        let sent = self.trace.sent.len() - 1;
        if self.workers[worker].fate == Some(Fate::KilledAfterSending) {
            // The dependency has the request, whatever becomes of the worker.
            self.workers[worker].dead = true;
            return Ok(());
        }
        if let Some(holds) = &mut self.workers[worker].holds {
            holds.attempt = Some(JobAttempt { started_at: now, sent, said: sending.said });
        }
        self.at(now + sending.takes, Due::JobEnds { worker });
        self.at(now + self.renew_every(), Due::JobRenew { worker, sent });
        Ok(())
    }

    /// A living worker renews its lease.
    pub(super) fn renew_job(&mut self, worker: usize, sent: usize) {
        let state = &self.workers[worker];
        let Some(Holds { lease, attempt: Some(attempt) }) = &state.holds else { return };
        if attempt.sent == sent && self.door(state.process).renew_lease(lease, &self.policy).is_ok() {
            self.at(self.now() + self.renew_every(), Due::JobRenew { worker, sent });
        }
    }

    /// An attempt of a job ends.
    pub(super) fn job_ends(&mut self, worker: usize) -> Result<(), PlayError> {
        let now = self.now();
        let Some(Holds { mut lease, attempt: Some(attempt) }) = self.workers[worker].holds.take() else {
            return Ok(());
        };
        self.trace.sent[attempt.sent].ended_at = Some(now);
        let took = attempt.started_at.until(now);
        let verdict = self.judge(&attempt.said, took);
        // What its caller was told stands; of a call that was queued at once, the job says what it was.
        if let Some(seen) = self.jobs.get(&lease.id).map(|call| &mut self.trace.calls[*call])
            && seen.attempts == 0
        {
            seen.class = Some(verdict.class);
        }
        let command = self.command_rerun(attempt.said.exit() == Exit::TimedOut);
        let door = self.door(self.workers[worker].process);
        if !self.mechanisms.heed_the_fence()
            && let Ok(Some(detail)) = door.job(lease.id)
        {
            lease.grant = detail.view.job.grant();
        }
        let ending = Ending { verdict, took, command, result: None };
        match door.finish_job(&lease, &self.policy, &ending) {
            Ok(ended) => self.figures.drained += u64::from(ended.state == JobState::Done),
            // Late: the history keeps it as evidence.
            Err(JobError::Illegal(IllegalStep::LeaseLost { .. })) => {}
            Err(_) => {}
        }
        self.at(now + PAUSE_MIN, Due::Work { worker });
        Ok(())
    }

    /// Notes what became of every job.
    pub(super) fn look_at_jobs(&mut self) {
        for call in 0..self.trace.calls.len() {
            let Some(id) = self.trace.calls[call].job else { continue };
            let (process, _, _) = self.of_call(call);
            let state = self.door(process).job(id).ok().flatten().map(|detail| detail.view.job.state());
            self.trace.calls[call].job_state = state;
        }
    }
}

/// Whether a call was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queued {
    /// It was.
    Accepted,
    /// It would expire before it could be sent.
    BeyondTtl,
    /// The store could not make it durable.
    NotDurable,
}
