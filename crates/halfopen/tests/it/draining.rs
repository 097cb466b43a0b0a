//! What draining does over hours, by the manual clock: what is stale, what fails again and again, what only observes.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use halfopen::handle::jobs::{Claim, NewJob};
use halfopen_core::event::State;
use halfopen_core::job::{JobId, JobState, Safety};
use halfopen_core::outcome::Reached;
use halfopen_core::permit::Ask;
use halfopen_core::policy::{Mode, Policy};
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{Class, Verdict};

use crate::jobs::{World, new_job, policy, terms};
use crate::world::{failure, granted, route, success};

fn verdict(class: Class) -> Verdict {
    Verdict::plain(class, "test/verdict", Reached::Answered)
}

fn trip(world: &World) {
    for _ in 0..5 {
        let pass = granted(world.door.admit(&route("ocr"), &policy(), Ask::Fresh));
        world.door.settle(&route("ocr"), &policy(), pass, &failure());
    }
}

fn now(world: &World) -> Timestamp {
    world.door.clock().now()
}

fn in_a_second(world: &World) -> Timestamp {
    now(world) + Duration::from_secs(1)
}

fn rate(world: &World) -> Option<f64> {
    let circuits = world.door.circuits(&|_| policy()).expect("the store");
    circuits.into_iter().find(|view| view.id.to_string() == "ocr").and_then(|view| view.status.ramp_per_sec)
}

/// Lets time pass to an instant, as far as the manual clock knows.
fn until(world: &World, at: Timestamp) {
    let wait = now(world).until(at).max(Duration::from_millis(1));
    world.place.machine.advance(wait);
}

/// S077: what is past its time is not sent at all, and told together; what times out after the recovery goes back with a
/// pause and not to the head, so the dependency never sees more than the rate.
#[test]
fn stale_work_is_not_sent_and_does_not_feed_the_overload() {
    let world = World::new("memory");
    let long = |n: u32| {
        let terms = halfopen_core::job::Terms { ttl: Duration::from_secs(6 * 3600), ..terms(Safety::Idempotent) };
        NewJob { terms, ..new_job(&n.to_le_bytes()) }
    };
    trip(&world);
    let mut stale: Vec<JobId> = Vec::new();
    let mut fresh: Vec<JobId> = Vec::new();
    for n in 0..300 {
        stale.push(world.enqueue_as(new_job(&[n as u8])));
        fresh.push(world.enqueue_as(long(n)));
    }
    world.advance(3600);
    let mut starts: Vec<(i64, JobId)> = Vec::new();
    let mut timeouts = 0;
    let end = now(&world) + Duration::from_secs(900);
    while now(&world) < end {
        match world.door.claim_job("ocr", &policy(), "w").expect("the store") {
            Claim::Taken(lease) => {
                starts.push((now(&world).as_millis(), lease.id));
                // Just after the recovery calls take longer than they may.
                let slow = (5..9).contains(&starts.len());
                timeouts += u32::from(slow);
                world.finish(&lease, &if slow { verdict(Class::Timeout) } else { success() });
            }
            Claim::Refused { refusal, .. } => until(&world, refusal.retry_at.unwrap_or_else(|| in_a_second(&world))),
            Claim::Nothing { next_at: Some(at) } if at < end => until(&world, at),
            Claim::Nothing { .. } | Claim::Full => break,
        }
    }
    let state = |id: &JobId| world.door.job(*id).expect("the store").expect("the job").view.job.state();
    assert!(stale.iter().all(|id| state(id) == JobState::Expired), "none was sent");
    assert!(fresh.iter().all(|id| state(id) == JobState::Done));
    assert!(starts.iter().all(|(_, id)| !stale.contains(id)));
    assert_eq!((timeouts, starts.len()), (4, 300 + 4));
    let told: u64 = world.events("jobs_expired").iter().filter_map(|event| event.details["jobs"].as_u64()).sum();
    assert_eq!(told, 300, "each once, and together: {}", world.events("jobs_expired").len());
    assert!(world.events("jobs_expired").len() <= 300 / 64 + 1);
    let mut of: BTreeMap<JobId, Vec<i64>> = BTreeMap::new();
    starts.iter().for_each(|(at, id)| of.entry(*id).or_default().push(*at));
    let again: Vec<&Vec<i64>> = of.values().filter(|times| times.len() > 1).collect();
    assert!((1..=4).contains(&again.len()));
    let paused = |times: &Vec<i64>| times.windows(2).all(|pair| pair[1] - pair[0] >= 5_000);
    assert!(again.iter().all(|times| paused(times)), "not at once, and not at the head: {again:?}");
    // Twenty a second at most, and the two probes.
    let burst = starts.windows(23).filter(|window| window[22].0 - window[0].0 < 1_000).count();
    assert_eq!(burst, 0);
    world.audit();
}

/// S080: a short burst of limits every ten minutes lowers the rate, and between two of them it climbs again: the backlog
/// shrinks.
#[test]
fn the_rate_climbs_again_between_small_failures() {
    let world = World::new("memory");
    let mut rules = policy();
    rules.drain.rate_per_sec = 0.25;
    rules.drain.max_per_sec = 1.0;
    rules.retry.max_attempts = NonZeroU32::new(10).expect("ten");
    trip(&world);
    let day = || halfopen_core::job::Terms { ttl: Duration::from_secs(24 * 3600), ..terms(Safety::Idempotent) };
    for n in 0..4000_u32 {
        world.enqueue_as(NewJob { terms: day(), ..new_job(&n.to_le_bytes()) });
    }
    let begin = now(&world);
    let (mut next_burst, mut burst) = (begin + Duration::from_secs(300), 0);
    let (mut rates, mut lowered) = (Vec::new(), 0);
    let mut hour: Vec<f64> = Vec::new();
    while now(&world) < begin + Duration::from_secs(3600) {
        if now(&world) >= next_burst {
            next_burst = now(&world) + Duration::from_secs(600);
            burst = 2;
            rates.extend(hour.drain(..).reduce(f64::max));
        }
        match world.door.claim_job("ocr", &rules, "w").expect("the store") {
            Claim::Taken(lease) => {
                let limited = burst > 0;
                burst -= i32::from(limited);
                lowered += i32::from(limited);
                let verdict = if limited { verdict(Class::RateLimited) } else { success() };
                world.door.note_sending(&lease, &rules).expect("the lease");
                let ending = halfopen::handle::jobs::Ending {
                    verdict,
                    took: Duration::from_millis(1),
                    command: None,
                    result: None,
                };
                world.door.finish_job(&lease, &rules, &ending).expect("the lease");
                hour.extend(rate(&world));
            }
            Claim::Refused { refusal, .. } => until(&world, refusal.retry_at.unwrap_or_else(|| in_a_second(&world))),
            Claim::Nothing { .. } | Claim::Full => world.advance(1),
        }
    }
    let tally = world.door.job_figures().expect("the store")["ocr"].tally;
    assert!(lowered >= 8, "{lowered}");
    assert!(
        rates.len() >= 5 && rates.iter().skip(1).all(|rate| *rate >= 0.5),
        "it climbs in each quiet time: {rates:?}"
    );
    assert!(tally.done > 1800, "twice as many as at the floor: {tally:?}");
    assert_eq!(tally.done + tally.queued + tally.running, 4000, "{tally:?}");
    world.audit();
}

/// Where a policy only observes, a breaker that would be open stops no job, and what the jobs show is kept apart.
#[test]
fn who_only_observes_stops_no_job() {
    let world = World::new("memory");
    let id = world.enqueue_as(new_job(b"x"));
    trip(&world);
    assert!(matches!(world.door.claim_job("ocr", &policy(), "w"), Ok(Claim::Refused { .. })));
    let mut observes = Policy { mode: Mode::Observe, ..policy() };
    observes.circuit.open_after_failures = NonZeroU32::MIN;
    for _ in 0..8 {
        let Ok(Claim::Taken(lease)) = world.door.claim_job("ocr", &observes, "w") else { panic!("it is stopped") };
        assert_eq!((lease.id, lease.route.place.to_string().as_str()), (id, "ocr~observe"));
        world.door.note_sending(&lease, &observes).expect("the lease");
        let ending = halfopen::handle::jobs::Ending {
            verdict: verdict(Class::Overloaded),
            took: Duration::from_millis(1),
            command: None,
            result: None,
        };
        let ended = world.door.finish_job(&lease, &observes, &ending).expect("the lease");
        assert_eq!(ended.state, JobState::Queued);
        until(&world, ended.not_before.unwrap_or_else(|| in_a_second(&world)));
    }
    let circuits = world.door.circuits(&|_| policy()).expect("the store");
    let of = |name: &str| circuits.iter().find(|view| view.id.to_string() == name).map(|view| &view.status);
    assert_eq!(of("ocr~observe").map(|status| status.state), Some(State::Open), "it would have stopped them");
    let heard = of("ocr").and_then(|status| status.last_failure.as_ref()).map(|last| last.class);
    assert_eq!(heard, Some(Class::ServerError), "the other has heard nothing");
}
