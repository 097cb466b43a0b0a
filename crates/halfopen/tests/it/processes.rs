//! Many processes at one store, real ones: this test binary starts itself.

use std::fs;
use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use halfopen::clock::{Clock, ManualClock};
use halfopen::handle::{Handle, StoreHealth};
use halfopen::store::{EventFilter, Location, Store, StoreError};
use halfopen_core::event::State;
use halfopen_core::pair::Answer;
use halfopen_core::permit::{Ask, RefusalReason};
use halfopen_core::policy::Policy;
use rusqlite::Connection;

use crate::world::{NOON_MS, Place, circuit, event, failure, granted, id, mark, policy, refused, route, success, trip};

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
        "fail_once" => {
            wait_for(&folder.join("go"));
            let door = system_door(&folder);
            let pass = granted(door.admit(&route("ocr"), &ten_failures(), Ask::Fresh));
            door.settle(&route("ocr"), &ten_failures(), pass, &failure());
            assert_eq!(door.health(), StoreHealth::Good);
        }
        "fail_for_ever" => loop {
            let door = system_door(&folder);
            if let Answer::Granted(pass) = door.admit(&route("ocr"), &restless(), Ask::Fresh) {
                door.settle(&route("ocr"), &restless(), pass, &failure());
            }
        },
        "fill_the_disk" => fill_the_disk(&folder),
        "only_read" => only_read(&folder),
        other => panic!("no such role: {other}"),
    }
}

/// Fails on dependency after dependency until nothing more can be written.
fn fill_the_disk(folder: &Path) {
    let door = system_door(folder);
    let mut policy = policy();
    for n in 0..10_000 {
        policy.dependency = format!("dependency-{n}");
        let route = route(&policy.dependency);
        let pass = granted(door.admit(&route, &policy, Ask::Fresh));
        door.settle(&route, &policy, pass, &failure());
        if let StoreHealth::ReadOnly(why) = door.health() {
            // The protection goes on without the disk, and says why.
            assert!(why.contains("cannot"), "{why}");
            let pass = granted(door.admit(&route, &policy, Ask::Fresh));
            door.settle(&route, &policy, pass, &success());
            return;
        }
    }
    panic!("the disk was never full");
}

/// Meets an open breaker in a store that cannot be written, in another boot than the one that wrote it.
fn only_read(folder: &Path) {
    let machine = ManualClock::new(NOON_MS);
    machine.reboot("boot-2", Duration::from_secs(60));
    let location = Location::Sqlite(folder.join("halfopen.db"));
    let door = Handle::open_with(&location, Clock::manual(&machine)).unwrap();
    assert!(matches!(door.health(), StoreHealth::ReadOnly(_)), "{:?}", door.health());
    assert_eq!(refused(door.admit(&route("ocr"), &policy(), Ask::Fresh)).reason, RefusalReason::Open);
    machine.advance(Duration::from_secs(80));
    let probe = granted(door.admit(&route("ocr"), &policy(), Ask::Fresh));
    assert_eq!(refused(door.admit(&route("ocr"), &policy(), Ask::Fresh)).reason, RefusalReason::ProbesOut);
    let events = door.settle(&route("ocr"), &policy(), probe, &success());
    assert_eq!(events.last().unwrap().event, "recovered");
    let error = door.reset(&route("ocr").place, &policy(), "ann", "").unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
}

fn start(role: &str, folder: &Path) -> Child {
    start_by(&mut Command::new(std::env::current_exe().unwrap()), role, folder)
}

/// Starts a child by a command that ends in the name of this binary.
fn start_by(command: &mut Command, role: &str, folder: &Path) -> Child {
    command
        .args(["--exact", "processes::role_of_a_child", "--test-threads=1"])
        .env(ROLE, role)
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn system_door(folder: &Path) -> Handle {
    Handle::open(&Location::Sqlite(folder.join("halfopen.db"))).unwrap()
}

/// A policy that opens at the tenth failure.
fn ten_failures() -> Policy {
    let mut policy = policy();
    policy.circuit.open_after_failures = NonZeroU32::new(10).unwrap();
    policy
}

/// A policy under which a breaker is never long in one state.
fn restless() -> Policy {
    let mut policy = policy();
    policy.circuit.open_after_failures = NonZeroU32::new(2).unwrap();
    policy.circuit.open_for = Duration::from_millis(1);
    policy.circuit.max_open_for = Duration::from_millis(1);
    policy.circuit.probe_lease = Duration::from_millis(1);
    policy
}

fn integrity(file: &Path) -> String {
    Connection::open(file).unwrap().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap()
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
            txn.save(&id("a"), &circuit(n), None)?;
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
        assert_eq!(integrity(&place.file()), "ok");
    }
}

/// S055, S103: ten processes fail in the same instant; each counts, and one of them trips.
#[test]
fn ten_failures_at_once_are_ten_failures_and_one_trip() {
    for _ in 0..3 {
        let place = Place::new();
        let children = (0..10).map(|_| start("fail_once", place.dir.path())).collect();
        fs::write(place.dir.path().join("go"), "").unwrap();
        all_succeed(children);
        let door = system_door(place.dir.path());
        let view = &door.circuits(&|_| ten_failures()).unwrap()[0];
        assert_eq!((view.status.state, view.status.generation), (State::Open, 1));
        let events = door.events(&EventFilter::default()).unwrap();
        let count = |name: &str| events.iter().filter(|event| event.event == name).count();
        assert_eq!((count("failure_counted"), count("tripped")), (10, 1));
    }
}

/// A door may be killed in the middle of anything: what it leaves is a state that the next one goes on from.
#[test]
fn killed_doors_leave_a_breaker_that_goes_on() {
    let place = Place::new();
    let mut chance = fastrand::Rng::with_seed(11);
    let mut before = 0;
    for _ in 0..8 {
        let mut children: Vec<Child> = (0..3).map(|_| start("fail_for_ever", place.dir.path())).collect();
        let seen = || system_door(place.dir.path()).events(&EventFilter::default()).map_or(0, |events| events.len());
        let began = Instant::now();
        while seen() <= before {
            assert!(began.elapsed() < DEADLINE, "nobody fails");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(chance.u64(0..3000)));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(integrity(&place.file()), "ok");
        let door = system_door(place.dir.path());
        let events = door.events(&EventFilter { transitions_only: true, ..EventFilter::default() }).unwrap();
        // Every transition is there once, and begins where the one before it ended.
        for (n, pair) in events.windows(2).enumerate() {
            assert_eq!(pair[0].to_state, pair[1].from_state, "transition {n}");
            assert_eq!(pair[0].generation + 1, pair[1].generation, "transition {n}");
        }
        before = seen();
    }
}

/// No room is left in the file system: what is committed stays, and the protection goes on.
#[test]
fn disk_that_is_full_stops_nobody() {
    let place = Place::new();
    drop(open(place.dir.path()));
    let mut limited = Command::new("sh");
    // Writes beyond the limit fail with an error instead of a signal.
    limited.args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap());
    all_succeed(vec![start_by(&mut limited, "fill_the_disk", place.dir.path())]);
    assert_eq!(integrity(&place.file()), "ok");
    let door = system_door(place.dir.path());
    assert!(!door.circuits(&|_| policy()).unwrap().is_empty());
    let pass = granted(door.admit(&route("ocr"), &policy(), Ask::Fresh));
    door.settle(&route("ocr"), &policy(), pass, &failure());
    assert_eq!(door.health(), StoreHealth::Good);
}

/// A folder that this user may only read: deadlines are honoured, and past them each process probes for itself.
#[test]
fn store_of_another_user_is_read_and_its_deadlines_are_honoured() {
    let place = Place::new();
    trip(&place, &policy());
    // Root may write everywhere, so the child becomes nobody, who may not come to where this binary is.
    let binary = place.dir.path().join("child");
    fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    for entry in fs::read_dir(place.dir.path()).unwrap() {
        fs::set_permissions(entry.unwrap().path(), fs::Permissions::from_mode(0o444)).unwrap();
    }
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(place.dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let mut command = Command::new(&binary);
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534).current_dir(place.dir.path());
    }
    let child = start_by(&mut command, "only_read", place.dir.path());
    let output = child.wait_with_output().unwrap();
    // Given back first, so that the folder can be removed whatever happened.
    fs::set_permissions(place.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
