//! The disk of the store is full, and has room again.

use std::time::{Duration, Instant};

use crate::disk::OnDisk;
use crate::ledger::{all_done, audited, becomes, invoices, job, opens_for, queue, queueing, send, word};
use crate::stub::{Gate, Reply, Stub};
use crate::world::{Starting, command, policy, until};

/// A gateway with a dependency that queues and one that needs no queue, on a disk of its own.
fn start(stub: &Stub, well: &Stub, keys: &str) -> OnDisk {
    let more = format!("  - name: well\n    upstream: {}\n    profile: generic\n    timeout_ms: 5000\n", well.url());
    OnDisk::start(&(policy(&stub.url(), &queueing(keys)) + &more))
}

/// Sends invoices until three in a row are refused; returns the jobs of the others and the refusals. What is smaller than
/// what was refused may still find room.
fn refused(place: &OnDisk, name: &str, pad: &str) -> (Vec<String>, Vec<crate::client::Answer>) {
    let (mut ids, mut refusals) = (Vec::new(), Vec::new());
    for n in 0..500 {
        let body = format!("{{\"invoice\":\"{name}-{n}\",\"pad\":\"{pad}\"}}");
        let answer = place.gateway.post("/d/up/invoices", &body);
        if answer.status == 202 {
            ids.push(word(&answer.json()["id"]));
            refusals.clear();
        } else {
            refusals.push(answer);
        }
        if refusals.len() == 3 {
            return (ids, refusals);
        }
    }
    panic!("a full disk takes 500 jobs");
}

/// S009, S162: calls are refused with the reason, nothing acknowledged is lost, whoever starts comes up, what needs no
/// queue goes on, it is said once, and with room everything goes on by itself.
#[test]
fn a_full_disk_refuses_and_loses_nothing_and_is_over_when_there_is_room() {
    let (stub, well) = (Stub::start(), Stub::start());
    let place = start(&stub, &well, &opens_for(600.0));
    let gateway = &place.gateway;
    stub.then([Reply::new().reset()]);
    assert_eq!(gateway.post("/d/up/trip", "{}").problem(), "outcome_unknown");
    until("the breaker is open", || gateway.ask("GET", "/circuits", &[], "").text().contains("\"open\""));
    let mut ids: Vec<String> = (0..3).map(|n| queue(gateway, &format!("inv-{n}"))).collect();
    place.fill();
    let began = Instant::now();
    // A small body lies in the database, a large one in a file beside it.
    for (name, pad) in [("large", "x".repeat(200_000)), ("small", "x".repeat(2000))] {
        let (taken, refusals) = refused(&place, name, &pad);
        ids.extend(taken);
        for answer in refusals {
            if place.is_one() {
                assert_eq!((answer.status, answer.problem().as_str()), (507, "storage_full"), "{}", answer.text());
                assert!(answer.text().contains("full"), "{}", answer.text());
            } else {
                let told = answer.problem();
                assert!(matches!(told.as_str(), "not_durable" | "storage_full"), "{}", answer.text());
            }
            assert!(answer.field("retry-after").is_some() && answer.field("location").is_none(), "{}", answer.head);
        }
    }
    until("it is not ready", || gateway.ask("GET", "/readyz", &[], "").status == 503);
    assert_eq!(gateway.ask("GET", "/healthz", &[], "").status, 200);
    assert_eq!(gateway.ask("GET", "/metrics", &[], "").status, 200);
    assert_eq!(gateway.ask("GET", "/jobs", &[], "").json()["jobs"].as_array().unwrap().len(), ids.len());
    assert_eq!(gateway.get("/d/well/x").status, 200, "what needs no queue goes on");
    if place.is_one() {
        // A command that would be kept is not, and says why by its own code.
        let words = ["run", "--policy", "policy.yaml", "--dep", "up", "--on-open", "queue", "-n", "--", "true"];
        let output = command(&gateway.path(""), &words.map(str::to_owned))
            .env("HALFOPEN_STORE", place.store())
            .output()
            .unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(74), 0), "{told}");
        assert!(told.contains("the disk is full"), "{told}");
        // Whoever starts on a full disk comes up.
        let other = Starting::beside(gateway).variable("HALFOPEN_STORE", place.store().to_str().unwrap()).start();
        assert_eq!(other.ask("GET", "/healthz", &[], "").status, 200);
    }
    until("it was tried again and again", || {
        refused(&place, "again", &"x".repeat(2000));
        began.elapsed() > Duration::from_secs(3)
    });
    // Also where nothing is to be written: a look that writes finds it.
    until("its log says so", || gateway.said().contains("the store can only be read"));
    let lines = gateway.said().lines().filter(|line| line.contains("store") || line.contains("full")).count();
    assert!((1..=4).contains(&lines), "said {lines} times:\n{}", gateway.said());
    place.free();
    until("it is ready", || gateway.ask("GET", "/readyz", &[], "").status == 200);
    ids.push(queue(gateway, "inv-after"));
    assert_eq!(gateway.ask("POST", "/circuits/up/reset", &[], r#"{"reason":"room"}"#).status, 200);
    all_done(gateway, &ids);
    let seen = invoices(&stub);
    assert!(seen.len() == ids.len() && seen.values().all(|times| *times == 1), "{} jobs, {seen:?}", ids.len());
    audited(gateway);
}

/// S007 for a full disk: what was executed while its end cannot be kept is kept when there is room within the lease, and
/// is executed once.
#[test]
fn an_end_that_finds_the_disk_full_is_kept_when_there_is_room() {
    let (stub, well) = (Stub::start(), Stub::start());
    let place = start(&stub, &well, "lease_sec: 20");
    let gateway = &place.gateway;
    let gate = Gate::default();
    stub.then([Reply::new().gate(&gate).and_full(200, &[], &[b'x'; 100_000])]);
    let id = word(&send(gateway, "inv-1", &[("prefer", "respond-async")]).json()["id"]);
    until("it is under way", || stub.seen().len() == 1);
    place.fill();
    gate.open();
    let began = Instant::now();
    until("its end was tried to be kept", || began.elapsed() > Duration::from_secs(1));
    assert_eq!(job(gateway, &id)["state"], "running");
    place.free();
    becomes(gateway, &id, "done");
    assert_eq!(invoices(&stub)["inv-1"], 1);
    audited(gateway);
}
