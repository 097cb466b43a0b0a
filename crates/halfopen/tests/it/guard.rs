//! The guard: the door with a snapshot in front, inside one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use halfopen::clock::Clock;
use halfopen::guard::{CallError, Guard};
use halfopen::handle::{Handle, Route};
use halfopen::store::Location;
use halfopen_core::event::State;
use halfopen_core::permit::{Ask, RefusalReason};

use crate::world::{Place, door, failure, policy, route, state, status, success, trip};

const SECOND: Duration = Duration::from_secs(1);

fn guard(place: &Place) -> Guard {
    Guard::new(&Arc::new(door(place)), route("ocr"), policy())
}

fn refusal<E: std::fmt::Debug>(result: Result<(), CallError<E>>) -> RefusalReason {
    match result {
        Err(CallError::Refused(refused)) => refused.refusal.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn calls_flow_and_are_counted() {
    let place = Place::new();
    let guard = guard(&place);
    for n in 0..100 {
        assert_eq!(guard.call(|| Ok::<_, ()>(n)), Ok(n));
    }
    assert_eq!((guard.figures().admitted, guard.figures().refused), (100, 0));
}

#[test]
fn success_from_the_snapshot_leaves_no_trace_in_the_store() {
    let place = Place::new();
    let guard = guard(&place);
    let log = std::fs::read(format!("{}-wal", place.file().display())).unwrap();
    for _ in 0..100 {
        guard.call(|| Ok::<_, ()>(())).unwrap();
    }
    assert_eq!(std::fs::read(format!("{}-wal", place.file().display())).unwrap(), log);
}

#[test]
fn failures_open_the_breaker_and_nothing_is_sent_after_the_trip() {
    let place = Place::new();
    let guard = guard(&place);
    for _ in 0..5 {
        assert_eq!(guard.call(|| Err::<(), _>("down")), Err(CallError::Failed("down")));
    }
    assert_eq!(state(&place, &policy()), State::Open);
    for _ in 0..10 {
        let refused = guard.call(|| -> Result<(), ()> { panic!("sent after the trip") });
        assert_eq!(refusal(refused), RefusalReason::Open);
    }
    assert_eq!(guard.figures().refused, 10);
    let refused = guard.admit().unwrap_err();
    assert_eq!(refused.refusal.retry_at, status(&place, &policy()).open_until);
}

#[test]
fn guard_probes_after_the_cooldown_and_recovers() {
    let place = Place::new();
    let guard = guard(&place);
    for _ in 0..5 {
        let _ = guard.call(|| Err::<(), _>(()));
    }
    place.machine.advance(140 * SECOND);
    guard.refresh();
    let probe = guard.admit().unwrap();
    assert_eq!(guard.admit().unwrap_err().refusal.reason, RefusalReason::ProbesOut);
    probe.succeed();
    assert_eq!(state(&place, &policy()), State::Closed);
    guard.call(|| Ok::<_, ()>(())).unwrap();
}

/// S005: a caller that panics or is cancelled gives its probe back.
#[test]
fn dropped_probe_is_given_back() {
    let place = Place::new();
    trip(&place, &policy());
    place.machine.advance(140 * SECOND);
    let guard = guard(&place);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = guard.call(|| -> Result<(), ()> { panic!("on purpose") });
    }));
    assert!(panicked.is_err());
    drop(guard.admit().unwrap());
    guard.admit().unwrap().succeed();
    assert_eq!(state(&place, &policy()), State::Closed);
}

/// A late result from before the trip changes nothing, also when it was admitted from a snapshot.
#[test]
fn late_result_from_before_the_trip_changes_nothing() {
    let place = Place::new();
    let guard = guard(&place);
    let (late_success, late_failure) = (guard.admit().unwrap(), guard.admit().unwrap());
    for _ in 0..5 {
        let _ = guard.call(|| Err::<(), _>(()));
    }
    place.machine.advance(140 * SECOND);
    guard.refresh();
    let probe = guard.admit().unwrap();
    assert_eq!(late_failure.settle(&failure()), []);
    late_success.succeed();
    assert_eq!(state(&place, &policy()), State::HalfOpen);
    assert_eq!(probe.settle(&success()).last().unwrap().event, "recovered");
}

/// Across processes: a trip elsewhere is seen within 250 ms of real time without asking the store per call.
#[test]
fn trip_of_another_process_is_seen_by_the_refresh() {
    let place = Place::new();
    let guard = guard(&place);
    guard.call(|| Ok::<_, ()>(())).unwrap();
    trip(&place, &policy());
    let began = Instant::now();
    while guard.admit().is_ok() {
        assert!(began.elapsed() < Duration::from_secs(20), "never seen");
        std::thread::yield_now();
    }
}

/// Reset of an operator in another process is seen as well (S176: within a second).
#[test]
fn reset_of_another_process_is_seen_by_the_refresh() {
    let place = Place::new();
    let guard = guard(&place);
    for _ in 0..5 {
        let _ = guard.call(|| Err::<(), _>(()));
    }
    door(&place).reset(&route("ocr").place, &policy(), "ann", "").unwrap();
    let began = Instant::now();
    while guard.admit().is_err() {
        assert!(began.elapsed() < Duration::from_secs(20), "never seen");
        std::thread::yield_now();
    }
}

/// What one guard commits, another of the same process sees without a look into each circuit.
#[test]
fn trip_by_another_guard_of_the_same_door_is_seen() {
    let place = Place::new();
    let handle = Arc::new(door(&place));
    let (one, two) = (Guard::new(&handle, route("ocr"), policy()), Guard::new(&handle, route("ocr"), policy()));
    for _ in 0..5 {
        let _ = one.call(|| Err::<(), _>(()));
    }
    let began = Instant::now();
    while !two.looks_refused() {
        assert!(began.elapsed() < Duration::from_secs(20), "never seen");
        std::thread::yield_now();
    }
}

/// S103 in one process: threads fail and succeed at once, and after the trip nobody is let through.
#[test]
fn no_thread_is_let_through_after_the_trip() {
    let handle = Arc::new(Handle::open_with(&Location::Memory, Clock::system()).unwrap());
    let route = Route { place: "ocr".parse().unwrap(), account: None };
    let guard = Guard::new(&handle, route, policy());
    let tripped = AtomicBool::new(false);
    let after = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (guard, tripped, after) = (&guard, &tripped, &after);
            scope.spawn(move || {
                for call in 0..2000 {
                    let knew = tripped.load(Ordering::SeqCst);
                    let Ok(ticket) = guard.admit() else { return };
                    if knew {
                        after.fetch_add(1, Ordering::SeqCst);
                    }
                    if thread == 0 && call % 100 == 99 {
                        if ticket.settle(&failure()).iter().any(|event| event.event == "tripped") {
                            tripped.store(true, Ordering::SeqCst);
                        }
                    } else {
                        ticket.succeed();
                    }
                }
            });
        }
    });
    assert!(tripped.load(Ordering::SeqCst));
    assert_eq!(after.load(Ordering::SeqCst), 0);
    assert_eq!(guard.admit().unwrap_err().refusal.reason, RefusalReason::Open);
}

#[test]
fn account_is_judged_beside_the_place() {
    let place = Place::new();
    let handle = Arc::new(door(&place));
    let with_account = Route { place: "ocr".parse().unwrap(), account: Some("ocr@credential=main".parse().unwrap()) };
    let one = Guard::new(&handle, with_account, policy());
    let two = Guard::new(&handle, route("ocr"), policy());
    door(&place).hold(&"ocr@credential=main".parse().unwrap(), &policy(), State::Open, None, "ann", "leaked").unwrap();
    one.refresh();
    two.refresh();
    assert_eq!(refusal(one.call(|| Ok::<_, ()>(()))), RefusalReason::Held);
    two.call(|| Ok::<_, ()>(())).unwrap();
}

/// What an async program is told at once, and what it must ask on a thread that may wait.
#[test]
fn quick_answers_come_from_the_snapshot_alone() {
    let place = Place::new();
    let guard = guard(&place);
    let log = || std::fs::read(format!("{}-wal", place.file().display())).unwrap();
    let before = log();
    for _ in 0..100 {
        let permitted = guard.quick().expect("closed").expect("let through");
        assert!(!permitted.holds() && permitted.renewal().is_none());
        permitted.succeed_quickly().expect("it changes nothing");
    }
    assert_eq!((log(), guard.figures().admitted), (before, 100));
    for _ in 0..5 {
        let _ = guard.quick().unwrap().unwrap().settle(&failure());
    }
    assert_eq!(guard.quick().expect("open").unwrap_err().refusal.reason, RefusalReason::Open);
    assert!(guard.looks_refused());
}

/// S005, S062: an owned probe has a lease that can be renewed apart from it, and gives its slot back when dropped.
#[test]
fn owned_probe_is_renewed_and_given_back() {
    let place = Place::new();
    trip(&place, &policy());
    place.machine.advance(140 * SECOND);
    let guard = guard(&place);
    assert!(guard.quick().is_none(), "only the door knows who probes");
    let probe = guard.ask_owned(Ask::Fresh).unwrap();
    let (renewal, every) = probe.renewal().expect("a probe has a lease");
    assert!(probe.is_probe() && probe.holds() && every < 30 * SECOND);
    for _ in 0..4 {
        place.machine.advance(20 * SECOND);
        assert!(renewal.renew());
        assert_eq!(guard.ask_owned(Ask::Fresh).unwrap_err().refusal.reason, RefusalReason::ProbesOut);
    }
    drop(probe);
    let mut probe = guard.ask_owned(Ask::Fresh).unwrap();
    assert!(!renewal.renew(), "its pass is gone");
    assert!(!probe.settle_early().is_empty());
    assert_eq!(state(&place, &policy()), State::Closed);
    assert!(!probe.holds());
    let _ = probe.settle(&failure());
    assert_eq!(status(&place, &policy()).failures_in_window, 1);
}
