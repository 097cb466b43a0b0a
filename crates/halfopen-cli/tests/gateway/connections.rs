//! Connections to the dependency: used again, given back, never repeated behind anybody's back.

use std::time::Duration;

use crate::stub::{Reply, Stub};
use crate::world::{gateway, until};

/// S138
#[test]
fn answers_that_are_thrown_away_free_their_connection() {
    let stub = Stub::start();
    let gateway = gateway(
        &stub,
        "retry: { max_attempts: 3, base_ms: 1, budget: { ratio: 1, per_minute: 10000 } }\nreplay: always\n\
         circuit: { open_after_failures: 1000 }",
    );
    stub.always(Reply::status(503, &"x".repeat(1 << 20)));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = gateway.connect();
                for _ in 0..4 {
                    let answer = client.call("GET", "/d/up/x", &[], b"");
                    assert_eq!((answer.status, answer.body.len()), (503, 1 << 20));
                    assert_eq!(answer.field("halfopen-attempts"), Some("3"));
                }
            });
        }
    });
    // Four callers; the dependency takes a moment to notice that a connection was given up.
    assert!(stub.open_max() <= 24, "{} connections at once", stub.open_max());
    stub.always(Reply::ok("{}"));
    assert_eq!(gateway.get("/d/up/x").status, 200);
    until("nothing is left but what can be used again", || stub.open() <= 4);
}

/// S139
#[test]
fn a_connection_that_is_being_closed_costs_no_answer_that_may_be_asked_for_again() {
    let stub = Stub::start();
    stub.close_when_idle(Duration::from_millis(30));
    let gateway = gateway(&stub, "retry: { max_attempts: 2, base_ms: 1 }\ncircuit: { open_after_failures: 5 }");
    let mut client = gateway.connect();
    for n in 0..60_u32 {
        let before = stub.seen().len();
        // As close to the moment of closing as can be had.
        std::thread::sleep(Duration::from_micros(28_000 + u64::from(n % 12) * 500));
        if n % 2 == 0 {
            let answer = client.call("GET", "/d/up/x", &[], b"");
            assert_eq!(answer.status, 200, "{n}: {}", answer.text());
        } else {
            let answer = client.call("POST", "/d/up/x", &[], b"{}");
            assert!(matches!(answer.status, 200 | 504), "{n}: {}", answer.text());
            assert!(stub.seen().len() <= before + 1, "{n}: sent twice");
        }
    }
    assert_eq!(gateway.state("up"), "closed");
}

/// S144
#[test]
fn a_probe_opens_a_connection_of_its_own() {
    let stub = Stub::start();
    let gateway = gateway(
        &stub,
        "circuit: { open_after_failures: 1, open_for_sec: 0.2, half_open_max_calls: 1, close_after_successes: 1 }",
    );
    assert_eq!(gateway.get("/d/up/x").status, 200);
    stub.then([Reply::status(503, "{}")]);
    assert_eq!(gateway.get("/d/up/x").status, 503);
    until("a probe", || gateway.get("/d/up/x").status == 200);
    let seen = stub.seen();
    assert_eq!(seen[0].connection, seen[1].connection, "a kept connection is used again");
    assert_ne!(seen[1].connection, seen[2].connection);
}

/// S144
#[test]
fn idle_connections_are_not_kept_for_long() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    assert_eq!(gateway.get("/d/up/x").status, 200);
    assert_eq!(stub.open(), 1);
    until("it is closed, before servers do that after five seconds", || stub.open() == 0);
}

/// S139
#[test]
fn a_kept_connection_that_ends_under_a_call_is_no_failure_and_costs_no_budget() {
    let stub = Stub::start();
    let gateway = gateway(
        &stub,
        "retry: { max_attempts: 2, base_ms: 1, budget: { ratio: 0, per_minute: 0 } }\n\
         circuit: { open_after_failures: 1, open_for_sec: 60 }",
    );
    for _ in 0..3 {
        stub.then([Reply::ok("{}"), Reply::new().reset(), Reply::ok("{}").close()]);
        assert_eq!(gateway.get("/d/up/x").status, 200);
        let answer = gateway.get("/d/up/x");
        assert_eq!((answer.status, answer.field("halfopen-attempts")), (200, Some("2")), "{}", answer.text());
    }
    stub.then([Reply::ok("{}"), Reply::new().reset()]);
    assert_eq!(gateway.get("/d/up/x").status, 200);
    let seen = stub.seen().len();
    let answer = gateway.post("/d/up/x", "{}");
    assert_eq!((answer.status, answer.problem().as_str()), (504, "outcome_unknown"));
    assert_eq!(stub.seen().len(), seen + 1, "a POST is not repeated");
    assert_eq!(gateway.state("up"), "closed");
}
