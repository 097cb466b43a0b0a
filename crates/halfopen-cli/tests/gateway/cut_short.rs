//! Answers that break off, and answers that only look as if they did.

use std::time::Duration;

use test_case::test_case;

use crate::client::{Answer, End};
use crate::stub::{Reply, Stub};
use crate::world::gateway;

const BREAKER: &str = "circuit: { open_after_failures: 3, failure_window_sec: 60, open_for_sec: 60 }";

/// What nobody can take for a whole answer.
fn is_told(answer: &Answer) -> bool {
    answer.end == End::CutShort || answer.status == 502
}

/// S010
#[test_case(&|| Reply::new().head(200, &[("content-length", "1000"), ("content-type", "application/pdf")]).send(&[b'x'; 400]).close(); "short of its length")]
#[test_case(&|| Reply::new().head(200, &[("content-length", "1000"), ("content-type", "application/json")]).send(&[b'x'; 400]).close(); "a document short of its length")]
#[test_case(&|| Reply::chunked(200, &[("content-type", "application/pdf")]).chunk(&[b'x'; 400]).close(); "without the last chunk")]
#[test_case(&|| Reply::chunked(200, &[("content-type", "application/json")]).chunk(b"{}").close(); "a document without the last chunk")]
#[test_case(&|| Reply::chunked(200, &[("content-type", "application/pdf")]).send(b"64\r\nabc").close(); "inside a chunk")]
#[test_case(&|| Reply::events().event("{\"n\":1}").event("{\"n\":2}").close(); "a stream of events")]
#[test_case(&|| Reply::new().head(200, &[("content-length", "1000"), ("content-type", "application/pdf")]).send(&[b'x'; 400]).reset(); "reset inside")]
fn a_cut_answer_is_a_failure_and_never_looks_whole(reply: &dyn Fn() -> Reply) {
    let stub = Stub::start();
    let gateway = gateway(&stub, BREAKER);
    stub.always(reply());
    for _ in 0..3 {
        let answer = gateway.get("/d/up/x");
        assert!(is_told(&answer), "{answer:?}");
    }
    gateway.becomes("up", "open");
    assert_eq!(gateway.get("/d/up/x").problem(), "circuit_open");
}

/// S010
#[test_case(&|| Reply::new().reset(); "reset before the head")]
#[test_case(&|| Reply::new().close(); "closed before the head")]
#[test_case(&|| Reply::new().send(b"HTTP/1.1 200 OK\r\ncontent-le").close(); "half a head")]
fn an_answer_that_never_comes_is_a_failure(reply: &dyn Fn() -> Reply) {
    let stub = Stub::start();
    let gateway = gateway(&stub, BREAKER);
    stub.always(reply());
    for _ in 0..3 {
        let answer = gateway.get("/d/up/x");
        assert_eq!(answer.status, 502, "{}", answer.text());
        assert_eq!(answer.field("x-should-retry"), Some("false"));
    }
    gateway.becomes("up", "open");
}

/// Whoever sends what is no HTTP answer is not somebody whose answer was lost: it is the wrong port, or a broken server.
#[test_case(b"SSH-2.0-OpenSSH_9.9\r\n"; "another protocol")]
#[test_case(b"HTTP/1.1 abc OK\r\n\r\n"; "no status")]
#[test_case(b"HTTP/1.1 200 OK\r\na b: c\r\n\r\n"; "no name of a field")]
fn what_is_no_answer_is_told_as_such(bytes: &[u8]) {
    let stub = Stub::start();
    let gateway = gateway(&stub, BREAKER);
    stub.always(Reply::new().send(bytes).close());
    for _ in 0..3 {
        let answer = gateway.get("/d/up/x");
        assert_eq!(answer.problem(), "answer_invalid", "{}", answer.text());
        assert_eq!(answer.status, 502);
        assert_eq!(answer.field("x-should-retry"), Some("false"));
    }
    gateway.becomes("up", "open");
}

#[test_case(&|| Reply::new().reset(); "reset before the head")]
#[test_case(&|| Reply::new().close(); "closed before the head")]
fn the_end_of_a_post_without_an_answer_is_unknown(reply: &dyn Fn() -> Reply) {
    let stub = Stub::start();
    let gateway = gateway(&stub, &format!("{BREAKER}\nretry: {{ max_attempts: 3, base_ms: 1 }}"));
    stub.always(reply());
    let answer = gateway.post("/d/up/x", "{\"pay\":1}");
    assert_eq!((answer.status, answer.problem().as_str()), (504, "outcome_unknown"), "{}", answer.text());
    assert_eq!(answer.json()["may_have_run"], true);
    assert_eq!(answer.field("halfopen-attempts"), Some("1"));
    assert_eq!(stub.seen().len(), 1);
}

#[test]
fn what_is_no_http_is_not_passed_on() {
    let stub = Stub::start();
    let gateway = gateway(&stub, BREAKER);
    stub.always(Reply::new().send(b"SSH-2.0-OpenSSH_9.2\r\n").close());
    let answer = gateway.get("/d/up/x");
    assert_eq!(answer.status, 502, "{}", answer.text());
}

/// S074
#[test]
fn an_answer_whose_framing_is_ambiguous_is_not_passed_on_as_whole() {
    let stub = Stub::start();
    let gateway = gateway(&stub, BREAKER);
    stub.then([Reply::new().send(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 5\r\n\r\nhello")]);
    let answer = gateway.get("/d/up/x");
    assert!(is_told(&answer), "{answer:?}");
}

/// S153
#[test]
fn a_reset_behind_the_last_byte_is_no_failure() {
    let stub = Stub::start();
    // The second attempt is for a call that meets a connection while it is being reset.
    let gateway = gateway(&stub, &format!("{BREAKER}\nretry: {{ max_attempts: 2, base_ms: 1 }}"));
    for (n, reply) in [
        Reply::full(200, &[("content-type", "application/pdf")], &[b'x'; 5000]).reset(),
        Reply::full(200, &[("content-type", "application/json")], b"{}").reset(),
        Reply::chunked(200, &[("content-type", "application/pdf")]).chunk(&[b'x'; 5000]).end().reset(),
    ]
    .into_iter()
    .cycle()
    .take(30)
    .enumerate()
    {
        stub.then([reply]);
        let answer = gateway.get("/d/up/x");
        assert_eq!((answer.status, answer.end), (200, End::Whole), "{n}: {}", answer.text());
    }
    assert_eq!(gateway.state("up"), "closed");
    assert_eq!(gateway.get("/d/up/x").status, 200);
}

#[test]
fn an_answer_that_ends_with_its_connection_is_whole() {
    let stub = Stub::start();
    let gateway = gateway(&stub, BREAKER);
    stub.always(
        Reply::new().head(200, &[("content-type", "application/json"), ("connection", "close")]).send(b"{}").close(),
    );
    for _ in 0..4 {
        let answer = gateway.get("/d/up/x");
        assert_eq!((answer.status, answer.text().as_str()), (200, "{}"));
        assert_ne!(answer.end, End::CutShort);
    }
}

/// S032
#[test_case("timeout_ms: 150", &|| Reply::new().hang(); "before the head")]
#[test_case("timeout_ms: 5000\nfirst_byte_ms: 150", &|| Reply::new().hang(); "before the first byte")]
#[test_case("timeout_ms: 150", &|| Reply::new().head(200, &[("content-length", "10")]).hang(); "behind the head")]
#[test_case("timeout_ms: 5000\nidle_ms: 150", &|| Reply::events().event("{}").hang(); "inside a stream")]
#[test_case("timeout_ms: 150", &|| Reply::new().drip(b"HTTP/1.1 200 OK\r\n", Duration::from_millis(60)).hang(); "dripping a head")]
fn a_dependency_that_hangs_opens_the_breaker(bounds: &str, reply: &dyn Fn() -> Reply) {
    let stub = Stub::start();
    let gateway = gateway(&stub, &format!("{bounds}\n{BREAKER}"));
    stub.always(reply());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let answer = gateway.get("/d/up/x");
                assert!(answer.status == 504 || answer.end == End::CutShort, "{answer:?}");
            });
        }
    });
    gateway.becomes("up", "open");
    assert_eq!(gateway.get("/d/up/x").problem(), "circuit_open");
}

/// S032
#[test]
fn a_stream_longer_than_the_timeout_goes_on_while_something_comes() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "timeout_ms: 200\nidle_ms: 2000");
    let mut reply = Reply::events();
    for n in 0..8 {
        reply = reply.event(&format!("{{\"n\":{n}}}")).wait(Duration::from_millis(60));
    }
    stub.then([reply.end()]);
    let answer = gateway.get("/d/up/x");
    assert_eq!((answer.status, answer.end), (200, End::Whole));
    assert!(answer.text().contains("\"n\":7"));
}
