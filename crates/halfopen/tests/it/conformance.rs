//! The contract of `store/mod.rs`, run on every kind of store.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use halfopen::clock::Clock;
use halfopen::store::{EventFilter, Location, Store, StoreError};
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;

use crate::world::{NOON_MS, Place, circuit, event, id, mark};

/// Runs `test` on a new store of every kind.
fn on_each_store(test: impl Fn(&Store, &Place)) {
    for kind in ["memory", "sqlite"] {
        let place = Place::new();
        let location = if kind == "memory" { Location::Memory } else { place.location() };
        let store = Store::open(&location, &Clock::manual(&place.machine)).unwrap();
        test(&store, &place);
    }
}

fn save(store: &Store, name: &str, n: u32) {
    store.transact(|txn| txn.save(&id(name), &circuit(n), None)).unwrap();
}

fn marks(store: &Store, names: &[&str]) -> Vec<Option<u32>> {
    let ids: Vec<_> = names.iter().map(|name| id(name)).collect();
    let ids: Vec<_> = ids.iter().collect();
    store.load(&ids).unwrap().iter().map(|found| found.as_ref().map(mark)).collect()
}

fn times(events: &[EventRecord]) -> Vec<i64> {
    events.iter().map(|event| event.at_ms).collect()
}

#[test]
fn saved_circuits_are_loaded_in_the_order_asked_for() {
    on_each_store(|store, _| {
        for (n, name) in ["a", "b@region=eu", "c", "d", "e", "f"].into_iter().enumerate() {
            save(store, name, n as u32 + 1);
        }
        assert_eq!(marks(store, &["c", "nobody", "b@region=eu"]), [Some(3), None, Some(2)]);
        assert_eq!(
            marks(store, &["f", "e", "d", "c", "b@region=eu", "a", "a"]),
            [Some(6), Some(5), Some(4), Some(3), Some(2), Some(1), Some(1)]
        );
        assert_eq!(marks(store, &[]), []);
    });
}

#[test]
fn saving_again_replaces() {
    on_each_store(|store, place| {
        save(store, "a", 1);
        place.machine.advance(Duration::from_secs(5));
        save(store, "a", 2);
        let all = store.all().unwrap();
        assert_eq!(all.len(), 1);
        assert_eq!(mark(&all[0].circuit), 2);
        assert_eq!(all[0].updated_at, Timestamp::from_millis(NOON_MS + 5000));
    });
}

#[test]
fn transaction_sees_its_own_changes_and_one_instant() {
    on_each_store(|store, place| {
        save(store, "gone", 1);
        store
            .transact(|txn| {
                let now = txn.now();
                assert_eq!(now, Timestamp::from_millis(NOON_MS));
                txn.save(&id("a"), &circuit(7), None)?;
                txn.remove(&id("gone"))?;
                place.machine.advance(Duration::from_secs(1));
                assert_eq!(txn.load(&id("a"))?.as_ref().map(mark), Some(7));
                assert!(txn.load(&id("gone"))?.is_none());
                assert_eq!(txn.all()?.len(), 1);
                assert_eq!(txn.now(), now);
                Ok(())
            })
            .unwrap();
        assert_eq!(marks(store, &["a", "gone"]), [Some(7), None]);
    });
}

/// S155: the error that is told is the first one, and the store goes on.
#[test]
fn failed_transaction_changes_nothing() {
    on_each_store(|store, _| {
        save(store, "a", 1);
        let error = store
            .transact(|txn| {
                txn.save(&id("a"), &circuit(2), None)?;
                txn.remove(&id("a"))?;
                txn.append(&event("a", NOON_MS, "open"))?;
                Err::<(), _>(StoreError::Lost("the fault".into()))
            })
            .unwrap_err();
        assert_eq!(error.to_string(), "the fault");
        assert_eq!(marks(store, &["a"]), [Some(1)]);
        assert_eq!(store.events(&EventFilter::default()).unwrap(), []);
        save(store, "a", 3);
    });
}

#[test]
fn panic_in_a_transaction_changes_nothing_and_blocks_nobody() {
    on_each_store(|store, _| {
        save(store, "a", 1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            store.transact(|txn| -> Result<(), StoreError> {
                txn.save(&id("a"), &circuit(2), None)?;
                panic!("on purpose")
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(marks(store, &["a"]), [Some(1)]);
        save(store, "a", 3);
        assert_eq!(marks(store, &["a"]), [Some(3)]);
    });
}

/// S055 within one process.
#[test]
fn transactions_of_many_threads_lose_no_update() {
    on_each_store(|store, _| {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let add = store.transact(|txn| {
                            let n = txn.load(&id("a"))?.as_ref().map_or(0, mark);
                            txn.save(&id("a"), &circuit(n + 1), None)
                        });
                        add.unwrap();
                    }
                });
            }
        });
        assert_eq!(marks(store, &["a"]), [Some(200)]);
    });
}

#[test]
fn partitions_are_those_of_one_dependency_without_its_whole() {
    on_each_store(|store, _| {
        for name in ["ocr", "ocr@region=eu", "ocr@credential=main", "ocr-2@region=eu", "ocrA@region=eu", "oc@x=y"] {
            save(store, name, 1);
        }
        let partitions = store.transact(|txn| txn.partitions("ocr")).unwrap();
        let names: Vec<_> = partitions.iter().map(|stored| stored.id.to_string()).collect();
        assert_eq!(names, ["ocr@credential=main", "ocr@region=eu"]);
        let all: Vec<_> = store.all().unwrap().iter().map(|stored| stored.id.to_string()).collect();
        assert_eq!(all.len(), 6);
    });
}

#[test]
fn circuits_are_due_from_their_wake_on() {
    on_each_store(|store, place| {
        let save = |name: &str, wake_ms: Option<i64>| {
            let wake_at = wake_ms.map(|ms| Timestamp::from_millis(NOON_MS + ms));
            store.transact(|txn| txn.save(&id(name), &circuit(1), wake_at)).unwrap();
        };
        save("a", Some(2000));
        save("b", None);
        save("c", Some(1000));
        let due = |max| store.due(max).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(due(9), Vec::<String>::new());
        place.machine.advance(Duration::from_secs(1));
        assert_eq!(due(9), ["c"]);
        place.machine.advance(Duration::from_secs(1));
        assert_eq!((due(9), due(1)), (vec!["a".to_owned(), "c".to_owned()], vec!["a".to_owned()]));
        save("a", None);
        assert_eq!(due(9), ["c"]);
    });
}

#[test]
fn events_come_back_in_the_order_of_their_commits() {
    on_each_store(|store, _| {
        for at_ms in [3, 1, 2] {
            store.transact(|txn| txn.append(&event("a", at_ms, "closed"))).unwrap();
        }
        assert_eq!(times(&store.events(&EventFilter::default()).unwrap()), [3, 1, 2]);
    });
}

#[test]
fn events_are_filtered_and_the_newest_win() {
    on_each_store(|store, _| {
        let append = |dependency: &str, at_ms, to_state: &str| {
            store.transact(|txn| txn.append(&event(dependency, at_ms, to_state))).unwrap();
        };
        append("a", 1, "closed");
        append("a", 2, "open");
        append("b", 3, "open");
        append("a", 4, "closed");
        let events = |filter: EventFilter| times(&store.events(&filter).unwrap());
        assert_eq!(events(EventFilter { dependency: Some("a".into()), ..Default::default() }), [1, 2, 4]);
        assert_eq!(events(EventFilter { since_ms: Some(3), ..Default::default() }), [3, 4]);
        assert_eq!(events(EventFilter { transitions_only: true, ..Default::default() }), [2, 3]);
        assert_eq!(events(EventFilter { limit: 2, ..Default::default() }), [3, 4]);
        let all = EventFilter { dependency: Some("a".into()), since_ms: Some(2), transitions_only: true, limit: 1 };
        assert_eq!(events(all), [2]);
    });
}

/// A listener that was away goes on where it stopped, and misses nothing.
#[test]
fn events_behind_a_position_come_oldest_first() {
    on_each_store(|store, _| {
        assert_eq!(store.journal_end().unwrap(), 0);
        for (dependency, at_ms, to_state) in [("a", 1, "open"), ("b", 2, "closed"), ("a", 3, "closed")] {
            store.transact(|txn| txn.append(&event(dependency, at_ms, to_state))).unwrap();
        }
        let after = |position: i64, filter: &EventFilter| store.events_after(position, filter).unwrap();
        let all = after(0, &EventFilter::default());
        let seen: Vec<i64> = all.iter().map(|entry| entry.event.at_ms).collect();
        assert_eq!(seen, [1, 2, 3]);
        assert!(all.is_sorted_by(|a, b| a.position < b.position));
        assert_eq!(store.journal_end().unwrap(), all[2].position);
        assert_eq!(after(all[0].position, &EventFilter::default()), all[1..]);
        assert_eq!(after(0, &EventFilter { limit: 1, ..Default::default() }), all[..1]);
        let of_a = EventFilter { dependency: Some("a".into()), ..Default::default() };
        assert_eq!(after(all[0].position, &of_a), all[2..]);
        assert_eq!(after(all[2].position, &EventFilter::default()), []);
    });
}

#[test]
fn old_events_of_one_dependency_are_removed_a_few_at_a_time() {
    on_each_store(|store, _| {
        store
            .transact(|txn| {
                for at_ms in 0..40 {
                    txn.append(&event("a", at_ms, "closed"))?;
                }
                txn.append(&event("b", 0, "closed"))
            })
            .unwrap();
        let prune = || store.transact(|txn| txn.prune("a", Timestamp::from_millis(30))).unwrap();
        let left = || store.events(&EventFilter::default()).unwrap().len();
        prune();
        assert!((12..41).contains(&left()), "{}", left());
        for _ in 0..10 {
            prune();
        }
        assert_eq!(left(), 11);
    });
}

/// S030: only events are ever pruned.
#[test]
fn no_clean_up_touches_a_circuit() {
    on_each_store(|store, place| {
        save(store, "a", 1);
        place.machine.advance(Duration::from_secs(400 * 24 * 3600));
        store.transact(|txn| txn.prune("a", txn.now())).unwrap();
        store.tidy().unwrap();
        assert_eq!(marks(store, &["a"]), [Some(1)]);
    });
}

#[test]
fn a_timeline_is_in_the_order_of_instants_and_of_one_dependency() {
    on_each_store(|store, _| {
        // The third was due before the second, and was noted after it.
        for (name, at, to) in [("a", 1, "closed"), ("a", 5, "open"), ("a", 3, "closed"), ("b", 4, "open")] {
            store.transact(|txn| txn.append(&event(name, at, to))).unwrap();
        }
        let timeline = |since: i64, transitions_only: bool, max: usize| {
            times(&store.timeline("a", Timestamp::from_millis(since), transitions_only, max).unwrap())
        };
        assert_eq!(timeline(0, false, 10), [1, 3, 5]);
        assert_eq!(timeline(2, false, 10), [3, 5]);
        assert_eq!(timeline(0, false, 1), [5]);
        assert_eq!(timeline(0, true, 10), [5]);
        assert!(timeline(6, false, 10).is_empty());
    });
}
