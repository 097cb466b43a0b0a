//! How a breaker closes again: who probes, for how long, and what becomes of a probe that says nothing.

use std::time::{Duration, Instant};

use test_case::test_case;

use crate::stub::{Reply, Stub};
use crate::world::{Gateway, gateway, until};

const CIRCUIT: &str = "circuit: { open_after_failures: 1, open_for_sec: 0.3, max_open_for_sec: 0.3, \
                       half_open_max_calls: 1, close_after_successes: 1, probe_lease_sec: 0.5 }";

/// Opens the circuit and waits until its cooldown is over.
fn half_open(stub: &Stub, gateway: &Gateway) {
    stub.then([Reply::status(500, "{}")]);
    assert_eq!(gateway.get("/d/up/x").status, 500);
    until("the cooldown is over", || gateway.state("up") == "half_open");
}

/// S017
#[test_case(Reply::status(404, "{}"); "not found")]
#[test_case(Reply::status(400, "{}"); "a bad request")]
#[test_case(Reply::status(401, "{}"); "a bad key")]
fn a_probe_that_says_nothing_gives_its_slot_back(reply: Reply) {
    let stub = Stub::start();
    let gateway = gateway(&stub, CIRCUIT);
    half_open(&stub, &gateway);
    stub.then([reply]);
    assert!(gateway.get("/d/up/x").status < 500);
    assert_eq!(gateway.state("up"), "half_open");
    assert_eq!(gateway.get("/d/up/x").status, 200, "the next call is a probe at once");
    gateway.becomes("up", "closed");
}

/// S017: a caller that leaves.
#[test]
fn a_probe_whose_caller_leaves_gives_its_slot_back() {
    let stub = Stub::start();
    let gateway = gateway(&stub, CIRCUIT);
    half_open(&stub, &gateway);
    stub.then([Reply::new().hang()]);
    let mut client = gateway.connect();
    client.send("GET /d/up/x HTTP/1.1\r\nhost: gateway\r\n\r\n");
    stub.seen_at_least(2);
    drop(client);
    until("the slot is free", || gateway.get("/d/up/x").status == 200);
    gateway.becomes("up", "closed");
}

/// S062: longer than its lease, and shorter than its timeout.
#[test]
fn a_slow_probe_keeps_its_slot() {
    let stub = Stub::start();
    let gateway = gateway(&stub, CIRCUIT);
    half_open(&stub, &gateway);
    stub.then([Reply::new().wait(Duration::from_millis(1800)).and_full(200, &[], b"late")]);
    let mut slow = gateway.connect();
    slow.send("GET /d/up/slow HTTP/1.1\r\nhost: gateway\r\n\r\n");
    stub.seen_at_least(2);
    let sent_at = Instant::now();
    let mut refused = 0;
    while sent_at.elapsed() < Duration::from_millis(1200) {
        assert_eq!(gateway.get("/d/up/x").problem(), "circuit_open");
        refused += 1;
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(refused > 2);
    assert_eq!(slow.answer().text(), "late");
    gateway.becomes("up", "closed");
    assert_eq!(stub.seen().len(), 2);
}

/// A stream that has begun well is judged before its end; a later error of it is one new failure.
#[test_case(Reply::events(); "with its first event")]
#[test_case(Reply::events().chunk(b": processing\n\n").wait(Duration::from_millis(50)); "after a comment")]
fn a_stream_that_begins_well_closes_the_breaker_at_once(begun: Reply) {
    let stub = Stub::start();
    let gateway = gateway(&stub, CIRCUIT);
    half_open(&stub, &gateway);
    stub.then([begun.event("{\"delta\":\"Par\"}").hang()]);
    let mut client = gateway.connect();
    client.send("GET /d/up/x HTTP/1.1\r\nhost: gateway\r\n\r\n");
    client.head().expect("an answer begins");
    gateway.becomes("up", "closed");
    assert_eq!(gateway.get("/d/up/x").status, 200);
}

#[test]
fn a_probe_that_fails_opens_the_breaker_again() {
    let stub = Stub::start();
    let gateway = gateway(&stub, CIRCUIT);
    half_open(&stub, &gateway);
    stub.then([Reply::status(500, "{}")]);
    assert_eq!(gateway.get("/d/up/x").status, 500);
    assert_eq!(gateway.get("/d/up/x").problem(), "circuit_open");
    assert_eq!(stub.seen().len(), 2);
}

/// A cheap URL is asked before real work is risked; it may fail the round and does not close the breaker.
#[test]
fn a_cheap_url_goes_before_real_work() {
    let (stub, health) = (Stub::start(), Stub::start());
    let gateway = gateway(&stub, &format!("{CIRCUIT}\nprobe: {}/health", health.url()));
    assert_eq!(gateway.get("/d/up/x").status, 200);
    half_open(&stub, &gateway);
    assert_eq!(health.seen().len(), 0, "only a probe asks it");
    health.then([Reply::status(503, "{}")]);
    assert_eq!(gateway.get("/d/up/x").problem(), "circuit_open");
    assert_eq!((stub.seen().len(), health.seen().len()), (2, 1), "real work was spared");
    until("the cooldown is over", || gateway.state("up") == "half_open");
    assert_eq!(gateway.get("/d/up/x").status, 200);
    assert_eq!((stub.seen().len(), health.seen()[1].target.as_str()), (3, "/health"));
    gateway.becomes("up", "closed");
}

/// A refusal that ends soon is waited for, without a permit.
#[test]
fn a_short_refusal_is_waited_for() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &format!("{CIRCUIT}\non_open: {{ action: fail_fast, wait_sec: 5 }}"));
    stub.then([Reply::status(500, "{}")]);
    assert_eq!(gateway.get("/d/up/x").status, 500);
    assert_eq!(gateway.get("/d/up/x").status, 200);
    gateway.becomes("up", "closed");
}

/// Who waits for a circuit goes on as soon as an operator lets it go.
#[test]
fn a_release_ends_the_wait() {
    let stub = Stub::start();
    let keys = "on_open: { action: fail_fast, wait_sec: 3600 }\nretry: { max_attempts: 1, deadline_sec: 3600 }";
    let gateway = gateway(&stub, keys);
    gateway.halfopen(&["hold", "up", "open", "--for", "30m", "--policy", "policy.yaml"]);
    let mut client = gateway.connect();
    client.send("GET /d/up/x HTTP/1.1\r\nhost: gateway\r\n\r\n");
    assert!(client.is_silent_for(Duration::from_millis(700)));
    gateway.halfopen(&["release", "up", "--policy", "policy.yaml"]);
    assert_eq!(client.answer().status, 200);
    assert_eq!(stub.seen().len(), 1);
}

/// A probe that the gateway cannot make is said at the start.
#[test]
fn a_probe_that_is_a_command_is_said_not_to_be_run() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "probe: [\"true\"]");
    let said = gateway.said();
    assert!(said.contains("up: `probe` is a command, which the gateway does not run"), "{said}");
}
