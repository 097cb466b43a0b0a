//! Lets programs be told that a job has ended, so that nobody needs to ask again and again: `on_done`.
//!
//! It is an alert to a program: the same record, the same claims, the same deliveries, at least once and under one name
//! ([`crate::handle::alerts`]). What differs is that there is one for each job and not one for each incident. So they lie
//! apart, are found by the end of an index and not by reading all, are removed once they are told, and have a bound of
//! their own: a receiver that is away must neither keep an owner's alerts nor fill the disk.
//!
//! Whether somebody is told is fixed when the job is accepted. Whoever ends it may be a process without the policy file,
//! a sweep of `halfopen status` or a run beside the gateway, and must not end it silently.

use std::collections::BTreeMap;
use std::time::Duration;

use halfopen_core::alert;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::job::JobState;
use halfopen_core::policy::{Policy, Surface};
use halfopen_core::snapshot::{JobEndRecord, PostRecord};
use serde_json::Map;

use super::Handle;
use crate::handle::alerts::{self, ClaimedAlert};
use crate::store::alerts::NoticeFigures;
use crate::store::jobs::JobRow;
use crate::store::{StoreError, Txn};

/// Notes that a job has ended, or went to a person, in the same transaction.
pub(super) fn note(txn: &mut Txn<'_>, row: &JobRow) -> Result<(), StoreError> {
    match row.job.state() {
        JobState::Queued | JobState::Running => return Ok(()),
        JobState::Done | JobState::Failed | JobState::Expired | JobState::ManualReview | JobState::Cancelled => {}
    }
    let (job, terms) = (&row.job, row.job.terms());
    let end = JobEndRecord {
        id: row.id.to_string(),
        dependency: terms.dependency().to_owned(),
        state: job.state().as_str().to_owned(),
        reason: job.reason().map(|reason| reason.as_str().to_owned()),
        caller: row.caller.clone(),
        key: row.key.clone(),
        accepted_at_ms: job.accepted_at().as_millis(),
        expires_at_ms: job.expires_at().as_millis(),
        ended_at_ms: job.ended_at().unwrap_or_else(|| txn.now()).as_millis(),
        attempts: job.attempts(),
        class: job.last().map(|last| last.class.as_str().to_owned()),
        may_have_run: job.may_have_run(),
    };
    let told = alert::job_ended(end, &terms.place.to_string(), row.entries);
    let dropped = txn.add_notice(terms.dependency(), &PostRecord::new(told))?;
    if dropped > 0 { tell_of_dropped(txn, terms.dependency(), dropped) } else { Ok(()) }
}

/// Tells the journal that programs were not told of so many jobs. The owner has heard before, of the receiver that fails.
fn tell_of_dropped(txn: &mut Txn<'_>, dependency: &str, dropped: u64) -> Result<(), StoreError> {
    let Ok(place) = CircuitId::whole(dependency) else { return Ok(()) };
    // For the journal's columns about the breaker; its rules do not matter here.
    let policy = Policy::built_in(dependency, Surface::Serve);
    let status = txn.load(&place)?.unwrap_or_default().status(&policy, txn.now());
    let state = status.state.as_str().to_owned();
    let mut details = Map::new();
    details.insert("jobs".to_owned(), dropped.into());
    let record = halfopen_core::snapshot::EventRecord {
        at_ms: txn.now().as_millis(),
        event: "on_done_dropped".to_owned(),
        dependency: dependency.to_owned(),
        partition: None,
        from_state: state.clone(),
        to_state: state,
        generation: status.generation,
        reason: Some("too_many".to_owned()),
        queued_count: None,
        probe_result: None,
        details,
    };
    txn.append(&record)
}

impl Handle {
    /// Returns whether a program is to be told of a job of one of these dependencies. Costs one look at the end of an
    /// index for each.
    #[must_use]
    pub fn has_due_notices<'a>(&self, mut dependencies: impl Iterator<Item = &'a str>) -> bool {
        let Some((store, true)) = self.store() else { return false };
        dependencies.any(|dependency| store.has_due_notices(dependency).unwrap_or(false))
    }

    /// Takes what programs are to be told of jobs of a dependency, at most `max`, for `lease`; nobody else gets it until
    /// then. `receivers` are the channels of the dependency's `on_done`.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn claim_notices(
        &self,
        dependency: &str,
        receivers: &[String],
        lease: Duration,
        max: usize,
    ) -> Result<Vec<ClaimedAlert>, StoreError> {
        self.readable()?.transact(|txn| {
            let mut claimed = Vec::new();
            for post in txn.due_notices(dependency, max)? {
                claimed.extend(alerts::claim(txn, post, receivers, lease)?);
            }
            Ok(claimed)
        })
    }

    /// Returns of how many jobs of each dependency programs are still to be told, were told, and were not.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn notice_figures(&self) -> Result<BTreeMap<String, NoticeFigures>, StoreError> {
        self.readable()?.look(|txn| txn.notice_figures())
    }
}
