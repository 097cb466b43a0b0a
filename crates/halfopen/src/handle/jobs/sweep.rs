//! Lets time pass for jobs: times to live, lost leases, pauses that are over, jobs that were kept long enough.
//!
//! It happens in every sweep of whoever is there, so that a job expires although nobody consumes. Each round is bounded
//! and finds what is due at one end of an index. Jobs that expired together are told together: one event with their
//! number, not one for each.

use std::collections::BTreeMap;

use halfopen_core::chance::Chance;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::job::Step;
use halfopen_core::job::{JobId, JobState, Reason};
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;

use super::{Handle, Told, facts_of, save, tell, word_of};
use crate::store::{StoreError, Txn};

/// How many jobs one round of a sweep deals with at most.
const ROUND_MAX: usize = 256;

/// How many rounds a sweep makes at most before it lets others write.
const ROUNDS_MAX: usize = 16;

/// What a round came to.
#[derive(Debug, Default)]
pub(super) struct Passed {
    pub(super) records: Vec<EventRecord>,
    /// Files that nobody needs any more, to be removed once this is committed.
    pub(super) files: Vec<String>,
    /// How many jobs were due.
    pub(super) due: usize,
    /// How many of them were dealt with.
    pub(super) dealt: usize,
}

impl Handle {
    /// Lets time pass for jobs, a bounded number of them; returns what the journal was told. Costs one look at the end of
    /// an index where nothing is due. [`Handle::sweep`] calls it.
    ///
    /// # Errors
    ///
    /// If the store cannot be read or written.
    pub fn sweep_jobs(&self, policy_of: &dyn Fn(&str) -> Policy) -> Result<Vec<EventRecord>, StoreError> {
        let store = self.readable()?;
        let mut records = Vec::new();
        for _ in 0..ROUNDS_MAX {
            if !store.has_due_jobs()? {
                break;
            }
            let chance = self.chance();
            let passed = store.transact(|txn| pass_time(txn, policy_of, None, ROUND_MAX, chance));
            let passed = passed.inspect_err(|error| self.note_unwritable(error))?;
            if let Some(files) = store.payloads() {
                files.forget(&passed.files);
            }
            records.extend(passed.records);
            if passed.due < ROUND_MAX || passed.dealt == 0 {
                break;
            }
        }
        self.tidy_after(&records);
        Ok(records)
    }
}

/// Lets time pass for the jobs that are due, of one dependency or of all, and removes those that were kept long enough.
pub(super) fn pass_time(
    txn: &mut Txn<'_>,
    policy_of: &dyn Fn(&str) -> Policy,
    dependency: Option<&str>,
    max: usize,
    chance: Chance,
) -> Result<Passed, StoreError> {
    let now = txn.now();
    let due = txn.due_jobs(max)?;
    let mut passed = Passed { due: due.len(), ..Passed::default() };
    let mut told: BTreeMap<(CircuitId, JobState, Option<Reason>), Vec<JobId>> = BTreeMap::new();
    let mut policies: BTreeMap<String, Policy> = BTreeMap::new();
    for (n, seq) in (0..).zip(due) {
        let Some(row) = txn.job(seq)? else { continue };
        let name = row.job.terms().dependency();
        if dependency.is_some_and(|wanted| wanted != name) {
            continue;
        }
        if row.job.is_prunable(now) {
            passed.files.extend(txn.remove_job(&row)?);
            passed.dealt += 1;
            continue;
        }
        let policy = policies.entry(name.to_owned()).or_insert_with(|| policy_of(name));
        let mut after = row.clone();
        let Ok(entry) = after.job.step(policy, Step::PassTime, now, chance.nth(n)) else { continue };
        save(txn, &row, &mut after, entry.as_ref())?;
        passed.dealt += 1;
        let state = after.job.state();
        if state != row.job.state() && word_of(state).is_some() {
            let place = after.job.terms().place.clone();
            told.entry((place, state, after.job.reason())).or_default().push(after.id);
        }
    }
    for ((place, state, reason), ids) in told {
        let Some(word) = word_of(state) else { continue };
        let policy = policies.entry(place.dependency().to_owned()).or_insert_with(|| policy_of(place.dependency()));
        passed.records.push(tell(txn, policy, &Told { place: &place, word, reason, ids: &ids, by: None })?);
    }
    Ok(passed)
}

/// Tells the journal if a wait that has just begun pushes jobs past their time to live: the owner should hear of it now,
/// not when they have expired. Counts at most [`ROUND_MAX`] of them.
pub(in crate::handle) fn foretell_expiries(
    txn: &mut Txn<'_>,
    policy: &Policy,
    records: &[EventRecord],
) -> Result<Vec<EventRecord>, StoreError> {
    let mut told = Vec::new();
    for record in records {
        let until = match record.event.as_str() {
            "tripped" => record.details.get("open_until_ms"),
            "throttled" => record.details.get("until_ms"),
            _ => None,
        };
        let Some(until) = until.and_then(serde_json::Value::as_i64).map(Timestamp::from_millis) else { continue };
        let name = record
            .partition
            .as_ref()
            .map_or_else(|| record.dependency.clone(), |partition| format!("{}@{partition}", record.dependency));
        let Ok(circuit) = name.parse::<CircuitId>() else { continue };
        if facts_of(txn, &circuit)?.jobs_queued == 0 {
            continue;
        }
        let mut ids = Vec::new();
        for seq in txn.jobs_due_by(until, ROUND_MAX)? {
            let Some(row) = txn.job(seq)? else { continue };
            let terms = row.job.terms();
            let judged = terms.place == circuit || terms.account.as_ref() == Some(&circuit);
            if judged && row.job.state() == JobState::Queued && row.job.expires_at() <= until {
                ids.push(row.id);
            }
        }
        if !ids.is_empty() {
            let told_of = Told { place: &circuit, word: "jobs_will_expire", reason: None, ids: &ids, by: None };
            told.push(tell(txn, policy, &told_of)?);
        }
    }
    Ok(told)
}
