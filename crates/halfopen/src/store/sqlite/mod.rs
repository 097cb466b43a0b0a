//! Keeps circuits and the journal in a SQLite file that any number of processes open at once.
//!
//! Why SQLite, and how it is used, is argued in `docs/design/store.md`; in short: every write is one `BEGIN IMMEDIATE`
//! transaction of a few pages; `synchronous=NORMAL`, so a commit waits for no disk; nobody checkpoints at exit, a
//! writer that finds the log long does it after its commit ([`Sqlite::tidy`]); no memory mapping of the file.
//!
//! One connection serves all threads of a process, behind a mutex: operations take microseconds, and a second
//! connection would only move the queue into the file. Who must not stand in that queue opens a store of its own. A
//! long-lived process that queues jobs has two more, in the threads of [`writer`].

mod alerts;
mod contend;
mod draft;
mod files;
mod jobs;
mod line;
mod schema;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use halfopen_core::circuit::Circuit;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::snapshot::{self, EventRecord};
use halfopen_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use super::{EventFilter, JournalEntry, Payloads, StoreError, Stored, Txn};
use crate::clock::{Boot, Clock};
use contend::contend;
pub(crate) use files::Files;
use line::{Failure, Line, Synchronous, connect};
use writer::{Change, Turn, Writer};

pub(super) use draft::Draft;

/// A writer that finds the log longer than this, in bytes, may write it back: 48 pages, about fifteen transactions. The
/// log is short because every first opening after a quiet time reads all of it again.
const LOG_BYTES_MAX: u64 = 48 * (4096 + 24);

/// One writer in so many does it, because in a storm of writers each write-back holds up all others; and every one
/// that finds the log so many times as long.
const WRITE_BACK_ONE_IN: u32 = 6;
const LOG_TIMES_MAX: u64 = 4;

/// The entries of one dependency in a span, newest first: what the index gives, in its order.
const TIMELINE: &str = "SELECT body FROM events WHERE dependency = ?1 AND at_ms >= ?2 AND (transition OR NOT ?3) \
                        ORDER BY at_ms DESC, seq DESC LIMIT ?4";

/// Forgets what was read, and reads a page or two of each table again.
const LOOK: &str = "PRAGMA shrink_memory; SELECT count(*) FROM sqlite_schema; SELECT * FROM boot; \
    SELECT id FROM circuits LIMIT 1; SELECT max(seq) FROM events; SELECT max(seq) FROM jobs; SELECT max(id) FROM lanes; \
    SELECT max(wake_at_ms) FROM jobs";

/// The store in a SQLite file.
#[derive(Debug)]
pub(super) struct Sqlite {
    path: PathBuf,
    files: Files,
    line: Mutex<Line>,
    patience_ms: AtomicU64,
    /// What this connection committed; SQLite's own number leaves that out.
    commits: AtomicU64,
    /// The file still holds the anchor of an earlier boot, because it cannot be written.
    stale_boot: AtomicBool,
    turn: Arc<Turn>,
    writer: OnceLock<Writer>,
}

impl Sqlite {
    /// Opens the store at `path`; makes one if there is none, and there was none `before`.
    pub(super) fn open(
        path: &Path,
        before: Option<&Files>,
        clock: &Clock,
        patience: Duration,
    ) -> Result<Self, StoreError> {
        if let Some(before) = before {
            before.refuse_stranger()?;
        }
        let path = files::prepare(path, schema::make)?;
        let failure = Failure { path: &path, patience };
        let files =
            Files::at(&path).map_err(|cause| StoreError::Unusable { path: path.clone(), cause: cause.to_string() })?;
        let conn = connect(&path).map_err(|cause| failure.of(cause))?;
        schema::ensure(&conn, failure)?;
        let mut sqlite = Self {
            files,
            line: Mutex::new(Line::new(conn)),
            patience_ms: AtomicU64::new(millis(patience)),
            commits: AtomicU64::new(0),
            stale_boot: AtomicBool::new(false),
            turn: Arc::default(),
            writer: OnceLock::new(),
            path,
        };
        sqlite.files.note_log();
        sqlite.adopt_boot(clock)?;
        Ok(sqlite)
    }

    /// Returns which files it consists of.
    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    /// Lets the clock adopt the anchor of this boot, and writes one if the file was last used in another.
    fn adopt_boot(&self, clock: &Clock) -> Result<(), StoreError> {
        let boot = clock.boot();
        let kept = self.read(|conn| kept_anchor(conn, &boot))?;
        if let Some(anchor_ms) = kept {
            clock.adopt(anchor_ms);
            return Ok(());
        }
        let written = self.transact(clock, |txn| match &mut txn.draft {
            super::Draft::Sqlite(draft) => draft.begin_boot(&boot, clock),
            super::Draft::Memory(_) => Ok(()),
        });
        match written {
            Ok(()) => Ok(()),
            // A file that can be read must open: its deadlines count. They are cut in each reading instead.
            Err(
                StoreError::ReadOnly { .. }
                | StoreError::Full { .. }
                | StoreError::Busy { .. }
                | StoreError::Unusable { .. },
            ) => {
                clock.adopt(boot.anchor_ms);
                self.stale_boot.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn load(&self, ids: &[&CircuitId], now: Timestamp) -> Result<Vec<Option<Circuit>>, StoreError> {
        let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let forms = self.read(|conn| {
            // One statement sees one state; more than four names are not asked for on any path that matters.
            let mut forms = vec![None; names.len()];
            for (names, forms) in names.chunks(4).zip(forms.chunks_mut(4)) {
                let name = |n: usize| names.get(n);
                let mut query = conn.prepare_cached("SELECT id, form FROM circuits WHERE id IN (?1, ?2, ?3, ?4)")?;
                let mut rows = query.query(params![name(0), name(1), name(2), name(3)])?;
                while let Some(row) = rows.next()? {
                    let (id, form): (String, String) = (row.get(0)?, row.get(1)?);
                    for (name, slot) in names.iter().zip(forms.iter_mut()) {
                        if *name == id {
                            *slot = Some(form.clone());
                        }
                    }
                }
            }
            Ok(forms)
        })?;
        names.iter().zip(forms).map(|(id, form)| form.map(|form| self.decode(id, &form, now)).transpose()).collect()
    }

    pub(super) fn all(&self, now: Timestamp) -> Result<Vec<Stored>, StoreError> {
        let rows = self.read(|conn| {
            let mut query = conn.prepare_cached("SELECT id, form, updated_at_ms FROM circuits ORDER BY id")?;
            query.query_map([], raw_row)?.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        rows.into_iter()
            .map(|(id, form, updated_at_ms)| {
                let circuit = self.decode(&id, &form, now)?;
                stored(&id, circuit, updated_at_ms, self.failure())
            })
            .collect()
    }

    pub(super) fn due(&self, now: Timestamp, max: usize) -> Result<Vec<CircuitId>, StoreError> {
        let names = self.read(|conn| {
            let mut query =
                conn.prepare_cached("SELECT id FROM circuits WHERE wake_at_ms <= ?1 ORDER BY id LIMIT ?2")?;
            let max = i64::try_from(max).unwrap_or(i64::MAX);
            let rows = query.query_map(params![now.as_millis(), max], |row| row.get::<_, String>(0))?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        names.iter().map(|name| circuit_id(name, self.failure())).collect()
    }

    pub(super) fn events(&self, filter: &EventFilter) -> Result<Vec<EventRecord>, StoreError> {
        let limit = limit(filter);
        let bodies = self.read(|conn| {
            let mut query = conn.prepare_cached(
                "SELECT body FROM events \
                 WHERE (?1 IS NULL OR dependency = ?1) AND (?2 IS NULL OR at_ms >= ?2) AND (transition OR NOT ?3) \
                 ORDER BY seq DESC LIMIT ?4",
            )?;
            let rows = query
                .query_map(params![filter.dependency, filter.since_ms, filter.transitions_only, limit], |row| {
                    row.get::<_, String>(0)
                })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        bodies.iter().rev().map(|body| self.event(body)).collect()
    }

    pub(super) fn timeline(
        &self,
        dependency: &str,
        since: Timestamp,
        transitions_only: bool,
        max: usize,
    ) -> Result<Vec<EventRecord>, StoreError> {
        let bodies = self.read(|conn| {
            let mut query = conn.prepare_cached(TIMELINE)?;
            let max = i64::try_from(max).unwrap_or(i64::MAX);
            let rows = query.query_map(params![dependency, since.as_millis(), transitions_only, max], |row| {
                row.get::<_, String>(0)
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        bodies.iter().rev().map(|body| self.event(body)).collect()
    }

    pub(super) fn events_after(&self, position: i64, filter: &EventFilter) -> Result<Vec<JournalEntry>, StoreError> {
        let limit = limit(filter);
        let rows = self.read(|conn| {
            let mut query = conn.prepare_cached(
                "SELECT seq, body FROM events WHERE seq > ?5 \
                 AND (?1 IS NULL OR dependency = ?1) AND (?2 IS NULL OR at_ms >= ?2) AND (transition OR NOT ?3) \
                 ORDER BY seq LIMIT ?4",
            )?;
            let values = params![filter.dependency, filter.since_ms, filter.transitions_only, limit, position];
            let rows = query.query_map(values, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        rows.iter().map(|(position, body)| Ok(JournalEntry { position: *position, event: self.event(body)? })).collect()
    }

    pub(super) fn journal_end(&self) -> Result<i64, StoreError> {
        self.read(|conn| conn.prepare_cached("SELECT ifnull(max(seq), 0) FROM events")?.query_row([], |row| row.get(0)))
    }

    pub(super) fn transact<T>(
        &self,
        clock: &Clock,
        decide: impl FnOnce(&mut Txn<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.transact_with(Synchronous::Normal, clock, decide)
    }

    /// As [`Self::transact`]; returns when what was committed is on the disk.
    pub(super) fn transact_durably<T: Send + 'static>(
        &self,
        clock: &Clock,
        decide: impl FnMut(&mut Txn<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if self.writer.get().is_none() {
            return self.transact_with(Synchronous::Full, clock, decide);
        }
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        // Whoever waits is there until it is told.
        self.submit(clock, decide, move |outcome| drop(tell.send(outcome)));
        told.recv().unwrap_or_else(|_| Err(StoreError::Lost("the writing thread is gone".to_owned())))
    }

    pub(super) fn submit<T: Send + 'static>(
        &self,
        clock: &Clock,
        decide: impl FnMut(&mut Txn<'_>) -> Result<T, StoreError> + Send + 'static,
        then: impl FnOnce(Result<T, StoreError>) + Send + 'static,
    ) {
        let Some(writer) = self.writer.get() else {
            return then(self.transact_with(Synchronous::Full, clock, decide));
        };
        if let Err(error) = self.files.still_writable() {
            return then(Err(error));
        }
        writer.submit(Box::new(Pending { decide, value: None, then }), self.failure());
    }

    pub(super) fn commit_in_groups(&self, clock: &Clock) -> Result<(), StoreError> {
        if self.writer.get().is_some() {
            return Ok(());
        }
        let failure = self.failure();
        self.line().refuse_read_only(failure)?;
        let connected = || connect(&self.path).map(Line::new).map_err(|cause| failure.of(cause));
        let (mut line, log) = (connected()?, connected()?);
        line.synchronous = Synchronous::Full;
        let started = Writer::start(&self.files, &self.path, line, log, failure.patience, clock, &self.turn);
        let writer =
            started.map_err(|cause| StoreError::Unusable { path: self.path.clone(), cause: cause.to_string() })?;
        // Of two that start at once one is dropped, and with it its threads.
        let _ = self.writer.set(writer);
        Ok(())
    }

    pub(super) fn look<T>(
        &self,
        clock: &Clock,
        questions: impl FnOnce(&Txn<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.files.still_there()?;
        let failure = self.failure();
        let line = self.line();
        let tx = contend(failure.patience, || Transaction::new_unchecked(&line.conn, TransactionBehavior::Deferred))
            .map_err(|cause| failure.of(cause))?;
        questions(&Txn { now: clock.now(), draft: super::Draft::Sqlite(Draft::new(&tx, failure)) })
    }

    pub(super) fn has_due_jobs(&self, now: Timestamp) -> Result<bool, StoreError> {
        self.read(|conn| {
            conn.prepare_cached("SELECT 1 FROM jobs WHERE wake_at_ms <= ?1 LIMIT 1")?.exists([now.as_millis()])
        })
    }

    pub(super) fn payloads(&self) -> Payloads {
        Payloads::beside(&self.path)
    }

    fn transact_with<T>(
        &self,
        synchronous: Synchronous,
        clock: &Clock,
        decide: impl FnOnce(&mut Txn<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.files.still_writable()?;
        let failure = self.failure();
        let mut line = self.line();
        // SQLite begins a reading transaction where a writing one is impossible, and commits it without a word.
        line.refuse_read_only(failure)?;
        line.prepare_to_write(synchronous, failure)?;
        let _turn = self.writer.get().and_then(|_| self.turn.urgent(failure.patience));
        // Dropping the transaction on any way out but the last rolls back, and leaves the first error to be told.
        let tx = contend(failure.patience, || Transaction::new_unchecked(&line.conn, TransactionBehavior::Immediate))
            .map_err(|cause| failure.of(cause))?;
        let mut txn = Txn { now: clock.now(), draft: super::Draft::Sqlite(Draft::new(&tx, failure)) };
        let value = decide(&mut txn)?;
        txn.finish()?;
        drop(txn);
        let committed = tx.commit().map_err(|cause| failure.of(cause));
        // Also where it failed: who reads too often loses nothing.
        self.commits.fetch_add(1, Ordering::Release);
        committed.map(|()| value)
    }

    /// Writes the log back if it is long. `TRUNCATE` without a busy handler blocks nobody: if a writer or a reader is
    /// in the way it does what it can and leaves the rest to the next.
    pub(super) fn tidy(&self) -> Result<(), StoreError> {
        // A thread of its own does it.
        if self.writer.get().is_some() {
            return Ok(());
        }
        let length = std::fs::metadata(self.files.log_path()).map_or(0, |log| log.len());
        let is_due = length > LOG_BYTES_MAX * LOG_TIMES_MAX
            || (length > LOG_BYTES_MAX && fastrand::u32(0..WRITE_BACK_ONE_IN) == 0);
        if !is_due {
            return Ok(());
        }
        self.files.still_there()?;
        let line = self.line();
        line.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(|cause| self.failure().of(cause))
    }

    pub(super) fn version(&self) -> Result<i64, StoreError> {
        self.read(|conn| conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0)))
    }

    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Acquire)
    }

    pub(super) fn read_only(&self) -> Option<StoreError> {
        let refused = self.line().refuse_read_only(self.failure()).err();
        refused.or_else(|| self.files.still_writable().err())
    }

    /// Reads the beginning of the file and of every table that decides, from the file and not from what was read
    /// before: damage beneath an open store is otherwise found when it is too late.
    pub(super) fn look_at_file(&self) -> Result<(), StoreError> {
        self.files.still_there()?;
        let failure = self.failure();
        let line = self.line();
        // Pages that are in the log are whole there, whatever stands in the file.
        contend(failure.patience, || line.conn.execute_batch(LOOK)).map_err(|cause| failure.of(cause))
    }

    /// Returns what is wrong with the file by SQLite's own rules, up to `max` findings; reads all of it.
    pub(super) fn integrity(&self, max: u32) -> Result<Vec<String>, StoreError> {
        self.read(|conn| {
            let mut query = conn.prepare(&format!("PRAGMA integrity_check({max})"))?;
            let found = query.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
            Ok(found.into_iter().filter(|finding| finding != "ok").collect())
        })
    }

    pub(super) fn set_patience(&self, patience: Duration) {
        self.patience_ms.store(millis(patience), Ordering::Relaxed);
    }

    fn read<T>(&self, query: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.files.still_there()?;
        let failure = self.failure();
        let line = self.line();
        contend(failure.patience, || query(&line.conn)).map_err(|cause| failure.of(cause))
    }

    fn decode(&self, id: &str, form: &str, now: Timestamp) -> Result<Circuit, StoreError> {
        let mut circuit = decode(id, form)?;
        if self.stale_boot.load(Ordering::Relaxed) {
            circuit.after_reboot(now);
        }
        Ok(circuit)
    }

    fn event(&self, body: &str) -> Result<EventRecord, StoreError> {
        serde_json::from_str(body).map_err(|cause| StoreError::Corrupt {
            path: self.path.clone(),
            cause: format!("a journal entry cannot be read: {cause}"),
        })
    }

    fn failure(&self) -> Failure<'_> {
        Failure { path: &self.path, patience: Duration::from_millis(self.patience_ms.load(Ordering::Relaxed)) }
    }

    /// A thread that panicked inside a transaction rolled it back while it unwound.
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A durable change that somebody waits for.
struct Pending<T, D, F> {
    decide: D,
    value: Option<T>,
    then: F,
}

impl<T, D, F> Change for Pending<T, D, F>
where
    T: Send,
    D: FnMut(&mut Txn<'_>) -> Result<T, StoreError> + Send,
    F: FnOnce(Result<T, StoreError>) + Send,
{
    fn make(&mut self, txn: &mut Txn<'_>) -> Result<(), StoreError> {
        self.value = Some((self.decide)(txn)?);
        Ok(())
    }

    fn done(self: Box<Self>, outcome: Result<(), StoreError>) {
        let nothing = || StoreError::Lost("the change was not made".to_owned());
        let Self { value, then, .. } = *self;
        then(outcome.and_then(|()| value.ok_or_else(nothing)));
    }
}

/// Returns the anchor that the file keeps, if it belongs to this boot.
fn kept_anchor(conn: &Connection, boot: &Boot) -> rusqlite::Result<Option<i64>> {
    let kept: Option<(String, i64)> =
        conn.query_row("SELECT boot_id, anchor_ms FROM boot", [], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    Ok(kept.and_then(|(id, anchor_ms)| boot.is(&id, anchor_ms).then_some(anchor_ms)))
}

fn raw_row(row: &Row<'_>) -> rusqlite::Result<(String, String, i64)> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

fn stored(id: &str, circuit: Circuit, updated_at_ms: i64, failure: Failure<'_>) -> Result<Stored, StoreError> {
    let id = circuit_id(id, failure)?;
    Ok(Stored { id, circuit, updated_at: Timestamp::from_millis(updated_at_ms) })
}

fn circuit_id(name: &str, failure: Failure<'_>) -> Result<CircuitId, StoreError> {
    name.parse().map_err(|cause| StoreError::Corrupt {
        path: failure.path.to_owned(),
        cause: format!("a circuit's name cannot be read: {cause}"),
    })
}

fn decode(id: &str, form: &str) -> Result<Circuit, StoreError> {
    snapshot::decode(form).map_err(|cause| StoreError::Circuit { id: id.to_owned(), cause })
}

fn limit(filter: &EventFilter) -> i64 {
    if filter.limit == 0 { i64::MAX } else { i64::try_from(filter.limit).unwrap_or(i64::MAX) }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_is_reported_as_such_and_nothing_is_half_done() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::system();
        let sqlite = Sqlite::open(&dir.path().join("h.db"), None, &clock, Duration::from_secs(5)).unwrap();
        let pages: i64 = sqlite.line().conn.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        sqlite.line().conn.pragma_update(None, "max_page_count", pages).unwrap();
        let mut saved = 0;
        let error = loop {
            let id = format!("dependency-{saved}").parse().unwrap();
            match sqlite.transact(&clock, |txn| txn.save(&id, &Circuit::new(), None)) {
                Ok(()) => saved += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, StoreError::Full { .. }), "{error}");
        assert!(error.to_string().contains("the disk is full"), "{error}");
        assert_eq!(sqlite.all(clock.now()).unwrap().len(), saved);
    }

    #[test]
    fn journal_keeps_no_more_than_its_bound() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::system();
        let sqlite = Sqlite::open(&dir.path().join("h.db"), None, &clock, Duration::from_secs(5)).unwrap();
        let insert = |seq: u32| {
            let line = sqlite.line();
            let sql = "INSERT INTO events (seq, at_ms, dependency, transition, body) VALUES (?1, ?2, 'a', 0, '')";
            line.conn.execute(sql, params![seq, i64::MAX]).unwrap();
        };
        let kept = || -> Vec<u32> {
            let line = sqlite.line();
            let mut query = line.conn.prepare("SELECT seq FROM events ORDER BY seq").unwrap();
            query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let prune = || sqlite.transact(&clock, |txn| txn.prune("a", txn.now())).unwrap();
        for seq in [1, 2, 3, crate::store::JOURNAL_ROWS_MAX] {
            insert(seq);
        }
        prune();
        assert_eq!(kept(), [1, 2, 3, crate::store::JOURNAL_ROWS_MAX]);
        insert(crate::store::JOURNAL_ROWS_MAX + 2);
        prune();
        assert_eq!(kept(), [3, crate::store::JOURNAL_ROWS_MAX, crate::store::JOURNAL_ROWS_MAX + 2]);
    }

    #[test]
    fn reader_that_never_writes_sets_nothing_up_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::system();
        drop(Sqlite::open(&dir.path().join("h.db"), None, &clock, Duration::from_secs(5)).unwrap());
        let sqlite = Sqlite::open(&dir.path().join("h.db"), None, &clock, Duration::from_secs(5)).unwrap();
        sqlite.all(clock.now()).unwrap();
        assert!(!sqlite.line().can_write);
    }

    /// S194: what the dashboard asks of the journal is found by the index, and comes out of it in order.
    #[test]
    fn a_timeline_looks_at_one_dependency_and_sorts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let sqlite = Sqlite::open(&dir.path().join("h.db"), None, &Clock::system(), Duration::from_secs(5)).unwrap();
        let plan = sqlite.read(|conn| {
            let mut query = conn.prepare(&format!("EXPLAIN QUERY PLAN {TIMELINE}"))?;
            let steps = query.query_map(params!["a", 0, false, 10], |row| row.get::<_, String>(3))?;
            steps.collect::<rusqlite::Result<Vec<_>>>()
        });
        assert_eq!(plan.unwrap(), ["SEARCH events USING INDEX events_by_dependency (dependency=? AND at_ms>?)"]);
    }
}
