//! The breaker's whole life through the gateway, for each way an answer can come.

use std::time::Duration;

use test_case::test_case;

use crate::client::Answer;
use crate::stub::{Reply, Stub};
use crate::world::{Gateway, gateway, gateway_at, until};

/// S028
#[test_case(&|| Reply::status(503, "{\"error\":\"busy\"}"), &|| Reply::ok("{}"); "documents")]
#[test_case(
    &|| Reply::events().chunk(b"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n").end(),
    &|| Reply::events().event("{\"type\":\"message_start\"}").wait(Duration::from_millis(20)).event("{\"type\":\"message_stop\"}").end();
    "streams"
)]
#[test_case(&|| Reply::new().reset(), &|| Reply::full(200, &[("content-type", "image/png")], b"x"); "resets and images")]
fn a_breaker_that_opens_also_closes(bad: &dyn Fn() -> Reply, good: &dyn Fn() -> Reply) {
    let stub = Stub::start();
    let gateway = gateway(
        &stub,
        "profile: anthropic\n\
         circuit: { open_after_failures: 3, open_for_sec: 0.3, half_open_max_calls: 2, close_after_successes: 2 }",
    );
    stub.always(bad());
    for _ in 0..3 {
        gateway.get("/d/up/x");
    }
    // On a slow machine the cooldown may be over before we look: then a probe fails, and the next one is longer.
    until("it refuses", || {
        let sent = stub.seen().len();
        let refused = gateway.get("/d/up/x");
        refused.status == 503 && refused.problem() == "circuit_open" && stub.seen().len() == sent
    });
    stub.always(good());
    until("a probe succeeds", || gateway.get("/d/up/x").status == 200);
    until("it is closed", || gateway.get("/d/up/x").status == 200 && gateway.state("up") == "closed");
    for _ in 0..4 {
        assert_eq!(gateway.get("/d/up/x").status, 200);
    }
}

/// S053
#[test]
fn a_call_that_is_wrong_by_itself_opens_nothing() {
    let stub = Stub::start();
    let gateway = gateway(
        &stub,
        "profile: openai\nretry: { max_attempts: 3, base_ms: 1 }\nreplay: always\n\
         circuit: { open_after_failures: 3, open_for_sec: 0.1 }",
    );
    let wrong =
        "{\"error\":{\"type\":\"server_error\",\"message\":\"The prompt is too long for this model: 210883 tokens\"}}";
    stub.always(Reply::status(500, wrong));
    for n in 1..=10 {
        let answer = gateway.post("/d/up/v1/chat", "{}");
        assert_eq!((answer.status, answer.field("halfopen-attempts")), (500, Some("1")), "{}", answer.head);
        assert_eq!(stub.seen().len(), n);
    }
    assert_eq!(gateway.state("up"), "closed");
    // A probe that is wrong by itself neither closes nor opens.
    stub.always(Reply::status(503, "{}"));
    (0..3).for_each(|_| drop(gateway.post("/d/up/v1/chat", "{}")));
    // Its cooldown may be over before we look.
    until("it trips", || gateway.state("up") != "closed");
    stub.always(Reply::status(500, wrong));
    until("a wrong probe", || gateway.post("/d/up/v1/chat", "{}").status == 500);
    stub.always(Reply::ok("{}"));
    until("good ones close it", || {
        gateway.post("/d/up/v1/chat", "{}").status == 200 && gateway.state("up") == "closed"
    });
}

fn times(gateway: &Gateway, count: usize) -> Vec<Answer> {
    (0..count).map(|_| gateway.get("/d/up/x")).collect()
}

/// S085
#[test]
fn a_refused_connection_counts_and_is_named() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let url = format!("http://{}", address.expect("a free port"));
    let gateway = gateway_at(&url, "circuit: { open_after_failures: 3, open_for_sec: 60 }");
    for answer in times(&gateway, 3) {
        assert_eq!((answer.status, answer.problem().as_str()), (502, "not_reached"));
        assert_eq!(answer.json()["may_have_run"], false);
        assert!(answer.text().contains("refused"), "{}", answer.text());
    }
    gateway.becomes("up", "open");
}

/// S085: a name that nobody has (RFC 6761 section 6.4) is a dependency that cannot be reached.
#[test]
fn a_name_without_an_address_counts_and_is_named() {
    let gateway = gateway_at("http://nothing.invalid", "circuit: { open_after_failures: 3, open_for_sec: 60 }");
    for answer in times(&gateway, 3) {
        assert_eq!((answer.status, answer.problem().as_str()), (502, "not_reached"), "{}", answer.text());
        assert_eq!(answer.json()["class"], "connection_failure");
        assert_eq!(answer.json()["may_have_run"], false);
        assert!(answer.text().contains("nothing.invalid"), "{}", answer.text());
    }
    gateway.becomes("up", "open");
}

/// S085
#[test]
fn a_tls_failure_counts_and_is_named() {
    let stub = Stub::start();
    let gateway =
        gateway_at(&stub.url().replace("http://", "https://"), "circuit: { open_after_failures: 3, open_for_sec: 60 }");
    stub.greet(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    for answer in times(&gateway, 3) {
        assert_eq!((answer.status, answer.problem().as_str()), (502, "not_reached"), "{}", answer.text());
        assert!(answer.text().contains("TLS"), "{}", answer.text());
    }
    gateway.becomes("up", "open");
}

/// S085
#[test]
fn a_request_that_cannot_be_made_counts_for_nothing() {
    let stub = Stub::start();
    let gateway = gateway(
        &stub,
        "circuit: { open_after_failures: 1, open_for_sec: 60 }\n\
         credentials: { main: { from_env: NOT_SET_ANYWHERE, header: Authorization, scheme: Bearer } }",
    );
    let answer = gateway.get("/d/up/x");
    assert_eq!((answer.status, answer.problem().as_str()), (503, "no_credential"), "{}", answer.text());
    assert_eq!(gateway.get("/d/up/../x").status, 400);
    assert_eq!(gateway.state("up"), "closed");
    assert_eq!(stub.connections(), 0);
}

/// S154
#[test_case("generic"; "plain")]
#[test_case("openai")]
#[test_case("anthropic")]
fn a_refusal_is_told_in_the_callers_dialect(profile: &str) {
    let stub = Stub::start();
    let gateway =
        gateway(&stub, &format!("profile: {profile}\ncircuit: {{ open_after_failures: 1, open_for_sec: 42 }}"));
    stub.always(Reply::status(503, "{}"));
    gateway.post("/d/up/v1/chat", "{}");
    gateway.becomes("up", "open");
    let answer = gateway.post("/d/up/v1/chat", "{}");
    assert_eq!((answer.status, answer.problem().as_str()), (503, "circuit_open"));
    let after: u64 = answer.field("retry-after").and_then(|value| value.parse().ok()).expect("a number of seconds");
    assert!((1..=48).contains(&after), "{after}");
    let json = answer.json();
    assert_eq!(json["dependency"], "up");
    assert_eq!(json["state"], "open");
    assert_eq!(json["may_have_run"], false);
    assert!(json["retry_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{json}");
    match profile {
        "openai" => assert_eq!(json["error"]["code"], "circuit_open"),
        "anthropic" => assert_eq!(json["type"], "error"),
        _ => assert_eq!(answer.field("content-type"), Some("application/problem+json")),
    }
    if profile != "generic" {
        assert!(json["error"]["message"].is_string());
    }
    assert_eq!(answer.field("halfopen-outcome"), Some("refused"));
    assert_eq!(answer.field("x-should-retry"), Some("false"));
    for word in ["try again", "retry now", "retry immediately", "please retry"] {
        assert!(!answer.text().to_lowercase().contains(word), "{}", answer.text());
    }
    // It grows shorter as time passes.
    until("it shrinks", || {
        let later = gateway.post("/d/up/v1/chat", "{}");
        later.field("retry-after").and_then(|value| value.parse::<u64>().ok()).is_some_and(|later| later < after)
    });
    assert_eq!(stub.seen().len(), 1);
}
