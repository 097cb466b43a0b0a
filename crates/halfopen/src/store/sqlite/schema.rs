//! Brings a SQLite file to the schema of this version, and keeps away from files that are not ours or too new.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior};

use super::contend::contend;
use super::{Failure, StoreError};

/// The steps from one schema to the next; step `n` leads to `PRAGMA user_version = n`, counted from 1.
const MIGRATIONS: [&str; 5] = [
    include_str!("../migrations/0001_circuits_and_events.sql"),
    include_str!("../migrations/0002_jobs.sql"),
    include_str!("../migrations/0003_alerts.sql"),
    include_str!("../migrations/0004_job_kinds.sql"),
    include_str!("../migrations/0005_on_done.sql"),
];

/// The schema of this version.
const SCHEMA: i64 = MIGRATIONS.len() as i64;

/// Marks a file as ours, for file(1) and for people: the letters `half`.
const APPLICATION_ID: i64 = 0x6861_6C66;

/// Checks the schema of an open file and brings it up to date if it is older. A file that is up to date costs one
/// look at its header.
pub(super) fn ensure(conn: &Connection, failure: Failure<'_>) -> Result<(), StoreError> {
    let found = contend(failure.patience, || version(conn)).map_err(|cause| failure.of(cause))?;
    if found == SCHEMA {
        return Ok(());
    }
    refuse_newer(found, failure)?;
    migrate(conn, failure)
}

/// Makes a new store in the empty file at `path`, whole, with nothing beside it.
pub(super) fn make(path: &Path) -> Result<(), StoreError> {
    let failure = Failure { path, patience: Duration::ZERO };
    let conn =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(|cause| failure.of(cause))?;
    migrate(&conn, failure)?;
    // The last connection to close writes the log back and removes it.
    conn.close().map_err(|(_, cause)| failure.of(cause))
}

fn version(conn: &Connection) -> rusqlite::Result<i64> {
    conn.query_row("PRAGMA user_version", [], |row| row.get(0))
}

fn refuse_newer(found: i64, failure: Failure<'_>) -> Result<(), StoreError> {
    if found > SCHEMA {
        return Err(StoreError::NewerSchema { path: failure.path.to_owned(), found, known: SCHEMA });
    }
    Ok(())
}

fn migrate(conn: &Connection, failure: Failure<'_>) -> Result<(), StoreError> {
    // The mode is kept in the file, so it is set once, here; it cannot be set inside a transaction.
    let mode: String = contend(failure.patience, || conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)))
        .map_err(|cause| failure.of(cause))?;
    if mode != "wal" {
        let cause = format!("its file system has no shared memory for a write-ahead log (journal mode {mode})");
        return Err(StoreError::Unusable { path: failure.path.to_owned(), cause });
    }
    // A schema is worth a flush: what follows builds on it.
    let tx = contend(failure.patience, || Transaction::new_unchecked(conn, TransactionBehavior::Immediate))
        .map_err(|cause| failure.of(cause))?;
    // Another process may have been first, also with a newer version.
    let found = version(&tx).map_err(|cause| failure.of(cause))?;
    refuse_newer(found, failure)?;
    if found == 0 && !is_empty(&tx).map_err(|cause| failure.of(cause))? {
        let cause = "it is the database of another program".to_owned();
        return Err(StoreError::Corrupt { path: failure.path.to_owned(), cause });
    }
    let steps = MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(usize::MAX));
    apply(&tx, steps.copied()).and_then(|()| tx.commit()).map_err(|cause| failure.of(cause))
}

fn is_empty(conn: &Connection) -> rusqlite::Result<bool> {
    Ok(conn.query_row("SELECT 1 FROM sqlite_schema LIMIT 1", [], |_| Ok(())).optional()?.is_none())
}

fn apply<'a>(conn: &Connection, steps: impl Iterator<Item = &'a str>) -> rusqlite::Result<()> {
    for step in steps {
        conn.execute_batch(step)?;
    }
    conn.pragma_update(None, "application_id", APPLICATION_ID)?;
    conn.pragma_update(None, "user_version", SCHEMA)
}
