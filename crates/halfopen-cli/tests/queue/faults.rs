//! The store's files are removed, replaced, cut and locked away under a running gateway, and come back.
//!
//! What must hold each time: readiness says no and why, a call that is to be kept is refused with the reason and never
//! acknowledged, nothing is made anew or merged, and when the files are back everything goes on by itself.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::ledger::{all_done, audited, invoices, opened, opens_for, queue, queueing, send, store_file};
use crate::stub::Stub;
use crate::world::{Gateway, until};

/// A gateway whose breaker is open for long, with three invoices kept.
fn waiting(stub: &Stub) -> (Gateway, Vec<String>) {
    let gateway = opened(stub, &queueing(&opens_for(600.0)));
    let ids = (0..3).map(|n| queue(&gateway, &format!("inv-{n}"))).collect();
    (gateway, ids)
}

/// The store cannot be used: everything says so, and no call is acknowledged.
fn is_refused(gateway: &Gateway, reason: &str, why: &str) {
    until("it is not ready", || gateway.ask("GET", "/readyz", &[], "").status == 503);
    let ready = gateway.ask("GET", "/readyz", &[], "");
    assert_eq!(ready.json()["reason"], reason, "{}", ready.text());
    assert!(ready.json()["detail"].as_str().is_some_and(|told| told.contains(why)), "{}", ready.text());
    assert_eq!(gateway.ask("GET", "/healthz", &[], "").status, 200);
    let answer = send(gateway, "inv-refused", &[("prefer", "respond-async")]);
    assert_eq!((answer.status, answer.problem().as_str()), (503, "not_durable"), "{}", answer.text());
    assert!(answer.text().contains(why), "{}", answer.text());
    assert!(answer.field("retry-after").is_some() && answer.field("location").is_none(), "{}", answer.head);
}

/// The store is back: the gateway is ready by itself, takes calls, and what was kept before is done once.
fn goes_on(stub: &Stub, gateway: &Gateway, mut ids: Vec<String>) {
    until("it is ready", || gateway.ask("GET", "/readyz", &[], "").status == 200);
    ids.push(queue(gateway, "inv-after"));
    let released = gateway.ask("POST", "/circuits/up/reset", &[], r#"{"reason":"it is well"}"#);
    assert_eq!(released.status, 200, "{}", released.text());
    all_done(gateway, &ids);
    let seen = invoices(stub);
    assert!(seen.len() == ids.len() && seen.values().all(|times| *times == 1), "{seen:?}");
    audited(gateway);
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", file.display()))
}

/// S157: the file is removed under a running gateway while its log is still there.
#[test]
fn a_removed_file_is_neither_made_anew_nor_mixed_with_its_old_log() {
    let stub = Stub::start();
    let (gateway, ids) = waiting(&stub);
    let file = store_file(&gateway);
    let aside = gateway.path("aside.db");
    fs::rename(&file, &aside).unwrap();
    is_refused(&gateway, "store_lost", "put it back");
    // Another process is told which files are in the way, and leaves them as they are.
    let log = fs::read(beside(&file, "-wal")).unwrap();
    let told = gateway.halfopen(&["jobs", "list"]);
    assert!(told.contains("halfopen.db-wal") && told.contains("move that aside as well"), "{told}");
    assert_eq!(fs::read(beside(&file, "-wal")).unwrap(), log);
    assert!(!file.exists());
    fs::rename(&aside, &file).unwrap();
    goes_on(&stub, &gateway, ids);
}

/// S157, S155: the whole folder is away, as a volume that is not mounted, and comes back.
#[test]
fn a_folder_that_is_away_is_not_replaced_by_an_empty_one() {
    let stub = Stub::start();
    let (gateway, ids) = waiting(&stub);
    let folder = store_file(&gateway).parent().unwrap().to_owned();
    let aside = gateway.path("aside");
    fs::rename(&folder, &aside).unwrap();
    // A large body would lie in a file beside the store.
    let large = gateway.call("POST", "/d/up/x", &[("prefer", "respond-async")], &vec![b'x'; 100_000]);
    assert_eq!(large.problem(), "not_durable", "{}", large.text());
    is_refused(&gateway, "store_lost", "gone");
    assert!(!folder.exists(), "nothing is put in its place");
    fs::rename(&aside, &folder).unwrap();
    goes_on(&stub, &gateway, ids);
}

/// A backup is moved to the store's place under a running gateway: the log of the one before is not written into it.
#[test]
fn a_backup_put_in_place_under_a_running_gateway_is_left_as_it_is() {
    let stub = Stub::start();
    let (gateway, ids) = waiting(&stub);
    let (file, aside, backup) = (store_file(&gateway), gateway.path("aside.db"), gateway.path("backup.db"));
    let conn = rusqlite::Connection::open(&file).unwrap();
    conn.execute("VACUUM INTO ?1", [backup.to_str().unwrap()]).unwrap();
    drop(conn);
    let before = fs::read(&backup).unwrap();
    fs::rename(&file, &aside).unwrap();
    fs::rename(&backup, &file).unwrap();
    is_refused(&gateway, "store_lost", "still belongs to the one before");
    assert_eq!(fs::read(&file).unwrap(), before);
    fs::rename(&aside, &file).unwrap();
    goes_on(&stub, &gateway, ids);
}

/// S157: the right to write is taken from the file, and given back.
#[test]
fn a_file_that_nobody_may_write_takes_no_job() {
    let stub = Stub::start();
    let (gateway, ids) = waiting(&stub);
    let file = store_file(&gateway);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
    is_refused(&gateway, "store_read_only", "mode 0400");
    let list = gateway.ask("GET", "/jobs", &[], "").json();
    assert_eq!(list["jobs"].as_array().unwrap().len(), 3, "what is there is still shown");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    goes_on(&stub, &gateway, ids);
}

/// S157: damage beneath a running gateway is found, told, and left for a person.
#[test]
fn damage_beneath_a_running_gateway_is_told_and_left_as_it_is() {
    let stub = Stub::start();
    let (gateway, ids) = waiting(&stub);
    let file = store_file(&gateway);
    // So that what stands in the file is what counts.
    rusqlite::Connection::open(&file).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let whole = fs::read(&file).unwrap();
    let damaged = vec![0xA5; whole.len()];
    let overwrite = |bytes: &[u8]| {
        use std::os::unix::fs::FileExt as _;
        fs::OpenOptions::new().write(true).open(&file).unwrap().write_all_at(bytes, 0).unwrap();
    };
    overwrite(&damaged);
    is_refused(&gateway, "store_lost", "damaged");
    let metrics = gateway.ask("GET", "/metrics", &[], "").text();
    assert!(metrics.contains("halfopen_store_readable 0"), "{metrics}");
    assert_eq!(gateway.ask("GET", "/jobs", &[], "").status, 503, "an error and no empty list");
    overwrite(&whole);
    goes_on(&stub, &gateway, ids);
}
