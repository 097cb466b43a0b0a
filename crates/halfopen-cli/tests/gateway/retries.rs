//! When a call is sent again, and when it is not.

use std::time::{Duration, Instant};

use test_case::test_case;

use crate::stub::{Reply, Stub};
use crate::world::{gateway, until};

const QUICK: &str = "retry: { max_attempts: 2, base_ms: 20, jitter: none }";

fn broken() -> Reply {
    Reply::status(500, "{\"error\":\"broken\"}")
}

fn overloaded() -> Reply {
    Reply::status(503, "{\"error\":\"too much to do\"}")
}

fn limited() -> Reply {
    let fields = [("content-type", "application/json"), ("retry-after", "0")];
    Reply::full(429, &fields, b"{\"error\":\"too many requests\"}")
}

fn vanishes() -> Reply {
    Reply::new().close()
}

// The table of reference: how far it got, against what declares a second time safe.
#[test_case("GET", "", &[], &broken, 2; "a get after a 500")]
#[test_case("GET", "", &[], &vanishes, 2; "a get that got no answer")]
#[test_case("PUT", "", &[], &overloaded, 2; "a put after a 503")]
#[test_case("POST", "", &[], &broken, 1; "a post after a 500 may have been done")]
#[test_case("POST", "", &[], &overloaded, 1; "a post after a 503 may have been done too")]
#[test_case("POST", "", &[], &vanishes, 1; "a post that got no answer may have been done")]
#[test_case("PATCH", "", &[], &broken, 1; "a patch is no put")]
#[test_case("POST", "", &[], &limited, 2; "a post after a 429 was not done")]
#[test_case("POST", "", &[("idempotency-key", "k1")], &broken, 1; "a key that nobody said is honoured")]
#[test_case("POST", "idempotency: { header: Idempotency-Key }", &[("idempotency-key", "k1")], &broken, 2; "a key that is honoured")]
#[test_case("POST", "idempotency: { header: X-Once }", &[("idempotency-key", "k1")], &broken, 1; "another key than the one that is honoured")]
#[test_case("POST", "replay: always", &[], &broken, 2; "declared safe")]
#[test_case("GET", "replay: never", &[], &broken, 1; "declared unsafe")]
#[test_case("POST", "replay: never", &[], &limited, 2; "what was not done is no second time")]
fn a_call_is_sent_again_only_where_that_is_safe(
    method: &str,
    key: &str,
    fields: &[(&str, &str)],
    reply: &dyn Fn() -> Reply,
    sent: usize,
) {
    let stub = Stub::start();
    stub.then([reply()]);
    let gateway = gateway(&stub, &format!("{QUICK}\n{key}"));
    let body: &[u8] = if method == "GET" { b"" } else { b"{\"a\":1}" };
    let answer = gateway.call(method, "/d/up/x", fields, body);
    let seen = stub.seen();
    assert_eq!(seen.len(), sent, "{}", answer.text());
    assert_eq!(answer.field("halfopen-attempts"), Some(sent.to_string().as_str()));
    assert_eq!(answer.status == 200, sent == 2);
    assert!(seen.iter().all(|seen| seen.body == body && seen.all("idempotency-key") == seen_fields(fields)));
}

fn seen_fields<'a>(fields: &[(&str, &'a str)]) -> Vec<&'a str> {
    fields.iter().map(|(_, value)| *value).collect()
}

#[test]
fn the_last_answer_of_the_dependency_is_the_callers() {
    let stub = Stub::start();
    stub.then([broken(), Reply::status(502, "second")]);
    let gateway = gateway(&stub, QUICK);
    let answer = gateway.get("/d/up/x");
    assert_eq!((answer.status, answer.text().as_str()), (502, "second"));
    assert_eq!(answer.field("halfopen-outcome"), Some("server_error"));
}

#[test]
fn an_error_inside_a_200_is_tried_again_before_a_byte_is_passed_on() {
    let stub = Stub::start();
    let error = "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}";
    stub.then([Reply::events().event(error).end(), Reply::events().event("fine").end()]);
    let gateway = gateway(&stub, QUICK);
    let answer = gateway.get("/d/up/x");
    assert_eq!((answer.text().as_str(), answer.field("halfopen-attempts")), ("data: fine\n\n", Some("2")));
    let cut = Reply::new().head(200, &[("content-type", "application/pdf"), ("content-length", "900")]).send(&[1; 100]);
    stub.then([cut.close(), Reply::ok("whole")]);
    assert_eq!(gateway.get("/d/up/x").text(), "whole");
}

#[test]
fn a_stated_wait_is_obeyed() {
    let stub = Stub::start();
    stub.then([Reply::full(429, &[("retry-after", "1")], b"")]);
    let gateway = gateway(&stub, QUICK);
    let began = Instant::now();
    assert_eq!(gateway.post("/d/up/x", "{}").status, 200);
    assert!(began.elapsed() >= Duration::from_secs(1));
}

#[test]
fn a_wait_that_is_too_long_is_not_slept() {
    let stub = Stub::start();
    stub.then([Reply::full(429, &[("retry-after", "900")], b"later")]);
    let gateway = gateway(&stub, QUICK);
    let answer = gateway.get("/d/up/x");
    assert_eq!((answer.status, answer.text().as_str(), answer.field("retry-after")), (429, "later", Some("900")));
    assert_eq!(gateway.get("/d/up/x").problem(), "circuit_open");
    assert_eq!(stub.seen().len(), 1);
}

#[test]
fn retries_that_no_hint_has_spaced_have_a_budget() {
    let stub = Stub::start();
    stub.always(broken());
    let keys = "retry: { max_attempts: 2, base_ms: 1, jitter: none }\ncircuit: { open_after_failures: 1000 }";
    let gateway = gateway(&stub, keys);
    let mut client = gateway.connect();
    for _ in 0..20 {
        assert_eq!(client.call("GET", "/d/up/x", &[], b"").status, 500);
    }
    // Three a minute, and a fifth of the calls.
    let sent = stub.seen().len();
    assert!((23..=27).contains(&sent), "{sent}");
}

#[test]
fn the_deadline_bounds_all_attempts_together() {
    let stub = Stub::start();
    stub.always(Reply::new().hang());
    let keys = "timeout_ms: 400\nretry: { max_attempts: 50, base_ms: 1, jitter: none, deadline_sec: 1 }";
    let gateway = gateway(&stub, keys);
    let began = Instant::now();
    assert_eq!(gateway.get("/d/up/x").problem(), "timeout");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!((2..=3).contains(&stub.seen().len()));
}

#[test]
fn an_observed_dependency_is_left_alone() {
    let stub = Stub::start();
    stub.always(broken());
    let keys = "mode: observe\nretry: { max_attempts: 3 }\ncircuit: { open_after_failures: 2 }\ntimeout_ms: 300";
    let gateway = gateway(&stub, keys);
    for _ in 0..5 {
        let answer = gateway.get("/d/up/x");
        assert_eq!((answer.status, answer.field("halfopen-attempts")), (500, Some("1")));
    }
    assert_eq!(stub.seen().len(), 5, "neither retried nor refused");
    gateway.becomes("up~observe", "open");
    assert_eq!(gateway.state("up"), "closed");
    stub.always(Reply::new().wait(Duration::from_millis(700)).and_full(200, &[], b"late"));
    assert_eq!(gateway.get("/d/up/x").text(), "late", "nothing is timed out");
}

/// The rest of a long failure keeps no connection while the next attempt is waited for.
#[test]
fn a_long_failure_is_let_go_before_the_wait() {
    let stub = Stub::start();
    let fields = [("retry-after", "2"), ("content-length", "300000")];
    stub.then([Reply::new().head(503, &fields).send(&[b'x'; 100_000]).hang()]);
    let gateway = gateway(&stub, "retry: { max_attempts: 2 }");
    let answer = std::thread::scope(|scope| {
        let calling = scope.spawn(|| gateway.get("/d/up/x"));
        stub.seen_at_least(1);
        until("its connection is closed", || {
            let (open, sent) = (stub.open(), stub.seen().len());
            assert_eq!(sent, 1, "held until the next attempt");
            open == 0
        });
        calling.join().unwrap()
    });
    assert_eq!((answer.status, answer.field("halfopen-attempts")), (200, Some("2")), "{}", answer.head);
}

/// Where the door refuses instead, nobody gets a part of the failure for the whole, and its class is told.
#[test]
fn a_long_failure_that_was_let_go_is_told_in_our_words() {
    let stub = Stub::start();
    let fields = [("content-length", "300000")];
    stub.always(Reply::new().head(503, &fields).send(&[b'x'; 100_000]).hang());
    let keys = "retry: { max_attempts: 2, base_ms: 20 }\ncircuit: { open_after_failures: 1, open_for_sec: 60 }";
    let answer = gateway(&stub, keys).get("/d/up/x");
    assert_eq!((answer.status, answer.field("halfopen-attempts")), (502, Some("1")), "{}", answer.head);
    assert_eq!((answer.problem().as_str(), stub.seen().len()), ("answer_lost", 1), "{}", answer.text());
}
