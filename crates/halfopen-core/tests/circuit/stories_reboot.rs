//! Stories of a wall clock that was set back by a day between two boots: whatever a circuit has set costs its own length
//! once more, and no day.

use halfopen_core::event::State;
use halfopen_core::permit::{Ask, RefusalReason};
use halfopen_core::verdict::Class;
use std::num::NonZeroU32;

use crate::world::{World, failure, hinted, millis, secs, success};

/// Boots with a clock that has lost a day.
fn reboot(world: &mut World) {
    world.now = world.now - secs(24 * 3600);
    world.circuit.after_reboot(world.now);
}

/// A world with one probe at once and one success to close, whose breaker has opened and cooled down.
fn probing() -> World {
    let mut world = World::with(|policy| {
        policy.timeout = Some(secs(8));
        policy.circuit.half_open_max_calls = NonZeroU32::MIN;
        policy.circuit.close_after_successes = NonZeroU32::MIN;
    });
    world.trip();
    world.cool_down();
    world
}

/// A world with a ramp for jobs and callers.
fn ramping(callers: u32) -> World {
    let mut world = probing();
    world.hold_back(callers);
    world.jobs = 100;
    world.call(&success());
    assert_eq!(world.status().ramp_per_sec, Some(1.0));
    world
}

#[test]
fn the_next_start_is_an_interval_away() {
    let mut world = ramping(0);
    let _ = world.ask(Ask::Job).unwrap();
    reboot(&mut world);
    let refused = world.ask(Ask::Job).unwrap_err();
    assert_eq!((refused.reason, refused.retry_at), (RefusalReason::Ramp, Some(world.now + secs(1))));
    world.wait(secs(1));
    let _ = world.ask(Ask::Job).unwrap();
}

#[test]
fn starts_of_the_earlier_boot_are_forgotten_after_their_lease() {
    let mut world = ramping(0);
    let _ = world.ask(Ask::Job).unwrap();
    world.wait(secs(1));
    let _ = world.ask(Ask::Job).unwrap();
    reboot(&mut world);
    world.wait(millis(29_999));
    assert!(world.ask(Ask::Job).is_err());
    world.wait(millis(1));
    let _ = world.ask(Ask::Job).expect("their processes are gone");
}

#[test]
fn a_ramp_climbs_half_a_minute_later_and_forgets_its_callers_a_minute_later() {
    let mut world = ramping(3);
    reboot(&mut world);
    let mut idle = world.clone();
    world.call(&success());
    world.wait(secs(30)).expire();
    assert_eq!(world.status().ramp_per_sec, Some(2.0));
    idle.wait(millis(59_999));
    assert_eq!(idle.status().waiting, 3);
    idle.wait(millis(1001));
    assert_eq!(idle.status().waiting, 0, "a minute after the next start slot");
}

#[test]
fn a_probe_of_the_earlier_boot_is_lost_after_its_lease() {
    let mut world = probing();
    let _ = world.admit();
    reboot(&mut world);
    assert_eq!(world.refused().retry_at, Some(world.now + secs(30)));
}

/// One that is renewed after all has its timeout, and no day.
#[test]
fn a_probe_that_is_renewed_stalls_after_its_timeout() {
    let mut world = probing();
    let probe = world.admit();
    reboot(&mut world);
    world.wait(secs(20));
    assert!(world.renew(&probe));
    world.wait(secs(18));
    assert_eq!((world.state(), world.status().reason), (State::Open, Some("probe_stalled")));
}

#[test]
fn a_throttle_a_hold_and_the_escalation_last_as_long_as_they_were_set_for() {
    let mut world = World::ocr();
    world.call(&hinted(Class::RateLimited, world.now, secs(50)));
    world.hold(State::Open, Some(secs(70)));
    reboot(&mut world);
    let status = world.status();
    assert_eq!(status.throttled_until, Some(world.now + secs(50)));
    assert_eq!(status.hold.unwrap().until, Some(world.now + secs(70)));

    let mut world = probing();
    world.call(&failure(Class::ServerError));
    world.cool_down();
    world.call(&success());
    assert_eq!((world.state(), world.status().escalation), (State::Closed, 1));
    reboot(&mut world);
    assert_eq!(world.status().since, world.now, "not in the future");
    world.wait(secs(240));
    assert_eq!(world.status().escalation, 0);
}

#[test]
fn an_attempt_of_this_boot_belongs_to_no_episode_of_the_earlier_one() {
    let mut world = World::ocr();
    world.call(&hinted(Class::RateLimited, world.now, secs(1)));
    reboot(&mut world);
    world.wait(secs(1));
    world.call(&hinted(Class::RateLimited, world.now, secs(1)));
    assert_eq!(world.status().failures_in_window, 2);
    assert_eq!(world.status().throttled_until, Some(world.now + secs(4)), "the second in a row");
}
