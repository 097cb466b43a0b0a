//! The door: many processes that come and go, one breaker.

use std::fs;
use std::time::Duration;

use halfopen::clock::{Clock, ManualClock};
use halfopen::handle::{Handle, StoreHealth};
use halfopen::store::{EventFilter, Location};
use halfopen_core::event::State;
use halfopen_core::pair::Side;
use halfopen_core::permit::{Ask, PermitKind, RefusalReason};

use crate::world::{
    NOON_MS, Place, door, fail_once, failure, granted, policy, refused, route, state, status, success, trip,
    wait_failure,
};

const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);

/// S024.
#[test]
fn failures_of_five_processes_open_the_breaker_for_the_sixth() {
    let place = Place::new();
    for n in 0..5 {
        place.machine.advance(SECOND);
        let events = fail_once(&place, &policy());
        assert_eq!(events.iter().filter(|event| event.event == "tripped").count(), usize::from(n == 4));
    }
    let refusal = refused(door(&place).admit(&route("ocr"), &policy(), Ask::Fresh));
    assert_eq!(refusal.reason, RefusalReason::Open);
    assert!(refusal.retry_at.is_some());
    assert_eq!(state(&place, &policy()), State::Open);
}

#[test]
fn success_on_a_closed_breaker_writes_nothing() {
    let place = Place::new();
    fail_once(&place, &policy());
    let log = format!("{}-wal", place.file().display());
    let before = fs::read(&log).unwrap();
    let door = door(&place);
    let pass = granted(door.admit(&route("ocr"), &policy(), Ask::Fresh));
    assert_eq!(door.settle(&route("ocr"), &policy(), pass, &success()), []);
    let pass = granted(door.admit(&route("ocr"), &policy(), Ask::Fresh));
    door.give_back(&route("ocr"), &policy(), pass);
    assert_eq!(fs::read(&log).unwrap(), before);
}

/// S029: after ten seconds, after two minutes, and after a reboot.
#[test]
fn cooldown_survives_the_end_of_every_process() {
    let place = Place::new();
    trip(&place, &policy());
    let until = status(&place, &policy()).open_until.unwrap();
    place.machine.advance(10 * SECOND);
    let refusal = refused(door(&place).admit(&route("ocr"), &policy(), Ask::Fresh));
    assert_eq!(refusal.retry_at, Some(until));
    place.machine.advance(140 * SECOND);
    let pass = granted(door(&place).admit(&route("ocr"), &policy(), Ask::Fresh));
    assert_eq!(pass.place.kind, PermitKind::Probe);
}

/// S029, S104: a reboot with a wall clock that was set back by a day keeps the cooldown, and no more than that.
#[test]
fn reboot_keeps_the_cooldown_and_a_wrong_clock_does_not_stretch_it() {
    let place = Place::new();
    trip(&place, &policy());
    place.machine.reboot("boot-2", 10 * SECOND);
    let refusal = refused(door(&place).admit(&route("ocr"), &policy(), Ask::Fresh));
    assert_eq!(refusal.reason, RefusalReason::Open);
    place.machine.step_wall(-86_400_000);
    place.machine.reboot("boot-3", 10 * SECOND);
    let door = door(&place);
    let refusal = refused(door.admit(&route("ocr"), &policy(), Ask::Fresh));
    let wait = refusal.wait(door.clock().now()).unwrap();
    assert!(wait <= 132 * SECOND, "{wait:?}");
    place.machine.advance(wait);
    let _probe = granted(door.admit(&route("ocr"), &policy(), Ask::Fresh));
}

/// S104: a step of the wall clock within a boot changes nothing.
#[test]
fn wall_clock_steps_neither_freeze_nor_skip_the_cooldown() {
    for step_ms in [86_400_000, -86_400_000] {
        let place = Place::new();
        trip(&place, &policy());
        place.machine.step_wall(step_ms);
        place.machine.advance(119 * SECOND);
        let door = door(&place);
        let wait = refused(door.admit(&route("ocr"), &policy(), Ask::Fresh)).wait(door.clock().now()).unwrap();
        assert!(wait <= 13 * SECOND, "{wait:?}");
        place.machine.advance(13 * SECOND);
        let _probe = granted(door.admit(&route("ocr"), &policy(), Ask::Fresh));
    }
}

/// S054.
#[test]
fn process_starts_do_not_push_the_cooldown_end() {
    let place = Place::new();
    trip(&place, &policy());
    let until = status(&place, &policy()).open_until.unwrap();
    for _ in 0..100 {
        place.machine.advance(SECOND);
        let refusal = refused(door(&place).admit(&route("ocr"), &policy(), Ask::Fresh));
        assert_eq!(refusal.retry_at, Some(until));
    }
}

/// S030.
#[test]
fn open_breaker_outlives_the_journal() {
    let place = Place::new();
    let mut policy = policy();
    policy.journal_keep = SECOND;
    policy.circuit.open_for = Duration::from_secs(30 * 86_400);
    policy.circuit.max_open_for = policy.circuit.open_for;
    trip(&place, &policy);
    place.machine.advance(Duration::from_secs(20 * 86_400));
    door(&place).sweep(&|_| policy.clone()).unwrap();
    fail_other(&place);
    let refusal = refused(door(&place).admit(&route("ocr"), &policy, Ask::Fresh));
    assert_eq!(refusal.reason, RefusalReason::Open);
}

/// Makes another dependency write, so that there is a writer to clean up.
fn fail_other(place: &Place) {
    let mut other = policy();
    other.dependency = "crm".to_owned();
    other.journal_keep = SECOND;
    fail_once(place, &other);
}

/// S176.
#[test]
fn reset_means_a_fresh_start_for_every_process() {
    let place = Place::new();
    trip(&place, &policy());
    let long_lived = door(&place);
    let events = door(&place).reset(&route("ocr").place, &policy(), "ann", "key renewed").unwrap();
    assert_eq!(events[0].event, "reset");
    assert_eq!(long_lived.events(&EventFilter::default()).unwrap().last(), events.last());
    let pass = granted(long_lived.admit(&route("ocr"), &policy(), Ask::Fresh));
    long_lived.settle(&route("ocr"), &policy(), pass, &failure());
    let status = status(&place, &policy());
    assert_eq!((status.state, status.failures_in_window), (State::Closed, 1));
}

/// S177.
#[test]
fn failures_of_three_days_ago_do_not_count() {
    let place = Place::new();
    for _ in 0..4 {
        fail_once(&place, &policy());
    }
    place.machine.advance(Duration::from_secs(3 * 86_400));
    fail_once(&place, &policy());
    let status = status(&place, &policy());
    assert_eq!((status.state, status.failures_in_window), (State::Closed, 1));
}

/// S005 within one process: whoever leaves without a word gives the slot back.
#[test]
fn dropped_attempt_gives_its_probe_back() {
    let place = Place::new();
    trip(&place, &policy());
    place.machine.advance(140 * SECOND);
    let door = door(&place);
    let (route, policy) = (route("ocr"), policy());
    let attempt = door.attempt(&route, &policy, Ask::Fresh).unwrap();
    let (side, refusal) = door.attempt(&route, &policy, Ask::Fresh).unwrap_err();
    assert_eq!((side, refusal.reason), (Side::Place, RefusalReason::ProbesOut));
    drop(attempt);
    let attempt = door.attempt(&route, &policy, Ask::Fresh).unwrap();
    assert_eq!(attempt.settle(&success()).last().unwrap().event, "recovered");
    assert_eq!(door.health(), StoreHealth::Good);
}

/// S005: a killed process's slot is free at its lease's end; a renewed one's is not.
#[test]
fn lost_probe_ends_with_its_lease_and_a_renewed_one_lives() {
    let place = Place::new();
    trip(&place, &policy());
    place.machine.advance(140 * SECOND);
    let (route, policy) = (route("ocr"), policy());
    let killed = granted(door(&place).admit(&route, &policy, Ask::Fresh));
    let other = door(&place);
    place.machine.advance(29 * SECOND);
    assert_eq!(refused(other.admit(&route, &policy, Ask::Fresh)).reason, RefusalReason::ProbesOut);
    place.machine.advance(2 * SECOND);
    let pass = granted(other.admit(&route, &policy, Ask::Fresh));
    assert!(!other.renew(&route, &policy, &killed));
    for _ in 0..5 {
        place.machine.advance(20 * SECOND);
        assert!(other.renew(&route, &policy, &pass));
        assert_eq!(refused(door(&place).admit(&route, &policy, Ask::Fresh)).reason, RefusalReason::ProbesOut);
    }
    assert!(!other.settle(&route, &policy, pass, &success()).is_empty());
}

/// S173: fifty processes, each with a store of its own, open in one instant; their probes are spread over a tenth of the
/// cooldown, and none comes before its end.
#[test]
fn processes_without_a_common_store_do_not_probe_in_one_instant() {
    let policy = policy();
    let machine = ManualClock::new(NOON_MS);
    let clock = Clock::manual(&machine);
    let opened_at = clock.now();
    let doors: Vec<Handle> =
        (0..50).map(|seed| Handle::open_seeded(&Location::Memory, Clock::manual(&machine), seed).unwrap()).collect();
    let cooldowns: Vec<Duration> = doors
        .iter()
        .map(|door| {
            for _ in 0..5 {
                let pass = granted(door.admit(&route("ocr"), &policy, Ask::Fresh));
                door.settle(&route("ocr"), &policy, pass, &failure());
            }
            let refusal = refused(door.admit(&route("ocr"), &policy, Ask::Fresh));
            opened_at.until(refusal.retry_at.unwrap())
        })
        .collect();
    let (least, most) = (*cooldowns.iter().min().unwrap(), *cooldowns.iter().max().unwrap());
    assert!(least >= policy.circuit.open_for, "{least:?}");
    assert!(most <= policy.circuit.open_for.mul_f64(1.1), "{most:?}");
    assert!(most - least >= policy.circuit.open_for.mul_f64(0.07), "{least:?} to {most:?}");
    let together = |from: Duration| cooldowns.iter().filter(|c| **c >= from && **c < from + 500 * MILLI).count();
    assert!(cooldowns.iter().all(|from| together(*from) <= 10), "{cooldowns:?}");
}

#[test]
fn hint_of_one_process_holds_all_others() {
    let place = Place::new();
    let (route, policy) = (route("ocr"), policy());
    let first = door(&place);
    let pass = granted(first.admit(&route, &policy, Ask::Fresh));
    let events = first.settle(&route, &policy, pass, &wait_failure(&first, 20 * SECOND));
    assert!(events.iter().any(|event| event.event == "throttled"));
    let refusal = refused(door(&place).admit(&route, &policy, Ask::Fresh));
    assert_eq!(refusal.reason, RefusalReason::Throttled);
    assert_eq!(refusal.wait(first.clock().now()), Some(20 * SECOND));
}

#[test]
fn two_circuits_are_judged_and_settled_in_one_transaction() {
    let place = Place::new();
    let policy = policy();
    let route = halfopen::handle::Route {
        place: "ocr".parse().unwrap(),
        account: Some("ocr@credential=main".parse().unwrap()),
    };
    for _ in 0..5 {
        let door = door(&place);
        let pass = granted(door.admit(&route, &policy, Ask::Fresh));
        door.settle(&route, &policy, pass, &failure());
    }
    let views = door(&place).circuits(&|_| policy.clone()).unwrap();
    let states: Vec<_> = views.iter().map(|view| (view.id.to_string(), view.status.state)).collect();
    // A server error is about the place; the account has nothing to remember and no record.
    assert_eq!(states, [("ocr".to_owned(), State::Open)]);
}

#[test]
fn sweep_lets_time_pass_and_says_what_happened() {
    let place = Place::new();
    trip(&place, &policy());
    assert_eq!(door(&place).sweep(&|_| policy()).unwrap(), []);
    place.machine.advance(140 * SECOND);
    let events = door(&place).sweep(&|_| policy()).unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].event, "half_opened");
    assert_eq!(door(&place).sweep(&|_| policy()).unwrap(), []);
}

#[test]
fn why_shows_the_last_failure_the_next_change_and_the_events() {
    let place = Place::new();
    trip(&place, &policy());
    let door = door(&place);
    let why = door.why(&route("ocr").place, &policy()).unwrap().unwrap();
    assert_eq!(why.view.status.last_failure.unwrap().rule, "test/failure");
    assert_eq!(why.wake.unwrap().at, why.view.status.open_until.unwrap());
    assert_eq!(why.events.last().unwrap().event, "tripped");
    assert!(door.why(&route("nobody").place, &policy()).unwrap().is_none());
}

#[test]
fn hold_refuses_everybody_until_it_is_released() {
    let place = Place::new();
    let (route, policy) = (route("ocr"), policy());
    door(&place).hold(&route.place, &policy, State::Open, None, "ann", "moving").unwrap();
    let refusal = refused(door(&place).admit(&route, &policy, Ask::Fresh));
    assert_eq!((refusal.reason, refusal.retry_at), (RefusalReason::Held, None));
    door(&place).release(&route.place, &policy, false, "ann", "done").unwrap();
    let _pass = granted(door(&place).admit(&route, &policy, Ask::Fresh));
}
