//! The number of circuits stays bounded, and nothing that matters is forgotten for it.

use std::num::NonZeroU32;
use std::time::Duration;

use halfopen::handle::{Handle, Route};
use halfopen_core::event::State;
use halfopen_core::permit::{Ask, RefusalReason};
use halfopen_core::policy::Policy;
use halfopen_core::snapshot::EventRecord;

use crate::world::{Place, door, failure, granted, policy, refused, route};

fn narrow() -> Policy {
    let mut policy = policy();
    policy.max_partitions = NonZeroU32::new(4).unwrap();
    policy
}

fn part(value: &str) -> Route {
    route(&format!("ocr@region={value}"))
}

fn fail(door: &Handle, route: &Route) -> Vec<EventRecord> {
    let pass = granted(door.admit(route, &narrow(), Ask::Fresh));
    door.settle(route, &narrow(), pass, &failure())
}

fn names(door: &Handle) -> Vec<String> {
    door.circuits(&|_| narrow()).unwrap().iter().map(|view| view.id.to_string()).collect()
}

/// S174.
#[test]
fn many_partitions_fold_into_one_loudly_and_live_ones_stay() {
    let place = Place::new();
    let door = door(&place);
    for _ in 0..5 {
        fail(&door, &part("live"));
    }
    let mut folded = Vec::new();
    for n in 0..7 {
        folded.extend(fail(&door, &part(&format!("hostile-{n}"))));
    }
    assert_eq!(folded.iter().filter(|event| event.event == "partitions_folded").count(), 1);
    assert_eq!(
        names(&door),
        ["ocr@region=hostile-0", "ocr@region=hostile-1", "ocr@region=hostile-2", "ocr@region=live", "ocr@region=other"]
    );
    let refusal = refused(door.admit(&part("live"), &narrow(), Ask::Fresh));
    assert_eq!(refusal.reason, RefusalReason::Open);
    // Who has no record of its own is judged by what it folded into.
    fail(&door, &part("hostile-9"));
    let refusal = refused(door.admit(&part("never-seen"), &narrow(), Ask::Fresh));
    assert_eq!(refusal.reason, RefusalReason::Open);
}

#[test]
fn partition_that_has_nothing_to_say_makes_room() {
    let place = Place::new();
    let door = door(&place);
    for n in 0..4 {
        fail(&door, &part(&format!("old-{n}")));
        place.machine.advance(Duration::from_secs(1));
    }
    place.machine.advance(Duration::from_secs(3600));
    let events = fail(&door, &part("new"));
    assert!(events.iter().all(|event| event.event != "partitions_folded"));
    assert_eq!(names(&door), ["ocr@region=new", "ocr@region=old-1", "ocr@region=old-2", "ocr@region=old-3"]);
}

/// S174: what is open is never what makes room.
#[test]
fn open_partition_is_not_forgotten_for_a_new_one() {
    let place = Place::new();
    let door = door(&place);
    for _ in 0..5 {
        fail(&door, &part("live"));
    }
    for n in 0..100 {
        place.machine.advance(Duration::from_secs(1));
        let route = part(&format!("hostile-{n}"));
        if let halfopen_core::pair::Answer::Granted(pass) = door.admit(&route, &narrow(), Ask::Fresh) {
            door.settle(&route, &narrow(), pass, &failure());
        }
    }
    let views = door.circuits(&|_| narrow()).unwrap();
    assert!(views.len() <= 5);
    let live = views.iter().find(|view| view.id == part("live").place).unwrap();
    assert_eq!(live.status.state, State::Open);
}
