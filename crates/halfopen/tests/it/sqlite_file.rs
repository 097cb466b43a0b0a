//! The SQLite file: what it survives, and what it refuses.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use halfopen::clock::Clock;
use halfopen::store::{EventFilter, Location, Store, StoreError};
use rusqlite::Connection;

use crate::world::{NOON_MS, Place, circuit, event, id, mark};

#[test]
fn store_opened_twice_is_one_store() {
    let place = Place::new();
    let (one, two) = (place.open().unwrap(), place.open().unwrap());
    let before = two.version().unwrap();
    one.transact(|txn| txn.save(&id("a"), &circuit(1), None)).unwrap();
    assert_eq!(two.load(&[&id("a")]).unwrap()[0].as_ref().map(mark), Some(1));
    assert_ne!(two.version().unwrap(), before);
    drop((one, two));
    assert_eq!(place.open().unwrap().all().unwrap().len(), 1);
}

#[test]
fn all_files_of_a_store_are_its_owners_only() {
    let place = Place::new();
    let store = place.open().unwrap();
    store.transact(|txn| txn.save(&id("a"), &circuit(1), None)).unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let mode = fs::metadata(format!("{}{suffix}", place.file().display())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{suffix}");
    }
}

#[test]
fn file_from_the_future_is_refused_and_left_alone() {
    let place = Place::new();
    drop(place.open().unwrap());
    Connection::open(place.file()).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = place.open().unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { found: 99, .. }), "{error}");
    assert!(error.is_by_design());
    let version: i64 =
        Connection::open(place.file()).unwrap().query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 99);
}

/// S157.
#[test]
fn damaged_file_is_reported_and_left_as_it_is() {
    let place = Place::new();
    let garbage = b"this is no database, and long enough to be read as one.".repeat(100);
    fs::write(place.file(), &garbage).unwrap();
    let error = place.open().unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert!(!error.is_by_design());
    assert_eq!(fs::read(place.file()).unwrap(), garbage);
}

#[test]
fn database_of_another_program_is_not_taken_over() {
    let place = Place::new();
    Connection::open(place.file()).unwrap().execute_batch("CREATE TABLE mine (x)").unwrap();
    let error = place.open().unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("another program"), "{error}");
}

/// S157.
#[test]
fn file_that_was_removed_is_noticed_by_who_has_it_open() {
    let place = Place::new();
    let store = place.open().unwrap();
    fs::remove_file(place.file()).unwrap();
    let error = store.transact(|txn| txn.save(&id("a"), &circuit(1), None)).unwrap_err();
    assert!(matches!(error, StoreError::Gone { .. }), "{error}");
    assert!(!place.file().exists());
}

#[test]
fn file_in_an_odd_place_is_a_file() {
    let place = Place::new();
    let path = place.dir.path().join("file:memory?mode=memory&x=%2e ü.db");
    let store = Store::open(&Location::Sqlite(path.clone()), &Clock::system()).unwrap();
    store.transact(|txn| txn.save(&id("a"), &circuit(1), None)).unwrap();
    assert!(path.exists());
}

/// The write-ahead log stays short although no process writes it back when it leaves.
#[test]
fn log_is_written_back_by_writers() {
    let place = Place::new();
    let log = format!("{}-wal", place.file().display());
    let mut longest = 0;
    for n in 0..120 {
        let store = place.open().unwrap();
        store
            .transact(|txn| {
                txn.save(&id("a"), &circuit(n), None)?;
                txn.append(&event("a", NOON_MS, "open"))
            })
            .unwrap();
        store.tidy().unwrap();
        longest = longest.max(fs::metadata(&log).unwrap().len());
    }
    assert!(longest < 900_000, "{longest}");
    assert_eq!(place.open().unwrap().events(&EventFilter::default()).unwrap().len(), 120);
}

/// S029: a reboot keeps what is stored, and the steady clock goes on.
#[test]
fn reboot_lets_every_circuit_cut_its_deadlines_once() {
    let place = Place::new();
    place.open().unwrap().transact(|txn| txn.save(&id("a"), &circuit(1), None)).unwrap();
    place.machine.reboot("boot-2", Duration::from_secs(60));
    let clock = Clock::manual(&place.machine);
    let store = Store::open(&place.location(), &clock).unwrap();
    assert_eq!(clock.now().as_millis(), NOON_MS + 60_000);
    let after = store.load(&[&id("a")]).unwrap();
    // A second process of the new boot finds the anchor and changes nothing.
    place.machine.step_wall(86_400_000);
    let later = Clock::manual(&place.machine);
    let store = Store::open(&place.location(), &later).unwrap();
    assert_eq!(store.load(&[&id("a")]).unwrap(), after);
    assert_eq!(later.now().as_millis(), NOON_MS + 60_000);
}

/// A file written by an earlier version opens, and is brought up to date.
#[test]
fn golden_file_of_schema_1_opens() {
    let place = Place::new();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/schema-1.db");
    fs::copy(golden, place.file()).unwrap();
    let store = place.open().unwrap();
    let all = store.all().unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!((all[0].id.to_string(), mark(&all[0].circuit)), ("ocr".to_owned(), 1));
    assert_eq!((all[1].id.to_string(), mark(&all[1].circuit)), ("ocr@region=eu".to_owned(), 2));
    assert_eq!(store.events(&EventFilter::default()).unwrap().len(), 2);
}

/// Returns the log of a place's store, or what its processes share.
fn beside(place: &Place, ending: &str) -> std::path::PathBuf {
    format!("{}{ending}", place.file().display()).into()
}

/// S157: the log of a store that was removed is not written into a new one.
#[test]
fn no_store_is_made_beside_what_is_left_of_another() {
    let place = Place::new();
    place.open().unwrap().transact(|txn| txn.save(&id("a"), &circuit(1), None)).unwrap();
    fs::remove_file(place.file()).unwrap();
    let log = fs::read(beside(&place, "-wal")).unwrap();
    assert!(!log.is_empty(), "what was committed last stands in the log");
    let error = place.open().unwrap_err();
    assert!(matches!(error, StoreError::LeftOvers { .. }) && !error.is_by_design(), "{error}");
    for word in ["halfopen.db-wal", "halfopen.db-shm", "put the store back, or move that aside"] {
        assert!(error.to_string().contains(word), "{error}");
    }
    assert!(!place.file().exists());
    assert_eq!(fs::read(beside(&place, "-wal")).unwrap(), log);
    // What others share of a removed store would mislead whoever opens the new one.
    fs::remove_file(beside(&place, "-wal")).unwrap();
    assert!(place.open().unwrap_err().to_string().contains("but "), "{error}");
    fs::remove_file(beside(&place, "-shm")).unwrap();
    assert_eq!(place.open().unwrap().all().unwrap().len(), 0);
}

/// A process goes on in a log that has no name any more as happily as in such a file.
#[test]
fn log_that_was_removed_is_noticed_by_who_has_it_open() {
    let place = Place::new();
    let store = place.open().unwrap();
    fs::remove_file(beside(&place, "-wal")).unwrap();
    let error = store.transact(|txn| txn.save(&id("a"), &circuit(1), None)).unwrap_err();
    assert!(matches!(error, StoreError::Replaced { .. }), "{error}");
}

/// S157: whoever takes the right to write away means processes that have the file open, and the superuser, too.
#[test]
fn file_that_nobody_may_write_is_read_and_not_written() {
    let place = Place::new();
    let store = place.open().unwrap();
    store.transact(|txn| txn.save(&id("a"), &circuit(1), None)).unwrap();
    let mode = |mode: u32| fs::set_permissions(place.file(), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o400);
    for store in [&store, &place.open().unwrap()] {
        let error = store.transact(|txn| txn.save(&id("a"), &circuit(2), None)).unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
        assert!(error.to_string().contains("mode 0400") || error.to_string().contains("read-only"), "{error}");
        assert_eq!(store.load(&[&id("a")]).unwrap()[0].as_ref().map(mark), Some(1));
    }
    mode(0o600);
    store.transact(|txn| txn.save(&id("a"), &circuit(2), None)).unwrap();
}

/// A store behind a symbolic link has its log beside the file, not beside the link, and it is written back there.
#[test]
fn log_of_a_store_behind_a_link_is_found() {
    let place = Place::new();
    fs::create_dir(place.dir.path().join("disk")).unwrap();
    let real = place.dir.path().join("disk/real.db");
    drop(Store::open(&Location::Sqlite(real.clone()), &Clock::manual(&place.machine)).unwrap());
    std::os::unix::fs::symlink(&real, place.file()).unwrap();
    let mut longest = 0;
    for n in 0..120 {
        let store = place.open().unwrap();
        store
            .transact(|txn| {
                txn.save(&id("a"), &circuit(n), None)?;
                txn.append(&event("a", NOON_MS, "open"))
            })
            .unwrap();
        store.tidy().unwrap();
        longest = longest.max(fs::metadata(place.dir.path().join("disk/real.db-wal")).unwrap().len());
    }
    assert!(longest < 900_000, "{longest}");
    fs::remove_file(&real).unwrap();
    assert!(!place.open().unwrap_err().is_by_design());
    assert!(!real.exists(), "nothing is made where a link leads nowhere");
}
