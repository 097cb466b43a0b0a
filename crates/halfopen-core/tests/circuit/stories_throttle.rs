//! Stories of waits: hints that hold everybody, herds that meet one wall, and the paced return.

use halfopen_core::event::{EventKind, State};
use halfopen_core::permit::{Ask, RefusalReason};
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{Class, Scope};

use crate::world::{World, failure, hinted, millis, secs, success};

/// Forty workers, one 20-second limit: one hint holds them all, and it counts as one failure.
#[test]
fn one_hint_holds_everybody_and_a_herd_counts_as_one_failure() {
    let mut world = World::ocr();
    let herd: Vec<_> = (0..40).map(|_| world.admit()).collect();
    let until = world.now + secs(20);
    let verdict = hinted(Class::RateLimited, world.now, secs(20));
    for permit in &herd {
        world.settle(permit, &verdict);
        let refusal = world.refused();
        assert_eq!((refusal.reason, refusal.retry_at), (RefusalReason::Throttled, Some(until)));
    }
    let status = world.status();
    assert_eq!((status.state, status.failures_in_window), (State::Closed, 1));
    assert_eq!(world.seen(|kind| matches!(kind, EventKind::Throttled { .. })), 1);
    world.wait_until(until);
    let _ = world.admit();
}

/// The same forty come back paced, within half a minute, and all of them start.
#[test]
fn what_a_throttle_held_returns_paced_within_half_a_minute() {
    let mut world = World::ocr();
    let herd: Vec<_> = (0..40).map(|_| world.admit()).collect();
    let verdict = hinted(Class::RateLimited, world.now, secs(20));
    for permit in &herd {
        world.settle(permit, &verdict);
    }
    world.hold_back(40);
    world.wait(secs(20));
    let back = world.now;
    let mut due: Vec<(Timestamp, Ask)> = (0..40).map(|_| (back, Ask::Waited(None))).collect();
    let mut starts = Vec::new();
    while !due.is_empty() {
        due.sort_by_key(|(at, _)| *at);
        let (at, ask) = due.remove(0);
        world.wait_until(at);
        match world.ask(ask) {
            Ok(permit) => {
                starts.push(at);
                world.settle(&permit, &success());
            }
            Err(refusal) => due.push((refusal.retry_at.unwrap(), Ask::Waited(refusal.slot))),
        }
    }
    assert_eq!(starts.len(), 40);
    assert_eq!(starts[0], back, "the first start is at once");
    assert!(*starts.last().unwrap() <= back + secs(30));
    for pair in starts.windows(3) {
        assert!(pair[2].since(pair[0]) >= millis(700), "two starts and one more never fall together");
    }
    assert_eq!(world.status().ramp_per_sec, None, "nothing is held any more");
    assert_eq!(world.status().waiting, 0);
}

#[test]
fn a_limit_met_again_after_it_was_obeyed_holds_longer() {
    let mut world = World::with(|policy| policy.circuit.window = secs(3));
    let mut waits = Vec::new();
    for _ in 0..4 {
        let verdict = hinted(Class::RateLimited, world.now, secs(1));
        world.call(&verdict);
        let until = world.status().throttled_until.unwrap();
        waits.push(world.now.until(until));
        world.wait_until(until);
    }
    assert_eq!(waits, [secs(1), secs(4), secs(8), secs(16)]);
    world.call(&success());
    let verdict = hinted(Class::RateLimited, world.now, secs(1));
    world.call(&verdict);
    assert_eq!(world.status().throttled_until, Some(world.now + secs(1)), "a success between starts over");
}

#[test]
fn a_slow_success_from_before_the_wall_says_nothing_about_it() {
    let mut world = World::ocr();
    let slow = world.admit();
    world.call(&hinted(Class::RateLimited, world.now, secs(1)));
    assert!(world.circuit.settles_for_free(&world.policy, &slow, &success(), world.now));
    world.settle(&slow, &success());
    world.wait(secs(1));
    world.call(&hinted(Class::RateLimited, world.now, secs(1)));
    assert_eq!(world.status().throttled_until, Some(world.now + secs(4)));
}

/// S065: five limits in the window open the breaker even if each was obeyed.
#[test]
fn a_limit_that_never_ends_opens_the_breaker() {
    let mut world = World::with(|policy| policy.circuit.window = secs(900));
    for _ in 0..5 {
        assert_eq!(world.state(), State::Closed);
        world.call(&hinted(Class::RateLimited, world.now, secs(1)));
        if let Some(until) = world.status().throttled_until {
            world.wait_until(until);
        }
    }
    assert_eq!(world.state(), State::Open);
}

/// S015: a wait that is too long to be slept opens the breaker until then.
#[test]
fn a_wait_of_hours_opens_the_breaker_until_then() {
    let mut world = World::ocr();
    world.call(&hinted(Class::UsageLimit, world.now, secs(9000)));
    let status = world.status();
    assert_eq!((status.state, status.reason), (State::Open, Some("long_wait")));
    assert_eq!(status.open_until, Some(world.now + secs(9000)));
}

#[test]
fn a_hint_beyond_the_ceiling_is_cut_and_told() {
    let mut world = World::ocr();
    world.call(&hinted(Class::UsageLimit, world.now, secs(365 * 24 * 3600)));
    assert_eq!(world.status().open_until, Some(world.now + secs(192 * 3600)));
    assert_eq!(world.seen(|kind| matches!(kind, EventKind::HintCut { .. })), 1);
}

#[test]
fn a_wait_of_exactly_what_may_be_slept_is_slept() {
    let mut world = World::ocr();
    let mut longer = world.clone();
    world.call(&hinted(Class::RateLimited, world.now, secs(300)));
    assert_eq!((world.state(), world.status().throttled_until), (State::Closed, Some(world.now + secs(300))));
    longer.call(&hinted(Class::RateLimited, longer.now, millis(300_001)));
    assert_eq!((longer.state(), longer.status().reason), (State::Open, Some("long_wait")));
}

#[test]
fn a_hint_of_exactly_the_ceiling_is_not_cut() {
    let mut world = World::ocr();
    world.call(&hinted(Class::UsageLimit, world.now, secs(192 * 3600)));
    assert_eq!(world.status().open_until, Some(world.now + secs(192 * 3600)));
    assert_eq!(world.seen(|kind| matches!(kind, EventKind::HintCut { .. })), 0);
}

#[test]
fn a_usage_limit_without_a_time_opens_for_open_for() {
    let mut world = World::ocr();
    world.call(&failure(Class::UsageLimit));
    let status = world.status();
    assert_eq!((status.state, status.reason), (State::Open, Some("long_wait")));
    assert!(status.open_until.unwrap() <= world.now + secs(132));
}

#[test]
fn hints_that_are_not_honoured_hold_nobody() {
    let mut world = World::with(|policy| policy.retry.honor_retry_after = false);
    world.call(&hinted(Class::RateLimited, world.now, secs(100)));
    assert_eq!(world.status().throttled_until, None);
    let _ = world.admit();
    assert_eq!(world.status().failures_in_window, 1);
}

#[test]
fn a_rate_limit_without_a_hint_is_an_ordinary_failure() {
    let mut world = World::ocr();
    for _ in 0..5 {
        world.call(&failure(Class::RateLimited));
    }
    assert_eq!(world.state(), State::Open);
}

/// S098: a limit of less than this circuit can tell apart holds it for `open_for`, then one probe, and says what would
/// separate them.
#[test]
fn a_narrower_hint_holds_at_most_open_for_and_names_the_key() {
    let mut world = World::ocr();
    let mut verdict = hinted(Class::UsageLimit, world.now, secs(5 * 24 * 3600));
    if let Some(hint) = &mut verdict.hint {
        hint.scope = Scope::Part("model".into());
    }
    world.call(&verdict);
    let status = world.status();
    assert_eq!(status.state, State::Open);
    assert!(status.open_until.unwrap() <= world.now + secs(132));
    assert_eq!(status.last_failure.unwrap().narrower.as_deref(), Some("model"));
    world.policy.split_by.push("model".into());
    world.reset();
    world.call(&verdict);
    let status = world.status();
    assert_eq!(status.open_until, Some(world.now + secs(5 * 24 * 3600)), "where it is split, it is believed");
    assert_eq!(status.last_failure.unwrap().narrower, None);
}

#[test]
fn a_throttle_is_over_at_its_instant_and_not_before() {
    let mut world = World::ocr();
    world.call(&hinted(Class::Overloaded, world.now, secs(7)));
    world.wait(millis(6999));
    world.refused();
    world.wait(millis(1));
    let _ = world.admit();
}

#[test]
fn probes_obey_a_hint_too() {
    let mut world = World::ocr();
    let late = world.admit();
    world.trip();
    world.cool_down();
    let probe = world.admit();
    let hint = hinted(Class::RateLimited, world.now, secs(50));
    world.settle(&late, &hint);
    assert_eq!(world.refused().reason, RefusalReason::Throttled);
    world.settle(&probe, &success());
    world.wait(secs(50));
    world.call(&success());
    assert_eq!(world.state(), State::Closed);
}

/// S014, S078: a backlog returns at the rate of the policy, never more than the bound at once, over all who ask.
#[test]
fn a_backlog_returns_at_its_rate_and_within_its_bound() {
    let mut world = World::ocr();
    world.jobs = 300;
    world.trip();
    world.cool_down();
    world.call(&success());
    world.call(&success());
    assert_eq!(world.status().ramp_per_sec, Some(1.0));
    let began = world.now;
    let mut running: Vec<(Timestamp, _)> = Vec::new();
    let mut starts: Vec<Timestamp> = Vec::new();
    let mut rate = 1.0_f64;
    while world.jobs > 0 {
        assert!(world.now.since(began) < secs(3600), "the backlog shrinks");
        for _ in 0..4 {
            if let Ok(permit) = world.ask(Ask::Job) {
                world.jobs -= 1;
                starts.push(world.now);
                running.push((world.now + millis(400), permit));
            }
        }
        assert!(running.len() <= 16);
        world.wait(millis(50));
        let due: Vec<_> = running.extract_if(.., |(at, _)| *at <= world.now).collect();
        for (_, permit) in due {
            world.settle(&permit, &success());
        }
        if let Some(seen) = world.status().ramp_per_sec {
            assert!(seen >= rate, "all went well, so the rate only climbs");
            rate = seen;
        }
    }
    assert_eq!(starts[0], began);
    let in_the_first_half_minute = starts.iter().filter(|at| at.since(began) < secs(30)).count();
    assert!((29..=31).contains(&in_the_first_half_minute), "{in_the_first_half_minute}");
    assert!(rate >= 4.0);
}

/// S043: a failure slows the ramp at once; failures open the breaker, and what is queued stays queued.
#[test]
fn failures_during_a_ramp_slow_it_down_and_stop_it() {
    let mut world = World::ocr();
    world.jobs = 280;
    world.trip();
    world.cool_down();
    world.call(&success());
    world.call(&success());
    let mut sent = 0;
    while world.state() == State::Closed {
        match world.ask(Ask::Job) {
            Ok(permit) => {
                world.jobs -= 1;
                sent += 1;
                world.settle(&permit, &failure(Class::ServerError));
                world.jobs += 1;
            }
            Err(refusal) => {
                world.wait_until(refusal.retry_at.unwrap());
            }
        }
    }
    assert!(sent <= 6, "{sent} jobs met the failing dependency");
    assert_eq!(world.ask(Ask::Job).unwrap_err().reason, RefusalReason::Open);
}

/// S080: the rate climbs again between bursts of failures.
#[test]
fn a_rate_that_fell_climbs_again() {
    let mut world = World::ocr();
    world.jobs = 100_000;
    world.trip();
    world.cool_down();
    world.call(&success());
    world.call(&success());
    world.call(&failure(Class::ServerError));
    world.wait(millis(1));
    world.call(&failure(Class::ServerError));
    assert_eq!(world.status().ramp_per_sec, Some(0.25));
    for _ in 0..6 {
        world.wait(secs(30));
        let job = world.ask(Ask::Job).unwrap();
        world.settle(&job, &success());
    }
    assert!(world.status().ramp_per_sec.unwrap() >= 4.0);
}

/// Callers that died while they waited do not keep a ramp alive.
#[test]
fn those_who_never_come_back_are_forgotten() {
    let mut world = World::ocr();
    world.call(&hinted(Class::RateLimited, world.now, secs(20)));
    world.hold_back(40);
    world.wait(secs(20));
    assert!(world.status().ramp_per_sec.is_some());
    world.wait(secs(60));
    let status = world.status();
    assert_eq!((status.ramp_per_sec, status.waiting), (None, 0));
}

#[test]
fn fresh_calls_pass_while_a_ramp_is_on() {
    let mut world = World::ocr();
    world.jobs = 100;
    world.trip();
    world.cool_down();
    world.call(&success());
    world.call(&success());
    for _ in 0..100 {
        world.call(&success());
    }
}

/// A slot handed out at a rate that no longer holds is void.
#[test]
fn slots_of_an_older_schedule_are_void() {
    let mut world = World::ocr();
    world.jobs = 100;
    world.trip();
    world.cool_down();
    world.call(&success());
    world.call(&success());
    world.hold_back(2);
    let first = world.ask(Ask::Waited(None)).unwrap();
    world.settle(&first, &success());
    let slot = world.ask(Ask::Waited(None)).unwrap_err().slot.unwrap();
    world.call(&failure(Class::ServerError));
    world.wait_until(slot.at);
    let again = world.ask(Ask::Waited(Some(slot))).unwrap_err();
    assert_eq!(again.reason, RefusalReason::Ramp);
    assert!(again.retry_at.unwrap() > slot.at);
}
