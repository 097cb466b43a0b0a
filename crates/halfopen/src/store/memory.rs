//! Keeps circuits and the journal in this process only: for tests, drills and programs that want no file.

mod alerts;
mod jobs;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use halfopen_core::circuit::Circuit;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::job::{Entry, JobId, JobKind};
use halfopen_core::snapshot::{EventRecord, IncidentRecord, PostRecord};
use halfopen_core::time::Timestamp;

use super::alerts::NoticeFigures;
use super::jobs::{Digest, JobRow, Lane, LaneId, Part, Payload, TakenKey};
use super::{EventFilter, JOURNAL_ROWS_MAX, JournalEntry, PRUNE_STEP, StoreError, Stored, Txn, is_transition};
use crate::clock::Clock;

/// The store in memory.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    circuits: BTreeMap<CircuitId, Row>,
    events: VecDeque<JournalEntry>,
    /// The position of the newest event that was ever kept.
    end: i64,
    jobs: jobs::Jobs,
    alerts: alerts::Alerts,
    version: i64,
}

/// One circuit as it is kept.
#[derive(Clone, Debug)]
struct Row {
    circuit: Circuit,
    wake_at: Option<Timestamp>,
    updated_at: Timestamp,
}

/// What a transaction is going to change; nothing of it is kept unless it commits.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    kept: MutexGuard<'a, Kept>,
    changed: BTreeMap<CircuitId, Option<Row>>,
    appended: Vec<EventRecord>,
    pruned: Vec<(String, Timestamp)>,
    undo: Vec<jobs::Undo>,
    /// The alerts as they are going to be, if they change.
    alerts: Option<alerts::Alerts>,
}

impl Memory {
    pub(super) fn load(&self, ids: &[&CircuitId]) -> Vec<Option<Circuit>> {
        let kept = self.lock();
        ids.iter().map(|id| kept.circuits.get(id).map(|row| row.circuit.clone())).collect()
    }

    pub(super) fn all(&self) -> Vec<Stored> {
        self.lock().circuits.iter().map(stored).collect()
    }

    pub(super) fn due(&self, now: Timestamp, max: usize) -> Vec<CircuitId> {
        let is_due = |row: &Row| row.wake_at.is_some_and(|wake_at| wake_at <= now);
        self.lock().circuits.iter().filter(|(_, row)| is_due(row)).take(max).map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn events(&self, filter: &EventFilter) -> Vec<EventRecord> {
        let kept = self.lock();
        let events = kept.events.iter().rev().map(|entry| &entry.event);
        let mut newest: Vec<_> = events.filter(|event| wanted(filter, event)).take(limit(filter)).cloned().collect();
        newest.reverse();
        newest
    }

    pub(super) fn events_after(&self, position: i64, filter: &EventFilter) -> Vec<JournalEntry> {
        let kept = self.lock();
        let begin = kept.events.partition_point(|entry| entry.position <= position);
        let entries = kept.events.range(begin..);
        entries.filter(|entry| wanted(filter, &entry.event)).take(limit(filter)).cloned().collect()
    }

    pub(super) fn timeline(
        &self,
        dependency: &str,
        since: Timestamp,
        transitions_only: bool,
        max: usize,
    ) -> Vec<EventRecord> {
        let filter = EventFilter {
            dependency: Some(dependency.to_owned()),
            since_ms: Some(since.as_millis()),
            transitions_only,
            limit: 0,
        };
        let mut events = self.events(&filter);
        events.sort_by_key(|event| event.at_ms);
        events.split_off(events.len().saturating_sub(max))
    }

    pub(super) fn journal_end(&self) -> i64 {
        self.lock().end
    }

    pub(super) fn version(&self) -> i64 {
        self.lock().version
    }

    pub(super) fn transact<T>(
        &self,
        clock: &Clock,
        decide: impl FnOnce(&mut Txn<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut txn = self.begin(clock);
        let value = decide(&mut txn)?;
        match txn.draft {
            super::Draft::Memory(draft) => draft.commit(),
            #[cfg(feature = "sqlite")]
            super::Draft::Sqlite(_) => {}
        }
        Ok(value)
    }

    pub(super) fn look<T>(
        &self,
        clock: &Clock,
        questions: impl FnOnce(&Txn<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        questions(&self.begin(clock))
    }

    pub(super) fn has_due_jobs(&self, now: Timestamp) -> bool {
        !self.lock().jobs.due(now, 1).is_empty()
    }

    pub(super) fn has_due_alerts(&self, now: Timestamp) -> bool {
        self.lock().alerts.has_due(now)
    }

    pub(super) fn alerts_waiting(&self) -> u64 {
        self.lock().alerts.waiting()
    }

    pub(super) fn has_due_notices(&self, dependency: &str, now: Timestamp) -> bool {
        self.lock().alerts.has_due_notices(dependency, now)
    }

    fn begin(&self, clock: &Clock) -> Txn<'_> {
        let kept = self.lock();
        let (changed, appended) = (BTreeMap::new(), Vec::new());
        let draft = Draft { kept, changed, appended, pruned: Vec::new(), undo: Vec::new(), alerts: None };
        Txn { now: clock.now(), draft: super::Draft::Memory(draft) }
    }

    /// A thread that panicked in a transaction left no half-done change behind: drafts commit at the end, or put back.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Draft<'_> {
    pub(super) fn load(&self, id: &CircuitId) -> Option<Circuit> {
        let found = match self.changed.get(id) {
            Some(changed) => changed.as_ref(),
            None => self.kept.circuits.get(id),
        };
        found.map(|row| row.circuit.clone())
    }

    pub(super) fn all(&self) -> Vec<Stored> {
        let mut all: BTreeMap<&CircuitId, &Row> = self.kept.circuits.iter().collect();
        for (id, changed) in &self.changed {
            match changed {
                Some(row) => all.insert(id, row),
                None => all.remove(id),
            };
        }
        all.into_iter().map(stored).collect()
    }

    pub(super) fn partitions(&self, dependency: &str) -> Vec<Stored> {
        let mut all = self.all();
        all.retain(|stored| stored.id.dependency() == dependency && stored.id.partition().is_some());
        all
    }

    pub(super) fn save(&mut self, id: &CircuitId, circuit: &Circuit, wake_at: Option<Timestamp>, now: Timestamp) {
        self.changed.insert(id.clone(), Some(Row { circuit: circuit.clone(), wake_at, updated_at: now }));
    }

    pub(super) fn remove(&mut self, id: &CircuitId) {
        self.changed.insert(id.clone(), None);
    }

    pub(super) fn append(&mut self, event: &EventRecord) {
        self.appended.push(event.clone());
    }

    pub(super) fn prune(&mut self, dependency: &str, before: Timestamp) {
        self.pruned.push((dependency.to_owned(), before));
    }

    pub(super) fn lanes(&self, dependency: Option<&str>) -> Vec<Lane> {
        self.kept.jobs.lanes(dependency)
    }

    pub(super) fn new_lane(
        &mut self,
        place: &CircuitId,
        account: Option<&CircuitId>,
        kind: Option<&JobKind>,
    ) -> LaneId {
        self.kept.jobs.new_lane(place, account, kind, &mut self.undo)
    }

    pub(super) fn remove_empty_lanes(&mut self, dependency: &str) {
        self.kept.jobs.remove_empty_lanes(dependency, &mut self.undo);
    }

    pub(super) fn insert_job(&mut self, row: JobRow, entry: &Entry) -> JobId {
        self.kept.jobs.insert(row, entry, &mut self.undo)
    }

    pub(super) fn job(&self, seq: u64) -> Option<JobRow> {
        self.kept.jobs.job(seq)
    }

    pub(super) fn save_job(&mut self, before: &JobRow, after: &JobRow) {
        self.kept.jobs.save(before, after, &mut self.undo);
    }

    pub(super) fn remove_job(&mut self, row: &JobRow) -> Vec<String> {
        self.kept.jobs.remove(row, &mut self.undo);
        Vec::new()
    }

    pub(super) fn on_shelf(&self, lane: LaneId, shelf: i64, max: usize) -> Vec<JobRow> {
        self.kept.jobs.after_on_shelf(lane, shelf, 0, max)
    }

    pub(super) fn after_on_shelf(&self, lane: LaneId, shelf: i64, after: u64, max: usize) -> Vec<JobRow> {
        self.kept.jobs.after_on_shelf(lane, shelf, after, max)
    }

    pub(super) fn jobs_after(&self, after: u64, max: usize) -> Vec<JobRow> {
        self.kept.jobs.jobs_after(after, max)
    }

    pub(super) fn due_jobs(&self, now: Timestamp, max: usize) -> Vec<u64> {
        self.kept.jobs.due(now, max)
    }

    pub(super) fn next_job_wake(&self) -> Option<Timestamp> {
        self.kept.jobs.next_wake()
    }

    pub(super) fn append_entry(&mut self, seq: u64, _n: u32, entry: &Entry) {
        self.kept.jobs.append_entry(seq, entry, &mut self.undo);
    }

    pub(super) fn history(&self, seq: u64) -> Vec<Entry> {
        self.kept.jobs.history(seq)
    }

    pub(super) fn put_payload(&mut self, seq: u64, part: Part, payload: &Payload) {
        self.kept.jobs.put_payload(seq, part, payload, &mut self.undo);
    }

    pub(super) fn payload(&self, seq: u64, part: Part) -> Option<Payload> {
        self.kept.jobs.payload(seq, part)
    }

    pub(super) fn key(&self, scope: &Digest) -> Option<TakenKey> {
        self.kept.jobs.key(scope)
    }

    pub(super) fn put_key(&mut self, scope: &Digest, taken: TakenKey) {
        self.kept.jobs.put_key(scope, taken, &mut self.undo);
    }

    pub(super) fn line_head(&self, key: &Digest) -> Option<u64> {
        self.kept.jobs.line_head(key)
    }

    pub(super) fn line_end(&self, key: &Digest) -> u64 {
        self.kept.jobs.line_end(key)
    }

    pub(super) fn line_up(&mut self, key: &Digest, line: u64, seq: u64) {
        self.kept.jobs.line(key, line, Some(seq), &mut self.undo);
    }

    pub(super) fn line_leave(&mut self, key: &Digest, line: u64) {
        self.kept.jobs.line(key, line, None, &mut self.undo);
    }

    pub(super) fn counted(&self) -> Vec<(LaneId, i64, u64)> {
        self.kept.jobs.counted()
    }

    pub(super) fn incident(&self, name: &str) -> Option<IncidentRecord> {
        self.alerts().incident(name)
    }

    pub(super) fn set_incident(&mut self, name: &str, incident: Option<&IncidentRecord>) {
        self.alerts_mut().set_incident(name, incident);
    }

    pub(super) fn woken_incidents(&self, now: Timestamp, max: usize) -> Vec<(String, IncidentRecord)> {
        self.alerts().woken(now, max)
    }

    pub(super) fn add_post(&mut self, post: &PostRecord, now: Timestamp) -> Option<usize> {
        self.alerts_mut().add(post, now)
    }

    pub(super) fn post(&self, id: &str) -> Option<PostRecord> {
        self.alerts().post(id)
    }

    pub(super) fn save_post(&mut self, post: &PostRecord, due_at: Option<Timestamp>) {
        self.alerts_mut().save(post, due_at);
    }

    pub(super) fn open_posts(&self, now: Timestamp) -> Vec<(bool, PostRecord)> {
        self.alerts().open(now)
    }

    pub(super) fn posts(&self, max: usize) -> Vec<PostRecord> {
        self.alerts().posts(max)
    }

    pub(super) fn add_notice(&mut self, dependency: &str, post: &PostRecord, now: Timestamp) -> u64 {
        self.alerts_mut().add_notice(dependency, post, now)
    }

    pub(super) fn drop_notices(&mut self, dependency: &str, old: Timestamp, most: usize) -> u64 {
        self.alerts_mut().drop_notices(dependency, old, most)
    }

    pub(super) fn due_notices(&self, dependency: &str, now: Timestamp, max: usize) -> Vec<PostRecord> {
        self.alerts().due_notices(dependency, now, max)
    }

    pub(super) fn remove_post(&mut self, id: &str) {
        self.alerts_mut().remove_post(id);
    }

    pub(super) fn count_notices(&mut self, dependency: &str, more: NoticeFigures) {
        self.alerts_mut().count_notices(dependency, more);
    }

    pub(super) fn notice_figures(&self) -> BTreeMap<String, NoticeFigures> {
        self.alerts().notice_figures()
    }

    fn alerts(&self) -> &alerts::Alerts {
        self.alerts.as_ref().unwrap_or(&self.kept.alerts)
    }

    fn alerts_mut(&mut self) -> &mut alerts::Alerts {
        self.alerts.get_or_insert_with(|| self.kept.alerts.clone())
    }

    fn commit(mut self) {
        self.undo.clear();
        let kept = &mut *self.kept;
        kept.version += 1;
        for (id, changed) in std::mem::take(&mut self.changed) {
            match changed {
                Some(row) => kept.circuits.insert(id, row),
                None => kept.circuits.remove(&id),
            };
        }
        if let Some(alerts) = self.alerts.take() {
            kept.alerts = alerts;
        }
        for event in std::mem::take(&mut self.appended) {
            kept.end += 1;
            kept.events.push_back(JournalEntry { position: kept.end, event });
        }
        for (dependency, before) in std::mem::take(&mut self.pruned) {
            let mut left = PRUNE_STEP;
            kept.events.retain(|JournalEntry { event, .. }| {
                let old = left > 0 && event.dependency == dependency && event.at_ms < before.as_millis();
                left -= u32::from(old);
                !old
            });
        }
        while kept.events.len() > JOURNAL_ROWS_MAX as usize {
            kept.events.pop_front();
        }
    }
}

impl Drop for Draft<'_> {
    /// What was not committed is put back.
    fn drop(&mut self) {
        let undo = std::mem::take(&mut self.undo);
        self.kept.jobs.undo(undo);
    }
}

fn stored((id, row): (&CircuitId, &Row)) -> Stored {
    Stored { id: id.clone(), circuit: row.circuit.clone(), updated_at: row.updated_at }
}

fn wanted(filter: &EventFilter, event: &EventRecord) -> bool {
    filter.dependency.as_ref().is_none_or(|name| *name == event.dependency)
        && filter.since_ms.is_none_or(|since| event.at_ms >= since)
        && (!filter.transitions_only || is_transition(event))
}

fn limit(filter: &EventFilter) -> usize {
    if filter.limit == 0 { usize::MAX } else { filter.limit }
}
