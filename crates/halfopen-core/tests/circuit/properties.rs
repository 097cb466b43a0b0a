//! The promises, for every walk.

use halfopen_core::chance::Chance;
use halfopen_core::circuit::{Circuit, Peek};
use halfopen_core::event::State;
use halfopen_core::permit::{Admission, Ask, Permit, PermitKind, RefusalReason};
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::{decode, encode};
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::Class;
use proptest::prelude::*;

use crate::holds;
use crate::walk::{Step, Walk, Who};
use crate::world::{World, failure, hinted, millis, secs, success};

fn walks() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..300)
}

fn asked(circuit: &Circuit, policy: &Policy, ask: Ask, now: Timestamp) -> (Admission, Circuit) {
    let mut circuit = circuit.clone();
    let (admission, _) = circuit.admit(policy, ask, now, Chance::from_seed(1));
    (admission, circuit)
}

/// Asks as a fresh call on a copy.
fn admits(circuit: &Circuit, policy: &Policy, now: Timestamp) -> Result<Permit, halfopen_core::permit::Refusal> {
    match asked(circuit, policy, Ask::Fresh, now).0 {
        Admission::Granted(permit) => Ok(permit),
        Admission::Refused(refusal) => Err(refusal),
    }
}

proptest! {
    /// What must hold at every stop, and the naive model beside it.
    #[test]
    fn what_must_always_hold_holds_after_every_step(bytes in walks()) {
        holds::circuit(&bytes);
    }

    /// Refused at every instant before `retry_at`, admitted at it.
    #[test]
    fn a_refusal_ends_exactly_when_it_says(bytes in walks(), part in 0.0..1.0f64) {
        let world = Walk::along(&bytes, |_, _, _| {}).world;
        let (circuit, policy, now) = (&world.circuit, &world.policy, world.now);
        if let Err(refusal) = admits(circuit, policy, now)
            && let Some(retry_at) = refusal.retry_at
        {
            let wait = now.until(retry_at);
            for earlier in [now + wait.mul_f64(part * 0.999), retry_at - millis(1)] {
                if earlier < retry_at {
                    prop_assert!(admits(circuit, policy, earlier).is_err(), "{refusal:?} ended at {earlier:?}");
                }
            }
            let then = circuit.status(policy, retry_at);
            let probes_out = refusal.reason == RefusalReason::ProbesOut || then.probes_in_flight > 0;
            if !probes_out {
                prop_assert!(admits(circuit, policy, retry_at).is_ok(), "{refusal:?} did not end: {then:?}");
            }
        }
    }

    #[test]
    fn the_next_wake_is_the_first_instant_at_which_time_changes_anything(bytes in walks()) {
        Walk::along(&bytes, |walk, _, _| {
            let (mut circuit, policy) = (walk.world.circuit.clone(), &walk.world.policy);
            circuit.expire(policy, walk.world.facts(), walk.world.now);
            // The number of jobs is a fact of the world, not of time: it is told once, and then only time passes.
            let facts = halfopen_core::circuit::Facts { jobs_queued: walk.world.jobs };
            for _ in 0..20 {
                let before = circuit.clone();
                match circuit.next_wake(policy) {
                    None => {
                        assert!(circuit.expire(policy, facts, Timestamp::MAX).is_empty());
                        assert_eq!(circuit, before);
                        return;
                    }
                    Some(wake) => {
                        assert!(circuit.expire(policy, facts, wake.at - millis(1)).is_empty(), "{wake:?}");
                        assert_eq!(circuit, before, "{wake:?} came too late");
                        circuit.expire(policy, facts, wake.at);
                        assert_ne!(circuit, before, "{wake:?} changed nothing");
                    }
                }
            }
        });
    }

    #[test]
    fn time_passes_the_same_in_one_stride_or_in_many(bytes in walks(), strides in prop::collection::vec(1u64..100_000, 1..20)) {
        let world = Walk::along(&bytes, |_, _, _| {}).world;
        let (mut watched, mut alone) = (world.circuit.clone(), world.circuit.clone());
        let (mut now, mut seen) = (world.now, Vec::new());
        for stride in strides {
            now = now + millis(stride);
            seen.extend(watched.expire(&world.policy, world.facts(), now));
        }
        prop_assert_eq!(alone.expire(&world.policy, world.facts(), now), seen);
        prop_assert_eq!(alone, watched);
    }

    #[test]
    fn what_is_shown_is_what_time_would_have_written(bytes in walks(), later in 0u64..10_000_000) {
        let world = Walk::along(&bytes, |_, _, _| {}).world;
        let now = world.now + millis(later);
        let shown = world.circuit.status(&world.policy, now);
        let mut circuit = world.circuit.clone();
        let _ = circuit.admit(&world.policy, Ask::Fresh, now, Chance::from_seed(3));
        let written = circuit.status(&world.policy, now);
        prop_assert_eq!((shown.state, shown.generation, shown.open_until), (written.state, written.generation, written.open_until));
        prop_assert_eq!((shown.throttled_until, shown.since, shown.ramp_per_sec), (written.throttled_until, written.since, written.ramp_per_sec));
    }

    /// A snapshot answers what the lock would, or says that it cannot.
    #[test]
    fn a_peek_is_what_admit_would_answer_without_a_change(bytes in walks()) {
        Walk::along(&bytes, |walk, step, _| {
            let (circuit, policy, now) = (&walk.world.circuit, &walk.world.policy, walk.world.now);
            let ask = match step {
                Step::Ask(_, Who::Job) => Ask::Job,
                Step::Ask(_, Who::Waiter) => Ask::Waited(None),
                _ => Ask::Fresh,
            };
            let (admission, after) = asked(circuit, policy, ask, now);
            match circuit.peek(policy, ask, now, Chance::from_seed(1)) {
                Peek::MustLock => {}
                Peek::Granted(permit) => {
                    assert_eq!(admission, Admission::Granted(permit));
                    assert_eq!(&after, circuit);
                }
                Peek::Refused(refusal) => {
                    assert_eq!(admission, Admission::Refused(refusal));
                    assert_eq!(&after, circuit);
                }
            }
        });
    }

    #[test]
    fn what_settles_for_free_changes_nothing(bytes in walks(), class in 0..Class::ALL.len(), hint in any::<bool>()) {
        Walk::along(&bytes, |walk, _, _| {
            let (circuit, policy, now) = (&walk.world.circuit, &walk.world.policy, walk.world.now);
            let class = Class::ALL[class];
            let verdict = if hint { hinted(class, now, secs(20)) } else { failure(class) };
            for out in &walk.out {
                if circuit.settles_for_free(policy, &out.permit, &verdict, now) {
                    let mut after = circuit.clone();
                    let events = after.settle(policy, &out.permit, &verdict, walk.world.facts(), now, Chance::from_seed(1));
                    assert_eq!((&after, events), (circuit, Vec::new()), "{verdict:?}");
                }
            }
        });
    }

    /// A stale permit changes no state: only its hint and an exhausted quota count.
    #[test]
    fn a_stale_permit_never_changes_state(bytes in walks(), class in 0..Class::ALL.len(), wait in prop::option::of(0u64..100_000)) {
        Walk::along(&bytes, |walk, _, _| {
            let (policy, now) = (&walk.world.policy, walk.world.now);
            let mut circuit = walk.world.circuit.clone();
            circuit.expire(policy, walk.world.facts(), now);
            let class = Class::ALL[class];
            let verdict = wait.map_or_else(|| failure(class), |wait| hinted(class, now, secs(wait)));
            for out in &walk.out {
                if out.permit.kind == PermitKind::Held || circuit.is_live(&out.permit, now) || class == Class::QuotaExhausted {
                    continue;
                }
                let mut after = circuit.clone();
                after.settle(policy, &out.permit, &verdict, walk.world.facts(), now, Chance::from_seed(1));
                let (was, is) = (circuit.status(policy, now), after.status(policy, now));
                assert_eq!((was.state, was.generation, was.since), (is.state, is.generation, is.since));
                assert_eq!((was.failures_in_window, was.probe_successes), (is.failures_in_window, is.probe_successes));
                assert_eq!((was.probes_in_flight, was.escalation), (is.probes_in_flight, is.escalation));
                assert!(is.open_until >= was.open_until && is.throttled_until >= was.throttled_until);
                if wait.is_none() {
                    assert_eq!(after, circuit);
                }
            }
        });
    }

    #[test]
    fn every_permit_is_settled_or_expires(bytes in walks()) {
        let walk = Walk::along(&bytes, |_, _, _| {});
        let end = walk.world.now + secs(2 * 24 * 3600);
        let mut circuit = walk.world.circuit.clone();
        circuit.expire(&walk.world.policy, walk.world.facts(), end);
        for out in &walk.out {
            prop_assert!(!circuit.is_live(&out.permit, end));
        }
        prop_assert_eq!(circuit.status(&walk.world.policy, end).probes_in_flight, 0);
    }

    /// A hint is never obeyed early, and never beyond the ceiling.
    #[test]
    fn nobody_starts_before_a_stated_wait_is_over(bytes in walks(), wait_ms in 0u64..2_000_000_000, part in 0.0..1.0f64) {
        let mut world = Walk::along(&bytes, |_, _, _| {}).world;
        world.policy.retry.honor_retry_after = true;
        world.release(false);
        if let Ok(permit) = world.ask(Ask::Fresh) {
            let verdict = hinted(Class::RateLimited, world.now, millis(wait_ms));
            world.settle(&permit, &verdict);
            let held = millis(wait_ms).min(world.policy.hint_ceiling);
            let during = world.now + held.mul_f64(part * 0.999);
            if during < world.now + held {
                prop_assert!(admits(&world.circuit, &world.policy, during).is_err());
                prop_assert!(admits(&world.circuit, &world.policy, world.now + held - millis(1)).is_err());
            }
        }
    }

    /// Promise 1: from any state, with a healthy dependency and somebody who asks, traffic flows again.
    #[test]
    fn a_healthy_dependency_is_reached_again_from_every_state(bytes in walks()) {
        let mut world = Walk::along(&bytes, |_, _, _| {}).world;
        // An operator's hold without an end is the one thing that only an operator ends.
        world.release(false);
        let refused_until = |refusal: halfopen_core::permit::Refusal| refusal.retry_at.expect("a refusal has an end");
        // The longest stored wait, then one lease for probes that are out, then one success after another.
        let mut asks = 0;
        while world.state() != State::Closed || admits(&world.circuit, &world.policy, world.now).is_err() {
            asks += 1;
            prop_assert!(asks < 60, "still not closed: {:?}", world.status());
            match world.ask(Ask::Fresh) {
                Ok(permit) => { world.settle(&permit, &success()); }
                Err(refusal) => { world.wait_until(refused_until(refusal)); }
            }
        }
    }

    #[test]
    fn a_reboot_never_puts_the_end_further_away(bytes in walks(), step in -1_000_000_000i64..1_000_000_000) {
        let world = Walk::along(&bytes, |_, _, _| {}).world;
        let rebooted = Timestamp::from_millis(world.now.as_millis() + step);
        let mut circuit = world.circuit.clone();
        circuit.after_reboot(rebooted);
        let (was, is) = (world.status(), circuit.status(&world.policy, rebooted));
        prop_assert!(is.failures_in_window >= was.failures_in_window || step > 0);
        let left = |until: Option<Timestamp>, now: Timestamp| until.map_or(std::time::Duration::ZERO, |at| now.until(at));
        // One whole length at most: what a deadline was set with is all it can still last.
        let longest = world.policy.hint_ceiling.max(secs(3960));
        prop_assert!(left(is.open_until, rebooted) <= longest);
        prop_assert!(left(is.throttled_until, rebooted) <= longest);
        let again = { let mut again = circuit.clone(); again.after_reboot(rebooted); again };
        prop_assert_eq!(again, circuit, "a second look changes nothing");
    }

    #[test]
    fn nothing_written_by_others_makes_reading_panic(text in ".{0,200}", cut in any::<prop::sample::Index>(), bytes in walks()) {
        let _ = decode(&text);
        let stored = encode(&Walk::along(&bytes, |_, _, _| {}).world.circuit);
        let cut = cut.index(stored.len());
        if stored.is_char_boundary(cut) {
            prop_assert!(decode(&stored[..cut]).is_err());
        }
    }

    /// What was held back never starts faster than the ramp's rate, whoever asks and however often.
    #[test]
    fn held_back_starts_are_paced(callers in 1u32..60, asks in prop::collection::vec((0u64..400, 0u8..4), 1..400)) {
        let mut world = World::ocr();
        world.call(&hinted(Class::RateLimited, world.now, secs(20)));
        world.hold_back(callers);
        world.jobs = 1000;
        world.wait(secs(20)).expire();
        let mut starts: Vec<(Timestamp, f64)> = Vec::new();
        let mut slots = Vec::new();
        for (wait, who) in asks {
            world.wait(millis(wait));
            let ask = match who {
                0 => Ask::Job,
                1 => Ask::Waited(None),
                _ => Ask::Waited(slots.pop()),
            };
            let rate = world.status().ramp_per_sec;
            match world.ask(ask) {
                Ok(permit) => {
                    if let Some(rate) = rate && permit.ramped {
                        starts.push((world.now, rate));
                    }
                    world.settle(&permit, &success());
                }
                Err(refusal) => slots.extend(refusal.slot),
            }
        }
        for (index, (at, _)) in starts.iter().enumerate() {
            let within: Vec<_> = starts[index..].iter().take_while(|(later, _)| later.since(*at) < secs(1)).collect();
            let fastest = within.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
            #[expect(clippy::cast_precision_loss, reason = "a handful of starts")]
            let count = within.len() as f64;
            prop_assert!(count <= fastest.ceil() + 2.0, "{count} starts in a second at {fastest} per second");
        }
    }
}
