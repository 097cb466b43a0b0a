//! A connection to the file, told how to write when it first does, and what its errors mean for the store.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Error, ErrorCode, OpenFlags};

use super::contend::contend;
use crate::store::StoreError;

/// A connection, and what it was told.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) conn: Connection,
    /// Whether the connection was told how to write. Who only reads saves the time.
    pub(super) can_write: bool,
    pub(super) synchronous: Synchronous,
}

/// What a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Synchronous {
    /// Nothing: a power cut may lose the newest commits.
    Normal,
    /// The disk.
    Full,
}

impl Line {
    pub(super) fn new(conn: Connection) -> Self {
        Self { conn, can_write: false, synchronous: Synchronous::Normal }
    }

    pub(super) fn refuse_read_only(&self, failure: Failure<'_>) -> Result<(), StoreError> {
        match self.conn.is_readonly("main") {
            Ok(false) => Ok(()),
            Ok(true) => {
                let cause = "the file or its file system is read-only for this user".to_owned();
                Err(StoreError::ReadOnly { path: failure.path.to_owned(), cause })
            }
            Err(cause) => Err(failure.of(cause)),
        }
    }

    pub(super) fn prepare_to_write(
        &mut self,
        synchronous: Synchronous,
        failure: Failure<'_>,
    ) -> Result<(), StoreError> {
        if self.can_write && self.synchronous == synchronous {
            return Ok(());
        }
        let sql = match synchronous {
            Synchronous::Normal => "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0",
            Synchronous::Full => "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0",
        };
        contend(failure.patience, || self.conn.execute_batch(sql)).map_err(|cause| failure.of(cause))?;
        self.can_write = true;
        self.synchronous = synchronous;
        Ok(())
    }
}

/// Opens the file as it is. A file that cannot be written opens for reading.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(Duration::ZERO)?;
    // The last process to leave would otherwise write the log back and wait for the disk.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(conn)
}

/// Turns SQLite's errors into ours; knows the file they are about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure<'a> {
    pub(super) path: &'a Path,
    pub(super) patience: Duration,
}

impl Failure<'_> {
    /// Returns what an error of SQLite means for the store.
    pub(super) fn of(self, cause: Error) -> StoreError {
        let path = self.path.to_owned();
        let code = cause.sqlite_error_code();
        let cause = cause.to_string();
        match code {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
                StoreError::Busy { path, waited: self.patience }
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt { path, cause },
            Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { path, cause },
            Some(ErrorCode::DiskFull) => StoreError::Full { path, cause },
            _ => StoreError::Unusable { path, cause },
        }
    }
}
