//! A request's body is sent as it came, on every attempt.

use std::time::Duration;

use crate::client::{End, request};
use crate::stub::{Reply, Stub};
use crate::world::{gateway, until};

const AGAIN: &str = "replay: always\nretry: { max_attempts: 2, base_ms: 1, budget: { ratio: 1, per_minute: 1000 } }";

fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_u32;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state.to_le_bytes()[0]
        })
        .collect()
}

fn in_chunks(body: &[u8], size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in body.chunks(size) {
        bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

/// S013
#[test]
fn a_further_attempt_carries_the_same_bytes() {
    let stub = Stub::start();
    let gateway = gateway(&stub, AGAIN);
    stub.then([Reply::status(503, "{}"), Reply::ok("{\"ok\":true}")]);
    let body = noise(5 << 20);
    let mut client = gateway.connect();
    client
        .send("POST /d/up/x HTTP/1.1\r\nhost: g\r\ncontent-type: image/x-noise\r\ntransfer-encoding: chunked\r\n\r\n");
    client.send(in_chunks(&body, 70_000));
    let answer = client.answer();
    assert_eq!((answer.status, answer.field("halfopen-attempts")), (200, Some("2")));
    let seen = stub.seen();
    assert_eq!(seen.len(), 2);
    for seen in seen {
        assert!(seen.body == body, "{} bytes instead of {}", seen.body.len(), body.len());
        assert_eq!(seen.field("content-type"), Some("image/x-noise"));
    }
}

/// S013
#[test]
fn a_body_with_a_length_keeps_it_on_every_attempt() {
    let stub = Stub::start();
    let gateway = gateway(&stub, AGAIN);
    stub.then([Reply::new().reset(), Reply::ok("{}")]);
    let body = noise(100_000);
    assert_eq!(gateway.call("POST", "/d/up/x", &[], &body).status, 200);
    for seen in stub.seen() {
        assert!(seen.body == body);
        assert_eq!(seen.field("content-length"), Some("100000"));
        assert_eq!(seen.field("transfer-encoding"), None);
    }
}

/// S013
#[test]
fn a_body_that_was_not_kept_is_sent_once() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &format!("{AGAIN}\nreplay_body_bytes_max: 1 KiB"));
    stub.always(Reply::status(503, "{\"error\":\"busy\"}"));
    for chunked in [false, true] {
        let before = stub.seen().len();
        let body = noise(4000);
        let mut client = gateway.connect();
        if chunked {
            client.send("POST /d/up/x HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n");
            client.send(in_chunks(&body, 999));
        } else {
            client.send(request("POST", "/d/up/x", &[], &body));
        }
        let answer = client.answer();
        assert_eq!((answer.status, answer.text().as_str()), (503, "{\"error\":\"busy\"}"));
        assert_eq!(answer.field("halfopen-attempts"), Some("1"));
        let seen = stub.seen();
        assert_eq!(seen.len(), before + 1);
        assert!(seen[before].body == body);
    }
}

/// S148
#[test]
fn an_attempt_that_begins_while_the_body_arrives_sends_it_once() {
    let stub = Stub::start();
    let gateway = gateway(&stub, AGAIN);
    let body = noise(60_000);
    // The first attempt fails before, or while, the body is read; the second one reads all of it.
    stub.then([Reply::early().head(503, &[("content-length", "0")]), Reply::ok("{}")]);
    let mut client = gateway.connect();
    client.send(format!("POST /d/up/x HTTP/1.1\r\nhost: g\r\ncontent-length: {}\r\n\r\n", body.len()));
    for piece in body.chunks(20_000) {
        client.send(piece);
        // The next piece leaves when an attempt more is under way, or the last one is.
        until("an attempt", || !stub.seen().is_empty());
    }
    let answer = client.answer();
    assert_eq!((answer.status, answer.end), (200, End::Whole), "{}", answer.text());
    let seen = stub.seen();
    assert_eq!(seen.len(), 2);
    assert!(seen[1].body == body, "{} bytes", seen[1].body.len());
    assert_eq!(seen[1].field("content-length"), Some("60000"));
}

/// S013
#[test]
fn a_caller_that_breaks_off_its_body_starts_no_attempt_anew() {
    let stub = Stub::start();
    let gateway = gateway(&stub, AGAIN);
    let mut client = gateway.connect();
    client.send("POST /d/up/x HTTP/1.1\r\nhost: g\r\ncontent-length: 100\r\n\r\nonly this");
    until("the request is under way", || stub.connections() > 0);
    drop(client);
    until("it is broken off there too", || stub.open() == 0);
    assert!(stub.seen().len() <= 1);
    assert_eq!(gateway.state("up"), "closed");
}

/// S074
#[test]
fn a_malformed_chunk_is_refused_and_not_forwarded() {
    let stub = Stub::start();
    let gateway = gateway(&stub, AGAIN);
    let mut client = gateway.connect();
    client.send("POST /d/up/x HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0x5\r\nGET /d/up/smuggled HTTP/1.1\r\nhost: g\r\n\r\n");
    let answer = client.answer();
    assert_eq!((answer.status, answer.problem().as_str()), (400, "bad_framing"), "{}", answer.text());
    assert!(client.is_closed());
    assert!(stub.seen().iter().all(|seen| seen.target == "/x"));
    assert_eq!(gateway.state("up"), "closed");
    assert_eq!(gateway.get("/d/up/x").status, 200);
}

/// S143
#[test]
fn a_caller_that_asks_first_is_told_when_the_dependency_is() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    stub.then([Reply::early().send(b"HTTP/1.1 100 Continue\r\n\r\n").read_body().and_full(200, &[], b"took it")]);
    let body = noise(300_000);
    let mut client = gateway.connect();
    client.send(format!(
        "POST /d/up/x HTTP/1.1\r\nhost: g\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    ));
    assert_eq!(client.head().as_deref(), Some("HTTP/1.1 100 Continue"));
    client.send(&body);
    let answer = client.answer();
    assert_eq!((answer.status, answer.text().as_str()), (200, "took it"));
    assert!(stub.seen().last().is_some_and(|seen| seen.body == body));
}

/// S143
#[test]
fn a_dependency_that_declines_at_once_spares_the_caller_its_body() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    stub.then([Reply::early().and_full(413, &[], b"too big")]);
    let mut client = gateway.connect();
    client.send("POST /d/up/x HTTP/1.1\r\nhost: g\r\nexpect: 100-continue\r\ncontent-length: 10000000\r\n\r\n");
    let answer = client.answer();
    assert_eq!((answer.status, answer.text().as_str()), (413, "too big"));
    assert_eq!(answer.interim, Vec::<u16>::new());
    assert_eq!(gateway.get("/d/up/x").status, 200);
}

/// S143
#[test]
fn a_dependency_that_says_nothing_gets_the_body_after_a_second() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let mut client = gateway.connect();
    client.send("POST /d/up/x HTTP/1.1\r\nhost: g\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n");
    assert_eq!(client.head().as_deref(), Some("HTTP/1.1 100 Continue"));
    client.send("hello");
    assert_eq!(client.answer().status, 200);
    assert_eq!(stub.seen()[0].body, b"hello");
}

/// S143
#[test]
fn an_open_circuit_answers_without_the_body() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "circuit: { open_after_failures: 1, open_for_sec: 60 }");
    stub.then([Reply::status(503, "{}")]);
    gateway.get("/d/up/x");
    gateway.becomes("up", "open");
    let mut client = gateway.connect();
    client.send("POST /d/up/x HTTP/1.1\r\nhost: g\r\nexpect: 100-continue\r\ncontent-length: 5000000\r\n\r\n");
    let answer = client.answer();
    assert_eq!((answer.status, answer.problem().as_str()), (503, "circuit_open"));
    assert_eq!(answer.interim, Vec::<u16>::new());
}

#[test]
fn an_answer_before_the_body_is_passed_on() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    stub.then([Reply::early().and_full(413, &[], b"too big")]);
    let mut client = gateway.connect();
    let body = noise(3 << 20);
    client.send(format!("POST /d/up/x HTTP/1.1\r\nhost: g\r\ncontent-length: {}\r\n\r\n", body.len()));
    // It may stop listening at any time; that is its right.
    for piece in body.chunks(1 << 16) {
        if std::io::Write::write_all(&mut client.stream, piece).is_err() {
            break;
        }
    }
    let answer = client.answer();
    assert_eq!((answer.status, answer.text().as_str()), (413, "too big"));
}

#[test]
fn a_dependency_that_reads_nothing_is_timed_out() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "timeout_ms: 300");
    stub.then([Reply::early().wait(Duration::from_secs(5))]);
    let answer = {
        let mut client = gateway.connect();
        let body = noise(8 << 20);
        client.send(format!("PUT /d/up/x HTTP/1.1\r\nhost: g\r\ncontent-length: {}\r\n\r\n", body.len()));
        for piece in body.chunks(1 << 16) {
            if std::io::Write::write_all(&mut client.stream, piece).is_err() {
                break;
            }
        }
        client.answer()
    };
    assert_eq!(answer.status, 504, "{}", answer.text());
}
