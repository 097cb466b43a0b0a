//! The live path: an answer passes as it came, and what it means reaches the circuit.

use crate::client::{End, request};
use crate::stub::{Gate, Reply, Stub};
use crate::world::gateway;

const CIRCUIT: &str = "circuit: { open_after_failures: 2, failure_window_sec: 60, open_for_sec: 60 }";

#[test]
fn a_call_passes_as_it_is_and_its_answer_too() {
    let stub = Stub::start();
    stub.then([Reply::full(201, &[("content-type", "text/plain"), ("x-seen", "1")], b"made")]);
    let gateway = gateway(&stub, "");
    let answer = gateway.call("POST", "/d/up/v1/things?a=b", &[("x-mine", "2"), ("traceparent", "00-1-2-01")], b"body");
    assert_eq!((answer.status, answer.text().as_str(), answer.end), (201, "made", End::Whole));
    assert_eq!(answer.field("x-seen"), Some("1"));
    assert_eq!(answer.field("halfopen-outcome"), Some("success"));
    assert_eq!(answer.field("halfopen-attempts"), Some("1"));
    assert_eq!(answer.field("halfopen-circuit"), Some("up"));
    let seen = &stub.seen()[0];
    assert_eq!((seen.method.as_str(), seen.target.as_str(), &seen.body[..]), ("POST", "/v1/things?a=b", &b"body"[..]));
    assert_eq!(seen.field("host"), Some(stub.address.to_string().as_str()));
    assert_eq!((seen.field("x-mine"), seen.field("traceparent")), (Some("2"), Some("00-1-2-01")));
}

#[test]
fn failures_open_the_circuit_and_nothing_is_sent_after_that() {
    let stub = Stub::start();
    stub.always(Reply::status(500, "{\"error\":\"broken\"}"));
    let gateway = gateway(&stub, CIRCUIT);
    for _ in 0..2 {
        let answer = gateway.get("/d/up/x");
        assert_eq!((answer.status, answer.text().as_str()), (500, "{\"error\":\"broken\"}"));
        assert_eq!(answer.field("halfopen-outcome"), Some("server_error"));
    }
    let answer = gateway.get("/d/up/x");
    assert_eq!((answer.status, answer.problem().as_str()), (503, "circuit_open"));
    assert!(answer.field("retry-after").unwrap().parse::<u64>().unwrap() <= 67);
    assert_eq!(stub.seen().len(), 2);
    assert_eq!(gateway.state("up"), "open");
}

/// S018
#[test]
fn an_error_inside_a_200_is_a_failure() {
    let stub = Stub::start();
    stub.then([Reply::ok("{\"choices\":[{\"text\":\"an error message: quota exceeded\"}]}")]);
    stub.always(Reply::ok("{\"error\":{\"message\":\"The server had an error\",\"type\":\"server_error\"}}"));
    let gateway = gateway(&stub, CIRCUIT);
    assert_eq!(gateway.get("/d/up/x").field("halfopen-outcome"), Some("success"));
    for _ in 0..2 {
        assert_eq!(gateway.get("/d/up/x").field("halfopen-outcome"), Some("server_error"));
    }
    assert_eq!(gateway.state("up"), "open");
}

#[test]
fn events_pass_one_by_one() {
    let stub = Stub::start();
    let (first, second) = (Gate::default(), Gate::default());
    stub.then([Reply::events().event("one").gate(&first).event("two").gate(&second).event("[DONE]").end()]);
    let gateway = gateway(&stub, "");
    let mut client = gateway.connect();
    client.send(request("POST", "/d/up/x", &[], b"{}"));
    assert!(client.head().is_some_and(|head| head.starts_with("HTTP/1.1 200")));
    // Each is sent only after the one before has arrived.
    for (event, gate) in [("one", &first), ("two", &second)] {
        assert_eq!(client.chunk(), format!("data: {event}\n\n").as_bytes());
        gate.open();
    }
    assert_eq!(client.chunk(), b"data: [DONE]\n\n");
    assert_eq!(client.chunk(), b"");
    assert_eq!(gateway.state("up"), "closed");
}

#[test]
fn an_error_event_after_good_ones_is_a_failure() {
    let stub = Stub::start();
    let error = "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}";
    stub.always(Reply::events().event("{\"type\":\"message_start\"}").event(error).end());
    let gateway = gateway(&stub, CIRCUIT);
    for _ in 0..2 {
        let answer = gateway.post("/d/up/x", "{}");
        assert_eq!((answer.status, answer.end), (200, End::Whole));
    }
    gateway.becomes("up", "open");
}

/// S010
#[test]
fn a_body_cut_short_is_a_failure_that_the_caller_can_see() {
    let stub = Stub::start();
    let cut =
        Reply::new().head(200, &[("content-type", "application/pdf"), ("content-length", "1000")]).send(&[7; 400]);
    stub.then([cut.close()]);
    stub.then([Reply::chunked(200, &[("content-type", "application/pdf")]).chunk(&[7; 400]).close()]);
    let gateway = gateway(&stub, CIRCUIT);
    for _ in 0..2 {
        let answer = gateway.get("/d/up/x");
        assert_eq!((answer.end, answer.body.len()), (End::CutShort, 400));
    }
    gateway.becomes("up", "open");
}

#[test]
fn a_dependency_that_is_not_there_is_a_502() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gateway = crate::world::gateway_at(&format!("http://{gone}"), "");
    let answer = gateway.post("/d/up/x", "{}");
    assert_eq!((answer.status, answer.problem().as_str()), (502, "not_reached"));
}

#[test]
fn a_dependency_that_is_silent_is_a_504() {
    let stub = Stub::start();
    stub.always(Reply::new().hang());
    let gateway = gateway(&stub, "timeout_ms: 200");
    let answer = gateway.get("/d/up/x");
    assert_eq!((answer.status, answer.problem().as_str()), (504, "timeout"));
    let answer = gateway.post("/d/up/x", "{}");
    assert_eq!((answer.status, answer.problem().as_str()), (504, "outcome_unknown"));
}
