//! What an operator does with jobs. Everything is kept in the job's history and told to the journal, with who and why.

use std::time::Duration;

use halfopen_core::event::By;
use halfopen_core::job::{JobId, JobResult, JobState, Step};
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::EventRecord;

use super::look::{JobView, view};
use super::work::kept;
use super::{Handle, JobError, Told, find, take_step, tell};
use crate::store::StoreError;
use crate::store::jobs::Part;

impl Handle {
    /// Makes a job that failed, expired or waits for a person queued again, with a new time to live and fresh attempts.
    /// With an order key it waits behind whatever of that key is open.
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
        let (policy, by, chance) = (policy.clone(), by.clone(), self.chance());
        self.durably(move |txn| {
            let mut row = match find(txn, id)? {
                Ok(row) => row,
                Err(error) => return Ok(Err(error)),
            };
            let mut behind = false;
            if let Some((key, line)) = row.order {
                let head = txn.line_head(&key)?;
                behind = head.is_some_and(|seq| seq != id.seq);
                if !row.job.state().is_open() {
                    row.order = Some((key, txn.line_end(&key)? + 1));
                } else {
                    row.order = Some((key, line));
                }
            }
            let ended = !row.job.state().is_open();
            let step = Step::Requeue { ttl, may_have_run, behind, by: by.clone() };
            let after = match take_step(txn, &row, &policy, step, chance)? {
                Ok((after, _)) => after,
                Err(illegal) => return Ok(Err(illegal.into())),
            };
            if let (true, Some((key, line))) = (ended, after.order) {
                txn.line_up(&key, line, id.seq)?;
            }
            let place = &after.job.terms().place;
            let told = Told { place, word: "jobs_requeued", reason: row.job.reason(), ids: &[id], by: Some(&by) };
            let record = tell(txn, &policy, &told)?;
            Ok(Ok((view(&after), vec![record])))
        })
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
        let store = self.job_store()?;
        let payload = result.map(|words| kept(&store, JobResult::Stated(words))).transpose()?;
        let (policy, by, chance) = (policy.clone(), by.clone(), self.chance());
        self.durably(move |txn| {
            let row = match find(txn, id)? {
                Ok(row) => row,
                Err(error) => return Ok(Err(error)),
            };
            let after = match take_step(txn, &row, &policy, Step::Resolve { by: by.clone() }, chance)? {
                Ok((after, _)) => after,
                Err(illegal) => return Ok(Err(illegal.into())),
            };
            if let Some(payload) = &payload {
                txn.put_payload(id.seq, Part::Result, payload)?;
            }
            let place = &after.job.terms().place;
            let told = Told { place, word: "jobs_resolved", reason: row.job.reason(), ids: &[id], by: Some(&by) };
            let record = tell(txn, &policy, &told)?;
            Ok(Ok((view(&after), vec![record])))
        })
    }

    /// Ends a job that is open: it will not be done. A worker that holds it loses its lease; what it has sent already
    /// cannot be called back.
    ///
    /// # Errors
    ///
    /// [`JobError::Illegal`] if it has ended already.
    pub fn cancel_job(&self, id: JobId, policy: &Policy, by: &By) -> Result<(JobView, Vec<EventRecord>), JobError> {
        self.end(id, policy, by, "jobs_cancelled", |_| true)
    }

    /// Ends a job that failed, expired or waits for a person: nobody will look at it again.
    ///
    /// # Errors
    ///
    /// [`JobError::Illegal`] if it is in another state.
    pub fn discard_job(&self, id: JobId, policy: &Policy, by: &By) -> Result<(JobView, Vec<EventRecord>), JobError> {
        let decided = |state: JobState| match state {
            JobState::Failed | JobState::Expired | JobState::ManualReview => true,
            JobState::Queued | JobState::Running | JobState::Done | JobState::Cancelled => false,
        };
        self.end(id, policy, by, "jobs_discarded", decided)
    }

    fn end(
        &self,
        id: JobId,
        policy: &Policy,
        by: &By,
        word: &'static str,
        allowed: impl Fn(JobState) -> bool + Send + 'static,
    ) -> Result<(JobView, Vec<EventRecord>), JobError> {
        let (policy, by, chance) = (policy.clone(), by.clone(), self.chance());
        self.durably(move |txn| {
            let row = match find(txn, id)? {
                Ok(row) => row,
                Err(error) => return Ok(Err(error)),
            };
            let state = row.job.state();
            if !allowed(state) {
                let illegal = halfopen_core::job::IllegalStep::WrongState { state, what: "discarded" };
                return Ok(Err(illegal.into()));
            }
            let after = match take_step(txn, &row, &policy, Step::Cancel { by: by.clone() }, chance)? {
                Ok((after, _)) => after,
                Err(illegal) => return Ok(Err(illegal.into())),
            };
            let place = &after.job.terms().place;
            let record =
                tell(txn, &policy, &Told { place, word, reason: row.job.reason(), ids: &[id], by: Some(&by) })?;
            Ok::<_, StoreError>(Ok((view(&after), vec![record])))
        })
    }
}
