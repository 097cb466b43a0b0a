//! Stories of what is told and kept: events of probes, the last failure by whichever way it came, since when a state
//! lasts, and what a recovery or a reset forgets.

use halfopen_core::chance::Chance;
use halfopen_core::event::{EventKind, ProbeResult, State};
use halfopen_core::permit::{Admission, Ask, Permit};
use halfopen_core::verdict::Class;
use std::num::NonZeroU32;

use crate::world::{World, failure, hinted, secs, success};

const YEAR: u64 = 365 * 24 * 3600;

fn cuts(world: &World) -> usize {
    world.seen(|kind| matches!(kind, EventKind::HintCut { .. }))
}

fn last_class(world: &World) -> Option<Class> {
    world.status().last_failure.map(|failure| failure.class)
}

/// A world whose breaker has opened and cooled down.
fn probing() -> World {
    let mut world = World::ocr();
    world.trip();
    world.cool_down();
    world
}

#[test]
fn probes_are_told_with_how_many_are_out_and_how_each_ended() {
    let mut world = probing();
    let probes = [world.admit(), world.admit()];
    assert_eq!(probes.each_ref().map(|probe| probe.expires_at), [world.now + secs(30); 2], "its lease");
    world.settle(&probes[0], &success());
    world.settle(&probes[1], &failure(Class::Timeout));
    let told: Vec<_> = world
        .seen
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::ProbeAdmitted { in_flight } => Some((None, None, in_flight)),
            EventKind::ProbeEnded { result, class, successes } => Some((Some(result), class, successes)),
            _ => None,
        })
        .collect();
    let ended = |result, class| (Some(result), Some(class), 1);
    assert_eq!(
        told,
        [
            (None, None, 1),
            (None, None, 2),
            ended(ProbeResult::Success, Class::Success),
            ended(ProbeResult::Failure, Class::Timeout)
        ]
    );
}

#[test]
fn a_stalled_probe_is_told_as_failed() {
    let mut world = probing();
    let probe = world.admit();
    world.wait(secs(20));
    assert!(world.renew(&probe));
    world.wait(secs(18)).expire();
    let failed = |kind: &EventKind| matches!(kind, EventKind::ProbeEnded { result: ProbeResult::Failure, .. });
    assert_eq!(world.seen(failed), 1);
}

/// Identities are drawn; two that are alike must not share a slot.
#[test]
fn two_probes_of_one_draw_have_two_identities() {
    let mut world = probing();
    let mut draw = || match world.circuit.admit(&world.policy, Ask::Fresh, world.now, Chance::from_seed(7)).0 {
        Admission::Granted(permit) => permit,
        Admission::Refused(refusal) => panic!("{refusal:?}"),
    };
    let (first, second): (Permit, Permit) = (draw(), draw());
    assert_ne!(first.id, second.id);
    world.settle(&second, &success());
    world.settle(&first, &success());
    assert_eq!(world.state(), State::Closed);
}

#[test]
fn the_last_failure_is_kept_by_whichever_way_it_came() {
    let mut world = World::ocr();
    let late: Vec<_> = (0..3).map(|_| world.admit()).collect();
    world.trip();
    world.settle(&late[0], &hinted(Class::Overloaded, world.now, secs(1)));
    assert_eq!(last_class(&world), Some(Class::Overloaded), "late, with a hint");
    world.settle(&late[1], &failure(Class::QuotaExhausted));
    assert_eq!(last_class(&world), Some(Class::QuotaExhausted), "late, and it counts");
    world.cool_down();
    world.call(&failure(Class::Auth));
    assert_eq!(last_class(&world), Some(Class::Auth), "a probe whose credential was refused");
    world.call(&failure(Class::Timeout));
    assert_eq!(last_class(&world), Some(Class::Timeout), "a probe that failed");
    world.reset();
    assert_eq!(last_class(&world), None);
    world.call(&failure(Class::QuotaExhausted));
    assert_eq!(last_class(&world), Some(Class::QuotaExhausted));
}

#[test]
fn a_hint_that_is_cut_is_told_by_whichever_way_it_came() {
    let a_year = |class: Class, world: &World| hinted(class, world.now, secs(YEAR));
    let mut quota = World::ocr();
    quota.call(&a_year(Class::QuotaExhausted, &quota));
    let mut late = World::ocr();
    let permit = late.admit();
    late.trip();
    late.settle(&permit, &a_year(Class::RateLimited, &late));
    let mut probe = probing();
    probe.call(&a_year(Class::UsageLimit, &probe));
    for world in [&quota, &late, &probe] {
        assert_eq!(cuts(world), 1);
        assert_eq!(world.status().open_until, Some(world.now + secs(192 * 3600)));
    }
}

#[test]
fn a_quota_that_is_known_already_is_extended_by_a_longer_time() {
    let mut world = World::ocr();
    let herd: Vec<_> = (0..2).map(|_| world.admit()).collect();
    world.settle(&herd[0], &failure(Class::QuotaExhausted));
    world.settle(&herd[1], &hinted(Class::QuotaExhausted, world.now, secs(7200)));
    assert_eq!((world.trips(), world.status().open_until), (1, Some(world.now + secs(7200))));
}

/// Whoever resets the breaker finds the jobs that were queued when it last opened, by whichever way that was.
#[test]
fn jobs_are_counted_by_whichever_way_a_breaker_opens() {
    let ramps = |mut world: World| {
        world.reset();
        world.status().ramp_per_sec.is_some()
    };
    let mut quota = World::ocr();
    quota.jobs = 5;
    quota.call(&failure(Class::QuotaExhausted));
    let mut late = World::ocr();
    let permit = late.admit();
    late.trip();
    late.jobs = 5;
    late.settle(&permit, &failure(Class::QuotaExhausted));
    let mut probe = probing();
    let permit = probe.admit();
    probe.jobs = 5;
    probe.settle(&permit, &failure(Class::ServerError));
    for world in [quota, late, probe] {
        assert!(ramps(world));
    }
}

#[test]
fn a_state_says_since_when_it_lasts() {
    let mut world = World::ocr();
    let since = |world: &World| world.status().since;
    world.wait(secs(1));
    let until = world.trip();
    assert_eq!(since(&world), world.now);
    world.wait_until(until).wait(secs(5)).expire();
    assert_eq!(since(&world), until, "half-open since the cooldown was over");
    world.call(&success());
    world.wait(secs(5));
    world.call(&success());
    assert_eq!((world.state(), since(&world)), (State::Closed, world.now));
    world.wait(secs(5));
    world.reset();
    assert_eq!(since(&world), world.now);
}

#[test]
fn a_success_between_starts_the_row_of_neutral_probes_over() {
    let mut world = World::with(|policy| policy.circuit.close_after_successes = NonZeroU32::new(3).unwrap());
    world.trip();
    world.cool_down();
    for _ in 0..2 {
        for _ in 0..4 {
            world.call(&failure(Class::InvalidRequest));
        }
        assert_eq!(world.state(), State::HalfOpen);
        world.call(&success());
    }
}

#[test]
fn refused_credentials_of_probes_count_and_a_successful_probe_ends_their_row() {
    let mut world = probing();
    let told = |world: &World| world.seen(|kind| matches!(kind, EventKind::AuthFailed { .. }));
    for _ in 0..3 {
        world.call(&failure(Class::Auth));
    }
    assert_eq!((told(&world), world.circuit.jobs_paused_until()), (1, Some(world.now + secs(600))));
    world.call(&success());
    assert_eq!(world.circuit.jobs_paused_until(), None);
}

#[test]
fn a_recovery_forgets_the_failures_and_the_walls_of_before() {
    let mut world = World::with(|policy| policy.circuit.window = secs(900));
    world.call(&hinted(Class::RateLimited, world.now, secs(1)));
    world.wait(secs(1));
    while world.state() == State::Closed {
        world.call(&failure(Class::ServerError));
    }
    world.cool_down();
    world.call(&success());
    world.call(&success());
    assert_eq!((world.state(), world.status().failures_in_window), (State::Closed, 0));
    world.call(&hinted(Class::RateLimited, world.now, secs(1)));
    assert_eq!(world.status().throttled_until, Some(world.now + secs(1)), "the first in a row");
}

/// The rounds of an incident are forgotten in closed only: a trip before that takes the time away.
#[test]
fn escalation_is_not_forgotten_while_the_breaker_is_open_again() {
    let mut world = probing();
    world.call(&failure(Class::ServerError));
    world.cool_down();
    world.call(&success());
    world.call(&success());
    world.wait(secs(10));
    world.trip();
    world.wait(secs(235));
    assert_eq!((world.state(), world.status().escalation), (State::Open, 1));
}

#[test]
fn a_reset_leaves_nothing_of_what_was_learnt() {
    let mut world = probing();
    world.call(&failure(Class::ServerError));
    world.cool_down();
    world.hold_back(1);
    world.call(&success());
    world.call(&success());
    world.call(&failure(Class::Auth));
    world.call(&hinted(Class::RateLimited, world.now, secs(100)));
    let status = world.status();
    assert_eq!((status.escalation, status.waiting, status.ramp_per_sec), (1, 1, Some(0.5)));
    let mut with_a_caller = world.clone();
    with_a_caller.reset();
    assert_eq!(with_a_caller.status().ramp_per_sec, Some(1.0), "a new ramp for the one who waits");
    // Its caller died: nobody is held back any more.
    world.wait(secs(100 + 61)).expire();
    assert_eq!(world.status().waiting, 0);
    world.call(&hinted(Class::RateLimited, world.now, secs(100)));
    world.reset();
    assert!(world.circuit.is_blank(&world.policy, world.now));
    assert_eq!(last_class(&world), None);
    assert_eq!(world.circuit.next_wake(&world.policy), None);
}

/// Whom a throttle held returns paced, also if an operator ends it.
#[test]
fn a_throttle_that_is_released_lets_its_callers_return_paced() {
    let mut world = World::ocr();
    world.call(&hinted(Class::RateLimited, world.now, secs(100)));
    world.hold_back(2);
    world.release(true);
    assert_eq!(world.status().ramp_per_sec, Some(1.0));
    let _ = world.ask(Ask::Waited(None)).expect("the first start is at once");
    assert!(world.ask(Ask::Waited(None)).is_err());
}
