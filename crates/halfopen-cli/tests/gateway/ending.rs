//! How the gateway ends.

use std::time::Duration;

use rustix::process::Signal;

use crate::client::{End, request};
use crate::stub::{Reply, Stub};
use crate::world::{Starting, policy, until};

fn stream(events: u32) -> Reply {
    let mut reply = Reply::events();
    for n in 0..events {
        reply = reply.event(&format!("{{\"n\":{n}}}")).wait(Duration::from_millis(40));
    }
    reply.event("last").end()
}

/// S137
#[test]
fn streams_finish_before_the_gateway_ends() {
    let stub = Stub::start();
    stub.always(stream(30));
    let mut gateway =
        Starting::new(&policy(&stub.url(), "")).word("--shutdown-grace=60s").word("--shutdown-pause=0.4s").start();
    let mut clients: Vec<_> = (0..5)
        .map(|_| {
            let mut client = gateway.connect();
            client.send(request("POST", "/d/up/x", &[], b"{}"));
            client
        })
        .collect();
    for client in &mut clients {
        assert!(client.head().is_some_and(|head| head.starts_with("HTTP/1.1 200")));
    }
    gateway.signal(Signal::TERM);
    until("it is no longer ready, and still answers", || gateway.get("/readyz").status == 503);
    assert_eq!(gateway.get("/healthz").status, 200);
    for client in &mut clients {
        let mut text = String::new();
        while !text.contains("last") {
            let mut piece = [0; 4096];
            let length = std::io::Read::read(&mut client.stream, &mut piece).expect("a stream that is not cut");
            assert!(length > 0, "cut after {text}");
            text.push_str(&String::from_utf8_lossy(&piece[..length]));
        }
    }
    drop(clients);
    assert!(gateway.ended().success());
    assert!(std::net::TcpStream::connect(gateway.address).is_err());
}

/// S137
#[test]
fn a_second_signal_and_the_end_of_the_grace_shorten_it() {
    let stub = Stub::start();
    stub.always(stream(2_000));
    for second in [true, false] {
        let grace = if second { "60s" } else { "0.5s" };
        let mut gateway = Starting::new(&policy(&stub.url(), ""))
            .word(&format!("--shutdown-grace={grace}"))
            .word("--shutdown-pause=0.1s")
            .start();
        let mut client = gateway.connect();
        client.send(request("POST", "/d/up/x", &[], b"{}"));
        assert!(client.head().is_some());
        gateway.signal(Signal::TERM);
        if second {
            until("it has heard the first", || gateway.get("/readyz").status == 503);
            gateway.signal(Signal::TERM);
        }
        // The stream would go on for longer than anybody waits here.
        gateway.ended();
        assert_eq!(gateway.state("up"), "closed");
    }
}

/// S137
#[test]
fn a_kept_connection_is_closed_after_its_answer() {
    let stub = Stub::start();
    let mut gateway = Starting::new(&policy(&stub.url(), "")).word("--shutdown-pause=0.1s").start();
    let mut idle = gateway.connect();
    assert_eq!(idle.call("GET", "/d/up/x", &[], b"").end, End::Whole);
    gateway.signal(Signal::TERM);
    assert!(idle.is_closed());
    assert!(gateway.ended().success());
}
