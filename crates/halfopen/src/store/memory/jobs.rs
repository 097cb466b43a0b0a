//! Keeps jobs in memory: the rows, and the orders in which they are looked for.
//!
//! A transaction changes the rows at once and remembers what they were; one that fails puts that back. Copying all of
//! them first would make every change cost as much as the queue is long.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use halfopen_core::circuit_id::CircuitId;
use halfopen_core::job::{Entry, JobId, JobKind};
use halfopen_core::time::Timestamp;

use super::super::jobs::{Digest, JobRow, Lane, LaneId, Moved, Part, Payload, TakenKey, Tally};

/// All jobs of a store in memory.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    last_seq: u64,
    lanes: Vec<Lane>,
    rows: BTreeMap<u64, Arc<Kept>>,
    by_shelf: BTreeSet<(LaneId, i64, u64)>,
    by_wake: BTreeSet<(Timestamp, u64)>,
    keys: BTreeMap<Digest, TakenKey>,
    lines: BTreeMap<(Digest, u64), u64>,
}

/// One job with all that belongs to it.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    row: JobRow,
    history: Vec<Entry>,
    payloads: BTreeMap<Part, Arc<Payload>>,
}

/// What a transaction changed, as it was before.
#[derive(Debug)]
pub(super) enum Undo {
    Row(u64, Option<Arc<Kept>>),
    Lanes(Vec<Lane>),
    Key(Digest, Option<TakenKey>),
    Line((Digest, u64), Option<u64>),
}

impl Jobs {
    pub(super) fn lanes(&self, dependency: Option<&str>) -> Vec<Lane> {
        let wanted = |lane: &&Lane| dependency.is_none_or(|name| lane.place.dependency() == name);
        self.lanes.iter().filter(wanted).cloned().collect()
    }

    pub(super) fn new_lane(
        &mut self,
        place: &CircuitId,
        account: Option<&CircuitId>,
        kind: Option<&JobKind>,
        undo: &mut Vec<Undo>,
    ) -> LaneId {
        undo.push(Undo::Lanes(self.lanes.clone()));
        let id = LaneId(self.lanes.last().map_or(0, |last| last.id.0.saturating_add(1)));
        let tally = Tally::default();
        self.lanes.push(Lane { id, place: place.clone(), account: account.cloned(), kind: kind.cloned(), tally });
        id
    }

    pub(super) fn remove_empty_lanes(&mut self, dependency: &str, undo: &mut Vec<Undo>) {
        undo.push(Undo::Lanes(self.lanes.clone()));
        let by_shelf = &self.by_shelf;
        let has_jobs = |id: LaneId| by_shelf.range((id, i64::MIN, 0)..=(id, i64::MAX, u64::MAX)).next().is_some();
        self.lanes.retain(|lane| lane.place.dependency() != dependency || has_jobs(lane.id));
    }

    pub(super) fn insert(&mut self, mut row: JobRow, entry: &Entry, undo: &mut Vec<Undo>) -> JobId {
        self.last_seq += 1;
        row.id.seq = self.last_seq;
        let id = row.id;
        self.count(row.lane, undo, |moved| moved.count(None, Some(row.job.state()), row.bytes));
        let kept = Kept { row, history: vec![entry.clone()], payloads: BTreeMap::new() };
        self.set(id.seq, Some(Arc::new(kept)), undo);
        id
    }

    pub(super) fn job(&self, seq: u64) -> Option<JobRow> {
        self.rows.get(&seq).map(|kept| kept.row.clone())
    }

    pub(super) fn save(&mut self, before: &JobRow, after: &JobRow, undo: &mut Vec<Undo>) {
        let (from, to) = (before.job.state(), after.job.state());
        if from != to {
            self.count(after.lane, undo, |moved| moved.count(Some(from), Some(to), after.bytes));
        }
        self.change(after.id.seq, undo, |kept| kept.row = after.clone());
    }

    pub(super) fn remove(&mut self, row: &JobRow, undo: &mut Vec<Undo>) {
        self.count(row.lane, undo, |moved| moved.count(Some(row.job.state()), None, row.bytes));
        self.set(row.id.seq, None, undo);
        if let Some(scope) = &row.scope
            && self.keys.get(scope).is_some_and(|taken| taken.seq == row.id.seq)
        {
            undo.push(Undo::Key(*scope, self.keys.remove(scope)));
        }
    }

    pub(super) fn after_on_shelf(&self, lane: LaneId, shelf: i64, after: u64, max: usize) -> Vec<JobRow> {
        let from = (lane, shelf, after.saturating_add(1));
        self.by_shelf.range(from..=(lane, shelf, u64::MAX)).take(max).filter_map(|(_, _, seq)| self.job(*seq)).collect()
    }

    pub(super) fn jobs_after(&self, after: u64, max: usize) -> Vec<JobRow> {
        self.rows.range(after.saturating_add(1)..).take(max).map(|(_, kept)| kept.row.clone()).collect()
    }

    pub(super) fn due(&self, now: Timestamp, max: usize) -> Vec<u64> {
        self.by_wake.range(..=(now, u64::MAX)).take(max).map(|(_, seq)| *seq).collect()
    }

    pub(super) fn append_entry(&mut self, seq: u64, entry: &Entry, undo: &mut Vec<Undo>) {
        self.change(seq, undo, |kept| kept.history.push(entry.clone()));
    }

    pub(super) fn history(&self, seq: u64) -> Vec<Entry> {
        self.rows.get(&seq).map(|kept| kept.history.clone()).unwrap_or_default()
    }

    pub(super) fn put_payload(&mut self, seq: u64, part: Part, payload: &Payload, undo: &mut Vec<Undo>) {
        let payload = Arc::new(payload.clone());
        self.change(seq, undo, |kept| {
            kept.payloads.insert(part, payload);
        });
    }

    pub(super) fn payload(&self, seq: u64, part: Part) -> Option<Payload> {
        self.rows.get(&seq)?.payloads.get(&part).map(|payload| (**payload).clone())
    }

    pub(super) fn key(&self, scope: &Digest) -> Option<TakenKey> {
        self.keys.get(scope).copied()
    }

    pub(super) fn put_key(&mut self, scope: &Digest, taken: TakenKey, undo: &mut Vec<Undo>) {
        undo.push(Undo::Key(*scope, self.keys.insert(*scope, taken)));
    }

    pub(super) fn line_head(&self, key: &Digest) -> Option<u64> {
        self.lines.range((*key, 0)..=(*key, u64::MAX)).next().map(|(_, seq)| *seq)
    }

    pub(super) fn line_end(&self, key: &Digest) -> u64 {
        self.lines.range((*key, 0)..=(*key, u64::MAX)).next_back().map_or(0, |((_, line), _)| *line)
    }

    pub(super) fn line(&mut self, key: &Digest, line: u64, seq: Option<u64>, undo: &mut Vec<Undo>) {
        let place = (*key, line);
        let before = match seq {
            Some(seq) => self.lines.insert(place, seq),
            None => self.lines.remove(&place),
        };
        undo.push(Undo::Line(place, before));
    }

    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        self.by_wake.first().map(|(wake, _)| *wake)
    }

    pub(super) fn counted(&self) -> Vec<(LaneId, i64, u64)> {
        let mut counted: BTreeMap<(LaneId, i64), u64> = BTreeMap::new();
        for (lane, shelf, _) in &self.by_shelf {
            *counted.entry((*lane, *shelf)).or_default() += 1;
        }
        counted.into_iter().map(|((lane, shelf), jobs)| (lane, shelf, jobs)).collect()
    }

    /// Puts back what a transaction changed, the last change first.
    pub(super) fn undo(&mut self, undo: Vec<Undo>) {
        for change in undo.into_iter().rev() {
            match change {
                Undo::Row(seq, row) => self.set(seq, row, &mut Vec::new()),
                Undo::Lanes(lanes) => self.lanes = lanes,
                Undo::Key(scope, Some(taken)) => {
                    self.keys.insert(scope, taken);
                }
                Undo::Key(scope, None) => {
                    self.keys.remove(&scope);
                }
                Undo::Line(place, Some(seq)) => {
                    self.lines.insert(place, seq);
                }
                Undo::Line(place, None) => {
                    self.lines.remove(&place);
                }
            }
        }
    }

    fn change(&mut self, seq: u64, undo: &mut Vec<Undo>, change: impl FnOnce(&mut Kept)) {
        let Some(kept) = self.rows.get(&seq) else { return };
        let mut kept = (**kept).clone();
        change(&mut kept);
        self.set(seq, Some(Arc::new(kept)), undo);
    }

    /// Sets a row, and where it is found.
    fn set(&mut self, seq: u64, kept: Option<Arc<Kept>>, undo: &mut Vec<Undo>) {
        if let Some(before) = self.rows.remove(&seq) {
            self.by_shelf.remove(&(before.row.lane, before.row.shelf(), seq));
            if let Some(wake) = before.row.job.next_wake() {
                self.by_wake.remove(&(wake, seq));
            }
            undo.push(Undo::Row(seq, Some(before)));
        } else {
            undo.push(Undo::Row(seq, None));
        }
        if let Some(kept) = kept {
            self.by_shelf.insert((kept.row.lane, kept.row.shelf(), seq));
            if let Some(wake) = kept.row.job.next_wake() {
                self.by_wake.insert((wake, seq));
            }
            self.rows.insert(seq, kept);
        }
    }

    fn count(&mut self, lane: LaneId, undo: &mut Vec<Undo>, change: impl FnOnce(&mut Moved)) {
        let mut moved = Moved::default();
        change(&mut moved);
        undo.push(Undo::Lanes(self.lanes.clone()));
        if let Some(lane) = self.lanes.iter_mut().find(|known| known.id == lane) {
            moved.apply(&mut lane.tally);
        }
    }
}
