//! How a backlog returns, and what one job or one dependency can do to the others.

use std::time::{Duration, Instant};

use crate::ledger::{all_done, audited, becomes, invoices, job, opened, opens_for, queue, queueing, send, state, word};
use crate::stub::{Reply, Stub};
use crate::world::{Starting, gateway, until};

/// S028 for jobs: the queue alone brings a breaker from open to closed.
#[test]
fn jobs_alone_close_a_breaker() {
    let stub = Stub::start();
    let gateway = opened(&stub, &queueing(&opens_for(0.3)));
    let ids: Vec<String> = (0..2).map(|n| queue(&gateway, &format!("inv-{n}"))).collect();
    all_done(&gateway, &ids);
    gateway.becomes("up", "closed");
}

/// S041, S164: a job that is wrong by itself ends, and one that fails fast does not go round: the others are done.
#[test]
fn a_poisoned_job_does_not_block_the_others() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &queueing("retry: { max_attempts: 2, base_ms: 300 }\nreplay: always"));
    stub.then([Reply::status(422, "{\"error\":\"no such customer\"}"), Reply::status(500, "{}")]);
    let mut ids = Vec::new();
    for n in 0..10 {
        ids.push(word(&send(&gateway, &format!("inv-{n}"), &[("prefer", "respond-async")]).json()["id"]));
    }
    until("one has failed", || ids.iter().any(|id| state(&gateway, id) == "failed"));
    let failed: Vec<&String> = ids.iter().filter(|id| state(&gateway, id) == "failed").collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(job(&gateway, failed[0])["last"]["class"], "invalid_request");
    let others: Vec<String> = ids.iter().filter(|id| *id != failed[0]).cloned().collect();
    all_done(&gateway, &others);
    assert_eq!(gateway.state("up"), "closed");
    assert_eq!(stub.seen().len(), 11);
    audited(&gateway);
}

/// S008, S043: a failure stops the drain; the jobs keep their order and their attempts, and all are done in the end.
#[test]
fn a_failure_while_draining_stops_the_drain() {
    let stub = Stub::start();
    let keys = format!("{}\ndrain: {{ rate_per_sec: 40, max_per_sec: 40 }}", opens_for(0.5));
    let gateway = opened(&stub, &queueing(&keys));
    let ids: Vec<String> = (0..20).map(|n| queue(&gateway, &format!("inv-{n:02}"))).collect();
    let ok = || Reply::ok("{}");
    stub.then((0..5).map(|_| ok()));
    stub.always(Reply::status(429, "{}"));
    until("it opens again", || stub.seen().len() > 6 && gateway.state("up") == "open");
    let sent = stub.seen().len();
    assert!(sent <= 1 + 5 + 4, "{sent}");
    assert!(ids.iter().all(|id| job(&gateway, id)["attempts"] == 0));
    stub.always(ok());
    all_done(&gateway, &ids);
    audited(&gateway);
}

/// S042: a dependency that hangs keeps nobody else's jobs, and holds no more than its share.
#[test]
fn a_dependency_that_hangs_starves_no_other() {
    let (dead, healthy) = (Stub::start(), Stub::start());
    dead.always(Reply::new().hang());
    let one = |name: &str, stub: &Stub| {
        format!(
            "  - name: {name}\n    upstream: {}\n    profile: generic\n    timeout_ms: 20000\n    \
             on_open: {{ action: queue, queue_ttl_min: 30 }}\n    drain: {{ max_in_flight: 2 }}\n",
            stub.url()
        )
    };
    let policy = format!("dependencies:\n{}{}", one("dead", &dead), one("up", &healthy));
    let gateway = Starting::new(&policy).start();
    for n in 0..40 {
        let answer = gateway.call("POST", "/d/dead/x", &[("prefer", "respond-async")], format!("{n}").as_bytes());
        assert_eq!(answer.status, 202);
    }
    dead.seen_at_least(1);
    let mut ids = Vec::new();
    for n in 0..10 {
        ids.push(word(&send(&gateway, &format!("inv-{n}"), &[("prefer", "respond-async")]).json()["id"]));
    }
    all_done(&gateway, &ids);
    assert!(dead.seen().len() <= 16, "{}", dead.seen().len());
    let running = gateway.ask("GET", "/jobs?state=running&dependency=dead", &[], "").json();
    assert!(running["jobs"].as_array().unwrap().len() <= 16);
}

/// S078: two gateways and a restart on one store keep one rate, send two probes, and do nothing twice.
#[test]
fn several_gateways_keep_one_rate() {
    let stub = Stub::start();
    let keys = format!("{}\ndrain: {{ rate_per_sec: 5, max_per_sec: 5 }}", opens_for(0.8));
    let gateway = opened(&stub, &queueing(&keys));
    let ids: Vec<String> = (0..14).map(|n| queue(&gateway, &format!("inv-{n:02}"))).collect();
    let others: Vec<_> = (0..2).map(|_| Starting::beside(&gateway).start()).collect();
    until("it is tried", || stub.seen().len() > 1);
    // How far it is can be seen.
    let figure = |name: &str| {
        let text = gateway.ask("GET", "/metrics", &[], "").text();
        let series = format!("halfopen_{name}{{dependency=\"up\"");
        text.lines()
            .find(|line| line.starts_with(&series))
            .and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
    };
    until("the rate is told", || figure("drain_rate_per_second").is_some_and(|rate| rate == 5.0));
    assert!(figure("drain_seconds_left").is_some_and(|left| left <= 14.0 / 5.0));
    assert_eq!(figure("jobs_queued_total"), Some(14.0));
    let began = Instant::now();
    all_done(&gateway, &ids);
    assert!(began.elapsed() >= Duration::from_millis(1800), "{:?}", began.elapsed());
    assert!(invoices(&stub).values().all(|times| *times == 1));
    let events = gateway.halfopen(&["events", "--all", "--json", "--limit", "1000"]);
    assert_eq!(events.matches("\"probe_admitted\"").count(), 2, "{events}");
    drop(others);
    audited(&gateway);
}

/// A credential that is missing touches no job, and when it is there the queue is drained.
#[test]
fn a_missing_credential_costs_no_job_anything() {
    let stub = Stub::start();
    let keys = format!("{}\ncredentials: {{ main: {{ from_file: secret }} }}", opens_for(0.3));
    let policy = crate::world::policy(&stub.url(), &queueing(&keys));
    let home = tempfile::tempdir().unwrap();
    let secret = home.path().join("secret");
    std::fs::write(&secret, "sk-1").unwrap();
    let gateway =
        Starting::new(&policy.replace("from_file: secret", &format!("from_file: {}", secret.display()))).start();
    crate::ledger::trip(&stub, &gateway);
    let id = queue(&gateway, "inv-1");
    std::fs::remove_file(&secret).unwrap();
    until("it is said", || gateway.said().contains("its jobs wait until that is repaired"));
    assert_eq!(state(&gateway, &id), "queued");
    std::fs::write(&secret, "sk-2").unwrap();
    let shown = becomes(&gateway, &id, "done");
    assert_eq!((&shown["attempts"], shown["history"].as_array().unwrap().len()), (&0.into(), 4));
}
