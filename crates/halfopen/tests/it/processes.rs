//! Many processes at one store, real ones: this test binary starts itself.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use halfopen::clock::Clock;
use halfopen::store::{EventFilter, Location, Store};
use rusqlite::Connection;

use crate::world::{Place, circuit, event, id, mark};

/// What a child process is to do, and where.
const ROLE: &str = "HALFOPEN_TEST_ROLE";
const FOLDER: &str = "HALFOPEN_TEST_FOLDER";

/// Nothing here takes long; a deadline only keeps a broken build from hanging.
const DEADLINE: Duration = Duration::from_secs(60);

/// The children's side of the tests below. Run as an ordinary test it does nothing.
#[test]
fn role_of_a_child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    match role.as_str() {
        "add_ten" => {
            wait_for(&folder.join("go"));
            for _ in 0..10 {
                // A process of its own each time, as far as SQLite can tell.
                add_one(&open(&folder));
            }
        }
        "add_three" => {
            wait_for(&folder.join("go"));
            let store = open(&folder);
            for _ in 0..3 {
                add_one(&store);
            }
        }
        "add_for_ever" => loop {
            add_one(&open(&folder));
        },
        other => panic!("no such role: {other}"),
    }
}

fn start(role: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::role_of_a_child", "--test-threads=1"])
        .env(ROLE, role)
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn wait_for(path: &Path) {
    let began = Instant::now();
    while !path.exists() {
        assert!(began.elapsed() < DEADLINE, "{} never came", path.display());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn all_succeed(children: Vec<Child>) {
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

fn open(folder: &Path) -> Store {
    Store::open(&Location::Sqlite(folder.join("halfopen.db")), &Clock::system()).unwrap()
}

/// One update that reads what it changes, and one event with it.
fn add_one(store: &Store) {
    store
        .transact(|txn| {
            let n = txn.load(&id("a"))?.as_ref().map_or(0, mark) + 1;
            txn.save(&id("a"), &circuit(n))?;
            txn.append(&event("a", i64::from(n), "closed"))
        })
        .unwrap();
    store.tidy().unwrap();
}

fn total(folder: &Path) -> (u32, usize) {
    let store = open(folder);
    let n = store.load(&[&id("a")]).unwrap()[0].as_ref().map_or(0, mark);
    (n, store.events(&EventFilter::default()).unwrap().len())
}

/// S019, S055: also the very first opening, and every write-back of the log, is contended.
#[test]
fn forty_processes_lose_no_update_and_never_see_a_locked_database() {
    let place = Place::new();
    let children = (0..40).map(|_| start("add_ten", place.dir.path())).collect();
    std::fs::write(place.dir.path().join("go"), "").unwrap();
    all_succeed(children);
    assert_eq!(total(place.dir.path()), (400, 400));
}

/// S019.
#[test]
fn two_hundred_processes_at_once_lose_no_update() {
    let place = Place::new();
    let children = (0..200).map(|_| start("add_three", place.dir.path())).collect();
    std::fs::write(place.dir.path().join("go"), "").unwrap();
    all_succeed(children);
    assert_eq!(total(place.dir.path()), (600, 600));
}

#[test]
fn killed_writers_leave_whole_transactions_and_a_readable_store() {
    let place = Place::new();
    let mut chance = fastrand::Rng::with_seed(7);
    let mut before = 0;
    for _ in 0..12 {
        let mut children: Vec<Child> = (0..3).map(|_| start("add_for_ever", place.dir.path())).collect();
        // They must have come to write before they die somewhere in it.
        let began = Instant::now();
        while place.file().exists() && total(place.dir.path()).0 <= before || !place.file().exists() {
            assert!(began.elapsed() < DEADLINE, "nobody writes");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(chance.u64(0..3000)));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let (n, events) = total(place.dir.path());
        assert_eq!(n as usize, events);
        assert!(n > before);
        before = n;
        let check: String =
            Connection::open(place.file()).unwrap().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
    }
}
