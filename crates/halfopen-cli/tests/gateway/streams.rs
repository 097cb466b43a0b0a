//! Streams pass as they come, and what goes wrong inside them is seen.

use std::time::Duration;

use test_case::test_case;

use crate::client::{Client, request};
use crate::stub::{Gate, Reply, Stub};
use crate::world::{gateway, until};

const BREAKER: &str = "circuit: { open_after_failures: 3, failure_window_sec: 60, open_for_sec: 60 }";

/// S150
#[test]
fn heartbeats_are_forwarded_as_they_come() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "timeout_ms: 300\nidle_ms: 15000");
    let gates: Vec<Gate> = (0..12).map(|_| Gate::default()).collect();
    let mut reply = Reply::events();
    for gate in &gates {
        reply = reply.chunk(b": heartbeat\n\n").wait(Duration::from_millis(40)).gate(gate);
    }
    stub.then([reply.event("{\"done\":true}").end()]);
    let mut client = gateway.connect();
    client.send(request("GET", "/d/up/x", &[], b""));
    assert!(client.head().is_some_and(|head| head.starts_with("HTTP/1.1 200")));
    for gate in gates {
        // The next one is sent only after this one has arrived.
        assert_eq!(client.chunk(), b": heartbeat\n\n");
        gate.open();
    }
    assert_eq!(client.chunk(), b"data: {\"done\":true}\n\n");
    assert_eq!(client.chunk(), b"");
}

/// S018
#[test_case("openai", "{\"error\":{\"message\":\"The server is overloaded\",\"type\":\"server_error\",\"code\":\"overloaded\"}}"; "openai")]
#[test_case("anthropic", "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}"; "anthropic")]
fn an_error_inside_a_stream_counts(profile: &str, error: &str) {
    let stub = Stub::start();
    let gateway = gateway(&stub, &format!("profile: {profile}\n{BREAKER}"));
    let event = format!("event: error\ndata: {error}\n\n");
    for late in [false, true, false] {
        let mut reply = Reply::events();
        if late {
            reply = reply.chunk(b"event: message_start\ndata: {\"type\":\"message_start\"}\n\n");
        }
        stub.then([reply.chunk(event.as_bytes()).end()]);
        let answer = gateway.post("/d/up/x", "{\"stream\":true}");
        assert!(answer.text().contains(error), "{answer:?}");
    }
    gateway.becomes("up", "open");
}

/// S018
#[test]
fn a_stream_that_talks_about_errors_is_a_success() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &format!("profile: anthropic\n{BREAKER}"));
    let said = "{\"type\":\"content_block_delta\",\"delta\":{\"text\":\"HTTP 429 means rate_limit_error, 529 overloaded_error\"}}";
    stub.always(Reply::events().event(said).event(said).end());
    for _ in 0..5 {
        assert_eq!(gateway.post("/d/up/x", "{}").status, 200);
    }
    assert_eq!(gateway.state("up"), "closed");
}

/// S018
#[test]
fn a_document_with_status_200_that_is_an_error_counts() {
    let stub = Stub::start();
    let rule = "classify: [{ name: inner, when: [{ status: [2xx] }, { json: { path: error.message, says: quota exceeded } }], class: overloaded }]";
    let gateway = gateway(&stub, &format!("{BREAKER}\n{rule}"));
    stub.always(Reply::ok("{\"text\":\"an error: quota exceeded is what it said\"}"));
    for _ in 0..4 {
        assert_eq!(gateway.get("/d/up/x").status, 200);
    }
    assert_eq!(gateway.state("up"), "closed");
    stub.always(Reply::ok("{\"error\":{\"message\":\"quota exceeded\"}}"));
    for _ in 0..3 {
        let answer = gateway.get("/d/up/x");
        assert_ne!(answer.field("halfopen-outcome"), Some("success"), "{answer:?}");
    }
    gateway.becomes("up", "open");
}

/// S051
#[test]
fn callers_that_leave_are_not_the_dependencys_fault() {
    let stub = Stub::start();
    let gateway = gateway(&stub, BREAKER);
    let mut endless = Reply::events();
    for n in 0..400 {
        endless = endless.event(&format!("{{\"n\":{n}}}")).wait(Duration::from_millis(25));
    }
    stub.always(endless.end());
    let mut clients: Vec<Client> = (0..12)
        .map(|_| {
            let mut client = gateway.connect();
            client.send(request("POST", "/d/up/x", &[], b"{}"));
            client
        })
        .collect();
    for client in &mut clients {
        assert!(client.head().is_some_and(|head| head.starts_with("HTTP/1.1 200")));
    }
    for (n, client) in clients.into_iter().enumerate() {
        if n % 2 == 0 {
            // A reset instead of an end.
            let _ = rustix::net::sockopt::set_socket_linger(&client.stream, Some(Duration::ZERO));
        }
    }
    until("the dependency's connections are closed", || stub.open() == 0);
    assert_eq!(stub.given(), 0, "no stream came to its end");
    assert_eq!(gateway.state("up"), "closed");
    stub.always(Reply::ok("{}"));
    assert_eq!(gateway.get("/d/up/x").status, 200);
}

/// S051
#[test]
fn a_caller_that_leaves_before_the_answer_ends_the_attempt() {
    let stub = Stub::start();
    let gateway = gateway(&stub, &format!("timeout_ms: 20000\n{BREAKER}"));
    stub.always(Reply::new().hang());
    for n in 1..=4 {
        let mut client = gateway.connect();
        client.send(request("GET", "/d/up/x", &[], b""));
        stub.seen_at_least(n);
        drop(client);
    }
    until("the dependency's connections are closed", || stub.open() == 0);
    assert_eq!(gateway.state("up"), "closed");
}

#[test]
fn a_slow_reader_slows_the_dependency_down() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "timeout_ms: 20000");
    let mut reply = Reply::chunked(200, &[("content-type", "application/octet-stream")]);
    for _ in 0..64 {
        reply = reply.chunk(&vec![b'x'; 1 << 20]);
    }
    stub.then([reply.end()]);
    let mut client = gateway.connect();
    client.send(request("GET", "/d/up/x", &[], b""));
    client.head();
    // 64 MiB are on the way and nobody reads them: the gateway may hold what its buffers hold, not more.
    let (mut sent, mut looks) = (0, 0);
    until("the dependency is blocked", || {
        let more = stub.sent();
        looks = if more == sent { looks + 1 } else { 0 };
        sent = more;
        sent > 0 && looks > 40
    });
    assert_eq!(stub.given(), 0, "64 MiB went somewhere");
    assert!(gateway.memory("VmRSS:") < 60 << 10, "{} KiB", gateway.memory("VmRSS:"));
}
