//! What programs are told of ended jobs: with the end or not at all, to one process at a time, and no more than so many.

use std::time::Duration;

use halfopen::handle::ClaimedAlert;
use halfopen::handle::jobs::NewJob;
use halfopen::store::alerts::{NOTICES_LOOK, NOTICES_MAX};
use halfopen_core::alert::Delivered;
use halfopen_core::event::By;
use halfopen_core::policy::{Policy, Surface};

use crate::jobs::{World, keyed, new_job, on_each_store, policy};
use crate::world::success;

const LEASE: Duration = Duration::from_secs(10);
const CHANNEL: &str = "on_done:ocr/webhook-1";

fn told(new: NewJob) -> NewJob {
    NewJob { on_done: true, caller: Some("billing".to_owned()), ..new }
}

fn claim(world: &World) -> Vec<ClaimedAlert> {
    world.door.claim_notices("ocr", &[CHANNEL.to_owned()], LEASE, 100).expect("the store serves")
}

fn finish(world: &World, claimed: &ClaimedAlert, how: Delivered) -> bool {
    let policy = Policy::built_in("halfopen-alerts", Surface::Serve);
    world.door.finish_alert(claimed, &[(CHANNEL.to_owned(), how)], &policy).expect("the store serves")
}

fn is_due(world: &World) -> bool {
    world.door.has_due_notices(["ocr"].into_iter())
}

/// One process has it at a time; one that dies leaves it to the next under the same name; what is told is gone and counted.
#[test]
fn an_ended_job_is_handed_out_once_until_its_lease_is_over() {
    on_each_store(|world| {
        world.enqueue_as(told(keyed(b"x", "inv-7")));
        let quiet = world.enqueue_as(new_job(b"y"));
        assert!(!is_due(world), "nothing has ended");
        let lease = world.taken();
        world.finish(&lease, &success());
        let by = By { who: "ann".to_owned(), reason: String::new() };
        world.door.cancel_job(quiet, &policy(), &by).unwrap();
        assert!(is_due(world) && !world.door.has_due_alerts(), "it is no alert to an owner");
        assert!(!world.door.has_due_notices(["crm"].into_iter()));
        let first = claim(world);
        let [claimed] = first.as_slice() else { panic!("{first:?}") };
        let end = claimed.alert.job.as_deref().unwrap();
        assert_eq!((end.state.as_str(), end.id.clone()), ("done", lease.id.to_string()));
        assert_eq!((end.caller.as_deref(), end.key.as_deref()), (Some("billing"), Some("inv-7")));
        assert!(claim(world).is_empty() && !is_due(world), "somebody has it");
        world.advance(LEASE.as_secs());
        let again = claim(world);
        assert_eq!(again[0].alert.id, claimed.alert.id, "the same name");
        assert!(!finish(world, claimed, Delivered::Yes), "the first has lost it");
        let not_now = Delivered::NotNow { error: "away".to_owned(), wait: None };
        assert!(finish(world, &again[0], not_now));
        assert!(claim(world).is_empty(), "not before its time");
        world.advance(2);
        let third = claim(world);
        assert!(finish(world, &third[0], Delivered::Yes));
        world.advance(3600);
        assert!(claim(world).is_empty());
        let figures = world.door.notice_figures().unwrap()["ocr"];
        assert_eq!((figures.waiting, figures.told, figures.given_up, figures.dropped), (0, 1, 0, 0));
        assert!(world.door.alerts(10).unwrap().is_empty());
    });
}

/// A job that is requeued ends twice, and both ends are told, under two names.
#[test]
fn each_end_of_a_job_is_told() {
    on_each_store(|world| {
        let id = world.enqueue_as(told(new_job(b"x")));
        world.advance(1800);
        world.sweep();
        let by = By { who: "ann".to_owned(), reason: String::new() };
        world.door.requeue_job(id, &policy(), None, false, &by).unwrap();
        let lease = world.taken();
        world.finish(&lease, &success());
        let ends = claim(world);
        let states: Vec<&str> =
            ends.iter().filter_map(|claimed| Some(claimed.alert.job.as_ref()?.state.as_str())).collect();
        assert_eq!(states, ["expired", "done"]);
        assert_ne!(ends[0].alert.id, ends[1].alert.id);
        assert!(finish(world, &ends[0], Delivered::Never { error: "gone".to_owned() }));
        assert_eq!(world.door.notice_figures().unwrap()["ocr"].given_up, 1);
    });
}

/// A receiver that is away does not fill the store: the oldest are dropped, counted, and told to the journal.
#[test]
fn no_more_than_so_many_jobs_wait_to_be_told() {
    let world = World::new("memory");
    let all = NOTICES_MAX as u64 + 3 * NOTICES_LOOK;
    for _ in 0..all {
        world.enqueue_as(told(new_job(b"")));
    }
    world.advance(1800);
    for _ in 0..4 {
        world.sweep();
    }
    let figures = world.door.notice_figures().unwrap()["ocr"];
    assert_eq!(figures.waiting + figures.dropped, all);
    assert!(figures.waiting < NOTICES_MAX as u64 + NOTICES_LOOK, "{figures:?}");
    let journal: u64 = world.events("on_done_dropped").iter().filter_map(|event| event.details["jobs"].as_u64()).sum();
    assert_eq!(journal, figures.dropped);
    // Beyond a day nobody waits for it any more.
    world.advance(25 * 3600);
    let new: Vec<_> = (0..NOTICES_LOOK).map(|_| world.enqueue_as(told(new_job(b"")))).collect();
    world.advance(1800);
    for _ in 0..4 {
        world.sweep();
    }
    let figures = world.door.notice_figures().unwrap()["ocr"];
    assert!(figures.waiting <= new.len() as u64, "{figures:?}");
}
