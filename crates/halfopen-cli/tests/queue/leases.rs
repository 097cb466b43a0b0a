//! Leases: long work, stopped and killed workers, restarts.

use std::time::Duration;

use rustix::process::Signal;

use crate::ledger::{all_done, audited, becomes, invoices, job, opened, opens_for, queueing, send, state, word};
use crate::stub::{Reply, Stub};
use crate::world::{Gateway, Starting, gateway, until};

/// A policy whose leases are short.
fn short() -> String {
    queueing("lease_sec: 1\ntimeout_ms: 15000")
}

/// Queues an invoice whose answer does not come, and waits until it is under way.
fn under_way(stub: &Stub, gateway: &Gateway) -> String {
    stub.then([Reply::new().hang()]);
    let id = asynchronous(gateway, "inv-1");
    until("it is under way", || stub.seen().len() == 1);
    id
}

fn asynchronous(gateway: &Gateway, invoice: &str) -> String {
    word(&send(gateway, invoice, &[("prefer", "respond-async")]).json()["id"])
}

/// S003, S071: work longer than its lease is done once, and nothing is locked meanwhile.
#[test]
fn work_that_outlasts_its_lease_is_done_once() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &short());
    let _other = Starting::beside(&gateway).start();
    stub.then([Reply::new().wait(Duration::from_millis(3200)).and_full(200, &[], b"{}")]);
    let id = asynchronous(&gateway, "inv-1");
    until("it is under way", || stub.seen().len() == 1);
    let second = asynchronous(&gateway, "inv-2");
    becomes(&gateway, &second, "done");
    assert_eq!(state(&gateway, &id), "running");
    becomes(&gateway, &id, "done");
    assert_eq!(invoices(&stub)["inv-1"], 1);
    audited(&gateway);
}

/// S002: what was under way when its worker was killed goes to a person, within its lease.
#[test]
fn a_killed_worker_leaves_its_job_to_a_person() {
    let stub = Stub::start();
    let mut gateway = gateway(&stub, &short());
    let id = under_way(&stub, &gateway);
    let again = Starting::beside(&gateway);
    gateway.signal(Signal::KILL);
    gateway.ended();
    let gateway = again.start();
    let shown = becomes(&gateway, &id, "manual_review");
    assert_eq!((&shown["reason"], &shown["may_have_run"]), (&"worker_died".into(), &true.into()));
    assert_eq!(invoices(&stub)["inv-1"], 1);
    audited(&gateway);
}

/// S046: with one attempt allowed, a killed gateway costs nothing to jobs that it had claimed and not sent.
#[test]
fn a_gateway_that_is_killed_before_it_sends_costs_its_jobs_nothing() {
    let (stub, health) = (Stub::start(), Stub::start());
    // Asked between the claim of a probe and its sending.
    health.always(Reply::new().hang());
    let circuit = opens_for(0.2).replace("half_open_max_calls", "probe_lease_sec: 1, half_open_max_calls");
    let keys = format!("lease_sec: 1\nprobe: {}/health\n{circuit}", health.url());
    let mut gateway = opened(&stub, &queueing(&keys));
    let ids: Vec<String> = (0..3).map(|n| asynchronous(&gateway, &format!("inv-{n}"))).collect();
    until("a probe is under way", || health.seen().len() == 1);
    // What may not be repeated is a probe alone.
    let claimed: Vec<_> = ids.iter().filter(|id| state(&gateway, id) == "running").collect();
    assert_eq!(claimed.len(), 1);
    let again = Starting::beside(&gateway);
    gateway.signal(Signal::KILL);
    gateway.ended();
    health.always(Reply::ok("{}"));
    let gateway = again.start();
    all_done(&gateway, &ids);
    for id in claimed {
        let shown = job(&gateway, id);
        assert_eq!((&shown["attempts"], &shown["sent"], &shown["interrupted"]), (&0.into(), &1.into(), &1.into()));
    }
    assert!(invoices(&stub).values().all(|times| *times == 1));
    audited(&gateway);
}

/// S006: a worker that stood still for longer than its lease changes nothing when it goes on.
#[test]
fn a_worker_that_lost_its_lease_changes_nothing() {
    let stub = Stub::start();
    let frozen = gateway(&stub, &short());
    stub.then([Reply::new().wait(Duration::from_millis(300)).and_full(200, &[], b"{}")]);
    let id = asynchronous(&frozen, "inv-1");
    until("it is under way", || stub.seen().len() == 1);
    frozen.signal(Signal::STOP);
    let other = Starting::beside(&frozen).start();
    becomes(&other, &id, "manual_review");
    frozen.signal(Signal::CONT);
    until("the late result is evidence", || {
        let history = job(&other, &id)["history"].to_string();
        history.contains("late_result")
    });
    let shown = job(&other, &id);
    assert_eq!((&shown["state"], &shown["reason"]), (&"manual_review".into(), &"worker_died".into()));
    assert_eq!(invoices(&stub)["inv-1"], 1);
    assert!(frozen.said().contains("the lease of job"), "{}", frozen.said());
    audited(&other);
}

/// S137: what is under way is finished within the grace, and nothing more is claimed.
#[test]
fn a_gateway_that_ends_finishes_what_it_holds() {
    let stub = Stub::start();
    let mut gateway = gateway(&stub, &short());
    stub.then([Reply::new().wait(Duration::from_millis(600)).and_full(200, &[], b"{}")]);
    let id = asynchronous(&gateway, "inv-1");
    until("it is under way", || stub.seen().len() == 1);
    let again = Starting::beside(&gateway);
    gateway.signal(Signal::TERM);
    assert!(gateway.ended().success());
    let gateway = again.start();
    assert_eq!(state(&gateway, &id), "done");
    assert_eq!(stub.seen().len(), 1);
}

/// S166: what the grace does not suffice for is told apart from failures.
#[test]
fn a_job_that_a_restart_interrupts_is_marked_as_that() {
    let stub = Stub::start();
    let policy = crate::world::policy(&stub.url(), &short());
    let mut gateway =
        Starting::new(&policy).word("--shutdown-grace").word("300ms").word("--shutdown-pause").word("10ms").start();
    let id = under_way(&stub, &gateway);
    let again = Starting::beside(&gateway);
    gateway.signal(Signal::TERM);
    gateway.ended();
    let gateway = again.start();
    let shown = job(&gateway, &id);
    assert_eq!(shown["state"], "manual_review", "{shown}");
    assert_eq!((&shown["reason"], &shown["attempts"]), (&"interrupted_by_shutdown".into(), &0.into()));
    audited(&gateway);
}
