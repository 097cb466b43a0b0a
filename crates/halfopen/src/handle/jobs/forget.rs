//! Forgets a dependency that was made for a while: its jobs, its circuits, its figures in the store.
//!
//! A rehearsal leaves nothing behind but the journal, which says what it did. What is open is ended first, with who and
//! why, so that the journal has the last word about every job; then the rows go, in bounded steps, because a step holds
//! the one write lock of everybody else. An attempt that is still under way may put a row back when it settles: whoever
//! forgets looks again later, and forgetting what is not there costs a read.

use std::collections::BTreeMap;

use halfopen_core::circuit_id::CircuitId;
use halfopen_core::event::By;
use halfopen_core::job::{JobId, JobState, Step};
use halfopen_core::policy::Policy;

use super::{Handle, Told, take_step, tell};
use crate::store::jobs::{JobFilter, JobRow};
use crate::store::{StoreError, Txn};

/// How many jobs one step forgets.
const STEP: usize = 128;
/// How many steps are made at most; what is left is for the next time.
const STEPS_MAX: usize = 1000;

/// What was forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Jobs that were open, or waited for a person, and were ended.
    pub ended: usize,
    /// Jobs that were removed, those included.
    pub jobs: usize,
    /// Circuits that were removed.
    pub circuits: usize,
}

impl Handle {
    /// Ends what is open of a dependency, and removes its jobs, its circuits and its figures.
    ///
    /// # Errors
    ///
    /// If the store cannot be read or written. What was forgotten by then stays so.
    pub fn forget_dependency(&self, dependency: &str, policy: &Policy, by: &By) -> Result<Forgotten, StoreError> {
        let store = self.job_store()?;
        let mut forgotten = Forgotten::default();
        let circuits = store.all()?.into_iter().map(|stored| stored.id);
        let circuits: Vec<CircuitId> = circuits.filter(|id| id.dependency() == dependency).collect();
        let filter = JobFilter { dependency: Some(dependency.to_owned()), limit: STEP, ..JobFilter::default() };
        for _ in 0..STEPS_MAX {
            let has_lanes = store.look(|txn| Ok(!txn.lanes(Some(dependency))?.is_empty()))?;
            if !has_lanes {
                break;
            }
            let chance = self.chance();
            let (rows, ended, files) = store
                .transact(|txn| {
                    let rows = txn.list(&filter)?;
                    let ended = end(txn, &rows, policy, by, chance)?;
                    let mut files = Vec::new();
                    for row in &rows {
                        // As it is after its last step.
                        let Some(row) = txn.job(row.id.seq)? else { continue };
                        files.extend(txn.remove_job(&row)?);
                    }
                    if rows.len() < STEP {
                        txn.remove_empty_lanes(dependency)?;
                    }
                    Ok((rows.len(), ended, files))
                })
                .inspect_err(|error| self.note_unwritable(error))?;
            if let Some(kept) = store.payloads() {
                kept.forget(&files);
            }
            forgotten.jobs += rows;
            forgotten.ended += ended;
            if rows < STEP {
                break;
            }
        }
        if circuits.is_empty() {
            return Ok(forgotten);
        }
        store
            .transact(|txn| circuits.iter().try_for_each(|id| txn.remove(id)))
            .inspect_err(|error| self.note_unwritable(error))?;
        forgotten.circuits = circuits.len();
        self.tidy();
        Ok(forgotten)
    }
}

/// Ends those of the jobs that are open or wait for a person, and tells the journal; returns how many there were.
fn end(
    txn: &mut Txn<'_>,
    rows: &[JobRow],
    policy: &Policy,
    by: &By,
    chance: halfopen_core::chance::Chance,
) -> Result<usize, StoreError> {
    let mut told: BTreeMap<(CircuitId, &'static str), Vec<JobId>> = BTreeMap::new();
    let mut ended = 0;
    for row in rows {
        let word = match row.job.state() {
            JobState::Queued | JobState::Running => "jobs_cancelled",
            JobState::Failed | JobState::Expired | JobState::ManualReview => "jobs_discarded",
            JobState::Done | JobState::Cancelled => continue,
        };
        // As it stands by now: an earlier one that ended may have moved it up in its line.
        let Some(row) = txn.job(row.id.seq)? else { continue };
        if take_step(txn, &row, policy, Step::Cancel { by: by.clone() }, chance)?.is_ok() {
            told.entry((row.job.terms().place.clone(), word)).or_default().push(row.id);
            ended += 1;
        }
    }
    for ((place, word), ids) in told {
        tell(txn, policy, &Told { place: &place, word, reason: None, ids: &ids, by: Some(by) })?;
    }
    Ok(ended)
}
