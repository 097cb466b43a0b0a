//! The whole story of an outage, and each row of it: what a user of an invoice pipeline lives through.

use std::time::{Duration, Instant};

use crate::ledger::{
    all_done, audited, becomes, invoices, job, opened, opens_for, order, queue, queueing, send, state,
};
use crate::stub::{Reply, Stub};
use crate::world::{gateway, until};

/// The policy of the story, with short times: 5 timeouts open it, 2 probes and 2 successes close it.
fn story(open_for: f64, drain: &str) -> String {
    queueing(&format!(
        "timeout_ms: 150\n\
         circuit: {{ failure_window_sec: 60, open_after_failures: 5, open_for_sec: {open_for}, \
         half_open_max_calls: 2, close_after_successes: 2 }}\n\
         drain: {drain}"
    ))
}

/// The story of drill.md, part A.
#[test]
fn an_outage_loses_no_invoice_and_books_none_twice() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &story(1.5, "{ rate_per_sec: 5, max_per_sec: 5 }"));
    stub.always(Reply::new().hang());
    for n in 0..5 {
        let answer = send(&gateway, &format!("lost-{n}"), &[]);
        assert_eq!((answer.status, answer.problem().as_str()), (504, "outcome_unknown"));
    }
    gateway.becomes("up", "open");
    assert_eq!(stub.seen().len(), 5);

    let names: Vec<String> = (0..20).map(|n| format!("inv-{n:02}")).collect();
    let mut jobs = Vec::new();
    for name in &names {
        let answer = send(&gateway, name, &[]);
        assert_eq!(answer.status, 202, "{}", answer.text());
        let told = answer.json();
        assert_eq!(told["state"], "queued");
        assert_eq!(told["message"], "processing_delayed");
        assert_eq!(told["position"], jobs.len() + 1);
        let id = told["id"].as_str().unwrap().to_owned();
        assert_eq!(answer.field("location"), Some(format!("/jobs/{id}").as_str()));
        assert_eq!(answer.field("halfopen-outcome"), Some("queued"));
        jobs.push(id);
    }
    // Calls stopped while it was open.
    assert_eq!(stub.seen().len(), 5);
    assert!(jobs.iter().all(|id| state(&gateway, id) == "queued"));

    stub.always(Reply::ok("{\"text\":\"read\"}"));
    all_done(&gateway, &jobs);
    let done = invoices(&stub);
    for name in &names {
        assert_eq!(done.get(name), Some(&1), "{name} in {done:?}");
    }
    assert_eq!(gateway.state("up"), "closed");
    // Exactly two probes decided, and the rest came behind them, oldest first.
    let events = gateway.halfopen(&["events", "--all", "--json", "--limit", "1000"]);
    assert_eq!(events.matches("\"probe_admitted\"").count(), 2, "{events}");
    let sent = order(&stub);
    let first_two: std::collections::BTreeSet<&str> = sent[5..7].iter().map(String::as_str).collect();
    assert_eq!(first_two, ["inv-00", "inv-01"].into_iter().collect());
    assert_eq!(sent[7..], names[2..]);
    assert_eq!(audited(&gateway).jobs, 20);
}

/// The variant: one probe fails, it opens again for longer, and nothing is lost.
#[test]
fn a_probe_that_fails_opens_it_again_and_the_backlog_waits() {
    let stub = Stub::start();
    let gateway =
        opened(&stub, &queueing(&format!("{}\ndrain: {{ rate_per_sec: 50, max_per_sec: 50 }}", opens_for(0.4))));
    // A rate limit is refused before anything is done, so the same invoice may come again.
    stub.then([Reply::status(429, "{}"), Reply::status(429, "{}")]);
    let jobs: Vec<String> = (0..6).map(|n| queue(&gateway, &format!("inv-{n}"))).collect();
    until("a probe fails", || gateway.halfopen(&["events", "--all", "--json"]).contains("probe_failed"));
    all_done(&gateway, &jobs);
    let sent = invoices(&stub);
    assert_eq!((sent.len(), sent.values().sum::<usize>()), (6, 8), "{sent:?}");
    assert!(jobs.iter().all(|id| job(&gateway, id)["attempts"] == 0));
    audited(&gateway);
}

/// S014
#[test]
fn the_backlog_returns_at_the_rate_of_the_policy() {
    let stub = Stub::start();
    let keys = format!("{}\ndrain: {{ rate_per_sec: 4, max_per_sec: 4, max_in_flight: 2 }}", opens_for(0.3));
    let gateway = opened(&stub, &queueing(&keys));
    let jobs: Vec<String> = (0..10).map(|n| queue(&gateway, &format!("inv-{n:02}"))).collect();
    let began = Instant::now();
    all_done(&gateway, &jobs);
    // Two probes, the first start at once, and seven more at four a second.
    assert!(began.elapsed() >= Duration::from_millis(1700), "{:?}", began.elapsed());
    assert_eq!(stub.seen().len(), 11);
    let history = job(&gateway, &jobs[9]);
    assert_eq!(history["history"][0]["what"], "accepted");
}

/// A call that was refused is answered with the job's own answer if the caller waits for it.
#[test]
fn a_caller_that_waits_gets_the_answer_itself() {
    let stub = Stub::start();
    let gateway = opened(&stub, &queueing(&opens_for(0.3)));
    stub.always(Reply::full(201, &[("content-type", "application/json"), ("x-own", "yes")], b"{\"booked\":1}"));
    let answer = send(&gateway, "inv-1", &[("prefer", "wait=15")]);
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!((answer.text().as_str(), answer.field("x-own")), ("{\"booked\":1}", Some("yes")));
    assert_eq!(answer.field("preference-applied"), Some("wait=15"));
    assert_eq!(answer.field("halfopen-outcome"), Some("success"));
    let id = answer.field("halfopen-job").unwrap().to_owned();
    let kept = gateway.ask("GET", &format!("/jobs/{id}/result"), &[], "");
    assert_eq!((kept.status, kept.text().as_str(), kept.field("x-own")), (201, "{\"booked\":1}", Some("yes")));
    let shown = becomes(&gateway, &id, "done");
    assert_eq!(shown["result"]["status"], 201);
}
