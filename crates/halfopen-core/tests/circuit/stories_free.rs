//! Stories of what needs no lock: answers from a snapshot, verdicts that change nothing, and how long a permit counts.

use halfopen_core::circuit::Peek;
use halfopen_core::event::State;
use halfopen_core::permit::{Ask, Permit, PermitKind};
use halfopen_core::verdict::{Class, Verdict};

use crate::world::{World, failure, hinted, millis, secs, success};

fn peek(world: &mut World, ask: Ask) -> Peek {
    let chance = world.chance();
    world.circuit.peek(&world.policy, ask, world.now, chance)
}

fn kind_of(peek: &Peek) -> Option<PermitKind> {
    match peek {
        Peek::Granted(permit) => Some(permit.kind),
        Peek::Refused(_) | Peek::MustLock => None,
    }
}

fn is_free(world: &World, permit: &Permit, verdict: &Verdict) -> bool {
    world.circuit.settles_for_free(&world.policy, permit, verdict, world.now)
}

#[test]
fn whoever_waited_is_let_through_without_a_lock_where_nobody_is_counted() {
    let mut world = World::ocr();
    assert_eq!(kind_of(&peek(&mut world, Ask::Waited(None))), Some(PermitKind::Regular));
    assert_eq!(kind_of(&peek(&mut world, Ask::Job)), Some(PermitKind::Regular));
    // With a ramp on, its turn must be written down.
    world.hold_back(1);
    assert_eq!(peek(&mut world, Ask::Waited(None)), Peek::MustLock);
    assert_eq!(peek(&mut world, Ask::Job), Peek::MustLock);
    assert_eq!(kind_of(&peek(&mut world, Ask::Fresh)), Some(PermitKind::Regular));
}

#[test]
fn a_hold_lets_through_without_a_lock_unless_a_caller_must_be_counted_off() {
    let mut world = World::ocr();
    world.hold(State::Closed, None);
    for ask in [Ask::Fresh, Ask::Job, Ask::Waited(None)] {
        assert_eq!(kind_of(&peek(&mut world, ask)), Some(PermitKind::Held));
    }
    world.hold_back(1);
    assert_eq!(kind_of(&peek(&mut world, Ask::Fresh)), Some(PermitKind::Held));
    assert_eq!(kind_of(&peek(&mut world, Ask::Job)), Some(PermitKind::Held));
    assert_eq!(peek(&mut world, Ask::Waited(None)), Peek::MustLock);
    let _ = world.ask(Ask::Waited(None)).unwrap();
    assert_eq!(world.status().waiting, 0);
}

#[test]
fn what_is_only_noted_is_free_unless_it_failed() {
    let mut world = World::ocr();
    world.hold(State::Closed, None);
    let held = world.admit();
    let mut early = World::ocr();
    early.trip();
    early.cool_down();
    let probe = early.admit();
    assert!(!is_free(&early, &probe, &success()), "the verdict of a probe always counts");
    let judged = early.settle_early(&probe);
    for (world, permit) in [(&world, &held), (&early, &judged)] {
        assert!(is_free(world, permit, &success()));
        assert!(is_free(world, permit, &failure(Class::InvalidRequest)));
        assert!(!is_free(world, permit, &failure(Class::ServerError)));
        assert!(!is_free(world, permit, &failure(Class::Auth)));
    }
}

#[test]
fn only_the_first_success_after_an_episode_has_something_to_clear() {
    let mut world = World::ocr();
    world.call(&hinted(Class::RateLimited, world.now, secs(1)));
    world.wait(secs(1));
    let (first, second) = (world.admit(), world.admit());
    assert!(!is_free(&world, &first, &success()));
    world.settle(&first, &success());
    assert!(is_free(&world, &second, &success()));
}

#[test]
fn a_permit_counts_until_a_minute_after_its_timeout_and_not_at_that_instant() {
    let mut world = World::ocr();
    let regular = world.admit();
    world.hold(State::Closed, None);
    let held = world.admit();
    for permit in [&regular, &held] {
        assert_eq!(permit.expires_at, world.now + secs(8 + 60));
        assert!(world.circuit.is_live(permit, permit.expires_at - millis(1)));
        assert!(!world.circuit.is_live(permit, permit.expires_at));
    }
}

#[test]
fn what_was_judged_early_goes_on_for_as_long_as_any_attempt() {
    let mut world = World::ocr();
    world.trip();
    world.cool_down();
    let probe = world.admit();
    world.wait(secs(7));
    let further = world.settle_early(&probe);
    assert_eq!(further.expires_at, world.now + secs(8 + 60));
    world.wait(secs(67));
    world.settle(&further, &failure(Class::ServerError));
    assert_eq!(world.state(), State::Open, "it still counts");
}
