//! What a store keeps about alerts, on every kind of store, and how the door hands them out.

use std::time::Duration;

use halfopen::clock::Clock;
use halfopen::handle::{ClaimedAlert, Handle, Route};
use halfopen::store::alerts::OPEN_MAX;
use halfopen::store::{Location, Store, StoreError};
use halfopen_core::alert::{self, Delivered};
use halfopen_core::outcome::Reached;
use halfopen_core::permit::Ask;
use halfopen_core::policy::{Policy, Surface};
use halfopen_core::snapshot::{DeliveryState, PostRecord};
use halfopen_core::verdict::{Class, Verdict};

use crate::world::{Place, id, policy};

const LEASE: Duration = Duration::from_secs(30);

/// Runs `test` with a door on a new store of every kind.
fn at_each_door(test: impl Fn(&Handle, &Place)) {
    for kind in ["memory", "sqlite"] {
        let place = Place::new();
        let location = if kind == "memory" { Location::Memory } else { place.location() };
        test(&Handle::open_with(&location, Clock::manual(&place.machine)).expect("the store serves"), &place);
    }
}

fn owned() -> Policy {
    let mut policy = policy();
    policy.owner = Some("oncall".to_owned());
    policy.circuit.open_after_failures = std::num::NonZeroU32::MIN;
    policy
}

fn channel_policy() -> Policy {
    Policy { owner: Some("oncall".to_owned()), ..Policy::built_in("halfopen-alerts", Surface::Serve) }
}

/// Opens the circuit `ocr`.
fn trip(door: &Handle) {
    let route = Route { place: id("ocr"), account: None };
    let policy = owned();
    let attempt = door.attempt(&route, &policy, Ask::Fresh).expect("the store serves");
    let events = attempt.settle(&Verdict::plain(Class::ServerError, "test", Reached::Answered));
    assert!(events.iter().any(|event| event.event == "tripped"), "{events:?}");
}

fn claim(door: &Handle, channels: &[&str]) -> Vec<ClaimedAlert> {
    let names: Vec<String> = channels.iter().map(|channel| (*channel).to_owned()).collect();
    door.claim_alerts(&|owner| if owner == "oncall" { names.clone() } else { Vec::new() }, LEASE, 16)
        .expect("the store serves")
}

fn finish(door: &Handle, claimed: &ClaimedAlert, channel: &str, how: Delivered) -> bool {
    door.finish_alert(claimed, &[(channel.to_owned(), how)], &channel_policy()).expect("the store serves")
}

fn states(door: &Handle) -> Vec<(String, DeliveryState)> {
    let posts = door.alerts(100).expect("the store serves");
    let all = posts.iter().flat_map(|post| post.deliveries.iter());
    all.map(|delivery| (delivery.channel.clone(), delivery.state)).collect()
}

/// Invariant 5: there is an alert if and only if its event is there.
#[test]
fn an_alert_commits_with_its_event_or_not_at_all() {
    at_each_door(|door, _| {
        assert!(!door.has_due_alerts());
        trip(door);
        assert!(door.has_due_alerts());
        assert_eq!(door.alerts(10).unwrap().len(), 1);
    });
    let place = Place::new();
    let store = place.open().unwrap();
    let undone: Result<(), StoreError> = store.transact(|txn| {
        let post = PostRecord::new(alert::test("oncall", 1, txn.now()));
        assert_eq!(txn.add_post(&post)?, Some(0));
        assert_eq!(txn.add_post(&post)?, None, "one row for one name");
        Err(StoreError::Lost("on purpose".to_owned()))
    });
    assert!(undone.is_err());
    assert!(store.transact(|txn| txn.posts(10)).unwrap().is_empty());
}

/// S183: the right to tell is claimed in the store.
#[test]
fn an_alert_is_handed_out_once_until_its_lease_is_over() {
    at_each_door(|door, place| {
        trip(door);
        let first = claim(door, &["a", "b"]);
        assert_eq!(first.len(), 1);
        assert_eq!(first[0].channels, ["a", "b"]);
        assert!(claim(door, &["a", "b"]).is_empty());
        assert!(!door.has_due_alerts());
        // Its process died: another gets it, under the same name, and the late one has nothing to say any more.
        place.machine.advance(LEASE);
        let second = claim(door, &["a", "b"]);
        assert_eq!(second[0].alert.id, first[0].alert.id);
        assert!(!finish(door, &first[0], "a", Delivered::Yes));
        assert!(finish(door, &second[0], "a", Delivered::Yes));
        assert_eq!(
            states(door),
            [("a".to_owned(), DeliveryState::Delivered), ("b".to_owned(), DeliveryState::Due)],
            "what nobody spoke of is still due"
        );
    });
}

/// S184: what fails stays due, is due later each time, and is over in the end; then the other channels tell.
#[test]
fn a_delivery_that_fails_stays_due_and_what_is_given_up_is_told_by_the_others() {
    at_each_door(|door, place| {
        trip(door);
        let claimed = claim(door, &["a", "b"]);
        finish(door, &claimed[0], "b", Delivered::Yes);
        place.machine.advance(LEASE);
        let claimed = claim(door, &["a", "b"]);
        assert_eq!(claimed[0].channels, ["a"]);
        finish(door, &claimed[0], "a", Delivered::NotNow { error: "500".to_owned(), wait: None });
        assert!(!door.has_due_alerts());
        place.machine.advance(Duration::from_secs(2));
        let claimed = claim(door, &["a", "b"]);
        assert_eq!(claimed[0].channels, ["a"]);
        finish(door, &claimed[0], "a", Delivered::Never { error: "404".to_owned() });
        let failing = claim(door, &["a", "b"]);
        assert_eq!(failing.len(), 1);
        assert_eq!(
            (failing[0].alert.kind.as_str(), &failing[0].channels[..]),
            ("dev.halfopen.alert_failing", &["b".to_owned()][..])
        );
        finish(door, &failing[0], "b", Delivered::Never { error: "404".to_owned() });
        // Nobody is left to tell it, and it does not go round.
        assert!(claim(door, &["a", "b"]).iter().all(|claimed| claimed.channels == ["a"]));
    });
}

/// Whoever does not know the channels leaves alerts to who does; nobody keeps them for ever.
#[test]
fn an_alert_waits_for_somebody_who_knows_its_owner() {
    at_each_door(|door, place| {
        trip(door);
        assert!(claim(door, &[]).is_empty());
        assert_eq!(claim(door, &["a"]).len(), 1);
        place.machine.advance(alert::DELIVER_FOR);
        let old = door.alerts(10).unwrap();
        assert_eq!(old[0].deliveries.len(), 1);
    });
    at_each_door(|door, place| {
        trip(door);
        place.machine.advance(alert::DELIVER_FOR);
        assert!(claim(door, &[]).is_empty());
        assert_eq!(states(door), [("none".to_owned(), DeliveryState::Failed)]);
        assert!(claim(door, &["a"]).is_empty());
    });
}

/// The reminder of an incident comes by whoever sweeps, also after a restart and a reboot with a stepped clock.
#[test]
fn a_reminder_survives_restarts_and_reboots() {
    let place = Place::new();
    let open = || Handle::open_with(&place.location(), Clock::manual(&place.machine)).unwrap();
    let door = open();
    trip(&door);
    finish(&door, &claim(&door, &["a"])[0], "a", Delivered::Yes);
    drop(door);
    place.machine.advance(Duration::from_secs(900));
    let door = open();
    assert!(door.has_due_alerts());
    door.sweep_alerts().unwrap();
    let claimed = claim(&door, &["a"]);
    assert_eq!(claimed[0].alert.kind, "dev.halfopen.circuit.still_open");
    drop(door);
    // Nobody finished it, and the machine comes up a year earlier.
    place.machine.step_wall(-365 * 86_400_000);
    place.machine.reboot("boot-2", Duration::from_secs(10));
    let door = open();
    assert_eq!(claim(&door, &["a"]).len(), 1);
}

#[test]
fn a_condition_is_told_once_while_it_lasts() {
    at_each_door(|door, place| {
        let policy = owned();
        for _ in 0..3 {
            door.note_condition("ocr", &policy, "silent", Some(serde_json::Map::new())).unwrap();
        }
        assert_eq!(door.alerts(10).unwrap().len(), 1);
        door.note_condition("ocr", &policy, "silent", None).unwrap();
        place.machine.advance(Duration::from_secs(1));
        door.note_condition("ocr", &policy, "silent", Some(serde_json::Map::new())).unwrap();
        assert_eq!(door.alerts(10).unwrap().len(), 2, "calls had come between");
    });
}

/// Every queue has a bound.
#[test]
fn no_more_than_so_many_alerts_wait() {
    for in_memory in [true, false] {
        let place = Place::new();
        let location = if in_memory { Location::Memory } else { place.location() };
        let store = Store::open(&location, &Clock::manual(&place.machine)).unwrap();
        let add =
            |n: u64| store.transact(|txn| txn.add_post(&PostRecord::new(alert::test("oncall", n, txn.now())))).unwrap();
        let dropped: usize = (0..OPEN_MAX as u64 + 20).filter_map(add).sum();
        assert_eq!(dropped, 20, "and that is told");
        let open = store.transact(|txn| txn.open_posts()).unwrap();
        assert_eq!(open.len(), OPEN_MAX);
        assert_eq!(open[0].1.alert.event.generation, 20, "the oldest made room");
    }
}
