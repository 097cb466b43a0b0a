//! The store is lost, and comes back.

use std::fs;
use std::time::{Duration, Instant};

use halfopen::clock::Clock;
use halfopen::handle::{Handle, StoreHealth};
use halfopen::store::Location;
use halfopen_core::event::State;
use halfopen_core::pair::Answer;
use halfopen_core::permit::{Ask, PermitKind, RefusalReason};
use rusqlite::Connection;

use crate::world::{
    Place, door, fail_once, failure, granted, policy, refused, route, state, status, success, trip, wait_failure,
};

const SECOND: Duration = Duration::from_secs(1);

fn fail(door: &Handle) {
    let pass = granted(door.admit(&route("ocr"), &policy(), Ask::Fresh));
    door.settle(&route("ocr"), &policy(), pass, &failure());
}

fn lost_reason(door: &Handle) -> String {
    match door.health() {
        StoreHealth::Lost(why) => why,
        other => panic!("{other:?}"),
    }
}

/// S039: at most N failing calls reach the dependency, the health says why, and each call is quick.
#[test]
fn unreadable_store_is_stood_in_for_by_a_breaker_in_memory() {
    let place = Place::new();
    fs::write(place.file(), "no database at all, though long enough".repeat(100)).unwrap();
    let door = door(&place);
    assert!(lost_reason(&door).contains("damaged"));
    let began = Instant::now();
    let mut reached = 0;
    for _ in 0..20 {
        if let Answer::Granted(pass) = door.admit(&route("ocr"), &policy(), Ask::Fresh) {
            reached += 1;
            door.settle(&route("ocr"), &policy(), pass, &failure());
        }
    }
    assert_eq!(reached, 5);
    assert!(began.elapsed() < 20 * Duration::from_millis(250));
    assert_eq!(door.circuits(&|_| policy()).unwrap()[0].status.state, State::Open);
    // S157: nothing was recreated in its place.
    assert!(fs::read_to_string(place.file()).unwrap().starts_with("no database"));
}

/// S039: what was learned without the store is settled with its times when it is back; the state is not taken over.
#[test]
fn failures_are_handed_over_when_the_store_is_back() {
    let place = Place::new();
    fail_once(&place, &policy());
    let aside = place.dir.path().join("aside.db");
    let door = door(&place);
    fs::rename(place.file(), &aside).unwrap();
    fs::create_dir(place.file()).unwrap();
    for _ in 0..3 {
        fail(&door);
    }
    assert!(matches!(door.health(), StoreHealth::Lost(_)));
    fs::remove_dir(place.file()).unwrap();
    fs::rename(&aside, place.file()).unwrap();
    let pass = granted(door.admit(&route("ocr"), &policy(), Ask::Fresh));
    assert_eq!(door.health(), StoreHealth::Good);
    assert_eq!(status(&place, &policy()).failures_in_window, 4);
    // An attempt that is still out counts as a failure of the shared breaker, too.
    door.settle(&route("ocr"), &policy(), pass, &failure());
    assert_eq!(state(&place, &policy()), State::Open);
}

/// S157: a file that is removed or damaged while a process runs is noticed by who only looks, and so is its return.
#[test]
fn health_follows_the_file_also_in_an_idle_process() {
    let place = Place::new();
    let door = door(&place);
    assert_eq!(door.check(), StoreHealth::Good);
    let aside = place.dir.path().join("aside.db");
    fs::rename(place.file(), &aside).unwrap();
    fs::write(place.file(), "no database at all, though long enough".repeat(100)).unwrap();
    assert!(matches!(door.check(), StoreHealth::Lost(_)));
    assert!(matches!(door.check(), StoreHealth::Lost(why) if why.contains("damaged")));
    assert!(fs::read_to_string(place.file()).unwrap().starts_with("no database"));
    fs::rename(&aside, place.file()).unwrap();
    assert_eq!(door.check(), StoreHealth::Good);
}

/// S157: a store that can be read and not written is found by who only looks, before a call is.
#[cfg(feature = "sqlite")]
#[test]
fn health_is_not_good_while_nothing_can_be_written() {
    let place = Place::new();
    let door = door(&place);
    let conn = rusqlite::Connection::open(place.file()).unwrap();
    conn.execute_batch("CREATE TRIGGER no BEFORE UPDATE ON boot BEGIN SELECT raise(ABORT, 'no room'); END").unwrap();
    assert!(matches!(door.check(), StoreHealth::ReadOnly(why) if why.contains("no room")));
    conn.execute_batch("DROP TRIGGER no").unwrap();
    assert_eq!(door.check(), StoreHealth::Good);
}

#[test]
fn attempt_admitted_without_the_store_is_settled_in_it() {
    let place = Place::new();
    let aside = place.dir.path().join("aside.db");
    let door = door(&place);
    fs::rename(place.file(), &aside).unwrap();
    fs::create_dir(place.file()).unwrap();
    let pass = granted(door.admit(&route("ocr"), &policy(), Ask::Fresh));
    fs::remove_dir(place.file()).unwrap();
    fs::rename(&aside, place.file()).unwrap();
    let events = door.settle(&route("ocr"), &policy(), pass, &wait_failure(&door, 20 * SECOND));
    assert!(events.iter().any(|event| event.event == "throttled"), "{events:?}");
    assert!(status(&place, &policy()).throttled_until.is_some());
}

/// A store that can be read but not written: stored deadlines are honoured, and past them the process probes for
/// itself, one call at a time.
#[test]
fn unwritable_store_still_refuses_and_past_the_deadline_one_probes() {
    let place = Place::new();
    trip(&place, &policy());
    // Nobody can write while another program holds the file for itself; the door gives up quickly once it knows.
    let blocker = Connection::open(place.file()).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let door = door(&place);
    let refusal = refused(door.admit(&route("ocr"), &policy(), Ask::Fresh));
    assert_eq!(refusal.reason, RefusalReason::Open);
    assert_eq!(door.health(), StoreHealth::Good);
    place.machine.advance(140 * SECOND);
    // The first waits its patience out.
    let pass = granted(door.admit(&route("ocr"), &policy(), Ask::Fresh));
    assert_eq!(pass.place.kind, PermitKind::Probe);
    assert!(matches!(door.health(), StoreHealth::ReadOnly(why) if why.contains("busy")));
    let began = Instant::now();
    assert_eq!(refused(door.admit(&route("ocr"), &policy(), Ask::Fresh)).reason, RefusalReason::ProbesOut);
    assert!(began.elapsed() < Duration::from_millis(250), "{:?}", began.elapsed());
    door.settle(&route("ocr"), &policy(), pass, &success());
    let _flows = granted(door.admit(&route("ocr"), &policy(), Ask::Fresh));
    // The shared breaker learned nothing of it.
    assert_eq!(state(&place, &policy()), State::HalfOpen);
    blocker.execute_batch("ROLLBACK").unwrap();
}

/// A store that others write to is waited for, and is not lost.
#[test]
fn busy_store_is_waited_for() {
    let place = Place::new();
    let door = door(&place);
    let blocker = Connection::open(place.file()).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| fail(&door));
        std::thread::sleep(Duration::from_millis(50));
        blocker.execute_batch("ROLLBACK").unwrap();
    });
    assert_eq!(door.health(), StoreHealth::Good);
    assert_eq!(status(&place, &policy()).failures_in_window, 1);
}

#[test]
fn location_that_cannot_be_is_an_error_and_not_a_lost_store() {
    let place = Place::new();
    drop(door(&place));
    Connection::open(place.file()).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = Handle::open_with(&place.location(), Clock::manual(&place.machine)).unwrap_err();
    assert!(error.to_string().contains("schema 99"), "{error}");
}

#[test]
fn folder_that_cannot_be_made_leaves_a_door_in_memory() {
    let place = Place::new();
    fs::write(place.dir.path().join("file"), "").unwrap();
    let location = Location::Sqlite(place.dir.path().join("file/halfopen.db"));
    let door = Handle::open(&location).unwrap();
    assert!(matches!(door.health(), StoreHealth::Lost(_)));
    let pass = granted(door.admit(&route("ocr"), &policy(), Ask::Fresh));
    assert_eq!(door.settle(&route("ocr"), &policy(), pass, &success()), []);
}

/// S157, S155: a process whose store is removed makes no other in its place, and goes on when it is back.
#[cfg(feature = "sqlite")]
#[test]
fn store_that_is_gone_is_waited_for_and_not_made_anew() {
    let place = Place::new();
    let door = door(&place);
    let disk = place.dir.path().join("aside");
    fs::create_dir(&disk).unwrap();
    for ending in ["", "-wal", "-shm"] {
        let name = format!("halfopen.db{ending}");
        fs::rename(place.dir.path().join(&name), disk.join(&name)).unwrap();
    }
    for _ in 0..3 {
        assert!(matches!(door.check(), StoreHealth::Lost(why) if why.contains("put it back")), "{:?}", door.health());
    }
    assert!(!place.file().exists());
    for ending in ["-shm", "-wal", ""] {
        let name = format!("halfopen.db{ending}");
        fs::rename(disk.join(&name), place.dir.path().join(&name)).unwrap();
    }
    assert_eq!(door.check(), StoreHealth::Good);
}

/// Another file in the place of the store, with the log of the one before: nothing is written into it.
#[cfg(feature = "sqlite")]
#[test]
fn file_that_was_replaced_under_its_log_is_not_opened() {
    let place = Place::new();
    let backup = place.dir.path().join("backup.db");
    drop(halfopen::store::Store::open(&Location::Sqlite(backup.clone()), &Clock::manual(&place.machine)).unwrap());
    let before = fs::read(&backup).unwrap();
    let door = door(&place);
    fail_once(&place, &policy());
    assert_eq!(door.check(), StoreHealth::Good);
    fs::rename(&backup, place.file()).unwrap();
    for _ in 0..3 {
        let health = door.check();
        assert!(
            matches!(&health, StoreHealth::Lost(why) if why.contains("halfopen.db-wal still belongs")),
            "{health:?}"
        );
    }
    assert_eq!(fs::read(place.file()).unwrap(), before);
    for ending in ["-wal", "-shm"] {
        fs::remove_file(format!("{}{ending}", place.file().display())).unwrap();
    }
    let health = door.check();
    assert!(
        matches!(&health, StoreHealth::Lost(why) if why.contains("was replaced")),
        "another store still: {health:?}"
    );
    assert_eq!(fs::read(place.file()).unwrap(), before);
}

/// S157: while a store is away somebody else begins a new one in its place, as a nightly command does on a volume that
/// is not mounted. It knows nothing of what was accepted, so nothing is accepted or carried out by it.
#[cfg(feature = "sqlite")]
#[test]
fn store_that_somebody_began_in_its_place_is_not_taken_for_it() {
    let place = Place::new();
    let door = door(&place);
    fail_once(&place, &policy());
    let (folder, aside) = (place.file().parent().unwrap().to_owned(), place.dir.path().with_extension("aside"));
    fs::rename(&folder, &aside).unwrap();
    assert!(matches!(door.check(), StoreHealth::Lost(_)));
    fs::create_dir(&folder).unwrap();
    drop(halfopen::store::Store::open(&Location::Sqlite(place.file()), &Clock::manual(&place.machine)).unwrap());
    for _ in 0..3 {
        let health = door.check();
        assert!(
            matches!(&health, StoreHealth::Lost(why) if why.contains("put the one that was opened back")),
            "{health:?}"
        );
    }
    fs::remove_dir_all(&folder).unwrap();
    fs::rename(&aside, &folder).unwrap();
    assert_eq!(door.check(), StoreHealth::Good);
    assert_eq!(door.circuits(&|_| policy()).unwrap().len(), 1);
}

/// S157: damage beneath an open store is found by who looks, although everything was read before.
#[cfg(feature = "sqlite")]
#[test]
fn damage_beneath_an_open_store_is_found() {
    use std::os::unix::fs::FileExt as _;
    for (what, from, length) in
        [("all of it", 0, 65_536), ("its beginning", 0, 4096), ("behind the first page", 4096, 61_440)]
    {
        let place = Place::new();
        let door = door(&place);
        fail_once(&place, &policy());
        assert_eq!(door.check(), StoreHealth::Good);
        Connection::open(place.file()).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        let file = fs::OpenOptions::new().write(true).open(place.file()).unwrap();
        let length = length.min(file.metadata().unwrap().len() as usize - from);
        file.write_all_at(&vec![0xA5; length], from as u64).unwrap();
        let health = door.check();
        assert!(matches!(&health, StoreHealth::Lost(why) if why.contains("damaged")), "{what}: {health:?}");
    }
    let place = Place::new();
    let door = door(&place);
    assert_eq!(door.check(), StoreHealth::Good);
    fs::write(place.file(), "gone").unwrap();
    assert!(matches!(door.check(), StoreHealth::Lost(why) if why.contains("cut to 4 bytes")));
}

/// What a log that was written into another file leaves is found by the audit.
#[cfg(feature = "sqlite")]
#[test]
fn audit_finds_a_file_whose_tables_disagree() {
    let place = Place::new();
    let door = door(&place);
    fail_once(&place, &policy());
    assert!(door.audit().unwrap().is_good());
    let conn = Connection::open(place.file()).unwrap();
    conn.execute_batch(
        "PRAGMA writable_schema = ON; \
         UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'jobs_by_wake') \
         WHERE name = 'events_by_dependency'",
    )
    .unwrap();
    let report = self::door(&place).audit().unwrap();
    assert!(report.wrong.iter().any(|wrong| wrong.contains("the file is damaged")), "{:?}", report.wrong);
}

/// S039: who tripped the breaker and loses the store in the next moment does not forget it.
#[test]
fn breaker_in_memory_begins_where_the_last_decision_ended() {
    let place = Place::new();
    let door = door(&place);
    for _ in 0..5 {
        fail(&door);
    }
    let aside = place.dir.path().join("aside.db");
    fs::rename(place.file(), &aside).unwrap();
    fs::create_dir(place.file()).unwrap();
    assert_eq!(refused(door.admit(&route("ocr"), &policy(), Ask::Fresh)).reason, RefusalReason::Open);
    assert!(matches!(door.health(), StoreHealth::Lost(_)));
}

/// S157: who asks whether the store can be written has it written.
#[cfg(feature = "sqlite")]
#[test]
fn check_writes_and_changes_nothing() {
    let place = Place::new();
    let door = door(&place);
    let log = format!("{}-wal", place.file().display());
    let boot = || -> String {
        let conn = Connection::open(place.file()).unwrap();
        conn.query_row("SELECT boot_id || anchor_ms FROM boot", [], |row| row.get(0)).unwrap()
    };
    let (before, length) = (boot(), fs::metadata(&log).unwrap().len());
    assert_eq!(door.check(), StoreHealth::Good);
    assert!(fs::metadata(&log).unwrap().len() > length, "nothing was written");
    assert_eq!(boot(), before);
}
