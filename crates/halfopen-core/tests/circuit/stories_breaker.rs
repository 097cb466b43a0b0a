//! Stories of one breaker: how it opens, who probes, how it closes, and what comes too late.

use halfopen_core::circuit::Peek;
use halfopen_core::event::{EventKind, ProbeResult, State, TripReason};
use halfopen_core::permit::{Ask, PermitKind, RefusalReason};
use halfopen_core::verdict::{About, Class};
use std::num::NonZeroU32;
use test_case::test_case;

use crate::world::{World, failure, hinted, reason, secs, success};

fn n(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).expect("counts are above 0")
}

/// S024, S028: the whole life of a breaker.
#[test]
fn failures_open_it_and_probes_close_it() {
    let mut world = World::ocr();
    let opened_at = world.now;
    let open_until = world.trip();
    assert!(open_until >= opened_at + secs(120) && open_until <= opened_at + secs(132));
    assert_eq!(world.status().failures_in_window, 5);
    let refusal = world.refused();
    assert_eq!((refusal.reason, refusal.retry_at), (RefusalReason::Open, Some(open_until)));

    world.cool_down();
    let first = world.admit();
    let second = world.admit();
    assert_eq!((first.kind, second.kind), (PermitKind::Probe, PermitKind::Probe));
    assert_eq!(world.refused().reason, RefusalReason::ProbesOut);
    world.settle(&first, &success());
    assert_eq!(world.state(), State::HalfOpen);
    world.settle(&second, &success());
    assert_eq!(world.state(), State::Closed);
    assert_eq!(world.status().failures_in_window, 0);
    assert_eq!(world.admit().kind, PermitKind::Regular);
}

/// S103: one trip, however many fail at once.
#[test]
fn a_herd_that_fails_at_once_opens_it_once() {
    let mut world = World::ocr();
    let permits: Vec<_> = (0..24).map(|_| world.admit()).collect();
    for permit in &permits {
        world.settle(permit, &failure(Class::Timeout));
    }
    assert_eq!(world.trips(), 1);
    assert_eq!(world.circuit.generation(), 1);
}

#[test]
fn late_success_from_before_the_trip_changes_nothing() {
    let mut world = World::ocr();
    let late = world.admit();
    world.trip();
    world.cool_down();
    let probe = world.admit();
    let before = world.circuit.clone();
    world.settle(&late, &success());
    assert_eq!(world.circuit, before);
    world.settle(&late, &failure(Class::ServerError));
    assert_eq!(world.circuit, before);
    world.settle(&probe, &success());
    assert_eq!(world.status().probe_successes, 1);
}

#[test]
fn a_failed_probe_opens_it_again_with_a_doubled_cooldown() {
    let mut world = World::ocr();
    world.trip();
    for (round, shortest) in [(1, 240), (2, 480), (3, 960), (4, 1920), (5, 3600), (6, 3600)] {
        world.cool_down();
        let began = world.now;
        world.call(&failure(Class::ServerError));
        let status = world.status();
        assert_eq!((status.state, status.escalation, status.reason), (State::Open, round, Some("probe_failed")));
        let open_until = status.open_until.unwrap();
        assert!(open_until >= began + secs(shortest) && open_until <= began + secs(shortest + shortest / 10));
        assert_eq!(world.refused().reason, RefusalReason::Open);
    }
}

/// S095, S172: the escalation outlives a short recovery, and not a long one.
#[test]
fn escalation_is_forgotten_only_after_the_last_cooldown_in_closed() {
    let mut world = World::with(|policy| policy.circuit.close_after_successes = n(1));
    world.trip();
    world.cool_down();
    world.call(&failure(Class::ServerError));
    world.cool_down();
    world.call(&success());
    assert_eq!((world.state(), world.status().escalation), (State::Closed, 1));
    let mut short = world.clone();
    short.wait(secs(100));
    let opened = short.now;
    assert!(short.trip() >= opened + secs(240), "the cooldown does not fall back after a short success");
    world.wait(secs(240));
    assert_eq!(world.status().escalation, 0);
    world.call(&failure(Class::ServerError));
    assert_eq!(world.state(), State::Closed, "an isolated failure does not open it");
    world.wait(secs(61));
    let opened = world.now;
    assert!(world.trip() <= opened + secs(132));
}

/// S101, S083, S177: failures leave the window.
#[test]
fn failures_that_are_too_far_apart_never_open_it() {
    let mut world = World::with(|policy| {
        policy.circuit.window = secs(5);
        policy.circuit.open_after_failures = n(3);
    });
    for _ in 0..700 {
        world.call(&failure(Class::ServerError));
        assert_eq!(world.status().failures_in_window, 1);
        world.wait(secs(5));
    }
    assert_eq!(world.status().failures_in_window, 0);
    for _ in 0..3 {
        world.call(&failure(Class::ServerError));
        world.wait(crate::world::millis(2450));
    }
    assert_eq!(world.state(), State::Open);
}

/// A window holds a thousand failures; a policy that asks for more still opens its breaker.
#[test]
fn a_thousand_failures_open_it_whatever_the_policy_asks_for() {
    let mut world = World::with(|policy| policy.circuit.open_after_failures = n(5000));
    for _ in 0..999 {
        world.call(&failure(Class::ServerError));
    }
    assert_eq!(world.state(), State::Closed);
    world.call(&failure(Class::ServerError));
    assert_eq!(world.state(), State::Open);
}

/// S091, S196: exactly m successes, at most k at once.
#[test_case(1, 1)]
#[test_case(1, 3)]
#[test_case(3, 1)]
#[test_case(3, 3)]
#[test_case(2, 5)]
fn m_successes_close_it_with_at_most_k_probes_at_once(k: u32, m: u32) {
    let mut world = World::with(|policy| {
        policy.circuit.half_open_max_calls = n(k);
        policy.circuit.close_after_successes = n(m);
    });
    world.trip();
    world.cool_down();
    let mut successes = 0;
    while world.state() != State::Closed {
        let probes: Vec<_> = std::iter::from_fn(|| world.ask(Ask::Fresh).ok()).collect();
        assert!(!probes.is_empty() && probes.len() <= k as usize, "{} probes", probes.len());
        for probe in &probes {
            if world.state() == State::HalfOpen {
                world.settle(probe, &success());
                successes += 1;
            }
        }
    }
    assert_eq!(successes, m);
}

#[test]
fn no_more_probes_are_out_than_can_still_be_needed() {
    let mut world = World::with(|policy| {
        policy.circuit.half_open_max_calls = n(3);
        policy.circuit.close_after_successes = n(3);
    });
    world.trip();
    world.cool_down();
    let probes: Vec<_> = (0..3).map(|_| world.admit()).collect();
    world.settle(&probes[0], &success());
    world.settle(&probes[1], &success());
    assert_eq!(world.refused().reason, RefusalReason::ProbesOut, "the third may be the last that is needed");
    world.give_back(&probes[2]);
    let last = world.admit();
    assert_eq!(world.refused().reason, RefusalReason::ProbesOut);
    world.settle(&last, &success());
    assert_eq!(world.state(), State::Closed);
}

/// S017, S026, S027, S058: what says nothing about health gives the slot back.
#[test_case(Some(Class::InvalidRequest))]
#[test_case(Some(Class::Auth))]
#[test_case(Some(Class::UnknownFailure))]
#[test_case(None; "cancelled")]
fn a_neutral_probe_gives_its_slot_back(class: Option<Class>) {
    let mut world = World::with(|policy| {
        policy.circuit.half_open_max_calls = n(1);
        policy.circuit.close_after_successes = n(1);
    });
    world.trip();
    world.cool_down();
    let probe = world.admit();
    match class {
        Some(class) => world.settle(&probe, &failure(class)),
        None => world.give_back(&probe),
    };
    assert_eq!(world.state(), State::HalfOpen);
    assert_eq!(world.admit().kind, PermitKind::Probe);
}

#[test]
fn five_neutral_probes_in_a_row_open_it_again_without_escalation() {
    let mut world = World::ocr();
    world.trip();
    world.cool_down();
    for _ in 0..4 {
        world.call(&failure(Class::InvalidRequest));
        assert_eq!(world.state(), State::HalfOpen);
    }
    let opened = world.now;
    world.call(&failure(Class::InvalidRequest));
    let status = world.status();
    assert_eq!((status.state, status.escalation), (State::Open, 0));
    assert!(status.open_until.unwrap() <= opened + secs(132));
    assert_eq!(status.reason, Some("probes_inconclusive"));
}

/// S005: a killed probe's slot is free when its lease ends, and it was never given twice.
#[test]
fn a_dead_probe_is_lost_at_the_end_of_its_lease() {
    let mut world = World::with(|policy| policy.circuit.half_open_max_calls = n(1));
    world.trip();
    world.cool_down();
    let dead = world.admit();
    let refusal = world.refused();
    assert_eq!((refusal.reason, refusal.retry_at), (RefusalReason::ProbesOut, Some(world.now + secs(30))));
    world.wait(crate::world::millis(29_999));
    world.refused();
    world.wait(crate::world::millis(1));
    assert_eq!(world.admit().kind, PermitKind::Probe);
    assert_eq!(world.seen(|kind| matches!(kind, EventKind::ProbeEnded { result: ProbeResult::Lost, .. })), 1);
    // S061: its late result is void.
    let before = world.circuit.clone();
    world.settle(&dead, &success());
    world.settle(&dead, &failure(Class::ServerError));
    assert_eq!(world.circuit, before);
}

/// S062: a probe whose process lives keeps its slot beyond its first lease.
#[test]
fn a_renewed_probe_keeps_its_slot() {
    let mut world = World::with(|policy| {
        policy.circuit.half_open_max_calls = n(1);
        policy.circuit.close_after_successes = n(1);
        policy.timeout = Some(secs(120));
    });
    world.trip();
    world.cool_down();
    let probe = world.admit();
    for _ in 0..9 {
        world.wait(secs(10));
        assert!(world.renew(&probe));
        world.refused();
    }
    world.settle(&probe, &success());
    assert_eq!(world.state(), State::Closed);
}

/// S004: a probe whose process lives but whose attempt should long be over has failed.
#[test]
fn a_probe_that_outlives_its_timeout_has_failed() {
    let mut world = World::ocr();
    world.trip();
    world.cool_down();
    let probe = world.admit();
    let granted = world.now;
    while world.renew(&probe) {
        world.wait(secs(1));
        assert!(world.now <= granted + secs(8 + 30), "the timeout plus one lease is the end");
    }
    let status = world.status();
    assert_eq!((status.state, status.reason, status.escalation), (State::Open, Some("probe_stalled"), 1));
    world.cool_down();
    world.call(&success());
    world.call(&success());
    assert_eq!(world.state(), State::Closed);
}

/// A policy without a timeout leaves the end to the surface; behind it stands a day.
#[test]
fn without_a_timeout_an_attempt_counts_for_a_day() {
    let mut world = World::with(|policy| policy.circuit.probe_lease = secs(3600));
    let day = secs(24 * 3600);
    let regular = world.admit();
    assert_eq!(regular.expires_at, world.now + day);
    world.trip();
    world.cool_down();
    let probe = world.admit();
    for _ in 0..49 {
        world.wait(secs(1800));
        assert!(world.renew(&probe));
    }
    world.wait(crate::world::millis(1_799_999));
    assert_eq!(world.state(), State::HalfOpen, "a day and one lease");
    world.wait(crate::world::millis(1));
    assert_eq!((world.state(), world.status().reason), (State::Open, Some("probe_stalled")));
}

/// Time alone ended these probes; the trip says how.
#[test]
fn a_trip_that_time_brings_names_the_end_of_its_probe() {
    let probe_of_the_last_trip = |world: &World| {
        world.seen.iter().rev().find_map(|event| match event.kind {
            EventKind::Tripped { probe, .. } => Some(probe),
            _ => None,
        })
    };
    let mut stalled = World::with(|policy| {
        policy.timeout = Some(secs(8));
        policy.circuit.half_open_max_calls = n(1);
    });
    stalled.trip();
    stalled.cool_down();
    let mut lost = stalled.clone();
    let probe = stalled.admit();
    stalled.wait(secs(20));
    assert!(stalled.renew(&probe));
    stalled.wait(secs(18)).expire();
    assert_eq!(probe_of_the_last_trip(&stalled), Some(Some(ProbeResult::Failure)));
    for _ in 0..5 {
        let _dead = lost.admit();
        lost.wait(secs(30)).expire();
    }
    assert_eq!(lost.status().reason, Some("probes_inconclusive"));
    assert_eq!(probe_of_the_last_trip(&lost), Some(Some(ProbeResult::Lost)));
}

/// S029, S054: the end of the cooldown is a stored instant; reading it moves nothing.
#[test]
fn asking_does_not_move_the_end_of_a_cooldown() {
    let mut world = World::ocr();
    let open_until = world.trip();
    for _ in 0..60 {
        world.wait(secs(1));
        assert_eq!(world.refused().retry_at, Some(open_until));
        world.circuit = halfopen_core::snapshot::decode(&halfopen_core::snapshot::encode(&world.circuit)).unwrap();
    }
    world.wait_until(open_until);
    assert_eq!(world.admit().kind, PermitKind::Probe);
}

#[test]
fn failures_while_open_do_not_extend_the_cooldown_but_a_longer_hint_does() {
    let mut world = World::ocr();
    let late: Vec<_> = (0..2).map(|_| world.admit()).collect();
    let open_until = world.trip();
    world.wait(secs(10));
    world.settle(&late[0], &failure(Class::ServerError));
    assert_eq!(world.status().open_until, Some(open_until));
    let hint = hinted(Class::Overloaded, world.now, secs(200));
    world.settle(&late[1], &hint);
    assert_eq!(world.status().open_until, Some(world.now + secs(200)));
}

/// S189: what is shown is true now, also if nobody has called since.
#[test]
fn an_idle_breaker_whose_cooldown_is_over_shows_as_half_open() {
    let mut world = World::ocr();
    world.trip();
    world.wait(secs(600));
    let before = world.circuit.clone();
    let status = world.status();
    assert_eq!((status.state, status.open_until, status.probes_in_flight), (State::HalfOpen, None, 0));
    assert_eq!(world.circuit, before);
}

#[test]
fn an_exhausted_quota_opens_at_once_and_probes_after_ten_minutes_doubling() {
    let mut world = World::ocr();
    let herd: Vec<_> = (0..3).map(|_| world.admit()).collect();
    let opened = world.now;
    for permit in &herd {
        world.settle(permit, &failure(Class::QuotaExhausted));
    }
    assert_eq!(world.trips(), 1, "a herd that meets it together says it once");
    let until = world.status().open_until.unwrap();
    assert!(until >= opened + secs(600) && until <= opened + secs(660));
    world.cool_down();
    let opened = world.now;
    world.call(&failure(Class::QuotaExhausted));
    assert!(world.status().open_until.unwrap() >= opened + secs(1200));
    world.cool_down();
    world.call(&success());
    world.call(&success());
    let opened = world.now;
    world.call(&failure(Class::QuotaExhausted));
    assert!(world.status().open_until.unwrap() <= opened + secs(660), "a recovery forgets the doubling");
}

#[test]
fn an_exhausted_quota_counts_however_late_it_is_told() {
    let mut world = World::ocr();
    let late = world.admit();
    world.trip();
    world.wait(secs(1));
    world.settle(&late, &failure(Class::QuotaExhausted));
    let status = world.status();
    assert_eq!(status.reason, Some("quota_exhausted"));
    assert!(status.open_until.unwrap() >= world.now + secs(600));
}

#[test]
fn three_refused_credentials_in_a_row_are_told_and_open_nothing() {
    let mut world = World::ocr();
    let told = |world: &World| world.seen(|kind| matches!(kind, EventKind::AuthFailed { .. }));
    world.call(&failure(Class::Auth));
    world.call(&failure(Class::Auth));
    world.call(&success());
    world.call(&failure(Class::Auth));
    world.call(&failure(Class::Auth));
    assert_eq!(told(&world), 0, "a success between clears the row");
    world.call(&failure(Class::Auth));
    assert_eq!(told(&world), 1);
    for _ in 0..20 {
        world.call(&failure(Class::Auth));
    }
    assert_eq!((told(&world), world.state()), (3, State::Closed), "told again at 6 and 12");
}

/// S053: a class that would count does not where the rule says whose fault it is.
#[test]
fn a_failure_the_caller_is_to_blame_for_is_neutral() {
    let mut world = World::ocr();
    let mut verdict = failure(Class::ServerError);
    verdict.about = About::Caller;
    for _ in 0..10 {
        world.call(&verdict);
    }
    assert_eq!((world.state(), world.status().failures_in_window), (State::Closed, 0));
}

#[test_case(false, State::Closed)]
#[test_case(true, State::Open)]
fn unrecognised_failures_count_only_where_the_policy_says_so(count_unclassified: bool, state: State) {
    let mut world = World::with(|policy| policy.circuit.count_unclassified = count_unclassified);
    for _ in 0..5 {
        world.call(&failure(Class::UnknownFailure));
    }
    assert_eq!(world.state(), state);
}

#[test]
fn long_work_judged_early_closes_it_and_a_later_failure_is_one_new_failure() {
    let mut world = World::with(|policy| {
        policy.circuit.half_open_max_calls = n(1);
        policy.circuit.close_after_successes = n(1);
    });
    world.trip();
    world.cool_down();
    let probe = world.admit();
    let further = world.settle_early(&probe);
    assert_eq!((world.state(), further.kind), (State::Closed, PermitKind::Regular));
    let before = world.circuit.clone();
    world.settle(&further, &success());
    assert_eq!(world.circuit, before);
    world.settle(&further, &failure(Class::ServerError));
    assert_eq!(world.status().failures_in_window, 1);
}

#[test]
fn long_work_judged_early_still_fails_the_round_while_it_lasts() {
    let mut world = World::ocr();
    world.trip();
    world.cool_down();
    let probe = world.admit();
    let further = world.settle_early(&probe);
    assert_eq!(world.status().probe_successes, 1);
    world.settle(&further, &failure(Class::ServerError));
    assert_eq!((world.state(), world.status().escalation), (State::Open, 1));
}

/// S176: a reset is a fresh start.
#[test]
fn a_reset_forgets_everything_but_keeps_late_results_out() {
    let mut world = World::ocr();
    let late = world.admit();
    world.trip();
    world.reset();
    assert_eq!((world.state(), world.status().failures_in_window), (State::Closed, 0));
    world.settle(&late, &failure(Class::ServerError));
    assert_eq!(world.status().failures_in_window, 0);
    world.call(&failure(Class::ServerError));
    assert_eq!(world.status().failures_in_window, 1);
}

#[test]
fn a_hold_keeps_out_or_lets_through_whatever_the_breaker_says_and_ends_by_itself() {
    let mut world = World::ocr();
    world.hold(State::Open, Some(secs(60)));
    let refusal = world.refused();
    assert_eq!((refusal.reason, refusal.retry_at), (RefusalReason::Held, Some(world.now + secs(60))));
    assert_eq!(world.state(), State::Closed, "a hold is no state");
    world.wait(secs(60));
    let _ = world.admit();
    let open_until = world.trip();
    world.hold(State::Closed, None);
    let held = world.admit();
    assert_eq!(held.kind, PermitKind::Held);
    for _ in 0..10 {
        world.settle(&held, &success());
    }
    assert_eq!((world.state(), world.status().open_until), (State::Open, Some(open_until)));
    world.release(false);
    assert_eq!(world.refused().reason, RefusalReason::Open);
    world.release(true);
    assert_eq!(world.admit().kind, PermitKind::Probe);
}

#[test]
fn a_hold_without_an_end_refuses_without_a_time() {
    let mut world = World::ocr();
    world.hold(State::Open, None);
    assert_eq!(world.refused().retry_at, None);
}

/// S082: new limits apply from the next decision, and nothing is forgotten.
#[test]
fn a_reload_keeps_what_was_learnt() {
    let mut world = World::ocr();
    for _ in 0..3 {
        world.call(&failure(Class::ServerError));
    }
    world.policy.circuit.open_after_failures = n(4);
    world.call(&failure(Class::ServerError));
    assert_eq!(world.state(), State::Open);
    world.cool_down();
    world.call(&success());
    world.policy.circuit.close_after_successes = n(1);
    world.call(&success());
    assert_eq!(world.state(), State::Closed, "m below the successes seen is still reachable");
}

#[test]
fn a_reload_that_asks_for_fewer_successes_than_were_seen_lets_the_closing_one_in() {
    let mut world = World::with(|policy| {
        policy.circuit.half_open_max_calls = n(1);
        policy.circuit.close_after_successes = n(3);
    });
    world.trip();
    world.cool_down();
    world.call(&success());
    world.call(&success());
    world.policy.circuit.close_after_successes = n(2);
    world.call(&success());
    assert_eq!(world.state(), State::Closed);
}

#[test]
fn the_closed_success_path_needs_no_write() {
    let mut world = World::ocr();
    world.call(&failure(Class::ServerError));
    let chance = world.chance();
    let Peek::Granted(permit) = world.circuit.peek(&world.policy, Ask::Fresh, world.now, chance) else {
        panic!("a closed breaker grants from a snapshot");
    };
    assert!(world.circuit.settles_for_free(&world.policy, &permit, &success(), world.now));
    assert!(world.circuit.settles_for_free(&world.policy, &permit, &failure(Class::InvalidRequest), world.now));
    assert!(!world.circuit.settles_for_free(&world.policy, &permit, &failure(Class::ServerError), world.now));
    world.call(&failure(Class::Auth));
    assert!(!world.circuit.settles_for_free(&world.policy, &permit, &success(), world.now), "it ends the row");
}

/// S104, S029: a wall clock stepped between two boots neither freezes nor prolongs for ever.
#[test_case(-86_400; "a day back")]
#[test_case(0; "unchanged")]
#[test_case(3600; "an hour on")]
fn a_clock_step_between_boots_costs_at_most_one_cooldown(step_secs: i64) {
    let mut world = World::ocr();
    world.trip();
    let rebooted = halfopen_core::time::Timestamp::from_millis(world.now.as_millis() + step_secs * 1000);
    world.circuit.after_reboot(rebooted);
    world.now = rebooted;
    let left = world.status().open_until.map_or(std::time::Duration::ZERO, |until| rebooted.until(until));
    assert!(left <= secs(132), "{left:?}");
    assert!(world.status().failures_in_window <= 5);
    world.wait(left);
    assert_eq!(world.admit().kind, PermitKind::Probe);
}

#[test]
fn a_trip_says_why_and_what_was_counted() {
    let mut world = World::ocr();
    world.trip();
    let trip = world.seen.iter().find(|event| event.is_transition()).unwrap();
    let EventKind::Tripped { reason: why, escalation, probe, .. } = &trip.kind else { panic!("{trip:?}") };
    assert_eq!(*why, TripReason::Failures { failures: 5, last: Class::ServerError });
    assert_eq!((*escalation, *probe), (0, None));
    assert_eq!(reason(&world.refused()), RefusalReason::Open);
}

#[test]
fn time_passes_the_same_whether_watched_or_not() {
    let mut watched = World::ocr();
    watched.trip();
    watched.cool_down();
    let _ = watched.admit();
    let mut left_alone = watched.clone();
    for _ in 0..700 {
        watched.wait(secs(1)).expire();
    }
    left_alone.wait(secs(700)).expire();
    assert_eq!(watched.circuit, left_alone.circuit);
    assert_eq!(watched.seen, left_alone.seen);
}
