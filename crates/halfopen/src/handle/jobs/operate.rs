//! What an operator does with jobs: with one, or with many at once. Everything is kept in the jobs' histories and told to the
//! journal, with who and why.
//!
//! Many are decided about in transactions of [`DECIDED_MAX`], so that nobody else waits long for the store, and the
//! journal gets one entry for each circuit of such a part instead of one for each job. A job that cannot be changed so
//! keeps nobody else from it. One that is already where the deed leads counts as that and not as refused: whoever was
//! interrupted says the same again.

use std::collections::BTreeMap;
use std::time::Duration;

use halfopen_core::chance::Chance;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::event::By;
use halfopen_core::job::{IllegalStep, JobId, JobResult, JobState, Reason, Step};
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::EventRecord;

use super::look::{JobView, view};
use super::work::kept;
use super::{Handle, JobError, Told, find, take_step, tell};
use crate::store::jobs::{JobRow, Part, Payload};
use crate::store::{StoreError, Txn};

/// How many jobs one transaction decides about at most.
pub const DECIDED_MAX: usize = 100;

/// What an operator decides about a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It is queued again, with a new time to live and fresh attempts. With an order key it waits behind whatever of that
    /// key is open.
    Requeue {
        /// How long it is worth doing from now on; `None` is what it was accepted with.
        ttl: Option<Duration>,
        /// Whether it may be sent again although an attempt of it may have been executed.
        may_have_run: bool,
    },
    /// It counts as done.
    Resolve {
        /// What came of it, kept as its result.
        result: Option<String>,
    },
    /// One that failed, expired or waits for a person is ended: nobody will look at it again.
    Discard,
    /// One that is not over is ended. A worker that holds it loses its lease; what it has sent already cannot be called
    /// back.
    Cancel,
}

impl Deed {
    /// Returns whether a job in this state is already where the deed leads.
    #[must_use]
    pub fn is_done(&self, state: JobState) -> bool {
        match self {
            Self::Requeue { .. } => matches!(state, JobState::Queued | JobState::Running),
            Self::Resolve { .. } => state == JobState::Done,
            Self::Discard | Self::Cancel => state == JobState::Cancelled,
        }
    }

    /// Returns the journal's word.
    const fn word(&self) -> &'static str {
        match self {
            Self::Requeue { .. } => "jobs_requeued",
            Self::Resolve { .. } => "jobs_resolved",
            Self::Discard => "jobs_discarded",
            Self::Cancel => "jobs_cancelled",
        }
    }
}

/// What became of one of the jobs that were decided about.
#[derive(Debug)]
pub enum Became {
    /// It was changed.
    Changed {
        /// What it was.
        before: JobState,
        /// What it is.
        view: Box<JobView>,
    },
    /// It was so already.
    Already(JobState),
    /// It was not changed.
    Refused(JobError),
}

impl Handle {
    /// Decides about many jobs, [`DECIDED_MAX`] in a transaction. The answers stand in the order of `ids`.
    ///
    /// # Errors
    ///
    /// If the store cannot be read or written. What the transactions before have changed stays so; saying the same again
    /// does the rest.
    pub fn decide_jobs(
        &self,
        ids: &[JobId],
        policy_of: &dyn Fn(&str) -> Policy,
        deed: &Deed,
        by: &By,
    ) -> Result<Vec<Became>, JobError> {
        let mut became = Vec::with_capacity(ids.len());
        for part in ids.chunks(DECIDED_MAX) {
            became.extend(self.decide_part(part.to_vec(), policy_of, deed.clone(), by.clone())?);
        }
        Ok(became)
    }

    fn decide_part(
        &self,
        ids: Vec<JobId>,
        policy_of: &dyn Fn(&str) -> Policy,
        deed: Deed,
        by: By,
    ) -> Result<Vec<Became>, JobError> {
        let dependencies = self.readable()?.look(|txn| {
            let rows = ids.iter().map(|id| txn.job(id.seq)).collect::<Result<Vec<_>, _>>()?;
            Ok(rows.into_iter().flatten().map(|row| row.job.terms().dependency().to_owned()).collect::<Vec<_>>())
        })?;
        let policies: BTreeMap<String, Policy> =
            dependencies.into_iter().map(|name| (name.clone(), policy_of(&name))).collect();
        let payloads = ids.iter().map(|_| self.stated(&deed)).collect::<Result<Vec<_>, _>>()?;
        let chance = self.chance();
        self.durably(move |txn| {
            let mut became = Vec::with_capacity(ids.len());
            let mut told: BTreeMap<(CircuitId, Option<Reason>), Vec<JobId>> = BTreeMap::new();
            for (id, payload) in ids.iter().zip(&payloads) {
                let row = match find(txn, *id)? {
                    Ok(row) => row,
                    Err(error) => {
                        became.push(Became::Refused(error));
                        continue;
                    }
                };
                let state = row.job.state();
                let Some(policy) = policies.get(row.job.terms().dependency()) else {
                    // It was not there a moment ago, and whoever named it cannot have meant it.
                    became.push(Became::Refused(JobError::NoSuchJob(*id)));
                    continue;
                };
                if deed.is_done(state) {
                    became.push(Became::Already(state));
                    continue;
                }
                became.push(match carry_out(txn, &row, policy, &deed, payload.as_ref(), &by, chance)? {
                    Ok(after) => {
                        let circuit = after.job.terms().place.clone();
                        told.entry((circuit, row.job.reason())).or_default().push(*id);
                        Became::Changed { before: state, view: Box::new(view(&after)) }
                    }
                    Err(illegal) => Became::Refused(illegal.into()),
                });
            }
            for ((place, reason), ids) in &told {
                let Some(policy) = policies.get(place.dependency()) else { continue };
                tell(txn, policy, &Told { place, word: deed.word(), reason: *reason, ids, by: Some(&by) })?;
            }
            Ok(Ok(became))
        })
    }

    /// Makes a job that failed, expired or waits for a person queued again ([`Deed::Requeue`]).
    ///
    /// # Errors
    ///
    /// [`JobError::Illegal`] if its state does not allow it, or an attempt of it may have been executed and
    /// `may_have_run` is not set.
    pub fn requeue_job(
        &self,
        id: JobId,
        policy: &Policy,
        ttl: Option<Duration>,
        may_have_run: bool,
        by: &By,
    ) -> Result<(JobView, Vec<EventRecord>), JobError> {
        self.decide_one(id, policy, Deed::Requeue { ttl, may_have_run }, by)
    }

    /// Says what became of a job that failed, expired or waits for a person: it counts as done, with these words as its
    /// result.
    ///
    /// # Errors
    ///
    /// [`JobError::Illegal`] if its state does not allow it.
    pub fn resolve_job(
        &self,
        id: JobId,
        policy: &Policy,
        result: Option<String>,
        by: &By,
    ) -> Result<(JobView, Vec<EventRecord>), JobError> {
        self.decide_one(id, policy, Deed::Resolve { result }, by)
    }

    /// Ends a job that is open ([`Deed::Cancel`]): it will not be done.
    ///
    /// # Errors
    ///
    /// [`JobError::Illegal`] if it has ended already.
    pub fn cancel_job(&self, id: JobId, policy: &Policy, by: &By) -> Result<(JobView, Vec<EventRecord>), JobError> {
        self.decide_one(id, policy, Deed::Cancel, by)
    }

    /// Ends a job that failed, expired or waits for a person: nobody will look at it again.
    ///
    /// # Errors
    ///
    /// [`JobError::Illegal`] if it is in another state.
    pub fn discard_job(&self, id: JobId, policy: &Policy, by: &By) -> Result<(JobView, Vec<EventRecord>), JobError> {
        self.decide_one(id, policy, Deed::Discard, by)
    }

    fn decide_one(
        &self,
        id: JobId,
        policy: &Policy,
        deed: Deed,
        by: &By,
    ) -> Result<(JobView, Vec<EventRecord>), JobError> {
        let payload = self.stated(&deed)?;
        let (policy, by, chance) = (policy.clone(), by.clone(), self.chance());
        self.durably(move |txn| {
            let row = match find(txn, id)? {
                Ok(row) => row,
                Err(error) => return Ok(Err(error)),
            };
            let after = match carry_out(txn, &row, &policy, &deed, payload.as_ref(), &by, chance)? {
                Ok(after) => after,
                Err(illegal) => return Ok(Err(illegal.into())),
            };
            let place = &after.job.terms().place;
            let told = Told { place, word: deed.word(), reason: row.job.reason(), ids: &[id], by: Some(&by) };
            let record = tell(txn, &policy, &told)?;
            Ok(Ok((view(&after), vec![record])))
        })
    }

    /// Puts an operator's words where a job's result is kept; `None` where there are none.
    fn stated(&self, deed: &Deed) -> Result<Option<Payload>, JobError> {
        match deed {
            Deed::Resolve { result: Some(words) } => {
                let store = self.job_store()?;
                Ok(Some(kept(&store, JobResult::Stated(words.clone()))?))
            }
            Deed::Resolve { result: None } | Deed::Requeue { .. } | Deed::Discard | Deed::Cancel => Ok(None),
        }
    }
}

/// Changes one job as was decided, with its place in its order key's line; returns it as it is then.
fn carry_out(
    txn: &mut Txn<'_>,
    row: &JobRow,
    policy: &Policy,
    deed: &Deed,
    payload: Option<&Payload>,
    by: &By,
    chance: Chance,
) -> Result<Result<JobRow, IllegalStep>, StoreError> {
    let by = by.clone();
    let state = row.job.state();
    let step = match deed {
        Deed::Requeue { ttl, may_have_run } => {
            return requeue(txn, row, policy, (*ttl, *may_have_run), by, chance);
        }
        Deed::Resolve { .. } => Step::Resolve { by },
        Deed::Discard if !is_decided_by_a_person(state) => {
            return Ok(Err(IllegalStep::WrongState { state, what: "discarded" }));
        }
        Deed::Discard | Deed::Cancel => Step::Cancel { by },
    };
    let after = match take_step(txn, row, policy, step, chance)? {
        Ok((after, _)) => after,
        Err(illegal) => return Ok(Err(illegal)),
    };
    if let Some(payload) = payload {
        txn.put_payload(row.id.seq, Part::Result, payload)?;
    }
    Ok(Ok(after))
}

fn requeue(
    txn: &mut Txn<'_>,
    row: &JobRow,
    policy: &Policy,
    (ttl, may_have_run): (Option<Duration>, bool),
    by: By,
    chance: Chance,
) -> Result<Result<JobRow, IllegalStep>, StoreError> {
    let (id, mut row) = (row.id, row.clone());
    let ended = !row.job.state().is_open();
    let mut behind = false;
    if let Some((key, _)) = row.order {
        behind = txn.line_head(&key)?.is_some_and(|seq| seq != id.seq);
        if ended {
            row.order = Some((key, txn.line_end(&key)? + 1));
        }
    }
    let after = match take_step(txn, &row, policy, Step::Requeue { ttl, may_have_run, behind, by }, chance)? {
        Ok((after, _)) => after,
        Err(illegal) => return Ok(Err(illegal)),
    };
    if let (true, Some((key, line))) = (ended, after.order) {
        txn.line_up(&key, line, id.seq)?;
    }
    Ok(Ok(after))
}

/// Returns whether only a person decides what becomes of a job in this state.
const fn is_decided_by_a_person(state: JobState) -> bool {
    match state {
        JobState::Failed | JobState::Expired | JobState::ManualReview => true,
        JobState::Queued | JobState::Running | JobState::Done | JobState::Cancelled => false,
    }
}
