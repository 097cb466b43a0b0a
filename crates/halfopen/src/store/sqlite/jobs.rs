//! Carries out what a transaction asks for about jobs.
//!
//! The figures of all lanes are read once in a transaction, kept beside it, and written once at its end: a batch of
//! two hundred enqueues writes one row of figures.

use std::cell::RefCell;
use std::collections::BTreeMap;

use halfopen_core::circuit_id::CircuitId;
use halfopen_core::job::{Entry, JobId, JobKind};
use halfopen_core::snapshot;
use halfopen_core::time::Timestamp;
use rusqlite::{OptionalExtension, Row, params};

use super::super::StoreError;
use super::super::jobs::{Body, Digest, JobRow, Lane, LaneId, Moved, Part, Payload, TakenKey, Tally};
use super::draft::Draft;

/// The lanes as they stand in this transaction, and what of that is not written yet.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    read: RefCell<Option<Vec<Lane>>>,
    moved: BTreeMap<LaneId, Moved>,
}

/// The columns of a job, in the order in which [`raw`] reads them.
const COLUMNS: &str = "seq, mark, lane, bytes, entries, scope, order_key, line, form, caller, key, on_done";

/// The jobs of a lane on a shelf behind a number, in the order of their numbers: what the index gives, in its order.
const AFTER_ON_SHELF: &str = "WHERE lane = ?1 AND shelf = ?2 AND seq > ?3 ORDER BY seq LIMIT ?4";

/// The jobs behind a number.
const AFTER: &str = "WHERE seq > ?1 ORDER BY seq LIMIT ?2";

/// One row as SQLite gives it.
struct RawJob {
    id: JobId,
    lane: LaneId,
    bytes: u64,
    entries: u32,
    scope: Option<Digest>,
    order: Option<(Digest, u64)>,
    form: String,
    caller: Option<String>,
    key: Option<String>,
    on_done: bool,
}

fn raw(row: &Row<'_>) -> rusqlite::Result<RawJob> {
    Ok(RawJob {
        id: JobId { seq: row.get(0)?, mark: row.get(1)? },
        lane: LaneId(row.get(2)?),
        bytes: row.get(3)?,
        entries: row.get(4)?,
        scope: row.get(5)?,
        order: row.get::<_, Option<Digest>>(6)?.zip(row.get(7)?),
        form: row.get(8)?,
        caller: row.get(9)?,
        key: row.get(10)?,
        on_done: row.get(11)?,
    })
}

impl Draft<'_> {
    pub(in crate::store) fn lanes(&self, dependency: Option<&str>) -> Result<Vec<Lane>, StoreError> {
        self.with_lanes(|lanes| {
            let wanted = |lane: &&Lane| dependency.is_none_or(|name| lane.place.dependency() == name);
            lanes.iter().filter(wanted).cloned().collect()
        })
    }

    pub(in crate::store) fn new_lane(
        &mut self,
        place: &CircuitId,
        account: Option<&CircuitId>,
        kind: Option<&JobKind>,
    ) -> Result<LaneId, StoreError> {
        self.with_lanes(|_| ())?;
        let account_name = account.map(ToString::to_string).unwrap_or_default();
        self.execute(
            "INSERT INTO lanes (dependency, place, account, kind) VALUES (?1, ?2, ?3, ?4)",
            params![place.dependency(), place.to_string(), account_name, kind.map(ToString::to_string)],
        )?;
        let id = LaneId(self.tx.last_insert_rowid());
        let tally = Tally::default();
        let lane = Lane { id, place: place.clone(), account: account.cloned(), kind: kind.cloned(), tally };
        if let Some(lanes) = self.lanes.read.get_mut() {
            lanes.push(lane);
        }
        Ok(id)
    }

    pub(in crate::store) fn remove_empty_lanes(&mut self, dependency: &str) -> Result<(), StoreError> {
        self.execute(
            "DELETE FROM lanes WHERE dependency = ?1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.lane = lanes.id)",
            [dependency],
        )?;
        // They are read anew by whoever needs them; what moved in one that is gone moves nothing.
        let left = self.read_lanes()?;
        self.lanes.moved.retain(|id, _| left.iter().any(|lane| lane.id == *id));
        if let Some(lanes) = self.lanes.read.get_mut() {
            lanes.retain(|lane| left.iter().any(|known| known.id == lane.id));
        }
        Ok(())
    }

    pub(in crate::store) fn insert_job(&mut self, mut row: JobRow, entry: &Entry) -> Result<JobId, StoreError> {
        self.execute(
            "INSERT INTO jobs (mark, lane, shelf, wake_at_ms, bytes, entries, scope, order_key, line, form, caller, key, \
             on_done) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
            params![
                row.id.mark,
                row.lane.0,
                row.shelf(),
                row.job.next_wake().map(Timestamp::as_millis),
                row.bytes,
                row.entries,
                row.scope,
                row.order.map(|(key, _)| key),
                row.order.map(|(_, line)| line),
                snapshot::encode_job(&row.job),
                row.caller,
                row.key,
                row.on_done
            ],
        )?;
        row.id.seq = u64::try_from(self.tx.last_insert_rowid()).unwrap_or(0);
        self.count(row.lane, |moved| moved.count(None, Some(row.job.state()), row.bytes))?;
        self.append_entry(row.id.seq, 0, entry)?;
        Ok(row.id)
    }

    pub(in crate::store) fn job(&self, seq: u64) -> Result<Option<JobRow>, StoreError> {
        let sql = select_jobs("WHERE seq = ?1");
        let found = self
            .tx
            .prepare_cached(&sql)
            .and_then(|mut query| query.query_row([seq], raw).optional())
            .map_err(|cause| self.failure.of(cause))?;
        found.map(|found| self.decode(found)).transpose()
    }

    pub(in crate::store) fn save_job(&mut self, before: &JobRow, after: &JobRow) -> Result<(), StoreError> {
        self.execute(
            "UPDATE jobs SET shelf = ?2, wake_at_ms = ?3, entries = ?4, line = ?5, form = ?6 WHERE seq = ?1",
            params![
                after.id.seq,
                after.shelf(),
                after.job.next_wake().map(Timestamp::as_millis),
                after.entries,
                after.order.map(|(_, line)| line),
                snapshot::encode_job(&after.job)
            ],
        )?;
        let (from, to) = (before.job.state(), after.job.state());
        if from == to {
            return Ok(());
        }
        self.count(after.lane, |moved| {
            moved.count(Some(from), Some(to), after.bytes);
        })
    }

    pub(in crate::store) fn remove_job(&mut self, row: &JobRow) -> Result<Vec<String>, StoreError> {
        let files = self
            .tx
            .prepare_cached("SELECT file FROM job_payloads WHERE seq = ?1 AND file IS NOT NULL")
            .and_then(|mut query| {
                query.query_map([row.id.seq], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()
            })
            .map_err(|cause| self.failure.of(cause))?;
        self.execute("DELETE FROM job_payloads WHERE seq = ?1", [row.id.seq])?;
        self.execute("DELETE FROM job_history WHERE seq = ?1", [row.id.seq])?;
        if let Some(scope) = &row.scope {
            self.execute("DELETE FROM job_keys WHERE scope = ?1 AND seq = ?2", params![scope, row.id.seq])?;
        }
        self.execute("DELETE FROM jobs WHERE seq = ?1", [row.id.seq])?;
        self.count(row.lane, |moved| moved.count(Some(row.job.state()), None, row.bytes))?;
        Ok(files)
    }

    pub(in crate::store) fn on_shelf(&self, lane: LaneId, shelf: i64, max: usize) -> Result<Vec<JobRow>, StoreError> {
        self.after_on_shelf(lane, shelf, 0, max)
    }

    /// Returns the oldest jobs of a lane on a shelf whose numbers are greater than `after`.
    pub(in crate::store) fn after_on_shelf(
        &self,
        lane: LaneId,
        shelf: i64,
        after: u64,
        max: usize,
    ) -> Result<Vec<JobRow>, StoreError> {
        let sql = select_jobs(AFTER_ON_SHELF);
        self.rows(&sql, params![lane.0, shelf, after, max])
    }

    /// Returns the oldest jobs of all lanes whose numbers are greater than `after`.
    pub(in crate::store) fn jobs_after(&self, after: u64, max: usize) -> Result<Vec<JobRow>, StoreError> {
        let sql = select_jobs(AFTER);
        self.rows(&sql, params![after, max])
    }

    pub(in crate::store) fn due_jobs(&self, now: Timestamp, max: usize) -> Result<Vec<u64>, StoreError> {
        self.tx
            .prepare_cached("SELECT seq FROM jobs WHERE wake_at_ms <= ?1 ORDER BY wake_at_ms LIMIT ?2")
            .and_then(|mut query| {
                query
                    .query_map(params![now.as_millis(), max], |row| row.get(0))?
                    .collect::<rusqlite::Result<Vec<u64>>>()
            })
            .map_err(|cause| self.failure.of(cause))
    }

    pub(in crate::store) fn append_entry(&self, seq: u64, n: u32, entry: &Entry) -> Result<(), StoreError> {
        self.execute(
            "INSERT INTO job_history (seq, n, body) VALUES (?1, ?2, ?3)",
            params![seq, n, snapshot::encode_entry(entry)],
        )
    }

    pub(in crate::store) fn history(&self, seq: u64) -> Result<Vec<Entry>, StoreError> {
        let bodies = self
            .tx
            .prepare_cached("SELECT body FROM job_history WHERE seq = ?1 ORDER BY n")
            .and_then(|mut query| query.query_map([seq], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>())
            .map_err(|cause| self.failure.of(cause))?;
        bodies
            .iter()
            .map(|body| {
                snapshot::decode_entry(body).map_err(|cause| StoreError::Job { id: format!("number {seq}"), cause })
            })
            .collect()
    }

    pub(in crate::store) fn put_payload(&self, seq: u64, part: Part, payload: &Payload) -> Result<(), StoreError> {
        let (body, file) = match &payload.body {
            Body::Inline(bytes) => (Some(bytes.as_slice()), None),
            Body::File(name) => (None, Some(name)),
        };
        self.execute(
            "INSERT INTO job_payloads (seq, part, head, body, file) VALUES (?1, ?2, ?3, ?4, ?5) \
             ON CONFLICT (seq, part) DO UPDATE SET head = excluded.head, body = excluded.body, file = excluded.file",
            params![seq, part as i64, payload.head, body, file],
        )
    }

    pub(in crate::store) fn payload(&self, seq: u64, part: Part) -> Result<Option<Payload>, StoreError> {
        self.tx
            .prepare_cached("SELECT head, body, file FROM job_payloads WHERE seq = ?1 AND part = ?2")
            .and_then(|mut query| {
                let read = |row: &Row<'_>| {
                    let (head, bytes, file): (String, Option<Vec<u8>>, Option<String>) =
                        (row.get(0)?, row.get(1)?, row.get(2)?);
                    let body = file.map_or_else(|| Body::Inline(bytes.unwrap_or_default()), Body::File);
                    Ok(Payload { head, body })
                };
                query.query_row(params![seq, part as i64], read).optional()
            })
            .map_err(|cause| self.failure.of(cause))
    }

    /// Returns whether a file belongs to a job.
    pub(in crate::store) fn is_file_of_a_job(&self, name: &str) -> Result<bool, StoreError> {
        self.tx
            .prepare_cached("SELECT 1 FROM job_payloads WHERE file = ?1")
            .and_then(|mut query| query.exists([name]))
            .map_err(|cause| self.failure.of(cause))
    }

    /// Returns the files that jobs refer to.
    pub(in crate::store) fn files(&self) -> Result<Vec<(u64, String)>, StoreError> {
        self.tx
            .prepare_cached("SELECT seq, file FROM job_payloads WHERE file IS NOT NULL")
            .and_then(|mut query| {
                query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<Vec<_>>>()
            })
            .map_err(|cause| self.failure.of(cause))
    }

    pub(in crate::store) fn key(&self, scope: &Digest) -> Result<Option<TakenKey>, StoreError> {
        self.tx
            .prepare_cached("SELECT seq, payload FROM job_keys WHERE scope = ?1")
            .and_then(|mut query| {
                query.query_row([scope], |row| Ok(TakenKey { seq: row.get(0)?, payload: row.get(1)? })).optional()
            })
            .map_err(|cause| self.failure.of(cause))
    }

    pub(in crate::store) fn put_key(&self, scope: &Digest, taken: TakenKey) -> Result<(), StoreError> {
        self.execute(
            "INSERT INTO job_keys (scope, seq, payload) VALUES (?1, ?2, ?3) \
             ON CONFLICT (scope) DO UPDATE SET seq = excluded.seq, payload = excluded.payload",
            params![scope, taken.seq, taken.payload],
        )
    }

    pub(in crate::store) fn line_head(&self, key: &Digest) -> Result<Option<u64>, StoreError> {
        self.tx
            .prepare_cached("SELECT seq FROM job_order WHERE order_key = ?1 ORDER BY line LIMIT 1")
            .and_then(|mut query| query.query_row([key], |row| row.get(0)).optional())
            .map_err(|cause| self.failure.of(cause))
    }

    pub(in crate::store) fn line_end(&self, key: &Digest) -> Result<u64, StoreError> {
        self.tx
            .prepare_cached("SELECT line FROM job_order WHERE order_key = ?1 ORDER BY line DESC LIMIT 1")
            .and_then(|mut query| query.query_row([key], |row| row.get(0)).optional())
            .map(|line| line.unwrap_or(0))
            .map_err(|cause| self.failure.of(cause))
    }

    pub(in crate::store) fn line_up(&self, key: &Digest, line: u64, seq: u64) -> Result<(), StoreError> {
        self.execute("INSERT INTO job_order (order_key, line, seq) VALUES (?1, ?2, ?3)", params![key, line, seq])
    }

    pub(in crate::store) fn line_leave(&self, key: &Digest, line: u64) -> Result<(), StoreError> {
        self.execute("DELETE FROM job_order WHERE order_key = ?1 AND line = ?2", params![key, line])
    }

    pub(in crate::store) fn next_job_wake(&self) -> Result<Option<Timestamp>, StoreError> {
        self.tx
            .prepare_cached("SELECT min(wake_at_ms) FROM jobs WHERE wake_at_ms IS NOT NULL")
            .and_then(|mut query| query.query_row([], |row| row.get::<_, Option<i64>>(0)))
            .map(|ms| ms.map(Timestamp::from_millis))
            .map_err(|cause| self.failure.of(cause))
    }

    /// Counts the jobs of a lane by shelf, by looking at each: for an audit.
    pub(in crate::store) fn counted(&self) -> Result<Vec<(LaneId, i64, u64)>, StoreError> {
        self.tx
            .prepare_cached("SELECT lane, shelf, count(*) FROM jobs GROUP BY lane, shelf")
            .and_then(|mut query| {
                let read = |row: &Row<'_>| Ok((LaneId(row.get(0)?), row.get(1)?, row.get(2)?));
                query.query_map([], read)?.collect::<rusqlite::Result<Vec<_>>>()
            })
            .map_err(|cause| self.failure.of(cause))
    }

    /// Writes the figures of the lanes that changed.
    pub(in crate::store) fn write_lanes(&self) -> Result<(), StoreError> {
        for (id, moved) in &self.lanes.moved {
            let [queued, running, done, failed, expired, manual_review, cancelled] = moved.states;
            self.execute(
                "UPDATE lanes SET queued = queued + ?2, running = running + ?3, done = done + ?4, \
                 failed = failed + ?5, expired = expired + ?6, manual_review = manual_review + ?7, \
                 cancelled = cancelled + ?8, accepted = accepted + ?9, pruned = pruned + ?10, \
                 open_bytes = open_bytes + ?11 WHERE id = ?1",
                params![
                    id.0,
                    queued,
                    running,
                    done,
                    failed,
                    expired,
                    manual_review,
                    cancelled,
                    moved.accepted,
                    moved.pruned,
                    moved.open_bytes
                ],
            )?;
        }
        Ok(())
    }

    /// After a reboot: every lease is over, and deadlines are cut to their own length.
    pub(super) fn jobs_after_reboot(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let mut after = 0;
        loop {
            // A deadline that lies further ahead than any job lives can only be a stepped clock's; others are left.
            let rows = self.jobs_after(after, 512)?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = last.id.seq;
            for row in rows {
                let mut cut = row.clone();
                cut.job.after_reboot(now);
                if cut != row {
                    self.save_job(&row, &cut)?;
                }
            }
        }
    }

    /// Notes a change of a lane's figures.
    fn count(&mut self, lane: LaneId, change: impl Fn(&mut Moved)) -> Result<(), StoreError> {
        self.with_lanes(|_| ())?;
        change(self.lanes.moved.entry(lane).or_default());
        let mut once = Moved::default();
        change(&mut once);
        if let Some(lane) = self.lanes.read.get_mut().iter_mut().flatten().find(|known| known.id == lane) {
            once.apply(&mut lane.tally);
        }
        Ok(())
    }

    /// Looks at the lanes as they stand in this transaction, reading them if that was not done yet.
    fn with_lanes<T>(&self, look: impl FnOnce(&[Lane]) -> T) -> Result<T, StoreError> {
        if self.lanes.read.borrow().is_none() {
            let lanes = self.read_lanes()?;
            *self.lanes.read.borrow_mut() = Some(lanes);
        }
        Ok(look(self.lanes.read.borrow().as_deref().unwrap_or_default()))
    }

    fn read_lanes(&self) -> Result<Vec<Lane>, StoreError> {
        let rows = self
            .tx
            .prepare_cached(
                "SELECT id, place, account, queued, running, done, failed, expired, manual_review, cancelled, \
                 accepted, pruned, open_bytes, kind FROM lanes ORDER BY id",
            )
            .and_then(|mut query| {
                let read = |row: &Row<'_>| {
                    let tally = Tally {
                        queued: row.get(3)?,
                        running: row.get(4)?,
                        done: row.get(5)?,
                        failed: row.get(6)?,
                        expired: row.get(7)?,
                        manual_review: row.get(8)?,
                        cancelled: row.get(9)?,
                        accepted: row.get(10)?,
                        pruned: row.get(11)?,
                        open_bytes: row.get(12)?,
                    };
                    let kind: Option<String> = row.get(13)?;
                    Ok((LaneId(row.get(0)?), row.get::<_, String>(1)?, row.get::<_, String>(2)?, kind, tally))
                };
                query.query_map([], read)?.collect::<rusqlite::Result<Vec<_>>>()
            })
            .map_err(|cause| self.failure.of(cause))?;
        rows.into_iter()
            .map(|(id, place, account, kind, tally)| {
                let account = if account.is_empty() { None } else { Some(super::circuit_id(&account, self.failure)?) };
                // A kind that a newer version knows is one that nobody here can tell apart.
                let kind = kind.and_then(|kind| kind.parse().ok());
                Ok(Lane { id, place: super::circuit_id(&place, self.failure)?, account, kind, tally })
            })
            .collect()
    }

    fn rows(&self, sql: &str, values: impl rusqlite::Params) -> Result<Vec<JobRow>, StoreError> {
        let rows = self
            .tx
            .prepare_cached(sql)
            .and_then(|mut query| query.query_map(values, raw)?.collect::<rusqlite::Result<Vec<_>>>())
            .map_err(|cause| self.failure.of(cause))?;
        rows.into_iter().map(|row| self.decode(row)).collect()
    }

    fn decode(&self, raw: RawJob) -> Result<JobRow, StoreError> {
        let names = self.with_lanes(|lanes| {
            lanes.iter().find(|lane| lane.id == raw.lane).map(|lane| (lane.place.clone(), lane.account.clone()))
        })?;
        let (place, account) = names.ok_or_else(|| StoreError::Corrupt {
            path: self.failure.path.to_owned(),
            cause: format!("job {} lies in lane {}, which is not there", raw.id, raw.lane.0),
        })?;
        let job = snapshot::decode_job(&raw.form, place, account)
            .map_err(|cause| StoreError::Job { id: raw.id.to_string(), cause })?;
        let RawJob { id, lane, bytes, entries, scope, order, caller, key, on_done, form: _ } = raw;
        Ok(JobRow { id, lane, job, bytes, entries, scope, order, caller, key, on_done })
    }
}

/// Returns the statement that reads jobs where `rest` says.
fn select_jobs(rest: &str) -> String {
    format!("SELECT {COLUMNS} FROM jobs {rest}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    /// S194: a page of jobs is found by an index and comes out of it in order, so that it costs what is on it.
    #[test]
    fn a_page_of_jobs_looks_at_no_other_job_and_sorts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h.db");
        drop(super::super::Sqlite::open(&path, None, &Clock::system(), std::time::Duration::from_secs(5)).unwrap());
        let conn = rusqlite::Connection::open(&path).unwrap();
        for (rest, found_by) in [
            (AFTER_ON_SHELF, "SEARCH jobs USING INDEX jobs_by_shelf (lane=? AND shelf=? AND rowid>?)"),
            (AFTER, "SEARCH jobs USING INTEGER PRIMARY KEY (rowid>?)"),
        ] {
            let mut query = conn.prepare(&format!("EXPLAIN QUERY PLAN {}", select_jobs(rest))).unwrap();
            let values = rusqlite::params_from_iter((0..query.parameter_count()).map(|_| 1));
            let plan: Vec<String> = query.query_map(values, |row| row.get(3)).unwrap().map(Result::unwrap).collect();
            assert_eq!(plan, [found_by], "{rest}");
        }
    }
}
