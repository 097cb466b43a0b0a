//! The store cannot be used in the very moment in which a worker records an end, for less than the lease and for more.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::ledger::{audited, becomes, invoices, job, queueing, send, store_file, word};
use crate::stub::{Gate, Reply, Stub};
use crate::world::{Gateway, gateway, until};

/// A job that was sent, and whose answer comes when the gate is opened.
fn under_way(keys: &str) -> (Stub, Gateway, Gate, String) {
    let stub = Stub::start();
    let gateway = gateway(&stub, &queueing(keys));
    let gate = Gate::default();
    stub.then([Reply::new().gate(&gate).and_full(200, &[], b"{}")]);
    let id = word(&send(&gateway, "inv-1", &[("prefer", "respond-async")]).json()["id"]);
    until("it is under way", || stub.seen().len() == 1);
    (stub, gateway, gate, id)
}

/// Another process takes the store's write lock.
fn locked(gateway: &Gateway) -> Connection {
    let other = Connection::open(store_file(gateway)).unwrap();
    other.busy_timeout(Duration::from_secs(10)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    other
}

/// Lets so much time pass: what is tried is how long the store is away.
fn for_as_long_as(length: Duration) {
    let began = Instant::now();
    until("the time is over", || began.elapsed() >= length);
}

/// S007, S022: a store that is held for two seconds, or is away for two seconds, costs nothing.
#[test]
fn an_end_is_kept_when_the_store_is_back_within_the_lease() {
    for away in [false, true] {
        let (stub, gateway, gate, id) = under_way("lease_sec: 30");
        let folder = store_file(&gateway).parent().unwrap().to_owned();
        let aside = gateway.path("aside");
        let other = (!away).then(|| locked(&gateway));
        if away {
            std::fs::rename(&folder, &aside).unwrap();
        }
        gate.open();
        for_as_long_as(Duration::from_secs(2));
        if away {
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::rename(&aside, &folder).unwrap();
        }
        drop(other);
        let shown = becomes(&gateway, &id, "done");
        assert_eq!(shown["history"].as_array().unwrap().len(), 4, "accepted, claimed, noted, done: {shown}");
        assert_eq!(invoices(&stub)["inv-1"], 1);
        audited(&gateway);
    }
}

/// S007, S022: when the lease is over before the end could be recorded, the job waits for a person, who is told that it
/// was executed; it is not executed again, also not when the store was held for longer than a writer's patience.
#[test]
fn an_end_that_cannot_be_kept_within_the_lease_is_a_persons_business() {
    for seconds in [2, 7] {
        let (stub, gateway, gate, id) = under_way("lease_sec: 1\ntimeout_ms: 15000");
        let other = locked(&gateway);
        gate.open();
        for_as_long_as(Duration::from_secs(seconds));
        drop(other);
        let shown = becomes(&gateway, &id, "manual_review");
        assert_eq!((&shown["reason"], &shown["may_have_run"]), (&"worker_died".into(), &true.into()), "{shown}");
        // The worker lives and works on.
        let next = word(&send(&gateway, "inv-2", &[("prefer", "respond-async")]).json()["id"]);
        becomes(&gateway, &next, "done");
        assert_eq!(job(&gateway, &id)["state"], "manual_review");
        let seen = invoices(&stub);
        assert_eq!((seen["inv-1"], seen["inv-2"]), (1, 1));
        assert!(gateway.said().contains(&id), "the worker says which job: {}", gateway.said());
        audited(&gateway);
    }
}
