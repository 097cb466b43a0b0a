//! What the holder of a lease does: note, renew, finish, release.

use std::time::Duration;

use halfopen_core::chance::Chance;
use halfopen_core::job::{IllegalStep, JobResult, JobState, ReleaseCause, Step};
use halfopen_core::policy::Policy;
use halfopen_core::retry::CommandRerun;
use halfopen_core::snapshot::{self, EventRecord};
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::Verdict;

use super::{Handle, JobError, Lease, Told, facts, find, foretell_expiries, save, take_step, tell, word_of};
use crate::handle::registry::{Seats, forgive_after};
use crate::store::jobs::{Body, INLINE_BYTES_MAX, Part, Payload, RESULT_BYTES_MAX};
use crate::store::{Store, StoreError, Txn};

/// How an attempt ended.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Its verdict.
    pub verdict: Verdict,
    /// How long it took.
    pub took: Duration,
    /// Set if the job is a command.
    pub command: Option<CommandRerun>,
    /// What came back, if it is to be kept: kept is the last one.
    pub result: Option<JobResult>,
}

/// What became of a job whose attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// Its state.
    pub state: JobState,
    /// Not before then is it tried again, if it is queued.
    pub not_before: Option<Timestamp>,
    /// What the circuits and the journal were told.
    pub events: Vec<EventRecord>,
}

impl Handle {
    /// Notes that the attempt is about to be sent; when this returns it is on the disk. Without it nothing is sent.
    ///
    /// # Errors
    ///
    /// [`JobError::Illegal`] if the lease is lost or the attempt was noted already: do not send.
    /// [`JobError::Store`] if it cannot be noted: do not send, and release.
    pub fn note_sending(&self, lease: &Lease, policy: &Policy) -> Result<(), JobError> {
        let (id, grant, policy) = (lease.id, lease.grant, policy.clone());
        let chance = self.chance();
        self.durably(move |txn| {
            let row = match find(txn, id)? {
                Ok(row) => row,
                Err(error) => return Ok(Err(error)),
            };
            let noted = take_step(txn, &row, &policy, Step::NoteSending { grant }, chance)?;
            Ok(noted.map(|_| ()).map_err(JobError::from))
        })
    }

    /// Extends the lease of the job and of its probe; returns when it ends. At a third of `lease_sec` is soon enough.
    ///
    /// # Errors
    ///
    /// [`JobError::Illegal`] if the lease is lost: stop, if that is possible; the result will be evidence only.
    pub fn renew_lease(&self, lease: &Lease, policy: &Policy) -> Result<Timestamp, JobError> {
        let store = self.job_store()?;
        let grant = lease.grant;
        store.transact(|txn| {
            let row = match find(txn, lease.id)? {
                Ok(row) => row,
                Err(error) => return Ok(Err(error)),
            };
            let renewed = match take_step(txn, &row, policy, Step::Renew { grant }, self.chance())? {
                Ok((renewed, _)) => renewed,
                Err(illegal) => return Ok(Err(illegal.into())),
            };
            let mut seats = Seats::take(txn, &lease.route)?;
            let now = txn.now();
            // A permit that has expired by its own rule does not end the job: its verdict will change metrics only.
            let _live = seats.pair().renew(policy, &lease.pass, now);
            seats.put_back(txn, policy, &halfopen_core::pair::PairEvents::default())?;
            Ok(Ok(renewed.job.lease().map_or(now, |(_, ends_at)| ends_at)))
        })?
    }

    /// Ends the attempt with its verdict, for the circuits and the job alike; when this returns it is on the disk.
    ///
    /// # Errors
    ///
    /// [`JobError::Illegal`] if the lease was lost: the circuits have heard the verdict all the same, and the history
    /// keeps it as evidence. [`JobError::Store`] if nothing was recorded: try again until the lease ends.
    pub fn finish_job(&self, lease: &Lease, policy: &Policy, ending: &Ending) -> Result<Ended, JobError> {
        let store = self.job_store()?;
        let result = ending.result.clone().map(|result| kept(&store, result)).transpose()?;
        let file = result.as_ref().and_then(|payload| payload.body.file().map(str::to_owned));
        let (lease, policy, ending) = (lease.clone(), policy.clone(), ending.clone());
        let chance = self.chance();
        let finished = self.durably(move |txn| finish_in(txn, &lease, &policy, &ending, result.as_ref(), chance));
        if let (Err(JobError::Illegal(_) | JobError::NoSuchJob(_)), Some(file), Some(files)) =
            (&finished, file, store.payloads())
        {
            files.forget(&[file]);
        }
        if let Ok(ended) = &finished {
            self.tidy_after(&ended.events);
        }
        finished
    }

    /// Gives the job back without a verdict; when this returns it is on the disk.
    ///
    /// # Errors
    ///
    /// As [`Handle::finish_job`].
    pub fn release_job(&self, lease: &Lease, policy: &Policy, cause: ReleaseCause) -> Result<Ended, JobError> {
        let (lease, policy) = (lease.clone(), policy.clone());
        let chance = self.chance();
        self.durably(move |txn| {
            let step = Step::Release { grant: lease.grant, cause };
            let stepped = match find(txn, lease.id)? {
                Ok(row) => take_step(txn, &row, &policy, step, chance)?.map_err(JobError::from),
                Err(error) => Err(error),
            };
            let facts = facts(txn, &lease.route)?;
            let mut seats = Seats::take(txn, &lease.route)?;
            let now = txn.now();
            let events = seats.pair().give_back(&policy, &lease.pass, facts, now, chance);
            let mut records = seats.put_back(txn, &policy, &events)?;
            match stepped {
                Ok((row, _)) => {
                    records.extend(told_of(txn, &policy, &row)?);
                    let (state, not_before) = (row.job.state(), row.job.not_before());
                    Ok(Ok(Ended { state, not_before, events: records }))
                }
                Err(error) => Ok(Err(error)),
            }
        })
    }

    /// Makes a change durable; remembers a store that cannot.
    pub(super) fn durably<T: Send + 'static, E: From<StoreError> + Send + 'static>(
        &self,
        change: impl FnMut(&mut Txn<'_>) -> Result<Result<T, E>, StoreError> + Send + 'static,
    ) -> Result<T, E> {
        let store = self.job_store()?;
        match store.transact_durably(change) {
            Ok(outcome) => {
                // Where no thread writes the log back, whoever makes it longer must; what fails is done by the next.
                let _ = store.tidy();
                outcome
            }
            Err(error) => {
                self.note_unwritable(&error);
                Err(error.into())
            }
        }
    }
}

fn finish_in(
    txn: &mut Txn<'_>,
    lease: &Lease,
    policy: &Policy,
    ending: &Ending,
    result: Option<&Payload>,
    chance: Chance,
) -> Result<Result<Ended, JobError>, StoreError> {
    let now = txn.now();
    let found = find(txn, lease.id)?;
    let stepped = match found {
        Err(error) => Err(error),
        Ok(row) => {
            let step = Step::Finish {
                grant: lease.grant,
                verdict: &ending.verdict,
                admitted: lease.admitted,
                took: ending.took,
                command: ending.command,
            };
            match take_step(txn, &row, policy, step, chance)? {
                Ok((after, _)) => {
                    if let Some(result) = result {
                        txn.put_payload(row.id.seq, Part::Result, result)?;
                    }
                    Ok(after)
                }
                Err(illegal) => {
                    if let IllegalStep::LeaseLost { .. } = illegal {
                        let late = row.job.late(lease.grant, &lease.worker, &ending.verdict, now);
                        save(txn, &row, &mut row.clone(), Some(&late))?;
                    }
                    Err(illegal.into())
                }
            }
        }
    };
    // What the dependency showed is true, whoever holds the job by now.
    let facts = facts(txn, &lease.route)?;
    let mut seats = Seats::take(txn, &lease.route)?;
    let events = seats.pair().settle(policy, &lease.pass, &ending.verdict, facts, now, chance);
    let mut records = seats.put_back(txn, policy, &events)?;
    forgive_after(txn, &lease.route, &records)?;
    records.extend(foretell_expiries(txn, policy, &records)?);
    match stepped {
        Ok(row) => {
            records.extend(told_of(txn, policy, &row)?);
            Ok(Ok(Ended { state: row.job.state(), not_before: row.job.not_before(), events: records }))
        }
        Err(error) => Ok(Err(error)),
    }
}

/// Tells the journal of a job that ended badly.
fn told_of(
    txn: &mut Txn<'_>,
    policy: &Policy,
    row: &crate::store::jobs::JobRow,
) -> Result<Option<EventRecord>, StoreError> {
    let Some(word) = word_of(row.job.state()) else { return Ok(None) };
    let place = &row.job.terms().place;
    tell(txn, policy, &Told { place, word, reason: row.job.reason(), ids: &[row.id], by: None }).map(Some)
}

/// Returns a result as it is kept.
pub(super) fn kept(store: &Store, mut result: JobResult) -> Result<Payload, StoreError> {
    result.cut_to(RESULT_BYTES_MAX);
    let (head, body) = snapshot::encode_result(result);
    let body = match store.payloads() {
        Some(files) if body.len() > INLINE_BYTES_MAX => Body::File(files.keep(&body)?),
        Some(_) | None => Body::Inline(body),
    };
    Ok(Payload { head, body })
}
