//! Stores that older versions wrote: they are brought up to this schema, and keep what they know.

use halfopen::clock::Clock;
use halfopen::handle::Handle;
use halfopen::store::EventFilter;
use rusqlite::Connection;

use crate::world::{NOON_MS, Place, circuit, id, mark};
use halfopen_core::snapshot;

/// A store as schema 1 left it: what its only migration makes, with a circuit and an event.
fn schema_1(place: &Place) {
    let conn = Connection::open(place.file()).unwrap();
    conn.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
    conn.execute_batch(include_str!("../data/schema-1.sql")).unwrap();
    conn.execute(
        "INSERT INTO circuits (id, wake_at_ms, updated_at_ms, form) VALUES ('ocr', NULL, ?1, ?2)",
        (NOON_MS, snapshot::encode(&circuit(7))),
    )
    .unwrap();
    conn.pragma_update(None, "application_id", 0x6861_6C66).unwrap();
    conn.pragma_update(None, "user_version", 1).unwrap();
}

#[test]
fn a_store_of_schema_1_keeps_its_circuits_and_takes_jobs() {
    let place = Place::new();
    schema_1(&place);
    let store = place.open().unwrap();
    assert_eq!(store.load(&[&id("ocr")]).unwrap()[0].as_ref().map(mark), Some(7));
    assert_eq!(store.events(&EventFilter::default()).unwrap().len(), 1);
    drop(store);
    let version: i64 =
        Connection::open(place.file()).unwrap().query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 5);
    let door = Handle::open_with(&place.location(), Clock::manual(&place.machine)).unwrap();
    let accepted = door.enqueue(crate::jobs::new_job(b"x")).unwrap();
    assert!(door.job(accepted.receipt().id).unwrap().is_some());
    assert!(door.audit().unwrap().is_good());
}

/// A machine that was restarted into the new version finds the old anchor and the new tables in one opening.
#[test]
fn an_upgrade_and_a_reboot_may_come_together() {
    let place = Place::new();
    schema_1(&place);
    Connection::open(place.file())
        .unwrap()
        .execute("INSERT INTO boot (one, boot_id, anchor_ms) VALUES (1, 'boot-0', 0)", [])
        .unwrap();
    let store = place.open().unwrap();
    assert_eq!(store.load(&[&id("ocr")]).unwrap()[0].as_ref().map(mark), Some(7));
}

#[test]
fn schema_1_is_what_its_migration_makes() {
    let migration = include_str!("../../src/store/migrations/0001_circuits_and_events.sql");
    assert!(include_str!("../data/schema-1.sql").starts_with(migration), "a migration that was released never changes");
}
