//! What waits holds nobody up, and what the gateway does by itself is no more than the breaker lets through.

use crate::ledger::{all_done, audited, job, opens_for, queueing, send, state, word};
use crate::stub::{Reply, Stub};
use crate::world::{Starting, gateway, until};

/// S064: jobs that were told to wait lie in the store, the workers are free, and another dependency's jobs are done.
#[test]
fn a_wait_of_minutes_holds_no_worker() {
    let (busy, healthy) = (Stub::start(), Stub::start());
    busy.always(Reply::full(429, &[("retry-after", "300")], b"{}"));
    let one = |name: &str, stub: &Stub| {
        format!(
            "  - name: {name}\n    upstream: {}\n    profile: generic\n    timeout_ms: 20000\n    \
             on_open: {{ action: queue, queue_ttl_min: 600 }}\n    drain: {{ max_in_flight: 2 }}\n",
            stub.url()
        )
    };
    let gateway = Starting::new(&format!("dependencies:\n{}{}", one("busy", &busy), one("up", &healthy))).start();
    let waiting: Vec<String> = (0..10)
        .map(|n| {
            let body = format!("{n}");
            let answer = gateway.call("POST", "/d/busy/x", &[("prefer", "respond-async")], body.as_bytes());
            assert_eq!(answer.status, 202, "{}", answer.text());
            word(&answer.json()["id"])
        })
        .collect();
    until("the wait is known", || gateway.ask("GET", "/circuits", &[], "").text().contains("throttled_until"));
    until("no worker holds a job that waits", || waiting.iter().all(|id| state(&gateway, id) == "queued"));
    let heard = busy.seen().len();
    let ids: Vec<String> = (0..10)
        .map(|n| word(&send(&gateway, &format!("inv-{n}"), &[("prefer", "respond-async")]).json()["id"]))
        .collect();
    all_done(&gateway, &ids);
    assert!(waiting.iter().all(|id| state(&gateway, id) == "queued" && job(&gateway, id)["attempts"] == 0));
    assert_eq!(busy.seen().len(), heard, "those in flight together heard it, and nobody asked again");
    audited(&gateway);
}

/// S076: the cheap URL and the jobs are tried when the breaker lets a probe through, and at no other time.
#[test]
fn what_the_gateway_does_by_itself_goes_through_the_breaker() {
    let (stub, health) = (Stub::start(), Stub::start());
    // A 429 is proof that nothing was done.
    stub.always(Reply::status(429, "{}"));
    health.always(Reply::status(503, "{}"));
    let keys = format!(
        "{}\nprobe: {}/health",
        opens_for(0.2).replace("half_open_max_calls", "max_open_for_sec: 0.2, half_open_max_calls"),
        health.url()
    );
    let gateway = gateway(&stub, &queueing(&keys));
    let queued = |n: u32| word(&send(&gateway, &format!("inv-{n}"), &[("prefer", "respond-async")]).json()["id"]);
    let mut ids = vec![queued(0)];
    gateway.becomes("up", "open");
    ids.extend((1..5).map(queued));
    let events = || -> serde_json::Value {
        serde_json::from_str(&gateway.halfopen(&["events", "--all", "--json", "--limit", "1000"])).unwrap()
    };
    let named = |events: &serde_json::Value, name: &str| {
        events.as_array().unwrap().iter().filter(|event| event["event"] == name).count()
    };
    until("it has opened eight times", || named(&events(), "tripped") >= 8);
    // What was done is read before what allowed it, so that nothing done since then is counted.
    let (asked, sent) = (health.seen().len(), stub.seen().len());
    let events = events();
    assert!(asked <= named(&events, "probe_admitted"), "{asked} questions: {events:#}");
    assert_eq!(sent, 1, "real work was spared");
    // A failed round leaves a handful of entries, however many workers look on.
    let per_round = events.as_array().unwrap().len() / named(&events, "tripped");
    assert!(per_round <= 8, "{per_round} entries a round");
    for stub in [&stub, &health] {
        stub.always(Reply::ok("{}"));
    }
    all_done(&gateway, &ids);
    gateway.becomes("up", "closed");
    audited(&gateway);
}
