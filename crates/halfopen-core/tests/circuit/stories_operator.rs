//! Stories of what operators do and see: holds, resets, what is kept of a failure, and what a reboot leaves.

use halfopen_core::circuit::Circuit;
use halfopen_core::event::{EventKind, State};
use halfopen_core::permit::Ask;
use halfopen_core::verdict::{Class, Evidence, EvidenceKind, Verdict};
use test_case::test_case;

use crate::world::{World, failure, hinted, secs, success};

#[test_case(5, 0, true; "jobs")]
#[test_case(0, 2, true; "callers")]
#[test_case(5, 2, true; "both")]
#[test_case(0, 0, false; "neither")]
fn what_was_held_back_returns_paced_after_a_reset(jobs: u64, callers: u32, paced: bool) {
    let mut world = World::ocr();
    world.jobs = jobs;
    world.trip();
    world.hold_back(callers);
    world.reset();
    assert_eq!(world.status().ramp_per_sec, paced.then_some(1.0));
    let _ = world.ask(Ask::Job).expect("the first start is at once");
    assert_eq!(world.ask(Ask::Job).is_err(), paced);
}

/// A hold that let everybody through has stopped nobody, so the ramp and its slots are as they were.
#[test]
fn the_end_of_a_closed_hold_voids_no_slot() {
    let mut world = World::ocr();
    world.hold_back(2);
    let first = world.ask(Ask::Waited(None)).unwrap();
    world.give_back(&first);
    let slot = world.ask(Ask::Waited(None)).unwrap_err().slot.unwrap();
    world.hold(State::Closed, None);
    world.release(false);
    assert!(world.ask(Ask::Job).is_err(), "no start has become free");
    world.wait_until(slot.at);
    let _ = world.ask(Ask::Waited(Some(slot))).expect("its slot has come");
}

#[test]
fn a_probe_has_succeeded_in_this_incident_until_it_is_over() {
    let mut world = World::ocr();
    world.trip();
    world.cool_down();
    assert!(!world.circuit.probe_succeeded());
    world.call(&success());
    assert!(world.circuit.probe_succeeded());
    world.call(&failure(Class::ServerError));
    assert!(world.circuit.probe_succeeded(), "another round of the same incident");
    world.cool_down();
    world.call(&success());
    world.call(&success());
    assert_eq!((world.state(), world.circuit.probe_succeeded()), (State::Closed, false));
}

#[test]
fn jobs_pause_for_ten_minutes_once_a_credential_was_refused_three_times() {
    let mut world = World::ocr();
    world.call(&failure(Class::Auth));
    world.call(&failure(Class::Auth));
    assert_eq!(world.circuit.jobs_paused_until(), None);
    world.wait(secs(5));
    world.call(&failure(Class::Auth));
    assert_eq!(world.circuit.jobs_paused_until(), Some(world.now + secs(600)));
    world.call(&success());
    assert_eq!(world.circuit.jobs_paused_until(), None, "it is good again");
}

#[test]
fn a_circuit_is_blank_as_long_as_it_says_nothing_that_a_new_one_would_not() {
    let blank = |world: &World| world.circuit.is_blank(&world.policy, world.now);
    let mut world = World::ocr();
    assert!(blank(&world));
    world.call(&success());
    assert!(blank(&world));

    let mut held = world.clone();
    held.hold(State::Closed, None);
    assert!(!blank(&held));
    let mut refused = world.clone();
    refused.call(&failure(Class::Auth));
    assert!(!blank(&refused));
    let mut open = world.clone();
    open.trip();
    open.wait(secs(61));
    assert!(!blank(&open), "its failures have left the window, and it is open");
    let mut failed = world.clone();
    failed.call(&failure(Class::ServerError));
    assert!(!blank(&failed));
    failed.wait(secs(60));
    assert!(blank(&failed));
    // A wall that was met is remembered until a success, which may be long after the window.
    world.call(&hinted(Class::RateLimited, world.now, secs(1)));
    world.wait(secs(100)).expire();
    assert!(!blank(&world));
    world.call(&success());
    assert!(blank(&world));
}

#[test]
fn the_last_failure_is_kept_with_its_rule_and_evidence_cut_to_a_line() {
    let mut world = World::ocr();
    let excerpt = "é".repeat(300);
    let evidence = Evidence { kind: EvidenceKind::Text, place: "stderr, last line".to_owned(), excerpt };
    let verdict = Verdict { evidence, ..hinted(Class::Overloaded, world.now, secs(7)) };
    world.call(&verdict);
    let kept = world.status().last_failure.unwrap();
    assert_eq!((kept.at, kept.class, kept.hint_wait), (world.now, Class::Overloaded, Some(secs(7))));
    assert_eq!((kept.rule.as_str(), kept.place.as_str()), ("test/hinted", "stderr, last line"));
    assert_eq!(kept.excerpt, "é".repeat(240));
}

/// A failure counts for one window, also if the wall clock was set back between two boots.
#[test]
fn failures_from_before_a_clock_step_leave_the_window_when_it_has_passed() {
    let mut world = World::ocr();
    for _ in 0..3 {
        world.call(&failure(Class::ServerError));
    }
    world.now = world.now - secs(24 * 3600);
    world.circuit.after_reboot(world.now);
    assert_eq!(world.status().failures_in_window, 3);
    assert_eq!(world.status().last_failure.unwrap().at, world.now);
    world.wait(secs(60));
    assert_eq!(world.status().failures_in_window, 0);
}

#[test]
fn nothing_is_left_to_come_after_a_recovery_that_held_nobody_back() {
    let mut world = World::ocr();
    world.trip();
    world.cool_down();
    world.call(&success());
    world.call(&success());
    assert_eq!(world.state(), State::Closed);
    assert_eq!(world.circuit.next_wake(&world.policy), None);
    assert_eq!(Circuit::new().next_wake(&world.policy), None);
}

#[test]
fn a_hint_that_reaches_an_open_breaker_is_told_if_it_extends_the_cooldown() {
    let mut world = World::ocr();
    let late: Vec<_> = (0..3).map(|_| world.admit()).collect();
    world.trip();
    for (permit, wait) in late.iter().zip([200, 100, 250]) {
        world.settle(permit, &hinted(Class::Overloaded, world.now, secs(wait)));
    }
    let told = world.seen.iter().filter_map(|event| match event.kind {
        EventKind::Throttled { until, .. } => Some(until),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [world.now + secs(200), world.now + secs(250)]);
}
