//! A dependency whose answers are wrong on purpose: nothing of one call reaches another, and nothing hangs.

use std::time::Duration;

use test_case::test_case;

use crate::client::{End, request};
use crate::stub::{Reply, Stub};
use crate::world::{gateway, until};

/// Two attempts, for calls that meet a connection that the gateway has just given up.
const TWICE: &str = "timeout_ms: 3000\nretry: { max_attempts: 2, base_ms: 1 }";

#[test_case(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nPOISON"; "a second answer")]
#[test_case(b"POISON"; "bytes behind the answer")]
#[test_case(b"\r\n"; "an empty line behind the answer")]
fn what_stands_behind_an_answer_is_nobodys_answer(more: &[u8]) {
    let stub = Stub::start();
    let gateway = gateway(&stub, TWICE);
    let mut reply = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{}".to_vec();
    reply.extend_from_slice(more);
    for n in 0..10 {
        stub.then([Reply::new().send(&reply)]);
        assert_eq!(gateway.get("/d/up/first").text(), "{}");
        let expected = format!("{{\"n\":{n}}}");
        stub.then([Reply::ok(&expected)]);
        assert_eq!(gateway.get("/d/up/second").text(), expected);
    }
}

/// Bytes that come while a connection is idle end it; what comes while a call waits on it nobody can tell from an answer.
#[test]
fn what_comes_unasked_ends_its_connection() {
    let stub = Stub::start();
    let gateway = gateway(&stub, TWICE);
    let unasked = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nPOISON";
    for n in 0..5 {
        stub.then([Reply::ok("{}").wait(Duration::from_millis(20)).send(unasked)]);
        assert_eq!(gateway.get("/d/up/x").text(), "{}");
        until("it has said more than it was asked", || stub.given() > 2 * n);
        assert_eq!(gateway.get("/d/up/x").text(), "{}");
        until("the second is answered", || stub.given() == 2 * n + 2);
    }
}

#[test_case(204, &[("content-length", "5")]; "no content with a length")]
#[test_case(204, &[("transfer-encoding", "chunked")]; "no content with a coding")]
#[test_case(304, &[("content-length", "500")]; "not modified with its length")]
#[test_case(304, &[("transfer-encoding", "chunked")]; "not modified with a coding")]
#[test_case(205, &[("content-length", "0")]; "reset content")]
fn an_answer_that_cannot_have_a_body_has_none_whatever_it_says(status: u16, fields: &[(&str, &str)]) {
    let stub = Stub::start();
    let gateway = gateway(&stub, TWICE);
    let mut client = gateway.connect();
    for method in ["GET", "HEAD"] {
        stub.then([Reply::new().head(status, fields)]);
        client.send(request(method, "/d/up/x", &[], b""));
        let head = client.head().expect("an answer");
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        let answer = client.call("GET", "/d/up/x", &[], b"");
        assert_eq!((answer.status, answer.text().as_str()), (200, "{}"));
    }
}

#[test]
fn a_body_behind_an_answer_to_head_is_nobodys_answer() {
    let stub = Stub::start();
    let gateway = gateway(&stub, TWICE);
    let mut client = gateway.connect();
    for _ in 0..10 {
        stub.then([Reply::new()
            .send(b"HTTP/1.1 200 OK\r\ncontent-length: 45\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nPOISON")]);
        assert_eq!(client.call("HEAD", "/d/up/x", &[], b"").status, 200);
        let answer = client.call("GET", "/d/up/x", &[], b"");
        assert_eq!(answer.text(), "{}");
    }
}

#[test]
fn an_unasked_change_of_protocol_is_no_answer() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "timeout_ms: 3000");
    stub.then([
        Reply::new().send(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n")
    ]);
    let answer = gateway.get("/d/up/x");
    assert_eq!(answer.status, 502, "{}", answer.head);
}

#[test]
fn interim_answers_without_end_are_bounded() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "timeout_ms: 400");
    let mut reply = Reply::new();
    for _ in 0..500 {
        reply =
            reply.send(&b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(20)).wait(Duration::from_millis(20));
    }
    stub.then([reply]);
    assert_eq!(gateway.get("/d/up/x").status, 504);
    assert_eq!(stub.given(), 0, "it was still going on");
}

#[test]
fn an_answer_with_length_and_coding_is_read_by_its_coding_alone() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "timeout_ms: 3000");
    let text = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    stub.then([Reply::new().send(text.as_bytes())]);
    let answer = gateway.get("/d/up/x");
    if answer.status == 200 {
        assert_eq!((answer.text().as_str(), answer.end), ("hello", End::Whole));
        assert_ne!(answer.field("content-length"), Some("3"));
    } else {
        assert_eq!(answer.status, 502);
    }
}

#[test_case("HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 0\r\n\r\n"; "a folded line")]
#[test_case("HTTP/1.1 200 OK\r\nx: a\0b\r\ncontent-length: 0\r\n\r\n"; "a NUL")]
#[test_case("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n"; "a negative length")]
#[test_case("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"; "a bad chunk")]
#[test_case("HTTP/1.1 abc OK\r\ncontent-length: 0\r\n\r\n"; "no status")]
#[test_case("HTTP/9.9 200 OK\r\ncontent-length: 0\r\n\r\n"; "no version")]
#[test_case("\r\n\r\n\r\n\r\n"; "nothing")]
fn an_answer_that_is_malformed_is_told_and_the_gateway_lives(answer: &str) {
    let stub = Stub::start();
    let gateway = gateway(&stub, "timeout_ms: 1500");
    stub.then([Reply::new().send(answer.as_bytes()).close()]);
    let answer = gateway.get("/d/up/x");
    assert!(answer.status >= 500 || answer.end == End::CutShort || answer.field("x").is_none(), "{answer:?}");
    assert_eq!(gateway.get("/d/up/x").status, 200);
}

#[test]
fn a_head_without_end_is_bounded() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "timeout_ms: 5000");
    let mut reply = Reply::new().send(b"HTTP/1.1 200 OK\r\n");
    for _ in 0..64 {
        reply = reply.send(format!("x: {}\r\n", "a".repeat(64 << 10)).as_bytes());
    }
    stub.then([reply.close()]);
    let answer = gateway.get("/d/up/x");
    assert_eq!(answer.status, 502, "{}", answer.head);
    assert!(gateway.memory("VmHWM:") < 80 << 10, "{} KiB", gateway.memory("VmHWM:"));
    assert_eq!(gateway.get("/d/up/x").status, 200);
}

/// What a dependency says about our own fields is not believed by callers.
#[test]
fn a_dependency_cannot_speak_for_the_gateway() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "circuit: { open_after_failures: 2, open_for_sec: 60 }");
    let fields = [("halfopen-outcome", "success"), ("halfopen-attempts", "9"), ("x-should-retry", "true")];
    stub.always(Reply::full(503, &fields, b"{}"));
    for _ in 0..2 {
        let answer = gateway.get("/d/up/x");
        assert_eq!(answer.all("halfopen-attempts"), ["1"]);
        assert_ne!(answer.field("halfopen-outcome"), Some("success"));
    }
    gateway.becomes("up", "open");
}
