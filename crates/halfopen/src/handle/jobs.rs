//! The door for jobs: accept, claim, note, finish, and what an operator does.
//!
//! # What each verb promises
//!
//! | verb | on the disk when it returns | after `kill -9` or a power cut at any instant |
//! |---|---|---|
//! | [`Handle::enqueue`] | yes | accepted and there, or refused and not there |
//! | [`Handle::claim_job`] | no | a claim that is lost was not noted either, so nothing was sent |
//! | [`Handle::note_sending`] | yes | what was sent was noted: a noted attempt has an unknown end |
//! | [`Handle::renew_lease`] | no | the lease ends sooner |
//! | [`Handle::finish_job`], [`Handle::release_job`] | yes | the verdict counts for circuits and job alike, or for neither |
//! | [`Handle::requeue_job`], [`Handle::resolve_job`], [`Handle::cancel_job`] | yes | with its entry and its journal event |
//! | [`Handle::decide_jobs`] | yes, part by part | each part of at most [`DECIDED_MAX`] jobs whole or not at all |
//!
//! - **A claim and the permits of its circuits are one transaction.** There is no job in a worker's hands without a
//!   pass, and no probe's slot without a job.
//! - **Fenced.** Every verb of a lease is refused when its grant is not the job's newest or its lease is over:
//!   [`JobError::Illegal`] with `LeaseLost`. The pass is settled all the same, by the circuits' own rules, and a late
//!   result stays in the job's history as evidence.
//! - **No store, no jobs.** Nothing that cannot be made durable is accepted or sent. There is no breaker in memory here.
//!
//! # How a worker uses it
//!
//! ```text
//! loop:
//!   handle.sweep(policy_of)                    every second or so: TTLs, lost leases, what is kept no longer
//!   match handle.claim_job(dependency, policy, me):
//!     Taken(lease)   → request = handle.request(lease.id)
//!                      handle.note_sending(&lease, policy)?      else do not send
//!                      send; every third of lease_sec: handle.renew_lease(&lease, policy)
//!                      handle.finish_job(&lease, policy, ending)     retried while the store fails
//!     Refused {..}   → come back at refusal.retry_at
//!     Nothing {..}   → come back at next_at, or when something was enqueued
//!     Full           → come back when one of its own ends
//! ```
//!
//! A worker that cannot start a job (a missing variable) calls [`Handle::release_job`] with `NotStarted` and stops claiming
//! that dependency. One that shuts down releases with `Shutdown`.
//!
//! A long-lived process calls [`Handle::commit_in_groups`] once: durable verbs of many threads then share one flush.

mod claim;
mod enqueue;
mod look;
mod forget;
pub(super) mod notices;
mod operate;
mod sweep;
mod work;

use std::sync::Arc;

use halfopen_core::chance::Chance;
use halfopen_core::circuit::Facts;
use halfopen_core::event::By;
use halfopen_core::job::{BeyondTtl, Entry, IllegalStep, JobId, JobState, Reason, Step};
use halfopen_core::pair::PairFacts;
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::EventRecord;

pub(super) use sweep::foretell_expiries;

use super::{Handle, Route, alerts};
use crate::store::jobs::JobRow;
use crate::store::{Store, StoreError, Txn};

pub use claim::{Claim, Lease};
pub use enqueue::{Accepted, EnqueueError, JobKey, NewJob, Receipt};
pub use forget::Forgotten;
pub use look::{AuditReport, JobDetail, JobPage, JobView};
pub use operate::{Became, DECIDED_MAX, Deed};
pub use work::{Ended, Ending};

/// Why something could not be done with a job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// There is none of that name.
    #[error("there is no job {0}")]
    NoSuchJob(JobId),
    /// The job's state, or its lease, does not allow it.
    #[error(transparent)]
    Illegal(#[from] IllegalStep),
    /// The store cannot do it. Nothing was changed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Handle {
    /// Lets durable verbs of many threads share one flush, by a thread that writes and one that writes the log back. For
    /// long-lived processes; a process that enqueues one job is faster without.
    ///
    /// # Errors
    ///
    /// If the store cannot be opened, or no thread can be started.
    pub fn commit_in_groups(&self) -> Result<(), StoreError> {
        self.group_commits.store(true, std::sync::atomic::Ordering::Relaxed);
        self.job_store()?.commit_in_groups()
    }

    /// Returns the store for jobs, or why there is none: jobs know no breaker in memory.
    fn job_store(&self) -> Result<Arc<Store>, StoreError> {
        match self.store() {
            Some((store, true)) => Ok(store),
            // A full disk stays a full disk until it is not: who is told so waits longer than for a lock.
            Some((store, false)) => Err(store
                .read_only()
                .or_else(|| self.back().failed.as_ref().map(StoreError::again))
                .unwrap_or_else(|| StoreError::Lost("the store cannot be written".to_owned()))),
            None => self.readable(),
        }
    }
}

/// Returns how many jobs wait for each of a route's circuits.
pub(super) fn facts(txn: &Txn<'_>, route: &Route) -> Result<PairFacts, StoreError> {
    let lanes = txn.lanes(Some(route.place.dependency()))?;
    let of_place = lanes.iter().filter(|lane| lane.place == route.place).map(|lane| lane.tally.queued).sum();
    let of_account =
        lanes.iter().filter(|lane| lane.account.as_ref() == route.account()).map(|lane| lane.tally.queued).sum();
    Ok(PairFacts { place: Facts { jobs_queued: of_place }, account: Facts { jobs_queued: of_account } })
}

/// Returns how many jobs wait for one circuit, as place or as account.
pub(super) fn facts_of(txn: &Txn<'_>, id: &halfopen_core::circuit_id::CircuitId) -> Result<Facts, StoreError> {
    let lanes = txn.lanes(Some(id.dependency()))?;
    let judged = lanes.iter().filter(|lane| lane.place == *id || lane.account.as_ref() == Some(id));
    Ok(Facts { jobs_queued: judged.map(|lane| lane.tally.queued).sum() })
}

/// Returns a job by its name, or that there is none: a number without its mark is no name.
fn find(txn: &Txn<'_>, id: JobId) -> Result<Result<JobRow, JobError>, StoreError> {
    let found = txn.job(id.seq)?.filter(|row| row.id == id);
    Ok(found.ok_or(JobError::NoSuchJob(id)))
}

/// Does one step of a job and saves what came of it, with its place in its order key's line.
fn take_step(
    txn: &mut Txn<'_>,
    row: &JobRow,
    policy: &Policy,
    step: Step<'_>,
    chance: Chance,
) -> Result<Result<(JobRow, Option<Entry>), IllegalStep>, StoreError> {
    let mut after = row.clone();
    match after.job.step(policy, step, txn.now(), chance) {
        Ok(entry) => {
            if after != *row || entry.is_some() {
                save(txn, row, &mut after, entry.as_ref())?;
            }
            Ok(Ok((after, entry)))
        }
        Err(illegal) => Ok(Err(illegal)),
    }
}

/// Saves a job; one that is not open any more leaves its line, and the next one's turn has come.
fn save(txn: &mut Txn<'_>, before: &JobRow, after: &mut JobRow, entry: Option<&Entry>) -> Result<(), StoreError> {
    txn.save_job(before, after, entry)?;
    if after.on_done && after.job.state() != before.job.state() {
        notices::note(txn, after)?;
    }
    let Some((key, line)) = after.order else { return Ok(()) };
    if !before.job.state().is_open() || after.job.state().is_open() {
        return Ok(());
    }
    let was_head = txn.line_head(&key)? == Some(after.id.seq);
    txn.line_leave(&key, line)?;
    if !was_head {
        return Ok(());
    }
    let Some(next) = txn.line_head(&key)?.map(|seq| txn.job(seq)).transpose()?.flatten() else { return Ok(()) };
    let mut unblocked = next.clone();
    // A head that is not queued (a person has it) keeps the others waiting as it is.
    let nobody = Policy::built_in(next.job.terms().dependency(), halfopen_core::policy::Surface::Serve);
    if let Ok(entry) = unblocked.job.step(&nobody, Step::Unblock, txn.now(), Chance::from_seed(0)) {
        txn.save_job(&next, &mut unblocked, entry.as_ref())?;
    }
    Ok(())
}

/// Returns the journal's event about jobs that a person should hear of, and appends it.
fn tell(txn: &mut Txn<'_>, policy: &Policy, told: &Told<'_>) -> Result<EventRecord, StoreError> {
    let circuit = txn.load(told.place)?.unwrap_or_default();
    let status = circuit.status(policy, txn.now());
    let state = status.state.as_str().to_owned();
    let queued = facts_of(txn, told.place)?.jobs_queued;
    let mut details = serde_json::Map::new();
    details.insert("jobs".to_owned(), told.ids.len().into());
    let shown = told.ids.iter().take(TOLD_MAX).map(|id| id.to_string().into()).collect::<Vec<serde_json::Value>>();
    details.insert("ids".to_owned(), shown.into());
    if let Some(by) = told.by {
        details.insert("who".to_owned(), by.who.clone().into());
        details.insert("why".to_owned(), by.reason.clone().into());
    }
    let record = EventRecord {
        at_ms: txn.now().as_millis(),
        event: told.word.to_owned(),
        dependency: told.place.dependency().to_owned(),
        partition: told.place.partition().map(|(key, value)| format!("{key}={value}")),
        // The breaker's state, which this event is not about.
        from_state: state.clone(),
        to_state: state,
        generation: status.generation,
        reason: told.reason.map(|reason| reason.as_str().to_owned()),
        queued_count: Some(queued),
        probe_result: None,
        details,
    };
    txn.append(&record)?;
    alerts::note(txn, policy, &record, Some(&status))?;
    txn.prune(told.place.dependency(), txn.now() - policy.journal_keep)?;
    Ok(record)
}

/// How many job ids one event names.
const TOLD_MAX: usize = 20;

/// What the journal is told about jobs.
struct Told<'a> {
    place: &'a halfopen_core::circuit_id::CircuitId,
    word: &'static str,
    reason: Option<Reason>,
    ids: &'a [JobId],
    by: Option<&'a By>,
}

/// Returns the journal's word for jobs that arrived in a state, if a person should hear of it.
const fn word_of(state: JobState) -> Option<&'static str> {
    match state {
        JobState::Failed => Some("jobs_failed"),
        JobState::Expired => Some("jobs_expired"),
        JobState::ManualReview => Some("jobs_to_review"),
        // The history and the figures have these; a journal row for each would bury the rest.
        JobState::Queued | JobState::Running | JobState::Done | JobState::Cancelled => None,
    }
}

/// Returns the reason that a queued call would outlive its time to live, as an enqueue's refusal.
impl From<BeyondTtl> for EnqueueError {
    fn from(beyond: BeyondTtl) -> Self {
        Self::BeyondTtl(beyond)
    }
}
