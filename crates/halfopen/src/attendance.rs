//! Knows when a worker that runs commands was last there: whoever queues one can say that nobody would do it.
//!
//! The mark is the age of an empty file beside the store (`halfopen.db.worker`). It is asked for by processes that are
//! about to end and set by those that stay or come by regularly, at most once a minute, so it must cost neither of them a
//! transaction; a row in the store was refused for that. It is a courtesy and nothing is decided by it: a mark that
//! cannot be read or written is none.
//!
//! A store in memory has no beside. Its jobs end with its process, which knows whether it has a worker.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::store::Location;

/// How long nobody may have been there before a person should hear of it.
pub const MISSED_AFTER: Duration = Duration::from_secs(15 * 60);

/// A younger mark is not set again.
const MARK_EVERY: Duration = Duration::from_secs(60);

/// Notes that a worker is there. Costs one look at a file where that was noted less than a minute ago.
pub fn mark(store: &Location) {
    let Some(path) = file_of(store) else { return };
    if age_of(store).is_some_and(|age| age < MARK_EVERY) {
        return;
    }
    // What cannot be noted is not missed: see the header.
    if let Ok(file) = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
}

/// Returns whether no worker was there for [`MISSED_AFTER`], as far as can be told.
#[must_use]
pub fn is_missed(store: &Location) -> bool {
    file_of(store).is_some() && age_of(store).is_none_or(|age| age >= MISSED_AFTER)
}

/// Returns how long ago a worker was there; a mark from the future is of now.
#[must_use]
pub fn age_of(store: &Location) -> Option<Duration> {
    let marked = fs::metadata(file_of(store)?).ok()?.modified().ok()?;
    Some(SystemTime::now().duration_since(marked).unwrap_or(Duration::ZERO))
}

fn file_of(store: &Location) -> Option<PathBuf> {
    let path = store.path()?;
    let mut name = path.file_name()?.to_owned();
    name.push(".worker");
    Some(path.with_file_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_missed_until_it_was_there_and_again_a_quarter_of_an_hour_later() {
        let folder = tempfile::tempdir().unwrap();
        let store = Location::Sqlite(folder.path().join("store.db"));
        assert!(is_missed(&store));
        mark(&store);
        assert!(!is_missed(&store));
        let path = file_of(&store).unwrap();
        assert_eq!(path.file_name().unwrap(), "store.db.worker");
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - MISSED_AFTER).unwrap();
        assert!(is_missed(&store));
        mark(&store);
        assert!(!is_missed(&store));
    }

    #[test]
    fn a_store_in_memory_misses_nobody() {
        mark(&Location::Memory);
        assert!(!is_missed(&Location::Memory));
    }
}
