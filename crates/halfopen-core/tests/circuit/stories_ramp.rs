//! Stories of the ramp: how fast what was held back returns, what speeds it up and slows it down, and what stands still.

use halfopen_core::event::{EventKind, State};
use halfopen_core::permit::{Ask, RefusalReason};
use halfopen_core::policy::Policy;
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::Class;
use test_case::test_case;

use crate::world::{World, failure, hinted, millis, secs, success};

/// A world whose breaker has just recovered, with jobs and callers that were held back meanwhile.
fn recovered(jobs: u64, callers: u32, change: impl FnOnce(&mut Policy)) -> World {
    let mut world = World::with(|policy| {
        policy.timeout = Some(secs(8));
        change(policy);
    });
    world.jobs = jobs;
    world.trip();
    world.hold_back(callers);
    world.cool_down();
    world.call(&success());
    world.call(&success());
    assert_eq!((world.state(), world.status().ramp_per_sec), (State::Closed, Some(1.0)));
    world
}

/// Lets a job succeed at once, `rounds` times, half a minute apart.
fn climb(world: &mut World, rounds: usize) {
    for _ in 0..rounds {
        let job = world.ask(Ask::Job).unwrap();
        world.settle(&job, &success());
        world.wait(secs(30)).expire();
    }
}

/// The rates in thousandths and the bounds that were stated, with their instants.
fn steps(world: &World) -> Vec<(Timestamp, u64, u32)> {
    let step = |event: &halfopen_core::event::Event| match event.kind {
        EventKind::RampStepped { rate_millis, in_flight_max } => Some((event.at, rate_millis, in_flight_max)),
        _ => None,
    };
    world.seen.iter().filter_map(step).collect()
}

/// The same without the instants.
fn paces(world: &World) -> Vec<(u64, u32)> {
    steps(world).into_iter().map(|(_, rate, in_flight)| (rate, in_flight)).collect()
}

#[test]
fn rate_and_bound_double_each_half_minute_up_to_those_of_the_policy() {
    let mut world = recovered(1000, 0, |_| {});
    let began = world.now;
    climb(&mut world, 9);
    assert_eq!(paces(&world), [(2000, 4), (4000, 8), (8000, 16), (16_000, 16), (20_000, 16)]);
    let at = steps(&world).into_iter().map(|(at, ..)| at.since(began).as_secs());
    assert_eq!(at.collect::<Vec<_>>(), [30, 60, 90, 120, 150]);
}

#[test]
fn a_bound_that_may_still_grow_grows_where_the_rate_may_not() {
    let mut world = recovered(1000, 0, |policy| policy.drain.max_per_sec = 1.0);
    climb(&mut world, 6);
    assert_eq!(paces(&world), [(1000, 4), (1000, 8), (1000, 16)]);
}

#[test]
fn nothing_doubles_without_a_success_and_one_that_comes_late_doubles_at_once() {
    let mut world = recovered(1000, 0, |_| {});
    world.wait(secs(59)).expire();
    assert_eq!(paces(&world), []);
    climb(&mut world, 1);
    assert_eq!(paces(&world), [(2000, 4)], "half a minute had passed when it came");
    world.wait(secs(29)).expire();
    assert_eq!(paces(&world), [(2000, 4)], "the next half minute has had no success");
}

#[test]
fn a_ramp_that_nobody_asks_goes_down_step_by_step_to_where_it_began() {
    let mut world = recovered(1000, 0, |_| {});
    climb(&mut world, 3);
    let job = world.ask(Ask::Job).unwrap();
    world.give_back(&job);
    world.seen.clear();
    // The last start slot lies an interval, an eighth of a second, ahead.
    let last = world.now + millis(125);
    world.wait(secs(3600)).expire();
    let down = [(secs(60), 4000, 8), (secs(120), 2000, 4), (secs(180), 1000, 2)];
    assert_eq!(steps(&world), down.map(|(after, rate, in_flight)| (last + after, rate, in_flight)));
    assert_eq!(world.circuit.next_wake(&world.policy), None, "there is nothing left to change");
    let job = world.ask(Ask::Job).expect("its first start is at once again");
    world.seen.clear();
    world.settle(&job, &success());
    assert_eq!(paces(&world), [(2000, 4)], "it has rested for longer than half a minute");
}

#[test]
fn a_success_right_after_a_rest_does_not_undo_it() {
    let mut world = recovered(1000, 0, |_| {});
    climb(&mut world, 3);
    let job = world.ask(Ask::Job).unwrap();
    world.give_back(&job);
    world.wait(millis(60_125)).expire();
    assert_eq!(paces(&world).last(), Some(&(4000, 8)));
    let job = world.ask(Ask::Job).unwrap();
    world.settle(&job, &success());
    world.wait(millis(29_999)).expire();
    assert_eq!(paces(&world).last(), Some(&(4000, 8)));
    world.wait(millis(1)).expire();
    assert_eq!(paces(&world).last(), Some(&(8000, 16)));
}

#[test]
fn the_first_failure_of_a_herd_halves_rate_and_bound() {
    let mut world = recovered(1000, 0, |_| {});
    climb(&mut world, 3);
    world.seen.clear();
    let herd: Vec<_> = (0..3).map(|_| world.admit()).collect();
    world.wait(secs(1));
    for permit in &herd {
        world.settle(permit, &failure(Class::ServerError));
    }
    assert_eq!(paces(&world), [(4000, 8)]);
    let refused = world.ask(Ask::Job).unwrap_err();
    assert_eq!((refused.reason, refused.retry_at), (RefusalReason::Ramp, Some(world.now + millis(250))));
}

#[test]
fn failures_push_the_rate_down_to_a_sixteenth_of_where_it_began() {
    let mut world = recovered(1000, 0, |_| {});
    for _ in 0..6 {
        world.call(&failure(Class::ServerError));
        world.wait(secs(61));
    }
    assert_eq!(paces(&world), [(500, 1), (250, 1), (125, 1), (62, 1), (62, 1), (62, 1)]);
    assert_eq!(world.state(), State::Closed);
}

#[test]
fn after_a_throttle_all_who_waited_start_within_half_a_minute_and_beside_one_another() {
    let mut world = recovered(100, 90, |_| {});
    world.call(&hinted(Class::RateLimited, world.now, secs(20)));
    assert_eq!(paces(&world), [(500, 1)]);
    world.wait(secs(20)).expire();
    assert_eq!(paces(&world), [(500, 1), (3000, 90)]);
    let back = world.now;
    let mut last = back;
    for nth in 0..90 {
        match world.ask(Ask::Waited(None)) {
            Ok(_) => assert_eq!(nth, 0, "one starts at once"),
            Err(refusal) => last = refusal.retry_at.unwrap(),
        }
    }
    assert_eq!(last, back + millis(334) * 89);
    // The clock of those who wait began with the end of the throttle.
    world.wait(secs(59));
    assert_eq!(world.status().waiting, 89);
}

/// Nobody can start while everybody is kept out, so nobody is forgotten and no rate changes by itself.
#[test_case(true; "an operator holds it open")]
#[test_case(false; "a throttle")]
fn the_ramp_stands_still_while_everybody_is_kept_out(hold: bool) {
    let mut world = recovered(0, 3, |_| {});
    let kept_out = secs(200);
    if hold {
        world.hold(State::Open, Some(kept_out));
    } else {
        world.call(&hinted(Class::RateLimited, world.now, kept_out));
    }
    world.seen.clear();
    let ends = world.now + kept_out;
    assert_eq!(world.circuit.next_wake(&world.policy).unwrap().at, ends);
    world.wait_until(ends).expire();
    let status = world.status();
    assert_eq!((status.waiting, status.ramp_per_sec), (3, Some(if hold { 1.0 } else { 0.5 })));
    assert_eq!(paces(&world), [], "the rate is what it was");
    let _ = world.ask(Ask::Waited(None)).expect("the first start is at once");
    let interval = if hold { secs(1) } else { secs(2) };
    assert_eq!(world.ask(Ask::Waited(None)).unwrap_err().retry_at, Some(ends + interval));
}

#[test]
fn a_success_during_a_throttle_does_not_speed_up_what_stands_still() {
    let mut world = recovered(100, 0, |_| {});
    let late = world.admit();
    world.call(&hinted(Class::RateLimited, world.now, secs(100)));
    world.wait(secs(40));
    world.settle(&late, &success());
    world.wait(secs(60)).expire();
    let job = world.ask(Ask::Job).unwrap();
    world.settle(&job, &success());
    world.wait(millis(29_999)).expire();
    assert_eq!(paces(&world), [(500, 1)], "its clock began with the end of the throttle");
    world.wait(millis(1)).expire();
    assert_eq!(paces(&world), [(500, 1), (1000, 2)]);
}

#[test]
fn slots_from_before_a_hold_are_void_after_it() {
    let mut world = recovered(100, 3, |_| {});
    let began = world.now;
    let first = world.ask(Ask::Waited(None)).unwrap();
    world.give_back(&first);
    let slot = world.ask(Ask::Waited(None)).unwrap_err().slot.unwrap();
    assert_eq!(slot.at, began + secs(1));
    world.hold(State::Open, Some(millis(500)));
    world.wait(millis(500));
    let _ = world.ask(Ask::Waited(None)).expect("the new schedule starts at once");
    world.wait_until(slot.at);
    let again = world.ask(Ask::Waited(Some(slot))).unwrap_err();
    assert_eq!((again.reason, again.retry_at), (RefusalReason::Ramp, Some(began + millis(1500))));
}

/// A schedule number is used once, whatever began the schedule.
#[test]
fn slots_from_between_a_failure_and_a_hold_are_void_after_it() {
    let mut world = recovered(100, 3, |_| {});
    let began = world.now;
    world.call(&failure(Class::ServerError));
    let slot = world.ask(Ask::Waited(None)).unwrap_err().slot.unwrap();
    assert_eq!(slot.at, began + secs(2));
    world.hold(State::Open, Some(millis(500)));
    world.wait(millis(500));
    let other = world.ask(Ask::Waited(None)).unwrap();
    world.give_back(&other);
    world.wait_until(slot.at);
    let again = world.ask(Ask::Waited(Some(slot))).unwrap_err();
    assert_eq!(again.retry_at, Some(began + millis(2500)));
}

#[test]
fn slots_from_between_a_rest_and_a_hold_are_void_after_it() {
    let mut world = recovered(100, 0, |_| {});
    climb(&mut world, 1);
    world.wait(secs(61)).expire();
    assert_eq!(paces(&world), [(2000, 4), (1000, 2)]);
    world.hold_back(3);
    let first = world.ask(Ask::Waited(None)).unwrap();
    world.give_back(&first);
    let slot = world.ask(Ask::Waited(None)).unwrap_err().slot.unwrap();
    world.hold(State::Open, Some(millis(500)));
    world.wait(millis(500));
    let other = world.ask(Ask::Waited(None)).unwrap();
    world.give_back(&other);
    world.wait_until(slot.at);
    assert_eq!(world.ask(Ask::Waited(Some(slot))).unwrap_err().retry_at, Some(slot.at + millis(500)));
}

#[test]
fn a_ramp_ends_with_the_start_of_the_last_caller() {
    let mut world = recovered(0, 1, |_| {});
    let _last = world.ask(Ask::Waited(None)).unwrap();
    assert_eq!((world.status().ramp_per_sec, world.status().waiting), (None, 0));
}

#[test]
fn a_ramp_ends_when_its_last_job_is_settled() {
    let mut world = recovered(1, 0, |_| {});
    let job = world.ask(Ask::Job).unwrap();
    world.jobs = 0;
    assert_eq!(world.status().ramp_per_sec, Some(1.0));
    world.settle(&job, &success());
    assert_eq!(world.status().ramp_per_sec, None);
}

/// Whoever asks keeps the others from being forgotten, also where the bound leaves no room for a start.
#[test]
fn those_who_wait_are_remembered_as_long_as_somebody_asks() {
    let mut world = recovered(100, 3, |_| {});
    let began = world.now;
    let first = world.ask(Ask::Job).unwrap();
    world.wait(secs(1));
    let second = world.ask(Ask::Job).unwrap();
    for at in [20, 40] {
        world.wait_until(began + secs(at));
        assert!(world.renew(&first) && world.renew(&second));
    }
    world.wait_until(began + secs(50));
    assert!(world.ask(Ask::Job).is_err(), "two are in flight");
    world.wait_until(began + millis(109_999));
    assert_eq!(world.status().waiting, 3);
    world.wait(millis(1));
    assert_eq!(world.status().waiting, 0);
}

/// A caller that was refused a moment ago is on its way, however long nobody has asked before it.
#[test]
fn a_caller_that_is_held_back_by_an_idle_ramp_is_not_forgotten_at_once() {
    let mut world = recovered(100, 0, |_| {});
    world.wait(secs(300)).expire();
    world.hold_back(1);
    assert_eq!(world.status().waiting, 1);
    world.wait(millis(59_999));
    assert_eq!(world.status().waiting, 1);
    world.wait(millis(1));
    assert_eq!(world.status().waiting, 0);
}

/// A start counts as long as its own process renews it, and no longer.
#[test]
fn a_renewed_start_stays_in_flight_and_one_of_a_dead_process_is_forgotten() {
    let mut world = recovered(100, 0, |_| {});
    let began = world.now;
    let _dead = world.ask(Ask::Job).unwrap();
    world.wait(secs(1));
    let alive = world.ask(Ask::Job).unwrap();
    world.wait_until(began + secs(20));
    assert_eq!(world.ask(Ask::Job).unwrap_err().retry_at, Some(world.now + secs(1)), "two are in flight");
    assert!(world.renew(&alive));
    world.wait_until(began + millis(29_999));
    assert!(world.ask(Ask::Job).is_err());
    world.wait_until(began + secs(30));
    let _ = world.ask(Ask::Job).expect("the lease of the first start is over");
    world.wait_until(began + millis(49_999));
    assert!(world.ask(Ask::Job).is_err(), "the second start was renewed at 20 s");
    world.wait_until(began + secs(50));
    let _ = world.ask(Ask::Job).expect("and not since");
}

#[test]
fn callers_that_died_are_forgotten_while_jobs_go_on() {
    let mut world = recovered(100, 3, |_| {});
    world.wait(millis(59_999));
    assert_eq!(world.status().waiting, 3);
    world.wait(millis(1));
    let status = world.status();
    assert_eq!((status.waiting, status.ramp_per_sec), (0, Some(1.0)));
    world.expire();
    assert_eq!(world.circuit.next_wake(&world.policy), None);
}

/// The last job may have been cancelled while nobody looked.
#[test]
fn a_ramp_that_nothing_is_held_for_any_more_ends() {
    let mut world = recovered(5, 0, |policy| policy.drain.max_per_sec = 1.0);
    let began = world.now;
    let job = world.ask(Ask::Job).unwrap();
    world.settle(&job, &success());
    world.jobs = 0;
    let mut reset = world.clone();
    reset.wait(secs(30)).expire();
    reset.reset();
    assert_eq!(reset.status().ramp_per_sec, None, "nor does it outlive a reset");
    world.wait(secs(3600)).expire();
    let ended = world.seen.iter().find(|event| matches!(event.kind, EventKind::RampEnded)).unwrap();
    assert_eq!(ended.at, began + secs(1 + 60), "a minute after the last start slot");
    assert_eq!(world.status().ramp_per_sec, None);
}
